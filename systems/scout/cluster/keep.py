"""Members of clusters into their tables, one cluster at a time, and what follows when all are there.

An app or keyword of a cluster above 70 points goes before others: its priority is raised once, by a fixed
step, and lowered again when the cluster cools down or loses it. So nothing adds up from run to run.
"""

from __future__ import annotations

from typing import Any

from duework import Run
from systems.scout import chunks
from systems.scout.cluster.reading import LOWEST_RANK
from systems.scout.economy.meter import metered
from systems.scout.evaluate import beliefs, events
from systems.scout.evaluate.consumers import evaluate
from systems.scout.opportunity import ask_for
from systems.scout.part import JUDGING, part

HOT = 70
APP_STEP, APP_MOST = 10, 100
KEYWORD_STEP, KEYWORD_MOST = 5, 50
# How many clusters agents are told of, and how many are debated.
TOLD, DEBATED = 200, 20

_NEWER = "select 1 as x from scout_cluster_run where at > :at limit 1"
# Apps that are found for the cluster's keywords and that nobody has looked at yet come with its members.
_HOT_APPS = (
    "update scout_app set enrich_priority = enrich_priority + :step, boost = :step,"
    " boosted_by = :id where boosted_by is null and enrich_priority < :most and track_id in ("
    " select r.track_id from scout_cluster_keyword k join scout_ranking r on r.keyword = k.keyword"
    " where k.cluster = :id and r.rank <= :lowest"
    " union select track_id from scout_cluster_app where cluster = :id)"
)
# Keywords of the cluster, and those that came from them and wait to be searched for.
_HOT_KEYWORDS = (
    "update scout_keyword set priority = priority + :step, boost = :step, boosted_by = :id"
    " where boosted_by is null and priority < :most and keyword in ("
    " select keyword from scout_cluster_keyword where cluster = :id"
    " union select w.keyword from scout_cluster_keyword k"
    " join scout_keyword w on w.source_keyword = k.keyword and w.status = 'pending'"
    " where k.cluster = :id)"
)
_COLD_APPS = (
    "update scout_app set enrich_priority = enrich_priority - boost, boost = 0, boosted_by = null"
    " where boosted_by = :id"
)
# A cluster whose members could not be stored has none in its state: agents would judge an empty market.
_BEST = (
    "select c.id from scout_cluster c where not exists (select 1 from scout_cluster_state s"
    " where s.cluster = c.id and s.members = '') order by c.score desc, c.id limit :most"
)
_COLD_KEYWORDS = (
    "update scout_keyword set priority = priority - boost, boost = 0, boosted_by = null"
    " where boosted_by = :id"
)


@part.task(queue=JUDGING, retries=5, backoff=("1s", "10s", "1m"))
def keep(run: Run, at: int, wanted: dict[str, Any]) -> None:
    """Store one cluster's members; nothing if a newer run has made other ones."""
    run.commit(lambda tx: stored(tx, at, wanted))


@metered("cluster")
def stored(tx: Any, at: int, wanted: dict[str, Any]) -> bool:
    """Only what differs is written; whether anything was to be."""
    if tx.read(_NEWER, at=at):
        return False
    id_ = wanted["id"]
    _differ(tx, "scout_cluster_app", "track_id", id_, wanted["apps"])
    _differ(tx, "scout_cluster_keyword", "keyword", id_, wanted["words"])
    reprioritise(tx, at, id_, hot=wanted["hot"])
    if wanted["words"]:
        tx.write(
            "insert into scout_cluster_state (cluster, members, hot, overlap, born_at)"
            " values (:id, :members, :hot, :overlap, :at) on conflict (cluster) do update set"
            " members = excluded.members, hot = excluded.hot, overlap = excluded.overlap",
            id=id_,
            members=wanted["members"],
            hot=int(wanted["hot"]),
            overlap=wanted["overlap"],
            at=at,
        )
    else:
        forget(tx, id_)
    return True


@keep.settled
def not_kept(tx: Any, job: Any, outcome: str) -> None:
    """Members that could not be stored: nobody is told of the cluster, and the next run stores them."""
    at = job.arguments["at"]
    if outcome != "done" and not tx.read(_NEWER, at=at):
        tx.write(
            "insert into scout_cluster_state (cluster, members, hot, overlap, born_at)"
            " values (:id, '', 0, 0, :at) on conflict (cluster) do update set members = ''",
            id=job.arguments["wanted"]["id"],
            at=at,
        )


def _differ(tx: Any, table: str, column: str, cluster: str, wanted: list[Any]) -> None:
    rows = tx.read(f"select {column} as it from {table} where cluster = :id", id=cluster)  # noqa: S608 - our own names
    before, after = {row.it for row in rows}, set(wanted)
    chunks.write(
        tx,
        f"delete from {table} where cluster = :id and {column} = :it",  # noqa: S608
        [{"id": cluster, "it": each} for each in sorted(before - after)],
    )
    chunks.write(
        tx,
        f"insert into {table} (cluster, {column}) values (:id, :it)",  # noqa: S608
        [{"id": cluster, "it": each} for each in sorted(after - before)],
    )


def forget(tx: Any, cluster: str) -> None:
    """Of a cluster that is there no more only its past is kept."""
    for table in ("scout_cluster_state", "scout_concept"):
        tx.write(f"delete from {table} where cluster = :id", id=cluster)  # noqa: S608 - one of two
    tx.write("delete from scout_agent_ledger where kind = 'cluster' and subject = :id", id=cluster)
    beliefs.forget(tx, cluster)


def reprioritise(tx: Any, at: int, cluster: str, *, hot: bool) -> tuple[int, int]:
    """Set what a cluster adds to the priority of its apps and keywords; how many have it now."""
    tx.write(_COLD_APPS, id=cluster)
    tx.write(_COLD_KEYWORDS, id=cluster)
    if not hot:
        return 0, 0
    raised = {"id": cluster, "step": APP_STEP, "most": APP_MOST, "lowest": LOWEST_RANK}
    apps = tx.write(_HOT_APPS, **raised).changed
    words = tx.write(_HOT_KEYWORDS, id=cluster, step=KEYWORD_STEP, most=KEYWORD_MOST).changed
    tx.write(
        "update scout_cluster_run set apps_boosted = apps_boosted + :apps,"
        " keywords_boosted = keywords_boosted + :words where at = :at",
        apps=apps,
        words=words,
        at=at,
    )
    return apps, words


@part.task(queue=JUDGING, retries=5, backoff=("1s", "10s", "1m"))
def announce(run: Run) -> None:
    """Nothing is left to store: tell the agents of the best clusters, and ask for a debate about a few."""
    run.commit(lambda tx: told(tx, run.now))


def told(tx: Any, now: int) -> dict[str, Any]:
    """What came of the run, and who was told."""
    rows = tx.read("select * from scout_cluster_run order by at desc limit 1")
    if rows:
        tx.write("update scout_cluster_run set stored_at = :now where stored_at is null", now=now)
    ids = [row.id for row in tx.read(_BEST, most=TOLD)]
    events.ready(tx, ids)
    ask_for(tx, ids[:DEBATED])
    tx.enqueue(evaluate.using(key="evaluate", when_running="again"))
    said = ("clusters", "born", "ended", "apps_boosted", "keywords_boosted")
    return {"told": len(ids), **({name: getattr(rows[0], name) for name in said} if rows else {})}
