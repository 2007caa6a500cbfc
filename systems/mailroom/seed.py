"""For the demo: tenants that post, and what was promised, to be compared with the receiver's account."""

from __future__ import annotations

import msgspec

from duework import App
from systems.mailroom.mail import NewMessage
from systems.mailroom.outbox import box, outbox
from systems.mailroom.posting import post_many

TENANTS = ("acme", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath")
SUBJECTS = ("Your order {n} is on its way", "Invoice {n}", "Welcome", "Password reset")


class Promise(msgspec.Struct, frozen=True):
    """A delivery that was promised: `key` is the one in the receiver's own account."""

    key: str
    id: int
    tenant: str
    state: str
    error: str | None


def seed(app: App, tenants: int = 3, messages: int = 200, name: str = "seed") -> int:
    """Let tenants post mails, the same ones for the same name; how many are new."""
    chosen = TENANTS[:tenants]
    made = 0
    for place, tenant in enumerate(chosen):
        numbers = range(place, messages, len(chosen))
        posted = post_many(app, tenant, [_wanted(name, number) for number in numbers])
        made += sum(not each.existed for each in posted)
    return made


def _wanted(name: str, number: int) -> tuple[str, NewMessage]:
    subject = SUBJECTS[number % len(SUBJECTS)].format(n=7000 + number)
    text = f"Mail {number} of {name}."
    new = NewMessage(to=f"person-{number}@demo.example", subject=subject, text=text)
    return f"{name}-{number}", new


def promises(app: App) -> list[Promise]:
    """Every message that was taken and not cancelled, by the key under which the receiver has it."""
    rows = app.read(
        "select id, key, status, tenant, error from mailroom_queue"
        " where status <> 'cancelled' order by id"
    )
    keys = _sent_keys()
    ledger_key = outbox.provider.ledger_key
    return [
        Promise(ledger_key(keys[row.id]), row.id, row.tenant, row.status, row.error)
        for row in rows
        if row.id in keys
    ]


def _sent_keys() -> dict[int, str]:
    """The key under which each message went to the provider last."""
    found: dict[int, str] = {}
    last = 2**62
    while page := box.messages(before=last, limit=1000):
        found |= {each.id: each.sent_key for each in page}
        last = page[-1].id
    return found
