"""What an App says of itself at a look: what is stuck, and what only waits."""

from __future__ import annotations

from duework import Rate
from duework.health.status import stuck
from duework.testing import Harness


def test_what_a_pace_held_until_a_moment_ago_is_not_stuck(harness: Harness) -> None:
    @harness.app.task(pace=Rate("1/10m", name="slow"))
    async def call(number: int) -> int:
        return number

    call.enqueue_many([(number,) for number in range(5)])
    harness.drain()
    harness.clock.move_to(harness.now + 600_000)

    (line,) = [each for each in harness.app.status().tasks if each.task == "call"]
    assert (line.lag, line.held_until) == (600_000, None)
    assert line.free_for is not None
    assert line.free_for < 1_000
    assert stuck(harness.app.status()) == []

    harness.clock.move_to(harness.now + 61_000)
    assert [each.task for each in stuck(harness.app.status())] == ["call"]
    harness.drain()
    assert stuck(harness.app.status()) == []


def test_what_nobody_takes_is_late_by_what_a_worker_takes_really(harness: Harness) -> None:
    @harness.app.task
    async def greet() -> None: ...

    greet.enqueue()
    harness.clock.move_to(harness.now + 90_000)

    assert [each.task for each in stuck(harness.app.status())] == ["greet"]
    assert [each.kind for each in harness.app.needs()] == ["no worker"]
    # An hour in a minute: it is ready for a second and a half.
    harness.clock.speed = 60.0
    assert stuck(harness.app.status()) == []
    assert harness.app.needs() == []


def test_a_schedule_that_nobody_fires_is_stuck_though_no_job_waits(harness: Harness) -> None:
    @harness.app.task(cron="*/5 * * * *")
    async def greet() -> None: ...

    harness.drain()
    harness.clock.move_to(harness.now + 300_000)
    assert stuck(harness.app.admin.status(own=True)) == []

    harness.clock.move_to(harness.now + 90_000)

    assert [each.task for each in stuck(harness.app.admin.status(own=True))] == ["duework.fire"]
    harness.drain()
    assert stuck(harness.app.admin.status(own=True)) == []
