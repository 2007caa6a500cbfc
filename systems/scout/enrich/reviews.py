"""Reviews as a feed, for apps that many people rate; a page shows ten at most, the feed fifty.

The feed's first entry may be the app itself, a feed of one has an object where others have a list, and by now
some are empty: then those of the page are all there is.
"""

from __future__ import annotations

from typing import Any

from duework import Run
from systems.scout import client
from systems.scout.client import cut
from systems.scout.crawl.tiers import DAY
from systems.scout.enrich import saving
from systems.scout.enrich.pages import Review
from systems.scout.part import APPLE, CALL, ORDER, PAGES, part, settings

# Apps with fewer ratings have few reviews, and the page has them.
LEAST_RATINGS = 50
STALE = 30 * DAY


def wanted(tx: Any, track_id: int, now: int) -> None:
    """Ask for the reviews of an app if they are worth a call."""
    if tx.read(
        "select 1 as x from scout_app where track_id = :id and rating_count >= :least"
        " and (reviewed_at is null or reviewed_at < :before)",
        id=track_id,
        least=LEAST_RATINGS,
        before=now - STALE,
    ):
        tx.enqueue(read_reviews.using(key=f"reviews:{track_id}"), track_id)


@part.task(pace=[PAGES, APPLE], priority=ORDER["page"], **CALL)
async def read_reviews(run: Run, track_id: int) -> int:
    """The newest fifty."""
    found = await feed(track_id)
    run.commit(lambda tx: _save(tx, track_id, found, run.now))
    return len(found)


async def feed(track_id: int, number: int = 1) -> list[Review]:
    """A page of the feed, newest first."""
    path = f"/{settings().country}/rss/customerreviews/page={number}/id={track_id}/sortby=mostrecent/json"
    given = (await client.get(path)).get("feed") or {}
    entries = given.get("entry") or []
    if isinstance(entries, dict):
        entries = [entries]
    return [review for entry in entries if (review := read(entry)) is not None]


def read(entry: dict[str, Any]) -> Review | None:
    """An entry; None if it is the app itself, or nothing that can be read."""
    stars, id_ = _label(entry, "im:rating"), _label(entry, "id")
    if id_ is None or stars is None or not stars.isdecimal():
        return None
    author = entry.get("author")
    return Review(
        id=id_,
        rating=max(1, min(5, int(stars))),
        title=cut(_label(entry, "title")) or "",
        content=cut(_label(entry, "content")) or "",
        author=_label(author, "name") if isinstance(author, dict) else None,
        version=_label(entry, "im:version"),
        written_at=_label(entry, "updated"),
    )


def _label(entry: dict[str, Any], name: str) -> str | None:
    given = entry.get(name)
    found = given.get("label") if isinstance(given, dict) else None
    return found if isinstance(found, str) else None


def _save(tx: Any, track_id: int, found: list[Review], now: int) -> None:
    saving.reviews(tx, track_id, found, now)
    if not found:
        saving.missing(tx, ["feed of reviews"], now)
    tx.write("update scout_app set reviewed_at = :now where track_id = :id", now=now, id=track_id)
