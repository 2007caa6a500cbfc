"""Charts: which is scanned next, what it says, and what becomes of one that fails."""

from __future__ import annotations

from typing import Any

from duework import Run
from systems.scout import client, store
from systems.scout.crawl import gaps, keywords, log
from systems.scout.crawl.tiers import order
from systems.scout.economy.meter import metered
from systems.scout.enrich import feed
from systems.scout.part import APPLE, CALL, ORDER, part


def take(tx: Any, now: int, draws: list[float], cycle: int) -> int:
    """Draw tiers, and start what each draw finds first; how many."""
    taken = 0
    for draw in draws:
        found = gaps.next_category(tx.read, now, order(draw))
        if found is not None:
            tx.write(
                "update scout_category set scanning = :now where id = :id and collection = :name",
                now=now,
                id=found.id,
                name=found.collection,
            )
            tx.enqueue(scan, found.collection, found.id, cycle)
            taken += 1
    return taken


@part.task(pace=APPLE, priority=ORDER["chart"], **CALL)
async def scan(run: Run, collection: str, category: int, cycle: int = 0) -> int:
    """A chart: its apps, their places, and the words of their titles."""
    found = await client.chart(collection, category)
    run.commit(lambda tx: charted(tx, collection, category, found, run.now, cycle))
    return len(found)


@metered("crawl")
def charted(
    tx: Any, collection: str, category: int, found: list[client.Found], now: int, cycle: int = 0
) -> int:
    """Everything that a chart says, in one commit; how many apps are new."""
    new = store.apps(tx, found, now, by="chart")
    store.developers(tx, found)
    store.places(tx, collection, category, found, now)
    words = keywords.of_titles(each.track_name for each in found)
    store.keywords(tx, words, now, source="category_scan")
    tx.write(
        "update scout_category set scanned_at = :now, apps_found = :n, scanning = null,"
        " failures = 0, retry_at = 0 where id = :id and collection = :name",
        now=now,
        n=len(found),
        id=category,
        name=collection,
    )
    log.add(tx, cycle, categories_scanned=1, apps_discovered=new)
    feed.wake(tx)
    return new


@scan.settled
def scanned(tx: Any, job: Any, outcome: str) -> None:
    """A category that cannot be scanned comes back later, and holds up no other."""
    if outcome == "done":
        return
    where = {"id": job.arguments["category"], "name": job.arguments["collection"]}
    rows = tx.read(
        "select failures from scout_category where id = :id and collection = :name", **where
    )
    failures = rows[0].failures if rows else 0
    tx.write(
        "update scout_category set scanning = null, failures = failures + 1, retry_at = :at"
        " where id = :id and collection = :name",
        at=part.app.now() + gaps.BACKOFF[min(failures, len(gaps.BACKOFF) - 1)],
        **where,
    )
