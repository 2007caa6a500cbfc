"""Keywords: the list, one with who is found for it, those put in by hand, and those that are followed.

A followed keyword is searched for once a day, and who was found where is kept each time.
"""

from __future__ import annotations

from typing import Any

from duework import Event, NotFound, Run, UsageError
from systems.scout.crawl import seeds
from systems.scout.crawl.tiers import DAY
from systems.scout.evaluate import ledger
from systems.scout.part import part, settings

PAGE, LONGEST, AT_ONCE = 100, 80, 200
FOLLOWED = 100
PLACES = 50
HISTORY = 90 * DAY
STATES = ("pending", "searching", "searched", "failing", "failed")

LIST = (
    "select keyword, status, source, priority, app_count, failures, created_at, last_searched_at"
    " from scout_keyword where keyword > :after order by keyword limit :most"
)
BY_STATE = (
    "select keyword, status, source, priority, app_count, failures, created_at, last_searched_at"
    " from scout_keyword where status = :state and priority <= :priority and"
    " (priority < :priority or created_at > :at or (created_at = :at and keyword > :after))"
    " order by priority desc, created_at, keyword limit :most"
)


def listed(words: str = "", state: str = "", after: str = "") -> tuple[list[Any], str | None]:
    """A page of keywords, and where the next one begins: by name from some letters on, or by state."""
    if state:
        rows = _in_state(state, after)
    else:
        rows = part.app.read(LIST, after=after or words.casefold(), most=PAGE + 1)
        if words:
            exact = part.app.read(
                LIST.replace("keyword > :after", "keyword = :after"), after=words.casefold(), most=1
            )
            rows = [
                each
                for each in ([] if after else exact) + rows
                if each.keyword.startswith(words.casefold())
            ]
    more = rows[PAGE - 1].keyword if len(rows) > PAGE else None
    return rows[:PAGE], more


def _in_state(state: str, after: str) -> list[Any]:
    if state not in STATES:
        raise UsageError(f"a keyword is {', '.join(STATES)}")
    last = part.app.read(
        "select priority, created_at from scout_keyword where keyword = :after", after=after
    )
    priority, at = (last[0].priority, last[0].created_at) if last else (2**31 - 1, -1)
    return part.app.read(
        BY_STATE, state=state, priority=priority, at=at, after=after, most=PAGE + 1
    )


def one(keyword: str) -> dict[str, Any]:
    """A keyword, who is found for it now, and whether it is followed."""
    read = part.app.read
    rows = read("select * from scout_keyword where keyword = :word", word=keyword)
    if not rows:
        raise NotFound(f"there is no keyword “{keyword}”")
    return {
        "word": rows[0],
        "tracked": tracked(keyword),
        "found": read(
            "select r.rank, r.track_id, r.crawled_at, a.track_name, a.rating_count,"
            " a.average_rating from scout_ranking r join scout_app a on a.track_id = r.track_id"
            " where r.keyword = :word order by r.rank limit :most",
            word=keyword,
            most=PLACES,
        ),
        "ledger": ledger.about(read, "keyword", keyword),
        "clusters": read(
            "select c.id, c.name, c.score from scout_cluster_keyword k"
            " join scout_cluster c on c.id = k.cluster where k.keyword = :word limit 5",
            word=keyword,
        ),
    }


def tracked(keyword: str) -> Any | None:
    rows = part.app.read("select * from scout_tracked where keyword = :word", word=keyword)
    return rows[0] if rows else None


def followed() -> list[Any]:
    """What is followed, with when it was searched for last."""
    return part.app.read(
        "select t.keyword, t.since, t.next_at, k.status, k.app_count, k.last_searched_at"
        " from scout_tracked t left join scout_keyword k on k.keyword = t.keyword"
        " order by t.keyword limit :most",
        most=AT_ONCE,
    )


def history(keyword: str, now: int, most: int = 6) -> dict[int, list[tuple[int, float]]]:
    """The places of the apps that are, or were, among the first for a followed keyword."""
    rows = part.app.read(
        "select at, track_id, rank from scout_rank_history where keyword = :word and at > :since"
        " and rank <= :most order by at limit 2000",
        word=keyword,
        since=now - HISTORY,
        most=most,
    )
    found: dict[int, list[tuple[int, float]]] = {}
    for row in rows:
        found.setdefault(row.track_id, []).append((row.at, row.rank))
    return dict(sorted(found.items(), key=lambda each: (each[1][-1][1], each[0])))


