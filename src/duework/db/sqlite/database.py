"""SQLite by apsw: WAL, `synchronous=FULL`, one write connection, any number of readers.

Three things here are not obvious. Every write transaction is `BEGIN IMMEDIATE`: a deferred one
that reads first fails at once when another connection has written. Waiting for the lock is our own
short, jittered retry: SQLite's busy handler lets one process starve the others. And a COMMIT that
fails may still have reached the log, so each group leaves a marker; after a failure everything is
closed, opened again and sealed with a write, and the marker shows whether the group happened.
"""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw

from duework.clock import monotonic, pause
from duework.db.adopted import BY_ITSELF, driver_connection
from duework.db.database import FORKED, Retryable, Tx, Values, current_pid
from duework.db.queries import Statement
from duework.db.sqlite import files, forks
from duework.db.sqlite.backup import copied
from duework.db.sqlite.boots import current
from duework.db.sqlite.foreign import ForeignCommits
from duework.db.sqlite.markers import CommitMarkers
from duework.db.sqlite.pulse import Pulse
from duework.db.sqlite.repair import mend
from duework.db.sqlite.reserve import Reserve
from duework.db.sqlite.tx import (
    Connection,
    SqliteTx,
    check_version,
    close,
    configure,
    left_something,
    translated,
    unopened,
)
from duework.db.sqlite.url import parse
from duework.db.sqlite.wal import Log
from duework.db.writer.blocks import BLOCK_SECONDS
from duework.db.writer.writer import run_after_commit
from duework.errors import DatabaseError, Gone, Unavailable, Unknown, UsageError

BUSY_SECONDS = 0.25
IDLE_CONNECTIONS = 4
# How often a writer looks whether it is the only one.
LOOK_SECONDS = 0.02


