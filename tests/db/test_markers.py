"""What a SQLite file tells of a commit that was said to have failed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import apsw
import pytest

from duework import App
from duework.db.database import NewRow, Tx
from duework.db.sqlite.markers import CommitMarkers
from duework.errors import DatabaseError
from duework.kernel.job import LaneName
from duework.kernel.lanes import JOBS
from tests.support.groups import in_one_group


class Fails:
    """A connection whose next commit is said to have failed, whether or not it has happened."""

    def __init__(self, app: App, *, happens: bool) -> None:
        self._database: Any = app.wiring.engine.database
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


@pytest.mark.parametrize("happens", [True, False], ids=["after it", "before it"])
def test_a_job_that_was_refused_is_not_taken_for_the_mark(app: App, happens: bool) -> None:
    def put(tx: Tx, tasks: list[str]) -> list[int]:
        lane = app.wiring.engine.lanes.number(tx, LaneName("default", "note"))
        drawn = [app.wiring.engine.ids.draw() for _ in tasks]
        for job, task in zip(drawn, tasks, strict=True):
            rest = (None, 1, 1, 0, "[]", 0, None, None, None, None, None)
            tx.put(JOBS.insert_one, (job, lane, task, *rest))
        return drawn

    trigger = """create trigger refuses before insert on duework_job when new.task = 'refused'
                 begin select raise(abort, 'no'); end"""
    with app.transaction() as tx:
        tx.write(trigger)
    Fails(app, happens=happens)

    good, refused = in_one_group(app.wiring.engine.writer, [(put, ["good"]), (put, ["refused"])])

    assert isinstance(refused, DatabaseError)
    assert [row.id for row in app.read("select id from duework_job where task = 'good'")] == good


def test_the_job_of_another_process_is_not_taken_for_the_mark(app: App) -> None:
    @app.task(name="other")
    def note(number: int) -> None: ...

    taken = note.enqueue(0).id
    draw = app.wiring.engine.ids.draw

    class Meets(Fails):
        def execute(self, sql: str, *values: Any) -> Any:
            if sql == "commit":
                # It was undone, and now that of the other process is written under its id.
                self._real.execute("rollback")
                self._real.execute("update duework_job set id = ? where id = ?", (job, taken))
                raise apsw.IOError("it is said to have failed")
            return self._real.execute(sql, *values)

    Meets(app, happens=False)
    job = draw()
    first = iter([job])
    app.wiring.engine.ids.draw = lambda: next(first, None) or draw()  # type: ignore[method-assign]

    note.enqueue(1)

    found = app.read("select payload ->> 'number' as number from duework_job where task = 'other'")
    assert sorted(row.number for row in found) == [0, 1]


def test_a_single_job_is_its_own_mark(app: App) -> None:
    note = app.task(name="other")(lambda: None)
    note.enqueue()
    with app.transaction() as tx:
        tx.write("delete from duework_mark")

    note.enqueue()
    assert marks(app) == 0

    note.enqueue_many([(), ()])
    assert marks(app) == 1


def test_a_group_that_could_not_even_be_marked_is_not_taken_for_the_one_before() -> None:
    class Broken:
        def execute(self, *_: Any) -> Any:
            raise apsw.IOError("the disk failed")

    with closing(apsw.Connection(":memory:")) as connection:
        connection.execute(
            "create table duework_mark (process integer primary key, number integer)"
        )
        connection.execute("create table duework_job (id integer primary key, checksum, worker)")
        connection.execute("insert into duework_job values (1, 11, null)")
        marks, broken = CommitMarkers(), cast("apsw.Connection", Broken())
        marks.leave(connection, row(1, 11), 1)
        with pytest.raises(apsw.IOError):
            marks.leave(broken, row(2, 22), 2)

        assert not marks.found(connection)


def row(identifier: int, checksum: int) -> NewRow:
    return NewRow(identifier, 1, "t", None, 0, 0, 0, "{}", checksum, *(None,) * 5)
