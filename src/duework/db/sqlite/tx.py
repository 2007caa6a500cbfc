"""A transaction on an apsw connection, and what apsw's errors mean.

Drivers' exceptions end here: what may be tried again is `Retryable`, and the rest is the fault of
the statement or of the file. What opens the connection and commits is not known here.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw

from duework.clock import monotonic, pause
from duework.db.database import (
    Changes,
    NewRow,
    Retryable,
    Values,
    check_values,
    encode_list,
    row_type,
)
from duework.db.limits import Limit
from duework.db.queries import Statement
from duework.db.sqlite.files import Beside, explain
from duework.db.sqlite.reserve import FULL
from duework.errors import DatabaseError, SchemaMismatch, Unavailable

OLDEST = (3, 51, 3)


class Connection(apsw.Connection):
    """One of ours, which knows which log it writes to."""

    beside: Beside


class SqliteTx:
    """A transaction on one apsw connection."""

    def __init__(
        self, connection: apsw.Connection, on_full: Callable[[], None] | None = None
    ) -> None:
        self.connection = connection
        self._on_full = on_full
        self.after_commit: list[Callable[[], None]] = []
        # A change of the schema touches no row that is counted.
        self.wrote = False
        self.made: NewRow | None = None
        self.note: Callable[[Statement], None] | None = None
        self._limit: Limit | None = None

    def query(self, statement: Statement, values: Values) -> list[tuple[Any, ...]]:
        if self.note is not None:
            self.note(statement)
        # With no text it is something that only a server needs.
        return self._run(statement.sqlite, values) if statement.sqlite else []

    def change(self, statement: Statement, values: Values) -> int:
        if self.note is not None:
            self.note(statement)
        before = self.connection.total_changes()
        self._run(statement.sqlite, values)
        return self.connection.total_changes() - before

    def _run(self, sql: str, values: Values) -> list[tuple[Any, ...]]:
        began = monotonic()
        try:
            # A list is a JSON text here, read by `json_each`.
            plain = {name: encode_list(v) if type(v) is list else v for name, v in values.items()}
            return self.connection.execute(sql, plain).fetchall()
        except (apsw.Error, UnicodeError):
            with translated(self._on_full):
                raise
        finally:
            self._spare(began)

    def _spare(self, began: float) -> None:
        if self._limit is not None:
            self._limit.spare(began)

    def bulk(self, statement: Statement, rows: Sequence[tuple[Any, ...]]) -> int:
        if self.note is not None:
            self.note(statement)
        before, began = self.connection.total_changes(), monotonic()
        try:
            self.connection.executemany(statement.sqlite, rows)
        except (apsw.Error, UnicodeError):
            with translated(self._on_full):
                raise
        finally:
            self._spare(began)
        return self.connection.total_changes() - before

    def put(self, statement: Statement, row: NewRow) -> None:
        if self.note is not None:
            self.note(statement)
        self._put(statement.sqlite, row)
        self.made = row

    def _put(self, sql: str, values: tuple[Any, ...]) -> None:
        try:
            self.connection.execute(sql, values)
        except (apsw.Error, UnicodeError):
            with translated(self._on_full):
                raise

    def put_if(self, statement: Statement, row: NewRow, more: tuple[Any, ...]) -> bool:
        if self.note is not None:
            self.note(statement)
        self._put(statement.sqlite, row + more)
        if not self.connection.changes():
            return False
        self.made = row
        return True

    def hint(self, word: str) -> None:
        """Nothing: a doorbell is rung after the commit."""

    def now(self) -> int | None:
        """None: a file has no clock of its own."""
        return None

    def read(self, sql: str, /, **values: Any) -> list[Any]:
        check_values(sql, values)
        with self._limited(), translated():
            cursor = self.connection.cursor()
            # The description is there only while a row is: after the last one apsw forgets it.
            kind: list[Callable[[Sequence[Any]], Any]] = []
            rows: list[Any] = []
            for row in cursor.execute(sql, values):
                if not kind:
                    kind.append(row_type(tuple(column[0] for column in cursor.description)))
                rows.append(kind[0](row))
            return rows

    def write(self, sql: str, /, rows: Sequence[Values] | None = None, **values: Any) -> Changes:
        connection = self.connection
        self.wrote = True
        inserted = changed = 0
        with self._limited(), translated(self._on_full):
            for each in [values] if rows is None else rows:
                check_values(sql, each)
                connection.set_last_insert_rowid(0)
                before = connection.total_changes()
                for _ in connection.execute(sql, each):
                    pass
                count = connection.total_changes() - before
                if sql.lstrip()[:7].lower() in {"insert ", "replace"}:
                    inserted += count
                else:
                    changed += count
        return Changes(inserted, changed)

    @contextlib.contextmanager
    def savepoint(self, limit_ms: int | None = None) -> Iterator[None]:
        connection, outer = self.connection, self._limit
        connection.execute("savepoint duework")
        callbacks = len(self.after_commit)
        try:
            if limit_ms is None:
                yield
            else:
                self._limit = limit = Limit(limit_ms, outer)
                yield
                limit.left()
        except BaseException:
            del self.after_commit[callbacks:]
            self.made = None
            # An interrupt or a full disk may have ended the whole transaction already.
            if not connection.in_transaction:
                raise Retryable("the transaction was rolled back") from None
            connection.execute("rollback to duework")
            connection.execute("release duework")
            raise
        finally:
            self._limit = outer
        connection.execute("release duework")

    @contextlib.contextmanager
    def _limited(self) -> Iterator[None]:
        """Interrupt the user's own SQL if it runs on past the limit."""
        limit = self._limit
        if limit is None:
            yield
            return
        deadline = monotonic() + limit.left() / 1000
        self.connection.set_progress_handler(lambda: monotonic() > deadline, 10_000)
        try:
            yield
        except apsw.InterruptError as error:
            raise limit.over() from error
        finally:
            self.connection.set_progress_handler(None)


