"""Searches: keywords become rankings, apps, and more keywords, until they find nothing new.

Only apps that nobody knew suggest keywords, and only so deep: that is why it comes to an end. A keyword
is searched for again after its days; one that fails waits behind all that are pending, and is given up
at last.
"""

from __future__ import annotations

from typing import Any

from duework import Run
from systems.scout import client, store
from systems.scout.crawl import gaps, keywords, log
from systems.scout.crawl.tiers import DAY
from systems.scout.economy.meter import metered
from systems.scout.enrich import feed
from systems.scout.part import APPLE, CALL, ORDER, part

# Apps for which a job makes keywords, and when it may be tried again for them.
FILLED, FILL_AGAIN = 10, 30 * DAY
DEEPEST = 3
# After so many failed searches a keyword is given up.
MOST_FAILURES = 3
# A search that has not begun when its cycle is over waits for another cycle.
WINDOW = "5m"


@part.task(queue="scout", priority=ORDER["search"])
def map_keywords(run: Run, most: int, cycle: int = 0) -> int:
    """Start searches, no more than wait already beside them."""
    run.commit(lambda tx: start(tx, run.now, most, cycle))
    return 0


def start(tx: Any, now: int, most: int, cycle: int) -> int:
    """Take keywords and make a job of each; how many."""
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
        tx.enqueue(search.using(expires=WINDOW), each, cycle)
    return len(words)


@part.task(pace=APPLE, priority=ORDER["search"], **CALL)
async def search(run: Run, keyword: str, cycle: int = 0) -> int:
    """Who is found for a keyword; apps that nobody knew suggest more keywords."""
    found = await client.search(keyword)
    run.commit(lambda tx: searched(tx, keyword, found, run.now, cycle))
    return len(found)


@metered("crawl")
def searched(tx: Any, keyword: str, found: list[client.Found], now: int, cycle: int = 0) -> int:
    """Rankings, apps and the keywords that they suggest, in one commit; how many apps are new."""
    rows = tx.read("select depth from scout_keyword where keyword = :keyword", keyword=keyword)
    depth = rows[0].depth if rows else 0
    unknown = store.unknown(tx.read, found)
    new = store.apps(tx, found, now, by="search")
    store.developers(tx, found)
    ranked = store.rankings(tx, keyword, found, now, new)
    if depth < DEEPEST:
        words = keywords.of_titles(each.track_name for each in unknown)
        store.keywords(tx, words, now, source="search", of=keyword, depth=depth + 1)
    if ranked.changed:
        log.changed(tx, keyword, now)
    counts = {"rankings_added": len(found), "apps_ranked": ranked.first}
    log.add(tx, cycle, keywords_searched=1, apps_discovered=new, **counts)
    if unknown:
        feed.wake(tx)
    return new


@search.settled
def not_searched(tx: Any, job: Any, outcome: str) -> None:
    """One whose time was over is as before; one that failed waits, and is given up at last."""
    keyword = job.arguments["keyword"]
    if outcome == "cancelled":
        # Back to where it was: a keyword that was searched for before is due still.
        tx.write(
            "update scout_keyword set status = case when failures > 0 then 'failing'"
            " when last_searched_at is null then 'pending' else 'searched' end"
            " where keyword = :keyword and status = 'searching'",
            keyword=keyword,
        )
    if outcome == "failed":
        tx.write(
            "update scout_keyword set failures = failures + 1, due_at = :at, status ="
            " case when failures + 1 >= :most then 'failed' else 'failing' end"
            " where keyword = :keyword and status = 'searching'",
            at=part.app.now() + DAY,
            most=MOST_FAILURES,
            keyword=keyword,
        )


@part.task(queue="scout")
def fill(run: Run) -> int:
    """Search terms for apps that no keyword has found: from their own names."""
    run.commit(lambda tx: suggest(tx, run.now))
    return 0


def suggest(tx: Any, now: int) -> int:
    """Keywords of their own for some apps, which are then left alone for a while; how many."""
    apps = gaps.unranked(tx.read, now, FILLED)
    words = [word for app in apps for word in keywords.of_app(app.track_name)]
    store.keywords(tx, words, now, source="ranking_fill", priority=5)
    if apps:
        tx.write(
            "update scout_app set fill_at = :at where track_id = :id",
            rows=[{"at": now + FILL_AGAIN, "id": app.track_id} for app in apps],
        )
    return len(words)
