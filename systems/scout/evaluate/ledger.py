"""The ledger: the latest score of each agent about each subject, its inputs, and the score before."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from systems.scout import chunks

# The score before is kept when the new one is another; the same one again changes nothing but the time.
_LATER = (
    " previous = case when excluded.score <> {it}.score then {it}.score else {it}.previous end,"
    " previous_at = case when excluded.score <> {it}.score then {it}.at else {it}.previous_at end,"
    " score = excluded.score, inputs = excluded.inputs, at = excluded.at"
)
_NEW_APP = (
    "insert into scout_ledger (track_id, agent, score, inputs, at)"
    " values (:subject, :agent, :score, :inputs, :at) on conflict (track_id, agent) do update set"
)
_NEW_OTHER = (
    "insert into scout_agent_ledger (kind, subject, agent, score, inputs, at)"
    " values (:kind, :subject, :agent, :score, :inputs, :at)"
    " on conflict (kind, subject, agent) do update set"
)
_APPS = _NEW_APP + _LATER.format(it="scout_ledger")
_OTHERS = _NEW_OTHER + _LATER.format(it="scout_agent_ledger")

_OF_APP = (
    "select agent, score, inputs, at from scout_ledger where track_id = :subject order by agent"
)
_OF_OTHER = (
    "select agent, score, inputs, at from scout_agent_ledger"
    " where kind = :kind and subject = :subject order by agent"
)

# A subject, its score and what that was computed from.
Judged = tuple[Any, float, dict[str, Any]]


def write(to: Any, kind: str, agent: str, judged: Iterable[Judged], now: int) -> None:
    """Rows of one agent about apps, keywords or clusters."""
    shared: dict[str, Any] = {"agent": agent, "at": now}
    if kind != "app":
        shared["kind"] = kind
    rows = [
        {"subject": subject, "score": score, "inputs": json.dumps(inputs), **shared}
        for subject, score, inputs in judged
    ]
    chunks.write(to, _APPS if kind == "app" else _OTHERS, rows)


def about(
    read: Callable[..., list[Any]], kind: str, subject: Any
) -> list[tuple[str, float, dict[str, Any], int]]:
    """What every agent says of one app, keyword or cluster: who, its score, the inputs, when."""
    which = {"subject": subject} if kind == "app" else {"kind": kind, "subject": subject}
    rows = read(_OF_APP if kind == "app" else _OF_OTHER, **which)
    return [(row.agent, row.score, json.loads(row.inputs), row.at) for row in rows]
