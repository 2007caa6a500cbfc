"""Apps and keywords into their tables, from wherever they were found; what is known already survives.

`to` is a running attempt or an open transaction: whatever has `write`. The insert comes first, so that in a
transaction the number of new rows is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from systems.scout.client import Found

COLUMNS = tuple(Found.__struct_fields__)
_NEW = (
    f"insert into scout_app ({', '.join(COLUMNS)}, first_seen_at, last_seen_at)"  # noqa: S608 - our own names
    f" values ({', '.join(':' + name for name in COLUMNS)}, :now, :now)"
    " on conflict (track_id) do nothing"
)
# A chart has no ratings: what it does not say is left as it is.
_SEEN = (
    "update scout_app set track_name = :track_name, price = coalesce(:price, price),"
    " average_rating = coalesce(:average_rating, average_rating),"
    " rating_count = coalesce(:rating_count, rating_count),"
    " description = coalesce(:description, description),"
    " version = coalesce(:version, version), last_seen_at = :now where track_id = :track_id"
)


def apps(to: Any, found: Sequence[Found], now: int) -> int:
    """Store what was found; in a transaction, how many are new."""
    if not found:
        return 0
    rows = [{**msgspec.structs.asdict(each), "now": now} for each in _once(found)]
    filled = [
        {
            **row,
            "average_rating": row["average_rating"] or 0.0,
            "rating_count": row["rating_count"] or 0,
            "price": row["price"] or 0.0,
            "formatted_price": row["formatted_price"] or "Free",
        }
        for row in rows
    ]
    changes = to.write(_NEW, rows=filled)
    keep = ("track_id", "track_name", "price", "average_rating", "rating_count")
    more = ("description", "version", "now")
    to.write(_SEEN, rows=[{name: row[name] for name in (*keep, *more)} for row in rows])
    return changes.inserted if changes is not None else 0


def developers(to: Any, found: Iterable[Found]) -> None:
    """Each once; a website that is not given is kept."""
    known = {each.developer_id: each for each in found if each.developer_id is not None}
    if known:
        to.write(
            "insert into scout_developer (developer_id, name, website) values (:id, :name, :site)"
            " on conflict (developer_id) do update set name = excluded.name,"
            " website = coalesce(excluded.website, scout_developer.website)",
            rows=[
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
    if rows:
        to.write(
            "insert into scout_keyword (keyword, source, source_keyword, depth, priority, created_at)"
            " values (:keyword, :source, :of, :depth, :priority, :now)"
            " on conflict (keyword) do nothing",
            rows=rows,
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
        if rows:
            to.write(
                f"insert into {table} (track_id, collection, category, rank, snapshot_at)"  # noqa: S608 - one of two
                " values (:id, :collection, :category, :rank, :now) on conflict do nothing",
                rows=rows,
            )


def rankings(to: Any, keyword: str, found: Sequence[Found], now: int) -> None:
    """Who is found for a keyword, in which place; whoever is not any more has none."""
    to.write("delete from scout_ranking where keyword = :keyword", keyword=keyword)
    rows = [
        {"keyword": keyword, "id": each.track_id, "rank": rank, "now": now}
        for rank, each in enumerate(_once(found), start=1)
    ]
    if rows:
        to.write(
            "insert into scout_ranking (keyword, track_id, rank, crawled_at)"
            " values (:keyword, :id, :rank, :now)",
            rows=rows,
        )
    to.write(
        "update scout_keyword set status = 'searched', app_count = :n, last_searched_at = :now,"
        " failures = 0 where keyword = :keyword",
        keyword=keyword,
        n=len(rows),
        now=now,
    )


def _once(found: Sequence[Found]) -> list[Found]:
    return list({each.track_id: each for each in found}.values())
