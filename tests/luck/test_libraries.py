"""One SQLite library per file and process: a second one would drop the locks of the first."""

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apsw
import pytest

from duework import App, SchemaMismatch, UsageError
from tests.support.working import working


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "work it.db"


@pytest.fixture
def app(path: Path) -> Iterator[App]:
    made = App(f"sqlite:///{path}")
    yield made
    made.close()


def define(app: App) -> Any:
    @app.task
    async def greet(name: str) -> str:
        return name

    return greet


def spellings(path: Path) -> dict[str, tuple[Any, dict[str, Any]]]:
    link, hard = path.with_name("link.db"), path.with_name("hard.db")
    link.symlink_to(path)
    os.link(path, hard)
    quoted = str(path).replace(" ", "%20")
    return {
        "text": (str(path), {}),
        "path": (path, {}),
        "bytes": (os.fsencode(path), {}),
        "relative": (os.path.relpath(path), {}),
        "dots": (f"{path.parent}/../{path.parent.name}/{path.name}", {}),
        "link": (link, {}),
        "hard link": (hard, {}),
        "uri": (f"file:{quoted}", {"uri": True}),
        "uri with slashes": (f"file://{quoted}?mode=ro", {"uri": True}),
        "uri with a host": (f"file://localhost{quoted}#x", {"uri": True}),
        "relative uri": (f"file:{os.path.relpath(quoted)}?mode=rw", {"uri": True}),
        "bytes of a uri": (f"file:{quoted}".encode(), {"uri": True}),
    }


def test_the_other_library_is_refused_before_it_touches_a_lock(app: App, path: Path) -> None:
    greet = define(app)
    greet.enqueue("ada")
    connection = app.connect()
    connection.execute("begin immediate")

    for spelling, (name, options) in spellings(path).items():
        with pytest.raises(UsageError, match=r"app\.connect") as raised:
            sqlite3.connect(name, **options)
        assert "\n" not in str(raised.value), spelling

    # A lock that was dropped would let another process in.
    assert _another_process_is_kept_out(path)
    connection.execute("rollback")
    connection.close()


def _another_process_is_kept_out(path: Path) -> bool:
    import subprocess
    import sys

    program = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None);"
        "c.execute('begin immediate')"
    )
    result = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False
    )
    return "database is locked" in result.stderr


def test_other_files_and_memory_are_left_to_the_other_library(app: App, tmp_path: Path) -> None:
    define(app).enqueue("ada")

    for name in (":memory:", "", tmp_path / "own.db", "file::memory:?cache=shared"):
        connection = sqlite3.connect(name, uri=True)
        connection.execute("select 1").fetchall()
        connection.close()
    with pytest.raises(ValueError, match="null"):
        sqlite3.connect("a\0b")


def test_an_app_is_not_opened_beside_a_connection_of_the_other_library(
    app: App, path: Path
) -> None:
    connection = sqlite3.connect(path)
    connection.execute("create table mine (x)")

    with pytest.raises(UsageError, match="already open in this process") as raised:
        define(app).enqueue("ada")

    assert "close that connection first" in str(raised.value)
    connection.execute("insert into mine values (1)")
    connection.commit()
    connection.close()
    assert app.jobs() == []


class Own(sqlite3.Connection):
    """As programs do that want methods of their own."""


@pytest.mark.parametrize("factory", [sqlite3.Connection, Own])
def test_its_connection_is_taken_while_the_app_has_not_opened_the_file(
    app: App, path: Path, factory: type[sqlite3.Connection]
) -> None:
    migrated = App(f"sqlite:///{path}")
    migrated.jobs()
    migrated.close()
    greet = define(app)
    connection = sqlite3.connect(path, factory=factory)
    connection.row_factory = sqlite3.Row
    connection.execute("create table invoice (id integer)")

    with connection:
        connection.execute("insert into invoice values (7)")
        greet.using(connection=connection, key="k").enqueue("ada")
    with pytest.raises(ZeroDivisionError), connection:  # noqa: PT012 - a block
        greet.using(connection=connection).enqueue("eve")
        _ = 1 / 0
    connection.close()

    with working(app):
        [job] = app.jobs(task="greet")
        assert job.wait("10s").result == "ada"


