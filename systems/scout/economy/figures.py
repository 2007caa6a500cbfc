"""Twenty-one figures about everything, counted when somebody looks, and not again for a quarter of an hour.

A count of a million rows is read a million times if nobody is careful. Whoever asks gets what was counted
last, with its age; if that is old, a job counts anew. Where nobody looks, nothing is counted.
"""

from __future__ import annotations

from typing import Any

from duework import Run
from systems.scout.economy import ledger
from systems.scout.part import part

FRESH = 15 * 60_000
HOUR, DAY = 3_600_000, 86_400_000

COUNTS = {
    "apps_total": "select count(*) as n from scout_app",
    "apps_enriched": "select count(*) as n from scout_app where enriched_at is not null",
    "apps_pending": "select count(*) as n from scout_app where enriched_at is null",
    "apps_failed": "select count(*) as n from scout_app where enrichment_source = 'failed'",
    "keywords_total": "select count(*) as n from scout_keyword",
    "keywords_pending": "select count(*) as n from scout_keyword where status = 'pending'",
    "rankings_total": "select count(*) as n from scout_ranking",
    "clusters_total": "select count(*) as n from scout_cluster",
    "opportunities_total": "select count(*) as n from scout_opportunity",
    "agents": "select count(distinct agent) as n from scout_ledger",
    "agent_scores": "select count(*) as n from scout_ledger",
    "apps_found_last_hour": "select count(*) as n from scout_app where first_seen_at > :hour",
    "apps_enriched_last_hour": "select count(*) as n from scout_app where enriched_at > :hour",
    "apps_found_last_day": "select count(*) as n from scout_app where first_seen_at > :day",
    "apps_enriched_last_day": "select count(*) as n from scout_app where enriched_at > :day",
    "debates_last_day": "select count(*) as n from scout_debate_report where started_at > :day",
    "cost_total": "select coalesce(sum(cost), 0) as n from scout_cost_day",
    "cost_today": "select coalesce(sum(cost), 0) as n from scout_cost_day where day = :today",
    "cost_last_day": "select coalesce(sum(cost), 0) as n from scout_cost where at > :day",
    "cost_last_hour": "select coalesce(sum(cost), 0) as n from scout_cost where at > :hour",
    "calls_today": "select coalesce(sum(calls), 0) as n from scout_cost_day where day = :today"
    " and service = 'http'",
}


@part.task(queue="scout", timeout="5m")
def count(run: Run) -> None:
    """Count everything, once for all who look."""
    now = run.now
    times = {"hour": now - HOUR, "day": now - DAY, "today": ledger.day_of(now)}
    rows = [
        {"name": name, "value": float(run.read(sql, **_needed(sql, times))[0].n), "at": now}
        for name, sql in COUNTS.items()
    ]
    run.write(
        "insert into scout_health_snapshot (name, value, at) values (:name, :value, :at)"
        " on conflict (name) do update set value = excluded.value, at = excluded.at",
        rows=rows,
    )


def _needed(sql: str, times: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in times.items() if f":{name}" in sql}


def look() -> dict[str, Any]:
    """The figures as they were counted last; if that is long ago, they are counted anew."""
    rows = part.app.read("select name, value, at from scout_health_snapshot")
    at = min((row.at for row in rows), default=None)
    if at is None or at < part.app.now() - FRESH:
        count.using(key="figures").enqueue()
    return {"at": at, **{row.name: row.value for row in rows}}
