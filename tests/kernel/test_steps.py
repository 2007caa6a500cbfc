"""Clocks that are set and processes that stand still, without either."""

from __future__ import annotations

import pytest

from duework.clock import SystemClock
from duework.errors import Unavailable
from duework.kernel.steps import ASK_MS, Hold, Steps

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
        self.steps = Steps(self.clock, self.follow, self.told.append)
        self.steps.begin()
        self.asked = 0
        self.hold = Hold(self.clock, self.steps, LEASE)

    def follow(self) -> bool:
        self.asked += 1
        if self.silent:
            raise Unavailable
        if self.server:
            self.clock.follow(self.clock.time + self.ahead, self.clock.time)
        return self.server


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
    assert desk.steps.steady() == desk.clock.time + by
    desk.steps.steady()

    assert (desk.told, desk.asked) == ([by], 1)
    assert desk.hold.ends_in() == LEASE


def test_a_clock_that_drifts_has_not_been_set() -> None:
    desk = Desk()

    for _ in range(10):
        desk.clock.wrong += 1500
        desk.steps.steady()

    assert desk.told == []
    assert desk.hold.ends_in() == 0


@pytest.mark.parametrize("by", [HOUR, -HOUR])
def test_where_a_server_has_the_time_setting_the_clock_moves_nothing(by: int) -> None:
    desk = Desk(server=True)

    desk.clock.wrong = by

    assert desk.clock.now() == desk.clock.time, "not even before anybody has noticed"
    assert desk.steps.steady() == desk.clock.time
    assert (desk.told, desk.asked) == ([by], 1)


def test_a_machine_that_was_stopped_gets_the_time_from_the_server() -> None:
    desk = Desk(server=True)

    # Its boot time stood still as well; then something sets its wall clock right.
    desk.ahead = desk.clock.wrong = HOUR

    assert desk.steps.steady() == desk.clock.time + HOUR


@pytest.mark.parametrize("server", [True, False])
def test_one_that_cannot_be_asked_is_asked_again_and_the_time_goes_on(*, server: bool) -> None:
    desk = Desk(server=server)
    desk.clock.wrong = HOUR

    desk.silent = True
    now = desk.steps.steady()
    assert now == desk.clock.time + (0 if server else HOUR)
    assert desk.told == []
    desk.silent = False
    desk.steps.steady()

    assert (desk.told, desk.asked) == ([HOUR], 2)


def test_a_second_step_while_the_first_is_looked_into_is_noticed() -> None:
    desk = Desk(server=True)
    follow = desk.follow

    def slowly() -> bool:
        answer = follow()
        desk.clock.wrong -= 2 * HOUR if desk.asked == 1 else 0
        return answer

    desk.steps = Steps(desk.clock, slowly, desk.told.append)
    desk.clock.wrong = HOUR
    desk.steps.steady()
    desk.steps.steady()

    assert desk.told == [HOUR, -2 * HOUR]


def test_a_server_is_asked_now_and_then_since_clocks_drift() -> None:
    desk, alone = Desk(server=True), Desk()
    desk.ahead = 60

    for each in (desk, alone):
        each.clock.time += ASK_MS - 1
        assert not each.steps.stale
        each.clock.time += 1

    assert (desk.steps.stale, alone.steps.stale) == (True, False)
    desk.steps.ask_again()
    assert not desk.steps.stale
    assert desk.steps.steady() == desk.clock.time + 60
    assert desk.told == [], "that is no step"


def test_a_server_that_does_not_answer_is_not_asked_all_the_time() -> None:
    desk = Desk(server=True)
    desk.silent = True

    desk.clock.time += ASK_MS
    desk.steps.ask_again()

    assert (desk.asked, desk.steps.stale) == (1, False)


def test_an_answer_that_took_long_does_not_spoil_what_is_known_better() -> None:
    clock = Clock()
    clock.follow(7_000, 5_000, within=1)

    clock.follow(7_800, 5_000, within=900)
    assert clock.now() == 7_000
    clock.follow(9_000, 5_000, within=900)
    assert clock.now() == 9_000
