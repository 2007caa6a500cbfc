"""What the kernel's parts share in one process: the database, the time, the tasks, the hooks.

The verbs here are the kernel's, bound to this process: each takes a transaction and a list and can
be handed to the writer. Nothing below this reads a clock or makes an id.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from duework.clock import Clock, SystemClock
from duework.db.database import Database, Tx
from duework.db.writer.writer import Writer
from duework.errors import Error
from duework.ids import Ids
from duework.kernel import enqueue, lanes, operate
from duework.kernel.batches import verbs as batches
from duework.kernel.batches.counters import Tally
from duework.kernel.batches.new import NewBatch, NewMembers
from duework.kernel.changes import JOBS_TOPIC, Feed, Touched
from duework.kernel.counters import Counters, SettleContext
from duework.kernel.facts import ClockStepped, Fact, Traffic
from duework.kernel.job import Ending, Enqueued, JobId, LockedJob, NewJob, Reaction
from duework.kernel.lanes import Lanes
from duework.kernel.machine import processes
from duework.kernel.machine.clock_watch import ClockWatch, Reading, reading
from duework.kernel.minutes import counters as minutes
from duework.kernel.minutes.counters import Minutes
from duework.kernel.minutes.series import Series
from duework.kernel.paces import admission, wishes
from duework.kernel.paces.admission import AddressedReport
from duework.kernel.paces.pace import Pace
from duework.kernel.paces.wishes import Change
from duework.kernel.pruning import Pruning
from duework.kernel.surroundings.resources import Resources
from duework.kernel.tasks import Registry, Writes

logger = logging.getLogger("duework")
# How the names of the engine's own tasks begin.
OWN_TASKS = "duework."
# How often the server is asked for the time until an answer is quick enough to be exact.
LOOKS_AT_SERVER = 5
QUICK_MS = 1
# How long the end of a worker waits for others that write.
CHECKPOINT_SECONDS = 1.0
# No job is claimed so often between two boots.
EPOCH_BITS = 32


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """What an operator may choose; the defaults suit one machine."""

    lease_ms: int = 15_000
    # How long a stopping worker lets its jobs finish before it hands them back.
    grace_ms: int = 25_000
    # How long an attempt that was asked to stop is waited for.
    patience_ms: int = 5_000
    async_slots: int = 100
    thread_slots: int = 10
    process_slots: int = 2
    # How much memory durable objects may take that are not in use.
    object_cache_bytes: int = 64 * 2**20


@dataclass(frozen=True, slots=True)
class AppSide:
    """What an App brings along: who reacts to ends and hears of facts, how secrets and objects are found."""

    # Makes the public view of a job for `@task.settled`, and tells shapes.
    react: Reaction | None = None
    hooks: list[Callable[[Fact], None]] = field(default_factory=list)
    # Opens a secret for `run.secret`.
    open_secret: Callable[[str], str] | None = None
    # A durable object by class and key.
    find_object: Callable[[Any, str], Any] | None = None
    # What the steps of an attempt are called on, from its job, its buffer and this engine.
    make_flow: Callable[[Any, Any, Any], Any] | None = None


class Forget(Protocol):
    def __call__(self, tx: Tx, *, now: int, chunk: int) -> int:
        """Delete a chunk of what is over; how many rows."""


class OtherWorkers(Protocol):
    """The workers of other processes that share a SQLite file, and how this one is reached by them."""

    def ring(self) -> None:
        """Wake them."""

    def listen(self, worker: int) -> Any:
        """A socket that becomes readable when they ring; None if there can be none."""

    def leave(self, worker: int) -> None:
        """It listens no more."""

    def take_down(self, worker: int) -> None:
        """It is dead: no process rings it, or claims for it, any more."""

    def close(self) -> None:
        """This process is done with them."""


class Offers(Protocol):
    """Workers of other processes that would start a job at once."""

    def hand_over(self, tx: Tx, new: NewJob) -> JobId | None:
        """Enqueue a job for one of them; None if there is none."""


class Engine:
    """One process's side of one database."""

    def __init__(
        self,
        database: Database,
        registry: Registry,
        clock: Clock | None = None,
        side: AppSide | None = None,
    ) -> None:
        self.database = database
        self.side = side or AppSide()
        self.registry = registry
        # Whether all processes that use the database are on this machine, as it is with a file.
        self.near = database.kind == "sqlite"
        self.clock: Clock = clock or SystemClock()
        self.writer = Writer(database)
        self.feed = Feed(self.writer)
        self.clock_watch = ClockWatch(self.clock, self._ask_server, self._clock_stepped)
        self.lanes = Lanes()
        self.pruning = Pruning()
        self.minutes = Minutes(self.lanes)
        # What users count.
        self.series = Series(self.clock.now)
        self.writer.before_commit = self._last_writes
        self.ids = Ids(self.clock.now)
        self.writer.before_second_run = self._draw_elsewhere
        self.chance: Callable[[], float] = random.random
        self.hooks = self.side.hooks
        # Words facts for the standard `logging`; set by the app when it makes a worker.
        self.log: Callable[[Fact | Traffic], None] | None = None
        # Whether the log wants to know of each job that starts and goes well.
        self.logs_each: Callable[[], bool] = lambda: False
        # Called, from any thread, when there may be something to claim.
        self.local_bells: list[Callable[[], None]] = []
        # Both are set by the app for a SQLite file; the second one only with `worker/handoff/`.
        self.doorbell: OtherWorkers | None = None
        self.offers: Offers | None = None
        # What every fence given here is above, once a worker was made ready; None if no boots are counted.
        self.floor: int | None = None
        self.resources = Resources()
        # Who counts the ends of jobs, and what the housekeeping forgets besides jobs, a chunk at a time.
        self.counters: Callable[[], Counters] = Tally
        self.forgets: tuple[Forget, ...] = (batches.forget, admission.forget, minutes.forget)
        registry.on_report = self._reported
        registry.writes["batch"] = Writes(NewBatch, self.batch)
        registry.writes["touch"] = Writes(Touched, self.feed.touch)

    def settle_context(self, now: int | None = None) -> SettleContext:
        """What verbs that end jobs have in common, in one transaction."""
        now = self.clock.now() if now is None else now
        return SettleContext(now, self.lanes, self.react, self.counters())

    def make_ready(self) -> None:
        """For a worker: room for a full disk, and fences that no loss of power has taken back."""
        self.database.reserve()
        if (epoch := self.database.epoch(processes.boot())) is not None:
            self.floor = epoch << EPOCH_BITS

    def checkpoint(self) -> None:
        """Bring what is in a file's log into the file; what another process reads just now may stay."""
        if (bring := getattr(self.database, "checkpoint", None)) is not None:
            self.writer.between_commits(bring, CHECKPOINT_SECONDS)

    def write_series(self, tx: Tx, items: list[None]) -> Sequence[None]:
        """What users have counted here, now."""
        self.series.write_now(tx)
        return items

    def _last_writes(self, tx: Tx) -> None:
        """Counters, with a transaction that is written anyway."""
        self.minutes.write(tx)
        if self.series.pending:
            self.series.write(tx)

    def _draw_elsewhere(self) -> None:
        self.ids.scatter()

    def enqueue(self, tx: Tx, new: list[NewJob]) -> Sequence[Enqueued]:
        now = self.clock.now()
        answers = enqueue.enqueue(tx, new, ids=self.ids, lanes=self.lanes, now=now)
        self.ring_after(tx)
        return answers

    def enqueue_keyed(self, tx: Tx, new: list[NewJob]) -> Sequence[Enqueued]:
        """The same for many jobs of which each has a key of its own, and no other option."""
        answers = enqueue.enqueue_keyed(tx, new, ids=self.ids, lanes=self.lanes)
        self.ring_after(tx)
        return answers

    def enqueue_alone(self, tx: Tx, new: list[NewJob]) -> Sequence[Enqueued]:
        """The same for a caller without a transaction of its own."""
        # A worker of this process has attached its claim.
        if self.offers is not None and len(new) == 1 and not self.local_bells:
            job = self.offers.hand_over(tx, new[0])
            if job is not None:
                return [Enqueued(job)]
        return self.enqueue(tx, new)

    def cancel(self, tx: Tx, wanted: list[tuple[int, str]]) -> Sequence[str]:
        answers: list[str] = []
        for identifier, why in wanted:
            answers += operate.cancel(tx, [identifier], self.settle_context(), why=why)
        self.ring_after(tx)
        return answers

    def revive(self, tx: Tx, wanted: list[int]) -> Sequence[str]:
        answers = operate.revive(tx, wanted, self.settle_context())
        self.ring_after(tx)
        return answers

    def batch(self, tx: Tx, new: list[NewBatch]) -> Sequence[Enqueued]:
        answers = batches.create(tx, new, ids=self.ids, lanes=self.lanes, now=self.clock.now())
        self.ring_after(tx)
        return answers

    def add_members(self, tx: Tx, new: list[NewMembers]) -> Sequence[int]:
        now, counts = self.clock.now(), list[int]()
        for each in new:
            counts.append(batches.add(tx, each, ids=self.ids, lanes=self.lanes, now=now))
        self.ring_after(tx)
        return counts

    def cancel_members(self, tx: Tx, task: str, members: list[int], why: str) -> list[str]:
        """End members of a batch; quicker without reactions to that."""
        known = self.registry.get(task)
        watched = known is not None and bool(known.reactions)
        answers = batches.cancel(tx, members, self.settle_context(), why=why, watched=watched)
        self.ring_after(tx)
        return answers

    def retry_batch(self, tx: Tx, batch: int, *, then: bool) -> int:
        count = batches.retry(tx, batch, self.settle_context(), then=then, ids=self.ids)
        self.ring_after(tx)
        return count

    def replan(self, tx: Tx, plans: list[tuple[int, int]]) -> Sequence[int]:
        self.ring_after(tx)
        return operate.replan(tx, plans)

    def purge(self, tx: Tx, wanted: list[list[int]]) -> Sequence[int]:
        self.ring_after(tx)
        return [operate.purge(tx, each, self.settle_context()) for each in wanted]

    def purge_queue(self, tx: Tx, queues: list[str]) -> Sequence[int]:
        self.feed.tell_others(tx, JOBS_TOPIC)
        return [operate.purge_queue(tx, queue, self.settle_context()) for queue in queues]

    def pause(self, tx: Tx, queues: list[str]) -> Sequence[None]:
        for queue in queues:
            lanes.pause(tx, queue)
        self.feed.tell_others(tx, JOBS_TOPIC)
        return [None for _ in queues]

    def resume(self, tx: Tx, queues: list[str]) -> Sequence[None]:
        for queue in queues:
            lanes.resume(tx, queue)
        self.ring_after(tx)
        return [None for _ in queues]

    def apply_reports(self, tx: Tx, reports: list[AddressedReport]) -> Sequence[None]:
        """Let paces apply what happened; lanes that wait for them may be due earlier."""
        if reports and admission.apply_reports(tx, reports, now=self.clock.now()):
            self.ring_after(tx)
        return [None for _ in reports]

    def _reported(self) -> None:
        """A pace has a new report: a worker here writes it down, or this call does."""
        if self.local_bells:
            for wake in list(self.local_bells):
                wake()
            return
        reports = self.registry.reports
        while reports:
            report = reports.popleft()
            try:
                self.writer.call(self.apply_reports, [report])
            except Error:
                # The next report, or a worker, writes it down then.
                reports.appendleft(report)
                raise

    def change_pace(self, tx: Tx, wanted: list[tuple[str, str | None, Change]]) -> Sequence[None]:
        for name, kind, how in wanted:
            wishes.change(tx, name, kind, how, now=self.clock.now())
        self.ring_after(tx)
        return [None for _ in wanted]

    def take_paces(self, tx: Tx, wanted: list[tuple[str, Pace, int]]) -> Sequence[bool]:
        now = self.clock.now()
        return [wishes.take(tx, name, pace, units, now=now) for name, pace, units in wanted]

    def _ask_server(self) -> Reading | None:
        """The time of the database's server, if there is one: hosts disagree, it does not."""
        if not isinstance(self.clock, SystemClock):
            return None
        looks: list[Reading] = []
        while len(looks) < LOOKS_AT_SERVER:
            if (found := reading(self.clock, self.database.now)) is None:
                return None
            looks.append(found)
            if found.within <= QUICK_MS:
                break
        # The quicker the answer, the less is left to guess of when it was given.
        return min(looks, key=lambda each: each.within)

    def _clock_stepped(self, by: int) -> None:
        """Workers that sleep went by another time."""
        self.emit(ClockStepped(by))
        for wake in list(self.local_bells):
            wake()

    def react(self, tx: Tx, row: LockedJob, ending: Ending) -> None:
        if self.side.react is not None:
            self.side.react(tx, row, ending)

    def ring_after(self, tx: Tx) -> None:
        """Once this transaction has committed, wake the workers."""
        tx.hint("due")
        if self.ring not in tx.after_commit:
            tx.after_commit.append(self.ring)

    def ring(self) -> None:
        for wake in list(self.local_bells):
            wake()
        if self.doorbell is not None:
            self.doorbell.ring()

    @property
    def listeners(self) -> Sequence[Callable[[Fact], None]]:
        """Who is told of facts: the log of a worker, then the user's hooks."""
        return self.hooks if self.log is None else [self.log, *self.hooks]

    @property
    def tells_each(self) -> bool:
        """Whether the log or a hook wants to know of each job that starts and goes well."""
        return bool(self.hooks) or (self.log is not None and self.logs_each())

    def emit(self, fact: Fact) -> None:
        """Report a fact; a hook that fails is logged and changes nothing."""
        for hook in self.listeners:
            self._tell(hook, fact)

    def sum_up(self, traffic: Traffic) -> None:
        """Tell the log, if there is one."""
        if self.log is not None:
            self._tell(self.log, traffic)

    def _tell(self, hook: Callable[[Any], None], fact: Fact | Traffic) -> None:
        try:
            hook(fact)
        except Exception:
            logger.exception("a hook failed")
