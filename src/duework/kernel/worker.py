"""The worker: claims what is due, runs it, settles it. One of them per process and database.

Everything here happens in one event loop. A turn hands the writer all endings that have gathered
together with a claim for the free slots, as one transaction; while it commits, jobs run. Between turns
the worker sleeps until a job comes due, somebody rings, or something finishes: an idle one runs no SQL.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from duework.clock import FOREVER, monotonic
from duework.errors import Error, Gone, Unavailable
from duework.kernel import liveness
from duework.kernel.alarm import Alarm
from duework.kernel.attempts import SWEEP_SECONDS, Attempts
from duework.kernel.claim import Claim, Want, times
from duework.kernel.engine import Engine, Settings
from duework.kernel.facts import LeaseRecovered, Parked, Resumed, WorkerStarted, WorkerStopped
from duework.kernel.host import WorkerHost
from duework.kernel.job import Ending
from duework.kernel.keeper import Keeper
from duework.kernel.lanes import Lane
from duework.kernel.ledger import forget
from duework.kernel.liveness import Process
from duework.kernel.report import describe, said
from duework.kernel.standby import Standby
from duework.kernel.steps import Hold
from duework.kernel.telling import Telling
from duework.kernel.turns import Beside, Mark, Turn, TurnResult, Turns, refused

PARK_SECONDS = 1.0  # A database that is merely busy for a moment is nothing to tell.


class Worker:
    """Runs the jobs of one process."""

    def __init__(
        self, engine: Engine, settings: Settings | None = None, queues: set[str] | None = None
    ) -> None:
        self.engine = engine
        self.settings = settings or Settings()
        self.id = secrets.randbits(62)
        self._queues = None if queues is None else frozenset(queues)
        self._process = liveness.this_process(self.id, engine.clock.now())
        self._hold = Hold(engine.clock, engine.steps, self.settings.lease_ms)
        self._turns = Turns(engine, self._process, self._hold)
        self._wake = asyncio.Event()
        # A statement takes less time than a change of thread; one that a server runs takes more.
        self._near = engine.database.kind == "sqlite"
        self._host = WorkerHost(engine, self.id, self.ring)
        self._attempts = Attempts(engine, self.settings, self.id, self._host)
        held = self._attempts
        self._standby = Standby(engine, self._turns, held.leases, self._began, held.prepare)
        self._telling = Telling(engine)
        # Somebody rang: since the last claim, and since the last look for what is to be cancelled.
        self._rung = self._unheard = True
        # Pools for which there was more than they had slots for.
        self._hungry: frozenset[str] = frozenset()
        self._next_due = 0
        # Workers found dead: their leases are to be written off, or were.
        self._dead: set[int] = set()
        self._written_off: set[int] = set()
        self._parked = False
        self._failing: str | None = None  # Why the last turn failed, if it did.
        self._stop_at: float | None = None
        # Whether other processes may claim for it: not in a loop that others may block.
        self.offers = True
        self._fatal: Error | None = None
        self._alarm: Alarm | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def idle(self) -> bool:
        """Whether it holds nothing: no attempt runs, no ending waits to be settled."""
        return self._attempts.idle

    @property
    def recycle(self) -> bool:
        """Whether something would not stop, so that the process should be replaced when idle."""
        return self._attempts.recycle

    # --- from other threads

    def ring(self) -> None:
        """There may be something to do; safe from any thread."""
        self._rung = self._unheard = True
        if not self._standby.begun:
            self._soon(self._wake.set)

    def stop(self, grace_ms: int | None = None) -> None:
        """Claim no more; finish, or hand back when the grace is over. Safe from any thread."""
        grace = self.settings.grace_ms if grace_ms is None else grace_ms
        self._stop_at = monotonic() + grace / 1000
        self._standby.closed = True
        self._soon(self._wake.set)

    def _soon(self, callback: Callable[..., object], *args: Any) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(callback, *args)

    # --- the life of a worker

    async def run(self) -> None:
        """Work until `stop`; raises if the database is gone for good."""
        engine = self.engine
        self._loop = asyncio.get_running_loop()
        self._attempts.bind(self._wake.set, self.ring, asyncio.current_task())
        self._attempts.ledger.open(self.id)
        self._alarm = Alarm(engine, self.id, self.ring, self._on_death, self._on_gone)
        self._alarm.on_handed = self._standby.handed
        keeper = self._keeper()
        engine.local_bells.append(self.ring)
        engine.tell(WorkerStarted(self.id, self._process.pid, len(engine.registry.names())))
        self._alarm.start()
        if self.offers:
            self._standby.open(self.id)
        keeper.start()
        sweeper = asyncio.create_task(self._attempts.sweep_forever(self._watch_writer))
        try:
            await self._work()
        finally:
            self._standby.close()
            sweeper.cancel()
            engine.local_bells.remove(self.ring)
            self._alarm.close()
            released = await self._hand_back()
            keeper.stop()
            self._attempts.close()
            engine.tell(WorkerStopped(self.id, released))
        if self._fatal is not None:
            raise self._fatal

    async def run_until_idle(self, dead: Sequence[int] = ()) -> int:
        """Run what is due now and return when the next thing is; for tests in virtual time."""
        self._loop = asyncio.get_running_loop()
        self._attempts.bind(self._wake.set, self.ring)
        self._dead.update(dead)
        self._rung = True
        # What a job enqueues is due now too: hear of it as a worker that sleeps would.
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

    def _keeper(self) -> Keeper:
        held, lease_ms = self._attempts, self.settings.lease_ms
        lost = partial(self._soon, held.lost)
        keeper = Keeper(self.engine, self.id, lease_ms, held.lease_list, lost)
        assert self._loop is not None, "running"
        keeper.poke = self._loop.call_soon_threadsafe
        keeper.current = self._attempts.current
        keeper.awake = self._hold.awake
        return keeper

    async def _work(self) -> None:
        while self._fatal is None:
            if self._stop_at is not None and (self._attempts.idle or monotonic() >= self._stop_at):
                return
            if not await self._one_round():
                await self._rest()

    def _until_next(self) -> float:
        if self.engine.database.short() is not None:
            # Nothing is claimed meanwhile, however much is due.
            return SWEEP_SECONDS
        waits = [60.0]
        if self._stop_at is not None:
            waits.append(self._stop_at - monotonic())
        elif self._attempts.free():
            waits.append((self._next_due - self.engine.clock.now()) / 1000)
            if hold := self._hold.ends_in():
                waits.append(hold / 1000)
        if (progress := self._host.progress_due_in()) is not None:
            waits.append(progress)
        return max(0.0, min(waits))

    async def _rest(self) -> None:
        """Sleep; whoever makes work in this process meanwhile claims it for us, in one commit."""
        seconds = self._until_next()
        free = self._attempts.free()
        if self._near and free and self._stop_at is None and seconds > 0:
            self._standby.leave(self._want(free))
        try:
            await self._sleep(seconds)
        finally:
            self._standby.take_back()
        if (error := await self._standby.answered()) is not None:
            raise error

    def _began(self, claims: Sequence[Claim]) -> None:
        """Start what was claimed for us; what else there is to know, the next look tells."""
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
            # Whatever there is to do at once, the jobs of this loop have their turn.
            await asyncio.sleep(0)
        self._wake.clear()

    # --- one round

    async def _one_round(self) -> bool:
        """Settle what ended and claim what is due; False if there was nothing to do."""
        want = await self._wanted()
        held, progress = self._attempts, self._host.take_progress()
        if not (held.endings or held.excused or progress or want or self.engine.registry.notes):
            return False
        turn = Turn(held.endings, want, tuple(self._dead), held.excused, progress)
        held.endings, held.excused = [], []
        if want is not None:
            self._rung = False
        try:
            result = await self._turns.ask(turn)
        except Gone as error:
            self._fatal = error
        except Exception as error:  # noqa: BLE001 - a border: whatever it was, the worker lives on
            await self._after_error(turn, error)
        else:
            self._failing = None
            self._after_turn(turn, result)
        return True

    async def _wanted(self) -> Want | None:
        """What to claim, if it is time to look and there is something to be had."""
        if self._fatal is not None or self.engine.database.short() is not None:
            return None
        free = self._attempts.free()
        if self._stop_at is not None or not free:
            await self._hear_marks()
            return None
        hungry = not self._hungry.isdisjoint(free)
        due = self.engine.steps.steady() >= self._next_due
        if not (self._rung or hungry or self._dead or due):
            return None
        want = self._want(free)
        if hungry or self._dead or self._attempts.endings:
            return want
        return await self._looked(want)

    async def _looked(self, want: Want) -> Want | None:
        """Look before taking the write lock: a wake-up is only a hint."""
        self._rung = False
        try:
            look = await self._read(partial(self._turns.look, want))
        except Error:
            return want
        self._telling.unknown(look.lanes, want)
        worth = look.beside is None or self._worth_claiming(look.lanes, look.beside, want)
        return want if worth else None

    def _want(self, free: dict[str, int]) -> Want:
        registry = self.engine.registry
        return Want(
            *(self.id, self.settings.lease_ms, registry.pools(), free),
            queues=self._queues,
            apart=registry.importable(),
            alone=1 - self._attempts.alone,
            queue_limits=registry.queue_limits,
            task_limits=registry.task_limits(),
            paces=(registry.task_paces, registry.queue_paces),
            floor=self.engine.floor or 0,
        )

    async def _hear_marks(self) -> None:
        """A worker that takes nothing more still hears that something is to be cancelled."""
        if self._unheard and self._attempts.running:
            self._unheard = False
            with contextlib.suppress(Error):
                self._heed(await self._read(self._turns.marks))

    async def _read(self, function: Callable[[], Any]) -> Any:
        if self._near:
            return function()
        return await asyncio.to_thread(function)

    def _worth_claiming(self, lanes: list[Lane], beside: Beside, want: Want) -> bool:
        now = self.engine.clock.now()
        self._learn(beside.workers)
        self._heed(beside.marks)
        found = times(lanes, want)
        if beside.lease_end is not None:
            found.append(max(beside.lease_end, now + self._hold.ends_in()))
        self._next_due = min((time for time in found if time > now), default=FOREVER)
        return bool(self._dead) or any(time <= now for time in found)

    def _after_turn(self, turn: Turn, result: TurnResult) -> None:
        self._attempts.settled(turn.endings)
        self._telling.settled(turn.endings, result.settled)
        for ending in result.recovered:
            self.engine.tell(LeaseRecovered(ending.id, ending.worker, ending.kind == "crashed"))
        if result.recovered or self._turns.frees_others(result.settled):
            # Ourselves too: what was put off may be due before what was known so far.
            self._rung = True
            self.engine.ring()
        if turn.endings and not (self._attempts.running or (result.claim and result.claim.jobs)):
            # Before going to sleep, learn of the leases that others took meanwhile.
            self._rung = True
        if result.claim is None:
            return
        self._dead.difference_update(turn.dead)
        self._written_off.update(turn.dead)
        self._learn(result.workers)
        self._begin(result.claim)
        self._heed(result.marks)

    def _begin(self, claim: Claim) -> None:
        self._hungry = claim.hungry
        self._next_due = claim.next_due
        self._telling.claimed(claim.jobs)
        if self._standby.closed:
            self._attempts.decline(claim.jobs)
        else:
            self._attempts.start(claim.jobs, at_once=claim.handed)

    def _heed(self, marks: Sequence[Mark]) -> None:
        for job, fence, why in marks:
            self._attempts.interrupt(job, fence, why)

    # --- when the database will not

    async def _after_error(self, turn: Turn, error: Exception) -> None:
        """The turn surely did not happen, or nobody knows: fences decide when it is tried again."""
        self._rung = True
        held = self._attempts
        if isinstance(error, Unavailable):
            held.endings = turn.endings + held.endings
            held.excused = [*turn.excused, *held.excused]
            self._failing = said(error)
        else:
            for ending in turn.endings:
                await self._settle_alone(ending)
            if isinstance(error.__cause__, UnicodeError):
                with contextlib.suppress(Error):
                    await self.engine.writer.acall(self._turns.mend, [None], patience=None)
            # Then it was not the endings' fault, and will not be the next turn's either.
            self._failing = None if turn.endings else describe(error)
        self._watch_writer()
        await asyncio.sleep(0.5 if self._failing else 0)

    async def _settle_alone(self, ending: Ending) -> None:
        """Settle an ending whose turn the database refused; if it is refused alone, as failed."""
        each = ending
        for last in (False, True):
            turn = Turn([each])
            try:
                result = await self._turns.ask(turn)
            except Unavailable:
                self._attempts.endings.append(ending)
                return
            except Exception as error:  # noqa: BLE001 - see `_one_round`
                each = refused(ending, error)
                if last:
                    # Its lease ends by itself, and others may fare better.
                    self._attempts.settled([ending])
                    self._failing = describe(error)
            else:
                self._after_turn(turn, result)
                return

    def _watch_writer(self) -> None:
        """Tell when nothing can be written or taken on any more, and when it can again."""
        writer = self.engine.writer
        why = self._failing or writer.stuck(PARK_SECONDS) or self.engine.database.short()
        if why is not None and not self._parked:
            self._parked = True
            self.engine.tell(Parked(why))
        elif why is None and self._parked and writer.parked is None:
            self._parked = False
            self._rung = True
            self._wake.set()
            self.engine.tell(Resumed())

    def _learn(self, workers: Sequence[Process]) -> None:
        """Watch the processes that hold leases on this host."""
        # Once the last of its leases was written off, nobody asks what a dead one was running.
        for gone in self._written_off.difference(process.id for process in workers):
            self._written_off.discard(gone)
            forget(gone)
        for process in workers:
            if process.id == self.id:
                continue
            if liveness.verdict(process) in {"dead", "rebooted"}:
                self._bury(process.id)
            elif self._alarm is not None:
                self._alarm.watch(process)

    def _on_death(self, worker: int) -> None:
        self._bury(worker)
        self.ring()

    def _bury(self, worker: int) -> None:
        """Write off its leases, next time; nobody is to claim for it until then."""
        self._dead.add(worker)
        if self.engine.bell is not None:
            self.engine.bell.take_down(worker)

    def _on_gone(self, error: Gone) -> None:
        self._fatal = error
        self._wake.set()

    async def _hand_back(self) -> int:
        """Release what still runs, without burning a retry, and settle what has ended."""
        await self._standby.answered()
        released = self._attempts.release()
        if self._fatal is None:
            turn = Turn(self._attempts.endings, excused=self._attempts.excused)
            farewell = self._turns.farewell
            with contextlib.suppress(Error):
                # Not first: a turn that nobody waits for any more, if this was cancelled, is before it.
                await self.engine.writer.acall(farewell, [turn], patience=5.0, essential=True)
        if released:
            self.engine.ring()
        return released
