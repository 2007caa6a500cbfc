"""Clocks that are set and processes that stand still, without either."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from duework.clock import SystemClock
from duework.errors import Unavailable
from duework.kernel.machine.clock_watch import ASK_MS, RETRY_MS, ClockWatch, Reading, TakeoverPause

LEASE = 1000
HOUR = 3_600_000


class Clock(SystemClock):
    """A wall clock that can be set, and a boot clock that only goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.time = 5_000
        self.wrong = 0

    def wall(self) -> int:
        return self.time + self.wrong

    def boot(self) -> int:
        return self.time

    def monotonic(self) -> float:
        return self.time / 1000


class Desk:
    """A process, and perhaps a server that has the time."""

    def __init__(self, *, server: bool = False) -> None:
        self.clock = Clock()
        self.told: list[int] = []
        self.asked = 0
        self.server = server
        # By how much the server's clock is ahead of boot time.
        self.ahead = 0
        self.silent = False
        self.steps = ClockWatch(self.clock, self.look, self.told.append)
        self.steps.elsewhere = lambda ask: ask()
        self.steps.begin()
        self.asked = 0
        self.hold = TakeoverPause(self.clock, self.steps, LEASE)

    def look(self) -> Reading | None:
        self.asked += 1
        if self.silent:
            raise Unavailable
        return Reading(self.clock.time + self.ahead, self.clock.time, 0) if self.server else None


def test_a_worker_that_was_only_idle_holds_nothing_back() -> None:
    desk = Desk()

    for _ in range(100):
        desk.clock.time += LEASE // 4
        desk.hold.awake()

    assert desk.hold.ends_in() == 0


def test_a_process_that_stood_still_holds_back_for_one_lease() -> None:
    desk = Desk()

    desk.clock.time += 2 * LEASE

    assert desk.hold.ends_in() == LEASE
    for _ in range(4):
        desk.clock.time += LEASE // 4
        desk.hold.awake()
    assert desk.hold.ends_in() == 0


@pytest.mark.parametrize("by", [HOUR, -HOUR])
def test_after_a_step_of_the_clock_a_worker_holds_back_for_one_lease(by: int) -> None:
    desk = Desk()

    desk.clock.wrong = by
    assert desk.steps.checked_now() == desk.clock.time + by
    desk.steps.checked_now()

    assert desk.told == [by]
    assert desk.hold.ends_in() == LEASE


def test_a_clock_that_drifts_has_not_been_set() -> None:
    desk = Desk()

    for _ in range(10):
        desk.clock.wrong += 1500
        desk.steps.checked_now()

    assert desk.told == []
    assert desk.hold.ends_in() == 0


@pytest.mark.parametrize("by", [HOUR, -HOUR])
def test_where_a_server_has_the_time_setting_the_clock_moves_nothing(by: int) -> None:
    desk = Desk(server=True)

    desk.clock.wrong = by

    assert desk.clock.now() == desk.clock.time, "not even before anybody has noticed"
    assert desk.steps.checked_now() == desk.clock.time
    assert (desk.told, desk.asked) == ([by], 1)


def test_a_machine_that_was_stopped_gets_the_time_from_the_server() -> None:
    desk = Desk(server=True)

    # Its boot time stood still as well; then something sets its wall clock right.
    desk.ahead = desk.clock.wrong = HOUR
    desk.steps.checked_now()

    assert desk.steps.checked_now() == desk.clock.time + HOUR


def test_a_server_that_does_not_answer_keeps_nobody_waiting_and_is_asked_again() -> None:
    desk = Desk(server=True)
    asks: list[Callable[[], None]] = []
    desk.steps.elsewhere = asks.append
    desk.ahead = desk.clock.wrong = HOUR
    desk.silent = True

    assert desk.steps.checked_now() == desk.clock.time, "as before, without having asked"
    desk.steps.checked_now()
    assert (desk.told, desk.asked, len(asks)) == ([HOUR], 0, 1)
    asks.pop()()
    desk.clock.time += RETRY_MS - 1
    desk.steps.checked_now()
    assert asks == []
    desk.clock.time += 1
    desk.steps.checked_now()
    desk.silent = False
    asks.pop()()

    assert desk.steps.checked_now() == desk.clock.time + HOUR


