"""App: a Part with a database. What it can do is listed here; how, in the class that each line names.

Nothing happens at import: the database is opened by the first call that needs it. Two Apps in one process
do not know of each other.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar, overload

from duework.admin import Admin
from duework.averbs import Verb, annotated_verb, averb, verb
from duework.byname import named
from duework.changes import ChangeStream, watch
from duework.clock import Clock, clock_from_environment
from duework.db.urls import redacted
from duework.durations import Duration, milliseconds
from duework.errors import UsageError
from duework.kernel.engine import WorkerLimits
from duework.kernel.facts import Fact
from duework.kernel.surroundings.arounds import around
from duework.kernel.tasks import check_count
from duework.kernel.transaction import Block
from duework.outside.secrets import Secrets
from duework.part import Contents, Part
from duework.shapes.batches.handle import Batch, Batches
from duework.shapes.blobs.handle import Blobs
from duework.shapes.budgets.handle import Budgets
from duework.shapes.chains.tasks import ChainVerbs
from duework.shapes.deliveries.operator import DeliveryOperator
from duework.shapes.events.handle import EventVerbs
from duework.shapes.metrics.handle import Metrics
from duework.shapes.objects.handle import DurableObject, Objects
from duework.shapes.objects.proxy import ObjectHandle, ObjectInfo
from duework.shapes.outboxes.handle import OutboxVerbs
from duework.shapes.outboxes.messages import OutboxOperator
from duework.shapes.paces.handle import Paces
from duework.shapes.schedules.declare import Scheduling
from duework.shapes.schedules.handle import Schedule
from duework.shapes.steps.handle import Workflows
from duework.shapes.sweeps.handle import SweepVerbs
from duework.task import Using
from duework.verbs import JobVerbs
from duework.wiring import ISOLATED, Bound, Wiring
from duework.worker.isolation.parent import isolated
from duework.worker.worker import Worker

if TYPE_CHECKING:
    from duework.typed.calls import MakesBatch, MakesSchedule
    from duework.web.limits.settings import WebSettings

DEFAULT_URL = "sqlite:///duework.db"
SHORTEST_LEASE_MS = 100
# From which scope on a token sees what jobs were given and gave back.
PAYLOAD_SCOPES = ("read", "operate", "admin")

F = TypeVar("F", bound=Callable[..., Any])
D = TypeVar("D", bound=DurableObject)


class App(Part):
    """Durable work on one database: what a Part declares, and what can be done at run time."""

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
        blobs: str | None = None,
    ) -> None:
        if payloads not in PAYLOAD_SCOPES:
            known = ", ".join(PAYLOAD_SCOPES)
            raise UsageError(
                f"payloads= is the scope that sees them, one of {known}: not {payloads!r}"
            )
        self.payloads = payloads
        if durability not in {"power", "process"}:
            raise UsageError("durability is 'power' (survives a power cut) or 'process'")
        limits = WorkerLimits(
            lease_ms=check_count("lease, in milliseconds,", milliseconds(lease), SHORTEST_LEASE_MS),
            grace_ms=milliseconds(grace),
            async_slots=check_count("concurrency", concurrency, 0),
            thread_slots=check_count("threads", threads, 0),
            process_slots=check_count("processes", processes or os.cpu_count() or 1, 1),
        )
        chosen = os.environ.get("DUEWORK_URL") or DEFAULT_URL if url is None else url
        chosen = ISOLATED if isolated() else chosen
        bound = Bound(chosen, durability, secrets_key, _clock() if clock is None else clock)
        bound.blobs = blobs or os.environ.get("DUEWORK_BLOBS")
        # The one door to the inside: for shapes, pages, the command line and tests.
        self.wiring = Wiring(bound, limits)
        # Its own tasks have no part's name before theirs.
        self.contents = Contents("")
        self.contents.bind(self)

    @property
    def url(self) -> str:
        """Where the database is, without its password."""
        return redacted(self.wiring.bound.url)

    @property
    def limits(self) -> WorkerLimits:
        """How much its workers take on; set it before a worker starts."""
        return self.wiring.limits

    @limits.setter
    def limits(self, limits: WorkerLimits) -> None:
        self.wiring.limits = limits

    # --- parts

    def include(self, part: Part) -> None:
        """Add a part's tasks and tables, under its name."""
        if part.contents.settings is not None:
            # A mistake in the settings shows at the start, not in the first job that reads them.
            _ = part.settings
        self.wiring.include(part)
        part.contents.bind(self)
        self.wiring.migrate_again()

    @property
    def parts(self) -> Sequence[Part]:
        """What was included, in that order."""
        return tuple(self.wiring.parts)

    def named(self, name: str) -> Using[..., Any]:
        """A task by name, to enqueue it: `app.named("mail.send").using(…).enqueue(to=…)`.

        Arguments are checked if this process knows the task, else by the one that runs it: then they are
        given by name, and so is the queue if it is not `default`.
        """
        return named(name, self.contents)

    def around(self, function: F, /) -> F:
        """A context manager function `(run)` around each attempt of every task, its parts' too."""
        self.wiring.registry.add_around(around(function))
        return function

    # --- jobs and queues

    job, ajob = verb(JobVerbs, JobVerbs.get)
    jobs, ajobs = verb(JobVerbs, JobVerbs.search)
    search_jobs, asearch_jobs = verb(JobVerbs, JobVerbs.look)
    tagged, atagged = verb(JobVerbs, JobVerbs.tagged)
    attempts, aattempts = verb(JobVerbs, JobVerbs.attempts)
    why, awhy = verb(JobVerbs, JobVerbs.why)
    cancel, acancel = verb(JobVerbs, JobVerbs.cancel)
    revive, arevive = verb(JobVerbs, JobVerbs.revive)
    purge, apurge = verb(JobVerbs, JobVerbs.purge)
    pause, apause = verb(JobVerbs, JobVerbs.pause)
    move, amove = verb(JobVerbs, JobVerbs.move)
    resume, aresume = verb(JobVerbs, JobVerbs.resume)
    paused, apaused = verb(JobVerbs, JobVerbs.paused)
    purge_queue, apurge_queue = verb(JobVerbs, JobVerbs.purge_queue)
    unknown_tasks, aunknown_tasks = verb(JobVerbs, JobVerbs.unknown_tasks)

    # --- shapes

    batch: Verb[MakesBatch[Batch]]
    abatch: Verb[MakesBatch[Coroutine[Any, Any, Batch]]]
    batch, abatch = annotated_verb(Batches, Batches.create)
    get_batch, aget_batch = verb(Batches, Batches.get)
    batches, abatches = verb(Batches, Batches.search)

    get_chain, aget_chain = verb(ChainVerbs, ChainVerbs.get)
    chains, achains = verb(ChainVerbs, ChainVerbs.search)

    schedule: Verb[MakesSchedule[Schedule]]
    aschedule: Verb[MakesSchedule[Coroutine[Any, Any, Schedule]]]
    schedule, aschedule = annotated_verb(Scheduling, Scheduling.put)
    get_schedule, aget_schedule = verb(Scheduling, Scheduling.get)
    schedules, aschedules = verb(Scheduling, Scheduling.search)

    get_pace, aget_pace = verb(Paces, Paces.get)
    paces, apaces = verb(Paces, Paces.search)
    block_pace, ablock_pace = verb(Paces, Paces.block)
    reset_pace, areset_pace = verb(Paces, Paces.reset)
    take_pace, atake_pace = verb(Paces, Paces.take)

    get_message, aget_message = verb(OutboxVerbs, OutboxVerbs.get_message)

    get_budget, aget_budget = verb(Budgets, Budgets.get)
    budgets, abudgets = verb(Budgets, Budgets.search)

    signal, asignal = verb(Workflows, Workflows.signal)
    get_workflow, aget_workflow = verb(Workflows, Workflows.get)
    workflows, aworkflows = verb(Workflows, Workflows.search)

    publish, apublish = verb(EventVerbs, EventVerbs.publish)

    objects, aobjects = verb(Objects, Objects.search)

    @overload
    def object(self, of: type[D], key: str) -> ObjectHandle[D]: ...

    @overload
    def object(self, of: str, key: str) -> ObjectHandle[Any]: ...

    def object(self, of: type[DurableObject] | str, key: str) -> ObjectHandle[Any]:
        """One object by class and key, made when it is first used; by name only to look at it."""
        return self.wiring.find(Objects).object(of, key)

    def all_objects(self) -> Iterator[ObjectInfo]:
        """Every object, a page at a time."""
        return self.wiring.find(Objects).search_all()

    @property
    def blobs(self) -> Blobs:
        """Large things by key: rows in the database, contents in a folder."""
        return self.wiring.find(Blobs)

    @property
    def metrics(self) -> Metrics:
        """What the program counts of its own, by minute, hour and day."""
        return self.wiring.find(Metrics)

    @property
    def deliveries(self) -> DeliveryOperator:
        """The channels of every delivery, for operators; needs none of their code."""
        return self.wiring.find(DeliveryOperator)

    @property
    def outboxes(self) -> OutboxOperator:
        """The messages of every outbox, for operators; needs none of their code."""
        return self.wiring.find(OutboxVerbs).operator

    @property
    def events(self) -> EventVerbs:
        """Events, who gets them, and which failed, for operators; needs none of their code."""
        return self.wiring.find(EventVerbs)

    @property
    def sweeps(self) -> SweepVerbs:
        """Every sweep: how it goes, start, stop, reset; needs none of their code."""
        return self.wiring.find(SweepVerbs)

    # --- the database

    def transaction(self) -> Block:
        """The caller's rows and the jobs they need, in one commit: `with`, or `async with`."""
        return Block(self.wiring.bound.url, lambda: self.wiring.engine)

    def read(self, sql: str, /, **values: Any) -> list[Any]:
        """Rows with attribute and index access; `:name` is the one parameter style."""
        with self.wiring.engine.database.reading() as tx:
            return tx.read(sql, **values)

    aread = averb(read)

    def connect(self) -> Any:
        """A connection of the driver's own kind, safe to use beside this App."""
        return self.wiring.engine.database.connect()

    def now(self) -> int:
        """The time that rules here, in milliseconds."""
        return self.wiring.now()

    def close(self) -> None:
        """Finish what is being written and close the database."""
        self.wiring.close()

    @property
    def secrets(self) -> Secrets:
        """Tokens and passwords, sealed with a key that is not in the database."""
        return self.wiring.secrets

    # --- looking

    status, astatus = verb(Admin, Admin.status)
    needs, aneeds = verb(Admin, Admin.needs)

    @property
    def admin(self) -> Admin:
        """What operators do: look, migrate, verify, back up, redrive."""
        return self.wiring.find(Admin)

    def changes(self, coalesce: Duration = "200ms") -> ChangeStream:
        """What changes from now on: `async for change in app.changes(): …`.

        The first one comes at once, and later ones not sooner after each other than `coalesce`, each with
        all that has changed meanwhile.
        """
        return watch(self.wiring.engine, coalesce)

    def on_fact(self, hook: Callable[[Fact], None]) -> None:
        """Call `hook` with what happens, after each commit: for logs and metrics."""
        self.wiring.hooks.append(hook)

    # --- working

    def worker(self, queues: set[str] | None = None) -> Worker:
        """A worker for this process; `await worker.run()`."""
        return self.wiring.worker(queues)

    @asynccontextmanager
    async def running(self, queues: set[str] | None = None) -> AsyncIterator[App]:
        """Work inside another program: `async with app.running(): …`."""
        # Its loop is the program's, which may block it: no other process is to claim for it.
        worker = await asyncio.to_thread(self.wiring.worker, queues, offers=False)
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
            await asyncio.to_thread(worker.engine.checkpoint)

    @asynccontextmanager
    async def lifespan(self, _app: Any = None) -> AsyncIterator[None]:
        """For FastAPI and Starlette: `Starlette(lifespan=app.lifespan)`."""
        async with self.running():
            yield

    def asgi(
        self,
        prefix: str = "",
        *,
        public_names: Sequence[str] = (),
        settings: WebSettings | None = None,
    ) -> Any:
        """The pages for a browser, as an ASGI application; needs `pip install 'duework[web]'`.

        It answers to the names of this machine's loopback, and to `public_names`. Its `settings` are those
        of `[duework-web]` in `duework.toml` unless they are given.
        """
        try:
            from duework.web.asgi import make
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("duework"):
                raise
            message = f"the pages need {error.name}: pip install 'duework[web]'"
            raise UsageError(message) from error
        return make(self, prefix, public_names, settings)


def _clock() -> Clock:
    try:
        return clock_from_environment()
    except ValueError as error:
        raise UsageError(str(error)) from None
