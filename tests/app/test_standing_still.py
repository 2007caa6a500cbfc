"""A worker that stood still, and one that may not write: what still runs, and what is heard."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from duework import App


def test_a_job_that_is_claimed_again_while_it_runs_here_has_one_attempt_and_one_slot(
    app: App,
) -> None:
    told: list[str] = []

    @app.task
    async def long(name: str) -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            told.append("stop")
            raise

    async def scenario() -> None:
        worker = app.worker()
        running = asyncio.create_task(worker.run())
        job = await long.aenqueue("ada")
        held = worker._attempts  # noqa: SLF001 - the state that must not leak
        while job.id not in held.running:  # noqa: ASYNC110 - it starts when it starts
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        old = held.running[job.id]

        held.start([msgspec.structs.replace(old.job, fence=old.job.fence + 1)])
        await asyncio.sleep(0.05)

        assert told == ["stop"], "the old attempt is no longer ours"
        assert held.running[job.id] is not old
        assert held.leases[job.id] == old.job.fence + 1, "and its end does not take the new lease"
        assert held.free()["async"] == app.settings.async_slots - 1
        assert held.excused == [(job.id, old.job.fence)] or not held.excused
        worker.stop(0)
        await running
        assert held.free()["async"] == app.settings.async_slots

    asyncio.run(asyncio.wait_for(scenario(), 20))


def test_a_worker_that_may_not_write_does_not_keep_the_loop_from_running(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = 0

    @app.task
    async def later() -> None: ...

    async def scenario() -> None:
        nonlocal turns
        async with app.running():
            await later.using(delay="100ms").aenqueue()
            await asyncio.sleep(0.05)
            monkeypatch.setattr(app.engine.database, "short", lambda: "the disk is full")
            for _ in range(20):
                await asyncio.sleep(0.02)
                turns += 1
            monkeypatch.undo()

    asyncio.run(asyncio.wait_for(scenario(), 20))

    assert turns == 20
