"""For the demo: tenants that post, and what was promised, to be compared with the receiver's account."""

from __future__ import annotations

import msgspec

from duework import App
from systems.mailroom.mail import NewMessage
from systems.mailroom.outbox import outbox
from systems.mailroom.posting import post_many
from systems.mailroom.tenant import Wanted

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
        made += post_many(app, tenant, [_wanted(name, number) for number in numbers])
    return made


def _wanted(name: str, number: int) -> Wanted:
    subject = SUBJECTS[number % len(SUBJECTS)].format(n=7000 + number)
    text = f"Mail {number} of {name}."
    new = NewMessage(to=f"person-{number}@demo.example", subject=subject, text=text)
    return Wanted(f"{name}-{number}", new)


def promises(app: App) -> list[Promise]:
    """Every message that was taken and not cancelled, by the key under which the receiver has it."""
    rows = app.read(
        "select id, key, round, status, tenant, error from mailroom_queue"
        " where status <> 'cancelled' order by id"
    )
    return [
        Promise(
            outbox.provider.ledger_key(_sent_key(row)), row.id, row.tenant, row.status, row.error
        )
        for row in rows
    ]


def _sent_key(row: object) -> str:
    key, turn = str(getattr(row, "key")), int(getattr(row, "round"))  # noqa: B009
    return f"{key}:{turn}" if turn else key
