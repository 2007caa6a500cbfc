"""The first step of a debate: the rows of a cluster as facts, each with where it comes from."""

from __future__ import annotations

import json
from typing import Any

from systems.scout.evaluate.formulas import WEIGHTS
from systems.scout.opportunity import analyst

LEADERS, WORDS = 10, 50


def gather(run: Any, cluster: str) -> dict[str, Any] | None:
    """Everything that the speakers may know; None if the cluster is there no more."""
    rows = run.read("select * from scout_cluster where id = :id", id=cluster)
    if not rows:
        return None
    row, inputs = rows[0], json.loads(rows[0].inputs)
    leaders = run.read(
        "select a.track_id, a.track_name, a.average_rating, a.rating_count, a.price,"
        " a.competitiveness_score, a.first_seen_at,"
        " (select min(c.rank) from scout_chart c where c.track_id = a.track_id) as best"
        " from scout_app a join scout_cluster_app c on c.track_id = a.track_id"
        " where c.cluster = :id order by a.rating_count desc, a.track_id limit :most",
        id=cluster,
        most=LEADERS,
    )
    words = run.read(
        "select k.keyword, r.track_id, a.competitiveness_score as strength"
        " from scout_cluster_keyword k left join scout_keyword w on w.keyword = k.keyword"
        " left join scout_ranking r on r.keyword = k.keyword and r.rank = 1"
        " left join scout_app a on a.track_id = r.track_id where k.cluster = :id"
        " order by w.app_count desc, k.keyword limit :most",
        id=cluster,
        most=WORDS,
    )
    parts = {name: getattr(row, name) for name in (*WEIGHTS, "score")}
    return {
        "name": row.name,
        "parts": parts,
        "facts": [*analyst.facts(row, inputs, leaders, words), *_complaints(run, leaders)],
        "leaders": [_leader(each) for each in leaders],
        "words": [
            {"keyword": each.keyword, "first": each.track_id, "strength": each.strength}
            for each in words
        ],
    }


def _complaints(run: Any, leaders: list[Any]) -> list[dict[str, Any]]:
    """How many of the reviews that are known of the leaders have one or two stars."""
    apps, bad, known = [], 0, 0
    for each in leaders:
        [row] = run.read(
            "select count(*) as n, coalesce(sum(case when rating <= 2 then 1 else 0 end), 0) as bad"
            " from scout_review where track_id = :id",
            id=each.track_id,
        )
        known, bad = known + int(row.n), bad + int(row.bad)
        if row.bad:
            apps.append(each.track_id)
    text = f"{bad:,} of {known:,} reviews of the leaders have one or two stars"
    return [analyst.fact("design", text, apps)] if bad else []


def _leader(row: Any) -> dict[str, Any]:
    return {
        "id": row.track_id,
        "stars": row.average_rating,
        "ratings": row.rating_count,
        "price": row.price,
        "strength": row.competitiveness_score,
        "best_place": row.best,
    }