# --- what people put in


def cleaned(text: str) -> str:
    """As it is stored: one line, small letters, single spaces."""
    word = " ".join(text.casefold().split())
    if not word or len(word) > LONGEST or not word.isprintable():
        raise UsageError(f"a keyword is a line of 1 to {LONGEST} letters")
    return word


def plant(tx: Any, text: str, now: int) -> list[str]:
    """Keywords by hand, one a line: searched for soon, also those that were before."""
    words = sorted({cleaned(line) for line in text.splitlines() if line.strip()})
    if not words:
        raise UsageError("write a keyword on each line")
    if len(words) > AT_ONCE:
        raise UsageError(f"at most {AT_ONCE} keywords at once")
    planted = seeds.add(tx, words, now)
    for word in planted:
        soon(tx, word, now)
    return planted


def soon(tx: Any, word: str, now: int) -> None:
    """Have one that was searched for, or given up, searched for again in the next cycle."""
    tx.write(
        "update scout_keyword set due_at = :now, failures = 0,"
        " status = case when status in ('failing', 'failed') then 'pending' else status end"
        " where keyword = :word and status <> 'searching'",
        word=word,
        now=now,
    )


def follow(tx: Any, text: str, now: int) -> str:
    """From now on it is searched for each day, and who is found is kept."""
    word = seeds.follow(tx, cleaned(text), now)
    soon(tx, word, now)
    tx.write(
        "insert into scout_tracked (keyword, since, next_at) values (:word, :now, :next)"
        " on conflict (keyword) do nothing",
        word=word,
        now=now,
        next=now + DAY,
    )
    note(tx, word)
    return word


def unfollow(tx: Any, text: str) -> str:
    """As often as any other from now on; what was kept of it stays until it is old."""
    word = seeds.clean(cleaned(text))
    if not tx.write("delete from scout_tracked where keyword = :word", word=word).changed:
        raise NotFound(f"“{word}” is not followed")
    tx.write("update scout_keyword set refresh_days = 30 where keyword = :word", word=word)
    return word


def note(tx: Any, word: str) -> None:
    """Keep who is found for it now; the same search is kept once."""
    tx.write(
        "insert into scout_rank_history (keyword, at, track_id, rank)"
        " select keyword, crawled_at, track_id, rank from scout_ranking"
        " where keyword = :word and rank <= :most on conflict do nothing",
        word=word,
        most=PLACES,
    )


# --- what happens by itself


def nothing_followed(run: Run) -> bool:
    """Whether no followed keyword is due."""
    return not run.read(
        "select 1 as x from scout_tracked where next_at <= :now limit 1", now=run.now
    )


@part.task(
    cron="20 * * * *",
    idle=nothing_followed,
    queue="scout",
    owner="scout",
    why="a followed keyword is looked at once a day; within the hour is soon enough",
)
def follow_up(run: Run) -> int:
    """Keep where apps stand for followed keywords, changed or not, and forget what is too old."""
    run.commit(lambda tx: again(tx, run.now))
    return 0


def again(tx: Any, now: int) -> int:
    rows = tx.read(
        "select keyword from scout_tracked where next_at <= :now order by next_at limit :most",
        now=now,
        most=FOLLOWED,
    )
    for row in rows:
        note(tx, row.keyword)
        tx.write(
            "update scout_tracked set next_at = :next where keyword = :word",
            word=row.keyword,
            next=now + DAY,
        )
    tx.write(
        "delete from scout_rank_history where at < :before", before=now - settings().keep * DAY
    )
    return len(rows)


@part.on("rankings-updated")
def keep_places(run: Run, event: Event[Any]) -> None:
    """Keep the places of followed keywords as soon as they are known."""
    words = event.payload["keywords"]
    run.commit(lambda tx: _keep(tx, words))


def _keep(tx: Any, words: list[str]) -> None:
    for word in words:
        if tx.read("select 1 as x from scout_tracked where keyword = :word", word=word):
            note(tx, word)
