"""What agents remember of a cluster: a belief that each run confirms or contradicts, and that fades.

    faded      = confidence * 0.5 ** (days since the last run that it saw / 30)
    confirmed  : faded + 0.3 * (1 - faded)
    denied     : faded * 0.5

From 0.8 on, five runs in a row at least, it is a core belief; below 0.4 it is none any more. A run counts
once, however often it is looked at: the last look at it is the one that counts.
"""

from __future__ import annotations

from typing import Any

from systems.scout.crawl.tiers import DAY
from systems.scout.evaluate.formulas import AGENTS, half_up

HIGH = 50
HALF_LIFE = 30
STEP, DENIED = 0.3, 0.5
CORE, NO_MORE = 0.8, 0.4
# What a part says when it is high.
BELIEFS = {
    "demand": "many people want this",
    "competition": "the leaders are weak",
    "fragmentation": "no three apps hold the market",
    "design": "people are not served well",
}


def confidence(before: float, days: float, *, holds: bool) -> float:
    """How sure an agent is after one more run."""
    faded: float = before * 0.5 ** (max(0.0, days) / HALF_LIFE)
    return half_up(faded + STEP * (1 - faded) if holds else faded * DENIED, 4)


def observe(tx: Any, cluster: str, part: str, score: float, run_at: int) -> float:
    """One look at a part's score of a run; how sure its agent is now."""
    agent, belief, holds = AGENTS[part], BELIEFS[part], score >= HIGH
    rows = tx.read(
        "select * from scout_agent_memory where subject = :id and agent = :agent",
        id=cluster,
        agent=agent,
    )
    known = rows[0] if rows else None
    if known is None:
        base, base_at, runs = 0.0, run_at, 1
    elif known.run_at >= run_at:
        base, base_at, runs, run_at = known.base, known.base_at, known.runs, known.run_at
    else:
        base, base_at, runs = known.confidence, known.run_at, known.runs + 1
    sure = confidence(base, (run_at - base_at) / DAY, holds=holds)
    tx.write(
        "insert into scout_agent_memory (subject, agent, belief, holds, confidence, runs, base,"
        " base_at, first_at, run_at) values (:id, :agent, :belief, :holds, :sure, :runs, :base,"
        " :base_at, :at, :at) on conflict (subject, agent) do update set"
        " holds = excluded.holds, confidence = excluded.confidence, runs = excluded.runs,"
        " base = excluded.base, base_at = excluded.base_at, run_at = excluded.run_at",
        id=cluster,
        agent=agent,
        belief=belief,
        holds=int(holds),
        sure=sure,
        runs=runs,
        base=base,
        base_at=base_at,
        at=run_at,
    )
    _promote(tx, cluster, agent, belief, sure, run_at)
    return sure


def _promote(tx: Any, cluster: str, agent: str, belief: str, sure: float, at: int) -> None:
    if sure >= CORE:
        tx.write(
            "insert into scout_core_belief (subject, agent, belief, confidence, since)"
            " values (:id, :agent, :belief, :sure, :at) on conflict (subject, agent)"
            " do update set confidence = excluded.confidence",
            id=cluster,
            agent=agent,
            belief=belief,
            sure=sure,
            at=at,
        )
    elif sure < NO_MORE:
        tx.write(
            "delete from scout_core_belief where subject = :id and agent = :agent",
            id=cluster,
            agent=agent,
        )
    else:
        tx.write(
            "update scout_core_belief set confidence = :sure where subject = :id and agent = :agent",
            id=cluster,
            agent=agent,
            sure=sure,
        )


def forget(tx: Any, cluster: str) -> None:
    """A cluster that is there no more is believed nothing of."""
    for table in ("scout_agent_memory", "scout_core_belief"):
        tx.write(f"delete from {table} where subject = :id", id=cluster)  # noqa: S608 - one of two
