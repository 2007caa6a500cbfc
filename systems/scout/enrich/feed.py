"""Enriching: apps that nobody has looked at become lookups; the controller says how many at a time.

`enriched_at is null` is the queue. An app is in one job at a time (`enriching`), and what a job stores, what
it frees and what it wakes are one commit. An app that Apple leaves out of its answer is gone: it is marked
as failed and not asked for again.
"""

from __future__ import annotations

from typing import Any

import msgspec

from duework import Run
from systems.scout import client, store
from systems.scout.crawl.tiers import DAY
from systems.scout.evaluate import evaluate
from systems.scout.part import APPLE, CALL, CONTROLLER, part, settings

# Lookups that may wait at once, and the days after which an app is looked at again.
MOST_WAITING = 40
STALE = 14 * DAY
LATER = 6 * 3_600_000

NEW = (
    "select track_id from scout_app where enriched_at is null and enriching is null"
    " and retry_at <= :now order by enrich_priority desc, rating_count desc limit :most"
)
OLD = (
    "select track_id from scout_app where enrichment_source = 'itunes' and enriched_at < :before"
    " and enriching is null and retry_at <= :now order by enriched_at limit :most"
)
_STORE = (
    "update scout_app set"
    + ",".join(
        f" {name} = coalesce(:{name}, {name})"
        for name in client.Found.__struct_fields__
        if name != "track_id"
    )
    + ", enriched_at = :now, enrichment_source = 'itunes', enrichments = enrichments + 1,"
    " enriching = null, attempts = 0, retry_at = 0, evaluated_at = null, last_seen_at = :now"
    " where track_id = :track_id and (enriched_at is null or enriched_at < :before)"
)
_GONE = (
    "update scout_app set enriched_at = :now, enrichment_source = 'failed', enriching = null"
    " where track_id = :track_id and (enriched_at is null or enriched_at < :before)"
)


def wake(tx: Any) -> None:
    """There may be apps to enrich."""
    tx.enqueue(feed.using(key="feed", when_running="again"))


@part.task(queue="scout", priority=3)
def feed(run: Run) -> None:
    """Make lookups of what waits, no more than the controller needs to see."""
    run.commit(lambda tx: take(tx, run.now))


def take(tx: Any, now: int) -> int:
    """New apps first, then those that were looked at long ago; how many."""
    size = settings().lookup
    room = MOST_WAITING * size - len(
        tx.read(
            "select 1 as x from scout_app where enriching is not null limit :most",
            most=MOST_WAITING * size,
        )
    )
    if room < size:
        return 0
    found = tx.read(NEW, now=now, most=room)
    if len(found) < room:
        found += tx.read(OLD, now=now, before=now - STALE, most=room - len(found))
    ids = [row.track_id for row in found]
    if ids:
        tx.write(
            "update scout_app set enriching = :now where track_id = :id",
            rows=[{"now": now, "id": id_} for id_ in ids],
        )
    for start in range(0, len(ids), size):
        tx.enqueue(enrich, ids[start : start + size])
    return len(ids)


@part.task(pace=[CONTROLLER, APPLE], priority=3, **CALL)
async def enrich(run: Run, ids: list[int]) -> int:
    """One lookup."""
    found = await client.lookup(ids)
    run.commit(lambda tx: save(tx, ids, found, run.now))
    return len(found)


def save(tx: Any, ids: list[int], found: dict[int, client.Found], now: int) -> int:
    """What Apple says of these apps, and of which it says nothing; how many it knows."""
    shared = {"now": now, "before": now - STALE}
    known = [{**msgspec.structs.asdict(found[id_]), **shared} for id_ in ids if id_ in found]
    gone = [{"track_id": id_, **shared} for id_ in ids if id_ not in found]
    if known:
        tx.write(_STORE, rows=known)
        store.developers(tx, found.values())
        tx.enqueue(evaluate.using(key="evaluate", delay="5s", when_running="again"))
    if gone:
        tx.write(_GONE, rows=gone)
    wake(tx)
    return len(known)


@enrich.settled
def not_enriched(tx: Any, job: Any, outcome: str) -> None:
    """Apps of a lookup that failed come back later, behind those that were never tried."""
    if outcome != "done":
        tx.write(
            "update scout_app set enriching = null, attempts = attempts + 1, retry_at = :at,"
            " enrich_priority = enrich_priority - 1 where track_id = :id and enriching is not null",
            rows=[{"at": part.app.now() + LATER, "id": id_} for id_ in job.arguments["ids"]],
        )
