"""What a worker runs: attempts in their slots, from the claim to the ending.

A coroutine runs in the worker's event loop, a plain function in a thread, and what is isolated in a
process of its own. Each kind is asked to stop in its own way; one that will not stop is
given up, and its slot with it. All of this happens in the loop's thread.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from duework.clock import FOREVER, monotonic
from duework.kernel.engine import Engine, WorkerLimits
from duework.kernel.facts import JobStarted, JobStuck, LeaseWasLost
from duework.kernel.job import Claimed, Ending, Lease, places
from duework.kernel.run import Host
from duework.kernel.surroundings import lending
from duework.kernel.surroundings.arounds import acall_within, call_within
from duework.worker.isolation import parent as isolate
from duework.worker.pools.coroutines import Coroutines
from duework.worker.pools.threads import Threads
from duework.worker.runner import Runner, RunningAttempt, TimedOut, TooLate
from duework.worker.started import StartedJobs

# How often running attempts are looked at, and how often none.
SWEEP_SECONDS, IDLE_SECONDS = 0.25, 1.0
# When to try again to settle what is locked by another transaction.
BLOCKED_SECONDS = 1.0
# The most jobs that are remembered as having come too late for their pace.
LATE = 10_000


class Attempts:
    """The slots of one worker and what is in them."""

    def __init__(
        self,
        engine: Engine,
        settings: WorkerLimits,
        worker: int,
        host: Host,
        *,
        wake: Callable[[], None],
        ring: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._worker = worker
        self._host = host
        # The worker has something to settle, or should look for something to claim.
        self._wake, self._ring = wake, ring
        self._runner = Runner(engine.registry, host, worker, engine.chance)
        self._slots = {
            "async": settings.async_slots,
            "thread": settings.thread_slots,
            "process": settings.process_slots,
            # The engine's own quick work waits for no slot of the user's, and takes none.
            "own": 1,
        }
        self._used = dict.fromkeys(self._slots, 0)
        self._coroutines = Coroutines(self._call_async, self._finish)
        self._threads = Threads("thread", self._call_in_thread, self._collect_soon)
        self._lent = 0
        self._processes = Threads("process", self._call_isolated, self._collect_soon)
        self._loop: asyncio.AbstractEventLoop | None = None
        # The task that the worker itself is.
        self._main: asyncio.Task[Any] | None = None
        self.started_jobs = StartedJobs(2 * (settings.async_slots + settings.thread_slots) + 16)
        self.running: dict[int, RunningAttempt] = {}
        self._started = asyncio.Event()
        # Every lease of this process: claimed and not yet started, running, or ended and not yet settled.
        # They come in the thread that commits and go in the loop's, each by one step that has no middle.
        self.leases: set[Lease] = set()
        # What has ended and is to be settled, and what was charged to us as a crash and was none.
        self.endings: list[Ending] = []
        self.uncharged: list[Lease] = []
        # What has ended and could not be settled yet, since a lock is held.
        self._blocked: list[Ending] = []
        # Jobs that were handed back since they came too late for their pace: once is enough.
        self._late: set[int] = set()
        # Places that are taken by suspects that have no process of their own.
        self.alone = 0
        # Something would not stop: the process should be replaced when it is idle.
        self.recycle = False

    def enter(self, main: asyncio.Task[Any] | None = None) -> None:
        """Run in the caller's loop; `main` being cancelled is the end of the program."""
        self._loop = asyncio.get_running_loop()
        self._coroutines.bind(self._loop)
        self._main = main

    @property
    def idle(self) -> bool:
        """Whether it holds nothing: no attempt runs, no ending waits to be settled."""
        return not (self.running or self.endings or self._blocked)

    def holding(self) -> list[str]:
        """What runs now, as task and job."""
        return [f"{attempt.job.task} {job}" for job, attempt in self.running.items()]

    def free(self) -> dict[str, int]:
        """Free slots per pool; empty if there are none."""
        used = self._used
        return {pool: all_ - used[pool] for pool, all_ in self._slots.items() if all_ > used[pool]}

    def lease_list(self) -> list[Lease]:
        """(job, fence) of every lease, from any thread."""
        return list(self.leases)

    def hold_leases(self, jobs: Sequence[Claimed]) -> None:
        """Have the leases of jobs extended that are claimed for good; from any thread.

        Before they start: a loop that is blocked learns of a claim when its leases may be over.
        """
        self.leases.update([(job.id, job.fence) for job in jobs])

    def sign(self, job: int, sign: int) -> None:
        """A send has begun, and nothing has left yet, or may have; from any thread."""
        if (attempt := self.running.get(job)) is not None:
            self.started_jobs.sign(attempt.place, job, sign)

    def current(self) -> str | None:
        """The task that the event loop is in at this moment, from any thread."""
        return self._coroutines.current()

    # --- starting

    def start(self, jobs: Sequence[Claimed]) -> None:
        """Run jobs that were claimed, unless their leases are lost already."""
        if jobs:
            self._started.set()
        now, time = self._engine.clock.now(), monotonic()
        for job in jobs:
            if (before := self.running.get(job.id)) is not None:
                # We stood still, lost its lease and claimed it again: what runs is no longer ours.
                self._lose(before)
            if (job.id, job.fence) not in self.leases:
                # Lost while the loop was blocked; another worker may have started it.
                self._engine.emit(LeaseWasLost(job.id, job.task))
                continue
            attempt = self._runner.prepare(self._in_time(job), now=now, monotonic=time)
            if isinstance(attempt, RunningAttempt) and self._is_full(attempt.pool):
                # Claimed for us by others, and found when its slot was taken.
                self.decline([job])
                continue
            if self._engine.tells_each:
                self._engine.emit(JobStarted(job.id, job.task, job.failures + 1))
            if isinstance(attempt, Ending):
                self.endings.append(attempt)
                continue
            self.running[job.id] = attempt
            self._used[attempt.pool] += 1
            self.alone += _places(attempt)
            if attempt.pool in {"async", "own"}:
                self._coroutines.submit(attempt)
            elif attempt.pool == "thread":
                attempt.place = self.started_jobs.start(job.id)
                self._threads.submit(attempt)
            else:
                self._processes.submit(attempt)

    def _is_full(self, pool: str) -> bool:
        return self._used[pool] >= self._slots[pool]

    def _in_time(self, job: Claimed) -> Claimed:
        """What came too late once starts now, however late: else a slow machine starts nothing."""
        if job.id not in self._late:
            return job
        self._late.discard(job.id)
        return msgspec.structs.replace(job, start_by=FOREVER)

    def _call_async(self, attempt: RunningAttempt) -> Any:
        attempt.place = self.started_jobs.start(attempt.job.id)
        return _call(attempt)

    def _call_in_thread(self, attempt: RunningAttempt) -> Any:
        lending.begin(partial(self._lend_soon, attempt))
        return _call(attempt)

    def _lend_soon(self, attempt: RunningAttempt, yes: bool) -> None:  # noqa: FBT001 - as `Lend`
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._lend, attempt, yes)

    def _lend(self, attempt: RunningAttempt, yes: bool) -> None:  # noqa: FBT001
        """Give the slot of an attempt that waits to others, or take it back, also if there is none left."""
        most = self._slots["async"] + self._slots["thread"]
        if attempt.over or attempt.lent == yes or (yes and self._lent >= most):
            return
        change = 1 if yes else -1
        attempt.lent = yes
        self._lent += change
        self._used[attempt.pool] -= change
        if yes:
            self._ring()

    def _call_isolated(self, attempt: RunningAttempt) -> Any:
        if attempt.run.now >= attempt.job.start_by:
            raise TooLate
        if (around := attempt.task.around_child) is not None:
            return around(attempt.run, lambda: self._in_child(attempt))
        return self._in_child(attempt)

    def _in_child(self, attempt: RunningAttempt) -> Ending:
        engine = self._engine
        return isolate.call(
            attempt,
            self._host,
            self._worker,
            engine.chance(),
            served=engine.clock_watch.served,
            speed=engine.clock.speed,
        )

    # --- ending

    def _collect_soon(self) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._collect)

    def _collect(self) -> None:
        self._threads.collect(self._finish)
        self._processes.collect(self._finish)

    def _finish(self, attempt: RunningAttempt, value: Any, error: BaseException | None) -> None:
        """The call is over; unless it was decided about meanwhile, say how it ended."""
        self.started_jobs.finish(attempt.place)
        if attempt.over:
            return
        self._drop(attempt)
        try:
            quick = self._runner.done(attempt) if value is None and error is None else None
            ending = quick or self._ended(attempt, value, error)
        except Exception:  # noqa: BLE001 - a value or an error that cannot even be looked at
            ending = self._runner.unreadable(attempt, self._engine.clock_watch.checked_now())
        self.endings.append(ending)
        self._wake()

    def _ended(self, attempt: RunningAttempt, value: Any, error: BaseException | None) -> Ending:
        # It may be put off: by a clock that was just set, for an hour or a year too long.
        now = self._engine.clock_watch.checked_now()
        if error is None and not isinstance(value, Ending):
            return self._runner.conclude(attempt, value, None, now)
        if isinstance(error, isolate.Crash):
            return self._runner.crashed(attempt, str(error), now)
        if isinstance(error, asyncio.CancelledError) and attempt.stopping is not None:
            return self._runner.conclude(attempt, None, TimedOut(attempt.stopping), now)
        if error is not None and self._to_hand_back(attempt, error):
            return self._runner.release(attempt.job, now)
        if isinstance(value, Ending):
            return self._runner.complete(attempt, value, now)
        return self._runner.conclude(attempt, value, error, now)

    def _to_hand_back(self, attempt: RunningAttempt, error: BaseException) -> bool:
        """Whether that is no failure of the task; and what to remember of it."""
        if isinstance(error, TooLate):
            if len(self._late) >= LATE:
                # Others have claimed them since.
                self._late.clear()
            self._late.add(attempt.job.id)
            return True
        # The whole program is being ended.
        ended = self._main is not None and bool(self._main.cancelling())
        return isinstance(error, asyncio.CancelledError) and ended

    def _drop(self, attempt: RunningAttempt) -> None:
        """It is over for us, whatever its code still does; its slot is free."""
        assert not attempt.over, "once"
        self._lend(attempt, False)  # noqa: FBT003
        attempt.over = True
        if self.running.get(attempt.job.id) is attempt:
            del self.running[attempt.job.id]
        self._used[attempt.pool] -= 1
        if taken := _places(attempt):
            self.alone -= taken
            # Another suspect may wait for this one's end.
            self._ring()

    def settled(
        self, endings: Sequence[Ending], written: Sequence[Ending | None] | None = None
    ) -> None:
        """Their leases are no longer held, except of what is blocked; a later one of the same job is."""
        for ending, one in zip(endings, written or [None] * len(endings), strict=True):
            if one is not None and one.kind == "blocked":
                self._put_off(ending)
            else:
                self.leases.discard((ending.id, ending.fence))

    def _put_off(self, ending: Ending) -> None:
        """Settle it later, not with what ends meanwhile: each try keeps the writer for a while."""
        if not self._blocked:
            assert self._loop is not None, "running"
            self._loop.call_later(BLOCKED_SECONDS, self._take_up)
        self._blocked.append(ending)

    def _take_up(self) -> None:
        self.endings += self._blocked
        self._blocked = []
        self._wake()

    # --- stopping

    def interrupt(self, job: int, fence: int, why: str) -> None:
        """Ask an attempt to stop, in the way of its pool."""
        attempt = self.running.get(job)
        if attempt is None or attempt.job.fence != fence or attempt.stopping is not None:
            return
        attempt.stopping = why
        attempt.patience = monotonic() + self._settings.patience_ms / 1000
        self._interrupt(attempt)

    def _interrupt(self, attempt: RunningAttempt) -> None:
        attempt.buffer.stopped = True
        if attempt.pool in {"async", "own"}:
            self._coroutines.interrupt(attempt)
        elif attempt.kill is not None:
            attempt.kill()

    async def sweep_forever(self, also: Callable[[], None]) -> None:
        """Sweep often while anything runs, and else now and then; `also` is called each time."""
        while True:
            if self.running:
                await asyncio.sleep(SWEEP_SECONDS)
            else:
                self._started.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(IDLE_SECONDS):
                        await self._started.wait()
            self.sweep()
            also()

    def sweep(self) -> None:
        """Ask attempts over their timeout to stop, and give up on those that would not."""
        time = monotonic()
        for attempt in list(self.running.values()):
            if attempt.stopping is None:
                if time > attempt.deadline:
                    why = str(self._runner.timed_out(attempt))
                    self.interrupt(attempt.job.id, attempt.job.fence, why)
            elif time > attempt.patience:
                self._give_up(attempt)

    def _give_up(self, attempt: RunningAttempt) -> None:
        """It cannot be killed: settle without it, and let the process be replaced when idle."""
        self._drop(attempt)
        self.recycle = True
        why = attempt.stopping or ""
        self._engine.emit(JobStuck(attempt.job.id, attempt.job.task, why))
        self.endings.append(
            self._runner.give_up_waiting(attempt, self._engine.clock_watch.checked_now())
        )
        self._wake()

    def lost(self, leases: list[Lease]) -> None:
        """These leases are no longer ours: stop their handlers, write nothing of them."""
        for job, fence in leases:
            if (job, fence) not in self.leases:
                # It was settled since.
                continue
            self.leases.discard((job, fence))
            attempt = self.running.get(job)
            if attempt is not None and attempt.job.fence == fence:
                self._lose(attempt)
            else:
                self.uncharged.append((job, fence))
        self._wake()

    def _lose(self, attempt: RunningAttempt) -> None:
        job = attempt.job
        self.leases.discard((job.id, job.fence))
        self.uncharged.append((job.id, job.fence))
        self._drop(attempt)
        attempt.stopping = "its lease was lost"
        self._interrupt(attempt)
        self._engine.emit(LeaseWasLost(job.id, job.task))

    def decline(self, jobs: Sequence[Claimed]) -> None:
        """Hand back what was claimed for us too late, before it starts."""
        now = self._engine.clock.now()
        self.endings += [self._runner.release(job, now) for job in jobs]

    def release(self) -> int:
        """Hand back what still runs, without burning a retry; returns how many."""
        now = self._engine.clock.now()
        left = list(self.running.values())
        self._take_up()
        for attempt in left:
            self._drop(attempt)
            attempt.stopping = "the worker is stopping"
            self._interrupt(attempt)
            self.endings.append(self._runner.release(attempt.job, now))
        self._coroutines.cancel_all()
        return len(left)

    def abandon(self) -> None:
        """As if the process were gone: nothing that still runs is settled."""
        for attempt in list(self.running.values()):
            self._drop(attempt)

    def close(self) -> None:
        self.started_jobs.close()
        self._threads.close()
        self._processes.close()


def _places(attempt: RunningAttempt) -> int:
    """How many places of suspects it takes, since it may take this process with it."""
    return 0 if attempt.pool == "process" else places(attempt.job.alone)


def _call(attempt: RunningAttempt) -> Any:
    """The user's function, at most two frames below ours."""
    if attempt.job.start_by < FOREVER and attempt.run.now >= attempt.job.start_by:
        raise TooLate
    if attempt.task.arounds:
        return _call_within(attempt)
    if attempt.task.takes_run:
        return attempt.task.function(attempt.run, *attempt.args, **attempt.kwargs)
    return attempt.task.function(*attempt.args, **attempt.kwargs)


def _call_within(attempt: RunningAttempt) -> Any:
    task, run = attempt.task, attempt.run
    args = [run, *attempt.args] if task.takes_run else attempt.args
    call = partial(task.function, *args, **attempt.kwargs)
    return (acall_within if task.is_async else call_within)(task.arounds, run, call)
