"""The worker: claims what is due, runs it, settles it. One of them per process and database.

Everything here happens in one event loop. A turn hands the writer all endings that have gathered
together with a claim for the free slots, as one transaction; while it commits, jobs run. Between turns
the worker sleeps until a job comes due, somebody rings, or something finishes: an idle one runs no SQL.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from duework.clock import FOREVER, monotonic
from duework.codec import encode
from duework.db.database import Tx
from duework.errors import Error, Gone
from duework.kernel import isolate, liveness
from duework.kernel.alarm import Alarm
from duework.kernel.claim import Claim, Want, claim, excuse, marked, recover
from duework.kernel.engine import Engine, Settings
from duework.kernel.facts import (
    ClockStepped,
    JobSettled,
    JobStarted,
    JobStuck,
    LeaseRecovered,
    LeaseWasLost,
    Parked,
    Resumed,
    UnknownTask,
    WorkerStarted,
    WorkerStopped,
)
from duework.kernel.job import Claimed, Effect, Ending, NewJob
from duework.kernel.keeper import Keeper
from duework.kernel.lanes import Q
from duework.kernel.liveness import Process
from duework.kernel.pools import Threads
from duework.kernel.runner import Attempt, Runner, TimedOut
from duework.kernel.settle import settle
from duework.kernel.transaction import Transaction

SWEEP_SECONDS = 0.25
STEP_MS = 2000
PROGRESS_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Turn:
    """One round with the database: what ended, what is wanted, whose leases may be written off."""

    endings: list[Ending]
    want: Want | None
    take_over: bool
    dead: tuple[int, ...]
    excused: list[tuple[int, int]]
    progress: list[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class TurnResult:
    """What came of it, after the commit."""

    settled: Sequence[Ending | None]
    claim: Claim | None
    recovered: list[Ending]
    marked: list[tuple[int, int, str]]
    workers: list[Process]


class StepWatch:
    """Notices that the wall clock was set, or that this process stood still for longer than a lease.

    For one lease length after that no lease of others is taken over: they may be as good as ever.
    """

    def __init__(self, engine: Engine, lease_ms: int) -> None:
        self._clock = engine.clock
        self._lease_ms = lease_ms
        self._tell = engine.tell
        self._offset = self._clock.now() - self._clock.boot()
        self._last = self._clock.boot()
        self._hold_until = -1

    def may_take_over(self) -> bool:
        boot = self._clock.boot()
        step = self._clock.now() - boot - self._offset
        gap = boot - self._last
        self._offset += step
        self._last = boot
        if abs(step) > STEP_MS:
            self._tell(ClockStepped(step))
        if abs(step) > STEP_MS or gap > self._lease_ms:
            self._hold_until = boot + self._lease_ms
        return boot >= self._hold_until

    def hold_ends_in(self) -> int:
        """Milliseconds until leases may be taken over again; 0 if they may."""
        return max(0, self._hold_until - self._clock.boot())


class Worker:
    """Runs the jobs of one process."""

    def __init__(
        self, engine: Engine, settings: Settings | None = None, queues: set[str] | None = None
    ) -> None:
        self.engine = engine
        self.settings = settings or Settings()
        self.id = secrets.randbits(62)
        self._queues = queues
        self._process = liveness.this_process(self.id, engine.clock.now())
        self._known = False
        self._runner = Runner(engine.registry, self, self.id, engine.chance)
        self._attempts: dict[int, Attempt] = {}
        # Everything this process holds a lease of: running, or ended and not yet settled.
        self._leases: dict[int, int] = {}
        self._endings: list[Ending] = []
        self._names: dict[int, str] = {}
        self._started: dict[int, int] = {}
        self._used: dict[str, int] = {"async": 0, "thread": 0, "process": 0, "alone": 0}
        self._excused: list[tuple[int, int]] = []
        self._progress: dict[int, tuple[Any, ...]] = {}
        self._progress_at = 0.0
        self._steps = StepWatch(engine, self.settings.lease_ms)
        self._rung = True
        self._hungry: frozenset[str] = frozenset()
        self._next_due = 0
        self._dead: set[int] = set()
        self._told_unknown: set[str] = set()
        self._parked = False
        self._stop_at: float | None = None
        self._fatal: Error | None = None
        self.recycle = False
        self._turn: Callable[[Tx, list[Turn]], Sequence[TurnResult]] = self._take_turns
        self._threads = Threads("thread", self._call_sync, self._collect_soon)
        self._processes = Threads("process", self._call_isolated, self._collect_soon)
        self._alarm: Alarm | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    # --- what a Run asks of its host

    def now(self) -> int:
        return self.engine.clock.now()

    def read(self, sql: str, values: Mapping[str, Any]) -> list[Any]:
        with self.engine.database.reading() as tx:
            return tx.read(sql, **values)

    def progress(self, job: Claimed, done: float, total: float | None, note: str) -> None:
        text = encode({"done": done, "total": total, "note": note[:500]})
        self._progress[job.id] = (text, job.id, job.fence, self.id)
        self.ring()

    def new_job(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> NewJob:
        job: NewJob = task.using()._new_job(args, kwargs, self.now())  # noqa: SLF001 - ours
        return job

    def effect_of(self, jobs: Sequence[NewJob]) -> Effect:
        def enqueue(tx: Tx) -> None:
            self.engine.enqueue(tx, list(jobs))

        return enqueue

    def transaction(self, tx: Tx) -> Transaction:
        return Transaction(tx, self.engine)

    # --- from other threads

    def ring(self) -> None:
        """There may be something to do; safe from any thread."""
        self._rung = True
        self._wake_soon()

    def stop(self, grace_ms: int | None = None) -> None:
        """Claim no more; finish, or hand back when the grace is over. Safe from any thread."""
        grace = self.settings.grace_ms if grace_ms is None else grace_ms
        self._stop_at = monotonic() + grace / 1000
        self._wake_soon()

    def _wake_soon(self) -> None:
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._wake.set)

    def _collect_soon(self) -> None:
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._collect)

    def _collect(self) -> None:
        self._threads.collect(self._finish)
        self._processes.collect(self._finish)

    # --- the life of a worker

    async def run(self) -> None:
        """Work until `stop`; raises if the database is gone for good."""
        self._loop = asyncio.get_running_loop()
        keeper = self._keeper()
        self._alarm = Alarm(self.engine, self.id, self.ring, self._on_death, self._on_gone)
        self.engine.local_bells.append(self.ring)
        self.engine.tell(
            WorkerStarted(self.id, self._process.pid, len(self.engine.registry.names()))
        )
        self._alarm.start()
        keeper.start()
        sweeper = asyncio.create_task(self._sweep_forever())
        try:
            await self._work()
        finally:
            sweeper.cancel()
            self.engine.local_bells.remove(self.ring)
            self._alarm.close()
            released = await self._hand_back()
            keeper.stop()
            self._threads.close()
            self._processes.close()
            self.engine.tell(WorkerStopped(self.id, released))
        if self._fatal is not None:
            raise self._fatal

    async def run_until_idle(self) -> int:
        """Run what is due now and return when the next thing is; for tests in virtual time."""
        self._loop = asyncio.get_running_loop()
        self._rung = True
        self.engine.local_bells.append(self.ring)
        try:
            while True:
                await self._one_round()
                if self._attempts or self._endings:
                    if not self._endings:
                        await self._sleep(SWEEP_SECONDS)
                        self._sweep()
                    continue
                if not self._rung and self._hungry.isdisjoint(self._free()):
                    return self._next_due
        finally:
            self.engine.local_bells.remove(self.ring)

    def _keeper(self) -> Keeper:
        keeper = Keeper(
            self.engine, self.id, self.settings.lease_ms, self._lease_list, self._lost_from_thread
        )
        assert self._loop is not None
        keeper.poke = self._loop.call_soon_threadsafe
        keeper.current = self._current_task
        return keeper

    async def _work(self) -> None:
        while self._fatal is None:
            if self._stop_at is not None:
                over = monotonic() >= self._stop_at
                if over or not (self._attempts or self._endings):
                    return
            if not await self._one_round():
                await self._sleep(self._until_next())

    async def _one_round(self) -> bool:
        """Settle what ended and claim what is due; False if there was nothing to do."""
        want = await self._wanted()
        if not (self._endings or self._excused or self._progress_due() or want is not None):
            return False
        turn = Turn(
            *(self._endings, want, self._steps.may_take_over(), tuple(self._dead)),
            *(self._excused, self._take_progress()),
        )
        self._endings, self._excused = [], []
        self._rung = False if want is not None else self._rung
        try:
            result = (await self.engine.writer.acall(self._turn, [turn], patience=None))[0]
        except Gone as error:
            self._fatal = error
            return True
        except Error as error:
            await self._after_error(turn, error)
            return True
        self._after_turn(turn, result)
        return True

    def _until_next(self) -> float:
        waits = [60.0]
        if self._free() and self._stop_at is None:
            waits.append((self._next_due - self.engine.clock.now()) / 1000)
            if hold := self._steps.hold_ends_in():
                waits.append(hold / 1000)
        if self._stop_at is not None:
            waits.append(self._stop_at - monotonic())
        if self._progress:
            waits.append(self._progress_at - monotonic())
        return max(0.0, min(waits))

    async def _sleep(self, seconds: float) -> None:
        if not self._wake.is_set() and seconds > 0:
            assert self._loop is not None
            timer = self._loop.call_later(seconds, self._wake.set)
            try:
                await self._wake.wait()
            finally:
                timer.cancel()
        self._wake.clear()

    # --- claiming

    def _free(self) -> dict[str, int]:
        """Free slots per pool; empty if there are none."""
        slots = {
            "async": self.settings.async_slots - self._used["async"],
            "thread": self.settings.thread_slots - self._used["thread"],
            "process": self.settings.process_slots - self._used["process"],
        }
        return {pool: free for pool, free in slots.items() if free > 0}

    async def _wanted(self) -> Want | None:
        """What to claim, if it is time to look and there is something to be had."""
        if self._stop_at is not None or self._fatal is not None:
            return None
        free = self._free()
        now = self.engine.clock.now()
        hungry = not self._hungry.isdisjoint(free)
        if not free or not (self._rung or hungry or self._dead or now >= self._next_due):
            return None
        registry = self.engine.registry
        want = Want(
            *(self.id, self.settings.lease_ms, registry.pools(self._queues), free),
            alone=1 - self._used["alone"],
            queue_limits=registry.queue_limits,
            task_limits=registry.task_limits(),
        )
        if hungry or self._dead or self._endings:
            return want
        # Look before taking the write lock: a wake-up is only a hint.
        if self.engine.database.kind == "sqlite":
            worth = self._peek(want)
        else:
            worth = await asyncio.to_thread(self._peek, want)
        return want if worth else None

    def _peek(self, want: Want) -> bool:
        """Read, without a lock, whether a claim would find anything."""
        now = self.engine.clock.now()
        self._rung = False
        try:
            with self.engine.database.reading() as tx:
                lanes = self.engine.lanes.all(tx)
                lease_end = tx.query(Q.next_lease_end, {})[0][0]
                workers = [Process(*row) for row in tx.query(Q.workers, {})]
                marks = marked(tx, self.id) if self._attempts else []
        except Error:
            return True
        self._learn(workers)
        for job, fence, why in marks:
            self._interrupt(job, fence, why)
        self._tell_unknown(lanes, want)
        times = [
            max(lane.head, lane.due) for lane in lanes if lane.head and lane.name.task in want.pools
        ]
        if lease_end is not None:
            times.append(max(lease_end, now + self._steps.hold_ends_in()))
        self._next_due = min((t for t in times if t > now), default=FOREVER)
        return bool(self._dead) or any(t <= now for t in times)

    def _tell_unknown(self, lanes: Sequence[Any], want: Want) -> None:
        for lane in lanes:
            task = lane.name.task
            ours = self._queues is None or lane.name.queue in self._queues
            if ours and lane.head and task not in want.pools and task not in self._told_unknown:
                self._told_unknown.add(task)
                self.engine.tell(UnknownTask(task))

    def _take_turns(self, tx: Tx, turns: list[Turn]) -> Sequence[TurnResult]:
        return [self._take_turn(tx, turn) for turn in turns]

    def _take_turn(self, tx: Tx, turn: Turn) -> TurnResult:
        """Inside the writer's transaction; repeatable."""
        engine = self.engine
        now = engine.clock.now()
        settled = settle(tx, turn.endings, now=now, lanes=engine.lanes, react=engine.react)
        if turn.excused:
            excuse(tx, turn.excused)
        if turn.progress:
            tx.bulk(Q.progress, turn.progress)
        if self._frees_others(turn, settled):
            tx.query(Q.notify, {"word": "due"})
        if turn.want is None:
            return TurnResult(settled, None, [], [], [])
        workers = [Process(*row) for row in tx.query(Q.workers, {})]
        recovered = recover(
            tx,
            now=now,
            lanes=engine.lanes,
            react=engine.react,
            crashed=_verdicts(workers, self.id),
            immortal=engine.registry.immortal,
            dead=turn.dead,
            take_over=turn.take_over,
        )
        taken = claim(tx, turn.want, now=now, lanes=engine.lanes, react=engine.react)
        if taken.jobs and not self._known:
            tx.query(Q.worker_is, asdict(self._process))
            tx.after_commit.append(self._now_known)
        return TurnResult(settled, taken, recovered, marked(tx, self.id), workers)

    def _now_known(self) -> None:
        self._known = True

    def _after_turn(self, turn: Turn, result: TurnResult) -> None:
        if self._parked:
            self._parked = False
            self.engine.tell(Resumed())
        for ending, written in zip(turn.endings, result.settled, strict=True):
            self._leases.pop(ending.id, None)
            self._tell_settled(ending, written)
        for ending in result.recovered:
            self.engine.tell(LeaseRecovered(ending.id, ending.worker, ending.kind == "crashed"))
        if result.recovered or self._frees_others(turn, result.settled):
            self.engine.ring()
        if result.claim is None or turn.want is None:
            return
        self._dead -= set(turn.dead)
        self._learn(result.workers)
        taken = result.claim.jobs
        self._hungry = result.claim.hungry
        self._next_due = result.claim.next_due
        for job in taken:
            self._start(job)
        for job_id, fence, why in result.marked:
            self._interrupt(job_id, fence, why)

    def _frees_others(self, turn: Turn, settled: Sequence[Ending | None]) -> bool:
        """Whether what ended may have made something claimable, here or elsewhere."""
        limits = self.engine.registry
        if turn.endings and (limits.queue_limits or limits.task_limits()):
            return True
        return any(ending.effects or ending.kind != "done" for ending in turn.endings) or any(
            ended is not None and ended.frees for ended in settled
        )

    async def _after_error(self, turn: Turn, error: Error) -> None:
        """The turn surely did not happen, or nobody knows: fences decide when it is tried again."""
        self._endings = turn.endings + self._endings
        self._excused = turn.excused + self._excused
        self._rung = True
        if not self._parked:
            self._parked = True
            self.engine.tell(Parked(str(error)))
        await asyncio.sleep(0.5)

    def _tell_settled(self, ending: Ending, written: Ending | None) -> None:
        started = self._started.pop(ending.id, None)
        if not self.engine.hooks:
            return
        name = self._names.pop(ending.id, "")
        if written is None:
            self.engine.tell(LeaseWasLost(ending.id, name))
            return
        took = 0 if started is None else self.engine.clock.now() - started
        retry_at = written.due if written.kind in {"retry", "snooze"} else None
        self.engine.tell(JobSettled(ending.id, name, written.kind, took, written.error, retry_at))

    # --- running

    def _start(self, job: Claimed) -> None:
        engine = self.engine
        self._leases[job.id] = job.fence
        now = engine.clock.now()
        if engine.hooks:
            self._names[job.id] = job.task
            self._started[job.id] = now
            engine.tell(JobStarted(job.id, job.task, job.failures + 1))
        attempt = self._runner.prepare(job, now=now, monotonic=monotonic())
        if isinstance(attempt, Ending):
            self._endings.append(attempt)
            return
        self._attempts[job.id] = attempt
        pool = self._pool(attempt)
        self._used[pool] += 1
        self._used["alone"] += job.alone
        if pool == "async":
            self._start_async(attempt)
        elif pool == "thread":
            attempt.interrupt = attempt.run._stop  # noqa: SLF001 - ours
            self._threads.submit(attempt)
        else:
            self._processes.submit(attempt)

    @staticmethod
    def _pool(attempt: Attempt) -> str:
        """A suspect gets a process of its own, whatever its task says."""
        if attempt.job.alone and attempt.task.importable:
            return "process"
        return attempt.task.pool

    def _start_async(self, attempt: Attempt) -> None:
        assert self._loop is not None
        task = self._loop.create_task(self._call_async(attempt), name=attempt.job.task)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

        def interrupt() -> None:
            attempt.run._stop()  # noqa: SLF001 - ours
            task.cancel(attempt.stopping)

        attempt.interrupt = interrupt

    async def _call_async(self, attempt: Attempt) -> None:
        value, error = None, None
        try:
            if attempt.task.takes_run:
                value = await attempt.task.function(attempt.run, *attempt.args, **attempt.kwargs)
            else:
                value = await attempt.task.function(*attempt.args, **attempt.kwargs)
        except BaseException as raised:  # noqa: BLE001 - whatever a task raises is its outcome
            error = raised
        self._finish(attempt, value, error)

    @staticmethod
    def _call_sync(attempt: Attempt) -> Any:
        if attempt.task.takes_run:
            return attempt.task.function(attempt.run, *attempt.args, **attempt.kwargs)
        return attempt.task.function(*attempt.args, **attempt.kwargs)

    def _call_isolated(self, attempt: Attempt) -> Ending:
        return isolate.call(attempt, self, self.id, self.engine.chance())

    def _finish(self, attempt: Attempt, value: Any, error: BaseException | None) -> None:
        """The call is over; unless somebody has decided about it meanwhile, say how it ended."""
        if attempt.over:
            return
        attempt.over = True
        self._drop(attempt)
        now = self.engine.clock.now()
        if isinstance(error, isolate.Crash):
            ending = self._runner.crashed(attempt, str(error), now)
        elif isinstance(error, asyncio.CancelledError) and attempt.stopping is not None:
            ending = self._runner.conclude(attempt, None, TimedOut(attempt.stopping), now)
        elif isinstance(value, Ending):
            ending = self._runner.complete(attempt, value, now)
        else:
            ending = self._runner.conclude(attempt, value, error, now)
        self._endings.append(ending)
        self._wake.set()

    def _drop(self, attempt: Attempt) -> None:
        if self._attempts.pop(attempt.job.id, None) is not None:
            self._used[self._pool(attempt)] -= 1
            self._used["alone"] -= attempt.job.alone
            self._rung = self._rung or attempt.job.alone

    # --- stopping what runs

    def _interrupt(self, job: int, fence: int, why: str) -> None:
        attempt = self._attempts.get(job)
        if attempt is None or attempt.job.fence != fence or attempt.stopping is not None:
            return
        attempt.stopping = why
        attempt.patience = monotonic() + self.settings.patience_ms / 1000
        attempt.interrupt()

    async def _sweep_forever(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self._sweep()

    def _sweep(self) -> None:
        """Tell attempts over their timeout to stop, and give up on those that would not."""
        time = monotonic()
        for attempt in list(self._attempts.values()):
            if attempt.stopping is None:
                if time > attempt.deadline:
                    why = str(self._runner.timed_out(attempt))
                    self._interrupt(attempt.job.id, attempt.job.fence, why)
            elif time > attempt.patience:
                self._give_up(attempt)

    def _give_up(self, attempt: Attempt) -> None:
        """It cannot be killed: settle without it, and let the process be replaced when idle."""
        attempt.over = True
        pool = self._pool(attempt)
        self._drop(attempt)
        if pool == "thread":
            self._threads.abandon()
        self.recycle = True
        why = attempt.stopping or ""
        self.engine.tell(JobStuck(attempt.job.id, attempt.job.task, why))
        self._endings.append(self._runner.give_up_waiting(attempt, self.engine.clock.now()))
        self._wake.set()

    def _lost_from_thread(self, jobs: list[int]) -> None:
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._lost, jobs)

    def _lost(self, jobs: list[int]) -> None:
        """These leases are no longer ours: stop their handlers, write nothing of them."""
        for job in jobs:
            fence = self._leases.pop(job, None)
            attempt = self._attempts.get(job)
            if fence is not None:
                self._excused.append((job, fence))
            if attempt is not None:
                attempt.over = True
                self._drop(attempt)
                attempt.stopping = "its lease was lost"
                attempt.interrupt()
                self.engine.tell(LeaseWasLost(job, attempt.job.task))
        self._wake.set()

    def _lease_list(self) -> list[tuple[int, int]]:
        return list(self._leases.items())

    def _current_task(self) -> str | None:
        loop = self._loop
        current = asyncio.current_task(loop) if loop is not None else None
        return current.get_name() if current in self._tasks else None

    # --- other workers

    def _learn(self, workers: Sequence[Process]) -> None:
        """Watch the processes that hold leases on this host."""
        for process in workers:
            if process.id == self.id:
                continue
            if liveness.verdict(process) in {"dead", "rebooted"}:
                self._dead.add(process.id)
            elif self._alarm is not None:
                self._alarm.watch(process)

    def _on_death(self, worker: int) -> None:
        self._dead.add(worker)
        self.ring()

    def _on_gone(self, error: Gone) -> None:
        self._fatal = error
        self._wake.set()

    # --- progress

    def _progress_due(self) -> bool:
        return bool(self._progress) and monotonic() >= self._progress_at

    def _take_progress(self) -> list[tuple[Any, ...]]:
        if not self._progress_due():
            return []
        self._progress_at = monotonic() + PROGRESS_SECONDS
        rows, self._progress = list(self._progress.values()), {}
        return sorted(rows, key=lambda row: row[1])

    # --- the end

    async def _hand_back(self) -> int:
        """Release what still runs, without burning a retry, and settle what has ended."""
        now = self.engine.clock.now()
        left = list(self._attempts.values())
        for attempt in left:
            attempt.over = True
            attempt.stopping = "the worker is stopping"
            attempt.interrupt()
            self._drop(attempt)
            self._endings.append(self._runner.release(attempt.job, now))
        for task in list(self._tasks):
            task.cancel()
        if self._fatal is None:
            turn = Turn(self._endings, None, False, (), self._excused, [])  # noqa: FBT003 - a field
            with contextlib.suppress(Error):
                await self.engine.writer.acall(self._farewell, [turn], patience=5.0)
        if left:
            self.engine.ring()
        return len(left)

    def _farewell(self, tx: Tx, turns: list[Turn]) -> Sequence[None]:
        for turn in turns:
            self._take_turn(tx, turn)
            if self._known:
                tx.query(Q.worker_gone, {"id": self.id})
        return [None for _ in turns]


def _verdicts(workers: Sequence[Process], me: int) -> Callable[[int], bool]:
    """Whether the holder of a lease that ended has crashed, as far as can be told from here."""
    known = {process.id: process for process in workers}

    def crashed(worker: int) -> bool:
        process = known.get(worker)
        if process is None or worker == me:
            return worker != me
        return liveness.verdict(process) in {"dead", "elsewhere"}

    return crashed
