"""What the engine tells a shape: which App it got, that a worker starts, that one of its jobs ended."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duework.app import App
    from duework.db.database import Tx, Values
    from duework.db.queries import Statement
    from duework.kernel.engine import Engine
    from duework.kernel.job import Effect, Ending, LockedJob
    from duework.kernel.transaction import Transaction


class Shape:
    """Something declared on an App or a Part that stands on jobs."""

    # Jobs whose owner is `kind:…` are told to the shape of that kind.
    kind: ClassVar[str] = ""

    def bind(self, app: App) -> None:
        """It belongs to this App from now on; the database is not open yet."""

    def arm(self) -> None:
        """A worker is about to start: write what has to be there. Safe to repeat, on every node."""

    def settled(self, tx: Transaction, job: LockedJob, ending: Ending) -> None:
        """A job that it owns is done, failed or cancelled, in the transaction that says so."""

    def prune(self) -> None:
        """The housekeeping: delete what nobody needs any more, a small transaction each."""


# Rows that one transaction of the housekeeping looks at.
CHUNK = 500


def in_chunks(engine: Engine, verb: Callable[[Tx, list[None]], Sequence[int]]) -> None:
    """Run a verb that answers with how many rows it looked at, until that is less than a chunk."""
    while engine.writer.call(verb, [None], patience=None)[0] >= CHUNK:
        pass


def doing(statement: Statement, values: Values) -> Effect:
    """An effect that runs one statement, and says nothing: what an effect returns is the result."""

    def run(tx: Tx) -> None:
        tx.query(statement, values)

    return run


def waited_for(answer: Any) -> Any:
    """What a call in a thread gave: if that has to be awaited, its value."""
    if not inspect.isawaitable(answer):
        return answer

    async def value() -> Any:
        return await answer

    return asyncio.run(value())
