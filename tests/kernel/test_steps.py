"""Clocks that are set and processes that stand still, without either."""

from __future__ import annotations

import pytest

from duework.errors import Unavailable
from duework.kernel.steps import Hold, Steps

LEASE = 1000
HOUR = 3_600_000


class Clock:
    """A wall clock that can be set, and a boot clock that only goes on."""

    def __init__(self) -> None:
        self.time = 5_000
        self.wrong = 0

    def now(self) -> int:
        return self.time + self.wrong

    def boot(self) -> int:
        return self.time

    def monotonic(self) -> float:
        return self.time / 1000


class Desk:
    def __init__(self) -> None:
        self.clock = Clock()
        self.told: list[int] = []
        self.asked = 0
        self.steps = Steps(self.clock, self.follow, self.told.append)
        self.hold = Hold(self.clock, self.steps, LEASE)

    def follow(self) -> None:
        self.asked += 1


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
    desk.steps.steady()
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


def test_a_server_that_cannot_be_asked_is_asked_again() -> None:
    desk = Desk()
    answers = [Unavailable(), None]

    def follow() -> None:
        if error := answers.pop(0):
            raise error

    steps = Steps(desk.clock, follow, desk.told.append)
    desk.clock.wrong = HOUR

    steps.steady()
    assert desk.told == []
    steps.steady()

    assert (desk.told, answers) == ([HOUR], [])
