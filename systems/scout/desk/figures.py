"""How much there is of everything: counted to a bound, once a minute at most, and only when somebody looks.

The numbers are rows, so that all processes that serve pages share them. What they do not show is counted by
nobody: no schedule fills them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from systems.scout.part import part

# Nobody waits for a million rows to be counted; beyond this a page says "10,000+".
MOST = 10_000
FRESH = 60_000

COUNTED = {
    "categories": ("scout_category", "1 = 1"),
    "categories_scanned": ("scout_category", "scanned_at is not null"),
    "apps": ("scout_app", "1 = 1"),
    # The source is set with the time, and has an index: of few among a million, few are looked at.
    "unenriched": ("scout_app", "enrichment_source is null"),
    "enriched": ("scout_app", "enrichment_source is not null"),
    "evaluated": ("scout_app", "evaluated_at is not null"),
    "keywords": ("scout_keyword", "1 = 1"),
    "keywords_pending": ("scout_keyword", "status = 'pending'"),
    "keywords_searched": ("scout_keyword", "status = 'searched'"),
    "keywords_failed": ("scout_keyword", "status = 'failed'"),
    "tracked": ("scout_tracked", "1 = 1"),
    "clusters": ("scout_cluster", "1 = 1"),
    "opportunities": ("scout_opportunity", "1 = 1"),
    "stars": ("scout_star", "1 = 1"),
    "reports": ("scout_report", "1 = 1"),
}
_KEEP = (
    "insert into scout_figure (name, value, at) values (:name, :value, :at)"
    " on conflict (name) do update set value = excluded.value, at = excluded.at"
)


def bounded(read: Callable[..., list[Any]], table: str, where: str, **values: Any) -> int:
    """How many rows, at most `MOST`: it stops there."""
    sql = f"select count(*) as n from (select 1 as x from {table} where {where} limit {MOST}) t"  # noqa: S608 - our own words
    return int(read(sql, **values)[0].n)


def counted(read: Callable[..., list[Any]]) -> dict[str, int]:
    """All of them, as they are now."""
    return {name: bounded(read, *what) for name, what in COUNTED.items()}


def figures(now: int) -> dict[str, int]:
    """As they were at most a minute ago."""
    kept = kept_since(now - FRESH)
    if len(kept) == len(COUNTED):
        return kept
    found = counted(part.app.read)
    with part.app.transaction() as tx:
        tx.write(
            _KEEP, rows=[{"name": name, "value": value, "at": now} for name, value in found.items()]
        )
    return found


def kept_since(since: int) -> dict[str, int]:
    rows = part.app.read("select name, value from scout_figure where at > :since", since=since)
    return {row.name: row.value for row in rows if row.name in COUNTED}


def noted(read: Callable[..., list[Any]], name: str) -> int:
    """How far something has looked: a time."""
    rows = read("select at from scout_figure where name = :name", name=name)
    return int(rows[0].at) if rows else 0


def note(tx: Any, name: str, at: int) -> None:
    tx.write(_KEEP, name=name, value=0, at=at)
