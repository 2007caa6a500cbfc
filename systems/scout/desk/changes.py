"""What changed: opportunities that are new, rise, fall, are judged otherwise or are gone.

Every half hour the ranking is compared with how it was last told of; what differs becomes a line, and the
scores a history. Nothing is compared while nothing has been judged since.
"""

from __future__ import annotations

from typing import Any

from duework import Run
from systems.scout.crawl.tiers import DAY
from systems.scout.desk import figures
from systems.scout.part import part, settings

MOST, PAGE = 500, 50
REGROUPED = 20
# Points of a score that are worth a line.
WORTH = 1.0
NOTED = "changes_noted"


def nothing_judged(run: Run) -> bool:
    """Whether no opportunity was decided since the last look."""
    since = figures.noted(run.read, NOTED)
    return not run.read(
        "select 1 as x from scout_opportunity where decided_at > :since limit 1", since=since
    )


@part.task(
    cron="*/30 * * * *",
    idle=nothing_judged,
    queue="scout",
    owner="scout",
    why="debates end at any time of the six hours between two runs of the clusters",
)
def tell(run: Run) -> None:
    """Write down what has changed since the last look."""
    run.commit(lambda tx: compare(tx, run.now))


def compare(tx: Any, now: int) -> int:
    """How many lines there were to write."""
    ranked = tx.read(
        "select cluster, name, score, verdict from scout_opportunity"
        " order by score desc, cluster limit :most",
        most=MOST,
    )
    rows = tx.read("select * from scout_standing limit :most", most=2 * MOST)
    before = {row.cluster: row for row in rows}
    lines, moved = [], []
    for place, row in enumerate(ranked, start=1):
        old = before.pop(row.cluster, None)
        said = line(old, row, place)
        if said:
            lines.append({"at": now, "kind": said[0], "ref": row.cluster, "says": said[1]})
        if old is None or old.score != row.score or old.place != place:
            moved.append({"cluster": row.cluster, "at": now, "score": row.score, "place": place})
        _stand(tx, row, place)
    for gone in before.values():
        says = f"{gone.name} is no longer among the opportunities"
        lines.append({"at": now, "kind": "gone", "ref": gone.cluster, "says": says})
        tx.write("delete from scout_standing where cluster = :id", id=gone.cluster)
    lines += regrouped(tx, figures.noted(tx.read, NOTED), now)
    _keep(tx, lines, moved, now)
    return len(lines)


def regrouped(tx: Any, since: int, now: int) -> list[dict[str, Any]]:
    """Clusters that have merged, split or ended since the last look."""
    rows = tx.read(
        "select l.cluster, l.event, coalesce(s.name, l.cluster) as name,"
        " coalesce(c.name, l.other) as other from scout_cluster_lineage l"
        " left join scout_cluster_snapshot s on s.cluster = l.cluster and s.at ="
        " (select max(at) from scout_cluster_snapshot where cluster = l.cluster)"
        " left join scout_cluster c on c.id = l.other"
        " where l.at > :since and l.event <> 'born' order by l.at desc, l.cluster limit :most",
        since=since,
        most=REGROUPED,
    )
    words = {"merged": "is part of", "split": "has split from", "ended": "is no market any more"}
    return [
        {
            "at": now,
            "kind": row.event,
            "ref": row.cluster,
            "says": f"{row.name} {words.get(row.event, row.event)} {row.other}".rstrip(),
        }
        for row in rows
    ]


def line(old: Any | None, new: Any, place: int) -> tuple[str, str] | None:
    """What there is to tell of an opportunity: a kind and a sentence."""
    if old is None:
        return "new", f"New: {new.name}, {new.score:g} of 100, place {place}"
    if old.verdict != new.verdict:
        return (
            "verdict",
            f"{new.name}: {new.verdict} instead of {old.verdict}, {new.score:g} of 100",
        )
    by = new.score - old.score
    if abs(by) < WORTH:
        return None
    word = "rose" if by > 0 else "fell"
    where = f" to place {place}" if place != old.place else f", still place {place}"
    return word, f"{new.name} {word}{where} ({by:+.1f})"


def _stand(tx: Any, row: Any, place: int) -> None:
    tx.write(
        "insert into scout_standing (cluster, name, score, place, verdict)"
        " values (:cluster, :name, :score, :place, :verdict) on conflict (cluster) do update set"
        " name = excluded.name, score = excluded.score, place = excluded.place,"
        " verdict = excluded.verdict",
        **row._asdict(),
        place=place,
    )


def _keep(tx: Any, lines: list[dict[str, Any]], moved: list[dict[str, Any]], now: int) -> None:
    if lines:
        tx.write(
            "insert into scout_change (at, kind, ref, says) values (:at, :kind, :ref, :says)"
            " on conflict do nothing",
            rows=lines,
        )
    if moved:
        tx.write(
            "insert into scout_score_history (cluster, at, score, place)"
            " values (:cluster, :at, :score, :place) on conflict do nothing",
            rows=moved,
        )
    before = now - settings().keep * DAY
    tx.write("delete from scout_change where at < :before", before=before)
    tx.write("delete from scout_score_history where at < :before", before=before)
    figures.note(tx, NOTED, now)


def listed(before: int = 2**62, most: int = PAGE) -> list[Any]:
    """The newest lines first; `before` is the time of the last one of the page before."""
    return part.app.read(
        "select at, kind, ref, says from scout_change where at < :before"
        " order by at desc, kind, ref limit :most",
        before=before,
        most=most,
    )


def since_yesterday(now: int) -> dict[str, float]:
    """By how much scores have changed in a day, where they have."""
    rows = part.app.read(
        "select cluster, at, score from scout_score_history where at > :since order by at desc"
        " limit 2000",
        since=now - settings().keep * DAY,
    )
    newest: dict[str, float] = {}
    older: dict[str, float] = {}
    for row in rows:
        newest.setdefault(row.cluster, row.score)
        if row.at <= now - DAY:
            older.setdefault(row.cluster, row.score)
    return {id_: newest[id_] - was for id_, was in older.items() if newest[id_] != was}


def score_history(cluster: str) -> list[tuple[int, float]]:
    rows = part.app.read(
        "select at, score from scout_score_history where cluster = :id order by at desc limit 200",
        id=cluster,
    )
    return [(row.at, row.score) for row in rows][::-1]
