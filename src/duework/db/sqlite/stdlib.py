"""A transaction on a caller's own stdlib `sqlite3` connection, for transactional enqueue only.

For programs whose web process writes its own tables through `sqlite3` and whose workers are other
processes. The caller commits; this process must not have opened the file through Duework.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from duework.db.adopted import BY_ITSELF
from duework.db.database import Changes, NewRow, Values, check_values, encode_list, row_type
from duework.db.queries import Statement
from duework.errors import DatabaseError, Unavailable, UsageError

# How a connection of each level begins; one without a level does not.
_BEGINS: dict[str | None, str] = {
    "": "begin",
    "DEFERRED": "begin deferred",
    "IMMEDIATE": "begin immediate",
    "EXCLUSIVE": "begin exclusive",
}


class StdlibTx:
    """The caller's open transaction, with our verbs on it."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.after_commit: list[Callable[[], None]] = []
        self.made: NewRow | None = None
        self.note: Callable[[Statement], None] | None = None

    def query(self, statement: Statement, values: Values) -> list[tuple[Any, ...]]:
        plain = {name: encode_list(v) if isinstance(v, list) else v for name, v in values.items()}
        with _translated():
            cursor = self.connection.cursor()
            cursor.row_factory = None
            return cursor.execute(statement.sqlite, plain).fetchall()

    def change(self, statement: Statement, values: Values) -> int:
        before = self.connection.total_changes
        self.query(statement, values)
        return self.connection.total_changes - before

    def bulk(self, statement: Statement, rows: Sequence[tuple[Any, ...]]) -> int:
        named = [dict(zip(statement.names, row, strict=True)) for row in rows]
        with _translated():
            return self.connection.executemany(statement.sqlite, named).rowcount

    def put(self, statement: Statement, row: NewRow) -> None:
        self.bulk(statement, [row])

    def put_if(self, statement: Statement, row: NewRow, more: tuple[Any, ...]) -> bool:
        return self.bulk(statement, [row + more]) > 0

    def hint(self, word: str) -> None:
        """Nothing: the commit is the user's, and does not ring."""

    def now(self) -> int | None:
        """None: a file has no clock of its own."""
        return None

    def read(self, sql: str, /, **values: Any) -> list[Any]:
        check_values(sql, values)
        with _translated():
            cursor = self.connection.cursor()
            cursor.row_factory = None
            rows = cursor.execute(sql, values).fetchall()
            make = row_type(tuple(column[0] for column in cursor.description or ()))
            return [make(row) for row in rows]

    def write(self, sql: str, /, rows: Sequence[Values] | None = None, **values: Any) -> Changes:
        count = 0
        with _translated():
            for each in [values] if rows is None else rows:
                check_values(sql, each)
                count += max(0, self.connection.execute(sql, each).rowcount)
        if sql.lstrip()[:7].lower() in {"insert ", "replace"}:
            return Changes(inserted=count)
        return Changes(changed=count)

    @contextlib.contextmanager
    def savepoint(self, limit_ms: int | None = None) -> Iterator[None]:  # noqa: ARG002 - the caller's own time
        self.connection.execute("savepoint duework")
        try:
            yield
        except BaseException:
            self.connection.execute("rollback to duework")
            self.connection.execute("release duework")
            raise
        self.connection.execute("release duework")


def begin(connection: sqlite3.Connection) -> None:
    """As `sqlite3` itself would before the first insert; a savepoint before it would commit by itself."""
    if connection.in_transaction:
        return
    statement = _BEGINS.get(connection.isolation_level)
    # Python 3.12 has an attribute for it, beside which the level says nothing.
    if statement is None or getattr(connection, "autocommit", None) is True:
        raise UsageError(BY_ITSELF)
    with _translated():
        connection.execute(statement)


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        raise Unavailable(f"the database could not be written: {error}") from error
    except sqlite3.Error as error:
        raise DatabaseError(f"{type(error).__name__}: {error}") from error
