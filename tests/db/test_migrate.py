"""Migrations: which databases are refused, and what is kept of the texts that made them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from duework import App, Part, SchemaMismatch, UsageError
from duework.db import migrate
from duework.db.database import Database
from duework.db.migrate import KERNEL, Migrations, kernel_steps, part_steps
from duework.db.urls import open_database

FIRST = "create table first (\n    id integer,\n    word text default 'a  b -- c'\n);\n"
SECOND = "create table second (id integer)"


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    opened = open_database(url)
    migrate.migrate(opened, [kernel_steps(opened.kind)])
    yield opened
    opened.close()


def written(folder: Path, *texts: str) -> Path:
    """A part's folder with these migrations and no others."""
    for old in folder.glob("*.sql"):
        old.unlink()
    for number, text in enumerate(texts, 1):
        (folder / f"{number:04}_step{number}.sql").write_text(text)
    return folder


def brought(database: Database, folder: Path, *texts: str) -> list[str]:
    """Migrate the part `p` of these migrations."""
    steps = part_steps("p", written(folder, *texts), database.kind)
    return migrate.migrate(database, [kernel_steps(database.kind), steps])


def rows(database: Database) -> list[tuple[str, int, int, str | None]]:
    with database.reading() as tx:
        found = tx.read(
            "select part, number, compatible, checksum from duework_migration order by part, number"
        )
    return [tuple(row) for row in found]


def write(database: Database, *texts: str) -> None:
    with database.transaction() as tx:
        for text in texts:
            tx.write(text)


def as_before_checksums(database: Database) -> None:
    write(
        database,
        "alter table duework_migration drop column checksum",
        "update duework_migration set compatible = 1",
    )


# --- another text


def test_a_migration_that_was_changed_after_it_was_applied_is_refused(
    database: Database, tmp_path: Path
) -> None:
    brought(database, tmp_path, FIRST)

    with pytest.raises(SchemaMismatch, match="0001 step1 of p was changed") as raised:
        brought(database, tmp_path, FIRST.replace("a  b", "a b"), SECOND)

    assert "put its old text back" in str(raised.value)
    assert [row[:2] for row in rows(database) if row[0] == "p"] == [("p", 1)]


def test_comments_and_white_space_of_a_migration_may_change(
    database: Database, tmp_path: Path
) -> None:
    brought(database, tmp_path, FIRST)

    applied = brought(
        database,
        tmp_path,
        "-- What it is for.\n"
        + FIRST.replace("    id", "\t/* a number */ id").replace("\n", "\r\n"),
        SECOND,
    )

    assert applied == ["p 0002 step2"]


def test_a_database_made_by_another_text_of_the_kernels_migrations_is_refused(
    url: str, database: Database
) -> None:
    write(database, "update duework_migration set checksum = 'other' where number = 3")

    with pytest.raises(SchemaMismatch, match="run the version that made the database"):
        App(url).jobs()
    with pytest.raises(SchemaMismatch, match="0003 batches of duework was changed"):
        App(url).admin.check()


# --- from before checksums


def test_a_database_from_before_checksums_gets_them_and_says_who_may_work_on_it(
    url: str, database: Database, tmp_path: Path
) -> None:
    brought(database, tmp_path, FIRST, SECOND)
    expected = [row for row in rows(database) if not row[0].startswith("shape:")]
    as_before_checksums(database)

    app = App(url)
    app.include(Part("p", tables=tmp_path))
    app.jobs()
    app.close()

    # What the shapes bring may not have been there yet.
    assert [row for row in rows(database) if not row[0].startswith("shape:")] == expected
    assert all(checksum for *_, checksum in expected)


def test_looking_at_a_database_from_before_checksums_changes_nothing(
    url: str, database: Database
) -> None:
    as_before_checksums(database)

    app = App(url)

    assert all(each.startswith("shape:") for each in app.admin.pending())
    with database.reading() as tx:
        assert len(tx.read("select * from duework_migration")[0]) == 4


@pytest.mark.parametrize(
    ("change", "lacks"),
    [
        ("alter table duework_batch drop column gone", r"duework_batch\.gone"),
        ("drop index duework_lane_task", "duework_lane_task"),
        ("drop table duework_pace", "duework_pace"),
    ],
)
def test_a_database_from_before_checksums_that_an_earlier_text_has_made_is_refused(
    url: str, database: Database, change: str, lacks: str
) -> None:
    as_before_checksums(database)
    write(database, change)

    with pytest.raises(SchemaMismatch, match=f"there is no {lacks}"):
        App(url).jobs()

    with database.reading() as tx:
        assert len(tx.read("select * from duework_migration")[0]) == 4


# --- newer than the code


def test_code_that_knows_fewer_migrations_is_refused(database: Database, tmp_path: Path) -> None:
    brought(database, tmp_path, FIRST, SECOND)
    older = Migrations(KERNEL, kernel_steps(database.kind).migrations[:2])

    with pytest.raises(SchemaMismatch, match="upgrade the program that brings p"):
        brought(database, tmp_path, FIRST)
    with pytest.raises(SchemaMismatch, match="upgrade duework on this machine"):
        migrate.pending(database, [older])
    with pytest.raises(SchemaMismatch, match="upgrade duework"):
        migrate.migrate(database, [older])


def test_code_that_knows_fewer_goes_on_if_all_that_it_does_not_know_say_so(
    database: Database, tmp_path: Path
) -> None:
    brought(database, tmp_path, FIRST, f"-- compatible: 1\n{SECOND}")
    assert brought(database, tmp_path, FIRST) == []

    third = "create table third (id integer)"
    fourth = "-- compatible: 2\ncreate table fourth (id integer)"
    brought(database, tmp_path, FIRST, f"-- compatible: 1\n{SECOND}", third, fourth)

    for known in ([FIRST], [FIRST, SECOND]):
        with pytest.raises(SchemaMismatch, match="needs at least 3"):
            brought(database, tmp_path, *known)
    assert brought(database, tmp_path, FIRST, SECOND, third) == []


@pytest.mark.parametrize("line", ["-- compatible: 3", "-- compatible: 0", "-- compatible with all"])
def test_a_migration_that_says_nonsense_about_older_code_is_refused(
    database: Database, tmp_path: Path, line: str
) -> None:
    with pytest.raises(UsageError, match="0002_step2"):
        brought(database, tmp_path, FIRST, f"{line}\n{SECOND}")

    assert "p" not in {row[0] for row in rows(database)}


# --- new names


def test_a_running_job_that_was_to_be_cancelled_is_so_under_the_new_name(
    url: str, database: Database
) -> None:
    write(
        database,
        "alter table duework_job rename column cancel_reason to marked",
        "alter table duework_delivery rename column send_started to marked",
        "delete from duework_migration where number = 9",
        "insert into duework_lane (id, queue, task, priority) values (1, 'default', 't', 5)",
        "insert into duework_job (id, lane, task, due, at, worker, fence, payload, checksum, marked)"
        " values (1, 1, 't', 1, 1, 7, 1, '{}', 1, 'stop it')",
    )

    app = App(url)
    found = app.read("select cancel_reason from duework_job")
    app.close()

    assert [row.cancel_reason for row in found] == ["stop it"]
