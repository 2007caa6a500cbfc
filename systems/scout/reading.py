"""What people and programs see of scout: stages, the controller, opportunities, one app."""

from __future__ import annotations

import json
from typing import Any

from duework import App, NotFound, Schedule
from systems.scout.evaluate import half_up
from systems.scout.part import part

# Numbers of rows are counted up to here; beyond it the page says "more than".
MOST = 10_000
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


def controller() -> dict[str, Any]:
    """The adaptive pace in the article's words."""
    details = app().get_pace("enrich").details
    return {name: details[name] for name in STATUS}


def bounded(table: str, where: str = "1 = 1") -> int:
    """How many rows, up to a bound: nobody waits for a million rows to be counted."""
    sql = f"select count(*) as n from (select 1 as x from {table} where {where} limit {MOST}) t"  # noqa: S608 - our own words
    return int(app().read(sql)[0].n)


def counts() -> dict[str, int]:
    """How much there is of everything."""
    return {
        "categories_scanned": bounded("scout_category", "scanned_at is not null"),
        "categories": bounded("scout_category"),
        "apps": bounded("scout_app"),
        "unenriched": bounded("scout_app", "enriched_at is null"),
        "enriched": bounded("scout_app", "enriched_at is not null"),
        "evaluated": bounded("scout_app", "evaluated_at is not null"),
        "keywords_pending": bounded("scout_keyword", "status = 'pending'"),
        "keywords_searched": bounded("scout_keyword", "status = 'searched'"),
        "clusters": bounded("scout_cluster"),
        "opportunities": bounded("scout_opportunity"),
    }


def pipeline_test() -> dict[str, Any]:
    """Whether every stage has made something; an empty one is to be looked at first."""
    had = counts()
    stages = {
        "crawl": had["apps"],
        "enrich": had["enriched"],
        "evaluate": had["evaluated"],
        "cluster": had["clusters"],
        "opportunity": had["opportunities"],
    }
    answer: dict[str, Any] = {
        name: {"count": count, "healthy": count > 0} for name, count in stages.items()
    }
    return {**answer, "pipeline_healthy": all(stages.values())}


def crawl_status() -> dict[str, Any]:
    """What the crawl has done and when it goes on."""
    crawl = schedule("scout.crawl")
    had = counts()
    names = ("categories", "categories_scanned", "apps", "keywords_pending", "keywords_searched")
    return {
        **{name: had[name] for name in names},
        "next_at": crawl.due if crawl else None,
        "paused": paused(),
        "idle_cycles": crawl.idles if crawl else 0,
    }


def opportunities(most: int = 20, *, newest: bool = False) -> list[dict[str, Any]]:
    """The best ones, or the newest, with what they rest on."""
    order = "first_at desc, cluster" if newest else "score desc, cluster"
    rows = app().read(
        f"select * from scout_opportunity order by {order} limit :most",  # noqa: S608 - one of two
        most=most,
    )
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


def one_app(track_id: int) -> dict[str, Any]:
    """An app with its scores, its places and the keywords that find it."""
    rows = app().read("select * from scout_app where track_id = :id", id=track_id)
    if not rows:
        raise NotFound(f"there is no app {track_id}")
    ledger = app().read(
        "select agent, score, inputs, at from scout_ledger where track_id = :id order by agent",
        id=track_id,
    )
    return {
        "app": rows[0],
        "ledger": [(row.agent, row.score, json.loads(row.inputs), row.at) for row in ledger],
        "charts": app().read(
            "select c.rank, c.collection, g.name, c.snapshot_at from scout_chart c"
            " join scout_category g on g.id = c.category and g.collection = c.collection"
            " where c.track_id = :id order by c.rank limit 20",
            id=track_id,
        ),
        "rankings": app().read(
            "select keyword, rank from scout_ranking where track_id = :id"
            " order by rank, keyword limit 20",
            id=track_id,
        ),
    }


def stages(now: int) -> list[dict[str, Any]]:
    """The five stages: what they have done, how fast they are, and what they wait for."""
    had, pace = counts(), controller()
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
            f" {had['keywords_pending']:,} keywords wait",
            crawl.due if crawl else None,
        ),
        _stage(
            "Enrich",
            half_up(pace["completions_per_minute"]),
            "lookups/min",
            "late" if resting else "running" if pace["running"] else "cancelled",
            f"{had['unenriched']:,} apps wait; {enriching}",
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


def _stage(
    name: str, value: float, unit: str, state: str, says: str, at: int | None
) -> dict[str, Any]:
    return {"name": name, "value": value, "unit": unit, "state": state, "says": says, "at": at}
