"""Bulks of events under rough treatment: released while they run, put off, run by hand, given odd answers."""

from __future__ import annotations

import asyncio
import threading
from contextlib import closing
from typing import Any

import pytest

from duework import App, Event, Fail, Run, Snooze, Throttled
from duework.kernel.job import NewJob
from duework.testing import Harness
from tests.shapes.test_events import WRITE, got, h, in_bulks
from tests.support.harness import HarnessOn

__all__ = ["h"]

# Looks that a test takes before it gives up.
LOOKS = 500


async def until(condition: Any) -> None:
    for _ in range(LOOKS):
        if await asyncio.to_thread(condition):
            return
        await asyncio.sleep(0)


def test_events_that_are_released_while_their_bulk_runs_take_effect_once(h: Harness) -> None:
    sizes: list[int] = []

    @h.app.on("shipped", name="many", bulk=3)
    async def listen(run: Run, events: list[Event]) -> None:
        sizes.append(len(events))
        for event in events:
            run.write(WRITE, who="many", event=event.id, size=len(events))
        if len(events) == 3:
            await asyncio.to_thread(h.app.events.unsubscribe, "many")
            await until(lambda: len(got(h)) == 3)

    ids = [h.app.publish("shipped", each) for each in range(3)]
    h.advance("1m")

    assert got(h) == [("many", each, 1) for each in ids]
    assert sizes == [3, 1, 1, 1]


def test_an_event_that_is_cancelled_while_its_bulk_runs_takes_no_effect(h: Harness) -> None:
    @h.app.on("shipped", name="many", bulk=2)
    async def listen(run: Run, events: list[Event]) -> None:
        for event in events:
            run.write(WRITE, who="many", event=event.id, size=len(events))
        if len(events) == 2:
            job = h.app.events.reached(events[0].id)[0].job
            await asyncio.to_thread(h.app.cancel, job)

    first, second = (h.app.publish("shipped", each) for each in range(2))
    h.advance("1m")

    assert got(h) == [("many", second, 1)]
    assert h.app.events.reached(first)[0].state == "cancelled"


@pytest.mark.parametrize("outcome", [Snooze("1m"), Throttled("1m")], ids=["snooze", "throttled"])
def test_a_bulk_that_is_put_off_stays_so_whatever_is_published_meanwhile(
    h: Harness, outcome: Any
) -> None:
    calls: list[int] = []

    @h.app.on("shipped", bulk=2)
    async def listen(events: list[Event]) -> None:
        calls.append(len(events))
        if len(calls) == 1:
            raise outcome

    for _ in range(2):
        h.app.publish("shipped")
    for _ in range(5):
        h.advance("10s")
        h.app.publish("shipped")
    h.drain()
    assert calls == [2]
    h.advance("1m")

    assert sum(calls[1:]) == 7


def test_a_parked_event_that_is_run_by_hand_runs_alone_and_once(h: Harness) -> None:
    in_bulks(h.app)
    ids = [h.app.publish("shipped", each) for each in range(2)]

    h.app.job(h.app.events.reached(ids[0])[0].job).run_now()
    h.drain()
    assert got(h) == [("many", ids[0], 1)]
    h.advance("10s")

    assert got(h) == [("many", each, 1) for each in ids]


@pytest.mark.parametrize("answer", [True, 3, "fine", [1, 2], {"ok": 1}], ids=str)
def test_what_a_bulk_returns_beside_events_changes_nothing(h: Harness, answer: Any) -> None:
    calls: list[int] = []

    @h.app.on("shipped", bulk=2)
    def listen(events: list[Event]) -> Any:
        calls.append(len(events))
        return answer

    for _ in range(3):
        h.app.publish("shipped")
    h.advance("1m")

    assert calls == [2, 1]
    assert {each.state for each in h.app.jobs(task="listen")} == {"done"}


def test_an_outcome_that_a_bulk_returns_is_what_it_says(h: Harness) -> None:
    said: list[Any] = [Snooze("1h"), Fail("all of it is bad")]
    calls: list[int] = []

    @h.app.on("shipped", bulk=2)
    async def listen(events: list[Event]) -> Any:
        calls.append(len(events))
        return said.pop(0) if len(events) == 2 else Fail("this one is bad")

    for _ in range(2):
        h.app.publish("shipped")
    h.advance("59m")
    assert calls == [2]
    h.advance("2m")

    assert calls == [2, 2, 1, 1]
    assert [each.failures for each in listen.failed()] == [1, 1]


def test_failed_jobs_of_a_task_that_was_no_subscriber_before_are_no_events(
    h: Harness, emptied: str
) -> None:
    before = App("sqlite:///never-opened.db")

    @before.task(name="listen", retries=0)
    async def old() -> None:
        raise ValueError("before")

    with HarnessOn(before, emptied, now=h.now) as last_version:
        old.enqueue()
        last_version.drain()

    @h.app.on("shipped", retries=0)
    async def listen(event: Event) -> None:
        raise ValueError("after")

    event = h.app.publish("shipped")
    h.drain()

    assert [each.event.id for each in listen.failed()] == [event]
    assert listen.redrive() == 1
    assert listen.purge() == 0
    assert [each.payload for each in h.app.jobs(phase="failed")] == ["{}"]


def test_an_event_that_waits_for_its_bulk_for_weeks_leaves_nothing_behind(h: Harness) -> None:
    in_bulks(h.app)
    h.drain()
    h.app.queue("default").pause()
    event = h.app.publish("shipped", 1)
    h.advance("20d")
    h.app.events.hooks.prune()
    h.app.queue("default").resume()
    h.advance("1m")
    assert [each[1] for each in got(h)] == [event]

    h.advance("8d")
    h.app.events.hooks.prune()

    assert h.app.read("select event from duework_event_job") == []


def test_whoever_unsubscribes_waits_for_those_who_publish(
    h: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    @h.app.on("shipped", name="many", bulk=3)
    async def listen(run: Run, events: list[Event]) -> None:
        for event in events:
            run.write(WRITE, who="many", event=event.id, size=len(events))

    first = h.app.publish("shipped", 0)
    h.advance("1m")
    engine, others = h.app.wiring.engine, list[threading.Thread]()
    enqueue = engine.enqueue

    def publishing(tx: Any, new: list[NewJob]) -> Any:
        if not others:
            # Who gets the event is read, and its job is not written yet.
            others.append(threading.Thread(target=other.events.unsubscribe, args=("many",)))
            others[0].start()
            others[0].join(0.3)
        return enqueue(tx, new)

    with closing(App(h.app.wiring.bound.url, clock=h.clock)) as other:
        assert [each.name for each in other.events.subscribers()] == ["many"]
        monkeypatch.setattr(engine, "enqueue", publishing)
        with h.app.transaction() as tx:
            event = tx.publish("shipped", 1)
        others[0].join(10)
    h.advance("1m")

    assert got(h) == [("many", first, 1), ("many", event, 1)]
    assert [each for each in h.app.admin.verify() if each.violations] == []
