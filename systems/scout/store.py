"""Apps and keywords into their tables, from wherever they were found; what is known already survives.

`to` is a running attempt or an open transaction: whatever has `write`. The insert comes first, so that in a
transaction the number of new rows is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from systems.scout.client import Found
from systems.scout.crawl.tiers import DAY

COLUMNS = tuple(Found.__struct_fields__)
# So many rows a statement is bound for at once, and so many ids one look asks for.
CHUNK, ASKED = 100, 25
_NEW = (
    f"insert into scout_app ({', '.join(COLUMNS)}, first_seen_at, last_seen_at, found_by)"  # noqa: S608 - our own names
    f" values ({', '.join(':' + name for name in COLUMNS)}, :now, :now, :by)"
    " on conflict (track_id) do nothing"
)
# A chart has no ratings: what it does not say is left as it is.
_SEEN = (
    "update scout_app set price = coalesce(:price, price), track_name ="
    " case when :track_name = 'Unknown' then track_name else :track_name end,"
    " average_rating = coalesce(:average_rating, average_rating),"
    " rating_count = coalesce(:rating_count, rating_count),"
    " description = coalesce(:description, description),"
    " version = coalesce(:version, version), last_seen_at = :now where track_id = :track_id"
)
_SEEN_NAMES = (
    *("track_id", "track_name", "price", "average_rating", "rating_count"),
    *("description", "version", "now"),
)
_KNOWN = (
    "select track_id from scout_app where track_id in"  # noqa: S608 - names of places
    f" ({', '.join(f':i{place}' for place in range(ASKED))})"
)


class Ranked(NamedTuple):
    """What a search changed: whether any place did, and apps that no keyword had found before."""

    changed: bool
    first: int


def written(to: Any, sql: str, rows: Sequence[dict[str, Any]]) -> int:
    """One statement, bound for a hundred rows at a time; in a transaction, how many it changed."""
    count = 0
    for start in range(0, len(rows), CHUNK):
        changes = to.write(sql, rows=rows[start : start + CHUNK])
        if changes is not None:
            count += changes.inserted + changes.changed
    return count


def apps(to: Any, found: Sequence[Found], now: int, *, by: str) -> int:
    """Store what was found; in a transaction, how many are new."""
    rows = [{**msgspec.structs.asdict(each), "now": now} for each in _once(found)]
    zero = {"average_rating": 0.0, "rating_count": 0, "price": 0.0, "formatted_price": "Free"}
    filled = [
        {**row, "by": by, **{name: row[name] or least for name, least in zero.items()}}
        for row in rows
    ]
    new = written(to, _NEW, filled)
    written(to, _SEEN, [{name: row[name] for name in _SEEN_NAMES} for row in rows])
    return new


def unknown(read: Any, found: Sequence[Found]) -> list[Found]:
    """Those that nobody has stored yet."""
    known: set[int] = set()
    for start in range(0, len(found), ASKED):
        ids = [each.track_id for each in found[start : start + ASKED]]
        ids += [0] * (ASKED - len(ids))
        asked = {f"i{place}": id_ for place, id_ in enumerate(ids)}
        known |= {row.track_id for row in read(_KNOWN, **asked)}
    return [each for each in _once(found) if each.track_id not in known]


def developers(to: Any, found: Iterable[Found]) -> None:
    """Each once; a website that is not given is kept."""
    known = {each.developer_id: each for each in found if each.developer_id is not None}
    written(
        to,
        "insert into scout_developer (developer_id, name, website) values (:id, :name, :site)"
        " on conflict (developer_id) do update set name = excluded.name,"
        " website = coalesce(excluded.website, scout_developer.website)",
        [
            {"id": id_, "name": each.seller_name, "site": each.developer_website}
            for id_, each in sorted(known.items())
        ],
    )


def keywords(
    to: Any,
    words: Iterable[str],
    now: int,
    *,
    source: str,
    of: str | None = None,
    depth: int = 0,
    priority: int = 0,
) -> None:
    """Search terms that nobody has searched for yet; known ones stay as they are."""
    shared = {"now": now, "source": source, "of": of, "depth": depth, "priority": priority}
    rows = [{"keyword": word, **shared} for word in sorted(set(words))]
    written(
        to,
        "insert into scout_keyword (keyword, source, source_keyword, depth, priority, created_at)"
        " values (:keyword, :source, :of, :depth, :priority, :now)"
        " on conflict (keyword) do nothing",
        rows,
    )


def places(to: Any, collection: str, category: int, found: Sequence[Found], now: int) -> None:
    """The chart as it is now, and as it was."""
    shared = {"collection": collection, "category": category, "now": now}
    rows = [
        {"id": each.track_id, "rank": rank, **shared}
        for rank, each in enumerate(_once(found), start=1)
    ]
    to.write(
        "delete from scout_chart where collection = :collection and category = :category",
        collection=collection,
        category=category,
    )
    for table in ("scout_chart", "scout_chart_history"):
        written(
            to,
            f"insert into {table} (track_id, collection, category, rank, snapshot_at)"  # noqa: S608 - one of two
            " values (:id, :collection, :category, :rank, :now) on conflict do nothing",
            rows,
        )


def rankings(to: Any, keyword: str, found: Sequence[Found], now: int, new: int = 0) -> Ranked:
    """Who is found for a keyword, in which place; whoever is not any more has none."""
    held = to.read("select track_id, rank from scout_ranking where keyword = :word", word=keyword)
    before = {row.track_id: row.rank for row in held}
    after = {each.track_id: rank for rank, each in enumerate(_once(found), start=1)}
    to.write("delete from scout_ranking where keyword = :keyword", keyword=keyword)
    written(
        to,
        "insert into scout_ranking (keyword, track_id, rank, crawled_at)"
        " values (:keyword, :id, :rank, :now)",
        [{"keyword": keyword, "id": id_, "rank": r, "now": now} for id_, r in after.items()],
    )
    first = written(
        to,
        "update scout_app set ranked_at = :now where track_id = :id and ranked_at is null",
        [{"now": now, "id": id_} for id_ in sorted(after)],
    )
    # An app that dropped out of the last keyword that found it is looked for anew.
    written(
        to,
        "update scout_app set ranked_at = null where track_id = :id and not exists"
        " (select 1 from scout_ranking r where r.track_id = scout_app.track_id)",
        [{"id": id_} for id_ in sorted(before.keys() - after.keys())],
    )
    to.write(
        "update scout_keyword set status = 'searched', app_count = :n, last_searched_at = :now,"
        " failures = 0, new_apps = :new, due_at = :now + cast(refresh_days as bigint) * :day"
        " where keyword = :keyword",
        keyword=keyword,
        n=len(after),
        new=new,
        now=now,
        day=DAY,
    )
    return Ranked(before != after, first)


def _once(found: Sequence[Found]) -> list[Found]:
    return list({each.track_id: each for each in found}.values())
