"""The system's word that a file was written to."""

from __future__ import annotations

import select
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from duework.db.sqlite.inotify import Notices

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "work.db-wal"
    path.touch()
    return path


@pytest.fixture
def notices(log: Path) -> Iterator[Notices]:
    database: Any = SimpleNamespace(path=log.with_name("work.db"))
    made = Notices.of(database)
    assert made is not None
    yield made
    made.close()


def told(notices: Notices) -> bool:
    return bool(select.select([notices.descriptor], [], [], 0)[0])


def append(log: Path) -> None:
    with log.open("ab") as file:
        file.write(b"x")


def test_a_write_is_told_until_it_is_cleared(notices: Notices, log: Path) -> None:
    assert notices.renew()
    assert not told(notices)

    append(log)
    append(log)

    assert told(notices)
    assert notices.clear()
    assert not told(notices)
    assert not notices.clear()


def test_a_read_is_not_told(notices: Notices, log: Path) -> None:
    notices.renew()

    log.read_bytes()

    assert not told(notices)


def test_a_log_that_was_made_anew_is_watched_once_it_is_asked_for(
    notices: Notices, log: Path
) -> None:
    notices.renew()
    log.unlink()
    assert notices.clear()
    assert not notices.renew()

    log.touch()
    assert notices.renew()
    append(log)

    assert told(notices)


def test_a_database_without_a_file_has_none() -> None:
    database: Any = SimpleNamespace(url="postgresql://")
    assert Notices.of(database) is None
