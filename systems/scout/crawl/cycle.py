"""One cycle every five minutes: look for gaps, choose one primary task, start side tasks as jobs.

A scan of charts goes before searches, searches before new keywords for apps that no keyword finds. What
a cycle starts is paced by Apple's limit, fits into its five minutes, and what has not begun by then
waits for another one.
"""

from __future__ import annotations

from typing import Any

from duework import Run
from systems.scout.crawl import discover, gaps, log, shares
from systems.scout.crawl.charts import take
from systems.scout.crawl.search import fill, map_keywords
from systems.scout.crawl.tiers import DAY
from systems.scout.economy import ceiling
from systems.scout.enrich import feed, purchases, scrape
from systems.scout.part import part, settings

CATS_PER_CYCLE = shares.CATS_PER_CYCLE
# What a cycle may take itself: it calls nobody, and starts jobs.
WINDOW = "30s"
# Just before the next one begins.
CLOSE = "4m 55s"


def nothing_to_do(run: Run) -> bool:
    """At most one row from each index; a tick without work is over."""
    if any(gaps.assess(run.read, run.now)):
        return False
    log.point("crawl_idle")
    return True


@part.task(
    cron="*/5 * * * *",
    idle=nothing_to_do,
    timeout=WINDOW,
    owner="scout",
    why="Apple allows about 100 calls in five minutes; more often would find nothing more",
)
def crawl(run: Run) -> dict[str, Any]:
    """Assess, choose, start: one commit."""
    draws = [run.random() for _ in range(CATS_PER_CYCLE)]
    run.commit(lambda tx: begin(tx, run.job.id, run.now, draws))
    return {}


def begin(tx: Any, cycle: int, now: int, draws: list[float]) -> dict[str, Any]:
    """Start one primary task, and what goes on beside it; nothing above the month's ceiling."""
    if not ceiling.allows(tx, now):
        return {"phase": "ceiling"}
    found = gaps.assess(tx.read, now)
    phase = choose(found)
    log.begin(tx, cycle, phase, now, enrichment=found.others_wait)
    scans = take(tx, now, draws, cycle) if phase == "category_scan" else 0
    for job in beside(found, phase, cycle):
        tx.enqueue(*job)
    prune(tx, now)
    return {"phase": phase, "scans": scans}


def choose(found: gaps.Gaps) -> str:
    """The most critical gap alone."""
    if found.category:
        return "category_scan"
    if found.keyword:
        return "keyword_mapping"
    return "ranking_fill" if found.ranking else "enrichment" if found.others_wait else "portfolios"


def beside(found: gaps.Gaps, phase: str, cycle: int) -> list[tuple[Any, ...]]:
    """Jobs of their own: none of them can break the cycle, or another."""
    jobs: list[tuple[Any, ...]] = [
        (log.close.using(key=f"close:{cycle}", delay=CLOSE), cycle),
        (feed.feed.using(key="feed", when_running="again"),),
        (scrape.feed_pages.using(key="pages", when_running="again"),),
    ]
    if found.keyword:
        primary = phase == "keyword_mapping"
        most = shares.searches(primary=primary, others_wait=found.others_wait)
        jobs.append((map_keywords.using(key="map"), most, cycle))
    if found.ranking and phase in {"keyword_mapping", "ranking_fill"}:
        jobs.append((fill.using(key="fill"),))
    if found.purchases:
        jobs.append((purchases.backfill.using(key="purchases"),))
    if found.developer:
        jobs.append((discover.expand.using(key="expand"), cycle))
    return jobs


def prune(tx: Any, now: int) -> None:
    """Forget places in charts, and cycles, that are too old to tell anything."""
    before = now - settings().keep * DAY
    tx.write("delete from scout_chart_history where snapshot_at < :before", before=before)
    tx.write("delete from scout_crawl_log where started_at < :before", before=before)
