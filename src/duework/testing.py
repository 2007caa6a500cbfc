"""Testing is part of the product: virtual time, a temporary database, crashes at will.

    with Harness(app, now="2026-03-29T00:59:00+01:00") as h:
        greet.enqueue("ada")
        h.drain()
        h.advance("31d")

`app` is rebound in place and bound back at the end. Jobs run on a thread and an event loop of the
harness's own, so it works inside async tests too. A month of retries takes milliseconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import random
import secrets
import shutil
import tempfile
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from duework.app import App
from duework.clock import VirtualClock
from duework.db.database import Database, NewRow, Tx
from duework.db.queries import Statement
from duework.db.writer.requests import Request
from duework.db.writer.writer import Writer
from duework.durations import Duration, Moment, milliseconds, moment
from duework.handles import Job
from duework.kernel.engine import Engine
from duework.outside.keys import new_key
from duework.shapes.objects.handle import Objects
from duework.shapes.schedules.handle import Schedules
from duework.shapes.stand_ins import StandIns
from duework.wiring import Bound
from duework.worker.worker import Worker

T = TypeVar("T")

__all__ = ["Harness", "WorkerCrashed"]

DEFAULT_NOW = "2026-01-01T00:00:00+00:00"


class WorkerCrashed(BaseException):
    """Raised inside a worker whose process is lost; no handler of ours may catch it."""


class Counter:
    """Ids 1, 2, 3 and so on."""

    def __init__(self) -> None:
        self._last = 0
        self._lock = threading.Lock()

    def draw(self) -> int:
        return self.draw_many(1)[0]

    def scatter(self) -> None:
        """Nothing else draws: whatever failed, it was not a number that was drawn twice."""

    def draw_many(self, count: int) -> range:
        with self._lock:
            first = self._last + 1
            self._last += count
        return range(first, first + count)


class Harness:
    """Runs an App's jobs in virtual time on a temporary database."""

    def __init__(
        self,
        app: App,
        now: Moment = DEFAULT_NOW,
        *,
        setup: Callable[..., object] | None = None,
        url: str | None = None,
        outboxes: Mapping[str, Any] | None = None,
        channels: Mapping[str, Callable[..., Any]] | None = None,
        schedules: bool = True,
    ) -> None:
        self.app = app
        # Whether what decorators declare is fired; a test of something else need not see every minute.
        self._schedules = schedules
        self._stand_ins = StandIns(outboxes or {}, channels or {})
        self.clock = VirtualClock(moment(now))
        self._setup = setup
        self._server = url
        self._before: Bound | None = None
        self._folder: str | None = None
        self._blobs: str | None = None
        self._database_name: str | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._worker: Worker | None = None
        self._lost: list[int] = []
        self.statements = 0

    def __enter__(self) -> Self:
        app = self.app
        # Nothing of a temporary database has to survive a power cut; and a key of its own: whatever the
        # environment names seals nothing here.
        bound = Bound(self._temporary_url(), "process", new_key(), self.clock)
        # What the App names is no place for the blobs of a test.
        self._blobs = bound.blobs = tempfile.mkdtemp(prefix="duework-blobs-")
        self._before, app.wiring.bound = app.wiring.bound, bound
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="harness", daemon=True)
        self._thread.start()
        try:
            self._set_up(app)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _set_up(self, app: App) -> None:
        self._stand_ins.take_place(app.wiring.shapes)
        engine = app.wiring.engine
        engine.ids = Counter()  # type: ignore[assignment]  # draws ids, as Ids does
        engine.chance = random.Random(0).random  # noqa: S311 - the same in every test
        if self._setup is not None:
            wants_app = bool(inspect.signature(self._setup).parameters)
            self._setup(app) if wants_app else self._setup()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._loop is not None
        assert self._thread is not None
        self._on_loop(_end_everything())
        if self._worker is not None:
            self._worker.abandon()
            self._worker = None
        self._close_resources()
        # As at the end of any loop: connections of HTTP clients end with theirs.
        self._on_loop(self._loop.shutdown_asyncgens())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self.app.close()
        if self._before is not None:
            self.app.wiring.bound = self._before
        self._stand_ins.give_back()
        self._remove_database()

    # --- time

    @property
    def now(self) -> int:
        return self.clock.now()

    def drain(self) -> int:
        """Run everything that is due now; returns when the next thing is due, in milliseconds."""
        if self._worker is None:
            self._arm()
        return self._on_loop(self._drain())

    def _arm(self) -> None:
        """As a worker would."""
        for shape in self.app.wiring.shapes:
            if self._schedules or not isinstance(shape, Schedules):
                shape.arm()

    def advance(self, length: Duration) -> None:
        """Let time pass; everything that comes due on the way runs at its time, in order."""
        target = self.clock.now() + milliseconds(length)
        while (due := self.drain()) <= target:
            self.clock.move_to(due)
        self.clock.move_to(target)
        self.drain()

    async def _drain(self) -> int:
        if self._worker is None:
            self._worker = Worker(self.app.wiring.engine, self.app.limits)
        due = await self._worker.run_until_idle(self._lost)
        # Not before: a worker that finds them dead may die itself before it has written that down.
        self._lost.clear()
        return due

    # --- crashes

    def crash_worker(self, at: int | None = None) -> bool:
        """Lose the worker's process: now, or before statement `at` of the next drain.

        What it held stays leased until the next drain finds it dead; what it had in memory is gone.
        With `at`, drains, and returns whether it got as far as that statement.
        """
        if at is None:
            self._abandon()
            return True
        with doomed(self.app.wiring.engine, at) as fuse:
            with contextlib.suppress(WorkerCrashed):
                self._on_loop(self._drain_or_crash(fuse))
            self.statements = fuse.count
            if fuse.blown:
                self._abandon()
        return fuse.blown

    async def _drain_or_crash(self, fuse: Fuse) -> None:
        draining = asyncio.create_task(self._drain())
        blown = asyncio.create_task(fuse.wait())
        await asyncio.wait({draining, blown}, return_when=asyncio.FIRST_COMPLETED)
        if fuse.blown:
            draining.cancel()
            raise WorkerCrashed
        blown.cancel()
        await draining

    def _abandon(self) -> None:
        worker = self._worker
        if worker is None:
            return
        self._worker = None
        self._lost.append(worker.id)
        # On the loop: there an attempt may be ending at this moment, and it ends once.
        self._on_loop(_abandoned(worker))
        self.app.wiring.find(Objects).forget()
        self._close_resources()
        self._on_loop(_end_everything())

    def _close_resources(self) -> None:
        if (engine := self.app.wiring.bound.engine) is not None:
            self._on_loop(engine.resources.leave())

    # --- looking

    def assert_enqueued(self, task: Any, /, *args: Any, **kwargs: Any) -> Job[Any]:
        """The newest job of the task with these arguments; an AssertionError that lists the others."""
        payload = task.definition.arguments.encode(args, kwargs)
        found = self.app.jobs(task=task.name, limit=1000)
        for job in found:
            if job.payload == payload:
                return job
        others = ", ".join(job.payload for job in found[:10]) or "none at all"
        raise AssertionError(f"no job {task.name} with {payload}; there are: {others}")

    def refute_enqueued(self, task: Any, /, *args: Any, **kwargs: Any) -> None:
        """An AssertionError if there is such a job; without arguments, any job of the task."""
        found = self.app.jobs(task=task.name, limit=1000)
        if args or kwargs:
            payload = task.definition.arguments.encode(args, kwargs)
            found = [job for job in found if job.payload == payload]
        if found:
            raise AssertionError(f"there is a job {task.name}: {found[0].payload}")

    # --- inside

    def _on_loop(self, coroutine: Coroutine[Any, Any, T]) -> T:
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def _temporary_url(self) -> str:
        if self._server is None:
            self._folder = tempfile.mkdtemp(prefix="duework-")
            return f"sqlite:///{Path(self._folder, 'harness.db')}"
        import psycopg

        self._database_name = f"duework_{secrets.token_hex(8)}"
        with psycopg.connect(self._server, autocommit=True) as connection:
            connection.execute(f'create database "{self._database_name}"')
        base, _, query = self._server.partition("?")
        root = base.rpartition("/")[0]
        return f"{root}/{self._database_name}" + (f"?{query}" if query else "")

    def _remove_database(self) -> None:
        for folder in filter(None, (self._folder, self._blobs)):
            shutil.rmtree(folder, ignore_errors=True)
        if self._database_name is not None and self._server is not None:
            import psycopg

            with psycopg.connect(self._server, autocommit=True) as connection:
                connection.execute(f'drop database if exists "{self._database_name}" with (force)')


