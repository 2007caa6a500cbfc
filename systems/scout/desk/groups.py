"""Clusters: the list by score, and one with its apps, its keywords and what its score was computed from."""

from __future__ import annotations

import json
from typing import Any

from duework import NotFound, UsageError
from systems.scout.evaluate import ledger
from systems.scout.part import part

PAGE, SHOWN = 50, 100


def listed(after: str = "") -> tuple[list[Any], str | None]:
    """A page of clusters, the best first, and where the next one begins."""
    score, id_ = 1e9, ""
    if after:
        at, _, id_ = after.partition(":")
        try:
            score = float(at)
        except ValueError:
            raise UsageError("`after` is the end of a page before: take its link") from None
    rows = part.app.read(
        "select * from scout_cluster where score <= :score and (score < :score or id > :id)"
        " order by score desc, id limit :most",
        score=score,
        id=id_,
        most=PAGE + 1,
    )
    last = rows[PAGE - 1] if len(rows) > PAGE else None
    return rows[:PAGE], f"{last.score!r}:{last.id}" if last else None


def one(cluster: str) -> dict[str, Any]:
    """A cluster with its best known apps and its keywords."""
    read = part.app.read
    rows = read("select * from scout_cluster where id = :id", id=cluster)
    if not rows:
        raise NotFound(f"there is no cluster {cluster}")
    return {
        "it": rows[0],
        "inputs": json.loads(rows[0].inputs),
        "apps": leaders(cluster, SHOWN),
        "words": read(
            "select k.keyword, w.status, w.app_count from scout_cluster_keyword k"
            " left join scout_keyword w on w.keyword = k.keyword where k.cluster = :id"
            " order by k.keyword limit :most",
            id=cluster,
            most=SHOWN,
        ),
        "ledger": ledger.about(read, "cluster", cluster),
        "near": read(
            "select c.id, c.name, r.share from scout_cluster_relation r"
            " join scout_cluster c on c.id = r.other where r.cluster = :id"
            " order by r.share desc, c.id limit 10",
            id=cluster,
        ),
        "lineage": read(
            "select l.at, l.event, l.other, c.name from scout_cluster_lineage l"
            " left join scout_cluster c on c.id = l.other where l.cluster = :id"
            " order by l.at desc, l.event limit 20",
            id=cluster,
        ),
        "concepts": read(
            "select keyword, score, text from scout_concept where cluster = :id order by place",
            id=cluster,
        ),
        "beliefs": read(
            "select agent, belief, holds, confidence, runs from scout_agent_memory"
            " where subject = :id order by agent",
            id=cluster,
        ),
        "judged": bool(
            read("select 1 as x from scout_opportunity where cluster = :id", id=cluster)
        ),
    }


def history(cluster: str) -> dict[str, list[tuple[int, float]]]:
    """Its scores, run by run."""
    rows = part.app.read(
        "select * from scout_cluster_snapshot where cluster = :id order by at desc limit 200",
        id=cluster,
    )
    names = ("score", "demand", "competition", "fragmentation", "design")
    return {name: [(row.at, getattr(row, name)) for row in rows][::-1] for name in names if rows}


def leaders(cluster: str, most: int) -> list[Any]:
    """Its best known apps."""
    return part.app.read(
        "select a.track_id, a.track_name, a.seller_name, a.rating_count, a.average_rating,"
        " a.formatted_price, a.competitiveness_score, a.updated_date, a.track_view_url"
        " from scout_cluster_app m join scout_app a on a.track_id = m.track_id"
        " where m.cluster = :id order by a.rating_count desc, a.track_id limit :most",
        id=cluster,
        most=most,
    )