class SqliteDatabase:
    """One database file."""

    kind = "sqlite"

    def __init__(self, url: str, durability: str = "power") -> None:
        self.url = url
        self.path, self._options = parse(url)
        self._reserve = Reserve(self.path)
        self.disk_full_reason = self._reserve.short
        self._markers = CommitMarkers()
        self._log = Log("full" if durability == "power" else "normal")
        self._changes = 0
        self._writer: Connection | None = None
        self._crowd, self._others = ForeignCommits(), ForeignCommits()
        self._foreign_until = self._look_at = 0.0
        self._pulse = Pulse(self.connect)
        self._readers: list[Connection] = []
        self._idle: list[Connection] = []
        self._lock = threading.Lock()
        self.busy, self.door = threading.Lock(), threading.Lock()
        self._identity: files.Identity | None = None
        self._closed = False
        self._here = current_pid()
        self._pid = self._here[0]
        check_version()

    @property
    def inode(self) -> tuple[int, int] | None:
        """Which file it is, whatever its path; None before it is opened."""
        return None if self._identity is None else self._identity.inode

    def crowded(self) -> bool:
        if (time := monotonic()) >= self._look_at and self._writer is not None:
            self._look_at = time + LOOK_SECONDS
            self._look_for_others(self._writer)
        return time < self._foreign_until

    # --- the writer's side

    def begin(self) -> Tx:
        connection = self._writer
        if connection is None or self._closed or self._here[0] != self._pid:
            connection = self._write_connection()
        self._lock_out(connection, BUSY_SECONDS, self._reserve.use)
        self._log.lengthen()
        self._changes = connection.total_changes()
        return SqliteTx(connection, self._reserve.use)

    def _lock_out(
        self, connection: Connection, seconds: float, on_full: Callable[[], None] | None = None
    ) -> None:
        """Begin, and wait for others by short and jittered pauses."""
        deadline = 0.0
        while True:
            try:
                connection.execute("begin immediate")
            except apsw.BusyError as error:
                deadline = deadline or monotonic() + seconds
                if connection is self._writer:
                    self._foreign_until = monotonic() + 0.1
                if monotonic() > deadline:
                    raise Retryable("the database is locked by another connection") from error
                pause(0.0002 + random.random() * 0.0008)  # noqa: S311 - jitter
            except apsw.Error:
                with translated(on_full):
                    raise
            else:
                # A log that no other process has must not be written to, nor copied into the database.
                connection.beside.check()
                return

    def commit(self, tx: Tx) -> None:
        assert isinstance(tx, SqliteTx), "a transaction of ours"
        if self._here[0] != self._pid:
            self._check_usable()
        connection = tx.connection
        try:
            changes = connection.total_changes() - self._changes
            if not changes and not tx.wrote:
                # Nothing to make durable, and nothing that others should wake up for.
                connection.execute("rollback")
                return
            self._markers.leave(connection, tx.made, changes)
            connection.execute("commit")
        except apsw.ConstraintError as error:
            # Only a deferred constraint speaks up this late; nothing has reached the disk.
            raise DatabaseError(f"Constraint: {error}") from error
        except apsw.Error as error:
            self._after_failed_commit(connection, error)
            return
        # What went into a file that is no longer there must not be acknowledged.
        if self._writer is not None:
            self._writer.beside.check()

    def _look_for_others(self, connection: apsw.Connection) -> None:
        """Whether another connection has written; a hint, whose failure is no concern of the caller."""
        if self._crowd.look(connection):
            self._foreign_until = monotonic() + 0.1

    def foreign(self) -> bool:
        """Whether others have written since the last call; asked between two commits."""
        return self._others.look(self._write_connection())

    def rollback(self) -> None:
        connection = self._writer
        if connection is None or not connection.in_transaction:
            return
        try:
            connection.execute("rollback")
        except apsw.Error:
            self._drop_connections()

    def _after_failed_commit(self, connection: apsw.Connection, error: apsw.Error) -> None:
        """Decide what became of a COMMIT that raised; returns if it happened after all."""
        if isinstance(error, (apsw.BusyError, apsw.FullError)) and connection.in_transaction:
            connection.execute("rollback")
            with translated(self._reserve.use):
                raise error
        if isinstance(error, apsw.FullError):
            self._reserve.use()
        # What is opened anew would take another log for ours.
        if self._writer is not None:
            self._writer.beside.check()
        self._drop_connections()
        try:
            fresh = self._write_connection()
            fresh.execute("begin immediate")
            happened = self._markers.found(fresh)
            fresh.execute("commit")
        except (apsw.Error, Retryable, Unavailable, UsageError) as again:
            self._drop_connections()
            raise Unknown(
                f"a commit failed ({error}) and so did looking for it ({again})"
            ) from error
        if not happened:
            raise Retryable(f"the commit failed ({error})") from error

    def epoch(self, boot: str) -> int | None:
        if "network" in self._options:
            # Its server may lose what it confirmed, and this machine lives on.
            return None
        connection = self.connect()
        try:
            with translated(self._reserve.use):
                # Also where other commits do not wait for the disk: what counts losses must not be lost.
                connection.pragma("synchronous", "full")
                self._lock_out(connection, BLOCK_SECONDS, self._reserve.use)
                return current(connection, boot)
        except Retryable as error:
            raise Unavailable(str(error)) from error.__cause__
        finally:
            close(connection)

    def reserve(self) -> None:
        self._reserve.fill()

    def _write_connection(self) -> Connection:
        self._check_usable()
        if self._writer is None:
            self._writer = self._open()
            self._log.opened(self._writer)
        return self._writer

    # --- connections for others

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Tx]:
        self._check_identity()
        connection = self._borrow(self._idle)
        tx = SqliteTx(connection)
        sound = True
        try:
            self._lock_out(connection, BLOCK_SECONDS)
            yield tx
            self._commit_block(connection)
        except Retryable as error:
            sound = False
            raise Unavailable(str(error)) from error.__cause__
        except (Unavailable, Gone):
            sound = False
            raise
        finally:
            self._give_back(self._idle, connection, sound=sound and not left_something(connection))
        run_after_commit(tx)

    def _commit_block(self, connection: Connection) -> None:
        self._check_forked()
        try:
            with translated():
                connection.execute("commit")
        except Retryable as error:
            if isinstance(error.__cause__, apsw.IOError):
                raise Unknown(f"the commit failed and may still have happened: {error}") from error
            raise
        connection.beside.check()

    @contextlib.contextmanager
    def reading(self) -> Iterator[Tx]:
        connection = self._borrow(self._readers)
        sound = True
        try:
            with translated():
                connection.execute("begin")
            yield SqliteTx(connection)
        except Retryable as error:
            sound = False
            raise Unavailable(str(error)) from error.__cause__
        finally:
            self._give_back(self._readers, connection, sound=sound)

    def ask(self, statement: Statement, values: Values) -> list[tuple[Any, ...]]:
        with self.reading() as tx:
            return tx.query(statement, values)

    def _borrow(self, idle: list[Connection]) -> Connection:
        self._check_usable()
        with self._lock:
            connection = idle.pop() if idle else None
        if connection is None:
            connection = self.connect()
            if idle is self._readers:
                connection.pragma("query_only", "on")
        return connection

    def _give_back(self, idle: list[Connection], connection: Connection, *, sound: bool) -> None:
        if self._here[0] != self._pid:
            return
        try:
            if connection.in_transaction:
                connection.execute("rollback")
            # A statement that was left half read would hold on to its old view of the file.
            sound = sound and connection.txn_state() == apsw.SQLITE_TXN_NONE
        except apsw.Error:
            sound = False
        with self._lock:
            room = idle is self._readers or len(idle) < IDLE_CONNECTIONS
            if sound and room and not self._closed:
                idle.append(connection)
                return
        close(connection)

    def adopt(self, connection: Any) -> Tx:
        found = driver_connection(connection)
        if isinstance(found, apsw.Connection):
            if isinstance(found, Connection):
                found.beside.check()
            if not found.in_transaction:
                raise UsageError(BY_ITSELF)
            return SqliteTx(found)
        return files.adopt_stdlib(found, self.path)

    def connect(self) -> Connection:
        self._check_usable()
        try:
            return self._open()
        except Retryable as error:
            raise Unavailable(str(error)) from error.__cause__

    def pulse(self) -> int | None:
        self._check_identity()
        return self._pulse.ask()

    def now(self) -> int | None:
        return None

    def settings(self) -> dict[str, str]:
        """The library, how durable a commit is, and the file it goes to."""
        with self.reading() as tx:
            journal = tx.read("pragma journal_mode")[0][0]
        return {
            "server_version": apsw.sqlite_lib_version(),
            "journal_mode": journal,
            "synchronous": self._log.synchronous,
            **files.facts(self.path),
        }

    def backup(self, target: str) -> Iterator[tuple[int, int]]:
        """Copy by SQLite's own backup interface: a plain file copy would drop our locks."""
        return copied(self.connect, Path(target))

    def repair(self, tx: Tx) -> int:
        """SQLite stores any bytes as text, and then no row beside them can be read either."""
        assert isinstance(tx, SqliteTx), "a transaction of ours"
        return mend(tx.connection)

    def checkpoint(self) -> bool:
        """Bring the log into the file, so that a copy of it has all; asked between two commits."""
        with contextlib.suppress(apsw.Error):
            self._write_connection().wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_FULL)
            return True
        return False

    def close(self) -> None:
        self._closed = self._pulse.over = True
        if self._here[0] != self._pid:
            # They are the parent's: closing them here would end its locks and clear up its files.
            return
        try:
            if self._writer is not None:
                self._markers.forget(self._writer)
            self._drop_connections()
        finally:
            if self._identity is not None:
                self._identity.release()

    def rest(self) -> bool:
        """Close what is idle, for a fork; it is opened again when it is needed."""
        self._drop_connections()
        return self.inode is None or not files.handles(self.inode)

    def _drop_connections(self) -> None:
        with self._lock:
            dropped = self._readers + self._idle
            self._readers.clear()
            self._idle.clear()
        if self._writer is not None:
            dropped.append(self._writer)
            self._writer = None
        for connection in dropped:
            close(connection)
        self._pulse.drop()

    def _check_usable(self) -> None:
        self._check_forked()
        if self._closed:
            raise UsageError("this App is closed")

    def _check_forked(self) -> None:
        if self._here[0] != self._pid:
            raise UsageError(FORKED)

    def _check_identity(self) -> None:
        if self._identity is not None:
            self._identity.check()

    def _open(self) -> Connection:
        with self.door:
            return self._open_here()

    def _open_here(self) -> Connection:
        if self._identity is None:
            self._identity = files.claim(self.path, force="network" in self._options)
            forks.follow(self)
        self._check_identity()
        connection: Connection | None = None
        try:
            # Without CREATE: a file that was deleted meanwhile must not come back empty.
            connection = Connection(str(self.path), flags=apsw.SQLITE_OPEN_READWRITE)
            if connection.readonly("main"):
                # SQLite is content with less than it was asked for.
                raise apsw.ReadOnlyError("it can only be read")
            self._configure(connection)
            connection.beside = files.Beside(
                self._identity,
                connection.filename,
                connection.filename_wal,
                believe="network" not in self._options,
            )
        except apsw.Error as error:
            if connection is not None:
                connection.close(force=True)
            self._check_identity()
            raise unopened(self.path, error) from error
        self._check_identity()
        return connection

    def _configure(self, connection: apsw.Connection) -> None:
        configure(connection, self._log.synchronous)


__all__ = ["Gone", "SqliteDatabase", "SqliteTx"]
