"""Strides in virtual time, on both databases, against the real twin of Strava on the same clock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import httpx2
import pytest

from duework import App, Chain, Secret
from duework.testing import Harness
from systems.strides import app as strides
from systems.strides import part, sync
from systems.strides.seed import seed
from systems.strides.settings import Settings
from systems.twins import Strava, twins
from tests.support.harness import HarnessOn
from tests.support.postgres import Emptied, Server

# Sunday, 1 March 2026, 12:00 UTC.
NOON = 1_772_366_400_000


@dataclass
class World:
    """An App with strides, its clock, and Strava."""

    h: Harness
    app: App
    strava: Strava

    def connect(self, *athletes: int) -> list[str]:
        """Connect athletes of the twin; their first syncs wait for a worker."""
        return [seed(self.app, 1, first=athlete)[0] for athlete in athletes]

    def finish(self, length: str = "2h") -> None:
        """Let time pass until every sync is over."""
        self.h.advance(length)
        assert not self.app.chains(state="active")

    def chain(self, athlete: int) -> Chain:
        found = sync.latest(athlete)
        assert found is not None
        return found.refresh()

    def row(self, athlete: int) -> Any:
        [row] = self.app.read("select * from strides_athlete where id = :id", id=athlete)
        return row

    def stored(self, athlete: int) -> set[int]:
        rows = self.app.read("select id from strides_activity where athlete_id = :id", id=athlete)
        assert len({row.id for row in rows}) == len(rows)
        return {row.id for row in rows}

    def at_strava(self, athlete: int, *, private: bool = True) -> set[int]:
        every = self.strava.athletes[athlete].activities
        return {one.id for one in every if private or not one.private}

    def races(self, athlete: int) -> dict[int, Any]:
        rows = self.app.read("select * from strides_race where athlete_id = :id", id=athlete)
        return {row.strava_activity_id: row for row in rows}

    def asked(self) -> list[Any]:
        """The calls that count: reads of the API."""
        routes = {"activities", "stats"}
        return [each for each in self.strava.log.entries if each.route in routes]

    def faults(self, *rules: dict[str, Any]) -> None:
        self.strava.faults.set(list(rules))

    def others_use(self, athlete: int, calls: int) -> None:
        """Another program of the same application reads so often."""
        headers = {"authorization": f"Bearer {self.strava.tokens.grants[athlete].access}"}
        with httpx2.Client(trust_env=False, headers=headers) as http:
            for _ in range(calls):
                http.get(f"{self.strava.url}/api/v3/athlete")

    def plenty(self) -> None:
        """Limits that no test reaches."""
        self.strava.set_limits(overall=(100_000, 1_000_000), read=(100_000, 1_000_000))


@pytest.fixture(scope="session")
def emptied(postgres: Server) -> Iterator[Emptied]:
    """One database with our tables for all tests, emptied before each."""
    with HarnessOn(strides, postgres.create_database("strides")):
        pass  # its tables are made
    with closing(Emptied(postgres, "strides")) as made:
        yield made


@pytest.fixture(params=["sqlite", "postgres"])
def harness(request: pytest.FixtureRequest) -> Harness:
    if request.param == "sqlite":
        return Harness(strides, now=NOON)
    shared: Emptied = request.getfixturevalue("emptied")
    return HarnessOn(strides, shared.address(), now=NOON)


@pytest.fixture
def world(harness: Harness) -> Iterator[World]:
    with harness as h, twins(h.clock, "strava") as t:
        given = Settings(strava_url=t.strava.url, internal_secret=Secret("inside"))
        # As if the environment had said so: the twin has another port each time.
        with patch.object(part, "_settings", given):
            yield World(h, strides, t.strava)
