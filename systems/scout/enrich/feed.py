"""Enriching: apps that nobody has looked at become lookups; the controller says how many at a time.

Lookups are jobs and no sweep: they share Apple's pace with jobs, and only jobs have an order among them.

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
from systems.scout.economy.meter import metered
from systems.scout.enrich import saving, scrape
from systems.scout.part import APPLE, CALL, CONTROLLER, ORDER, part, settings

# Lookups that may wait at once, and the days after which an app is looked at again.
MOST_WAITING = 40
STALE = 14 * DAY
# Apps whose page is known are those that matter: how fast their ratings grow needs a count each week.
STALE_KNOWN = 7 * DAY
LATER = 6 * 3_600_000
# What an answer should have; `sellerUrl` left in 2025.
LOOKED_FOR = (
    *("average_rating", "content_rating", "description", "developer_id", "languages"),
    *("price", "rating_count", "screenshots", "version"),
)

NEW = (
    "select track_id from scout_app where enriched_at is null and enriching is null"
    " and retry_at <= :now order by enrich_priority desc, rating_count desc limit :most"
)
OLD = (
    "select track_id from scout_app where enrichment_source = :source and enriched_at < :before"
    " and enriching is null and retry_at <= :now order by enriched_at limit :most"
)
_STORE = (
    "update scout_app set"
    + ",".join(
        f" {name} = coalesce(:{name}, {name})"
        for name in client.Found.__struct_fields__
        if name != "track_id"
    )
    + ", enriched_at = :now, enrichments = enrichments + 1, enrichment_source ="
    " case when enrichment_source = 'scraper' then 'scraper' else 'itunes' end,"
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


@part.task(queue="scout", priority=ORDER["lookup"])
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
    for source, age in (("itunes", STALE), ("scraper", STALE_KNOWN)):
        if (left := room - len(found)) > 0:
            found += tx.read(OLD, source=source, now=now, before=now - age, most=left)
    ids = [row.track_id for row in found]
    if ids:
        tx.write(
            "update scout_app set enriching = :now where track_id = :id",
            rows=[{"now": now, "id": id_} for id_ in ids],
        )
    for start in range(0, len(ids), size):
        tx.enqueue(enrich, ids[start : start + size])
    return len(ids)


@part.task(pace=[CONTROLLER, APPLE], priority=ORDER["lookup"], **CALL)
async def enrich(run: Run, ids: list[int]) -> int:
    """One lookup."""
    found = await client.lookup(ids)
    run.commit(lambda tx: save(tx, ids, found, run.now))
    return len(found)


@metered("enrich")
def save(tx: Any, ids: list[int], found: dict[int, client.Found], now: int) -> int:
    """What Apple says of these apps, and of which it says nothing; how many it knows."""
    # What was stored a moment ago, by another job or by this one before it died, is not stored again.
    shared = {"now": now, "before": now - STALE_KNOWN}
    known = [{**msgspec.structs.asdict(found[id_]), **shared} for id_ in ids if id_ in found]
    gone = [{"track_id": id_, **shared} for id_ in ids if id_ not in found]
    if known:
        tx.write(_STORE, rows=known)
        store.developers(tx, found.values())
        tx.publish("app-enriched", {"track_ids": [row["track_id"] for row in known]})
        scrape.wake(tx)
        saving.missing(tx, _lacking(known), now)
        part.app.metrics.add(
            "scout_apps_enriched", len(known), pipeline="controller", phase="enrich"
        )
    if gone:
        tx.write(_GONE, rows=gone)
    wake(tx)
    return len(known)


def _lacking(known: list[dict[str, Any]]) -> list[str]:
    """What lookups did not say, as often as they did not."""
    return [name for row in known for name in LOOKED_FOR if row[name] is None]


@enrich.settled
def not_enriched(tx: Any, job: Any, outcome: str) -> None:
    """Apps of a lookup that failed come back later, behind those that were never tried."""
    if outcome != "done":
        tx.write(
            "update scout_app set enriching = null, attempts = attempts + 1, retry_at = :at,"
            " enrich_priority = enrich_priority - 1 where track_id = :id and enriching is not null",
            rows=[{"at": part.app.now() + LATER, "id": id_} for id_ in job.arguments["ids"]],
        )
