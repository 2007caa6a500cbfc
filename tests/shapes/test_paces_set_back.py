"""Paces and a clock that was ahead for a moment: nothing waits for the time it showed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest

from duework import Adaptive, App, Quota, Rate, Throttled, Tick
from duework.testing import Harness
from tests.support.checks import is_sound
from tests.support.clocks import SetClock
from tests.support.harness import HarnessOn

HOUR = 3_600_000


class Shop:
    """A harness whose clock can be set, and what started when by a clock that cannot."""

    def __init__(self, harness: Harness, clock: SetClock) -> None:
        self.h = harness
        self.clock = clock
        self.started: list[tuple[int, int]] = []

    def start(self, number: int) -> None:
        self.started.append((self.clock.boot(), number))

    def paced(self, pace: Any, **options: Any) -> Any:
        @self.h.app.task(pace=pace, **options)
        async def call(number: int, webhook: str = "a") -> None:
            self.start(number)

        return call

    def numbers(self) -> list[int]:
        return sorted(number for _, number in self.started)

    def sound(self) -> None:
        is_sound(self.h)


@pytest.fixture
def shop(emptied: str) -> Iterator[Shop]:
    harness = HarnessOn(App("sqlite:///never-opened.db"), emptied)
    harness.clock = clock = SetClock(harness.clock.now())
    with harness:
        yield Shop(harness, clock)


def set_right(shop: Shop) -> None:
    """By itself, under a worker."""
    shop.clock.wrong = 0


def restarted(shop: Shop) -> None:
    """While nobody works; whoever starts then has seen no step."""
    shop.h.crash_worker()
    shop.clock.wrong = 0
    shop.h.app.wiring.engine.clock_watch.begin()


RIGHT = pytest.mark.parametrize("right", [set_right, restarted])
Right = Callable[[Shop], None]


@RIGHT
@pytest.mark.parametrize(
    "pace",
    [
        Rate("10/1s"),
        Tick(5, "1s"),
        Quota("q", windows={"5s": 5}),
        Adaptive(interval=("1s", "2s")),
        [Rate("10/1s"), Quota("q", windows={"5s": 5})],
    ],
    ids=repr,
)
def test_what_is_paced_goes_on_when_the_clock_is_set_right(
    shop: Shop, pace: Any, right: Right
) -> None:
    call = shop.paced(pace)
    call.enqueue_many([(number,) for number in range(60)])
    shop.h.advance("2s")
    shop.clock.wrong = HOUR
    shop.h.advance("4s")

    right(shop)
    call.enqueue(60)
    shop.h.advance("2m")

    assert shop.numbers() == list(range(61))
    shop.sound()


@RIGHT
def test_lanes_of_a_pace_that_somebody_else_has_brought_back_go_on(
    shop: Shop, right: Right
) -> None:
    """What is left of the wrong time then is in the lane alone."""
    shared = Rate("1/1s", name="shared")
    one, two = shop.paced(shared, name="one"), shop.paced(shared, name="two")
    one.enqueue_many([(number,) for number in range(5)])
    two.enqueue(5)
    shop.clock.wrong = HOUR
    shop.h.drain()
    right(shop)
    with shop.h.app.transaction() as tx:
        tx.write("update duework_pace set state = '{}', changed = :now", now=shop.h.now)

    shop.h.advance("1m")

    assert shop.numbers() == list(range(6))


@RIGHT
def test_what_was_promised_by_a_clock_that_was_ahead_is_promised_anew(
    shop: Shop, right: Right
) -> None:
    call = shop.paced(Rate("1/1s", per="webhook"))
    call.enqueue_many([(number,) for number in range(4)])
    shop.h.advance("1500ms")
    shop.clock.wrong = HOUR
    call.enqueue_many([(number,) for number in range(4, 10)])
    call.enqueue_many([(number, "b") for number in range(10, 13)])
    shop.h.advance("1500ms")

    right(shop)
    call.enqueue(13)
    shop.h.advance("1m")

    assert shop.numbers() == list(range(14))
    starts = [time for time, number in shop.started if not 10 <= number < 13]
    # All were due at once when the clock jumped ahead.
    after = [time for time in starts if time > 3000]
    assert all(later - earlier >= 1000 for earlier, later in pairwise(after))
    assert after[0] <= 4000
    shop.sound()


def test_promises_are_taken_back_though_somebody_else_has_brought_back_their_pace(
    shop: Shop,
) -> None:
    """Between two workers that saw the step, one of which had not done so when it promised."""
    call = shop.paced(Rate("1/1s", per="webhook"))
    shop.h.drain()
    shop.clock.wrong = HOUR
    call.enqueue_many([(number,) for number in range(5)])
    shop.h.drain()
    shop.clock.wrong = 0
    with shop.h.app.transaction() as tx:
        tx.write("update duework_pace set state = '{}', changed = :now", now=shop.h.now)

    shop.h.advance("10s")

    assert shop.numbers() == list(range(5))


@RIGHT
def test_a_value_that_the_wrong_time_left_alone_keeps_its_pace(shop: Shop, right: Right) -> None:
    call = shop.paced(Rate("1/2h", per="webhook"))
    call.enqueue_many([(number,) for number in range(3)])
    shop.h.drain()
    shop.clock.wrong = HOUR
    call.enqueue_many([(number, "b") for number in range(3, 5)])
    shop.h.drain()

    right(shop)
    shop.h.advance("5h")

    assert [time for time, number in shop.started if number < 3] == [0, 2 * HOUR, 4 * HOUR]


def test_a_crash_while_it_is_brought_back_loses_nothing(shop: Shop) -> None:
    call, value = shop.paced(Tick(2, "1s")), shop.paced(Rate("1/1s", per="webhook"), name="value")
    call.enqueue_many([(number,) for number in range(5)])
    value.enqueue_many([(number,) for number in range(5, 10)])
    shop.clock.wrong = HOUR
    shop.h.drain()
    restarted(shop)

    crashes = sum(shop.h.crash_worker(at) for at in range(1, 30))
    shop.h.advance("1m")

    assert crashes > 15
    assert set(shop.numbers()) == set(range(10))
    assert all(job.state == "done" for job in shop.h.app.jobs() if "duework." not in job.task)
    shop.sound()


def test_a_worker_that_starts_leaves_alone_what_was_rightly_promised(shop: Shop) -> None:
    call = shop.paced(Rate("1/1s", per="webhook"))
    call.enqueue_many([(number,) for number in range(5)])
    shop.h.advance("500ms")
    promised = shop.h.app.read("select id, due, slot from duework_job order by id")

    shop.h.crash_worker()
    shop.h.drain()

    assert shop.h.app.read("select id, due, slot from duework_job order by id") == promised
    shop.h.advance("10s")
    assert [time for time, _ in shop.started] == [0, 1000, 2000, 3000, 4000]


@RIGHT
def test_a_pace_that_was_blocked_by_a_clock_that_was_ahead_is_blocked_no_longer_than_asked(
    shop: Shop, right: Right
) -> None:
    @shop.h.app.task(pace=Rate("10/1s"))
    async def call(number: int) -> None:
        shop.start(number)
        if shop.clock.wrong:
            raise Throttled("30s")

    shop.clock.wrong = HOUR
    call.enqueue(0)
    shop.h.drain()

    right(shop)
    call.enqueue(1)
    shop.h.advance("29s")
    assert shop.numbers() == [0]
    shop.h.advance("2s")

    assert shop.numbers() == [0, 1]
