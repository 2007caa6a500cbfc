"""A worker that stood still, and one that may not write: what still runs, and what is heard."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import msgspec
import pytest

from duework import App, Job, Run
from duework.kernel.facts import Fact, LeaseRecovered, LeaseWasLost, LoopBlocked
from tests.support.working import eventually

# More than a busy disk takes for a commit.
LEASE_SECONDS = 2


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

        again = [msgspec.structs.replace(old.job, fence=old.job.fence + 1)]
        held.hold_leases(again)
        held.start(again)
        await asyncio.sleep(0.05)

        assert told == ["stop"], "the old attempt is no longer ours"
        assert held.running[job.id] is not old
        assert held.leases == {(job.id, old.job.fence + 1)}, (
            "and its end does not take the new lease"
        )
        assert held.free()["async"] == app.limits.async_slots - 1
        assert held.uncharged == [(job.id, old.job.fence)] or not held.uncharged
        worker.stop(0)
        await running
        assert held.free()["async"] == app.limits.async_slots

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
            monkeypatch.setattr(
                app.wiring.engine.database, "disk_full_reason", lambda: "the disk is full"
            )
            for _ in range(20):
                await asyncio.sleep(0.02)
                turns += 1
            monkeypatch.undo()

    asyncio.run(asyncio.wait_for(scenario(), 20))

    assert turns == 20


class Blocking:
    """A worker whose loop is blocked from before a claim of its own commits until long after."""

    def __init__(self, url: str) -> None:
        self.app = App(url, lease=f"{LEASE_SECONDS}s")
        # What another process does while the loop is blocked and the job is claimed.
        self.meanwhile: Callable[[App, int], object] = lambda *_: time.sleep(1.5 * LEASE_SECONDS)
        self.starts: list[int] = []
        self.told: list[Fact] = []
        self._url = url
        self._busy = 0
        self._block_now, self._end_now = asyncio.Event(), asyncio.Event()
        self._locked, self._unlock = threading.Event(), threading.Event()
        self._over = threading.Event()
        self._block = self.app.task(name="block")(self._blocks)
        self._quick = self.app.task(name="quick")(self._ends)
        self._long = self.app.task(name="long")(self._starts)
        self.app.on_fact(self.told.append)

    async def _blocks(self) -> None:
        self._busy += 1
        await self._block_now.wait()
        self._unlock.set()
        self._over.wait(20)

    async def _ends(self) -> None:
        self._busy += 1
        await self._end_now.wait()
        # So that the turn which settles this one claims as well.
        self._worker.ring()

    async def _starts(self, run: Run) -> None:
        self.starts.append(run.job.fence)
        await asyncio.sleep(0.3)

    def _other_process(self, quick: int) -> Job[None]:
        """Makes a job that the next turn claims, and lets it be taken only once the loop is blocked."""
        other = App(self._url)
        with other.transaction() as tx:
            # Whoever settles that one waits for this transaction.
            tx.write("update duework_job set progress = progress where id = :id", id=quick)
            made = tx.enqueue(self._long)
            self._locked.set()
            self._unlock.wait(10)
        eventually(lambda: other.job(made.id).fence)
        self.meanwhile(other, made.id)
        self._over.set()
        other.close()
        return made

    async def run(self) -> Job[None]:
        """The job that was claimed meanwhile, when it is done."""
        worker = self._worker = self.app.worker()
        running = asyncio.create_task(worker.run())
        await self._block.aenqueue()
        quick = await self._quick.aenqueue()
        while self._busy < 2:  # noqa: ASYNC110 - they start when they start
            await asyncio.sleep(0.01)
        other = asyncio.create_task(asyncio.to_thread(self._other_process, quick.id))
        await asyncio.to_thread(self._locked.wait, 10)
        self._end_now.set()
        # Until its turn is on its way, or another one is that waits for the same.
        held = worker._attempts  # noqa: SLF001 - nothing else tells
        for _ in range(50):
            await asyncio.sleep(0.01)
            if quick.id not in held.running and not held.endings:
                break
        self._block_now.set()
        job = self.app.job((await other).id)
        await job.await_(20)
        worker.stop(0)
        await running
        return job


def leases(app: App) -> list[int]:
    """When those that are held end."""
    return [row.due for row in app.read("select due from duework_job where worker is not null")]


@pytest.mark.slow
def test_a_job_that_is_claimed_while_the_loop_is_blocked_starts_once(url: str) -> None:
    """Its lease is extended from its commit on, although nobody in the loop knows of it."""
    blocking = Blocking(url)

    job = asyncio.run(asyncio.wait_for(blocking.run(), 40))

    assert blocking.starts == [1]
    assert [each.outcome for each in job.attempts()] == []
    told = [type(fact) for fact in blocking.told]
    assert LoopBlocked in told
    assert not {LeaseRecovered, LeaseWasLost} & set(told)
    blocking.app.close()


@pytest.mark.slow
def test_a_job_whose_lease_is_lost_while_the_loop_is_blocked_is_not_started_by_it(url: str) -> None:
    blocking = Blocking(url)

    def take_over(other: App, job: int) -> None:
        """As another process does that finds the lease over, runs the job and puts it off."""
        with other.transaction() as tx:
            tx.write(
                "update duework_job set fence = 2, worker = null, due = :now where id = :id",
                now=other.now(),
                id=job,
            )
        # Until the worker has extended what it holds, and so has noticed.
        before = leases(other)
        eventually(lambda: leases(other) != before)
        time.sleep(0.2)

    blocking.meanwhile = take_over
    asyncio.run(asyncio.wait_for(blocking.run(), 40))

    assert blocking.starts == [3], "and by its first claim never"
    assert LeaseWasLost in [type(fact) for fact in blocking.told]
    blocking.app.close()
