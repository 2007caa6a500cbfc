"""The fourth stage: every six hours, in a process of its own with a budget, without a call to anybody.

What a run finds out about its clusters is one commit with its end; their members follow in small commits, one
for each cluster, and when the last is there, agents and the debate are told (`keep.py`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from duework import Run, Snooze
from systems.scout import chunks
from systems.scout.cluster import graph as graphs
from systems.scout.cluster import identity, keep, making, reading
from systems.scout.cluster.making import Cluster, Made
from systems.scout.crawl.tiers import DAY
from systems.scout.evaluate import ledger
from systems.scout.evaluate.formulas import AGENTS, WEIGHTS
from systems.scout.part import JUDGING, part

KEEP_DAYS = 90
# A run whose members are not stored by then is waited for no longer.
PATIENCE = 900_000
BUDGET: dict[str, Any] = {
    "isolation": "process",
    "cpu_seconds": 600,
    "memory_mb": 4096,
    "timeout": "30m",
    "concurrency": 1,
}


def nothing_new(run: Run) -> bool:
    """Whether no app has been scored since the last run."""
    last = run.read("select max(at) as at from scout_cluster_run")[0].at or 0
    return not run.read("select 1 as x from scout_app where evaluated_at > :at limit 1", at=last)


@part.task(
    cron="0 */6 * * *",
    idle=nothing_new,
    queue=JUDGING,
    owner="scout",
    why="markets move in days; four times a day is soon enough",
    **BUDGET,
)
def cluster(run: Run) -> int | Snooze:
    """Group what was found, recognise what was there before, score it."""
    now = run.now
    if _being_stored(run, now):
        return Snooze("1m")
    found = reading.Rankings(run.read)
    graph = graphs.build(found)
    members = reading.members(run.read, set(graph.apps), now)
    made = making.make(graph, members, found.searched, reading.known(run.read), now)
    store(run, made, found.count, now)
    return len(made.clusters)


def _being_stored(run: Run, now: int) -> bool:
    """Whether the members of the last run are still on their way; one that never ends is not waited for."""
    return bool(
        run.read(
            "select 1 as x from scout_cluster_run where stored_at is null and at > :since limit 1",
            since=now - PATIENCE,
        )
    )


def store(run: Any, made: Made, rankings: int, now: int) -> None:
    """Everything but the members, which are stored by jobs of their own."""
    found = made.clusters
    ended = [each for each in made.history if each.event in {"merged", "ended"}]
    run.write(
        "insert into scout_cluster_run (at, keywords, rankings, clusters, born, ended, quality)"
        " values (:at, :keywords, :rankings, :clusters, :born, :ended, :quality)"
        " on conflict (at) do nothing",
        at=now,
        keywords=made.keywords,
        rankings=rankings,
        clusters=len(found),
        born=len(made.history) - len(ended),
        ended=len(ended),
        quality=made.quality,
    )
    chunks.write(
        run, "delete from scout_cluster where id = :id", [{"id": e.cluster} for e in ended]
    )
    _clusters(run, found, now)
    _past(run, made, now)
    _relations(run, found)
    for name, agent in AGENTS.items():
        judged = [(each.id, each.parts[name], each.given[name]) for each in found]
        ledger.write(run, "cluster", agent, judged, now)
    items = _members(run, found, [each.cluster for each in ended], now)
    if items:
        run.batch(keep.keep, items, then=keep.announce)
    else:
        run.enqueue(keep.announce)


def _clusters(run: Any, found: Sequence[Cluster], now: int) -> None:
    chunks.write(
        run,
        "insert into scout_cluster (id, name, apps, keywords, demand, competition, fragmentation,"
        " design, score, inputs, found_at) values (:id, :name, :apps, :keywords, :demand,"
        " :competition, :fragmentation, :design, :score, :inputs, :now) on conflict (id) do update"
        " set name = excluded.name, apps = excluded.apps, keywords = excluded.keywords,"
        " demand = excluded.demand, competition = excluded.competition,"
        " fragmentation = excluded.fragmentation, design = excluded.design,"
        " score = excluded.score, inputs = excluded.inputs, found_at = excluded.found_at",
        [
            {**_row(each), "id": each.id, "inputs": json.dumps(each.inputs), "now": now}
            for each in found
        ],
    )


def _row(each: Cluster) -> dict[str, Any]:
    sizes = {"apps": len(each.apps), "keywords": len(each.words)}
    return {"name": each.name, **sizes, **{name: each.parts[name] for name in (*WEIGHTS, "score")}}


def _past(run: Any, made: Made, now: int) -> None:
    """Snapshots and history; what is older than 90 days goes."""
    chunks.write(
        run,
        "insert into scout_cluster_snapshot (cluster, at, name, apps, keywords, demand,"
        " competition, fragmentation, design, score, overlap) values (:cluster, :at, :name, :apps,"
        " :keywords, :demand, :competition, :fragmentation, :design, :score, :overlap)",
        [
            {**_row(each), "cluster": each.id, "at": now, "overlap": round(each.overlap, 4)}
            for each in made.clusters
        ],
    )
    chunks.write(
        run,
        "insert into scout_cluster_lineage (cluster, at, event, other, overlap)"
        " values (:cluster, :at, :event, :other, :overlap)",
        [
            {
                "cluster": e.cluster,
                "at": now,
                "event": e.event,
                "other": e.other,
                "overlap": e.overlap,
            }
            for e in made.history
        ],
    )
    run.write("delete from scout_cluster_snapshot where at < :old", old=now - KEEP_DAYS * DAY)
    run.write("delete from scout_cluster_run where at < :old", old=now - KEEP_DAYS * DAY)


def _relations(run: Any, found: Sequence[Cluster]) -> None:
    run.write("delete from scout_cluster_relation")
    chunks.write(
        run,
        "insert into scout_cluster_relation (cluster, other, share) values (:id, :other, :share)",
        [
            {"id": each.id, "other": other, "share": share}
            for each in found
            for other, share in each.near
        ],
    )


def _members(
    run: Any, found: Sequence[Cluster], ended: Sequence[str], now: int
) -> list[tuple[int, dict[str, Any]]]:
    """What is to be stored of each cluster whose members, or what they are worth, have changed."""
    before = reading.states(run.read)
    items: list[tuple[int, dict[str, Any]]] = []
    for each in found:
        hot, members = each.score > keep.HOT, identity.digest(each.words, each.apps)
        state = before.get(each.id)
        same = state is not None and (state.members, bool(state.hot)) == (members, hot)
        if not same or hot:
            wanted = {"id": each.id, "words": each.words, "apps": each.apps, "hot": hot}
            items.append((now, {**wanted, "members": members, "overlap": round(each.overlap, 4)}))
    gone = {"words": [], "apps": [], "hot": False, "members": "", "overlap": 0.0}
    # And those that ended in a run which could not take them away.
    left = {*ended, *before} - {each.id for each in found}
    return [*items, *((now, {"id": id_, **gone}) for id_ in sorted(left))]
