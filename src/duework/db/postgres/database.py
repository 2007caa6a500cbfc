"""PostgreSQL by psycopg 3: one write connection, and short lists of idle ones for others.

Three things here are not obvious. BEGIN and the marker (below) travel with the first statement, in
one round trip; while the server has just answered, a group that is a single row is one statement,
marker and all, which commits itself. The kernel's statements run with sequential
scans off: a queue table's statistics are stale most of the time, and the plans must not depend on
them. And a COMMIT whose answer is lost may have happened, so each group leaves a marker, a row with
a number of its own; inserting the same row from a new connection waits for the old transaction to
end and fails if it was committed. `pg_xact_status` cannot be asked instead: after a crash of the
server the number of a transaction that left nothing on disk is given to another one.
"""

from __future__ import annotations

import contextlib
import random
import secrets
import threading
from collections.abc import Generator, Iterator
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from duework.clock import monotonic, pause
from duework.db.adopted import BY_ITSELF, driver_connection, unwrapped
from duework.db.database import FORKED, Retryable, Tx, Values, current_pid
from duework.db.postgres.borrowed import borrowed
from duework.db.postgres.connect import READER, WRITER, WRITING, arguments, opened, pooled
from duework.db.postgres.tx import (
    BEGIN,
    LASTING,
    NOW,
    OPEN,
    REMEMBER,
    Connection,
    Cursor,
    PostgresTx,
    ended,
    first_line,
    kernel_cursor,
    translate,
)
from duework.db.queries import Statement
from duework.db.urls import redacted
from duework.db.writer.writer import run_after_commit
from duework.errors import Error, Unavailable, Unknown, UsageError

IDLE_CONNECTIONS = 4
PATIENCE = 5.0
DECIDE_SECONDS = 20.0
# A server that is frozen, or a proxy that is, still acknowledges packets; then only this ends a
# wait. Longer than `statement_timeout`, which is the server's own answer to the same question.
ANSWER_SECONDS = 35.0
# The same for what any server answers at once: BEGIN, ROLLBACK, the time.
TRIFLE_SECONDS = 10.0
# A row is written and committed by one statement only so soon after the last answer. If that one is
# lost, a server that became a standby cannot be asked whether it happened; where BEGIN is lost, it did not.
AT_ONCE_SECONDS = 0.005

REPORTED = ["server_version", "fsync", "synchronous_commit", "full_page_writes"]

_SEAL = f"{REMEMBER} on conflict do nothing returning {LASTING}".encode()
_LAST = f"select {LASTING}".encode()
_ALL_LAST = b"""select set_config('synchronous_commit', 'on', false)
where current_setting('synchronous_commit') = 'off'"""
_SEALED = b"select 1 from duework_mark where process = %(process)s and number = -%(number)s"
_FORGET = b"delete from duework_mark where process = %(process)s and number = %(number)s"
# As a number: a role may have times written so that the driver cannot read them.
_BACKEND = b"select pid, extract(epoch from backend_start) from pg_stat_activity where pid = pg_backend_pid()"
_TERMINATE = b"""select pg_terminate_backend(pid) from pg_stat_activity
where pid = %(pid)s and extract(epoch from backend_start) = %(start)s"""


class _NoAnswer(psycopg.OperationalError):
    """Nothing came for too long; every other wait for this server is in vain."""


class _Watched(psycopg.Connection[tuple[Any, ...]]):
    """A connection that gives up when the server does not answer at all."""

    # Whether all that it does at the moment is a trifle.
    trifle = False

    def wait(self, gen: Generator[Any, Any, Any], *args: Any, **kwargs: Any) -> Any:
        seconds = TRIFLE_SECONDS if self.trifle else ANSWER_SECONDS
        return super().wait(_watched(gen, seconds), *args, **kwargs)


def _watched(steps: Generator[Any, Any, Any], seconds: float) -> Generator[Any, Any, Any]:
    deadline = monotonic() + seconds
    try:
        wanted = next(steps)
        while True:
            ready = yield wanted
            if not ready and monotonic() > deadline:
                raise _NoAnswer(f"no answer for {seconds:g} s")
            wanted = steps.send(ready)
    except StopIteration as end:
        return end.value


