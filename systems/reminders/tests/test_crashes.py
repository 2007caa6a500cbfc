"""The worker is lost at any statement: nothing is lost, and no mail goes out twice."""

from __future__ import annotations

import asyncio
import base64
from contextlib import closing
from datetime import UTC, datetime

import pytest

from duework import App
from duework.testing import Harness
from systems.reminders import book, log
from systems.reminders.part import part
from systems.reminders.promises import promises
from systems.reminders.seed import seed
from systems.reminders.tests.conftest import Hook, remind, use
from systems.twins import Twins, twins


def at(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat()


@pytest.mark.rows("003-T8", "003-T9")
def test_wherever_the_worker_dies_each_mail_goes_out_once(h: Harness, t: Twins) -> None:
    hook = Hook(t)
    h.drain()
    statement, crashed, rounds = 1, True, 0
    while crashed:
        remind(email="ada@demo.example", endpoint=hook.id, at=at(h.now + 60_000))
        h.clock.move_to(h.now + 60_000)
        crashed = h.crash_worker(at=statement)
        h.advance("1h")
        statement, rounds = statement + 3, rounds + 1

    assert rounds > 5
    assert book.every() == []
    assert {each.outcome for each in log.recent(limit=500)} == {"success"}
    mails = t.resend.ledger.counts("key", "mail")
    assert set(mails.values()) == {1}
    assert set(mails) == {each.key for each in promises(h.app) if each.channel == "email"}
    assert len(mails) == rounds
    # A receiver of webhooks knows a second one by its id.
    ids = {each.key for each in promises(h.app) if each.channel == "webhook"}
    assert set(t.hooks.ledger.counts("id", "delivered")) == ids
    assert [each for each in h.app.admin.verify() if each.violations] == []


@pytest.mark.rows("003-T9")
def test_a_day_with_lost_replies_and_kills_keeps_every_promise(h: Harness, t: Twins) -> None:
    seeded = seed(h.app, people=4, count=16)
    assert (seeded.reminders, len(seeded.endpoints)) == (16, 4)
    for name, _, secret in seeded.endpoints:
        t.hooks.endpoint(name, "standard", [secret])
    t.resend.faults.set([{"route": "emails.send", "calls": "10%", "do": "drop_after"}], 7)
    t.hooks.faults.set([{"route": "hook", "calls": "10%", "do": "drop_after"}], 7)

    for _ in range(4):
        h.advance("15m")
        h.crash_worker()
    t.resend.faults.set([])
    t.hooks.faults.set([])
    for each in book.every():
        book.delete(each.id) if each.state == "active" else None
    h.advance("1h")

    made = promises(h.app)
    assert len(made) > 50
    assert {each.state for each in made} <= {"sent", "cancelled"}
    sent = {each.key for each in made if each.state == "sent"}
    mails = t.resend.ledger.counts("key", "mail")
    hooked = t.hooks.ledger.counts("id", "delivered")
    assert set(mails.values()) == {1}
    assert sent <= mails.keys() | hooked.keys()
    assert mails.keys() | hooked.keys() <= {each.key for each in made}
    assert t.hooks.ledger.of("forged") == []


def test_seeding_again_adds_nothing(h: Harness, t: Twins) -> None:
    seed(h.app, people=3, count=9)
    h.advance("1h")

    again = seed(h.app, people=3, count=9)

    assert (again.reminders, again.endpoints) == (0, [])


@pytest.mark.rows("003-05")
def test_a_worker_that_is_told_to_stop_ends_what_it_is_sending(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App(address, secrets_key=base64.b64encode(bytes(32)).decode())
    app.include(part)

    async def main(t: Twins) -> None:
        async with app.running():
            while not t.hooks.log.calls:  # noqa: ASYNC110 - what a receiver sees has no event here
                await asyncio.sleep(0.01)

    with twins(None, "hooks") as t, closing(app):
        use(monkeypatch, hooks_url=t.hooks.url)
        hook = Hook(t)
        t.hooks.faults.set([{"route": "hook", "calls": "1", "do": "delay", "seconds": 0.3}])
        remind(endpoint=hook.id, at=at(app.now()))
        asyncio.run(main(t))

        assert len(t.hooks.ledger.of("delivered")) == 1
        [promise] = promises(app)
        assert promise.state == "sent"
