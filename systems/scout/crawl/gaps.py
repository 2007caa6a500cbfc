"""What there is to do, by existence: each check ends at the first row that it finds in an index.

What was tried and failed, or is known and not yet stale, stands behind a time in its index: however much
of it there is, no check walks through it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from systems.scout.crawl.tiers import DAY, STALE_DAYS, stale_before
from systems.scout.enrich import purchases, scrape

Read = Callable[..., list[Any]]

# What a category waits for after a failure.
BACKOFF = (5 * 60_000, 30 * 60_000, 6 * 3_600_000, DAY)
DUE = (
    "select id, collection from scout_category where tier = :tier and scanning is null"
    " and retry_at <= :now and (scanned_at is null or scanned_at < :before)"
)
_FIRST = DUE + " order by sort_order, scanned_at nulls first, collection limit 1"
PENDING = (
    "select keyword from scout_keyword where status = 'pending'"
    " order by priority desc, created_at, keyword limit :most"
)
# Searched for long ago, and failed some time ago: behind everything that is pending.
AGAIN = (
    "select keyword from scout_keyword where status = :status and due_at <= :now"
    " order by due_at limit :most"
)
UNRANKED = (
    "select track_id, track_name from scout_app where ranked_at is null"
    " and enriched_at is not null and enrichment_source <> 'failed' and fill_at <= :now"
    " order by fill_at limit :most"
)
UNENRICHED = (
    "select 1 as x from scout_app where enriched_at is null and enriching is null"
    " and retry_at <= :now limit 1"
)
DEVELOPERS = (
    "select developer_id from scout_developer where expanding is null and due_at <= :now"
    " order by due_at limit :most"
)


class Gaps(NamedTuple):
    """What was found to do."""

    category: bool
    keyword: bool
    ranking: bool
    enrichment: bool
    page: bool
    purchases: bool
    developer: bool

    @property
    def others_wait(self) -> bool:
        """Whether calls have to be left for enrichment."""
        return self.enrichment or self.page or self.purchases


def assess(read: Read, now: int) -> Gaps:
    """Every kind of gap, by one row of each."""
    return Gaps(
        category=category(read, now),
        keyword=bool(keywords(read, now)),
        ranking=bool(unranked(read, now)),
        enrichment=unenriched(read, now),
        page=scrape.gap(read, now),
        purchases=bool(purchases.gap(read, now)),
        developer=bool(developers(read, now)),
    )


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
    """Keywords to search for: new ones, the most important first, then those that are due again."""
    found = [row.keyword for row in read(PENDING, most=most)]
    for status in ("failing", "searched"):
        if len(found) < most:
            again = read(AGAIN, status=status, now=now, most=most - len(found))
            found += [row.keyword for row in again]
    return found


def unranked(read: Read, now: int, most: int = 1) -> list[Any]:
    """Enriched apps that no keyword finds, and for which none was made lately."""
    return read(UNRANKED, now=now, most=most)


def unenriched(read: Read, now: int) -> bool:
    """Whether an app waits to be enriched and no job has it."""
    return bool(read(UNENRICHED, now=now))


def developers(read: Read, now: int, most: int = 1) -> list[int]:
    """Developers whose other apps nobody has asked for, or not for long."""
    return [row.developer_id for row in read(DEVELOPERS, now=now, most=most)]
