"""What is wired together behind an App: the database, the clock, the tasks, the shapes.

`app.wiring` is for the shapes, the pages, the command line and tests; users need none of it. Nothing happens
at import: the database is opened by the first call that needs it, and migrated then if it has to be.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from duework.averbs import Verbs
from duework.clock import Clock
from duework.db import migrate
from duework.db.adopted import driver_connection
from duework.db.database import Tx, is_stdlib
from duework.db.urls import open_database, served
from duework.errors import DatabaseError, Error, UsageError
from duework.handles import not_kept
from duework.health.status import LATE_MS
from duework.health.why import Around
from duework.ids import Ids
from duework.kernel import enqueue, lanes
from duework.kernel.engine import AppSide, Engine, WorkerLimits
from duework.kernel.error_text import describe
from duework.kernel.facts import Fact
from duework.kernel.job import OWN_QUEUE, Ending, Enqueued, LaneName, LockedJob, NewJob
from duework.kernel.lanes import JOBS
from duework.kernel.outcomes import Snooze
from duework.kernel.pruning import PRUNE_EVERY_MS, PRUNE_KEY, PRUNE_TASK, prune_round, wait_ms
from duework.kernel.tasks import TIRELESS, Definition, Policy, Registry, Writes
from duework.kernel.transaction import Transaction
from duework.observe import log
from duework.outside.secrets import NewSecret, Secrets
from duework.shapes import SHAPES
from duework.shapes.blobs.handle import BlobKeeping
from duework.shapes.chains.tasks import ChainVerbs
from duework.shapes.events.handle import EventVerbs
from duework.shapes.labels.hooks import Labels
from duework.shapes.metrics.handle import MetricKeeping
from duework.shapes.objects.handle import Objects
from duework.shapes.outboxes.handle import message_writes
from duework.shapes.schedules.handle import Schedules
from duework.shapes.shape import H, Hooks, Shape, know, name_tables
from duework.shapes.steps.flow import Flow
from duework.shapes.steps.handle import Steps
from duework.shapes.sweeps.handle import SweepVerbs
from duework.verbs import JobVerbs
from duework.worker.isolation.parent import no_database
from duework.worker.resting import reach_others
from duework.worker.worker import Worker

if TYPE_CHECKING:
    from duework.part import Part

V = TypeVar("V", bound=Verbs)
logger = logging.getLogger("duework")

# The address in a process of a task's own, which has no database.
ISOLATED = "isolated:"
PRUNE_CHUNKS = 1000
# How often the housekeeping asks the shapes to prune.
SHAPES_EVERY_MS = 60_000
# A writer that could not write for so long is stuck, and not only busy.
STUCK_SECONDS = 1.0


@dataclass(slots=True)
class Bound:
    """Which database and which clock an App is bound to; a test's Harness binds it to others."""

    url: str
    durability: str
    secrets_key: str | None
    clock: Clock
    # Where the contents of blobs are; None: beside the database.
    blobs: str | None = None
    # None until the database is first needed.
    engine: Engine | None = None
    closed: bool = False


