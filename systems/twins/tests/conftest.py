"""What the tests of the twins share: a standing clock, a client, and one server for each module."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pytest

from systems.twins import Twins, twins

# Sunday, 1 March 2026, 12:00 UTC.
NOON = 1_772_366_400_000


class Standing:
    """A clock that moves when a test says so."""

    def __init__(self, now: int = NOON) -> None:
        self.at = now

    def now(self) -> int:
        return self.at

    def forward(self, seconds: float) -> None:
        self.at += int(seconds * 1000)


@pytest.fixture(scope="module")
def clock() -> Standing:
    return Standing()


@pytest.fixture(scope="module")
def running(request: pytest.FixtureRequest, clock: Standing) -> Iterator[Twins]:
    """The twins that the module names in TWINS, up for the whole module."""
    with twins(clock, *request.module.TWINS) as found:
        yield found


@pytest.fixture
def t(running: Twins, clock: Standing) -> Twins:
    """The module's twins as they are at the start, at noon."""
    clock.at = NOON
    for twin in running.all:
        twin.reset()
    return running


@pytest.fixture(scope="session")
def http() -> Iterator[httpx2.Client]:
    with httpx2.Client(timeout=10, trust_env=False, headers={"user-agent": "tests"}) as client:
        yield client
