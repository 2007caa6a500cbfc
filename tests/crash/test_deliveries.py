"""A delivery whose worker is lost before every statement in turn."""

from __future__ import annotations

from typing import Any

from duework import Channel, Fail, Send
from duework.shapes.deliveries import SHAPE
from duework.testing import Harness
from tests.crash.test_crash import WRITE, at_every_point, effects, h, rows

__all__ = ["h"]


def forgotten(h: Harness, begin: Any) -> Any:
    """Channels of the run before are none of ours: ids begin where they were."""
    with h.app.transaction() as tx:
        tx.write("delete from duework_delivery")
    return begin()


def test_no_channel_is_lost_and_none_is_sent_twice_without_a_key(h: Harness) -> None:
    tries: list[tuple[str, str | None]] = []
    bodies: list[int] = []

    async def plain(payload: int) -> None:
        tries.append(("plain", None))

    async def flaky(payload: int, key: str) -> None:
        tries.append(("flaky", key))
        if len([name for name, _ in tries if name == "flaky"]) == 1:
            raise ValueError("not yet")

    channels = {"plain": Channel(plain), "flaky": Channel(flaky)}

    @h.app.delivery(channels=channels, partial="retry-failed", retries=1, backoff="0s")
    def reminder(user: int) -> dict[str, int]:
        bodies.append(user)
        return {"plain": 1, "flaky": 2}

    def begin() -> Any:
        tries.clear()
        bodies.clear()
        return reminder.enqueue(7)

    def check(job: Any) -> None:
        found = {each.channel: each for each in reminder.channels(job)}
        sends = [name for name, _ in tries]
        # The body runs again only if it was lost before its choice was stored.
        assert len(bodies) <= 2
        assert sends.count("plain") <= 1
        assert found["plain"].state in {"sent", "unsure"}
        assert found["plain"].state == "unsure" or sends.count("plain") == 1
        assert found["flaky"].state == "sent"
        assert len({key for name, key in tries if name == "flaky"}) == 1
        # Each of them was started before; one that was started may not have been tried.
        assert 0 <= found["flaky"].sends - sends.count("flaky") <= 1
        (row,) = rows(h).values()
        assert row.state == "done"
        assert row.failures <= 1
        with h.app.wiring.engine.database.reading() as tx:
            for invariant in SHAPE.checks():
                assert tx.query(invariant.statement, {"bound": 9}) == []

    at_every_point(h, lambda: forgotten(h, begin), check, floor=60)


def test_what_a_sender_writes_is_there_exactly_if_its_outcome_is(h: Harness) -> None:
    async def good(to: Send, payload: int) -> None:
        to.write(WRITE, job=payload, what="sent")

    def gone(to: Send, payload: int, key: str) -> None:
        to.write(WRITE, job=payload, what="failed")
        raise Fail("410")

    @h.app.delivery(channels={"good": Channel(good), "gone": Channel(gone)}, retries=0)
    def notice(user: int) -> dict[str, int]:
        return {"good": user, "gone": user}

    def check(job: Any) -> None:
        found = {each.channel: each.state for each in notice.channels(job)}
        assert found["good"] in {"sent", "unsure"}
        # It takes a key: after a loss it is sent again, and fails again.
        assert found["gone"] == "failed"
        assert sorted(effects(h)) == sorted(set(found.values()) - {"unsure"})

    at_every_point(h, lambda: forgotten(h, lambda: notice.enqueue(7)), check, floor=40)
