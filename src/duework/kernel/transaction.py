"""A transaction as users see it: their own SQL, and the jobs that go with it, in one commit."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import partial
from types import TracebackType
from typing import Any

from duework.db.database import Changes, Tx
from duework.db.writer.blocks import block, refuse_second, turn
from duework.kernel.engine import Engine
from duework.kernel.job import Enqueued
from duework.kernel.run import CommitVerbs

# The most schedules that are kept to be written together.
GATHERED = 500


class Transaction(CommitVerbs[Enqueued, Any]):
    """Given by `app.transaction()`, to `run.commit` functions and to `@task.settled`."""

    def __init__(self, tx: Tx, engine: Engine, *, gathers: bool = False) -> None:
        self._plain = tx
        self._engine = engine
        # Schedules by key, which are written together, before anything else is done here.
        self._gathered: dict[str, Any] | None = {} if gathers else None

    @property
    def _tx(self) -> Tx:
        """The transaction, with all that was asked of it."""
        self.write_gathered()
        return self._plain

    def write_gathered(self) -> None:
        """Write what was put off; the commit is about to come."""
        if self._gathered:
            items, self._gathered = list(self._gathered.values()), {}
            self._engine.registry.writes["schedule"].verb(self._plain, items)

    def read(self, sql: str, /, **values: Any) -> list[Any]:
        """Rows, with attribute and index access; sees this transaction's own writes."""
        return self._tx.read(sql, **values)

    def write(
        self, sql: str, /, rows: Sequence[Mapping[str, Any]] | None = None, **values: Any
    ) -> Changes:
        """Insert, update or delete, once or for each of `rows`."""
        return self._tx.write(sql, rows, **values)

    def _schedule(self, task: Any, /, **options: Any) -> None:
        new = task.as_schedule(options, self._commit_now())
        # One without a slot to come is refused, or changes nothing: that is known at once.
        if self._gathered is None or new.slot is None:
            self._put("schedule", new)
            return
        if new.key in self._gathered or len(self._gathered) >= GATHERED:
            self.write_gathered()
        self._gathered[new.key] = new

    def seal(self, name: str, value: str) -> None:
        """Seal a secret in this transaction, with the row that it belongs to."""
        self._put("secret", self._engine.registry.writes["secret"].item(name, value))

    def forget(self, name: str) -> bool:
        """Delete a secret in this transaction; whether there was one."""
        item = self._engine.registry.writes["secret"].item(name, None)
        return bool(self._put("secret", item))

    def _commit_now(self) -> int:
        return self._engine.clock_watch.checked_now()

    def _put(self, shape: str, item: Any) -> Any:
        if shape == "job":
            return self._engine.enqueue(self._tx, [item])[0]
        return self._engine.registry.writes[shape].verb(self._tx, [item])[0]


def inside(tx: Transaction) -> Tx:
    """What the engine and its shapes have of a transaction, and its user has not."""
    return tx._tx  # noqa: SLF001 - the one door


class Block:
    """What `app.transaction()` gives: a transaction for a block of the user's code.

    What it has entered does not refer to it: where a signal's handler raises at the door, nothing but the
    error keeps the transaction, which is undone with it.
    """

    def __init__(self, url: str, engine: Callable[[], Engine]) -> None:
        self._url = url
        self._engine = engine
        self._with: AbstractContextManager[Transaction]
        self._async_with: AbstractAsyncContextManager[Transaction]

    def __enter__(self) -> Transaction:
        entered = _in_thread(self._url, self._engine)
        tx = entered.__enter__()
        self._with = entered
        return tx

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        return self._with.__exit__(kind, error, trace)

    async def __aenter__(self) -> Transaction:
        entered = _in_loop(self._url, self._engine)
        tx = await entered.__aenter__()
        self._async_with = entered
        return tx

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        return await self._async_with.__aexit__(kind, error, trace)


@contextlib.contextmanager
def _opened(engine: Callable[[], Engine]) -> Iterator[Transaction]:
    opened = engine()
    with opened.database.transaction() as tx:
        if opened.writer.watch is not None:
            opened.writer.watch(tx)
        made = Transaction(tx, opened, gathers=True)
        yield made
        made.write_gathered()


@contextlib.contextmanager
def _in_thread(url: str, engine: Callable[[], Engine]) -> Iterator[Transaction]:
    refuse_second(url)
    with _opened(engine) as tx, block(url):
        yield tx


@contextlib.asynccontextmanager
async def _in_loop(url: str, engine: Callable[[], Engine]) -> AsyncIterator[Transaction]:
    """Its statements run in the loop; what may wait, for the lock or for the disk, does not."""
    opened, tx = _opened(engine), None
    async with turn(url) as mine:
        try:
            # Before it begins: a caller that waited for it in this thread would keep it from ending.
            with block(url):
                tx = await mine.run(opened.__enter__)
                yield tx
        except BaseException as error:
            undo = partial(opened.__exit__, type(error), error, error.__traceback__)
            if tx is None or isinstance(error, GeneratorExit):
                # Cancelled, perhaps while it waits for the lock: its caller need not wait for that.
                mine.leave(undo)
            else:
                await mine.run(undo)
            raise
        await mine.run(partial(opened.__exit__, None, None, None))
