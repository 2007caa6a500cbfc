"""What only SQLite has: connections that are kept, and a COMMIT that the disk refuses."""

from __future__ import annotations

import resource
import signal
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apsw
import pytest

from duework.db.database import Tx
from duework.db.sqlite.database import SqliteDatabase, SqliteTx
from duework.db.sqlite.stdlib import StdlibTx
from duework.errors import DatabaseError, Error, Gone, Unavailable, Unknown, UsageError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "work.db"


@pytest.fixture
def db(path: Path) -> Iterator[SqliteDatabase]:
    made = SqliteDatabase(f"sqlite:///{path}")
    with made.transaction() as tx:
        tx.write("create table t (n integer primary key)")
    yield made
    made.close()


@contextmanager
def broken_disk() -> Iterator[None]:
    """Let every write to a file fail, with an error that is not a full disk's."""
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


def connection_of(tx: Tx) -> Any:
    assert isinstance(tx, SqliteTx)
    return tx.connection


def stored(db: SqliteDatabase) -> list[int]:
    with db.reading() as view:
        return [row.n for row in view.read("select n from t order by n")]


def test_a_connection_is_used_again_after_a_commit_and_after_a_rollback(
    db: SqliteDatabase,
) -> None:
    with db.transaction() as tx:
        first = connection_of(tx)
        tx.write("insert into t values (1)")
    with pytest.raises(LookupError), db.transaction() as tx:  # noqa: PT012 - a block
        second = connection_of(tx)
        tx.write("insert into t values (2)")
        raise LookupError
    with pytest.raises(DatabaseError), db.transaction() as tx:
        tx.write("insert into t values (1)")
    with db.transaction() as tx:
        third = connection_of(tx)

    assert first is second is third
    assert stored(db) == [1]


def test_an_io_error_of_the_commit_leaves_it_unknown_and_its_connection_is_closed(
    db: SqliteDatabase,
) -> None:
    with broken_disk(), pytest.raises(Unknown), db.transaction() as tx:  # noqa: PT012 - a block
        broken = connection_of(tx)
        tx.write("insert into t values (1)")
    with db.transaction() as tx:
        assert connection_of(tx) is not broken
        tx.write("insert into t values (2)")

    assert 2 in stored(db)


@pytest.mark.parametrize("trouble", [Unavailable("it can only be read"), UsageError("closed")])
def test_a_commit_that_failed_and_cannot_be_looked_for_is_unknown(
    db: SqliteDatabase, trouble: Error, monkeypatch: pytest.MonkeyPatch
) -> None:
    with db.transaction() as block:
        block.write("create table duework_mark (process integer primary key, number integer)")
    tx = db.begin()
    tx.write("insert into t (n) values (2)")
    connection = connection_of(tx)

    class Fails:
        """Its commit reaches the file and is said to have failed."""

        def __getattr__(self, name: str) -> Any:
            return getattr(connection, name)

        def execute(self, sql: str, *values: Any) -> Any:
            answer = connection.execute(sql, *values)
            if sql == "commit":
                raise apsw.IOError("nobody knows")
            return answer

    def refused() -> Any:
        raise trouble

    monkeypatch.setattr(tx, "connection", Fails())
    monkeypatch.setattr(db, "_open", refused)
    with pytest.raises(Unknown):
        db.commit(tx)


def test_a_kept_connection_is_not_used_on_a_file_that_is_gone(
    db: SqliteDatabase, path: Path
) -> None:
    path.rename(path.with_name("elsewhere.db"))

    entered = []

    with pytest.raises(Gone), db.transaction():
        entered.append(True)

    assert not entered


def test_what_a_block_leaves_on_its_connection_is_not_found_by_the_next(
    db: SqliteDatabase, tmp_path: Path
) -> None:
    (tmp_path / "other.db").touch()

    for _ in range(2):
        with db.transaction() as tx:
            tx.write("create temp table staging (n)")
    for _ in range(2):
        with db.transaction() as tx:
            tx.write("attach :other as other", other=str(tmp_path / "other.db"))


def test_closing_closes_what_was_kept(db: SqliteDatabase) -> None:
    with db.transaction() as tx:
        connection = connection_of(tx)

    db.close()

    with pytest.raises(UsageError, match="closed"), db.transaction():
        pass
    with pytest.raises(Exception, match="closed"):
        connection.execute("select 1")


def test_adopting_looks_inside_the_wrappers_of_others(tmp_path: Path) -> None:
    db = SqliteDatabase(f"sqlite:///{tmp_path / 'work.db'}")
    own = sqlite3.connect(tmp_path / "work.db")

    class Session:
        def connection(self) -> Any:
            return SimpleNamespace(connection=SimpleNamespace(driver_connection=own))

    class Django:
        connection: Any = None

        def ensure_connection(self) -> None:
            self.connection = own

    class AsyncSession:
        async def connection(self) -> None:
            pass

    for wrapper in (Session(), Session().connection(), Django(), own):
        tx = db.adopt(wrapper)
        assert isinstance(tx, StdlibTx)
        assert tx.connection is own
    with pytest.raises(UsageError, match=r"not builtins\.coroutine"):
        db.adopt(AsyncSession())
    with pytest.raises(UsageError, match=r"apsw or sqlite3.*not builtins\.int"):
        db.adopt(5)
    own.close()
    db.close()


def test_the_pulse_goes_on_after_another_thread_dropped_the_connections(
    db: SqliteDatabase,
) -> None:
    before = db.pulse()
    dropped, stop = threading.Event(), threading.Event()

    def drop() -> None:
        while not stop.is_set():
            db._drop_connections()  # noqa: SLF001 - what the writer does after a failed commit
            dropped.set()

    dropping = threading.Thread(target=drop)
    dropping.start()
    assert dropped.wait(10)
    pulses = [db.pulse() for _ in range(300)]
    stop.set()
    dropping.join(10)

    assert before not in pulses[1:], "a new connection is a reason to look"
    assert db.pulse() is not None


def test_what_follows_a_commit_does_not_make_it_an_error(db: SqliteDatabase) -> None:
    tx = db.begin()
    connection = connection_of(tx)
    tx.write("insert into t (n) values (1)")
    db.rollback()

    class Ends:
        """A connection that is closed by somebody right after its commit."""

        def __getattr__(self, name: str) -> Any:
            if name == "pragma":
                connection.close(force=True)
            return getattr(connection, name)

    with db.transaction() as block:
        block.write("create table duework_mark (process integer primary key, number integer)")
    tx = db.begin()
    tx.write("insert into t (n) values (2)")
    db._writer = Ends()  # type: ignore[assignment]  # noqa: SLF001
    db.commit(tx)

    assert stored(db) == [2]


def test_closing_gives_the_file_up_though_a_connection_is_in_use(
    db: SqliteDatabase, path: Path
) -> None:
    class InUse:
        in_transaction = True

        def close(self, force: bool) -> None:
            raise apsw.ThreadingViolationError("in use in another thread")

    db.begin()
    writer, db._writer = db._writer, InUse()  # type: ignore[assignment]  # noqa: SLF001
    db.close()
    assert writer is not None
    writer.close(force=True)

    sqlite3.connect(path).close()
