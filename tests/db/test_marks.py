"""What a SQLite file tells of a commit that was said to have failed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from duework import App


class Fails:
    """A connection whose next commit is said to have failed, whether or not it has happened."""

    def __init__(self, app: App, *, happens: bool) -> None:
        self._database: Any = app.engine.database
        self._real, self._database._writer = self._database._writer, self  # noqa: SLF001
        self._happens = happens

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def execute(self, sql: str, *values: Any) -> Any:
        if sql != "commit":
            return self._real.execute(sql, *values)
        if self._happens:
            self._real.execute(sql)
        raise apsw.IOError("it is said to have failed")


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    with closing(App(f"sqlite:///{tmp_path / 'work.db'}")) as app:
        app.task(name="note")(lambda: None).enqueue()
        yield app


def marks(app: App) -> int:
    count: int = app.read("select count(*) from duework_mark")[0][0]
    return count


@pytest.mark.parametrize("count", [1, 2], ids=["a job", "two jobs"])
@pytest.mark.parametrize("happens", [True, False], ids=["after it", "before it"])
def test_what_fails_around_its_commit_is_written_once(app: App, count: int, happens: bool) -> None:
    @app.task(name="other")
    def note(number: int) -> None: ...

    note.enqueue(0)
    Fails(app, happens=happens)

    made = note.enqueue_many([(number,) for number in range(1, count + 1)])

    found = app.read(
        "select id, payload ->> 'number' as number from duework_job where task = 'other'"
    )
    assert sorted(row.number for row in found) == list(range(count + 1))
    assert {job.id for job in made} <= {row.id for row in found}


def test_a_single_job_is_its_own_mark(app: App) -> None:
    note = app.task(name="other")(lambda: None)
    note.enqueue()
    with app.transaction() as tx:
        tx.write("delete from duework_mark")

    note.enqueue()
    assert marks(app) == 0

    note.enqueue_many([(), ()])
    assert marks(app) == 1
