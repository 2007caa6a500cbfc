"""Scout in virtual time, on both databases, against the real twin of Apple on the same clock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import pytest

from duework import App
from duework.testing import Harness
from systems.scout import app as scout
from systems.scout import part
from systems.scout.crawl import categories
from systems.scout.settings import Settings
from systems.twins import Apple, twins
from tests.support.harness import HarnessOn
from tests.support.postgres import Emptied, Server

# Sunday, 1 March 2026, 12:01 UTC.
NOON = 1_772_366_460_000
MINUTE = 60_000


@dataclass
class World:
    """An App with scout, its clock, and Apple."""

    h: Harness
    app: App
    apple: Apple

    def seed(self, *wanted: tuple[int, str]) -> None:
        """Categories to scan: all of them, or these of the free charts with their tiers."""
        with self.app.transaction() as tx:
            if not wanted:
                categories.add(tx)
            for id_, tier in wanted:
                tx.write(
                    "insert into scout_category (id, collection, name, tier, sort_order)"
                    " values (:id, 'topfreeapplications', 'x', :tier, 0)",
                    id=id_,
                    tier=tier,
                )

    def quiet(self) -> None:
        """Nothing is asked of Apple by itself."""
        self.h.drain()
        self.app.get_schedule("scout.crawl").pause()

    def count(self, table: str, where: str = "1 = 1") -> int:
        return int(self.app.read(f"select count(*) as n from {table} where {where}")[0].n)  # noqa: S608

    def calls(self, route: str = "") -> list[Any]:
        return [each for each in self.apple.log.entries if each.route.startswith(route)]

    def busiest_minute(self) -> int:
        """The most calls that reached Apple in any minute of its own log."""
        times = [each.at for each in self.calls()]
        return max((sum(at <= other < at + MINUTE for other in times) for at in times), default=0)


@pytest.fixture(scope="session")
def emptied(postgres: Server) -> Iterator[Emptied]:
    """One database with our tables for all tests, emptied before each."""
    with HarnessOn(scout, postgres.create_database("scout")):
        pass  # its tables are made
    with closing(Emptied(postgres, "scout")) as made:
        yield made


@pytest.fixture(params=["sqlite", "postgres"])
def harness(request: pytest.FixtureRequest) -> Harness:
    if request.param == "sqlite":
        return Harness(scout, now=NOON)
    shared: Emptied = request.getfixturevalue("emptied")
    return HarnessOn(scout, shared.address(), now=NOON)


@pytest.fixture
def world(harness: Harness) -> Iterator[World]:
    with harness as h, twins(h.clock, "apple") as t:
        t.apple.count = 400
        # As if the environment had said so: the twin has another port each time.
        # Pages are read by the tests that are about them.
        with patch.object(part, "_settings", Settings(apple_url=t.apple.url, pages=False)):
            yield World(h, scout, t.apple)
