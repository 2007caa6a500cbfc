"""An operator who runs again what failed meanwhile, a number that is none, and a day without workers."""

from __future__ import annotations

from unittest.mock import patch

import msgspec
import pytest

from duework import Fail, Secret
from systems.scout.desk import stars, steering
from systems.scout.part import part
from systems.scout.tests.conftest import MINUTE, World
from systems.scout.upkeep import alerts


class Refusing:
    """A provider that takes nothing."""

    async def post(self, *_: object, **__: object) -> None:
        raise Fail("no")


def test_what_failed_is_run_again_beside_one_whose_work_another_does_by_now(world: World) -> None:
    keyed = msgspec.structs.replace(part.settings, resend_key=Secret("x"))
    with (
        patch.object(part, "_settings", keyed),
        patch.object(alerts, "client", lambda _: Refusing()),
    ):
        alerts.mail.enqueue("s", "t", "1")
        alerts.mail.using(key="k").enqueue("s", "t", "2")
        alerts.mail.enqueue("s", "t", "3")
        world.h.drain()
    alerts.mail.using(key="k", delay="1h").enqueue("s", "t", "2")
    assert len(steering.failed()) == 3

    assert steering.all_again() == 2


@pytest.mark.parametrize("ref", ["9" * 25, "\u00b2", "-1", "x"])
def test_a_star_of_a_number_that_nobody_has_is_told_so(world: World, ref: str) -> None:
    assert stars.name_of(world.app.read, "app", ref) is None


@pytest.mark.rows("001-156", "001-157", "001-159")
def test_cycles_that_were_missed_are_one_and_the_controller_stays_within_its_bounds(
    world: World,
) -> None:
    world.seed((6014, "high"))
    batches, intervals = set(), set()
    for _ in range(30):
        world.h.advance("1m")
        details = world.app.get_pace("enrich").details
        batches.add(details["current_batch_size"])
        intervals.add(details["current_interval_ms"])
    cron = world.app.get_schedule("scout.crawl")
    assert (cron.fires + cron.idles, len(batches) > 1) == (6, True)
    assert 2 <= min(batches) <= max(batches) <= 50
    assert 10_000 <= min(intervals) <= max(intervals) <= 120_000
    assert world.busiest_minute() <= 20

    # Nobody is there for a day, which is 288 cycles.
    world.h.clock.move_to(world.h.now + 24 * 60 * MINUTE)
    world.h.advance("3m")

    later = cron.refresh()
    assert later.fires + later.idles == 7
