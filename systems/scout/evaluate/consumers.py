"""Who gets the events: up to ten at once, or what came within five seconds, as one look at all their ids.

Each event is settled by itself: a bulk that fails runs again event by event, so that one bad event keeps no
other back. What fails four times is kept until somebody redrives it: `duework events failed`.
"""

from __future__ import annotations

from typing import Any

from duework import Event, Run
from systems.scout.evaluate import agents, events
from systems.scout.part import JUDGING, part

BULK: dict[str, Any] = {
    "bulk": 10,
    "within": "5s",
    "queue": JUDGING,
    "retries": 3,
    "backoff": ("10s", "1m", "5m"),
    "timeout": "1m",
}
WAITING = (
    "select track_id from scout_app where evaluated_at is null and enriched_at is not null"
    " and enrichment_source <> 'failed' order by enriched_at limit :most"
)


@part.on(events.ENRICHED, name="competitiveness", **BULK)
def rate_apps(run: Run, told: list[Event[events.Apps]]) -> None:
    ids = [id_ for each in told for id_ in each.payload.track_ids]
    run.commit(lambda tx: {"processed": agents.competitiveness(tx, ids, run.now)})


@part.on(events.RANKED, name="demand", **BULK)
def rate_keywords(run: Run, told: list[Event[events.Keywords]]) -> None:
    words = [word for each in told for word in each.payload.keywords]
    run.commit(lambda tx: {"clusters_found": agents.demand(tx, words, run.now)})


@part.on(events.READY, name="fragmentation", **BULK)
def analyse_clusters(run: Run, told: list[Event[events.Clusters]]) -> None:
    ids = [id_ for each in told for id_ in each.payload.cluster_ids]
    run.commit(lambda tx: {"clusters_analyzed": agents.fragmentation(tx, ids, run.now)})


@part.on(events.FRAGMENTED, name="design", **BULK)
def sketch_clusters(run: Run, told: list[Event[events.Clusters]]) -> None:
    ids = [id_ for each in told for id_ in each.payload.cluster_ids]
    run.commit(lambda tx: {"concepts_generated": agents.design(tx, ids, run.now)})


@part.task(queue=JUDGING)
def evaluate(run: Run) -> None:
    """Tell of apps that were enriched and that no event has told of: of an older version, for example."""
    run.commit(score_waiting)


def score_waiting(to: Any, now: int = 0) -> int:  # noqa: ARG001 - whenever that is
    """At most one event of what waits; how many apps. What is left is found the next time."""
    ids = [row.track_id for row in to.read(WAITING, most=events.MOST_APPS)]
    events.enriched(to, ids)
    return len(ids)
