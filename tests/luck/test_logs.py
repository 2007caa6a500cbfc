"""The log of a SQLite file that is removed while it is open: nothing that goes into it is acknowledged."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import apsw
import pytest

from duework import App, Gone, Task
from duework.db.sqlite import files
from duework.db.sqlite.database import SqliteDatabase
from tests.support.working import working

# Comes, writes a row, and leaves as the last one or without closing anything.
STRANGER = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute(sys.argv[2])
if sys.argv[3] == "close":
    connection.close()
os._exit(0)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "work.db"


@pytest.fixture
def app(path: Path) -> Iterator[App]:
    made = App(f"sqlite:///{path}")
    yield made
    made.close()


def define(app: App) -> Task[..., Any, Any]:
    @app.task(name="greet")
    async def greet(name: str) -> str:
        return name

    return greet


def stranger(path: Path, sql: str, *, end: str = "close") -> None:
    subprocess.run([sys.executable, "-c", STRANGER, str(path), sql, end], check=True)


def jobs(path: Path) -> set[int]:
    """What is found by whoever comes next."""
    connection = apsw.Connection(str(path))
    try:
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
        return {row[0] for row in connection.execute("select id from duework_job")}
    finally:
        connection.close()


def removed(path: Path) -> None:
    Path(f"{path}-wal").unlink()


def replaced(path: Path) -> None:
    removed(path)
    Path(f"{path}-wal").touch()


def without_index(path: Path) -> None:
    Path(f"{path}-shm").unlink()


AWAY = pytest.mark.parametrize("away", [removed, replaced, without_index])


@AWAY
def test_nothing_is_written_once_the_log_is_gone(
    app: App, path: Path, away: Callable[[Path], None]
) -> None:
    greet = define(app)
    greet.enqueue("ada")
    own = app.connect()

    away(path)

    for _ in range(2):
        with pytest.raises(Gone, match=f"{path.name}-(wal|shm) was deleted or replaced") as raised:
            greet.enqueue("eve")
    assert "then start again" in str(raised.value)
    with pytest.raises(Gone), app.transaction() as tx:
        tx.write("insert into duework_meta (name, value) values ('a', 'b')")
    with pytest.raises(Gone):
        greet.using(connection=own).enqueue("eve")
    assert [job.task for job in app.jobs()] == ["greet"]
    own.close()


@AWAY
def test_a_worker_stops_when_the_log_is_gone(
    app: App, path: Path, away: Callable[[Path], None]
) -> None:
    greet = define(app)
    with working(app) as running:
        greet.enqueue("ada").wait("10s")

        away(path)

        running.thread.join(5)
        assert isinstance(running.error, Gone)


@AWAY
def test_a_commit_into_a_log_that_has_just_gone_is_not_acknowledged(
    app: App, path: Path, away: Callable[[Path], None]
) -> None:
    def slow(tx: Any, items: list[Any]) -> Any:
        tx.write("insert into duework_meta (name, value) values ('a', 'b')")
        away(path)
        return items

    with pytest.raises(Gone):
        app.wiring.engine.writer.call(slow, [None])


@AWAY
def test_a_block_into_a_log_that_has_just_gone_is_not_acknowledged(
    app: App, path: Path, away: Callable[[Path], None]
) -> None:
    greet = define(app)

    with pytest.raises(Gone), app.transaction() as tx:  # noqa: PT012 - a block
        tx.enqueue(greet, "ada")
        away(path)


@AWAY
def test_a_folder_in_which_nothing_changes_is_all_that_a_commit_looks_at(
    app: App, path: Path, away: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    greet = define(app)
    greet.enqueue("ada")
    later(path.parent)
    monkeypatch.setattr(files, "monotonic", lambda: monotonic() + 1)
    greet.enqueue("bob")
    looked: list[str] = []
    stat = os.stat

    def counted(name: Any, *rest: Any, **more: Any) -> Any:
        looked.append(str(name))
        return stat(name, *rest, **more)

    monkeypatch.setattr(os, "stat", counted)
    greet.enqueue("cyd")
    assert looked == [str(path.parent)] * 2, "under the lock, and before the answer"

    away(path)

    with pytest.raises(Gone):
        greet.enqueue("eve")


def later(folder: Path) -> None:
    """Wait until the next change of a folder bears another time than the last one."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as other:
        while os.stat(other).st_ctime_ns <= os.stat(folder).st_ctime_ns:
            Path(other).chmod(0o700)


def test_a_failed_commit_is_not_looked_for_in_another_log(path: Path) -> None:
    first = App(f"sqlite:///{path}")
    database = first.wiring.engine.database
    assert isinstance(database, SqliteDatabase)
    tx = database.begin()
    tx.write("insert into duework_meta (name, value) values ('a', 'b')")
    real = tx.connection  # type: ignore[attr-defined]

    class Fails:
        """Its commit tells nobody what became of it, and the log is gone then."""

        in_transaction = True

        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

        def execute(self, sql: str, *values: Any) -> Any:
            if sql == "commit":
                removed(path)
                raise apsw.IOError("nobody knows")
            return real.execute(sql, *values)

    tx.connection = Fails()  # type: ignore[attr-defined]

    with pytest.raises(Gone):
        database.commit(tx)
    database.rollback()
    first.close()


def test_what_another_library_does_to_our_locks_costs_nothing_that_was_acknowledged(
    app: App, path: Path
) -> None:
    greet = define(app)
    acknowledged = {greet.enqueue("ada").id}
    # Not refused, since it opens no file: but closing it drops the locks that this process has.
    other = sqlite3.connect(":memory:")
    other.execute("attach ? as work", (str(path),))
    other.execute("select count(*) from work.duework_job").fetchall()
    other.close()
    stranger(path, "insert into duework_meta (name, value) values ('a', 'b')")
    assert not Path(f"{path}-wal").exists(), "else this shows nothing"

    for _ in range(3):
        with pytest.raises(Gone):
            acknowledged.add(greet.enqueue("eve").id)
    app.close()

    assert jobs(path) == acknowledged


def test_closing_saves_what_was_in_a_log_that_somebody_removed(app: App, path: Path) -> None:
    greet = define(app)
    job = greet.enqueue("ada")

    removed(path)
    with pytest.raises(Gone):
        greet.enqueue("eve")
    app.close()

    assert jobs(path) == {job.id}


def test_closing_leaves_alone_what_others_wrote_after_the_log_was_removed(
    app: App, path: Path
) -> None:
    define(app).enqueue("ada")
    other = App(f"sqlite:///{path}")
    other.jobs()
    database = other.wiring.engine.database
    assert isinstance(database, SqliteDatabase)
    database._write_connection().pragma("wal_checkpoint")  # noqa: SLF001 - so that there are tables without the log
    other.close()
    removed(path)
    without_index(path)
    stranger(path, "insert into duework_meta (name, value) values ('a', 'b')", end="die")

    app.close()

    connection = apsw.Connection(str(path))
    assert connection.execute("select value from duework_meta where name = 'a'").fetchall() == [
        ("b",)
    ]
    assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
    connection.close()
