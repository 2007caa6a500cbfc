"""In-app purchases that a page did not speak of: a few of them are asked for again with each crawl."""

from __future__ import annotations

from typing import Any

from duework import Run, Snooze
from systems.scout.enrich import pages, saving, scrape
from systems.scout.part import APPLE, CALL, ORDER, PAGES, PURCHASES, part

# With more than so many open, more are taken at once; more than that need not be counted.
MANY = 500
MORE, FEW = 20, 10
GAP = (
    "select track_id from scout_app where enrichment_source = 'scraper' and iap_scraped_at is null"
    " and scraping is null and iap_retry_at <= :now order by rating_count desc limit :most"
)


def gap(read: Any, now: int, most: int = 1) -> list[int]:
    """Apps whose page was read and did not say what they sell."""
    return [row.track_id for row in read(GAP, now=now, most=most)]


@part.task(queue="scout", priority=ORDER["page"])
def backfill(run: Run) -> None:
    """Ask for a few, those first that most people rate."""
    run.commit(lambda tx: take(tx, run.now))


def take(tx: Any, now: int) -> int:
    """Twenty if more than 500 are open, else ten; how many."""
    found = gap(tx.read, now, MANY + 1)
    chosen = found[: MORE if len(found) > MANY else FEW]
    if chosen:
        tx.write(
            "update scout_app set scraping = :now where track_id = :id",
            rows=[{"now": now, "id": id_} for id_ in chosen],
        )
    for id_ in chosen:
        tx.enqueue(read_purchases, id_)
    return len(chosen)


@part.task(pace=[PURCHASES, PAGES, APPLE], priority=ORDER["page"], **CALL)
async def read_purchases(run: Run, track_id: int) -> Snooze | None:
    """The page once more, and not the one that was stored."""
    html = await scrape.asked(run, track_id, fresh=True)
    if html is None:
        return Snooze("1s")
    found = pages.read(html).in_app_purchases
    run.commit(lambda tx: _save(tx, track_id, found, run.now))
    return None


def _save(tx: Any, track_id: int, found: list[pages.Purchase] | None, now: int) -> None:
    saving.purchases(tx, track_id, found, now)
    tx.write("update scout_app set scraping = null where track_id = :id", id=track_id)


@read_purchases.settled
def not_read(tx: Any, job: Any, outcome: str) -> None:
    """It counts as a page that did not say."""
    if outcome != "done":
        _save(tx, job.arguments["track_id"], None, part.app.now())
