"""What all tests share, of the package and of the systems: a database of each kind, and the time they took.

A test that takes `url`, `app`, `harness` or `kernel` runs once on SQLite and once on PostgreSQL; it
cannot choose, and there is no marker to skip one of them.
"""

from __future__ import annotations

import itertools
import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from duework import App
from duework.db import migrate
from duework.db.urls import open_database
from duework.testing import Harness
from tests.support.harness import HarnessOn
from tests.support.kernel import Kernel, schema_steps
from tests.support.postgres import Emptied, Server, server

# Tests start hundreds of interpreters. None of them should compile the package anew, whatever the shell says.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Seconds by folder, summed over the processes that tests are spread over.
_took: Counter[str] = Counter()
WORTH_SAYING = 60
LONGEST_ID = 100
_names = (f"t{number}" for number in itertools.count(1))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    folder = report.nodeid.split("::")[0].rpartition("/")[0]
    _took["/".join(folder.split("/")[:2]) or "."] += report.duration


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if sum(_took.values()) < WORTH_SAYING:
        return
    processes = _spread(config)
    terminalreporter.section("time by folder")
    for folder, seconds in _took.most_common():
        terminalreporter.write_line(f"{seconds / processes:7.1f} s  {folder}")


def _spread(config: pytest.Config) -> int:
    """How many processes tests were spread over."""
    chosen = config.getoption("numprocesses", default=None)
    return chosen if isinstance(chosen, int) and chosen > 0 else 1


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes and long texts are called by their argument: a name must be equal in every process.

    A compressed file holds the second it was made in, and two processes would collect two tests.
    """
    if isinstance(val, bytes) or (isinstance(val, str) and len(val) > LONGEST_ID):
        return argname
    return None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spread over processes, the long tests go first: the last to end should be a short one."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=_is_short)


def _is_short(item: pytest.Item) -> bool:
    return item.get_closest_marker("slow") is None and item.path.parent.name != "crash"


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """One for each process of the tests; what is stopped, or has to be durable, is a test's own."""
    with server(durable=False) as running:
        yield running


@pytest.fixture(scope="session")
def postgres_template(postgres: Server) -> str:
    """A database that is migrated already, to copy from."""
    database = open_database(postgres.create_database("migrated"), "power")
    migrate.migrate(database, schema_steps("postgres"))
    database.close()
    return "migrated"


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same as a file, to which nothing is left to be added from a log."""
    file = tmp_path_factory.mktemp("template") / "migrated.db"
    database = open_database(f"sqlite:///{file}", "power")
    migrate.migrate(database, schema_steps("sqlite"))
    database.close()
    assert [each.name for each in file.parent.iterdir()] == [file.name]
    return file


@pytest.fixture(params=["sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a database of its own; empty on SQLite, migrated on PostgreSQL."""
    if kind == "sqlite":
        yield f"sqlite:///{tmp_path / 'work.db'}"
        return
    running: Server = request.getfixturevalue("postgres")
    template: str = request.getfixturevalue("postgres_template")
    name = next(_names)
    yield running.create_database(name, template=template)
    running.drop_database(name)


@pytest.fixture
def app(
    kind: str,  # noqa: ARG001 - it runs on both
    request: pytest.FixtureRequest,
) -> Iterator[App]:
    """An App on a real clock, at `url` if the test takes that too: else where one is sooner had."""
    made = App(request.getfixturevalue("url" if "url" in request.fixturenames else "emptied"))
    yield made
    made.close()


@pytest.fixture(scope="session")
def postgres_emptied(postgres: Server, postgres_template: str) -> Iterator[Emptied]:
    with closing(Emptied(postgres, postgres_template)) as made:
        yield made


@pytest.fixture
def emptied(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A migrated database without rows: a copy, or on PostgreSQL, where that takes longer, emptied."""
    if kind == "sqlite":
        made = shutil.copy(request.getfixturevalue("sqlite_template"), tmp_path / "work.db")
        return f"sqlite:///{made}"
    assert kind == "postgres", "`kind` is the database; a test's own parameter needs another name"
    shared: Emptied = request.getfixturevalue("postgres_emptied")
    return shared.address()


@pytest.fixture
def harness(emptied: str) -> Iterator[Harness]:
    """A new App in virtual time: define tasks on `harness.app`."""
    with HarnessOn(App("sqlite:///never-opened.db"), emptied) as running:
        yield running


@pytest.fixture
def kernel(emptied: str) -> Iterator[Kernel]:
    """The verbs on a real database, with time and ids given by the test."""
    with Kernel(emptied) as verbs:
        yield verbs
