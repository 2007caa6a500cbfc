"""Four agents; each gets ids, reads the rows as they are now, and writes scores, ledger and the next event.

All of it is one commit, so an agent that dies has done nothing, and one that is told twice, or late, or in
another order, ends at the same scores. docs/agents.md has inputs, formulas and rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from systems.scout import chunks
from systems.scout.crawl.tiers import DAY
from systems.scout.economy.meter import metered
from systems.scout.evaluate import beliefs, events, formulas, ledger, markets
from systems.scout.evaluate.formulas import AGENTS, days_since, half_up

# Places of a keyword that count for its demand, and of which a concept looks at how strong they are.
FOUND, FIRST = 10, 5
CONCEPTS, CONSIDERED = 3, 20
# An app whose score has moved by less is no news to the keywords that find it.
NEWS = 1.0
MOST_NEWS = 200

_APPS = (
    "select a.track_id, a.average_rating, a.rating_count, a.updated_date, a.competitiveness_score,"
    " (select min(c.rank) from scout_chart c where c.track_id = a.track_id) as best"
    " from scout_app a where a.enriched_at is not null and a.enrichment_source <> 'failed'"
    " and a.track_id in ({these})"
)
_FOUND_BY = (
    "select distinct r.keyword from scout_ranking r"
    " join scout_cluster_keyword k on k.keyword = r.keyword"
    " where r.rank <= :lowest and r.track_id in ({these}) order by r.keyword limit :most"
)
_FOUND_FOR = (
    "select a.rating_count, a.competitiveness_score, a.average_rating, a.track_id, a.track_name,"
    " a.updated_date, r.rank from scout_ranking r join scout_app a on a.track_id = r.track_id"
    " where r.keyword = :keyword and r.rank <= :lowest order by r.rank"
)
_WANTED_MOST = (
    "select k.keyword, sum(a.rating_count) as ratings, min(w.last_searched_at) as searched"
    " from scout_cluster_keyword k join scout_keyword w on w.keyword = k.keyword"
    " join scout_ranking r on r.keyword = k.keyword and r.rank <= :lowest"
    " join scout_app a on a.track_id = r.track_id where k.cluster = :id"
    " group by k.keyword order by ratings desc, k.keyword limit :most"
)


def _lock(tx: Any, table: str, column: str, ids: Sequence[Any]) -> None:
    """Hold these rows until the commit, in one order for all, so that what is read stays true."""
    tx.write(
        f"update {table} set {column} = {column} where {column} = :id",  # noqa: S608 - our own names
        rows=[{"id": each} for each in sorted(set(ids))],
    )


# --- competitiveness


@metered("evaluate")
def competitiveness(tx: Any, track_ids: Iterable[int], now: int) -> int:
    """How strong these apps are; how many were scored. Keywords that find a changed one are told of."""
    wanted = sorted(set(track_ids))
    if not wanted:
        return 0
    _lock(tx, "scout_app", "track_id", wanted)
    rows = chunks.read(tx.read, _APPS, wanted)
    judged = [(row.track_id, *_strength(row, now)) for row in rows]
    ledger.write(tx, "app", "competitiveness", judged, now)
    chunks.write(
        tx,
        "update scout_app set competitiveness_score = :score, evaluated_at = :now"
        " where track_id = :id",
        [{"id": id_, "score": score, "now": now} for id_, score, _ in judged],
    )
    before = {row.track_id: row.competitiveness_score for row in rows}
    news = [id_ for id_, score, _ in judged if _is_news(before[id_], score)]
    found = chunks.read(tx.read, _FOUND_BY, news, lowest=FOUND, most=MOST_NEWS)
    events.ranked(tx, sorted({row.keyword for row in found})[:MOST_NEWS])
    return len(judged)


def _strength(row: Any, now: int) -> tuple[float, dict[str, Any]]:
    given = {
        "rating_count": row.rating_count,
        "average_rating": row.average_rating,
        "days_since_update": days_since(row.updated_date, now),
        "best_place": row.best,
    }
    return formulas.competitiveness(given), given


def _is_news(before: float | None, score: float) -> bool:
    return before is None or abs(score - before) >= NEWS


# --- demand


def demand(tx: Any, keywords: Iterable[str], now: int) -> int:
    """How much these keywords are wanted, and the clusters that they are in; how many clusters were found."""
    wanted = sorted(set(keywords))
    found = chunks.read(
        tx.read,
        "select keyword, last_searched_at from scout_keyword where keyword in ({these})",
        wanted,
    )
    judged = [(row.keyword, *_wanted(tx, row, now)) for row in found]
    ledger.write(tx, "keyword", "demand", judged, now)
    clusters = chunks.read(
        tx.read,
        "select distinct cluster from scout_cluster_keyword where keyword in ({these})",
        wanted,
    )
    ids = sorted({row.cluster for row in clusters})
    changed = _judge(tx, ids, ("demand",), now)
    events.ready(tx, [each for each, moved in changed.items() if moved])
    return len(changed)


def _wanted(tx: Any, row: Any, now: int) -> tuple[float, dict[str, Any]]:
    apps = tx.read(_FOUND_FOR, keyword=row.keyword, lowest=FOUND)
    given = {
        "ratings": sum(each.rating_count for each in apps),
        "searched_days": _days(row.last_searched_at, now),
        "apps": [each.track_id for each in apps],
    }
    return formulas.demand(given), given


# --- clusters


def _judge(tx: Any, ids: Sequence[str], names: Sequence[str], now: int) -> dict[str, bool]:
    """Bring these parts of clusters up to date; of those that are there, whether a score has changed."""
    _lock(tx, "scout_cluster", "id", ids)
    changed: dict[str, bool] = {}
    rows = chunks.read(tx.read, "select id, found_at from scout_cluster where id in ({these})", ids)
    for row in sorted(rows, key=lambda each: str(each.id)):
        known = markets.of_cluster(tx.read, row.id, now)
        given = {name: known[name] for name in names}
        before, after = markets.rescore(tx, row.id, given), markets.parts(given)
        for name in names:
            ledger.write(tx, "cluster", AGENTS[name], [(row.id, after[name], given[name])], now)
            beliefs.observe(tx, row.id, name, after[name], row.found_at)
        changed[row.id] = before is not None and any(before[name] != after[name] for name in names)
    return changed


def fragmentation(tx: Any, cluster_ids: Iterable[str], now: int) -> int:
    """How strong the leaders of these clusters are, and what they leave to others; how many clusters."""
    wanted = sorted(set(cluster_ids))
    analysed = _judge(tx, wanted, ("competition", "fragmentation"), now)
    events.fragmented(tx, sorted(analysed))
    return len(analysed)


def design(tx: Any, cluster_ids: Iterable[str], now: int) -> int:
    """How well people are served in these clusters, and what could be made there; how many concepts."""
    judged = _judge(tx, sorted(set(cluster_ids)), ("design",), now)
    return sum(_sketch(tx, each, now) for each in sorted(judged))


def _sketch(tx: Any, cluster: str, now: int) -> int:
    """The concepts of a cluster instead of those before."""
    words = tx.read(_WANTED_MOST, id=cluster, lowest=FOUND, most=CONSIDERED)
    concepts = sorted(
        (each for row in words if (each := _concept(tx, row, now))),
        key=lambda each: (-each["score"], each["keyword"]),
    )[:CONCEPTS]
    tx.write("delete from scout_concept where cluster = :id", id=cluster)
    chunks.write(
        tx,
        "insert into scout_concept (cluster, keyword, place, score, text, inputs, at)"
        " values (:cluster, :keyword, :place, :score, :text, :inputs, :at)",
        [
            {**each, "cluster": cluster, "place": place, "at": now}
            for place, each in enumerate(concepts, start=1)
        ],
    )
    return len(concepts)


def _concept(tx: Any, row: Any, now: int) -> dict[str, Any] | None:
    """A keyword as an idea: wanted, and the apps that are found first are weak."""
    first = tx.read(_FOUND_FOR, keyword=row.keyword, lowest=FIRST)
    rated = [each for each in first if each.competitiveness_score is not None]
    if not rated:
        return None
    given = {"ratings": int(row.ratings), "searched_days": _days(row.searched, now)}
    wanted = formulas.demand(given)
    strength = half_up(sum(each.competitiveness_score for each in rated) / len(rated))
    worst = min(rated, key=lambda each: (each.average_rating, each.track_id))
    text = (
        f"“{row.keyword}”: demand {wanted:g} of 100, and the {len(rated)} apps that are found first"
        f" have a mean strength of {strength:g}; “{worst.track_name}” is one of them with"
        f" {worst.average_rating:.1f} stars"
    )
    inputs = {**given, "strength": strength, "apps": [each.track_id for each in rated]}
    score = formulas.concept(inputs)
    return {"keyword": row.keyword, "score": score, "text": text, "inputs": json.dumps(inputs)}


def _days(at: int | None, now: int) -> int | None:
    return None if at is None else max(0, now - at) // DAY
