"""What people and programs see of scout: stages, the controller, opportunities."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from duework import App, NotFound, Schedule
from systems.scout.desk import figures
from systems.scout.evaluate import half_up
from systems.scout.part import part

# Each stage, and the figure that says what it has made.
STAGES = {
    "crawl": "apps",
    "enrich": "enriched",
    "evaluate": "evaluated",
    "cluster": "clusters",
    "opportunity": "opportunities",
}
HOUR = 3_600_000
STATUS = (
    "running",
    "total_dispatched",
    "total_completed",
    "total_failed",
    "completions_per_minute",
    "success_rate",
    "current_batch_size",
    "current_interval_ms",
    "in_cooldown",
    "projected_per_day",
)


def app() -> App:
    return part.app


def schedule(key: str) -> Schedule | None:
    """It is there as soon as a worker has started."""
    found = app().schedules(prefix=key)
    return found[0] if found else None


def paused() -> bool:
    """Whether somebody has stopped the crawl."""
    crawl = schedule("scout.crawl")
    return crawl is not None and crawl.paused


def health() -> dict[str, str]:
    """That it is up, and what time it has."""
    at = datetime.fromtimestamp(app().now() / 1000, UTC)
    return {"status": "ok", "service": "pipeline-api", "timestamp": at.isoformat()}


def controller() -> dict[str, Any]:
    """The adaptive pace in the article's words."""
    details = app().get_pace("enrich").details
    return {name: details[name] for name in STATUS}


def pipeline_test() -> dict[str, Any]:
    """Whether every stage has made something; an empty one is to be looked at first."""
    had = {
        stage: figures.bounded(app().read, *figures.COUNTED[name]) for stage, name in STAGES.items()
    }
    answer: dict[str, Any] = {
        name: {"count": count, "healthy": count > 0} for name, count in had.items()
    }
    return {**answer, "pipeline_healthy": all(had.values())}


def crawl_status() -> dict[str, Any]:
    """What the crawl has done and when it goes on."""
    crawl = schedule("scout.crawl")
    had = figures.figures(app().now())
    names = ("categories", "categories_scanned", "apps", "keywords_pending", "keywords_searched")
    return {
        **{name: had[name] for name in names},
        "next_at": crawl.due if crawl else None,
        "paused": paused(),
        "idle_cycles": crawl.idles if crawl else 0,
    }


def scans() -> list[Any]:
    """The charts of the store, those that fail and those that were scanned last before others."""
    return app().read(
        "select id, collection, name, tier, scanned_at, apps_found, scanning, failures, retry_at"
        " from scout_category order by failures desc, scanned_at desc nulls last, sort_order,"
        " collection limit 100"
    )


RANKED = {
    "score": "select * from scout_opportunity order by score desc, cluster limit :most",
    "newest": "select * from scout_opportunity order by first_at desc, cluster limit :most",
    "starred": "select o.* from scout_star s join scout_opportunity o on o.cluster = s.ref"
    " where s.kind = 'opportunity' order by o.score desc, o.cluster limit :most",
}


def opportunities(
    most: int = 20, *, newest: bool = False, starred: bool = False
) -> list[dict[str, Any]]:
    """The best ones, the newest, or those with a star, with what they rest on."""
    order = "starred" if starred else "newest" if newest else "score"
    rows = app().read(RANKED[order], most=most)
    return [_whole(row) for row in rows]


def opportunity(cluster: str) -> dict[str, Any]:
    rows = app().read("select * from scout_opportunity where cluster = :id", id=cluster)
    if not rows:
        raise NotFound(f"there is no opportunity {cluster}")
    return _whole(rows[0])


def _whole(row: Any) -> dict[str, Any]:
    given = row._asdict()
    return {**given, **{name: json.loads(given[name]) for name in ("parts", "facts", "debate")}}


def names_of(ids: list[int]) -> dict[int, str]:
    """What apps are called."""
    found = {}
    for id_ in ids:
        for row in app().read("select track_name from scout_app where track_id = :id", id=id_):
            found[id_] = row.track_name
    return found


def stages(now: int) -> list[dict[str, Any]]:
    """The five stages: what they have done, how fast they are, and what they wait for."""
    had, pace = figures.figures(now), controller()
    crawl, cluster = schedule("scout.crawl"), schedule("scout.cluster")
    apple = app().get_pace("apple")
    resting = pace["in_cooldown"]
    waiting = had["enriched"] - had["evaluated"]
    enriching = (
        "cooling down after a storm"
        if resting
        else f"batch {pace['current_batch_size']} every {pace['current_interval_ms'] / 1000:g} s"
    )
    return [
        _stage(
            "Crawl",
            had["apps"],
            "apps",
            "cancelled" if paused() else "late" if apple.blocked_until else "running",
            f"{had['categories_scanned']} of {had['categories']} charts scanned;"
            f" {_many(had['keywords_pending'], 'keyword waits', 'keywords wait')}",
            crawl.due if crawl else None,
        ),
        _stage(
            "Enrich",
            half_up(pace["completions_per_minute"]),
            "lookups/min",
            "late" if resting else "running" if pace["running"] else "cancelled",
            f"{_many(had['unenriched'], 'app waits', 'apps wait')}; {enriching}",
            app().get_pace("enrich").details["cooldown_until"],
        ),
        _stage(
            "Evaluate",
            had["evaluated"],
            "scores",
            "running" if waiting else "done",
            f"{max(0, waiting):,} wait" if waiting > 0 else "everything enriched is scored",
            None,
        ),
        _stage(
            "Cluster",
            had["clusters"],
            "clusters",
            "waiting",
            "next run",
            cluster.due if cluster else None,
        ),
        _stage(
            "Opportunity",
            had["opportunities"],
            "found",
            "done" if had["opportunities"] else "waiting",
            f"{_new_in_a_day(now)} new in a day",
            None,
        ),
    ]


def _new_in_a_day(now: int) -> int:
    sql = "select count(*) as n from scout_opportunity where first_at > :since"
    return int(app().read(sql, since=now - 24 * HOUR)[0].n)


def _many(count: int, one: str, more: str) -> str:
    return f"{count:,} {one if count == 1 else more}"


def _stage(
    name: str, value: float, unit: str, state: str, says: str, at: int | None
) -> dict[str, Any]:
    return {"name": name, "value": value, "unit": unit, "state": state, "says": says, "at": at}