class PostgresDatabase:
    """One database on a PostgreSQL server."""

    kind = "postgres"

    def __init__(self, url: str, durability: str = "power") -> None:
        self.url = url
        self._lasting = durability == "power"
        common = {} if self._lasting else {"synchronous_commit": "off"}
        self._arguments = arguments(url, **common)
        self._reader_arguments = arguments(url, **common, **READER)
        self._writer_arguments = arguments(url, **common, **WRITER)
        self._process = secrets.randbits(62)
        self._number = self._last_marker = 0
        self._at_once_until = 0.0
        self._writer: Connection | None = None
        self._kernel: Cursor | None = None
        self._backend: dict[str, Any] = {}
        self._idle: list[Connection] = []
        self._readers: list[Connection] = []
        self._lock = threading.Lock()
        self.busy = threading.Lock()
        self._closed = False
        self._here = current_pid()
        self._pid = self._here[0]

    # --- the writer's side

    def crowded(self) -> bool:
        """Never: the server lets many write at once, and no process waits for our gap."""
        return False

    def epoch(self, boot: str) -> int | None:  # noqa: ARG002 - of this machine, not of the server's
        return None

    def begin(self) -> Tx:
        """A transaction on the writer's connection; its first statement takes it to the server."""
        connection = self._write_connection()
        self._number += 1
        marker = {**self._marker(), "before": self._last_marker}
        ahead = [WRITING] if pooled(connection) else []
        at_once = not ahead and monotonic() < self._at_once_until
        return PostgresTx(connection, self._kernel, marker, ahead=ahead, at_once=at_once)

    def _marker(self) -> dict[str, Any]:
        return {"process": self._process, "number": self._number, "lasting": self._lasting}

    def commit(self, tx: Tx) -> None:
        """Commit; if the answer is lost, find out on a new connection what happened."""
        assert isinstance(tx, PostgresTx), "a transaction of ours"
        if not tx.begun:
            return
        try:
            tx.finish()
        except psycopg.Error as error:
            if not tx.connection.closed and not ended(error):
                raise translate(error) from error
            self._drop_writer()
            self._decide(error)
        self._last_marker = self._number
        self._at_once_until = monotonic() + AT_ONCE_SECONDS

    def rollback(self) -> None:
        """Undo what was done; never fails, at worst the connection is given up."""
        if self._writer is not None and not _reset(self._writer):
            self._drop_writer()

    def _decide(self, error: psycopg.Error) -> None:
        """Find out what became of a lost COMMIT; returns if it happened."""
        lost, tries = self._backend, 0
        deadline = monotonic() + DECIDE_SECONDS
        while True:
            try:
                happened = self._seal(self._write_connection(), lost)
            except (psycopg.Error, Retryable, Error) as again:
                self._drop_writer()
                if self._closed or monotonic() > deadline:
                    failures = f"{first_line(error)}; then {first_line(again)}"
                    message = f"a commit was lost and cannot be looked for ({failures})"
                    raise Unknown(message) from error
                tries += 1
                pause(min(0.05 * 1.5**tries, 1.0) * (0.5 + random.random()))  # noqa: S311 - jitter
            else:
                break
        if not happened:
            # The place stays taken, since it may come late.
            self._last_marker = 0
            message = f"the connection was lost before the commit ({first_line(error)})"
            raise Retryable(message) from error

    def _seal(self, connection: Connection, lost: Values) -> bool:
        """Take the place of the lost transaction's marker, unless it is taken."""
        # It may still sit there, idle, with its locks. The start time distinguishes it from a later
        # process of the same number.
        connection.execute(_TERMINATE, lost)
        connection.execute(BEGIN)
        marker = self._marker()
        taken = connection.execute(_SEAL, marker).rowcount == 0
        if taken:
            # Perhaps by ourselves, if the answer to our own commit below was lost.
            happened = connection.execute(_SEALED, marker).fetchone() is None
            connection.execute(b"rollback")
            return happened
        # Behind a pooler nothing was terminated: what comes late finds the place taken for good.
        connection.execute(_SEAL, marker | {"number": -self._number})
        connection.execute(_FORGET, marker | {"number": self._last_marker})
        connection.execute(b"commit")
        return False

    def _write_connection(self) -> Connection:
        self._check()
        if self._writer is not None and not _reset(self._writer):
            self._drop_writer()
        if self._writer is None:
            connection = opened(_Watched, self._writer_arguments)
            try:
                row = connection.execute(_BACKEND).fetchone() or (0, None)
            except psycopg.Error as error:
                connection.close()
                raise translate(error) from error
            self._backend = {"pid": None if pooled(connection) else row[0], "start": row[1]}
            # One that is dropped to make room is dropped after a statement that may be the commit.
            connection.prepared_max = None
            self._writer, self._kernel = connection, kernel_cursor(connection)
        return self._writer

    def _drop_writer(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = self._kernel = None

    # --- connections for others

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Tx]:
        """A transaction for a block of the user's code, on a connection of its own."""
        connection, _ = self._borrow(self._idle, b"begin", PATIENCE)
        tx = PostgresTx(connection, ahead=[(_LAST, {"lasting": self._lasting})])
        try:
            yield tx
            self._check_forked()
            try:
                tx.finish()
            except psycopg.Error as error:
                if connection.closed or ended(error):
                    message = f"the connection was lost during the commit ({first_line(error)})"
                    raise Unknown(message) from error
                raise translate(error) from error
        except Retryable as error:
            raise Unavailable(str(error)) from error.__cause__
        finally:
            self._give_back(self._idle, connection)
        run_after_commit(tx)

    @contextlib.contextmanager
    def reading(self) -> Iterator[Tx]:
        """A consistent view of one moment."""
        begin = b"begin isolation level repeatable read read only"
        connection, _ = self._borrow(self._readers, begin)
        try:
            yield PostgresTx(connection)
        except Retryable as error:
            raise Unavailable(str(error)) from error.__cause__
        finally:
            self._give_back(self._readers, connection)

    def ask(self, statement: Statement, values: Values) -> list[tuple[Any, ...]]:
        """Rows of one statement, which needs no BEGIN."""
        return self._ask(statement.postgres.encode(), values)

    def adopt(self, connection: Any) -> Tx:
        """A `Tx` on a psycopg connection, or on the one inside SQLAlchemy's or Django's."""
        wanted = "a psycopg connection here, or a SQLAlchemy or Django one on psycopg 3"
        given = driver_connection(connection)
        if isinstance(given, psycopg.AsyncConnection):
            given = borrowed(given)
        found: Connection = unwrapped(given, psycopg.Connection, wanted=wanted)
        if found.autocommit and found.info.transaction_status not in OPEN:
            raise UsageError(BY_ITSELF)
        return PostgresTx(found, adopted=True)

    def connect(self) -> Connection:
        """A psycopg connection for the user."""
        self._check()
        try:
            connection = opened(psycopg.Connection, self._arguments)
            if self._lasting and not pooled(connection):
                connection.execute(_ALL_LAST)
            connection.autocommit = False
        except (Retryable, psycopg.Error) as error:
            raise Unavailable(str(error)) from error.__cause__
        return connection

    def pulse(self) -> int | None:
        """None: asking would be a query, and there are notifications."""
        return None

    def now(self) -> int | None:
        """The server's clock, in one round trip."""
        return int(self._ask(NOW.encode())[0][0])

    def settings(self) -> dict[str, str]:
        """What the durability of this server rests on."""
        query = "select name, setting from pg_settings where name = any(:names)"
        # As it is for what commits.
        with self.transaction() as tx:
            return dict(tx.read(query, names=REPORTED))

    def backup(self, target: str) -> Iterator[tuple[int, int]]:
        """Not ours to do: PostgreSQL has its own tools."""
        how = f"pg_dump --format=custom --file={target} {redacted(self.url)}"
        raise UsageError(f"a PostgreSQL database is backed up by its own tools: {how}")

    def reserve(self) -> None:
        """Nothing: the server's disk is not ours."""

    def disk_full_reason(self) -> str | None:
        """None: see `reserve`."""
        return None

    def repair(self, tx: Tx) -> int:  # noqa: ARG002 - as the other one
        """Nothing: PostgreSQL stores no text that is not UTF-8."""
        return 0

    def close(self) -> None:
        """Close all connections; those that are lent out are closed when they come back."""
        self._closed = True
        if self._here[0] != self._pid:
            return
        self._drop_idle(self._idle)
        self._drop_idle(self._readers)
        # A group that is still at work must not find its transaction ended: better its connection.
        if self._writer is not None and _idle(self._writer):
            with contextlib.suppress(psycopg.Error):
                marker = {"process": self._process, "number": self._last_marker}
                self._writer.execute(_FORGET, marker)
        self._drop_writer()

    def _check(self) -> None:
        self._check_forked()
        if self._closed:
            raise UsageError("this App is closed")

    def _check_forked(self) -> None:
        if self._here[0] != self._pid:
            raise UsageError(FORKED)

    def _ask(self, query: bytes, values: Values | None = None) -> list[tuple[Any, ...]]:
        connection, cursor = self._borrow(self._readers, query, values=values)
        try:
            return cursor.fetchall()
        finally:
            self._give_back(self._readers, connection)

    def _borrow(
        self,
        idle: list[Connection],
        opening: bytes,
        patience: float = 0,
        values: Values | None = None,
    ) -> tuple[Connection, Cursor]:
        """A connection that has answered `opening`; an idle one may have died meanwhile."""
        self._check()
        deadline = monotonic() + patience
        while True:
            with self._lock:
                connection = idle.pop() if idle else None
            used = connection is not None
            try:
                connection = connection or self._opened(idle)
                with _trifle(connection):
                    return connection, connection.execute(opening, values)
            except (psycopg.Error, Retryable) as error:
                if connection is not None:
                    connection.close()
                if isinstance(error, _NoAnswer):
                    # The others have been idle for as long: one wait must do for all.
                    self._drop_idle(idle)
                problem = translate(error) if isinstance(error, psycopg.Error) else error
                if not isinstance(problem, Retryable):
                    raise problem from error
                if not used and monotonic() >= deadline:
                    raise Unavailable(str(problem)) from error
            if not used:
                pause(0.05 + random.random() * 0.1)  # noqa: S311 - jitter

    def _opened(self, idle: list[Connection]) -> Connection:
        """A read is watched; how long a statement of a block takes is the user's affair."""
        if idle is self._readers:
            return opened(_Watched, self._reader_arguments)
        return opened(psycopg.Connection, self._arguments)

    def _drop_idle(self, idle: list[Connection]) -> None:
        with self._lock:
            dropped = idle.copy()
            idle.clear()
        for connection in dropped:
            connection.close()

    def _give_back(self, idle: list[Connection], connection: Connection) -> None:
        if self._here[0] != self._pid:
            return
        if _reset(connection):
            with self._lock:
                if not self._closed and len(idle) < IDLE_CONNECTIONS:
                    idle.append(connection)
                    return
        connection.close()


@contextlib.contextmanager
def _trifle(connection: Connection) -> Iterator[None]:
    """What is done in here, a server that is alive answers at once."""
    if not isinstance(connection, _Watched):
        yield
        return
    connection.trifle = True
    try:
        yield
    finally:
        connection.trifle = False


def _reset(connection: Connection) -> bool:
    """End what is still open on a connection; False if it is of no more use."""
    try:
        if connection.info.transaction_status != TransactionStatus.IDLE:
            with _trifle(connection):
                connection.execute(b"rollback")
    except psycopg.Error:
        return False
    return _idle(connection)


def _idle(connection: Connection) -> bool:
    """Whether it is open and in the middle of nothing.

    An interrupt may leave a pipeline behind in which statements are sent and not waited for.
    """
    at_rest = connection.info.transaction_status == TransactionStatus.IDLE
    return at_rest and not connection.closed and connection._pipeline is None  # noqa: SLF001 - no other way


__all__ = ["PostgresDatabase", "PostgresTx", "arguments"]