async def _abandoned(worker: Worker) -> None:
    worker.abandon()


async def _end_everything() -> None:
    """Cancel whatever runs on the harness's loop; as a killed process would not wait for it either."""
    mine = asyncio.current_task()
    others = [task for task in asyncio.all_tasks() if task is not mine]
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=1)


@contextlib.contextmanager
def doomed(engine: Engine, at: int) -> Iterator[Fuse]:
    """Everything written in this block goes through a writer that is lost before statement `at`."""
    before, fuse = engine.writer, Fuse(engine.database, at)
    engine.writer = lost = DoomedWriter(fuse)
    try:
        yield fuse
    finally:
        lost.close()
        # A process that is gone leaves no transaction open.
        fuse.rollback()
        engine.writer = before


class DoomedWriter(Writer):
    """A writer whose thread ends with its process, without a word."""

    def _serve(self) -> None:
        with contextlib.suppress(WorkerCrashed):
            super()._serve()

    def _commit_group(self, group: list[Request]) -> None:
        try:
            super()._commit_group(group)
        except WorkerCrashed as crash:
            # A caller that waits in a thread must not wait for ever; whatever it does next is lost too.
            for request in [*group, *self._waiting]:
                request.error = crash
                if request.done is not None:
                    request.done.set()
            raise


