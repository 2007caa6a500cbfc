"""Stars: what somebody wants to find again, in lists of their own names; and apps put in by hand."""

from __future__ import annotations

from typing import Any, Literal

from duework import NotFound, UsageError
from systems.scout import store
from systems.scout.client import Found
from systems.scout.part import part

Kind = Literal["app", "opportunity", "developer"]
MOST, LONGEST = 500, 60
# Of a number of 64 bits.
DIGITS = 18
# Whatever the crawl finds by itself comes after it.
FIRST = 100
NAMES = {
    "app": "select track_name as name from scout_app where track_id = :ref",
    "opportunity": "select name from scout_opportunity where cluster = :ref",
    "developer": "select name from scout_developer where developer_id = :ref",
}


def name_of(read: Any, kind: str, ref: str) -> str | None:
    """What it is called, if it is there."""
    if kind != "opportunity" and not (ref.isascii() and ref.isdigit() and len(ref) <= DIGITS):
        return None
    rows = read(NAMES[kind], ref=ref if kind == "opportunity" else int(ref))
    return rows[0].name if rows else None


def star(tx: Any, kind: Kind, ref: str, now: int, in_list: str = "") -> str:
    """Star it, or put it into another list; its name."""
    name = name_of(tx.read, kind, ref)
    if name is None:
        raise NotFound(f"there is no {kind} {ref}")
    words = " ".join(in_list.split())
    if len(words) > LONGEST or not words.isprintable():
        raise UsageError(f"a list has a name of at most {LONGEST} letters")
    tx.write(
        "insert into scout_star (kind, ref, list, at) values (:kind, :ref, :list, :now)"
        " on conflict (kind, ref) do update set list = excluded.list",
        kind=kind,
        ref=ref,
        list=words,
        now=now,
    )
    return name


def unstar(tx: Any, kind: Kind, ref: str) -> None:
    done = tx.write("delete from scout_star where kind = :kind and ref = :ref", kind=kind, ref=ref)
    if not done.changed:
        raise NotFound(f"{kind} {ref} has no star")


def starred(kind: Kind) -> set[str]:
    """The refs of a kind that have a star."""
    rows = part.app.read(
        "select ref from scout_star where kind = :kind limit :most", kind=kind, most=MOST
    )
    return {row.ref for row in rows}


def listed() -> list[dict[str, Any]]:
    """All of them, list by list, the newest first; what is gone has no name."""
    rows = part.app.read(
        "select kind, ref, list, at from scout_star order by at desc limit :most", most=MOST
    )
    found = [{**row._asdict(), "name": name_of(part.app.read, row.kind, row.ref)} for row in rows]
    return sorted(found, key=lambda each: each["list"])


def add_app(tx: Any, track_id: int, now: int) -> None:
    """An app by its number in the store: looked up before all others, and starred."""
    if not 0 < track_id < 2**53:
        raise UsageError("an app is a number: the digits after `id` in its address in the store")
    if not tx.read("select 1 as x from scout_app where track_id = :id", id=track_id):
        store.apps(tx, [Found(track_id=track_id)], now, by="hand")
    tx.write(
        "update scout_app set enrich_priority = :first where track_id = :id and enriched_at is null",
        first=FIRST,
        id=track_id,
    )
    star(tx, "app", str(track_id), now)
