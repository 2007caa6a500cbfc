"""What there is to do, by existence: each check ends at the first row that it finds in an index."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from systems.scout.crawl.tiers import DAY, STALE_DAYS, stale_before

Read = Callable[..., list[Any]]

# What a category waits for after a failure.
BACKOFF = (5 * 60_000, 30 * 60_000, 6 * 3_600_000, DAY)
DUE = (
    "select id, collection from scout_category where tier = :tier and scanning is null"
    " and retry_at <= :now and (scanned_at is null or scanned_at < :before)"
)
_FIRST = DUE + " order by sort_order, scanned_at nulls first, collection limit 1"
PENDING = (
    "select keyword from scout_keyword where status = 'pending' and retry_at <= :now"
    " order by priority desc, created_at, keyword limit :most"
)
UNRANKED = (
    "select a.track_id, a.track_name from scout_app a"
    " where a.enrichment_source = 'itunes' and a.enriched_at > :since and not exists"
    " (select 1 from scout_ranking r where r.track_id = a.track_id)"
    " order by a.enriched_at limit :most"
)
RECENT = 30 * DAY


def category(read: Read, now: int) -> bool:
    """Whether any category is due."""
    return any(
        read(f"{DUE} limit 1", tier=tier, now=now, before=stale_before(tier, now))
        for tier in STALE_DAYS
    )


def next_category(read: Read, now: int, tiers: tuple[tuple[str, ...], ...]) -> Any | None:
    """The category that comes first when tiers are asked in this order."""
    for group in tiers:
        for tier in group:
            if rows := read(_FIRST, tier=tier, now=now, before=stale_before(tier, now)):
                return rows[0]
    return None


def keywords(read: Read, now: int, most: int = 1) -> list[str]:
    """Keywords that nobody has searched for, the most important first."""
    return [row.keyword for row in read(PENDING, now=now, most=most)]


def unranked(read: Read, now: int, most: int = 1) -> list[Any]:
    """Enriched apps that no keyword has found yet."""
    return read(UNRANKED, since=now - RECENT, most=most)


def unenriched(read: Read, now: int) -> bool:
    """Whether an app waits to be enriched and no job has it."""
    return bool(
        read(
            "select 1 as x from scout_app where enriched_at is null and enriching is null"
            " and retry_at <= :now limit 1",
            now=now,
        )
    )
