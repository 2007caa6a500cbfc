"""What a shape is: a manifest that names it and its folder, and hooks that the engine calls.

A shape is one folder. The house finds what it has there by its place:

    schema/{sqlite,postgres}/NNNN_name.sql    its tables, migrated with the engine's
    checks.sql                                its invariants, for `duework verify`
    words.py       WORDS                      its facts in words, for the log
    cli.py         commands                   `duework NAME …`, a click group
    page.py        TABLE                      the pages at /NAME; templates in pages/

The engine's own shapes have their commands in `cli/shapes/` and their pages in `web/shapes/`, under their
names; their tables came with the engine's own migrations, where they stay.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import re
import threading
from concurrent.futures import Future
from contextvars import copy_context
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from duework.db.migrate import Migrations, part_steps
from duework.errors import UsageError
from duework.kernel.checks import Invariant, load_checks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType

    from duework.db.database import Tx, Values
    from duework.db.queries import Statement
    from duework.kernel.engine import Engine
    from duework.kernel.facts import Wording
    from duework.kernel.job import Effect, Ending, LockedJob
    from duework.kernel.tasks import Registry, Writes
    from duework.shapes.graph import Node
    from duework.wiring import Wiring

_TABLE = re.compile(r"(?im)^create table (?:if not exists )?(\w+)")


@dataclass(frozen=True, slots=True)
class Shape:
    """The manifest of a shape: all that the house has to be told; the rest lies in its folder."""

    # As in `duework NAME`, in the address of its pages, and in the names of its migrations.
    name: str
    # The package that is its folder.
    package: str
    # Jobs whose owner is `OWNER:…` are its own: their ends are told to its hooks.
    owner: str = ""

    @property
    def folder(self) -> Path:
        spec = find_spec(self.package)
        return Path(str(spec and spec.origin)).parent

    def schema(self, kind: str) -> Migrations | None:
        """Its migrations for a kind of database; None if it has none of its own."""
        folder = self.folder / "schema"
        return part_steps(f"shape:{self.name}", folder, kind) if folder.is_dir() else None

    def tables(self, kind: str) -> list[str]:
        """The tables that its migrations make: whoever listens to changes knows them by its name."""
        steps = self.schema(kind)
        texts = [] if steps is None else [each.text for each in steps.migrations]
        return [table for text in texts for table in _TABLE.findall(text)]

    def checks(self) -> tuple[Invariant, ...]:
        """Its invariants."""
        return load_checks(self.package)

    def words(self) -> Mapping[type, Wording]:
        """Its facts in words."""
        found: Mapping[type, Wording] = getattr(self.module("words"), "WORDS", {})
        return found

    def module(self, name: str) -> ModuleType | None:
        """A module of its folder, if there is one; the name of the folder comes from code."""
        if find_spec(f"{self.package}.{name}") is None:
            return None
        return importlib.import_module(f"{self.package}.{name}")


class Hooks:
    """What the engine calls of a shape on one App: one instance, or one for each thing that is declared."""

    shape: ClassVar[Shape]

    def bind(self, wiring: Wiring) -> None:
        """It belongs to this App from now on; the database is not open yet."""

    def declared(self) -> Sequence[Node]:
        """What of it is declared, for `duework graph`."""
        return ()

    def writes(self) -> Mapping[str, Writes]:
        """What runs and transactions may write by name, in the commit that they belong to."""
        return {}

    def arm(self) -> None:
        """A worker is about to start: write what has to be there. Safe to repeat, on every node."""

    def settled(self, tx: Tx, job: LockedJob, ending: Ending) -> None:
        """A job that it owns is done, failed or cancelled, in the transaction that says so."""

    def prune(self) -> None:
        """The housekeeping: delete what is not needed any more, a small transaction each."""


H = TypeVar("H", bound=Hooks)

# Rows that one transaction of the housekeeping looks at.
CHUNK = 500


def in_chunks(engine: Engine, verb: Callable[[Tx, list[None]], Sequence[int]]) -> None:
    """Run a verb that answers with how many rows it looked at, until that is less than a chunk."""
    while engine.writer.call(verb, [None], patience=None)[0] >= CHUNK:
        pass


def know(registry: Registry, shape: Shape) -> None:
    """Let the house find it by its name."""
    if registry.shapes.setdefault(shape.name, shape) != shape:
        raise UsageError(f"there are two shapes named {shape.name!r}")


def name_tables(engine: Engine) -> None:
    """Whoever listens to changes knows the tables of a shape by its name."""
    for shape in engine.registry.shapes.values():
        engine.feed.name_tables(shape.name, shape.tables(engine.database.kind))


def doing(statement: Statement, values: Values) -> Effect:
    """An effect that runs one statement, and says nothing: what an effect returns is the result."""

    def run(tx: Tx) -> None:
        tx.query(statement, values)

    return run


async def in_thread(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function of the user's in a thread of its own, which can be given up on.

    One that hangs holds up nothing else: the threads that an event loop shares are few.
    """
    done: Future[Any] = Future()
    # Not to be cancelled any more: whoever waits for it may be.
    done.set_running_or_notify_cancel()
    context = copy_context()

    def call() -> None:
        try:
            done.set_result(context.run(function, *args))
        except BaseException as error:  # noqa: BLE001 - whatever it raises is for the caller
            done.set_exception(error)

    threading.Thread(target=call, name="duework-call", daemon=True).start()
    return await asyncio.wrap_future(done)


def waited_for(answer: Any) -> Any:
    """What a call in a thread gave: if that has to be awaited, its value."""
    if not inspect.isawaitable(answer):
        return answer

    async def value() -> Any:
        return await answer

    return asyncio.run(value())
