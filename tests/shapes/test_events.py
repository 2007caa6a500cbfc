"""Events: every subscriber gets every event once, alone or in bulks, and what failed can be run again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from duework import (
    App,
    Event,
    Fail,
    NotFound,
    Part,
    PayloadTooLarge,
    Run,
    Subscription,
    Throttled,
    UsageError,
)
from duework.testing import Harness
from tests.support.checks import sound_at_the_end

TABLE = "create table got (who text, event bigint, size bigint)"
WRITE = "insert into got (who, event, size) values (:who, :event, :size)"


@pytest.fixture
def h(harness: Harness) -> Iterator[Harness]:
    with sound_at_the_end(harness, TABLE):
        yield harness


def listener(app: App | Part, who: str, event: str = "shipped", **options: Any) -> Subscription:
    """One that writes down what it gets."""

    @app.on(event, name=who, **options)
    async def listen(run: Run, event: Event) -> None:
        run.write(WRITE, who=who, event=event.id, size=1)

    return listen


def in_bulks(app: App, who: str = "many", bad: set[Any] | None = None, **options: Any) -> Any:
    """One that takes bulks, and raises for what is bad."""

    @app.on("shipped", name=who, bulk=3, within="5s", **options)
    async def listen(run: Run, events: list[Event]) -> None:
        for event in events:
            run.write(WRITE, who=who, event=event.id, size=len(events))
            if event.payload in (bad or ()):
                raise ValueError(f"{event.payload} is bad")

    return listen


def got(h: Harness) -> list[tuple[Any, ...]]:
    return [
        tuple(row) for row in h.app.read("select who, event, size from got order by who, event")
    ]


def test_every_subscriber_gets_every_event_once(h: Harness) -> None:
    for who in ("a", "b", "c"):
        listener(h.app, who)
    listener(h.app, "other", "returned")

    ids = [h.app.publish("shipped", {"order": each}) for each in (1, 2)]
    h.drain()

    assert got(h) == [(who, each, 1) for who in "abc" for each in ids]
    assert [each.subscriber for each in h.app.events.reached(ids[0])] == ["a", "b", "c"]
    assert {each.state for each in h.app.events.reached(ids[0])} == {"done"}


def test_what_nobody_subscribes_to_is_kept_and_reaches_nobody(h: Harness) -> None:
    event = h.app.publish("shipped")
    h.drain()

    assert h.app.events.get(event).payload is None
    assert h.app.events.reached(event) == []


def test_a_transaction_that_is_undone_publishes_nothing(h: Harness) -> None:
    listener(h.app, "a")

    with suppress(ZeroDivisionError), h.app.transaction() as tx:
        tx.publish("shipped", 1)
        raise ZeroDivisionError
    with h.app.transaction() as tx:
        event = tx.publish("shipped", 2)
    h.drain()

    assert got(h) == [("a", event, 1)]
    assert [each.payload for each in h.app.events.search("shipped")] == [2]


def test_a_run_publishes_with_its_settle_or_not_at_all(h: Harness) -> None:
    listener(h.app, "a")
    tries: list[int] = []

    @h.app.task(retries=1, backoff="1s")
    async def ship(run: Run) -> None:
        run.publish("shipped", len(tries))
        tries.append(1)
        if len(tries) == 1:
            raise ValueError

    ship.enqueue()
    h.advance("2s")

    assert [each.payload for each in h.app.events.search("shipped")] == [1]
    assert len(got(h)) == 1


class Shipped(msgspec.Struct):
    order: int


def test_a_payload_is_of_the_type_that_its_subscriber_says(h: Harness) -> None:
    seen: list[Any] = []

    @h.app.on("shipped")
    async def listen(event: Event[Shipped]) -> None:
        seen.append(event)

    event = h.app.publish("shipped", Shipped(7))
    h.drain()

    assert seen == [Event(event, "shipped", Shipped(7), h.app.events.get(event).at)]
    assert asyncio.run(listen(seen[0])) is None
    assert len(seen) == 2


def test_a_large_payload_is_refused_with_a_hint_and_nothing_is_written(h: Harness) -> None:
    listener(h.app, "a")

    with pytest.raises(PayloadTooLarge, match=r"app\.blobs"):
        h.app.publish("shipped", "x" * 10_240)
    with pytest.raises(UsageError, match="an event's name"):
        h.app.publish("not a name")

    h.app.publish("shipped", "x" * 10_238)
    assert len(h.app.events.search()) == 1


def test_a_function_that_takes_no_event_is_refused(h: Harness) -> None:
    with pytest.raises(UsageError, match="`Event`"):

        @h.app.on("shipped")
        async def one(event: int) -> None: ...

    with pytest.raises(UsageError, match=r"list\[Event\]"):

        @h.app.on("shipped", bulk=2)
        async def two(event: Event) -> None: ...

    with pytest.raises(UsageError, match="bulk"):

        @h.app.on("shipped", bulk=0)
        async def three(event: list[Event]) -> None: ...


def test_an_event_that_fails_is_tried_again_and_then_kept_for_its_subscriber(h: Harness) -> None:
    listener(h.app, "fine")
    broken = [True]

    @h.app.on("shipped", retries=1, backoff="1s")
    async def shaky(run: Run, event: Event) -> None:
        run.write(WRITE, who="shaky", event=event.id, size=1)
        if broken:
            raise ValueError("no")

    ids = [h.app.publish("shipped", each) for each in range(3)]
    h.advance("5s")

    assert [who for who, *_ in got(h)] == ["fine"] * 3
    assert [each.event.id for each in shaky.failed()] == ids[::-1]
    first = shaky.failed()[-1]
    assert (first.event.payload, first.failures, first.subscriber) == (0, 2, "shaky")
    assert "ValueError: no" in str(first.error)
    broken.clear()
    assert shaky.redrive([ids[1]]) == 1
    h.drain()
    assert [event for who, event, _ in got(h) if who == "shaky"] == [ids[1]]
    with pytest.raises(NotFound, match="no failed event"):
        shaky.redrive([ids[1]])
    assert shaky.purge([ids[0]]) == 1
    assert shaky.redrive() == 1
    h.drain()
    assert shaky.failed() == []
    assert [event for who, event, _ in got(h) if who == "shaky"] == [ids[1], ids[2]]


def test_a_new_subscriber_gets_the_past_that_it_asks_for_once(h: Harness) -> None:
    h.app.publish("shipped", "old")
    h.advance("2h")
    young = h.app.publish("shipped", "young")
    listener(h.app, "late", since="1h")
    listener(h.app, "later")

    new = h.app.publish("shipped", "new")
    h.drain()
    h.app.wiring.arm()
    h.drain()

    assert got(h) == [("late", young, 1), ("late", new, 1), ("later", new, 1)]


def test_a_subscriber_is_known_once_a_worker_of_it_has_started(h: Harness) -> None:
    part = Part("shop")
    listen = listener(part, "mail")
    h.app.include(part)
    assert listen.name == "shop.mail"
    h.app.wiring.arm()

    assert [(each.name, each.event) for each in h.app.events.subscribers()] == [
        ("shop.mail", "shipped")
    ]
    h.app.events.unsubscribe("shop.mail")
    with pytest.raises(NotFound):
        h.app.events.unsubscribe("shop.mail")
    assert h.app.events.subscribers() == []


def test_events_are_kept_for_a_week_and_failed_ones_of_a_subscriber_longer(h: Harness) -> None:
    @h.app.on("shipped", retries=0)
    async def never(event: Event) -> None:
        raise Fail("no")

    event = h.app.publish("shipped", 1)
    h.advance("8d")
    h.app.events.hooks.prune()

    with pytest.raises(NotFound):
        h.app.events.get(event)
    assert [each.event.id for each in never.failed()] == [event]
    assert never.redrive() == 1


def test_a_full_bulk_runs_at_once_and_others_after_a_while(h: Harness) -> None:
    in_bulks(h.app)

    ids = [h.app.publish("shipped", each) for each in range(4)]
    h.drain()
    assert [size for *_, size in got(h)] == [3, 3, 3]
    h.advance("4s")
    assert len(got(h)) == 3
    h.advance("1s")

    assert got(h) == [("many", each, 3) for each in ids[:3]] + [("many", ids[3], 1)]
    assert {each.state for each in h.app.jobs(task="many")} == {"done"}
    assert h.app.jobs(task="many.bulk") == []


def test_a_bad_event_fails_by_itself_and_takes_no_other_of_its_bulk_with_it(h: Harness) -> None:
    listen = in_bulks(h.app, bad={1}, retries=1, backoff="1s")

    ids = [h.app.publish("shipped", each) for each in range(6)]
    h.advance("10s")

    assert [event for _, event, _ in got(h)] == [ids[0], *ids[2:]]
    assert [size for *_, size in got(h)] == [1, 1, 3, 3, 3]
    assert [each.event.id for each in listen.failed()] == [ids[1]]
    assert listen.redrive() == 1


def test_events_that_a_bulk_gives_back_run_again_alone(h: Harness) -> None:
    seen: list[list[Any]] = []

    @h.app.on("shipped", bulk=3, backoff="1s")
    def listen(events: list[Event]) -> list[Event]:
        seen.append([event.payload for event in events])
        return [event for event in events if event.payload == 1 and len(seen) < 3]

    for each in range(3):
        h.app.publish("shipped", each)
    h.advance("5s")

    assert seen == [[0, 1, 2], [1], [1]]
    assert {each.state for each in h.app.jobs(task="listen")} == {"done"}


def test_a_throttled_bulk_waits_as_a_whole(h: Harness) -> None:
    calls: list[int] = []

    @h.app.on("shipped", bulk=2)
    async def listen(events: list[Event]) -> None:
        calls.append(len(events))
        if len(calls) == 1:
            raise Throttled("1m")

    h.app.publish("shipped")
    h.app.publish("shipped")
    h.advance("59s")
    assert calls == [2]
    h.advance("1m")

    assert calls == [2, 2]


def test_a_parked_event_can_be_cancelled_and_the_job_of_bulks_is_made_again(h: Harness) -> None:
    in_bulks(h.app)
    first, second = (h.app.publish("shipped", each) for each in range(2))
    [pump] = h.app.jobs(task="many.bulk")
    parked = {each.payload: each.id for each in h.app.jobs(task="many")}
    assert len(parked) == 2

    h.app.cancel(min(parked.values()))
    h.app.cancel(pump.id)
    h.advance("6s")

    assert got(h) == [("many", second, 1)]
    assert h.app.events.reached(first)[0].state == "cancelled"


def test_a_bulk_that_times_out_is_split(h: Harness) -> None:
    calls: list[int] = []

    @h.app.on("shipped", bulk=2, timeout="10s")
    async def listen(events: list[Event]) -> None:
        calls.append(len(events))
        if len(events) == 2:
            raise asyncio.CancelledError

    h.app.publish("shipped")
    h.app.publish("shipped")
    h.advance("1m")

    assert calls[0] == 2
    assert sorted(calls[1:]) == [1, 1]


def test_a_subscriber_that_takes_no_bulks_any_more_gets_what_is_parked(h: Harness) -> None:
    in_bulks(h.app)
    h.app.publish("shipped", 0)
    with h.app.wiring.engine.database.reading() as tx:
        assert tx.read("select count(*) as n from duework_event_job where parked = 1")[0].n == 1

    h.app.events.unsubscribe("many")
    h.drain()

    assert [size for *_, size in got(h)] == [1]
    assert h.app.jobs(task="many.bulk") == []
