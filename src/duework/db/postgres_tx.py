"""A transaction on a psycopg connection, and what psycopg's errors mean.

What only has to go ahead of a statement (BEGIN, savepoints and their release, time limits) is kept
until there is a statement and then sent with it, in one round trip; so are hints, with the commit.
Drivers' exceptions end here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psycopg
from psycopg.adapt import Buffer, Loader
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row
from psycopg.types.numeric import Int8Dumper

from duework.clock import monotonic
from duework.db.database import (
    Changes,
    NewRow,
    PutFailed,
    Retryable,
    Values,
    check_values,
    row_type,
)
from duework.db.queries import Statement, for_psycopg
from duework.errors import DatabaseError

Connection = psycopg.Connection[tuple[Any, ...]]
Cursor = psycopg.Cursor[tuple[Any, ...]]
Command = tuple[bytes, Values | None]

OPEN = {TransactionStatus.INTRANS, TransactionStatus.INERROR}

# What may be tried again from the start, and how to say it.
RETRYABLE = {
    "25006": "the database is read-only: this is a standby, or it was set so",
    "26000": "the connection forgot a prepared statement",
    "40001": "the transaction collided with another one",
    "40P01": "the transaction was in a deadlock with another one",
    "53100": "the disk of the PostgreSQL server is full: free some space",
    "53200": "the PostgreSQL server is out of memory",
    "53300": "the PostgreSQL server has no connection to spare (max_connections)",
    "55P03": "another transaction held a lock for too long",
    "57014": "the statement was cancelled, by hand or for taking too long",
    "57P01": "the PostgreSQL server ended the connection",
    "57P02": "the PostgreSQL server crashed",
    "57P03": "the PostgreSQL server is starting or stopping",
}
# After these the server has closed the connection, or a new one may find a better server.
ENDED = {"25006", "26000", "25P03", "25P04", "57P01", "57P02", "57P03", "57P05"}

BEGIN = b"begin isolation level read committed"
# Never an update of one row: while an old snapshot is open, that row would grow a long tail of
# versions and every group would walk along it. Here each statement names the exact key.
_BEFORE = """with before as (
    delete from duework_mark where process = %(process)s and number = %(before)s
)"""
REMEMBER = "insert into duework_mark (process, number) values (%(process)s, %(number)s)"
_MARK = f"{_BEFORE} {REMEMBER}".encode()
NOW = "select (extract(epoch from clock_timestamp()) * 1000)::bigint"
_HINT = "select count(pg_notify('duework', word)) from unnest(%(words)s::text[]) as hint (word)"
# The mark, the hints and, behind them, a row in one statement, which is a transaction by itself.
_AT_ONCE = f"{_BEFORE}, mark as ({REMEMBER} returning ({_HINT})) "
# Whatever else they mean, here they mean that nothing happened.
_NOTHING = {"25006", "26000"}
_SAVEPOINT: Command = (b"savepoint duework", None)
_RELEASE: Command = (b"release savepoint duework", None)
_UNDO: Command = (b"rollback to savepoint duework", None)
# The limit that was in force before ours, kept on the server so that nobody has to wait for it.
_KEEP_LIMIT: Command = (
    b"select set_config('duework.before', current_setting('statement_timeout'), true)",
    None,
)
_RESTORE_LIMIT: Command = (
    b"select set_config('statement_timeout', current_setting('duework.before'), true)",
    None,
)


class PostgresTx:
    """A transaction on one psycopg connection; with a mark, one that is yet to begin."""

    def __init__(
        self,
        connection: Connection,
        kernel: Cursor | None = None,
        mark: Values | None = None,
        *,
        adopted: bool = False,
        at_once: bool = False,
    ) -> None:
        self.connection = connection
        self.after_commit: list[Callable[[], None]] = []
        self.made: NewRow | None = None
        self._kernel = kernel
        self._mark = mark
        self._ahead: list[Command] = [] if mark is None else [(BEGIN, None), (_MARK, mark)]
        self._adopted = adopted
        self._at_once = at_once
        self._limit: _Limit | None = None
        # How often anything was sent, what was put and not sent yet, and what goes with the commit.
        self._sent = 0
        self._put: tuple[str, dict[str, Any]] | None = None
        self._hints: dict[str, None] = {}

    @property
    def begun(self) -> bool:
        """What was never begun needs no end."""
        return self._sent > 0 or self._put is not None or bool(self._hints)

    def query(self, statement: Statement, values: Values) -> list[tuple[Any, ...]]:
        """Run a kernel statement; its rows, if it returns any."""
        cursor = self._kernel_cursor()
        self._run(cursor, statement.postgres, values)
        return _rows(cursor)

    def change(self, statement: Statement, values: Values) -> int:
        """Run a kernel statement once; rows touched."""
        cursor = self._kernel_cursor()
        self._run(cursor, statement.postgres, values)
        return max(0, cursor.rowcount)

    def bulk(self, statement: Statement, rows: Sequence[tuple[Any, ...]]) -> int:
        """Run a statement once, with an array for each parameter."""
        if not rows:
            return 0
        columns = map(list, zip(*rows, strict=True))
        cursor = self._kernel_cursor()
        self._run(cursor, statement.postgres, dict(zip(statement.names, columns, strict=True)))
        return max(0, cursor.rowcount)

    def put(self, statement: Statement, row: NewRow) -> None:
        """Run a kernel statement once; the first one may be kept back: perhaps it is the only one."""
        named = dict(zip(statement.names, row, strict=True))
        # With more ahead of it than the mark it is in a savepoint.
        if self._at_once and not (self._sent or self._put) and self._ahead[-1][1] is self._mark:
            self._put = statement.postgres, named
        else:
            self._run(self._kernel_cursor(), statement.postgres, named)

    def put_if(self, statement: Statement, row: NewRow, more: tuple[Any, ...]) -> bool:
        return self.change(statement, dict(zip(statement.names, row + more, strict=True))) > 0

    def hint(self, word: str) -> None:
        """Tell whoever listens, once it commits; who brought the connection commits it unseen."""
        if self._adopted:
            self._run(self._cursor(), _HINT, {"words": [word]})
        else:
            self._hints[word] = None

    def now(self) -> int | None:
        """The server's clock, not the moment in which the transaction began."""
        cursor = self._kernel_cursor()
        self._run(cursor, NOW, {})
        return int(_rows(cursor)[0][0])

    def read(self, sql: str, /, **values: Any) -> list[Any]:
        """Rows of the user's own query."""
        check_values(sql, values)
        cursor = self._cursor()
        self._run(cursor, for_psycopg(sql), values)
        make = row_type(tuple(column.name for column in cursor.description or ()))
        return [make(row) for row in _rows(cursor)]

    def write(self, sql: str, /, rows: Sequence[Values] | None = None, **values: Any) -> Changes:
        """The user's own insert, update or delete."""
        every = [values] if rows is None else rows
        for each in every:
            check_values(sql, each)
        text, cursor, count = for_psycopg(sql), self._cursor(), 0
        for each in every:
            self._run(cursor, text, each)
            count += max(0, cursor.rowcount)
        # The tag says what was done also after `with …`, which the first word of the text does not.
        if (cursor.statusmessage or "").startswith("INSERT"):
            return Changes(inserted=count)
        return Changes(changed=count)

    @contextlib.contextmanager
    def savepoint(self, limit_ms: int | None = None) -> Iterator[None]:
        """A part that can fail alone, with a limit on the time of its statements together."""
        self._catch_up()
        outer, mark, place, sent = self._limit, len(self.after_commit), len(self._ahead), self._sent
        self._ahead.append(_SAVEPOINT)
        if limit_ms is not None:
            if outer is None:
                self._ahead.append(_KEEP_LIMIT)
            self._limit = _Limit(limit_ms)
        try:
            yield
            if self._sent != sent:
                self._check()
        except BaseException:
            self._limit = outer
            del self.after_commit[mark:]
            if self._sent == sent:
                del self._ahead[place:]
            else:
                self._undo()
            raise
        self._limit = outer
        if self._sent == sent:
            del self._ahead[place:]
            return
        self._ahead.append(_RELEASE)
        if limit_ms is not None and outer is None:
            self._ahead.append(_RESTORE_LIMIT)
        elif outer is not None:
            outer.tell_again()

    def finish(self) -> None:
        """Commit, and notice what PostgreSQL says only in passing: that it rolled back instead.

        Raises psycopg's own errors, since what they mean here is not what they mean elsewhere.
        """
        hints = {"words": list(self._hints)}
        if self._put is not None and self._mark is not None:
            self._finish_at_once(*self._put, {**self._mark, **hints})
            return
        if self._hints and self.connection.info.transaction_status != TransactionStatus.INERROR:
            self._ahead.append((_HINT.encode(), hints))
        cursor = self._cursor()
        self._send(cursor, b"commit", None)
        if cursor.statusmessage != "COMMIT":
            message = "a statement of this transaction had failed, so all of it was rolled back"
            raise DatabaseError(message)

    def _finish_at_once(self, text: str, values: Values, mark: Values) -> None:
        assert values.keys().isdisjoint(mark), "they are parameters of one statement"
        self._put, self._ahead = None, []
        self._sent += 1
        cursor = self._kernel_cursor()
        try:
            cursor.execute((_AT_ONCE + text).encode(), {**values, **mark})
            if not (cursor.statusmessage or "").startswith("INSERT"):
                raise psycopg.OperationalError("there was no answer")
        except psycopg.Error as error:
            if (ended(error) or self.connection.closed) and error.sqlstate not in _NOTHING:
                raise
            problem = self._translated(error)
            raise problem if isinstance(problem, Retryable) else PutFailed(str(problem)) from error

    def _catch_up(self) -> None:
        """Send what was put: there is more to come, and that has to follow it."""
        if self._put is not None:
            (text, values), self._put = self._put, None
            self._run(self._kernel_cursor(), text, values)

    def _undo(self) -> None:
        """Go back to the savepoint, which also takes back its time limit."""
        if self.connection.info.transaction_status not in OPEN:
            raise Retryable("the connection was lost, and the transaction with it")
        self._ahead = [_UNDO]
        try:
            self._send(self._cursor(), *_RELEASE)
        except psycopg.Error as error:
            raise self._translated(error) from error

    def _check(self) -> None:
        """Notice a failure that the part's own code has swallowed."""
        status = self.connection.info.transaction_status
        if status == TransactionStatus.INERROR:
            raise DatabaseError("a statement of this part had failed, so all of it is undone")
        if status not in OPEN:
            raise Retryable("the connection was lost, and the transaction with it")

    def _run(self, cursor: Cursor, text: str, values: Values) -> None:
        self._catch_up()
        if self._limit is not None and (command := self._limit.command()):
            self._ahead.append(command)
        try:
            self._send(cursor, text.encode(), values)
        except psycopg.Error as error:
            raise self._translated(error) from error

    def _send(self, cursor: Cursor, text: bytes, values: Values | None) -> None:
        """Execute on the cursor, after all that waits to go ahead of it, in one round trip."""
        self._sent += 1
        if not self._ahead:
            cursor.execute(text, values)
            return
        ahead, self._ahead = self._ahead, []
        # The libpq of an old system has no pipelines; then each takes a round trip.
        piped = psycopg.Pipeline.is_supported()
        first: psycopg.Error | None = None
        try:
            with self.connection.pipeline() if piped else contextlib.nullcontext():
                try:
                    for command in ahead:
                        psycopg.Cursor(self.connection).execute(*command)
                    cursor.execute(text, values)
                except psycopg.Error as error:
                    # A pipeline that is left by an error logs a second one; so it leaves here.
                    first = error
        except psycopg.Error as error:
            raise first or error from None
        if first is not None:
            raise first

    def _translated(self, error: psycopg.Error) -> Exception:
        if self._limit is not None and isinstance(error, psycopg.errors.QueryCanceled):
            return DatabaseError(f"interrupted after {self._limit.ms} ms")
        if ended(error) and not self._adopted:
            self.connection.close()
        return translate(error)

    def _cursor(self) -> Cursor:
        # Whatever rows the caller's own connection makes, ours are tuples.
        return psycopg.Cursor(self.connection, row_factory=tuple_row)

    def _kernel_cursor(self) -> Cursor:
        if self._kernel is None:
            self._kernel = kernel_cursor(self.connection)
        return self._kernel


