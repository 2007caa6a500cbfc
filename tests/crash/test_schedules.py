"""Schedules, with the process lost before each statement of a fire, and of what operators do."""

from __future__ import annotations

from typing import Any

import pytest

from duework import Run
from duework.testing import Harness
from tests.crash.test_crash import WRITE, at_every_point, effects, h, in_every_call, nothing_is_held
from tests.support.checks import is_sound

__all__ = ["h"]

HOUR = 3_600_000


@pytest.fixture
def tick(h: Harness) -> Any:
    @h.app.task
    async def tick(run: Run, name: str) -> None:
        run.write(WRITE, job=run.job.id, what=f"{name} {run.slot}")

    return tick


def begin(h: Harness, tick: Any, **options: Any) -> int:
    """Three schedules that are due at the same moment; returns when that was planned."""
    with h.app.transaction() as tx:
        tx.write("delete from duework_schedule")
        for name in "abc":
            tx.schedule(tick, every="1h", args=(name,), key=name, **options)
    slot = h.now + HOUR
    h.clock.move_to(slot)
    return slot


def sound(h: Harness) -> None:
    nothing_is_held(h)
    is_sound(h)


@pytest.mark.parametrize("overlap", ["skip", "queue"])
def test_a_slot_is_fired_once_wherever_its_process_is_lost(
    h: Harness, tick: Any, overlap: str
) -> None:
    def check(slot: int) -> None:
        assert sorted(effects(h)) == [f"{name} {slot}" for name in "abc"]
        for each in h.app.schedules():
            assert (each.fires, each.last_slot, each.due) == (1, slot, slot + HOUR)
        sound(h)

    at_every_point(h, lambda: begin(h, tick, overlap=overlap), check, floor=25)


def test_the_last_slot_is_fired_once_wherever_its_process_is_lost(h: Harness, tick: Any) -> None:
    def check(slot: int) -> None:
        h.advance("5h")
        assert sorted(effects(h)) == [f"{name} {slot}" for name in "abc"]
        for each in h.app.schedules():
            assert (each.fires, each.counted, each.state) == (1, 1, "ended")
        sound(h)

    at_every_point(h, lambda: begin(h, tick, count=1), check, floor=25)


def test_an_idle_tick_is_noted_once(h: Harness) -> None:
    @h.app.task(every="1h", idle=lambda: True)
    async def crawl() -> None: ...

    def start() -> int:
        with h.app.transaction() as tx:
            tx.write("delete from duework_schedule")
        h.app.wiring.arm()
        h.clock.move_to(h.now + HOUR)
        return h.now

    def check(slot: int) -> None:
        seen = h.app.get_schedule("crawl")
        assert (seen.idles, seen.fires, seen.last_slot) == (1, 0, slot)
        sound(h)

    at_every_point(h, start, check, floor=12)


def test_what_an_operator_does_is_whole_or_not_at_all(h: Harness, tick: Any) -> None:
    def act(_: int) -> None:
        a, b, c = (h.app.get_schedule(name) for name in "abc")
        a.pause()
        a.resume()
        b.edit(every="2h")
        c.delete()
        h.app.schedule(tick, every="1h", args=("d",), key="d")
        b.fire_now()

    def check(slot: int) -> None:
        sound(h)
        h.advance("3h")
        sound(h)
        found = effects(h)
        assert len(found) == len(set(found))

    in_every_call(h, lambda: begin(h, tick) - HOUR, act, check, floor=40)
