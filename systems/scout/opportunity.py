"""The fifth stage: a debate about a cluster, in four steps, of which each is committed before the next.

facts → bull → bear → judge. A step that is cut short is done again from what the last one left; the judge's
step stores facts, transcript and verdict together.
"""

from __future__ import annotations

import json
from typing import Any

from duework import Cancel, End, Next, Page
from systems.scout import analyst
from systems.scout.part import part

LEADERS = 10
WEIGHTS = {"demand": 0.35, "competition": 0.25, "fragmentation": 0.2, "design": 0.2}


@part.chain(key="cluster:{cluster}", queue="scout", retries=3, backoff=("10s", "1m", "5m"))
async def opportunity(page: Page, cluster: str) -> Next | End | Cancel:
    """One step; the cursor is everything that was said so far."""
    said: dict[str, Any] = page.cursor or {}
    if not said:
        gathered = gather(page.run, cluster)
        return Next(cursor=gathered) if gathered else Cancel("the cluster is there no more")
    parts, known = said["parts"], said["facts"]
    if "bull" not in said:
        return Next(cursor={**said, "bull": analyst.bull(parts, known)})
    if "bear" not in said:
        return Next(cursor={**said, "bear": analyst.bear(parts, known)})
    ruling = analyst.judge(parts, WEIGHTS, said["bull"], said["bear"])
    store(page.run, cluster, said, ruling)
    return End()


def gather(run: Any, cluster: str) -> dict[str, Any] | None:
    """The rows of a cluster as facts."""
    rows = run.read("select * from scout_cluster where id = :id", id=cluster)
    if not rows:
        return None
    row, inputs = rows[0], json.loads(rows[0].inputs)
    leaders = run.read(
        "select a.track_id, a.track_name, a.average_rating, a.rating_count from scout_app a"
        " join scout_cluster_app c on c.track_id = a.track_id where c.cluster = :id"
        " order by a.rating_count desc, a.track_id limit :most",
        id=cluster,
        most=LEADERS,
    )
    words = run.read(
        "select k.keyword from scout_cluster_keyword k"
        " left join scout_keyword w on w.keyword = k.keyword where k.cluster = :id"
        " order by w.app_count desc, k.keyword limit 50",
        id=cluster,
    )
    parts = {name: getattr(row, name) for name in (*WEIGHTS, "score")}
    return {"name": row.name, "parts": parts, "facts": analyst.facts(row, inputs, leaders, words)}


def store(run: Any, cluster: str, said: dict[str, Any], ruling: dict[str, Any]) -> None:
    """The verdict with everything that it rests on; a newer one takes the place of an older."""
    debate = [
        {"who": "bull", "claims": said["bull"]},
        {"who": "bear", "claims": said["bear"]},
        {"who": "judge", "claims": [{"text": ruling["text"], "facts": [], "part": "score"}]},
    ]
    run.write(
        "insert into scout_opportunity (cluster, name, score, verdict, parts, facts, debate,"
        " first_at, decided_at) values (:id, :name, :score, :verdict, :parts, :facts, :debate,"
        " :now, :now) on conflict (cluster) do update set name = excluded.name,"
        " score = excluded.score, verdict = excluded.verdict, parts = excluded.parts,"
        " facts = excluded.facts, debate = excluded.debate, decided_at = excluded.decided_at",
        id=cluster,
        name=said["name"],
        score=ruling["score"],
        verdict=ruling["verdict"],
        parts=json.dumps(said["parts"]),
        facts=json.dumps(said["facts"]),
        debate=json.dumps(debate),
        now=run.now,
    )
