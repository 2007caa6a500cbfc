"""The inputs of a cluster's four scores, from its members as rows or as they are in memory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from systems.scout.crawl.tiers import DAY
from systems.scout.evaluate import formulas
from systems.scout.evaluate.formulas import AGENTS, days_since, half_up

LEADERS, GIANTS = 10, 3

_LEADERS = (
    "select a.track_id, a.rating_count, a.average_rating, a.competitiveness_score, a.updated_date"
    " from scout_cluster_app c join scout_app a on a.track_id = c.track_id"
    " where c.cluster = :id and a.competitiveness_score is not null"
    " order by a.rating_count desc, a.track_id limit :most"
)
_RATINGS = (
    "select sum(a.rating_count) as ratings from scout_cluster_app c"
    " join scout_app a on a.track_id = c.track_id"
    " where c.cluster = :id and a.competitiveness_score is not null"
)
_SEARCHED = (
    "select sum(w.last_searched_at) as times, count(*) as n from scout_cluster_keyword k"
    " join scout_keyword w on w.keyword = k.keyword"
    " where k.cluster = :id and w.last_searched_at is not null"
)


@dataclass(frozen=True, slots=True)
class Member:
    """What a score needs of an app."""

    id: int
    ratings: int
    stars: float
    strength: float
    days: int | None


def member(row: Any, now: int) -> Member:
    """A row of an app that was scored."""
    days = days_since(row.updated_date, now)
    strength = row.competitiveness_score
    return Member(row.track_id, row.rating_count, row.average_rating, strength, days)


def inputs(
    leaders: Sequence[Member], ratings: int, searched_days: int | None
) -> dict[str, dict[str, Any]]:
    """What each part is computed from."""
    ids = [each.id for each in leaders]
    giants = sum(each.ratings for each in leaders[:GIANTS])
    return {
        "demand": {"ratings": ratings, "searched_days": searched_days},
        "competition": {"leaders": ids, "strengths": [each.strength for each in leaders]},
        "fragmentation": {"ratings": ratings, "of_the_three_largest": giants, "largest": ids[:3]},
        "design": {
            "leaders": ids,
            "stars": [each.stars for each in leaders],
            "days": [each.days for each in leaders],
        },
    }


def parts(given: dict[str, dict[str, Any]]) -> dict[str, float]:
    """The scores of some parts."""
    return {
        name: formulas.recompute("cluster", AGENTS[name], values) for name, values in given.items()
    }


def summary(given: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The inputs of some parts in a few words, as they stand with the cluster."""
    found: dict[str, Any] = {}
    if mine := given.get("demand"):
        found |= {"ratings": mine["ratings"], "searched_days": mine["searched_days"]}
    if mine := given.get("competition"):
        strengths = mine["strengths"]
        mean = half_up(sum(strengths) / len(strengths), 2) if strengths else 0.0
        found |= {"leaders": mine["leaders"], "mean_strength": mean}
    if mine := given.get("fragmentation"):
        found |= {"of_the_three_largest": mine["of_the_three_largest"]}
    if mine := given.get("design"):
        found["leaders_below_four_stars"] = formulas.unhappy(mine["stars"])
        found["leaders_not_updated_for_a_year"] = formulas.stale(mine["days"])
    return found


def scores(
    members: Sequence[Member], searched_days: int | None = 0
) -> tuple[dict[str, float], dict[str, Any], dict[str, dict[str, Any]]]:
    """The four scores with their sum, the inputs in short, and the inputs of each part."""
    known = sorted(members, key=lambda each: (-each.ratings, each.id))
    given = inputs(known[:LEADERS], sum(each.ratings for each in known), searched_days)
    found = parts(given)
    return {**found, "score": formulas.total(found)}, summary(given), given


def mean_days(times: int, count: int, now: int) -> int | None:
    """Whole days since the mean of so many moments."""
    return None if not count else max(0, now - times // count) // DAY


def of_cluster(read: Any, cluster: str, now: int) -> dict[str, dict[str, Any]]:
    """The inputs of a cluster as its rows are now."""
    leaders = [member(row, now) for row in read(_LEADERS, id=cluster, most=LEADERS)]
    ratings = int(read(_RATINGS, id=cluster)[0].ratings or 0)
    row = read(_SEARCHED, id=cluster)[0]
    return inputs(leaders, ratings, mean_days(int(row.times or 0), row.n, now))


def rescore(tx: Any, cluster: str, given: dict[str, dict[str, Any]]) -> dict[str, float] | None:
    """Write some parts of a cluster, and the sum; the scores before, None if it is there no more.

    The row was locked by whoever calls, so that no other agent changes another part meanwhile.
    """
    rows = tx.read("select * from scout_cluster where id = :id", id=cluster)
    if not rows:
        return None
    before = {name: getattr(rows[0], name) for name in formulas.WEIGHTS}
    after = {**before, **parts(given)}
    tx.write(
        "update scout_cluster set demand = :demand, competition = :competition,"
        " fragmentation = :fragmentation, design = :design, score = :score, inputs = :inputs"
        " where id = :id",
        id=cluster,
        score=formulas.total(after),
        inputs=json.dumps({**json.loads(rows[0].inputs), **summary(given)}),
        **after,
    )
    return before
