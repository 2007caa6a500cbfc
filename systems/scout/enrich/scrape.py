"""Pages of apps, the most important first: what only they know is stored beside what a lookup said.

A page is one call for one app, so it has a share of Apple's pace of its own. `enrichment_source = 'itunes'`
is the queue; an app is in one job at a time (`scraping`). What a page does not say is left as it was, and
counted.
"""

from __future__ import annotations

from typing import Any

from duework import Run, Snooze
from systems.scout.crawl.tiers import DAY
from systems.scout.economy.meter import metered
from systems.scout.enrich import cache, pages, reviews, saving
from systems.scout.part import APPLE, CALL, ORDER, PAGES, part, settings

# Pages that may wait at once: two minutes of their share.
MOST_WAITING = 12
# A page is read again after a month; one that cannot be read comes back later and later.
STALE = 30 * DAY
LATER = (6 * 3_600_000, DAY, STALE)

NEW = (
    "select track_id from scout_app where enrichment_source = 'itunes' and scraping is null"
    " and scrape_retry_at <= :now order by enrich_priority desc, rating_count desc limit :most"
)
OLD = (
    "select track_id from scout_app where enrichment_source = 'scraper' and scraping is null"
    " and scraped_at < :before and scrape_retry_at <= :now order by scraped_at limit :most"
)


def gap(read: Any, now: int) -> bool:
    """Whether a page waits to be read and no job has it."""
    return settings().pages and bool(
        read(NEW, now=now, most=1) or read(OLD, now=now, before=now - STALE, most=1)
    )


def wake(tx: Any) -> None:
    """There may be pages to read."""
    tx.enqueue(feed_pages.using(key="pages", when_running="again"))


@part.task(queue="scout", priority=ORDER["page"])
def feed_pages(run: Run) -> None:
    """Take what waits, no more than is read in two minutes."""
    run.commit(lambda tx: take(tx, run.now))


def take(tx: Any, now: int) -> int:
    """Apps without a page first, then those whose page is old; how many."""
    if not settings().pages:
        return 0
    busy = "select 1 as x from scout_app where scraping is not null limit :most"
    room = MOST_WAITING - len(tx.read(busy, most=MOST_WAITING))
    found = tx.read(NEW, now=now, most=room) if room else []
    if len(found) < room:
        found += tx.read(OLD, now=now, before=now - STALE, most=room - len(found))
    if found:
        tx.write(
            "update scout_app set scraping = :now where track_id = :id",
            rows=[{"now": now, "id": row.track_id} for row in found],
        )
    for row in found:
        tx.enqueue(read_page, row.track_id)
    return len(found)


@part.task(pace=[PAGES, APPLE], priority=ORDER["page"], **CALL)
async def read_page(run: Run, track_id: int) -> int | Snooze:
    """One page; how many of the fields that are looked for it lacks."""
    html = await asked(run, track_id)
    if html is None:
        return Snooze("1s")
    found = pages.read(html)
    run.commit(lambda tx: _save(tx, track_id, found, run.now))
    return len(found.missing())


async def asked(run: Run, track_id: int, *, fresh: bool = False) -> str | None:
    """The page; None if it is elsewhere, which is remembered: to ask there is a call of its own."""
    rows = run.read("select track_view_url from scout_app where track_id = :id", id=track_id)
    try:
        return await cache.page(track_id, rows[0].track_view_url if rows else None, fresh=fresh)
    except cache.Moved as elsewhere:
        with part.app.transaction() as tx:
            tx.write(
                "update scout_app set track_view_url = :url where track_id = :id",
                url=elsewhere.path,
                id=track_id,
            )
        return None


@metered("enrich")
def _save(tx: Any, track_id: int, found: pages.Page, now: int) -> None:
    saving.page(tx, track_id, found, now)
    reviews.wanted(tx, track_id, now)
    wake(tx)


@read_page.settled
def not_read(tx: Any, job: Any, outcome: str) -> None:
    """A page that cannot be read comes back later, and holds up no other."""
    if outcome == "done":
        return
    id_ = job.arguments["track_id"]
    rows = tx.read("select scrape_attempts from scout_app where track_id = :id", id=id_)
    tries = rows[0].scrape_attempts if rows else 0
    tx.write(
        "update scout_app set scraping = null, scrape_attempts = scrape_attempts + 1,"
        " scrape_retry_at = :at, scrape_error = :why where track_id = :id",
        at=part.app.now() + LATER[min(tries, len(LATER) - 1)],
        why=(job.error or outcome).splitlines()[0][:200],
        id=id_,
    )
    wake(tx)
