"""An outbox whose worker is lost before every statement in turn."""

from __future__ import annotations

from typing import Any

import pytest

from duework import Accepted, Outbox, Sent
from duework.shapes.outboxes import SHAPE
from duework.testing import Harness
from tests.crash.test_crash import at_every_point, h, in_every_call, nothing_is_held

__all__ = ["h"]


class Upstream(Outbox[str]):
    """Counts what it has taken, and, with a memory of keys, takes each key once."""

    backoff = "1s"
    poll_every = "1s"

    def __init__(self, memory: str | None) -> None:
        self.remembers_keys = memory
        self.submits: list[str] = []

    async def submit(self, message: str, key: str) -> Accepted:
        self.submits.append(key)
        return Accepted(f"op:{key}")

    async def poll(self, handle: str, message: str) -> Sent:
        assert handle.removeprefix("op:") in self.submits
        return Sent()


def forgotten(h: Harness) -> None:
    with h.app.transaction() as tx:
        tx.write("delete from duework_outbox")


def sound(h: Harness) -> None:
    with h.app.wiring.engine.database.reading() as tx:
        for invariant in SHAPE.checks():
            assert tx.query(invariant.statement, {"bound": 9}) == []


@pytest.mark.parametrize("memory", ["1d", None])
def test_no_message_is_lost_and_none_is_taken_twice_without_a_memory_of_keys(
    h: Harness, memory: str | None
) -> None:
    there = Upstream(memory)
    mail = h.app.outbox("mail", there)

    def begin() -> Any:
        forgotten(h)
        there.submits.clear()
        return mail.enqueue("hi")

    def check(row: Any) -> None:
        found = mail.get_message(row.id)
        assert set(there.submits) <= {row.key}
        if memory is None:
            assert len(there.submits) <= 1
            assert found.state == "sent" or (found.state == "unsure" and found.handle is None)
        else:
            assert found.state == "sent"
        nothing_is_held(h)
        sound(h)

    at_every_point(h, begin, check, floor=25)


def test_a_retry_or_a_cancellation_happens_whole_or_not_at_all(h: Harness) -> None:
    there = Upstream("1d")
    mail = h.app.outbox("mail", there)

    def begin() -> Any:
        forgotten(h)
        rows = mail.using(delay="1h").enqueue_many(["a", "b"])
        mail.cancel(rows[0].id)
        return rows

    def act(rows: Any) -> None:
        mail.retry(rows[0].id)
        mail.cancel(rows[1].id)
        mail.using(key="k", delay="1h").enqueue("c")

    def check(rows: Any) -> None:
        states = [mail.get_message(row.id).state for row in rows]
        assert states in (["cancelled", "queued"], ["queued", "queued"], ["queued", "cancelled"])
        again = mail.using(key="k", delay="1h").enqueue("c")
        assert again.existed <= (states == ["queued", "cancelled"])
        sound(h)

    in_every_call(h, begin, act, check, floor=15)
