"""Boots of the machine, counted in a SQLite file, and fences that no loss of power gives twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duework import App
from duework.db.sqlite import database as sqlite
from duework.db.sqlite.database import SqliteDatabase
from duework.errors import Unavailable
from duework.kernel.engine import EPOCH_BITS
from duework.kernel.job import Ending
from duework.kernel.machine import processes
from tests.support.kernel import ME, Kernel


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    app = App(f"sqlite:///{tmp_path / 'work.db'}")
    found = app.wiring.engine.database
    assert isinstance(found, SqliteDatabase)
    yield found
    app.close()


def test_the_first_boot_that_works_on_a_file_is_number_0(database: SqliteDatabase) -> None:
    assert database.epoch("monday") == 0


def test_every_process_of_a_boot_finds_the_same_number(database: SqliteDatabase) -> None:
    assert [database.epoch(boot) for boot in ("monday", "monday", "tuesday", "tuesday")] == [
        *(0, 0),
        *(1, 1),
    ]


def test_a_boot_that_cannot_be_told_from_others_is_another_one_each_time(
    database: SqliteDatabase,
) -> None:
    assert [database.epoch(boot) for boot in ("", "", "monday", "")] == [0, 1, 2, 3]


def test_a_new_number_is_on_the_disk_whatever_else_waits_for_it(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path / 'work.db'}", durability="process")
    database: Any = app.wiring.engine.database
    levels: list[int] = []
    lock_out = database._lock_out  # noqa: SLF001 - where its transaction begins

    def noted(connection: Any, *more: Any) -> None:
        levels.append(connection.pragma("synchronous"))
        lock_out(connection, *more)

    database._lock_out = noted  # noqa: SLF001 - the same

    database.epoch("monday")

    assert levels == [2]
    app.close()


def test_a_file_that_is_locked_for_long_is_unavailable(
    database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BLOCK_SECONDS", 0.01)
    foreign = database.connect()
    foreign.execute("begin immediate")

    with pytest.raises(Unavailable, match="locked"):
        database.epoch("monday")

    foreign.close(force=True)


def test_a_file_of_another_machine_counts_no_boots_of_this_one(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path / 'work.db'}?network=force")

    app.worker()

    assert app.wiring.engine.floor is None
    app.close()


def test_a_worker_gives_fences_above_all_of_earlier_boots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App(f"sqlite:///{tmp_path / 'work.db'}")
    floors: list[int | None] = [app.wiring.engine.floor]
    for boot in ("monday", "tuesday", "wednesday"):
        monkeypatch.setattr(processes, "boot", lambda boot=boot: boot)
        app.worker()
        floors.append(app.wiring.engine.floor)

    assert floors == [None, 0, 1 << EPOCH_BITS, 2 << EPOCH_BITS]
    app.close()


def test_a_fence_is_above_the_floor_and_above_the_last_one(kernel: Kernel) -> None:
    kernel.enqueue(kernel.new("greet"))
    high = 1 << EPOCH_BITS
    fences = []
    for floor in (0, 0, high, high, 0):
        [held] = kernel.claim("greet", floor=floor)
        fences.append(held.fence)
        kernel.settle(Ending(held.id, held.fence, ME, "released"))

    assert fences == [1, 2, high + 1, high + 2, high + 3]