class Wiring:
    """One App's inside."""

    def __init__(self, bound: Bound, limits: WorkerLimits) -> None:
        self.bound = bound
        self.limits = limits
        self.registry = Registry()
        self.parts: list[Part] = []
        self.shapes: list[Hooks] = []
        self.hooks: list[Callable[[Fact], None]] = []
        self._verbs: dict[type, Any] = {}
        self._opening = threading.Lock()
        self.registry.add(_housekeeping(self))
        self.jobs = self.find(JobVerbs)
        for shape in SHAPES:
            self._know(shape)
        self.adopt(self.find(ChainVerbs).chains)
        self.adopt(Schedules())
        self.adopt(Steps())
        self.adopt(self.find(EventVerbs).hooks)
        self.adopt(self.find(SweepVerbs).hooks)
        self.adopt(BlobKeeping())
        self.adopt(Labels())
        self.adopt(MetricKeeping())
        self.registry.writes["message"] = message_writes(self)

    # --- what stands on it

    def find(self, of: type[V]) -> V:
        """The verbs of one subject; the same instance each time."""
        found: V | None = self._verbs.get(of)
        if found is None:
            # Of two threads that make one, both go on with the first.
            found = self._verbs.setdefault(of, of(self))
        return found

    def adopt(self, hooks: H) -> H:
        """Let a shape stand on this App."""
        if hooks not in self.shapes:
            self._know(hooks.shape)
            hooks.bind(self)
            self.registry.writes.update(hooks.writes())
            self.shapes.append(hooks)
            self.migrate_again()
        return hooks

    def _know(self, shape: Shape) -> None:
        know(self.registry, shape)
        log.learn(shape.words())

    def include(self, part: Part) -> None:
        """The tables of a part are migrated with the database's own from now on."""
        if part not in self.parts:
            self.parts.append(part)

    # --- the database

    @property
    def engine(self) -> Engine:
        """The kernel's side of this App; opens and migrates the database when first used."""
        engine = self.present
        if engine is None:
            with self._opening:
                if self.bound.closed:
                    raise UsageError("this App is closed; make a new one")
                engine = self.present
                if engine is None:
                    self.bound.engine = engine = self._open()
        return engine

    @property
    def present(self) -> Engine | None:
        """The engine, if there is one; that of a process which this one was forked from is none."""
        engine = self.bound.engine
        return engine if engine is not None and engine.writer.ours else None

    def _open(self) -> Engine:
        bound = self.bound
        if bound.url == ISOLATED:
            raise no_database()
        if bound.engine is not None:
            # Noted before a fork, by the parent: it writes them down.
            self.registry.reports.clear()
        database = open_database(bound.url, bound.durability)
        try:
            migrate.migrate(database, self.schema_steps(database.kind))
            engine = Engine(database, self.registry, bound.clock, self._side())
            engine.clock_watch.begin()
            name_tables(engine)
        except BaseException:
            # A file that was refused must not count as open in this process.
            database.close()
            raise
        if (inode := getattr(database, "inode", None)) is not None:
            reach_others(engine, inode)
        self.registry.writes["secret"] = Writes(NewSecret, self.secrets.write)
        return engine

    def _side(self) -> AppSide:
        found = self.find(Objects).object
        return AppSide(self.react, self.hooks, self.secrets.open, found, Flow)

    def schema_steps(self, kind: str) -> list[migrate.Migrations]:
        """The migrations of the kernel, of every shape and of every part."""
        steps = [migrate.kernel_steps(kind)]
        steps += filter(None, (shape.schema(kind) for shape in self.registry.shapes.values()))
        for part in self.parts:
            if (tables := part.contents.tables) is not None:
                steps.append(migrate.part_steps(part.name, tables, kind))
        return steps

    def migrate_again(self) -> None:
        """If the database is open already: apply what a part or a shape has brought along since."""
        if (engine := self.present) is not None:
            migrate.migrate(engine.database, self.schema_steps(engine.database.kind))
            name_tables(engine)

    def close(self) -> None:
        """Finish what is being written and close the database."""
        bound = self.bound
        bound.closed = True
        engine, bound.engine = bound.engine, None
        # After a fork they are the parent's.
        if engine is not None and engine.writer.ours:
            engine.feed.close()
            if engine.series.pending:
                # What was only counted is no reason to fail, or to wait for long.
                with contextlib.suppress(Error):
                    engine.writer.call(engine.write_series, [None], patience=1)
            engine.writer.close()
            engine.database.close()
            if engine.doorbell is not None:
                engine.doorbell.close()

    def now(self) -> int:
        """The time that rules here, in milliseconds: a server's is known once it was asked."""
        engine = self.present
        if engine is None and served(self.bound.url):
            engine = self.engine
        return self.bound.clock.now() if engine is None else engine.clock_watch.checked_now()

    @property
    def secrets(self) -> Secrets:
        """Tokens and passwords, sealed with a key that is not in the database."""
        return Secrets(self.bound.url, self.bound.secrets_key, lambda: self.engine)

    @property
    def late_ms(self) -> int:
        """When a job that nobody has taken is late: what a worker takes is real, however quick the clock."""
        return int(LATE_MS * self.engine.clock.speed)

    def around(self) -> Around:
        """What this process knows besides the rows, for `why` and `needs`."""
        engine = self.engine
        # A lock that was held for a moment is no reason.
        broken = engine.writer.stuck(STUCK_SECONDS) or engine.database.disk_full_reason()
        return Around(self.now(), engine.near, broken, self.registry, self.late_ms)

    def enqueue_within(self, new: list[NewJob], connection: Any) -> Sequence[Enqueued]:
        """In the caller's own transaction, which the caller commits."""
        bound, connection = self.bound, driver_connection(connection)
        if self.present is None:
            # What is no connection is refused before the file is opened.
            database = open_database(bound.url, bound.durability)
            tx = database.adopt(connection)
        if self.present is None and is_stdlib(connection):
            # Opening the file ourselves would break the locks of the connection that was brought.
            migrate.require(tx, [migrate.kernel_steps(database.kind)])
            ids, now = Ids(bound.clock.now), bound.clock.now()
            return enqueue.enqueue(tx, new, ids=ids, lanes=lanes.Lanes(), now=now)
        engine = self.engine
        return engine.enqueue(engine.database.adopt(connection), new)

    # --- working

    def worker(self, queues: set[str] | None, *, offers: bool = True) -> Worker:
        """A worker for this process, and what has to be written before it starts."""
        self.find(Objects).find_classes()
        engine = self.engine
        engine.make_ready()
        engine.log, engine.logs_each = log.report, log.logs_each
        self.arm_housekeeping()
        self.arm()
        return Worker(engine, self.limits, queues, offers=offers)

    def arm(self) -> None:
        """Write what the shapes need before a worker starts; safe to repeat."""
        for shape in self.shapes:
            shape.arm()

    def arm_housekeeping(self) -> None:
        """Write the job that prunes, if there is none; it is due again by itself."""
        engine, lane = self.engine, LaneName(OWN_QUEUE, PRUNE_TASK)
        prune = NewJob(lane, "{}", engine.clock.now() + PRUNE_EVERY_MS, key=PRUNE_KEY)
        engine.writer.call(engine.enqueue, [prune])

    def react(self, tx: Tx, row: LockedJob, ending: Ending) -> None:
        """A job has settled, in the transaction that says so: tell its shape and the user's reactions."""
        engine = self.engine
        if row.owner is not None:
            kind = row.owner.partition(":")[0]
            for hooks in self.shapes:
                if hooks.shape.owner == kind:
                    hooks.settled(tx, row, ending)
        task = self.registry.get(row.task)
        if task is None or not task.reactions:
            return
        view = (
            self.jobs.view(tx.query(JOBS.jobs, {"ids": [row.id]})[0])
            if ending.keep != 0
            else not_kept(self.jobs, row, ending)
        )
        for reaction in task.reactions:
            reaction(Transaction(tx, engine), view, ending.kind)


