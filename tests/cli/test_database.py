"""Which database a command acts on, and `duework db`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from duework import App
from duework.db.migrate import kernel_steps
from duework.shapes import SHAPES
from tests.cli.conftest import Duework, enqueue
from tests.support.postgres import server

READING = [
    ("status",),
    ("jobs", "list"),
    ("jobs", "show", 1),
    ("jobs", "retry", 1),
    ("jobs", "cancel", 1),
    ("failed", "list"),
    ("failed", "redrive", "--all"),
    ("failed", "purge", "--all", "--yes"),
    ("queues", "list"),
    ("queues", "pause", "q"),
    ("queues", "resume", "q"),
    ("queues", "purge", "q", "--yes"),
    ("verify",),
    ("db", "check"),
    ("db", "migrate"),
    ("db", "backup", "copy.db"),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DUEWORK_URL", raising=False)
    monkeypatch.delenv("DUEWORK_APP", raising=False)
    return tmp_path


@pytest.mark.parametrize("words", READING, ids=lambda w: "-".join(map(str, w)))
def test_no_command_but_run_creates_a_database(
    bare: Duework, folder: Path, words: tuple[object, ...]
) -> None:
    ran = bare(*words, "--json")

    assert ran.code == 1
    assert ran.document["error"]["code"] == "not_found"
    assert "duework.db" in ran.document["error"]["message"]
    assert list(folder.iterdir()) == []


def test_an_empty_file_is_not_made_a_database_by_looking(bare: Duework, folder: Path) -> None:
    Path("empty.db").touch()

    ran = bare("status", "--url", "sqlite:///empty.db")

    assert (ran.code, "there is no database" in ran.err) == (1, True)
    assert Path("empty.db").stat().st_size == 0


def test_a_database_without_our_tables_gets_none_by_looking(
    bare: Duework, shop: App, url: str
) -> None:
    with shop.transaction() as tx:
        tx.write("drop table duework_migration")

    ran = bare("status", "--url", url)

    assert (ran.code, "has no Duework tables" in ran.err) == (1, True)


def test_the_url_comes_from_the_option_before_the_environment(
    bare: Duework, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        bare("db", "migrate", "--create", "--url", f"sqlite:///{name}.db")
    monkeypatch.setenv("DUEWORK_URL", "sqlite:///one.db")

    by_environment = bare("status", "--json").document["database"]["url"]
    by_option = bare("status", "--json", "--url", "sqlite:///two.db").document["database"]["url"]

    assert (by_environment, by_option) == ("sqlite:///one.db", "sqlite:///two.db")


def test_app_and_url_exclude_each_other(bare: Duework) -> None:
    assert bare("status", "--app", "a:b", "--url", "sqlite:///x.db").code == 78


def test_an_unreadable_url_is_a_usage_error_without_its_password(bare: Duework) -> None:
    ran = bare("status", "--url", "mysql://me:hunter2@host/db")

    assert ran.code == 78
    assert "hunter2" not in ran.err


def test_an_app_is_found_by_module_from_the_current_folder(bare: Duework, folder: Path) -> None:
    Path("clishop.py").write_text(
        "from duework import App\nwork = App('sqlite:///clishop.db')\n"
        "@work.task\ndef greet() -> None: ...\n"
    )
    bare("db", "migrate", "--create", "--app", "clishop:work")
    # Each command is a process of its own, and closes its App for good.
    del sys.modules["clishop"]

    found = bare("status", "--app", "clishop:work", "--json")
    wrong = bare("status", "--app", "clishop:app")
    nothing = bare("status", "--app", "clinope:app")

    assert found.document["database"]["url"] == "sqlite:///clishop.db"
    assert (wrong.code, "it has clishop:work" in wrong.err) == (78, True)
    assert (nothing.code, "there is no module 'clinope'" in nothing.err) == (78, True)


def test_the_place_is_the_program_s_own_line_and_a_file_s_name_is_put_right(
    bare: Duework, folder: Path
) -> None:
    Path("clienv.py").write_text("import os\n\nos.environ['NOT_SET_ANYWHERE']\n")
    Path("clifine.py").write_text("")

    unset = bare("status", "--app", "clienv:app")
    file = bare("status", "--app", "clifine.py:work")

    assert "KeyError: 'NOT_SET_ANYWHERE'" in unset.err
    assert "clienv.py:3" in unset.err
    assert (file.code, "not that of its file: clifine:work" in file.err) == (78, True)


def test_a_module_that_fails_to_import_is_named_with_the_place(bare: Duework, folder: Path) -> None:
    Path("clibroken.py").write_text("import nothing_of_that_name\n")
    Path("clidivides.py").write_text("\n1 / 0\n")

    missing = bare("status", "--app", "clibroken:app")
    divides = bare("status", "--app", "clidivides:app")

    assert missing.code == divides.code == 78
    assert "No module named 'nothing_of_that_name'" in missing.err
    assert "ZeroDivisionError" in divides.err
    assert "clidivides.py:2" in divides.err


def test_migrating_applies_what_is_pending_once(bare: Duework, url: str) -> None:
    first = bare("db", "migrate", "--create", "--url", url, "--json").document["applied"]
    second = bare("db", "migrate", "--url", url)

    # PostgreSQL's database of this test is a copy of a migrated one.
    shapes = filter(None, (each.schema("sqlite") for each in SHAPES))
    steps = [(each, one) for each in (kernel_steps("sqlite"), *shapes) for one in each.migrations]
    assert first in ([], [f"{each.part} {one.number:04} {one.name}" for each, one in steps])
    assert second.out == "up to date\n"


def test_pending_migrations_are_reported_and_not_applied_by_looking(
    bare: Duework, shop: App, url: str
) -> None:
    with shop.transaction() as tx:
        tx.write("delete from duework_migration")

    checked = bare("db", "check", "--url", url, "--json")

    assert (checked.code, checked.document["ok"]) == (1, False)
    [schema] = [each for each in checked.document["checks"] if each["name"] == "schema"]
    assert schema["fitness"] == "problem"
    assert "duework 0001 kernel" in schema["value"]
    assert shop.read("select count(*) as n from duework_migration")[0].n == 0


def test_a_newer_schema_is_refused_with_its_own_exit_code(
    bare: Duework, shop: App, url: str
) -> None:
    with shop.transaction() as tx:
        tx.write(
            "insert into duework_migration (part, number, name, compatible)"
            " values ('duework', 999, 'later', 999)"
        )

    ran = bare("status", "--url", url, "--json")

    assert ran.code == 78
    assert ran.document["error"]["code"] == "schema_mismatch"


@pytest.fixture
def durable(kind: str, url: str) -> Iterator[str]:
    """A database that waits for the disk; the server that the tests share does not."""
    if kind == "sqlite":
        yield url
        return
    with server() as own:
        yield own.create_database("durable")
        own.drop_database("durable")


def test_check_reports_durability_and_clock(bare: Duework, durable: str, kind: str) -> None:
    bare("db", "migrate", "--create", "--url", durable)

    ran = bare("db", "check", "--url", durable, "--json").document

    names = {each["name"]: each["fitness"] for each in ran["checks"]}
    durable = {"sqlite": {"journal", "durability"}, "postgres": {"fsync", "synchronous_commit"}}
    assert {"version", "schema", "clock"} | durable[kind] <= names.keys()
    assert ran["ok"]


def test_check_warns_of_a_file_that_others_can_read(bare: Duework, folder: Path) -> None:
    bare("db", "migrate", "--create", "--url", "sqlite:///work.db")
    os.chmod("work.db", 0o644)

    ran = bare("db", "check", "--url", "sqlite:///work.db")

    assert ran.code == 0
    assert "permissions: others can read it: chmod 600" in ran.out


def test_a_backup_is_a_whole_database_and_overwrites_nothing(
    bare: Duework, shop: App, url: str, kind: str, folder: Path
) -> None:
    job = enqueue(shop, "greet", "ada")

    first = bare("db", "backup", "copy.db", "--url", url, "--json")
    second = bare("db", "backup", "copy.db", "--url", url, "--json")

    if kind == "postgres":
        assert (first.code, "pg_dump" in first.document["error"]["message"]) == (78, True)
        assert not Path("copy.db").exists()
    else:
        copy = bare("jobs", "show", job, "--url", "sqlite:///copy.db", "--json").document
        assert first.document["pages"] > 0
        assert copy["task"] == "greet"
        assert (second.code, second.document["error"]["code"]) == (78, "usage")
        assert bare("verify", "--full", "--url", "sqlite:///copy.db").code == 0


def test_a_server_that_cannot_be_reached_ends_with_69_and_hides_the_password(bare: Duework) -> None:
    ran = bare("status", "--url", "postgresql://me:hunter2@127.0.0.1:1/work", "--json")

    assert ran.code == 69
    assert ran.document["error"]["code"] == "unavailable"
    assert "hunter2" not in ran.out + ran.err
