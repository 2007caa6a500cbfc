"""What a cycle did: its jobs add to one row, and when its time is over others are told.

`rankings-updated` names the keywords whose rankings have changed since it was last said: names alone,
since whoever hears it reads the present state. Figures go to metrics, by phase.
"""

from __future__ import annotations

from typing import Any

from duework import Run
from systems.scout.part import part

# Keywords in one event, so that it stays below ten kilobytes.
TOLD = 50
MOST_TOLD = 1000
COUNTS = (
    "categories_scanned",
    "apps_discovered",
    "apps_ranked",
    "keywords_searched",
    "rankings_added",
    "developers_expanded",
)
POINTS = ("apps_discovered", "rankings_added", "keywords_searched", "categories_scanned")


def begin(tx: Any, cycle: int, phase: str, now: int, *, enrichment: bool) -> None:
    """The row of a cycle; a second attempt finds it there."""
    tx.write(
        "insert into scout_crawl_log (id, phase, started_at, enrichment)"
        " values (:id, :phase, :now, :enrichment) on conflict (id) do nothing",
        id=cycle,
        phase=phase,
        now=now,
        enrichment=int(enrichment),
    )


def add(tx: Any, cycle: int, **counts: int) -> None:
    """Add to what a cycle did; 0 is none, for what was started by hand."""
    given = {name: count for name, count in counts.items() if count}
    if cycle and given:
        changes = ", ".join(f"{name} = {name} + :{name}" for name in COUNTS if name in given)
        tx.write(f"update scout_crawl_log set {changes} where id = :id", id=cycle, **given)  # noqa: S608 - our own names


def changed(tx: Any, keyword: str, now: int) -> None:
    """The rankings of a keyword are others than before; somebody is to be told."""
    tx.write(
        "insert into scout_fresh_keyword (keyword, at) values (:keyword, :now)"
        " on conflict (keyword) do nothing",
        keyword=keyword,
        now=now,
    )


@part.task(queue="scout", priority=3)
def close(run: Run, cycle: int) -> dict[str, Any]:
    """The time of a cycle is over: tell whoever wants to know."""
    run.commit(lambda tx: conclude(tx, cycle, run.now))
    return {}


def conclude(tx: Any, cycle: int, now: int) -> dict[str, Any]:
    """Events and the end of the cycle are one commit; nothing changed, nothing is sent."""
    rows = tx.read(
        "select keyword from scout_fresh_keyword order by at, keyword limit :most", most=MOST_TOLD
    )
    words = [row.keyword for row in rows]
    for start in range(0, len(words), TOLD):
        tx.publish("rankings-updated", {"keywords": words[start : start + TOLD]})
    if words:
        tx.write(
            "delete from scout_fresh_keyword where keyword = :keyword",
            rows=[{"keyword": word} for word in words],
        )
    tx.write(
        "update scout_crawl_log set closed_at = :now, keywords_with_new_rankings = :n"
        " where id = :id and closed_at is null",
        now=now,
        n=len(words),
        id=cycle,
    )
    return stats(tx, cycle)


def stats(tx: Any, cycle: int) -> dict[str, Any]:
    """The figures of a cycle, noted as metrics."""
    rows = tx.read("select * from scout_crawl_log where id = :id", id=cycle)
    if not rows:
        return {}
    found = rows[0]._asdict()
    point(found["phase"], **{name: found[name] for name in POINTS})
    return {name: found[name] for name in ("phase", *COUNTS, "keywords_with_new_rankings")}


def point(phase: str, **counts: int) -> None:
    """One point for each figure; an idle cycle has zeros."""
    for name in POINTS:
        amount = counts.get(name, 0)
        part.app.metrics.add(f"scout_{name}", amount, pipeline="cron", phase=phase)