def _housekeeping(wiring: Wiring) -> Definition:
    """The engine's own task that deletes what is not kept any more."""
    looked = 0
    failing: set[str] = set()

    def tidy(shape: Hooks) -> None:
        """One that cannot, since its store is away for example, keeps no other from it."""
        name = shape.shape.name
        try:
            shape.prune()
        except DatabaseError:
            raise
        except Exception as error:  # noqa: BLE001 - a border: said once, and tried again
            if name not in failing:
                logger.error("the housekeeping of %s failed: %s", name, describe(error))  # noqa: TRY400 - its text tells all
            failing.add(name)
        else:
            failing.discard(name)

    def prune() -> Snooze:
        """Delete settled rows whose retention is over; due again by itself."""
        nonlocal looked
        engine = wiring.engine
        taken = prune_round(engine, PRUNE_CHUNKS)
        now = engine.clock.now()
        # A clock that was set back is no reason to wait.
        if not 0 <= now - looked < SHAPES_EVERY_MS:
            for shape in wiring.shapes:
                tidy(shape)
            looked = now
        return Snooze(0 if taken >= PRUNE_CHUNKS else wait_ms(engine) / 1000)

    return Definition(PRUNE_TASK, prune, Policy(queue=OWN_QUEUE, **TIRELESS))
