"""Parts: tasks and tables of one subject, brought to life by an App."""

from __future__ import annotations

from pathlib import Path

import pytest

from duework import App, Part, SchemaMismatch, UsageError
from duework.testing import Harness


def test_the_tasks_of_a_part_carry_its_name(harness: Harness) -> None:
    part = Part("streaks")

    @part.task(retries=2)
    async def check(user: int) -> int:
        return user * 2

    harness.app.include(part)
    job = check.enqueue(7)
    harness.drain()

    assert (check.name, job.refresh().task, job.refresh().result) == (
        "streaks.check",
        "streaks.check",
        14,
    )


def test_a_task_of_a_part_without_an_app_says_so() -> None:
    part = Part("streaks")

    @part.task
    async def check() -> None: ...

    with pytest.raises(UsageError, match="included"):
        check.enqueue()


def test_two_parts_may_have_tasks_of_the_same_name(harness: Harness) -> None:
    jobs = []
    for name in ("one", "two"):
        part = Part(name)

        @part.task
        async def check() -> None: ...

        harness.app.include(part)
        jobs.append(check.enqueue())
    harness.drain()

    assert [job.refresh().task for job in jobs] == ["one.check", "two.check"]
    assert {job.refresh().state for job in jobs} == {"done"}


def test_tables_are_made_by_numbered_steps_from_the_folder_beside_the_caller(
    harness: Harness,
) -> None:
    part = Part("streaks", tables="tables/")

    harness.app.include(part)

    assert part.contents.tables == Path(__file__).parent / "tables"
    rows = harness.app.read("select name, days from streak order by days")
    assert [tuple(row) for row in rows] == [("a;b", 1), ("ada", 2)]
    applied = harness.app.read(
        "select number, name from duework_migration where part = 'streaks' order by number"
    )
    assert [tuple(row) for row in applied] == [(1, "streaks"), (2, "seed")]
    _forget(harness, "streaks")


def test_including_a_part_twice_is_including_it_once(harness: Harness) -> None:
    part = Part("streaks", tables="tables")

    @part.task
    async def check() -> None: ...

    harness.app.include(part)
    harness.app.include(part)
    job = check.enqueue()
    harness.drain()

    assert job.refresh().state == "done"
    assert len(harness.app.read("select * from streak")) == 2
    _forget(harness, "streaks")


def test_each_part_counts_its_own_steps_and_may_have_a_text_for_each_database(
    harness: Harness,
) -> None:
    harness.app.include(Part("streaks", tables="tables"))
    harness.app.include(Part("books", tables="shelf"))

    assert harness.app.read("select * from book") == []
    applied = harness.app.read(
        "select part, number from duework_migration where part in ('books', 'streaks') order by 1, 2"
    )
    assert [tuple(row) for row in applied] == [("books", 1), ("streaks", 1), ("streaks", 2)]
    _forget(harness, "streaks", "books")


def _forget(harness: Harness, *parts: str) -> None:
    """Leave the shared database as it was found."""
    with harness.app.transaction() as tx:
        for part in parts:
            tx.write("delete from duework_migration where part = :part", part=part)


def test_a_later_step_is_applied_to_a_database_that_has_the_first_ones(
    url: str, tmp_path: Path
) -> None:
    folder = tmp_path / "steps"
    folder.mkdir()
    (folder / "0001_first.sql").write_text("create table first (id integer)")
    old = App(url)
    old.include(Part("p", tables=folder))
    assert old.read("select * from first") == []
    old.close()

    (folder / "0002_second.sql").write_text("create table second (id integer)")
    new = App(url)
    new.include(Part("p", tables=folder))

    assert new.read("select * from second") == []
    new.close()


def test_a_step_that_was_renamed_is_refused(url: str, tmp_path: Path) -> None:
    (tmp_path / "0001_first.sql").write_text("create table first (id integer)")
    app = App(url)
    app.include(Part("p", tables=tmp_path))
    app.read("select * from first")
    app.close()
    (tmp_path / "0001_first.sql").rename(tmp_path / "0001_other.sql")

    again = App(url)
    again.include(Part("p", tables=tmp_path))

    with pytest.raises(SchemaMismatch, match="renamed"):
        again.read("select * from first")


def test_steps_with_a_gap_or_without_a_folder_are_refused(url: str, tmp_path: Path) -> None:
    (tmp_path / "0001_a.sql").write_text("create table a (id integer)")
    (tmp_path / "0003_c.sql").write_text("create table c (id integer)")
    for tables in (tmp_path, tmp_path / "nowhere"):
        app = App(url)
        app.include(Part("p", tables=tables))
        with pytest.raises(UsageError):
            app.read("select 1 as one")


def test_a_step_that_fails_leaves_nothing_of_itself(url: str, tmp_path: Path) -> None:
    from duework import DatabaseError

    (tmp_path / "0001_a.sql").write_text("create table a (id integer); create nonsense;")
    app = App(url)
    app.include(Part("p", tables=tmp_path))
    with pytest.raises(DatabaseError):
        app.read("select 1 as one")

    (tmp_path / "0001_a.sql").write_text("create table a (id integer)")
    again = App(url)
    again.include(Part("p", tables=tmp_path))
    assert again.read("select * from a") == []
    again.close()


@pytest.mark.parametrize("name", ["", "two words", "7th", "a/b"])
def test_odd_names_of_parts_are_refused(name: str) -> None:
    with pytest.raises(UsageError):
        Part(name)
