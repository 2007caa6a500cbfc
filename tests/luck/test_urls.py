"""Addresses of databases, and times at the ends of the calendar: read as meant, or refused by name."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from duework import App, UsageError
from duework.testing import Harness

FAR_WEST, FAR_EAST = timezone(timedelta(hours=-12)), timezone(timedelta(hours=14))


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("sqlite:///:memory:", "in memory.*Harness"),
        ("sqlite:///file::memory:?cache=shared", "in memory"),
        ("sqlite:///work.db?mode=ro", "no option 'mode', only .network=force"),
        ("sqlite:///work.db?netwrok=force", "no option 'netwrok'"),
        ("sqlite:///work.db?network=yes", "network may only be 'force'"),
        ("sqlite:///a%00b.db", "a NUL in the path"),
        ("sqlite:///a\0b.db", "a NUL in the path"),
        ("sqlite:///work.db#1", "%23"),
        ("", "is empty"),
        ("postgresql+psycopg://user@host/name", "without SQLAlchemy's .driver"),
        ("sqlite://user:hunter2@host/work.db", r"sqlite:///work\.db"),
        ("sqlite://host?password=hunter2", r"sqlite:///work\.db"),
        ("postgresql://user:hunter2@127.0.0.1:1/x?wrong=1", "wrong"),
        ("postgresql://user:hunter2@127.0.0.1:1/a%00b", "%00"),
        ("mysql://user:hunter2@host/x", "mysql"),
    ],
)
def test_an_address_that_cannot_be_meant_is_refused_by_name_and_makes_nothing(
    url: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app = App(url)

    for call in (app.jobs, app.status, lambda: list(app.admin.backup("copy.db"))):
        with pytest.raises(UsageError, match=said) as raised:
            call()
        assert "hunter2" not in str(raised.value)
        assert "\n" not in str(raised.value)

    assert "hunter2" not in app.url
    assert list(tmp_path.iterdir()) == []


def test_a_backup_to_a_path_with_a_nul_is_refused(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path / 'work.db'}")
    app.jobs()

    with pytest.raises(UsageError, match="a NUL in the path"):
        list(app.admin.backup("a\0b"))

    app.close()


@pytest.mark.parametrize(
    "at",
    [
        datetime.max.replace(tzinfo=UTC),
        datetime.max.replace(tzinfo=FAR_WEST),
        "9999-12-31T23:59:59-12:00",
        datetime(9999, 1, 1, tzinfo=UTC),
        10**18,
    ],
    ids=str,
)
def test_a_time_beyond_the_calendar_is_refused(harness: Harness, at: Any) -> None:
    @harness.app.task
    async def greet() -> None: ...

    with pytest.raises(UsageError, match="before the year 9999"):
        greet.using(at=at).enqueue()

    assert harness.app.jobs() == []


@pytest.mark.parametrize(
    "at",
    [datetime(9998, 12, 31, 23, 59, 59, tzinfo=UTC), datetime.min.replace(tzinfo=FAR_EAST)],
    ids=str,
)
def test_the_first_and_the_last_year_that_are_taken_can_be_looked_at(
    harness: Harness, at: datetime
) -> None:
    @harness.app.task
    async def greet() -> None: ...

    job = greet.using(at=at).enqueue()

    assert job.refresh().phase == ("waiting" if at.year > 1 else "ready")
    assert harness.app.why(job.id).sentence
    assert harness.app.status().failed == 0
