"""Events whose worker or publisher is lost before every statement in turn."""

from __future__ import annotations

from typing import Any

from duework import Event, Run
from duework.shapes.events import SHAPE
from duework.testing import Harness
from tests.crash.test_crash import WRITE, at_every_point, h, in_every_call

__all__ = ["h"]


def forgotten(h: Harness) -> None:
    with h.app.transaction() as tx:
        for table in ("topic", "subscriber", "event", "event_job"):
            tx.write(f"delete from duework_{table}")


def sound(h: Harness) -> None:
    with h.app.wiring.engine.database.reading() as tx:
        for invariant in SHAPE.checks():
            assert tx.query(invariant.statement, {"bound": 9}) == [], invariant.name


def subscribed(h: Harness) -> None:
    for who in ("a", "b"):

        @h.app.on("shipped", name=who)
        async def one(run: Run, event: Event) -> None:
            run.write(WRITE, job=event.id, what=run.job.task)

    @h.app.on("shipped", name="many", bulk=2, within="5s")
    async def many(run: Run, events: list[Event]) -> None:
        for event in events:
            run.write(WRITE, job=event.id, what="many")


def effects(h: Harness) -> list[tuple[int, str]]:
    rows = h.app.read("select job, what from effect order by job, what")
    return [(row.job, row.what) for row in rows]


def test_each_event_takes_effect_once_at_each_subscriber(h: Harness) -> None:
    subscribed(h)

    def begin() -> Any:
        forgotten(h)
        return [h.app.publish("shipped", each) for each in range(3)]

    def check(ids: Any) -> None:
        sound(h)
        assert effects(h) == [(event, who) for event in ids for who in ("a", "b", "many")]

    at_every_point(h, begin, check, floor=25)


def test_a_publish_happens_whole_or_not_at_all(h: Harness) -> None:
    subscribed(h)

    def begin() -> None:
        forgotten(h)

    def act(_: Any) -> None:
        h.app.publish("shipped", 1)

    def check(_: Any) -> None:
        sound(h)
        for event in h.app.events.search("shipped"):
            assert [each.subscriber for each in h.app.events.reached(event.id)] == [
                "a",
                "b",
                "many",
            ]

    in_every_call(h, begin, act, check, floor=10)