def test_an_answer_from_before_a_step_is_not_believed() -> None:
    """The machine was stopped while it asked, and something has set its wall clock right since."""
    desk = Desk(server=True)
    look, looks = desk.look, 0

    def interrupted() -> Reading | None:
        nonlocal looks
        looks += 1
        found = look()
        if looks == 1:
            desk.ahead = desk.clock.wrong = HOUR
        return found

    desk.steps = ClockWatch(desk.clock, interrupted, desk.told.append)
    desk.steps.elsewhere = lambda ask: ask()
    desk.steps._ask_at = desk.clock.time  # noqa: SLF001 - it is time to ask
    desk.steps.checked_now()

    assert (looks, desk.steps.checked_now()) == (2, desk.clock.time + HOUR)


def test_one_at_a_time_asks_however_often_the_clock_is_set() -> None:
    desk = Desk(server=True)
    asks: list[Callable[[], None]] = []
    desk.steps.elsewhere = asks.append

    for _ in range(5):
        desk.clock.wrong += HOUR
        desk.steps.checked_now()
    assert len(asks) == 1
    asks.pop()()
    desk.clock.wrong += HOUR
    desk.steps.checked_now()

    assert (len(asks), desk.asked) == (1, 1)


def test_a_second_step_while_the_first_is_told_is_noticed() -> None:
    desk = Desk()

    def tell(by: int) -> None:
        desk.told.append(by)
        if len(desk.told) == 1:
            desk.clock.wrong -= 2 * HOUR
            desk.steps.checked_now()

    desk.steps = ClockWatch(desk.clock, desk.look, tell)
    desk.clock.wrong = HOUR
    desk.steps.checked_now()

    assert desk.told == [HOUR, -2 * HOUR]


def test_whoever_finds_a_step_noticed_already_finds_that_leases_are_held_back() -> None:
    """Another thread may come in between any two lines."""
    desk = Desk()

    class Noticed(ClockWatch):
        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value)
            if desk.clock.wrong and abs(desk.clock.wall() - self._clock.boot() - self._ahead) < 10:
                assert self.last == desk.clock.time

    desk.steps.__class__ = Noticed
    desk.clock.wrong = HOUR
    desk.steps.checked_now()

    assert desk.told == [HOUR]


def test_a_server_is_asked_now_and_then_since_clocks_drift() -> None:
    desk, alone = Desk(server=True), Desk()
    desk.ahead = 60

    for each in (desk, alone):
        each.clock.time += ASK_MS - 1
        each.steps.checked_now()
        assert each.asked == 0
        each.clock.time += 1
        each.steps.checked_now()
        each.steps.checked_now()

    assert (desk.asked, alone.asked) == (1, 0)
    assert desk.steps.checked_now() == desk.clock.time + 60
    assert desk.told == [], "that is no step"


def test_a_server_whose_own_clock_was_set_is_followed_and_that_is_told() -> None:
    desk = Desk(server=True)
    desk.ahead = HOUR

    desk.clock.time += ASK_MS
    desk.steps.checked_now()

    assert desk.steps.checked_now() == desk.clock.time + HOUR
    assert desk.told == [HOUR]
    assert desk.hold.ends_in() == LEASE


def test_how_often_the_time_that_rules_was_set_back_is_counted() -> None:
    alone, served = Desk(), Desk(server=True)

    for wrong in (HOUR, 0, 1000, 0, HOUR, 0):
        for desk in (alone, served):
            desk.clock.wrong = wrong
            desk.steps.checked_now()
    assert (alone.steps.backs, served.steps.backs) == (2, 0)

    for ahead in (HOUR, 0):
        served.ahead = ahead
        served.clock.time += ASK_MS
        served.steps.checked_now()
    assert served.steps.backs == 1


def test_an_answer_that_took_long_does_not_spoil_what_is_known_better() -> None:
    clock = Clock()
    clock.follow(7_000, 5_000, within=1)

    clock.follow(7_800, 5_000, within=900)
    assert clock.now() == 7_000
    clock.follow(9_000, 5_000, within=900)
    assert clock.now() == 9_000
