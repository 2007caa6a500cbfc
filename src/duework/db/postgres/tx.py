"""A transaction on a psycopg connection, and what psycopg's errors mean.

What only has to go ahead of a statement (BEGIN, savepoints and their release, time limits) is kept
until there is a statement and then sent with it, in one round trip; so are hints, with the commit.
Limits of a savepoint are in force for the user's own statements and for no others.
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
    Blocked,
    Changes,
    NewRow,
    PutFailed,
    Retryable,
    Values,
    check_values,
    row_type,
)
from duework.db.limits import Limit
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
# Each transaction that is to survive a loss of power asks for it by itself: the role may have another
# default, and a pooler may give the next one to another connection. A session that waits for more goes on so.
LASTING = """case when %(lasting)s::bool and current_setting('synchronous_commit') = 'off'
    then set_config('synchronous_commit', 'on', true) end"""
_MARK = f"{_BEFORE} {REMEMBER} returning {LASTING}".encode()
NOW = "select (extract(epoch from clock_timestamp()) * 1000)::bigint"
_HINT = "select count(pg_notify('duework', word)) from unnest(%(words)s::text[]) as hint (word)"
# The marker, the hints and, behind them, a row in one statement, which is a transaction by itself.
_AT_ONCE = f"{_BEFORE}, marker as ({REMEMBER} returning ({_HINT}), {LASTING}) "
# Whatever else they mean, here they mean that nothing happened.
_NOTHING = {"25006", "26000"}
_SAVEPOINT: Command = (b"savepoint duework", None)
_RELEASE: Command = (b"release savepoint duework", None)
_UNDO: Command = (b"rollback to savepoint duework", None)
# The limits that were in force before ours, kept on the server so that no call has to wait for them.
_KEEP_LIMITS: Command = (
    b"""select set_config('duework.before', current_setting('statement_timeout'), true),
    set_config('duework.before_locks', current_setting('lock_timeout'), true)""",
    None,
)
_SET_LIMITS = b"""select set_config('statement_timeout', %(ms)s, true), set_config('lock_timeout',
    (1000 * extract(epoch from least(%(lock_ms)s * interval '1ms',
        nullif(current_setting('duework.before_locks')::interval, '0'))))::int::text, true)"""
_RESTORE_LIMITS: Command = (
    b"""select set_config('statement_timeout', current_setting('duework.before'), true),
    set_config('lock_timeout', current_setting('duework.before_locks'), true)""",
    None,
)
# How long a statement with a limit waits for a lock: clearly less, so that the server can tell one from
# the other. Once that was in vain, the rest of the transaction has waited enough.
LOCK_MS, LOCK_AGAIN_MS = 1000, 50


class PostgresTx:
    """A transaction on one psycopg connection; with a marker, one that is yet to begin."""

    def __init__(
        self,
        connection: Connection,
        kernel: Cursor | None = None,
        marker: Values | None = None,
        *,
        ahead: Sequence[Command] = (),
        adopted: bool = False,
        at_once: bool = False,
    ) -> None:
        self.connection = connection
        self.after_commit: list[Callable[[], None]] = []
        self.made: NewRow | None = None
        self.note: Callable[[Statement], None] | None = None
        self._kernel = kernel
        self._marker = marker
        self._ahead = [*ahead] if marker is None else [(BEGIN, None), *ahead, (_MARK, marker)]
        self._adopted = adopted
        self._at_once = at_once
        self._limit: Limit | None = None
        # The limit that was set on the server; None if its own are in force. And whether a wait was in vain.
        self._limit_set: int | None = None
        self._vain = False
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
        if self.note is not None:
            self.note(statement)
        cursor = self._kernel_cursor()
        self._run(cursor, statement.postgres, values)
        return _rows(cursor)

    def change(self, statement: Statement, values: Values) -> int:
        """Run a kernel statement once; rows touched."""
        if self.note is not None:
            self.note(statement)
        cursor = self._kernel_cursor()
        self._run(cursor, statement.postgres, values)
        return max(0, cursor.rowcount)

    def bulk(self, statement: Statement, rows: Sequence[tuple[Any, ...]]) -> int:
        """Run a statement once, with an array for each parameter."""
        if not rows:
            return 0
        if self.note is not None:
            self.note(statement)
        columns = map(list, zip(*rows, strict=True))
        cursor = self._kernel_cursor()
        self._run(cursor, statement.postgres, dict(zip(statement.names, columns, strict=True)))
        return max(0, cursor.rowcount)

    def put(self, statement: Statement, row: NewRow) -> None:
        """Run a kernel statement once; the first one may be kept back: perhaps it is the only one."""
        if self.note is not None:
            self.note(statement)
        named = dict(zip(statement.names, row, strict=True))
        # With more ahead of it than the marker it is in a savepoint.
        if self._at_once and not (self._sent or self._put) and self._ahead[-1][1] is self._marker:
            self._put = statement.postgres, named
        else:
            self._run(self._kernel_cursor(), statement.postgres, named)

    def put_if(self, statement: Statement, row: NewRow, more: tuple[Any, ...]) -> bool:
        return self.change(statement, dict(zip(statement.names, row + more, strict=True))) > 0

    def hint(self, word: str) -> None:
        """Notify listeners once it commits; a connection of the user's commits unseen."""
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
        self._run(cursor, for_psycopg(sql), values, theirs=True)
        make = row_type(tuple(column.name for column in cursor.description or ()))
        return [make(row) for row in _rows(cursor)]

    def write(self, sql: str, /, rows: Sequence[Values] | None = None, **values: Any) -> Changes:
        """The user's own insert, update or delete."""
        every = [values] if rows is None else rows
        for each in every:
            check_values(sql, each)
        text, cursor, count = for_psycopg(sql), self._cursor(), 0
        for each in every:
            self._run(cursor, text, each, theirs=True)
            count += max(0, cursor.rowcount)
        # The tag says what was done also after `with …`, which the first word of the text does not.
        if (cursor.statusmessage or "").startswith("INSERT"):
            return Changes(inserted=count)
        return Changes(changed=count)

    @contextlib.contextmanager
    def savepoint(self, limit_ms: int | None = None) -> Iterator[None]:
        """A part that can fail alone, with a limit on what is the user's own in it."""
        self._catch_up()
        outer, callbacks, place, sent = (
            self._limit,
            len(self.after_commit),
            len(self._ahead),
            self._sent,
        )
        limit_set, hints = self._limit_set, self._hints.copy()
        self._ahead.append(_SAVEPOINT)
        if limit_ms is not None:
            self._limit = Limit(limit_ms, outer)
        try:
            yield
            if self._sent != sent:
                self._check()
            if limit_ms is not None and self._limit is not None:
                self._limit.left()
        except BaseException:
            self._limit, self._limit_set, self._hints = outer, limit_set, hints
            del self.after_commit[callbacks:]
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

    def finish(self) -> None:
        """Commit, and notice what PostgreSQL says only in passing: that it rolled back instead.

        Raises psycopg's own errors, since what they mean here is not what they mean elsewhere.
        """
        hints = {"words": list(self._hints)}
        if self._put is not None and self._marker is not None:
            self._finish_at_once(*self._put, {**self._marker, **hints})
            return
        if self._hints and self.connection.info.transaction_status != TransactionStatus.INERROR:
            self._ahead.append((_HINT.encode(), hints))
        self._ahead += self._limits(theirs=False)
        cursor = self._cursor()
        self._send(cursor, b"commit", None)
        if cursor.statusmessage != "COMMIT":
            message = "a statement of this transaction had failed, so all of it was rolled back"
            raise DatabaseError(message)

    def _finish_at_once(self, text: str, values: Values, marker: Values) -> None:
        assert values.keys().isdisjoint(marker), "they are parameters of one statement"
        self._put, self._ahead = None, []
        self._sent += 1
        cursor = self._kernel_cursor()
        try:
            cursor.execute((_AT_ONCE + text).encode(), {**values, **marker})
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

    def _run(self, cursor: Cursor, text: str, values: Values, *, theirs: bool = False) -> None:
        self._catch_up()
        began = monotonic()
        self._ahead += self._limits(theirs=theirs)
        try:
            self._send(cursor, text.encode(), values)
        except psycopg.Error as error:
            raise self._translated(error) from error
        finally:
            if self._limit is not None and not theirs:
                self._limit.spare(began)

    def _limits(self, *, theirs: bool) -> list[Command]:
        """What to set on the server ahead of a statement; little changes within a tenth of the limit."""
        limit_set = self._limit_set
        if not theirs or self._limit is None:
            self._limit_set = None
            return [] if limit_set is None else [_RESTORE_LIMITS]
        left = self._limit.left()
        if limit_set is not None and limit_set * 0.9 < left <= limit_set:
            return []
        self._limit_set = left
        limits = {"ms": str(left), "lock_ms": LOCK_AGAIN_MS if self._vain else LOCK_MS}
        return [*([_KEEP_LIMITS] if limit_set is None else []), (_SET_LIMITS, limits)]

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
        # Only the user's own statements run under limits that are set on the server.
        if self._limit is not None and self._limit_set is not None:
            if isinstance(error, psycopg.errors.QueryCanceled):
                return self._limit.over()
            if isinstance(error, psycopg.errors.LockNotAvailable):
                self._vain = True
                return Blocked(str(translate(error)))
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


def _rows(cursor: Cursor) -> list[tuple[Any, ...]]:
    try:
        return cursor.fetchall() if cursor.description else []
    except NotImplementedError as error:
        # A `datestyle` of the session's own.
        raise DatabaseError(f"a value cannot be read: {first_line(error)}") from error
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
