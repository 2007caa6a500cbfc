"""Fixtures of every test: a database of each kind, an App in virtual time, the bare verbs.

A test that takes `url`, `app`, `harness` or `kernel` runs once on SQLite and once on PostgreSQL; it
cannot choose, and there is no marker to skip one of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from duework import App
from duework.db import migrate
from duework.db.urls import open_database
from duework.testing import Harness
from tests.support.kernel import Kernel
from tests.support.postgres import Server, empty, server

_names = (f"t{number}" for number in itertools.count(1))


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    with server() as running:
        yield running


@pytest.fixture(scope="session")
def postgres_template(postgres: Server) -> str:
    """A database that is migrated already, to copy from."""
    database = open_database(postgres.create_database("migrated"), "power")
    migrate.migrate(database, [migrate.kernel_steps("postgres")])
    database.close()
    return "migrated"


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
def app(url: str) -> Iterator[App]:
    """An App on a real clock."""
    made = App(url)
    yield made
    made.close()


@pytest.fixture
def harness(kind: str, request: pytest.FixtureRequest) -> Iterator[Harness]:
    """A new App in virtual time: define tasks on `harness.app`."""
    server_url = request.getfixturevalue("postgres").dsn if kind == "postgres" else None
    with Harness(App("sqlite:///never-opened.db"), url=server_url) as running:
        yield running


@pytest.fixture(scope="session")
def postgres_for_verbs(postgres: Server, postgres_template: str) -> str:
    return postgres.create_database("verbs", template=postgres_template)


@pytest.fixture
def kernel(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kernel]:
    """The verbs on a real database, with time and ids given by the test."""
    address = f"sqlite:///{tmp_path / 'work.db'}"
    if kind == "postgres":
        # Emptied, since making a database for each test takes longer than most tests.
        address = request.getfixturevalue("postgres_for_verbs")
        empty(address)
    with Kernel(address) as verbs:
        yield verbs
