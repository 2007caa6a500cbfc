"""A scout that debates: clusters planted as rows, and the twin of a chat endpoint on the same clock."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from duework import App, Secret
from duework.testing import Harness
from systems.scout import part
from systems.scout.economy import ledger
from systems.scout.economy.tokens import Answer, price
from systems.scout.opportunity import ask_for
from systems.scout.settings import Settings
from systems.scout.tests.conftest import World
from systems.twins import Chat, twins

PARTS = {"demand": 80.0, "competition": 20.0, "fragmentation": 55.5, "design": 40.0, "score": 62.0}


@dataclass
class Debating:
    """An App with scout, its clock, and a model that can be asked."""

    h: Harness
    app: App
    chat: Chat

    def stand_still(self) -> None:
        """No cron of the other stages fires: a day is over at once."""
        self.h.drain()
        for each in self.app.schedules(prefix="scout."):
            each.pause()

    def cluster(self, id_: str, **changes: float) -> None:
        """A cluster of three apps that two keywords find."""
        inputs = {"ratings": 1200, "of_the_three_largest": 900, "mean_strength": 80.0}
        more = {"leaders_not_updated_for_a_year": 1}
        with self.app.transaction() as tx:
            tx.write(
                "insert into scout_cluster (id, name, apps, keywords, demand, competition,"
                " fragmentation, design, score, inputs, found_at) values (:id, :id, 3, 2, :demand,"
                " :competition, :fragmentation, :design, :score, :inputs, 0)",
                id=id_,
                inputs=json.dumps(inputs | more),
                **(PARTS | changes),
            )
            for app in (1, 2, 3):
                self._app(tx, id_, app)
            for word in ("timer", "sleep timer"):
                tx.write(
                    "insert into scout_cluster_keyword (cluster, keyword) values (:id, :word)",
                    id=id_,
                    word=word,
                )

    def _app(self, tx: Any, cluster: str, app: int) -> None:
        tx.write(
            "insert into scout_app (track_id, track_name, seller_name, average_rating, rating_count,"
            " price, competitiveness_score, first_seen_at, last_seen_at) values (:id, :name, 'x',"
            " 3.5, :ratings, :price, 40, 0, 0) on conflict (track_id) do nothing",
            id=app,
            name=f"App {app}",
            ratings=100 * app,
            price=1.99 if app == 1 else 0,
        )
        tx.write(
            "insert into scout_cluster_app (cluster, track_id) values (:cluster, :app)",
            cluster=cluster,
            app=app,
        )

    def debate(self, *clusters: str) -> None:
        with self.app.transaction() as tx:
            ask_for(tx, list(clusters))

    def rows(self, table: str, order: str) -> list[Any]:
        return self.app.read(f"select * from {table} order by {order}")  # noqa: S608 - a test's

    def messages(self) -> list[Any]:
        return self.rows("scout_debate_message", "debate, place")

    def costs(self) -> list[Any]:
        return self.rows("scout_cost", "debate, number")

    def billed(self) -> int:
        """What the provider's own books say, in millionths."""
        return sum(
            price(
                Answer(prompt=each["prompt_tokens"], completion=each["completion_tokens"]),
                part.settings,
            )
            for each in self.chat.ledger.of("completion")
        )

    def spent(self) -> int:
        """What the ledger counts."""
        return sum(row.cost for row in self.costs())

    def day_sums(self) -> int:
        [row] = self.app.read(
            "select coalesce(sum(cost), 0) as n from scout_cost_day where service = 'llm'"
        )
        return int(row.n)

    def budget(self) -> int:
        status = ledger.LLM.status()
        return int((status.spent + status.reserved) * 1_000_000)


@pytest.fixture
def world(harness: Harness) -> Iterator[Debating]:
    with harness as h, twins(h.clock, "chat") as t:
        given = Settings(llm_url=f"{t.chat.url}/v1", llm_key=Secret("sk-demo"), llm_tokens=600)
        t.chat.set_limits(10**6, 10**9)
        with patch.object(part, "_settings", given):
            made = Debating(h, part.app, t.chat)
            made.stand_still()
            yield made


@pytest.fixture
def apple_world(harness: Harness) -> Iterator[World]:
    """As for the other tests: Apple alone."""
    with harness as h, twins(h.clock, "apple") as t:
        t.apple.count = 60
        with patch.object(part, "_settings", Settings(apple_url=t.apple.url, pages=False)):
            yield World(h, part.app, t.apple)


def change(**settings: Any) -> Any:
    """Other settings for a while."""
    return patch.object(part, "_settings", msgspec.structs.replace(part.settings, **settings))