class Fuse:
    """A database that is lost before its n-th statement, and stays so.

    Counted are begins, statements, commits, and the moment after a commit before its answer.
    """

    def __init__(self, real: Database, at: int) -> None:
        self._real = real
        self._at = at
        self.count = 0
        self.blown = False
        self.kind = real.kind
        self.url = real.url

    def crowded(self) -> bool:
        return False

    async def wait(self) -> None:
        while not self.blown:  # noqa: ASYNC110 - it blows in another thread
            await asyncio.sleep(0.001)

    def step(self) -> None:
        self.count += 1
        if self.count >= self._at:
            self.blown = True
            raise WorkerCrashed

    def begin(self) -> Tx:
        self.step()
        return FusedTx(self._real.begin(), self)

    def commit(self, tx: Tx) -> None:
        self.step()
        self._real.commit(tx.real if isinstance(tx, FusedTx) else tx)
        self.step()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class FusedTx:
    """A transaction of such a database."""

    def __init__(self, real: Tx, fuse: Fuse) -> None:
        self.real = real
        self._fuse = fuse
        self.after_commit = real.after_commit

    @property
    def made(self) -> NewRow | None:
        return self.real.made

    @property
    def note(self) -> Callable[[Statement], None] | None:
        return self.real.note

    @note.setter
    def note(self, note: Callable[[Statement], None] | None) -> None:
        self.real.note = note

    def query(self, statement: Statement, values: Any) -> list[tuple[Any, ...]]:
        self._fuse.step()
        return self.real.query(statement, values)

    def change(self, statement: Statement, values: Any) -> int:
        self._fuse.step()
        return self.real.change(statement, values)

    def bulk(self, statement: Statement, rows: Sequence[tuple[Any, ...]]) -> int:
        self._fuse.step()
        return self.real.bulk(statement, rows)

    def put(self, statement: Statement, row: NewRow) -> None:
        self._fuse.step()
        self.real.put(statement, row)

    def put_if(self, statement: Statement, row: NewRow, more: tuple[Any, ...]) -> bool:
        self._fuse.step()
        return self.real.put_if(statement, row, more)

    def now(self) -> int | None:
        self._fuse.step()
        return self.real.now()

    def hint(self, word: str) -> None:
        self.real.hint(word)

    def read(self, sql: str, /, **values: Any) -> list[Any]:
        self._fuse.step()
        return self.real.read(sql, **values)

    def write(self, sql: str, /, rows: Any = None, **values: Any) -> Any:
        self._fuse.step()
        return self.real.write(sql, rows, **values)

    def savepoint(self, limit_ms: int | None = None) -> Any:
        self._fuse.step()
        return self.real.savepoint(limit_ms)
