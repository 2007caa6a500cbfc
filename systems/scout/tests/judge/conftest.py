"""A market as rows: apps that were looked up, keywords that were searched for, and who is found there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from systems.scout.cluster import cluster
from systems.scout.evaluate import events
from systems.scout.tests.conftest import NOON, World

DERIVED = (
    "scout_ledger",
    "scout_agent_ledger",
    "scout_agent_memory",
    "scout_core_belief",
    "scout_concept",
)


@dataclass
class Market:
    """Scout without a crawl: what it would have found is planted, and the agents do the rest."""

    world: World

    def __post_init__(self) -> None:
        self.app, self.h = self.world.app, self.world.h
        self.h.drain()
        self.app.get_schedule("scout.crawl").pause()

    def apps(self, ids: Sequence[int], **changes: Any) -> None:
        """Enriched apps; the higher the number, the better known."""
        given = {"stars": 3.5, "updated": "2026-02-01T00:00:00Z", "enriched": self.h.now, **changes}
        rows = [{"id": id_, "ratings": 100 * id_, "now": self.h.now, **given} for id_ in ids]
        for row in rows:
            row["ratings"] = changes.get("ratings", row["ratings"])
        with self.app.transaction() as tx:
            tx.write(
                "insert into scout_app (track_id, track_name, seller_name, average_rating,"
                " rating_count, updated_date, enriched_at, enrichment_source, first_seen_at,"
                " last_seen_at) values (:id, 'app', 'x', :stars, :ratings, :updated, :enriched,"
                " 'itunes', :now, :now)",
                rows=rows,
            )

    def search(self, keyword: str, ids: Sequence[int]) -> None:
        """A keyword that was searched for, and who was found."""
        now = self.h.now
        with self.app.transaction() as tx:
            tx.write(
                "insert into scout_keyword (keyword, status, source, app_count, created_at,"
                " last_searched_at) values (:k, 'searched', 'search', :n, 0, :now)"
                " on conflict (keyword) do update set last_searched_at = excluded.last_searched_at",
                k=keyword,
                n=len(ids),
                now=now,
            )
            tx.write("delete from scout_ranking where keyword = :k", k=keyword)
            tx.write(
                "insert into scout_ranking (keyword, track_id, rank, crawled_at)"
                " values (:k, :id, :rank, :now)",
                rows=[
                    {"k": keyword, "id": id_, "rank": rank, "now": now}
                    for rank, id_ in enumerate(ids, start=1)
                ],
            )

    def two_niches(self) -> None:
        """Sleep, with five apps, and tax, with four; all are scored."""
        self.apps(range(1, 10))
        for word, ids in {
            "sleep": (1, 2, 3),
            "sleep sounds": (3, 2, 4, 5),
            "rest": (5, 1, 2),
        }.items():
            self.search(word, ids)
        for word, ids in {"tax": (6, 7, 8), "bills": (8, 9, 7), "tax return": (6, 9)}.items():
            self.search(word, ids)
        self.tell(enriched=range(1, 10))

    def tell(self, enriched: Sequence[int] = (), ranked: Sequence[str] = ()) -> None:
        with self.app.transaction() as tx:
            events.enriched(tx, enriched)
            events.ranked(tx, ranked)
        self.settle()

    def settle(self) -> None:
        """Long enough for the whole chain of events."""
        self.h.advance("40s")

    def group(self) -> list[Any]:
        """A run of the fourth stage, and everything that follows from it; the clusters by name."""
        cluster.enqueue()
        self.settle()
        return self.rows("select * from scout_cluster order by name")

    def judged(self) -> tuple[dict[str, list[tuple[Any, ...]]], list[str]]:
        """Two clusters of which everything was said; what, and their ids."""
        self.two_niches()
        self.group()
        self.tell(ranked=["sleep", "tax", "rest", "bills", "sleep sounds", "tax return"])
        return self.state(), [
            row.id for row in self.rows("select id from scout_cluster order by id")
        ]

    def rows(self, sql: str, **values: Any) -> list[Any]:
        return self.app.read(sql, **values)

    def published(self, name: str) -> list[Any]:
        return [each.payload for each in reversed(self.app.events.search(name, limit=500))]

    def forget(self) -> None:
        """As if no agent had ever said anything; clusters stay."""
        with self.app.transaction() as tx:
            for table in DERIVED:
                tx.write(f"delete from {table}")  # noqa: S608
            tx.write("update scout_app set competitiveness_score = null, evaluated_at = null")
            tx.write("update scout_cluster set demand = 0, competition = 0, design = 0, score = 0")

    def state(self) -> dict[str, list[tuple[Any, ...]]]:
        """Everything that agents have said, without when."""
        return {
            "apps": self._all("track_id, competitiveness_score", "scout_app"),
            "ledger": self._all("track_id, agent, score, inputs", "scout_ledger"),
            "others": self._all("kind, subject, agent, score, inputs", "scout_agent_ledger"),
            "memory": self._all("subject, agent, holds, confidence, runs", "scout_agent_memory"),
            "concepts": self._all("cluster, keyword, place, score, text", "scout_concept"),
            "clusters": self._all(
                "id, name, demand, competition, fragmentation, design, score, inputs",
                "scout_cluster",
            ),
        }

    def _all(self, columns: str, table: str) -> list[tuple[Any, ...]]:
        return sorted(tuple(row) for row in self.rows(f"select {columns} from {table}"))  # noqa: S608


@pytest.fixture
def market(world: World) -> Market:
    assert world.h.now == NOON
    return Market(world)
