"""One cycle every five minutes: look for gaps, choose one primary task, start side tasks as jobs.

A scan of categories goes before searches, searches before new keywords for apps that nobody has found. What
a cycle starts is paced by Apple's limit, so that it starts no more than fits until the next one.
"""

from __future__ import annotations

from typing import Any

from duework import Run
from systems.scout import client, store
from systems.scout.crawl import gaps, keywords
from systems.scout.crawl.tiers import DAY, order
from systems.scout.enrich import feed, purchases, scrape
from systems.scout.part import APPLE, CALL, part, settings

CATS_PER_CYCLE = 3
# Searches that wait for Apple at most, when they are the primary task, and beside another one.
MAPPED, MAPPED_BESIDE = 100, 50
FILLED = 10
DEEPEST = 2
# After so many failed searches a keyword is given up.
MOST_FAILURES = 3


def nothing_to_do(run: Run) -> bool:
    """At most one row from each index."""
    return not (
        gaps.category(run.read, run.now)
        or gaps.keywords(run.read, run.now)
        or gaps.unranked(run.read, run.now)
        or gaps.unenriched(run.read, run.now)
        or scrape.gap(run.read, run.now)
        or purchases.gap(run.read, run.now)
    )


@part.task(
    cron="*/5 * * * *",
    idle=nothing_to_do,
    owner="scout",
    why="Apple allows about 100 calls in five minutes; more often would find nothing more",
)
def crawl(run: Run) -> dict[str, Any]:
    """Assess, choose, start."""
    phase = choose(run)
    if phase == "category_scan":
        scan_some(run)
    if phase == "ranking_fill":
        run.enqueue(fill.using(key="fill"))
    elif gaps.keywords(run.read, run.now):
        run.enqueue(
            map_keywords.using(key="map"), MAPPED if phase == "keyword_mapping" else MAPPED_BESIDE
        )
        if phase == "keyword_mapping" and gaps.unranked(run.read, run.now):
            run.enqueue(fill.using(key="fill"))
    run.enqueue(feed.feed.using(key="feed", when_running="again"))
    scrape.wake(run)
    if purchases.gap(run.read, run.now):
        run.enqueue(purchases.backfill.using(key="purchases"))
    prune(run)
    return {"phase": phase}


def choose(run: Run) -> str:
    """The most critical gap alone."""
    if gaps.category(run.read, run.now):
        return "category_scan"
    if gaps.keywords(run.read, run.now):
        return "keyword_mapping"
    return "ranking_fill" if gaps.unranked(run.read, run.now) else "enrichment"


def scan_some(run: Run) -> None:
    """Draw tiers, and take what each draw finds first."""
    draws = [run.random() for _ in range(CATS_PER_CYCLE)]
    run.commit(lambda tx: _take(tx, run.now, draws))


def _take(tx: Any, now: int, draws: list[float]) -> dict[str, Any]:
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
            tx.enqueue(scan, found.collection, found.id)
            taken += 1
    return {"phase": "category_scan", "scans": taken}


def prune(run: Run) -> None:
    """Forget places in charts that are too old to tell anything."""
    run.write(
        "delete from scout_chart_history where snapshot_at < :before",
        before=run.now - settings().keep * DAY,
    )


# --- charts


@part.task(pace=APPLE, priority=2, **CALL)
async def scan(run: Run, collection: str, category: int) -> int:
    """A chart: its apps, their places, and the words of their titles."""
    found = await client.chart(collection, category)
    run.commit(lambda tx: charted(tx, collection, category, found, run.now))
    return len(found)


def charted(tx: Any, collection: str, category: int, found: list[client.Found], now: int) -> int:
    """Everything that a chart says, in one commit; how many apps are new."""
    new = store.apps(tx, found, now)
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
    feed.wake(tx)
    return new


@scan.settled
def scanned(tx: Any, job: Any, outcome: str) -> None:
    """A category that cannot be scanned comes back later, and holds up no other."""
    if outcome == "done":
        return
    given = _given(job)
    where = {"id": given["category"], "name": given["collection"]}
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


# --- keywords


@part.task(queue="scout", priority=1)
def map_keywords(run: Run, most: int) -> None:
    """Start searches, no more than wait already beside them."""
    run.commit(lambda tx: _search_some(tx, run.now, most))


def _search_some(tx: Any, now: int, most: int) -> int:
    waiting = tx.read(
        "select keyword from scout_keyword where status = 'searching' limit :most", most=most
    )
    words = gaps.keywords(tx.read, now, max(0, most - len(waiting)))
    if words:
        tx.write(
            "update scout_keyword set status = 'searching' where keyword = :keyword",
            rows=[{"keyword": each} for each in words],
        )
    for each in words:
        tx.enqueue(search, each)
    return len(words)


@part.task(pace=APPLE, **CALL)
async def search(run: Run, keyword: str) -> int:
    """Who is found for a keyword; apps that nobody knew suggest more keywords."""
    found = await client.search(keyword)
    run.commit(lambda tx: searched(tx, keyword, found, run.now))
    return len(found)


def searched(tx: Any, keyword: str, found: list[client.Found], now: int) -> int:
    """Rankings, apps and the keywords that they suggest, in one commit; how many apps are new."""
    rows = tx.read("select depth from scout_keyword where keyword = :keyword", keyword=keyword)
    depth = rows[0].depth if rows else 0
    new = store.apps(tx, found, now)
    store.rankings(tx, keyword, found, now)
    if new and depth < DEEPEST:
        words = keywords.of_titles(each.track_name for each in found)
        store.keywords(tx, words, now, source="search", of=keyword, depth=depth + 1)
    if new:
        feed.wake(tx)
    return new


@search.settled
def not_searched(tx: Any, job: Any, outcome: str) -> None:
    """A keyword that cannot be searched for goes to the back, and is given up at last."""
    if outcome != "done":
        tx.write(
            "update scout_keyword set failures = failures + 1, retry_at = :at, status ="
            " case when failures + 1 >= :most then 'failed' else 'pending' end"
            " where keyword = :keyword",
            at=part.app.now() + DAY,
            most=MOST_FAILURES,
            keyword=_given(job)["keyword"],
        )


@part.task(queue="scout")
def fill(run: Run) -> int:
    """Search terms for apps that no keyword has found: from their own names."""
    apps = gaps.unranked(run.read, run.now, FILLED)
    words = [word for app in apps for word in keywords.of_app(app.track_name)]
    store.keywords(run, words, run.now, source="ranking_fill", priority=5)
    return len(words)


def _given(job: Any) -> dict[str, Any]:
    return dict(job.arguments)
