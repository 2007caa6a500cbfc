"""Steps of the wall clock: for one lease length after one, no lease of others is taken over."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from duework.kernel.facts import ClockStepped
from duework.kernel.worker import StepWatch
from tests.support.kernel import LEASE, START


class Clocks:
    """A wall clock and a boot clock that can be moved apart."""

    def __init__(self) -> None:
        self.wall, self.since_boot = START, 0

    def now(self) -> int:
        return self.wall

    def boot(self) -> int:
        return self.since_boot

    def monotonic(self) -> float:
        return self.since_boot / 1000

    def pass_(self, ms: int) -> None:
        self.wall += ms
        self.since_boot += ms


def watched() -> tuple[Clocks, StepWatch, list[Any]]:
    clocks, told = Clocks(), []
    engine: Any = SimpleNamespace(clock=clocks, tell=told.append)
    return clocks, StepWatch(engine, LEASE), told


@pytest.mark.parametrize("step", [3_600_000, -3_600_000, 2001, -2001])
def test_after_a_step_leases_are_left_alone_for_one_lease_length(step: int) -> None:
    clocks, watch, told = watched()
    clocks.pass_(1000)
    assert watch.may_take_over()

    clocks.wall += step
    assert not watch.may_take_over()
    assert watch.hold_ends_in() == LEASE
    clocks.pass_(LEASE - 1)
    assert not watch.may_take_over()
    clocks.pass_(1)

    assert watch.may_take_over()
    assert told == [ClockStepped(step)]


@pytest.mark.parametrize("step", [2000, -2000, 0])
def test_a_small_correction_is_no_step(step: int) -> None:
    clocks, watch, told = watched()

    clocks.wall += step

    assert watch.may_take_over()
    assert told == []


def test_many_small_corrections_are_no_step() -> None:
    clocks, watch, _ = watched()

    for _ in range(100):
        clocks.pass_(1000)
        clocks.wall += 500
        assert watch.may_take_over()


def test_a_process_that_stood_still_for_longer_than_a_lease_takes_over_nothing_at_first() -> None:
    clocks, watch, told = watched()

    clocks.pass_(LEASE + 1)

    assert not watch.may_take_over()
    clocks.pass_(LEASE)
    assert watch.may_take_over()
    assert told == []
