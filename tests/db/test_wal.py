"""What SQLite's commits wait for: room ahead in the log, and claims that wait for no disk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from duework import App
from duework.db.sqlite import wal
from duework.db.sqlite.database import SqliteDatabase
from duework.db.sqlite.wal import Log

SMALL = 64 * 1024


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "work.db"


class Shop:
    """An App that can enqueue."""

    def __init__(self, path: Path, durability: str = "power") -> None:
        self.app = App(f"sqlite:///{path}", durability=durability)

        @self.app.task(name="greet")
        def greet(name: str) -> None: ...

        self._greet = greet

    def enqueue(self, count: int) -> None:
        for number in range(count):
            self._greet.enqueue(str(number))

    def copy_after(self, pages: int) -> SqliteDatabase:
        """Let commits copy the log into the database after so many pages."""
        database = self.app.wiring.engine.database
        assert isinstance(database, SqliteDatabase)
        writer = database._write_connection()  # noqa: SLF001 - it has no such option
        writer.wal_autocheckpoint(pages)
        database._log.opened(writer)  # noqa: SLF001 - the same
        return database


@pytest.fixture
def shop(path: Path) -> Iterator[Shop]:
    made = Shop(path)
    yield made
    made.app.close()


def log_of(path: Path) -> Path:
    return Path(f"{path}-wal")


def written(path: Path) -> int:
    """Where the last frame ends that is not zeros."""
    return len(log_of(path).read_bytes().rstrip(b"\0"))


def found_after_a_kill(path: Path, folder: Path) -> int:
    """How many jobs a copy of the open files holds, as they would be found if the process was killed."""
    folder.mkdir()
    for name in (path, log_of(path)):
        shutil.copyfile(name, folder / name.name)
    connection = apsw.Connection(str(folder / path.name))
    try:
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
        return int(connection.execute("select count(*) from duework_job").fetchall()[0][0])
    finally:
        connection.close()


def test_a_log_that_grows_is_given_room_ahead(shop: Shop, path: Path) -> None:
    shop.enqueue(3 * wal.LOOK_EVERY)

    ahead = log_of(path).stat().st_size - written(path)

    assert wal.PIECE // 2 < ahead <= wal.PIECE


def test_commits_that_have_room_do_not_make_the_file_larger(shop: Shop, path: Path) -> None:
    shop.enqueue(3 * wal.LOOK_EVERY)
    before = log_of(path).stat().st_size

    shop.enqueue(wal.LOOK_EVERY)

    assert log_of(path).stat().st_size == before


def test_what_was_committed_before_the_zeros_is_there_after_a_kill(
    shop: Shop, path: Path, tmp_path: Path
) -> None:
    shop.enqueue(50)

    assert log_of(path).stat().st_size > written(path) + SMALL
    assert found_after_a_kill(path, tmp_path / "copy") == 50


def test_a_log_that_sqlite_starts_anew_keeps_its_size(shop: Shop, path: Path) -> None:
    shop.copy_after(pages=100)
    shop.enqueue(250)
    size = log_of(path).stat().st_size

    shop.enqueue(200)

    assert log_of(path).stat().st_size == size


def test_two_who_write_in_turn_never_write_zeros_over_each_other(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wal, "LOOK_EVERY", 1)
    monkeypatch.setattr(wal, "PIECE", 8 * 4096)
    first, second = Shop(path), Shop(path)

    for _ in range(60):
        first.enqueue(1)
        second.enqueue(2)

    assert found_after_a_kill(path, tmp_path / "copy") == 180
    first.app.close()
    second.app.close()


def test_zeros_are_written_behind_the_end_only(tmp_path: Path) -> None:
    name = tmp_path / "a.db-wal"
    name.write_bytes(b"x" * 100)
    seen = watched(tmp_path / "a.db-wal")
    looks(seen)
    with name.open("ab") as file:
        file.write(b"y" * 100)

    looks(seen)

    content = name.read_bytes()
    assert content[:200] == b"x" * 100 + b"y" * 100
    assert content[200:] == bytes(wal.PIECE)


def test_a_log_that_grows_by_leaps_is_left_alone(tmp_path: Path) -> None:
    name = tmp_path / "a.db-wal"
    name.write_bytes(b"x")
    seen = watched(tmp_path / "a.db-wal")
    looks(seen)
    name.write_bytes(b"x" * (2 * wal.PIECE))

    looks(seen)

    assert name.stat().st_size == 2 * wal.PIECE


def test_a_log_that_is_not_there_or_is_a_link_harms_nobody(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"x")
    seen = watched(tmp_path / "a.db-wal")
    looks(seen)
    os.symlink(elsewhere, tmp_path / "a.db-wal")
    looks(seen)
    elsewhere.write_bytes(b"xx")

    looks(seen)

    assert elsewhere.read_bytes() == b"xx"


def test_another_file_in_its_place_is_left_alone(tmp_path: Path) -> None:
    name = tmp_path / "a.db-wal"
    name.write_bytes(b"x")
    seen = watched(name)
    looks(seen)
    name.rename(tmp_path / "moved")
    name.write_bytes(b"xx")

    looks(seen)

    assert name.read_bytes() == b"xx"


def test_where_nobody_waits_for_the_disk_no_room_is_made(path: Path) -> None:
    shop = Shop(path, durability="process")

    shop.enqueue(3 * wal.LOOK_EVERY)

    assert log_of(path).stat().st_size < written(path) + 4096
    shop.app.close()


def watched(name: Path) -> Log:
    """A log that is already known by its name."""
    made = Log("full")
    made._name = str(name)  # noqa: SLF001 - as a connection would tell
    return made


def looks(seen: Log) -> None:
    for _ in range(wal.LOOK_EVERY):
        seen.lengthen()
