"""The third stage: how strong an app is as a competitor, with everything that went into the number.

    score = 45 ratings + 25 stars + 15 freshness + 15 chart

`ratings` is log10 of their number over six, `stars` runs from three to five, `freshness` falls to nothing in
two years after the last version, `chart` is the best place in a chart of 200; each is from 0 to 1.
The ledger keeps the inputs, so that anybody can compute a score again.
"""

from __future__ import annotations

import json
import math
from datetime import datetime
from typing import Any

from duework import Run
from systems.scout.crawl.tiers import DAY
from systems.scout.part import part

AT_ONCE = 500
AGENT = "competitiveness"
TWO_YEARS = 730

WAITING = (
    "select a.track_id, a.average_rating, a.rating_count, a.updated_date,"
    " (select min(c.rank) from scout_chart c where c.track_id = a.track_id) as best"
    " from scout_app a where a.evaluated_at is null and a.enriched_at is not null"
    " and a.enrichment_source <> 'failed' order by a.enriched_at limit :most"
)


def inputs_of(row: Any, now: int) -> dict[str, Any]:
    """What a score is computed from."""
    return {
        "rating_count": row.rating_count,
        "average_rating": row.average_rating,
        "days_since_update": days_since(row.updated_date, now),
        "best_place": row.best,
    }


def competitiveness(given: dict[str, Any]) -> float:
    """From 0, nobody to be afraid of, to 100."""
    count, days, place = given["rating_count"], given["days_since_update"], given["best_place"]
    ratings = min(1.0, math.log10(1 + count) / 6)
    stars = min(1.0, max(0.0, (given["average_rating"] - 3) / 2)) if count else 0.0
    fresh = 0.0 if days is None else max(0.0, 1 - days / TWO_YEARS)
    chart = 0.0 if place is None else max(0.0, 1 - (place - 1) / 200)
    return half_up(45 * ratings + 25 * stars + 15 * fresh + 15 * chart)


def half_up(value: float, digits: int = 1) -> float:
    """Halves go up, as people expect."""
    scale: int = 10**digits
    return math.floor(value * scale + 0.5) / scale


def days_since(text: str | None, now: int) -> int | None:
    """Whole days since a date that Apple wrote."""
    if not text:
        return None
    try:
        then = datetime.fromisoformat(text).timestamp() * 1000
    except ValueError:
        return None
    return max(0, int(now - then) // DAY)


@part.task(queue="scout")
def evaluate(run: Run) -> None:
    """Score everything that was enriched since; what is enriched meanwhile starts this once more."""
    run.commit(lambda tx: score_waiting(tx, run.now))


def score_waiting(tx: Any, now: int) -> int:
    """Score what waits, by the rows as they are; how many."""
    rows = tx.read(WAITING, most=AT_ONCE)
    scored = [(row.track_id, inputs_of(row, now)) for row in rows]
    values = [
        {
            "id": id_,
            "agent": AGENT,
            "score": competitiveness(given),
            "given": json.dumps(given),
            "now": now,
        }
        for id_, given in scored
    ]
    if values:
        tx.write(
            "insert into scout_ledger (track_id, agent, score, inputs, at)"
            " values (:id, :agent, :score, :given, :now) on conflict (track_id, agent)"
            " do update set score = excluded.score, inputs = excluded.inputs, at = excluded.at",
            rows=values,
        )
        tx.write(
            "update scout_app set competitiveness_score = :score, evaluated_at = :now"
            " where track_id = :id",
            rows=[{"id": each["id"], "score": each["score"], "now": now} for each in values],
        )
    if len(rows) == AT_ONCE:
        tx.enqueue(evaluate.using(key="evaluate", when_running="again"))
    return len(rows)
