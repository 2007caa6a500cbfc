"""The seam between us and a database: a `Database` opens transactions, a `Tx` runs statements.

Two implementations, in `sqlite/` and `postgres/`; everything above uses only what is here.
Rows of kernel statements are plain tuples; rows of a user's own SQL have names.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import msgspec

from duework.db.queries import Statement, parameters
from duework.errors import DatabaseError, UsageError

Value = None | bool | int | float | str | bytes
Values = Mapping[str, Any]

FORKED = "this was begun before a fork, and belongs to the parent process"


@dataclass(frozen=True, slots=True)
class Changes:
    """What a user's write did: rows inserted, and rows changed or deleted."""

    inserted: int = 0
    changed: int = 0


@lru_cache(maxsize=512)
def row_type(columns: tuple[str, ...]) -> Callable[[Sequence[Any]], Any]:
    """A tuple type with these columns as attributes; odd names are reached by index only."""
    made: Any = namedtuple("Row", list(columns), rename=True)  # type: ignore[misc]  # noqa: PYI024 - named at run time
    make: Callable[[Sequence[Any]], Any] = made._make
    return make


class Retryable(Exception):
    """The transaction surely did not happen; the same work may be tried again from its start."""


class Blocked(Retryable):
    """A statement of the user's own waited for a lock in vain; its savepoint was undone and no more."""


class TooSlow(DatabaseError):
    """What is the user's own in a savepoint took too long, or a process stood still meanwhile."""


class PutFailed(DatabaseError):
    """What was put into the transaction is at fault, not the commit; nothing of it happened."""


class NewRow(NamedTuple):
    """The row of a new job, in the order in which an insert takes it."""

    id: int
    lane: int
    task: str
    key: str | None
    due: int
    at: int
    linked: int
    payload: str
    checksum: int
    expires: int | None
    serial: str | None
    after: int | None
    owner: str | None
    batch: int | None


class Tx(Protocol):
    """One open transaction. Statements of the kernel, and the user's own SQL."""

    # Called once the transaction is durable; lost if the process dies before.
    after_commit: list[Callable[[], None]]
    # Called with each statement of the kernel, while a listener wants to know what changes.
    note: Callable[[Statement], None] | None

    @property
    def made(self) -> NewRow | None:
        """The job that was put last, as it was then; None if that was undone, or is not there yet."""
        ...

    def query(self, statement: Statement, values: Values) -> list[tuple[Any, ...]]:
        """Run a kernel statement; its rows, if it returns any."""
        ...

    def bulk(self, statement: Statement, rows: Sequence[tuple[Any, ...]]) -> int:
        """Run a statement for many rows, values in the order of `statement.names`; rows touched."""
        ...

    def change(self, statement: Statement, values: Values) -> int:
        """Run a kernel statement once; rows touched."""
        ...

    def put(self, statement: Statement, row: NewRow) -> None:
        """Insert a job.

        Its answer is not waited for: it may travel with the commit, which then fails in its place.
        """
        ...

    def put_if(self, statement: Statement, row: NewRow, more: tuple[Any, ...]) -> bool:
        """Insert a job, unless its statement finds a reason not to, by more values than those of its row."""
        ...

    def hint(self, word: str) -> None:
        """Once this commits, notify the workers of other machines."""
        ...

    def now(self) -> int | None:
        """The server's time at this moment, in milliseconds, where there is a server."""
        ...

    def read(self, sql: str, /, **values: Any) -> list[Any]:
        """Rows of the user's own query, with attribute and index access."""
        ...

    def write(self, sql: str, /, rows: Sequence[Values] | None = None, **values: Any) -> Changes:
        """The user's own insert, update or delete, once or for each of `rows`."""
        ...

    def savepoint(self, limit_ms: int | None = None) -> AbstractContextManager[None]:
        """A part that can fail alone; over `limit_ms` what is the user's own in it is `TooSlow`."""
        ...


class Database(Protocol):
    """One database of one process."""

    kind: str
    url: str
    # Held while something is written on the writer's connection.
    busy: threading.Lock

    def crowded(self) -> bool:
        """Whether other processes write too, so that the writer should leave them a gap."""
        ...

    def begin(self) -> Tx:
        """Open a write transaction on the writer's connection, or raise `Retryable`."""
        ...

    def commit(self, tx: Tx) -> None:
        """Make it durable; `Retryable` if it surely did not happen, `Unknown` if that is not known."""
        ...

    def rollback(self) -> None:
        """End what the writer's connection has open, if anything."""
        ...

    def transaction(self) -> AbstractContextManager[Tx]:
        """A transaction for a block of the user's code."""
        ...

    def reading(self) -> AbstractContextManager[Tx]:
        """A consistent view that never waits for the writer."""
        ...

    def ask(self, statement: Statement, values: Values) -> list[tuple[Any, ...]]:
        """Rows of one kernel statement as they are now: a view of its own, in one round trip."""
        ...

    def adopt(self, connection: Any) -> Tx:
        """A `Tx` on the caller's own open connection; the caller commits."""
        ...

    def connect(self) -> Any:
        """A connection of the driver's own kind, for the user."""
        ...

    def pulse(self) -> int | None:
        """A number that changes when another connection has committed, where one is to be had cheaply."""
        ...

    def now(self) -> int | None:
        """The server's time in milliseconds, where there is a server."""
        ...

    def settings(self) -> dict[str, str]:
        """`server_version`, and what the durability of this database rests on."""
        ...

    def backup(self, target: str) -> Iterator[tuple[int, int]]:
        """Copy the database; yields (done, total) as it goes."""
        ...

    def epoch(self, boot: str) -> int | None:
        """How often a loss of power may have undone something before this boot of the machine.

        None where that is not known, or cannot happen.
        """
        ...

    def reserve(self) -> None:
        """Set something aside for a full disk; called by a process that is going to work."""
        ...

    def disk_full_reason(self) -> str | None:
        """Why nothing new should be taken on while the reserve is in use; None if all is well."""
        ...

    def repair(self, tx: Tx) -> int:
        """Make stored texts readable again that a flipped bit has spoilt; how many."""
        ...

    def close(self) -> None: ...


def is_stdlib(connection: Any) -> bool:
    """Whether it is a connection of Python's own `sqlite3`, or of a class made from it."""
    module = sys.modules.get("sqlite3")
    return module is not None and isinstance(connection, module.Connection)


def encode_list(values: list[Any]) -> str:
    """A list as SQLite's `json_each` reads it."""
    return msgspec.json.encode(values, enc_hook=_plain).decode()


def _plain(value: object) -> object:
    """The plain value of a subclass of `str` or `int`."""
    return str(value) if isinstance(value, str) else int(value)  # type: ignore[call-overload]


def check_values(sql: str, values: Values) -> None:
    """A clear error for a parameter that is missing or not used."""
    wanted = frozenset(parameters(sql))
    if wanted == values.keys():
        return
    if missing := wanted - values.keys():
        raise UsageError(
            f"the query needs values for {', '.join(':' + n for n in sorted(missing))}"
        )
    if extra := values.keys() - wanted:
        raise UsageError(f"the query has no {', '.join(':' + n for n in sorted(extra))}")


@lru_cache(maxsize=1)
def current_pid() -> list[int]:
    """The number of this process, and of no other after a fork: asking the system takes longer."""
    number = [os.getpid()]
    os.register_at_fork(after_in_child=lambda: number.__setitem__(0, os.getpid()))
    return number