class _Limit:
    """Time for the statements of a savepoint together; the server knows only a limit for each."""

    def __init__(self, ms: int) -> None:
        self.ms = ms
        self._deadline = monotonic() + ms / 1000
        self._told = float("inf")

    def tell_again(self) -> None:
        self._told = float("inf")

    def command(self) -> Command | None:
        """What to tell the server when clearly less is left than it knows of."""
        left = round((self._deadline - monotonic()) * 1000)
        if left <= 0:
            raise DatabaseError(f"interrupted after {self.ms} ms")
        if left > self._told * 0.9:
            return None
        self._told = left
        return b"select set_config('statement_timeout', %(ms)s, true)", {"ms": str(left)}


def _rows(cursor: Cursor) -> list[tuple[Any, ...]]:
    try:
        return cursor.fetchall() if cursor.description else []
    except psycopg.Error as error:
        raise translate(error) from error


class _WholeNumbers(Loader):
    """Sums of the kernel: PostgreSQL makes them `numeric`, SQLite whole numbers."""

    def load(self, data: Buffer) -> int | float:
        text = bytes(data)
        return int(text) if text.lstrip(b"-").isdigit() else float(text)


def kernel_cursor(connection: Connection) -> Cursor:
    """A cursor whose integers are all `bigint`: one prepared statement whatever their size."""
    cursor = psycopg.Cursor(connection, row_factory=tuple_row)
    cursor.adapters.register_dumper(int, Int8Dumper)
    cursor.adapters.register_loader("numeric", _WholeNumbers)
    return cursor


def translate(error: psycopg.Error) -> Exception:
    """Drivers' exceptions end here: what may be tried again, and what is the statement's fault."""
    line = first_line(error)
    if error.sqlstate in RETRYABLE:
        return Retryable(f"{RETRYABLE[error.sqlstate]} ({line})")
    if ended(error):
        return Retryable(f"the connection to PostgreSQL was lost ({line})")
    return DatabaseError(f"{type(error).__name__}: {line}")


def ended(error: psycopg.Error) -> bool:
    """Whether the connection is of no more use."""
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError)
    return error.sqlstate in ENDED or error.sqlstate.startswith("08")


def first_line(error: BaseException) -> str:
    """What the error says, without PostgreSQL's details and hints."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
