"""Once a day at six: snapshots, velocities and the quality of every app, in pages; then pruning and the size.

A page is one commit, and says where the next begins: a crash repeats a page at most, which changes nothing.
The counts of the quality check are carried from page to page, so that no table is counted as a whole.
"""

from __future__ import annotations

import logging
from typing import Any

from duework import End, Next, Page, Run
from systems.scout.crawl.tiers import DAY
from systems.scout.part import part, settings
from systems.scout.upkeep import alerts, quality, size, velocity

AT_ONCE, PRUNED_AT_ONCE = 500, 2000
log = logging.getLogger("duework.scout")
APPS = (
    "select a.track_id, a.enriched_at, a.rating_count, a.average_rating, a.enrichment_source,"  # noqa: S608 - our own
    f" {quality.COLUMNS}, (select s.snapshot_at {velocity.THEN}) as then_at,"
    f" (select s.rating_count {velocity.THEN}) as then_count from scout_app a"
    " where a.track_id > :after and a.enriched_at is not null and a.enrichment_source <> 'failed'"
    " order by a.track_id limit :most"
)
OLD = "select track_id, snapshot_at from scout_snapshot where snapshot_at < :before limit :most"


def nobody_known(run: Run) -> bool:
    """No app was ever looked up."""
    return not run.read(
        "select 1 as x from scout_app where enrichment_source in ('itunes', 'scraper') limit 1"
    )


@part.task(
    queue="scout",
    cron="0 6 * * *",
    idle=nobody_known,
    owner="scout",
    why="ratings are compared by days; at six in the morning nobody looks at the pages",
)
def daily(run: Run) -> None:
    """Begin; one that is not over yet goes on."""
    run.start(upkeep)


@part.chain(key="upkeep", queue="scout", retries=5, backoff=("1m", "10m", "1h"))
def upkeep(page: Page) -> Next | End:
    """Apps first, 500 at a time; then what is too old; then the figures of the day."""
    run = page.run
    left = page.cursor or {"day": run.now // DAY * DAY, "after": 0, "apps": 0, "sums": {}}
    if left["after"] is not None:
        return Next(cursor=_apps(run, left))
    if pruned := _prune(run):
        return Next(cursor={**left, "pruned": left.get("pruned", 0) + pruned})
    _conclude(run, left)
    return End(counts={"apps": left["apps"]})


def _apps(run: Any, left: dict[str, Any]) -> dict[str, Any]:
    rows = run.read(APPS, after=left["after"], most=AT_ONCE, far=velocity.FAR, near=velocity.NEAR)
    velocity.snapshots(run, rows)
    velocity.velocities(run, rows, run.now)
    return {
        **left,
        "after": rows[-1].track_id if len(rows) == AT_ONCE else None,
        "apps": left["apps"] + len(rows),
        "sums": quality.counted(left["sums"], rows),
    }


def _prune(run: Any) -> int:
    """Forget snapshots that are too old to tell anything; how many, and 0 if these were the last."""
    rows = run.read(OLD, before=run.now - settings().keep * DAY, most=PRUNED_AT_ONCE)
    if rows:
        run.write(
            "delete from scout_snapshot where track_id = :track_id and snapshot_at = :snapshot_at",
            rows=[row._asdict() for row in rows],
        )
    return len(rows) if len(rows) == PRUNED_AT_ONCE else 0


def _conclude(run: Any, left: dict[str, Any]) -> None:
    day, sums = left["day"], left["sums"]
    quality.store(run, day, sums)
    if lines := quality.alerts(sums):
        alerts.degraded(run, lines, day)
        log.warning("data quality degraded: %s", "; ".join(lines))
    elif sums.get(quality.TOTAL):
        log.info("all fields healthy")
    found = size.measured(run.read)
    size.store(run, day, found, left["apps"])
    if size.near(found, settings().size):
        alerts.large(run, found, settings().size, day)