def test_a_database_that_was_never_migrated_says_so_through_it(app: App, path: Path) -> None:
    connection = sqlite3.connect(path)

    with pytest.raises(SchemaMismatch, match="no tables of Duework yet: run `duework db migrate`"):
        define(app).using(connection=connection).enqueue("ada")

    connection.close()


def test_a_database_that_is_newer_is_refused_through_it(app: App, path: Path) -> None:
    migrated = App(f"sqlite:///{path}")
    with migrated.transaction() as tx:
        tx.write(
            "insert into duework_migration (part, number, name, compatible)"
            " values ('duework', 999, 'later', 999)"
        )
    migrated.close()
    connection = sqlite3.connect(path)

    with pytest.raises(SchemaMismatch, match="upgrade duework"):
        define(app).using(connection=connection).enqueue("ada")

    assert connection.execute("select count(*) from duework_job").fetchone() == (0,)
    connection.close()


def test_its_connection_is_refused_once_the_app_has_opened_the_file(
    app: App, path: Path, tmp_path: Path
) -> None:
    greet = define(app)
    greet.enqueue("ada")
    elsewhere = sqlite3.connect(tmp_path / "own.db")

    with pytest.raises(UsageError, match=r"app\.connect"):
        greet.using(connection=elsewhere).enqueue("eve")

    elsewhere.close()
    assert len(app.jobs()) == 1


def test_an_apsw_connection_that_was_opened_before_the_app_is_taken(app: App, path: Path) -> None:
    made = App(f"sqlite:///{path}")
    made.jobs()
    made.close()
    own = apsw.Connection(str(path))
    beside = apsw.Connection(":memory:")
    beside.execute("attach ? as other", (str(path),))
    own.execute("begin immediate")

    define(app).using(connection=own).enqueue("ada")
    own.execute("commit")

    assert [job.task for job in app.jobs()] == ["greet"]
    own.close()
    beside.close()


def test_a_connection_that_is_busy_in_another_thread_does_not_stop_an_app_from_opening(
    app: App, path: Path, tmp_path: Path
) -> None:
    endless = (
        "with recursive n (i) as (select 1 union all select i + 1 from n) select max(i) from n"
    )
    own, busy = apsw.Connection(str(path)), apsw.Connection(str(tmp_path / "theirs.db"))
    own.execute("create table mine (x)")

    def count() -> None:
        with suppress(apsw.InterruptError):
            busy.execute(endless).fetchall()

    thread = threading.Thread(target=count)
    thread.start()
    try:
        define(app).enqueue("ada")
    finally:
        busy.interrupt()
        thread.join()

    assert [job.task for job in app.jobs()] == ["greet"]
    own.close()
    busy.close()


def test_a_connection_of_the_other_library_beside_one_of_apsw_is_still_refused(
    app: App, path: Path
) -> None:
    own, other = apsw.Connection(str(path)), sqlite3.connect(path)
    other.execute("create table mine (x)")

    with pytest.raises(UsageError, match="another SQLite library"):
        app.jobs()

    other.close()
    own.close()


def test_a_wrapper_of_an_apsw_connection_is_taken_at_any_time(app: App) -> None:
    greet = define(app)
    greet.enqueue("ada")
    own = app.connect()
    own.execute("begin immediate")

    greet.using(connection=SimpleNamespace(dbapi_connection=own)).enqueue("eve")
    own.execute("rollback")

    assert len(app.jobs()) == 1
    own.close()


def test_what_is_no_connection_is_refused(app: App) -> None:
    greet = define(app)
    greet.enqueue("ada")

    with pytest.raises(UsageError, match="apsw or sqlite3"):
        greet.using(connection=object()).enqueue("eve")

    assert len(app.jobs()) == 1


def test_a_file_is_free_again_when_its_app_is_closed(app: App, path: Path) -> None:
    define(app).enqueue("ada")
    app.close()

    connection = sqlite3.connect(path)

    assert connection.execute("select count(*) from duework_job").fetchone() == (1,)
    connection.close()


def test_a_file_that_was_refused_does_not_count_as_open(path: Path) -> None:
    path.write_bytes(b"no database " * 100)
    with pytest.raises(Exception, match="not a SQLite database"):
        App(f"sqlite:///{path}").jobs()

    sqlite3.connect(path).close()
