"""Debates for people and programs: a transcript while it grows, and what followed from it."""

from __future__ import annotations

import json
from typing import Any

from duework import NotFound, Template
from systems.scout.desk import shown
from systems.scout.part import part

NEWEST = (
    "select * from scout_debate_report where cluster = :cluster"
    " order by started_at desc, id desc limit 1"
)


def debate(cluster: str) -> dict[str, Any]:
    """The newest debate about a cluster, decided or not, with every message so far."""
    rows = part.app.read(NEWEST, cluster=cluster)
    if not rows:
        raise NotFound(f"there is no debate about {cluster}")
    found = rows[0]._asdict()
    said = part.app.read(
        "select who, analyst, why, claims, at from scout_debate_message where debate = :id"
        " order by place",
        id=found["id"],
    )
    return {
        **found,
        "id": str(found["id"]),
        "parts": json.loads(found["parts"]),
        "facts": json.loads(found["facts"]),
        "messages": [{**row._asdict(), "claims": json.loads(row.claims)} for row in said],
        **follows(cluster),
    }


def follows(cluster: str) -> dict[str, Any]:
    """What the last decided debate led to."""

    def rows(table: str, columns: str, order: str) -> list[dict[str, Any]]:
        sql = f"select {columns} from {table} where cluster = :cluster order by {order}"  # noqa: S608 - ours
        return [_read(row._asdict()) for row in part.app.read(sql, cluster=cluster)]

    return {
        "evaluations": rows(
            "scout_opportunity_evaluation", "agent, score, verdict, inputs, at", "agent"
        ),
        "reference_apps": rows("scout_opportunity_reference_app", "track_id, place, why", "place"),
        "method_scores": rows(
            "scout_opportunity_method_score", "method, score, inputs", "score desc, method"
        ),
        "tips": rows("scout_market_tip", "place, text, facts", "place"),
    }


def _read(row: dict[str, Any]) -> dict[str, Any]:
    as_json = {"inputs", "facts"}
    return {name: json.loads(value) if name in as_json else value for name, value in row.items()}


@part.route("/v1/debates/{cluster}")
def show_debate(cluster: str) -> dict[str, Any]:
    return debate(cluster)


@part.page("/debates/{cluster}", live=("jobs",))
def page(cluster: str) -> Template:
    return shown.page("debate.html", "opportunities", it=debate(cluster))