@contextlib.contextmanager
def translated(on_full: Callable[[], None] | None = None) -> Iterator[None]:
    """Drivers' exceptions end here: what may be tried again, and what is the statement's fault."""
    try:
        yield
    except (apsw.BusyError, apsw.LockedError) as error:
        raise Retryable("the database is locked by another connection") from error
    except apsw.FullError as error:
        if on_full is not None:
            on_full()
        raise Retryable(FULL) from error
    except apsw.IOError as error:
        raise Retryable(f"the disk failed ({error})") from error
    except (apsw.ReadOnlyError, apsw.CantOpenError) as error:
        raise Retryable(
            f"the database cannot be written ({error}): check the rights on the file and its folder"
        ) from error
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise Unavailable(
            f"the database file is damaged ({error}): restore it from a backup"
        ) from error
    except apsw.InterruptError:
        raise
    except UnicodeError as error:
        raise DatabaseError(f"a text in the database, or for it, is not UTF-8: {error}") from error
    except apsw.Error as error:
        raise DatabaseError(f"{type(error).__name__.removesuffix('Error')}: {error}") from error


def unopened(path: Path, error: apsw.Error) -> Exception:
    """What a failure to open means: wait and try again, or give up."""
    if isinstance(error, apsw.NotADBError):
        message = f"{path} is not a SQLite database: restore it from a backup, or name another file"
        return Unavailable(message)
    if isinstance(error, apsw.ReadOnlyError):
        return Unavailable(explain(path, error))
    if isinstance(error, apsw.CorruptError):
        return Unavailable(f"{path} is damaged ({error}): restore it from a backup")
    return Retryable(explain(path, error))


def check_version() -> None:
    """`SchemaMismatch` if this SQLite has a known fault."""
    if tuple(int(part) for part in apsw.sqlite_lib_version().split(".")) < OLDEST:
        message = (
            f"SQLite {apsw.sqlite_lib_version()} can corrupt a database with several writers;"
            f" install apsw with SQLite {'.'.join(map(str, OLDEST))} or newer"
        )
        raise SchemaMismatch(message)


def configure(connection: apsw.Connection, synchronous: str) -> None:
    """What every connection of ours is set to."""
    for tries in range(400):
        try:
            connection.pragma("journal_mode", "wal")
            break
        except apsw.BusyError:
            if tries == 399:  # noqa: PLR2004 - about two seconds
                raise
            pause(0.002 + random.random() * 0.006)  # noqa: S311 - jitter
    connection.pragma("synchronous", synchronous)
    connection.pragma("foreign_keys", "on")
    connection.pragma("trusted_schema", "off")
    connection.pragma("cell_size_check", "on")
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)


def close(connection: apsw.Connection) -> None:
    """Close it; if another thread is using it just now, it is closed when no thread has it any more."""
    with contextlib.suppress(apsw.Error):
        if isinstance(connection, Connection) and connection.beside.replaced():
            # Closing would copy our log over what others have written, and delete theirs.
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.close(force=True)


def left_something(connection: apsw.Connection) -> bool:
    """Whether a block left something that the next one on this connection would find."""
    try:
        kept = connection.execute("select 1 from sqlite_temp_schema limit 1").fetchone()
    except apsw.Error:
        return True
    return kept is not None or len(connection.db_names()) > len(("main", "temp"))
