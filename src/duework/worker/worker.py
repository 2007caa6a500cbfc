"""The worker: claims what is due, runs it, settles it. One of them per process and database.

Everything here happens in one event loop. A round hands the writer all endings that have gathered
together with a claim for the free slots, as one transaction; while it commits, jobs run. Between rounds
the worker sleeps until a job comes due, a process rings, or something finishes: an idle one runs no SQL.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from duework.clock import FOREVER, monotonic
from duework.errors import Error, Gone, Unavailable
from duework.kernel.claim import Claim, ClaimRequest, times
from duework.kernel.engine import Engine, WorkerLimits
from duework.kernel.error_text import describe, said
from duework.kernel.facts import WorkerStarted, WorkerStopped
from duework.kernel.job import SUSPECTS, Ending
from duework.kernel.lanes import Lane
from duework.kernel.machine import processes
from duework.kernel.machine.clock_watch import TakeoverPause
from duework.kernel.machine.processes import Process
from duework.worker.attempts import SWEEP_SECONDS, Attempts
from duework.worker.deaths import Deaths
from duework.worker.departure import Departure
from duework.worker.host import WorkerHost
from duework.worker.job_facts import SUM_UP_SECONDS, JobFacts
from duework.worker.lease_keeper import LeaseKeeper, LoopWatch
from duework.worker.parking import Parking
from duework.worker.resting import rest_of
from duework.worker.rounds import CancelOrder, Round, RoundResult, Rounds, Signals, refused
from duework.worker.wake.wakeups import Wakeups


class Worker:
    """Runs the jobs of one process."""

    def __init__(
        self,
        engine: Engine,
        settings: WorkerLimits | None = None,
        queues: set[str] | None = None,
        *,
        offers: bool = True,
    ) -> None:
        self.engine = engine
        self.settings = settings or WorkerLimits()
        self.id = secrets.randbits(62)
        self._queues = None if queues is None else frozenset(queues)
        self._process = processes.this_process(self.id, engine.clock.now())
        # As it is stored: it lasts as long as ever where the clock is quicker.
        self._lease_ms = int(self.settings.lease_ms * engine.clock.speed)
        self._takeover_pause = TakeoverPause(engine.clock, engine.clock_watch, self._lease_ms)
        self._wake = asyncio.Event()
        self._host = WorkerHost(engine, self.id, self.ring, self._sign)
        self._attempts = Attempts(
            engine, self.settings, self.id, self._host, wake=self._wake.set, ring=self.ring
        )
        hold_leases = self._attempts.hold_leases
        self._rounds = Rounds(engine, self._process, self._takeover_pause, hold_leases)
        self._resting = rest_of(engine, self._rounds, self._attempts.leases, self._began)
        self._departure = Departure(engine.writer, self._attempts.leases)
        self._job_facts = JobFacts(engine)
        # There was a ring: since the last claim, and since the last look for what is to be cancelled.
        self._rung = self._cancels_unseen = True
        # Pools for which there was more than they had slots for.
        self._hungry: frozenset[str] = frozenset()
        self._next_due = 0
        self._deaths = Deaths(engine, self.id)
        self._parking = Parking(engine)
        self._stop_at: float | None = None
        # Whether other processes may claim for it: not in a loop that others may block.
        self._offers = offers
        self._fatal: Error | None = None
        self._wakeups: Wakeups | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        # For looks at a server: the threads that tasks share may all be busy.
        self._looks = ThreadPoolExecutor(1, thread_name_prefix="duework-look")

    @property
    def idle(self) -> bool:
        """Whether it holds nothing: no attempt runs, no ending waits to be settled."""
        return self._attempts.idle

    @property
    def recycle(self) -> bool:
        """Whether something would not stop, so that the process should be replaced when idle."""
        return self._attempts.recycle

    def holding(self) -> list[str]:
        """What it runs, in words."""
        return self._attempts.holding()

    def _sign(self, job: int, sign: int) -> None:
        self._attempts.sign(job, sign)

    # --- from other threads

    def ring(self) -> None:
        """There may be something to do; safe from any thread."""
        self._rung = self._cancels_unseen = True
        if not self._resting.begun:
            self._soon(self._wake.set)

    def _notified(self) -> None:
        """The server says that there may be something to do; in the thread that listens to it."""
        if not self._resting.claim_now():
            self.ring()

    def stop(self, grace_ms: int | None = None) -> None:
        """Claim no more; finish, or hand back when the grace is over. Safe from any thread."""
        grace = self.settings.grace_ms if grace_ms is None else grace_ms
        self._stop_at = monotonic() + grace / 1000
        self._resting.closed = True
        self._soon(self._wake.set)
        self._soon(self._departure.tell, self._stop_at)

    def _soon(self, callback: Callable[..., object], *args: Any) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(callback, *args)

    # --- the life of a worker

    async def run(self) -> None:
        """Work until `stop`; raises if the database is gone for good."""
        engine = self.engine
        self._loop = asyncio.get_running_loop()
        self._attempts.enter(asyncio.current_task())
        self._attempts.started_jobs.open(self.id)
        events = (self.ring, self._on_death, self._on_gone, self._resting.handed, self._notified)
        self._wakeups = Wakeups(engine, self.id, *events)
        keeper = self._lease_keeper(self._loop)
        engine.local_bells.append(self.ring)
        engine.resources.enter()
        engine.emit(WorkerStarted(self.id, self._process.pid, engine.registry.count_theirs()))
        self._wakeups.start()
        if self._offers:
            self._resting.open(self.id)
        keeper.start()
        sweeper = asyncio.create_task(self._attempts.sweep_forever(self._now_and_then))
        try:
            with self._departure:
                await self._rounds.announce()
                await self._work()
        finally:
            self._resting.close()
            sweeper.cancel()
            engine.local_bells.remove(self.ring)
            self._wakeups.close()
            released = await self._hand_back()
            keeper.stop()
            self._attempts.close()
            self._looks.shutdown(wait=False)
            await engine.resources.leave()
            self._job_facts.sum_up()
            engine.emit(WorkerStopped(self.id, released))
        if self._fatal is not None:
            raise self._fatal

    async def run_until_idle(self, dead: Sequence[int] = ()) -> int:
        """Run what is due now and return when the next thing is; for tests in virtual time."""
        self._loop = asyncio.get_running_loop()
        self._attempts.enter()
        self._deaths.found.update(dead)
        self._rung = True
        # What a job enqueues is due now too: learn of it as a worker that sleeps would.
        self.engine.local_bells.append(self.ring)
        try:
            return await self._until_idle()
        finally:
            self.engine.local_bells.remove(self.ring)

    async def _until_idle(self) -> int:
        while True:
            await self._one_round()
            if not self._attempts.idle:
                if not self._attempts.endings:
                    await self._sleep(SWEEP_SECONDS)
                    self._attempts.sweep()
                continue
            if not self._rung and self._hungry.isdisjoint(self._attempts.free()):
                return self._next_due

    def abandon(self) -> None:
        """Forget everything, as a process that is killed would; for tests."""
        self._attempts.abandon()
        self._attempts.close()
        self._looks.shutdown(wait=False)

    def _lease_keeper(self, loop: asyncio.AbstractEventLoop) -> LeaseKeeper:
        held, lost = self._attempts, partial(self._soon, self._attempts.lost)
        watch = LoopWatch(loop.call_soon_threadsafe, held.current, self._takeover_pause.awake)
        return LeaseKeeper(self.engine, self.id, self._lease_ms, held.lease_list, lost, watch)

    async def _work(self) -> None:
        while self._fatal is None:
            if self._stop_at is not None and (self._attempts.idle or monotonic() >= self._stop_at):
                return
            if not await self._one_round():
                await self._rest()

    def _until_next(self) -> float:
        if self.engine.database.disk_full_reason() is not None:
            # Nothing is claimed meanwhile, however much is due.
            return SWEEP_SECONDS
        waits = [60.0]
        if self._stop_at is not None:
            waits.append(self._stop_at - monotonic())
        elif self._attempts.free():
            clock = self.engine.clock
            until = [self._next_due - clock.now()]
            if pause := self._takeover_pause.ends_in():
                until.append(pause)
            waits.append(min(until) / 1000 / clock.speed)
        if (progress := self._host.progress_due_in()) is not None:
            waits.append(progress)
        return max(0.0, min(waits))

    async def _rest(self) -> None:
        """Sleep; an enqueue in this process may meanwhile claim for this worker, in one commit."""
        seconds = self._until_next()
        free = self._attempts.free()
        if free and self._stop_at is None and seconds > 0:
            self._resting.leave(self._want(free))
        try:
            await self._sleep(seconds)
        finally:
            self._resting.take_back()
        if (error := await self._resting.answered()) is not None:
            raise error

    def _began(self, claims: Sequence[Claim]) -> None:
        """Start what was claimed for this worker. The next claim reads the rest."""
        try:
            for claim in claims:
                self._begin(claim)
        finally:
            # Only now: they are to start before this worker looks around.
            self._rung = True
            self._wake.set()

    async def _sleep(self, seconds: float) -> None:
        if not self._wake.is_set() and seconds > 0:
            assert self._loop is not None, "running"
            timer = self._loop.call_later(seconds, self._wake.set)
            try:
                await self._wake.wait()
            finally:
                timer.cancel()
        else:
            # Whatever there is to do at once, the jobs of this loop go on first.
            await asyncio.sleep(0)
        self._wake.clear()

    # --- one round

    async def _one_round(self) -> bool:
        """Settle what ended and claim what is due; False if there was nothing to do."""
        want = await self._wanted()
        held, progress = self._attempts, self._host.take_progress()
        if not (held.endings or held.uncharged or progress or want or self.engine.registry.reports):
            return False
        round_ = Round(held.endings, want, tuple(self._deaths.found), held.uncharged, progress)
        held.endings, held.uncharged = [], []
        if want is not None:
            self._rung = False
        self._departure.asked = round_.endings
        try:
            result = await self._rounds.ask(round_)
        except Gone as error:
            self._fatal = error
        except Exception as error:  # noqa: BLE001 - a border: whatever it was, the worker lives on
            await self._after_error(round_, error)
        else:
            self._parking.failing, self._departure.asked = None, ()
            self._after_round(round_, result)
        return True

    async def _wanted(self) -> ClaimRequest | None:
        """What to claim, if it is time to look and there is something to be had."""
        if self._fatal is not None or self.engine.database.disk_full_reason() is not None:
            return None
        free = self._attempts.free()
        if self._stop_at is not None or not free:
            await self._look_for_cancels()
            return None
        hungry = not self._hungry.isdisjoint(free)
        due = self.engine.clock_watch.checked_now() >= self._next_due
        if not (self._rung or hungry or self._deaths.found or due):
            return None
        want = self._want(free)
        if hungry or self._deaths.found or self._attempts.endings:
            return want
        return await self._looked(want)

    async def _looked(self, want: ClaimRequest) -> ClaimRequest | None:
        """Look before taking the write lock: a wake-up is only a hint."""
        self._rung = False
        try:
            look = await self._read(partial(self._rounds.look, want))
        except Error:
            return want
        self._job_facts.unknown(look.lanes, want)
        worth = look.signals is None or self._worth_claiming(look.lanes, look.signals, want)
        return want if worth else None

    def _want(self, free: dict[str, int]) -> ClaimRequest:
        alone = SUSPECTS - self._attempts.alone
        return self._rounds.request(self._lease_ms, free, self._queues, alone=alone)

    async def _look_for_cancels(self) -> None:
        """A worker that takes nothing more still looks for what is to be cancelled."""
        if self._cancels_unseen and self._attempts.running:
            self._cancels_unseen = False
            with contextlib.suppress(Error):
                self._interrupt_cancelled(await self._read(self._rounds.cancels))

    async def _read(self, function: Callable[[], Any]) -> Any:
        if self.engine.near:
            return function()
        return await asyncio.get_running_loop().run_in_executor(self._looks, function)

    def _worth_claiming(self, lanes: list[Lane], signals: Signals, want: ClaimRequest) -> bool:
        now = self.engine.clock.now()
        self._watch_workers(signals.workers)
        self._interrupt_cancelled(signals.cancels)
        found = times(lanes, want)
        if signals.lease_end is not None:
            found.append(max(signals.lease_end, now + self._takeover_pause.ends_in()))
        self._next_due = min((time for time in found if time > now), default=FOREVER)
        return bool(self._deaths.found) or any(time <= now for time in found)

    def _after_round(self, round_: Round, result: RoundResult) -> None:
        self._attempts.settled(round_.endings, result.settled)
        self._job_facts.settled(round_.endings, result.settled)
        self._job_facts.recovered(result.recovered)
        if result.recovered or self._rounds.frees_others(result.settled):
            # Ourselves too: what was put off may be due before what was known so far.
            self._rung = True
            self.engine.ring()
        if round_.endings and not (self._attempts.running or (result.claim and result.claim.jobs)):
            # Before going to sleep, learn of the leases that others took meanwhile.
            self._rung = True
        if result.claim is None:
            return
        self._deaths.written_off(round_.dead)
        self._watch_workers(result.workers)
        self._begin(result.claim)
        self._interrupt_cancelled(result.cancels)

    def _begin(self, claim: Claim) -> None:
        self._hungry = claim.hungry
        self._next_due = claim.next_due
        self._job_facts.claimed(claim)
        start = self._attempts.decline if self._resting.closed else self._attempts.start
        start(claim.jobs)

    def _interrupt_cancelled(self, cancels: Sequence[CancelOrder]) -> None:
        for job, fence, why in cancels:
            self._attempts.interrupt(job, fence, why)

    # --- when the database will not

    async def _after_error(self, round_: Round, error: Exception) -> None:
        """The round surely did not happen, or that is not known: fences decide when it is tried again."""
        held, self._rung = self._attempts, True
        self._departure.asked = ()
        if isinstance(error, Unavailable):
            held.endings = round_.endings + held.endings
            held.uncharged = [*round_.uncharged, *held.uncharged]
            self._parking.failing = said(error)
        else:
            for ending in round_.endings:
                await self._settle_alone(ending)
            if isinstance(error.__cause__, UnicodeError):
                with contextlib.suppress(Error):
                    await self.engine.writer.acall(self._rounds.repair, [None], patience=None)
            # Then it was not the endings' fault, and will not be the next round's either.
            self._parking.failing = None if round_.endings else describe(error)
        self._watch_writer()
        await asyncio.sleep(0.5 if self._parking.failing else 0)

    async def _settle_alone(self, ending: Ending) -> None:
        """Settle an ending whose round the database refused; if it is refused alone, as failed."""
        each = ending
        for last in (False, True):
            round_ = Round([each])
            try:
                result = await self._rounds.ask(round_)
            except Unavailable:
                self._attempts.endings.append(ending)
                return
            except Exception as error:  # noqa: BLE001 - see `_one_round`
                each = refused(ending, error)
                if last:
                    # Its lease ends by itself, and others may fare better.
                    self._attempts.settled([ending])
                    self._parking.failing = describe(error)
            else:
                self._after_round(round_, result)
                return

    def _now_and_then(self) -> None:
        self._watch_writer()
        self._job_facts.sum_up(every=SUM_UP_SECONDS)

    def _watch_writer(self) -> None:
        if self._parking.look():
            self._rung = True
            self._wake.set()

    def _watch_workers(self, workers: Sequence[Process]) -> None:
        self._deaths.look(workers, None if self._wakeups is None else self._wakeups.watch)

    def _on_death(self, worker: int) -> None:
        self._deaths.declare(worker)
        self.ring()

    def _on_gone(self, error: Gone) -> None:
        self._fatal = error
        self._wake.set()

    async def _hand_back(self) -> int:
        """Release what still runs, without burning a retry, and settle what has ended."""
        await self._resting.answered()
        released = self._attempts.release()
        if self._fatal is None:
            round_ = Round(self._attempts.endings, uncharged=self._attempts.uncharged)
            farewell = self._rounds.farewell
            patience = self._departure.patience
            try:
                # Not first: a round of a task that was cancelled meanwhile is before it.
                await self.engine.writer.acall(
                    farewell, [round_], patience=patience, essential=True
                )
            except Error as error:
                self._fatal = self._departure.unstored(len(round_.endings) - released, error)
        if released:
            self.engine.ring()
        return released
