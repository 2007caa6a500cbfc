"""App: binds a database, a clock, tasks and their parts. The one place where they meet.

Nothing happens at import: the database is opened by the first call that needs it, and migrated then if
it has to be. Two Apps in one process do not know of each other.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from duework.admin import Admin
from duework.averbs import averb
from duework.clock import Clock, clock_from_environment
from duework.db import migrate
from duework.db.database import Tx, is_stdlib
from duework.db.urls import open_database, redacted, served
from duework.durations import Duration, milliseconds
from duework.errors import UsageError
from duework.handles import Job, Queue, not_kept
from duework.health.needs import Need
from duework.health.status import Status
from duework.health.why import Why
from duework.ids import Ids
from duework.kernel import jobs, lanes
from duework.kernel.engine import Engine, WorkerLimits
from duework.kernel.facts import Fact
from duework.kernel.job import OWN_QUEUE, Ending, Enqueued, LaneName, LockedJob, NewJob
from duework.kernel.lanes import JOBS
from duework.kernel.outcomes import Snooze
from duework.kernel.paces.pace import Pace
from duework.kernel.pruning import (
    PRUNE_EVERY_MS,
    PRUNE_KEY,
    PRUNE_TASK,
    prune_round,
    wait_ms,
)
from duework.kernel.tasks import Definition, Policy, Registry, Writes, check_count, check_name
from duework.kernel.transaction import Block, Transaction
from duework.observe import log
from duework.outside.secrets import NewSecret, Secrets
from duework.part import Part, Tasks, define
from duework.shapes.batches.handle import Batches
from duework.shapes.chains.tasks import ChainVerbs
from duework.shapes.chains.verbs import Chains
from duework.shapes.deliveries.operator import DeliveryVerbs
from duework.shapes.objects.handle import Objects
from duework.shapes.outboxes.handle import OutboxVerbs, message_writes
from duework.shapes.paces.handle import Paces
from duework.shapes.schedules.declare import Scheduling
from duework.shapes.schedules.handle import Schedules
from duework.shapes.shape import Shape
from duework.task import Task
from duework.verbs import Verbs
from duework.worker.isolation.parent import NeedsWorker, isolated
from duework.worker.resting import reach_others
from duework.worker.worker import Worker

DEFAULT_URL = "sqlite:///duework.db"
PRUNE_CHUNKS = 1000
# What shapes keep is looked at no more often.
SHAPES_EVERY_MS = 60_000
SHORTEST_LEASE_MS = 100
# From which scope on a token sees what jobs were given and gave back.
PAYLOAD_SCOPES = ("read", "operate", "admin")


class App(
    Tasks, Verbs, ChainVerbs, Scheduling, Batches, DeliveryVerbs, OutboxVerbs, Paces, Objects
):
    """Durable work on one database."""

    def __init__(  # noqa: PLR0913 - each is a setting of its own
        self,
        url: str | None = None,
        *,
        durability: str = "power",
        lease: Duration = "15s",
        grace: Duration = "25s",
        concurrency: int = 100,
        threads: int = 10,
        processes: int | None = None,
        clock: Clock | None = None,
        secrets_key: str | None = None,
        payloads: str = "read",
    ) -> None:
        if payloads not in PAYLOAD_SCOPES:
            raise UsageError(f"payloads= is who sees them: {', '.join(PAYLOAD_SCOPES)}")
        self.payloads = payloads
        if durability not in {"power", "process"}:
            raise UsageError("durability is 'power' (survives a power cut) or 'process'")
        self._url = (
            "isolated:" if isolated() else url or os.environ.get("DUEWORK_URL") or DEFAULT_URL
        )
        self._durability = durability
        self._secrets_key = secrets_key
        self.limits = WorkerLimits(
            lease_ms=check_count("lease, in milliseconds,", milliseconds(lease), SHORTEST_LEASE_MS),
            grace_ms=milliseconds(grace),
            async_slots=check_count("concurrency", concurrency, 0),
            thread_slots=check_count("threads", threads, 0),
            process_slots=check_count("processes", processes or os.cpu_count() or 1, 1),
        )
        self.registry = Registry()
        self._clock: Clock = _clock() if clock is None else clock
        self._parts: list[Part] = []
        self._shapes: list[Shape] = []
        self._hooks: list[Callable[[Fact], None]] = []
        self._engine: Engine | None = None
        self._opening = threading.Lock()
        self._closed = False
        Objects.__init__(self)
        self._add_housekeeping()
        self._adopt(chains := Chains())
        self._chains = chains
        self._adopt(Schedules())
        self.registry.writes["message"] = message_writes(self)

    @property
    def url(self) -> str:
        """Where the database is, without its password."""
        return redacted(self._url)

    # --- tasks and parts

    def _register(
        self, function: Callable[..., Any], options: dict[str, Any]
    ) -> Task[..., Any, Any]:
        definition = define(function, options)
        self.registry.add(definition)
        return Task(definition, self)

    def include(self, part: Part) -> None:
        """Add a part's tasks and tables, under its name."""
        if part not in self._parts:
            self._parts.append(part)
        for definition in part.bind(self):
            self.registry.add(definition)
        for shape in part.shapes:
            self._adopt(shape)
        part.bind_objects(self)
        if self._engine is not None:
            database = self._engine.database
            migrate.migrate(database, self.schema_steps(database.kind))

    @property
    def parts(self) -> Sequence[Part]:
        """What was included, in that order."""
        return tuple(self._parts)

    def _adopt(self, shape: Shape) -> None:
        """Let a shape stand on this App."""
        if shape not in self._shapes:
            shape.bind(self)
            self._shapes.append(shape)

    def queue(
        self, name: str, *, concurrency: int | None = None, pace: Pace | Sequence[Pace] = ()
    ) -> Queue:
        """A queue by name; `concurrency` and `pace` hold for its jobs over all processes."""
        check_name("queue", name)
        if concurrency is not None:
            self.registry.queue_limits[name] = check_count("concurrency", concurrency, 1)
        if pace:
            self.registry.pace_queue(name, pace)
        return Queue(self, name)

    def _add_housekeeping(self) -> None:
        looked = 0

        def prune() -> Snooze:
            """Delete settled rows whose retention is over; due again by itself."""
            nonlocal looked
            engine = self.engine
            taken = prune_round(engine, PRUNE_CHUNKS)
            now = engine.clock.now()
            # A clock that was set back is no reason to wait.
            if not 0 <= now - looked < SHAPES_EVERY_MS:
                for shape in self._shapes:
                    shape.prune()
                looked = now
            return Snooze(0 if taken >= PRUNE_CHUNKS else wait_ms(engine) / 1000)

        chosen = Policy(queue=OWN_QUEUE, immortal=True, keep=0)
        self.registry.add(Definition(PRUNE_TASK, prune, chosen))

    # --- the database

    @property
    def engine(self) -> Engine:
        """The kernel's side of this App; opens and migrates the database when first used."""
        if self._engine is None:
            with self._opening:
                if self._closed:
                    raise UsageError("this App is closed; make a new one")
                if self._engine is None:
                    self._engine = self._open()
        return self._engine

    def _open(self) -> Engine:
        if self._url == "isolated:":
            message = (
                "a task with a process of its own has no database: use run.read, run.write and"
                " run.enqueue, which ask its worker"
            )
            raise NeedsWorker(message)
        database = open_database(self._url, self._durability)
        try:
            migrate.migrate(database, self.schema_steps(database.kind))
            engine = Engine(database, self.registry, self._clock)
            engine.clock_watch.begin()
        except BaseException:
            # A file that was refused must not count as open in this process.
            database.close()
            raise
        if (inode := getattr(database, "inode", None)) is not None:
            reach_others(engine, inode)
        engine.hooks = self._hooks
        engine.reactor = self._react
        engine.open_secret = self.secrets.open
        engine.find_object = self.object
        self.registry.writes["secret"] = Writes(NewSecret, self.secrets.write)
        return engine

    def schema_steps(self, kind: str) -> list[migrate.Migrations]:
        """The migrations of the kernel and of every part."""
        steps = [migrate.kernel_steps(kind)]
        for part in self._parts:
            if part.tables is not None:
                steps.append(migrate.part_steps(part.name, Path(part.tables), kind))
        return steps

    @property
    def admin(self) -> Admin:
        """What operators do: look, migrate, verify, back up, redrive."""
        return Admin(self, self._url, self._durability)

    @property
    def secrets(self) -> Secrets:
        """Tokens and passwords, sealed with a key that is not in the database."""
        return Secrets(self._url, self._secrets_key, lambda: self.engine)

    def status(self) -> Status:
        """How many jobs are ready, waiting and running, of which tasks, and which workers there are."""
        return self.admin.status()

    def needs(self) -> list[Need]:
        """What needs somebody, the most urgent first; empty if nothing does."""
        return self.admin.needs()

    def why(self, identifier: int) -> Why:
        """Why a job waits, runs or has ended, from the rows; `NotFound` if there is none."""
        return self.admin.why(identifier)

    def now(self) -> int:
        """The time that rules here, in milliseconds: a server's is known once it was asked."""
        engine = self._engine
        if engine is None and served(self._url):
            engine = self.engine
        return self._clock.now() if engine is None else engine.clock_watch.checked_now()

    def connect(self) -> Any:
        """A connection of the driver's own kind, safe to use beside this App."""
        return self.engine.database.connect()

    def transaction(self) -> Block:
        """The caller's rows and the jobs they need, in one commit: `with`, or `async with`."""
        return Block(self._url, lambda: self.engine)

    def read(self, sql: str, /, **values: Any) -> list[Any]:
        """Rows with attribute and index access; `:name` is the one parameter style."""
        with self.engine.database.reading() as tx:
            return tx.read(sql, **values)

    def close(self) -> None:
        """Finish what is being written and close the database."""
        self._closed = True
        engine, self._engine = self._engine, None
        # After a fork they are the parent's.
        if engine is not None and engine.writer.ours:
            engine.feed.close()
            engine.writer.close()
            engine.database.close()
            if engine.doorbell is not None:
                engine.doorbell.close()

    # --- jobs

    def enqueue_jobs(self, new: list[NewJob], connection: Any = None) -> list[Job[Any]]:
        """What every `enqueue` comes down to."""
        if connection is not None:
            return self._enqueue_within(new, connection)
        engine = self.engine
        return self._handles(new, engine.writer.call(engine.enqueue_alone, new))

    async def aenqueue_jobs(self, new: list[NewJob], connection: Any = None) -> list[Job[Any]]:
        """The same for async code."""
        if connection is not None:
            return self._enqueue_within(new, connection)
        engine = self.engine
        return self._handles(new, await engine.writer.acall(engine.enqueue_alone, new))

    def _enqueue_within(self, new: list[NewJob], connection: Any) -> list[Job[Any]]:
        """In the caller's own transaction, which the caller commits."""
        if self._engine is None and is_stdlib(connection):
            # Opening the file ourselves would break the locks of the connection that was brought.
            database = open_database(self._url, self._durability)
            tx = database.adopt(connection)
            migrate.require(tx, [migrate.kernel_steps(database.kind)])
            ids, now = Ids(self._clock.now), self._clock.now()
            answers: Sequence[Enqueued] = jobs.enqueue(
                tx, new, ids=ids, lanes=lanes.Lanes(), now=now
            )
        else:
            engine = self.engine
            answers = engine.enqueue(engine.database.adopt(connection), new)
        return self._handles(new, answers)

    def _handles(self, new: Sequence[NewJob], answers: Sequence[Enqueued]) -> list[Job[Any]]:
        now = self._clock.now()
        return [
            Job(
                id=answer.id,
                queue=(lane := job.lane).queue,
                task=lane.task,
                priority=lane.priority,
                key=job.key,
                due=job.at,
                at=job.at,
                payload=job.payload,
                existed=answer.existed,
                seen_at=now,
                _app=self,
            )
            for job, answer in zip(new, answers, strict=True)
        ]

    # --- the same for async code

    astatus = averb(status)
    aneeds = averb(needs)
    awhy = averb(why)
    aread = averb(read)

    # --- working

    def worker(self, queues: set[str] | None = None) -> Worker:
        """A worker for this process; `await worker.run()`."""
        self.find_objects()
        engine = self.engine
        engine.make_ready()
        engine.log, engine.logs_each = log.report, log.logs_each
        self._arm_housekeeping(engine)
        self._arm()
        return Worker(engine, self.limits, queues)

    def _arm(self) -> None:
        """Write what the shapes need before a worker starts; safe to repeat."""
        for shape in self._shapes:
            shape.arm()

    def _arm_housekeeping(self, engine: Engine) -> None:
        lane = LaneName(OWN_QUEUE, PRUNE_TASK)
        prune = NewJob(lane, "{}", engine.clock.now() + PRUNE_EVERY_MS, key=PRUNE_KEY)
        engine.writer.call(engine.enqueue, [prune])

    @asynccontextmanager
    async def running(self, queues: set[str] | None = None) -> AsyncIterator[App]:
        """Work inside another program: `async with app.running(): …`."""
        worker = await asyncio.to_thread(self.worker, queues)
        worker.offers = False
        inside = asyncio.current_task()
        running = asyncio.create_task(worker.run(), name="duework-worker")

        def ended(task: asyncio.Task[None]) -> None:
            # A worker that cannot go on must not leave a program that looks alive.
            if inside is not None and not task.cancelled() and task.exception() is not None:
                inside.cancel("the worker failed")

        running.add_done_callback(ended)
        try:
            yield self
        finally:
            worker.stop()
            await running

    @asynccontextmanager
    async def lifespan(self, _app: Any = None) -> AsyncIterator[None]:
        """For FastAPI and Starlette: `Starlette(lifespan=app.lifespan)`."""
        async with self.running():
            yield

    def asgi(self, prefix: str = "", *, public_names: Sequence[str] = ()) -> Any:
        """The pages for a browser, as an ASGI application; needs `pip install 'duework[web]'`.

        It answers to the names of this machine's loopback, and to `public_names`.
        """
        try:
            from duework.web.asgi import make
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("duework"):
                raise
            message = f"the pages need {error.name}: pip install 'duework[web]'"
            raise UsageError(message) from error
        return make(self, prefix, public_names)

    def on_fact(self, hook: Callable[[Fact], None]) -> None:
        """Call `hook` with what happens, after each commit: for logs and metrics."""
        self._hooks.append(hook)

    def _react(self, tx: Tx, row: LockedJob, ending: Ending) -> None:
        engine = self.engine
        if row.owner is not None:
            kind = row.owner.partition(":")[0]
            for shape in self._shapes:
                if shape.kind == kind:
                    shape.settled(Transaction(tx, engine), row, ending)
        task = self.registry.get(row.task)
        if task is None or not task.reactions:
            return
        view = (
            self._view(tx.query(JOBS.jobs, {"ids": [row.id]})[0])
            if ending.keep != 0
            else not_kept(self, row, ending)
        )
        for reaction in task.reactions:
            reaction(Transaction(tx, engine), view, ending.kind)


def _clock() -> Clock:
    try:
        return clock_from_environment()
    except ValueError as error:
        raise UsageError(str(error)) from None
