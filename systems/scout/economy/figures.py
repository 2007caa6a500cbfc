"""Twenty-one figures about everything, counted when somebody looks, and not again for a quarter of an hour.

A count of a million rows is read a million times if nobody is careful. Rows are counted to the bound of the
desk, each by an index; money is a sum of the days. Whoever asks gets what was counted last, with its age; if
that is old, a job counts anew. Where nobody looks, nothing is counted.
"""

from __future__ import annotations

from typing import Any

from duework import Run
from systems.scout.desk.figures import COUNTED, bounded
from systems.scout.economy import ledger
from systems.scout.part import part

FRESH = 15 * 60_000
HOUR, DAY = 3_600_000, 86_400_000
ENRICHED_SINCE = "enrichment_source in ('itunes', 'scraper', 'failed') and enriched_at >"

# A table and its rows.
ROWS = {
    "apps_total": COUNTED["apps"],
    "apps_enriched": COUNTED["enriched"],
    "apps_pending": COUNTED["unenriched"],
    "apps_failed": ("scout_app", "enrichment_source = 'failed'"),
    "keywords_total": COUNTED["keywords"],
    "keywords_pending": COUNTED["keywords_pending"],
    "rankings_total": ("scout_ranking", "1 = 1"),
    "clusters_total": COUNTED["clusters"],
    "opportunities_total": COUNTED["opportunities"],
    "agent_scores": ("scout_ledger", "1 = 1"),
    "apps_found_last_hour": ("scout_app", "first_seen_at > :hour"),
    "apps_enriched_last_hour": ("scout_app", f"{ENRICHED_SINCE} :hour"),
    "apps_found_last_day": ("scout_app", "first_seen_at > :day"),
    "apps_enriched_last_day": ("scout_app", f"{ENRICHED_SINCE} :day"),
    "debates_last_day": ("scout_debate_report", "started_at > :day"),
}
SUMS = {
    # Every agent speaks of every app, so that the first rows name them all.
    "agents": "select count(distinct agent) as n from (select agent from scout_ledger limit 10000) t",
    "cost_total": "select coalesce(sum(cost), 0) as n from scout_cost_day",
    "cost_today": "select coalesce(sum(cost), 0) as n from scout_cost_day where day = :today",
    "cost_last_day": "select coalesce(sum(cost), 0) as n from scout_cost where at > :day",
    "cost_last_hour": "select coalesce(sum(cost), 0) as n from scout_cost where at > :hour",
    "calls_today": "select coalesce(sum(calls), 0) as n from scout_cost_day where day = :today"
    " and service = 'http'",
}
COUNTS = (*ROWS, *SUMS)


@part.task(queue="scout", timeout="5m")
def count(run: Run) -> None:
    """Count everything, once for all who look."""
    now = run.now
    times = {"hour": now - HOUR, "day": now - DAY, "today": ledger.day_of(now)}
    found: dict[str, Any] = {
        name: bounded(run.read, *what, **_needed(what[1], times)) for name, what in ROWS.items()
    }
    found |= {name: run.read(sql, **_needed(sql, times))[0].n for name, sql in SUMS.items()}
    run.write(
        "insert into scout_health_snapshot (name, value, at) values (:name, :value, :at)"
        " on conflict (name) do update set value = excluded.value, at = excluded.at",
        rows=[{"name": name, "value": float(value), "at": now} for name, value in found.items()],
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
