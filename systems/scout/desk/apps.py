"""Apps to browse and to search, page by page, and one app with everything that is known of it.

A page is found by an index from where the last one ended, however many apps there are. A search looks at ten
thousand apps at a time, the best rated first, and says where it goes on.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Any

from duework import NotFound, UsageError
from systems.scout.crawl.tiers import DAY
from systems.scout.evaluate import ledger
from systems.scout.part import part

PAGE, CHUNK, LOOKED = 50, 1000, 10_000
FIRST = 2**62
SHOWN = 20
HISTORY = 90 * DAY

COLUMNS = (
    "track_id, track_name, seller_name, primary_genre, rating_count, average_rating,"
    " formatted_price, competitiveness_score, enriched_at, first_seen_at"
)
ORDERS = {"ratings": "rating_count", "newest": "first_seen_at"}
# Filled by one of two orders, with or without a genre.
BROWSE = (
    "select {columns} from scout_app where {genre}({order}, track_id) < (:at, :id)"
    " order by {order} desc, track_id desc limit :most"
)


@dataclass(frozen=True)
class Listed:
    """A page of apps, where the next one begins, and how many were looked at for it."""

    rows: list[Any]
    more: str | None
    looked: int


def browse(words: str = "", genre: str = "", order: str = "ratings", after: str = "") -> Listed:
    """The next apps in an order; with words, those that have them in their name or their seller's."""
    sql = BROWSE.format(
        columns=COLUMNS, order=ORDERS[order], genre="primary_genre = :genre and " if genre else ""
    )
    at, id_ = place(after)
    given = {"genre": genre} if genre else {}
    found: list[Any] = []
    looked, size = 0, CHUNK if words else PAGE + 1
    wanted = folded(words)
    while True:
        rows = part.app.read(sql, at=at, id=id_, most=size, **given)
        for row in rows:
            looked, at, id_ = looked + 1, getattr(row, ORDERS[order]), row.track_id
            if wanted in folded(f"{row.track_name}\n{row.seller_name}"):
                found.append(row)
                if len(found) == PAGE:
                    return Listed(
                        found, f"{at}:{id_}" if _goes_on(sql, at, id_, given) else None, looked
                    )
        if len(rows) < size:
            return Listed(found, None, looked)
        if looked >= LOOKED:
            return Listed(found, f"{at}:{id_}", looked)


def _goes_on(sql: str, at: int, id_: int, given: dict[str, Any]) -> bool:
    return bool(part.app.read(sql, at=at, id=id_, most=1, **given))


def place(after: str) -> tuple[int, int]:
    """Where a page begins: behind the last row of the one before."""
    if not after:
        return FIRST, FIRST
    at, _, id_ = after.partition(":")
    try:
        found = int(at), int(id_)
    except ValueError:
        raise UsageError(
            "`after` is the end of a page before: take the link of that page"
        ) from None
    if not all(0 <= each <= FIRST for each in found):
        raise UsageError("`after` is the end of a page before: take the link of that page")
    return found


def folded(text: str) -> str:
    """Without case and accents, as people type."""
    plain = unicodedata.normalize("NFKD", text.casefold().strip())
    return "".join(each for each in plain if not unicodedata.combining(each))


def genres() -> list[str]:
    """Those that the store has."""
    rows = part.app.read("select distinct name from scout_category order by name limit 100")
    return [row.name for row in rows]


def one_app(track_id: int) -> dict[str, Any]:
    """An app with its scores, its places now and before, its clusters and the keywords that find it."""
    read = part.app.read
    rows = read("select * from scout_app where track_id = :id", id=track_id)
    if not rows:
        raise NotFound(f"there is no app {track_id}")
    return {
        "app": rows[0],
        "ledger": ledger.about(read, "app", track_id),
        "charts": read(
            "select c.rank, c.collection, c.category, g.name, c.snapshot_at from scout_chart c"
            " join scout_category g on g.id = c.category and g.collection = c.collection"
            " where c.track_id = :id order by c.rank limit :most",
            id=track_id,
            most=SHOWN,
        ),
        "rankings": read(
            "select keyword, rank from scout_ranking where track_id = :id"
            " order by rank, keyword limit :most",
            id=track_id,
            most=SHOWN,
        ),
        "clusters": read(
            "select c.id, c.name, c.score from scout_cluster_app m"
            " join scout_cluster c on c.id = m.cluster where m.track_id = :id order by c.score desc"
            " limit :most",
            id=track_id,
            most=SHOWN,
        ),
    }


def chart_history(track_id: int, now: int) -> dict[str, list[tuple[int, float]]]:
    """Its places in charts, by the chart's name."""
    rows = part.app.read(
        "select h.snapshot_at as at, h.rank, h.collection, g.name from scout_chart_history h"
        " join scout_category g on g.id = h.category and g.collection = h.collection"
        " where h.track_id = :id and h.snapshot_at > :since order by h.snapshot_at limit 1000",
        id=track_id,
        since=now - HISTORY,
    )
    found: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        found.setdefault(f"{row.name}, {chart_name(row.collection)}", []).append((row.at, row.rank))
    return found


def rank_history(track_id: int, now: int) -> dict[str, list[tuple[int, float]]]:
    """Its places for tracked keywords."""
    rows = part.app.read(
        "select keyword, at, rank from scout_rank_history where track_id = :id and at > :since"
        " order by at limit 1000",
        id=track_id,
        since=now - HISTORY,
    )
    found: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        found.setdefault(f"“{row.keyword}”", []).append((row.at, row.rank))
    return found


def ratings_history(track_id: int, now: int) -> dict[str, list[tuple[int, float]]]:
    """How many ratings it had, day by day."""
    rows = part.app.read(
        "select snapshot_at, rating_count from scout_snapshot where track_id = :id"
        " and snapshot_at > :since order by snapshot_at limit 400",
        id=track_id,
        since=now - HISTORY,
    )
    return {"ratings": [(row.snapshot_at, row.rating_count) for row in rows]} if rows else {}


def reviews(track_id: int) -> list[Any]:
    """The newest reviews."""
    return part.app.read(
        "select rating, title, content, author, version, written_at, sentiment from scout_review"
        " where track_id = :id order by coalesce(written_at, '') desc, id limit :most",
        id=track_id,
        most=SHOWN,
    )


def versions(track_id: int) -> list[Any]:
    return part.app.read(
        "select version, released_at, notes, seen_at from scout_version where track_id = :id"
        " order by seen_at desc, version desc limit :most",
        id=track_id,
        most=SHOWN,
    )


def chart_name(collection: str) -> str:
    """What Apple calls topfreeapplications is "top free"."""
    return collection.removesuffix("applications").replace("top", "top ", 1)
