"""How large the database is, and whether it comes near to what it may grow to."""

from __future__ import annotations

from typing import Any

from systems.scout.part import part

# Of the budget, in percent: from here on somebody is told.
NEAR = 80
SQLITE = "select p.page_count * s.page_size as n from pragma_page_count() p, pragma_page_size() s"
POSTGRES = "select pg_database_size(current_database()) as n"


def measured(read: Any) -> int:
    """In bytes, with everything else that is in the same database."""
    sql = POSTGRES if part.app.url.startswith("postgres") else SQLITE
    return int(read(sql)[0].n)


def near(size: int, budget: int) -> bool:
    """Whether somebody should know."""
    return 100 * size >= NEAR * budget


def store(tx: Any, day: int, size: int, apps: int) -> None:
    """The figures of a day."""
    tx.write(
        "insert into scout_size (day, bytes, apps) values (:day, :bytes, :apps)"
        " on conflict (day) do update set bytes = excluded.bytes, apps = excluded.apps",
        day=day,
        bytes=size,
        apps=apps,
    )
