"""Fixtures of the tests with real processes and real time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.postgres import Server
from tests.support.processes import Bench, Worker, bench


@pytest.fixture
def desk(emptied: str, tmp_path: Path) -> Iterator[Bench]:
    with bench(emptied, tmp_path) as made:
        yield made


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Bench, Worker]]:
    """One worker for the tests of a module that leave it alive."""
    folder = tmp_path_factory.mktemp("shared")
    url = f"sqlite:///{folder / 'work.db'}"
    server: Server | None = None
    name = f"shared_{folder.name}".lower()
    if request.param == "postgres":
        server = request.getfixturevalue("postgres")
        url = server.create_database(name)
    with bench(url, folder) as made:
        yield made, made.start()
    if server is not None:
        server.drop_database(name)
