"""Verbs on blobs: (tx, list) -> list. Each runs inside a transaction of the caller's.

A content is written beside the database, under a number that is used once, and is named in the trash before
that. The commit that makes it a blob's takes it out; the one that replaces or ends the blob puts it back.
So whatever dies where, a content belongs to a blob or will be deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec

from duework.clock import FOREVER
from duework.db.queries import load
from duework.errors import Conflict

if TYPE_CHECKING:
    from duework.db.database import Tx

BLOBS = load(__package__ or "", "blobs")

# How long a content may take to be written, and how long after its blob's end readers may still have it open.
WRITING_MS = 3_600_000
READING_MS = 60_000


@dataclass(frozen=True, slots=True)
class Blob:
    """A blob as it was when it was looked at; its content is read with `app.blobs.get` or `open`."""

    key: str
    size: int
    # SHA-256 of its content, in hexadecimal digits.
    digest: str
    content_type: str
    metadata: dict[str, str]
    # In milliseconds since 1970.
    created: int
    expires: int | None
    # Of a `put`: whether this content was written, or `if_absent` found one.
    new: bool = False
    # The number of its content in the folder.
    content: int = 0


class NewBlob(msgspec.Struct, frozen=True):
    """A row to be written, of a content that is there."""

    name: str
    content: int
    size: int
    digest: str
    kind: str
    about: str
    created: int
    due: int
    only_if_absent: bool


def blob(row: Sequence[Any]) -> Blob:
    name, content, size, digest, kind, about, created, due = row
    metadata = msgspec.json.decode(about, type=dict[str, str])
    expires = None if due == FOREVER else due
    return Blob(name, size, digest, kind, metadata, created, expires, content=content)


def begin(tx: Tx, new: Sequence[tuple[int, int]]) -> list[None]:
    """Contents that are about to be written, and until when they have to be."""
    for content, due in new:
        tx.query(BLOBS.begin, {"content": content, "due": due})
    return [None] * len(new)


def put(tx: Tx, new: Sequence[NewBlob]) -> list[Blob]:
    """Make contents blobs; what they replace is deleted later."""
    found: dict[int, Blob] = {}
    # By name: every transaction takes keys in one order.
    for each in sorted(new, key=lambda one: one.name):
        found[each.content] = _put(tx, each)
    return [found[each.content] for each in new]


def _put(tx: Tx, new: NewBlob) -> Blob:
    there = _insert_or_lock(tx, new)
    if there is not None:
        if new.only_if_absent and there[-1] > new.created:
            return blob(there)
        tx.query(BLOBS.replace, _values(new))
        discard(tx, there[1], new.created)
    if not tx.query(BLOBS.keep, {"content": new.content}):
        raise Conflict(f"{new.name!r} took over an hour to be written: nothing was changed")
    return replace(blob(msgspec.structs.astuple(new)[:-1]), new=True)


def _insert_or_lock(tx: Tx, new: NewBlob) -> tuple[Any, ...] | None:
    """The row that is there already; None if this one was written."""
    while not tx.query(BLOBS.insert, _values(new)):
        # Between the two statements another process may have deleted it: then it is written after all.
        if rows := tx.query(BLOBS.lock, {"name": new.name}):
            return rows[0]
    return None


def _values(new: NewBlob) -> dict[str, Any]:
    values = msgspec.structs.asdict(new)
    del values["only_if_absent"]
    return values


def discard(tx: Tx, content: int, now: int) -> None:
    """It has no blob any more; who reads it now may finish."""
    tx.query(BLOBS.discard, {"content": content, "due": now + READING_MS})


def delete(tx: Tx, names: Sequence[tuple[str, int]]) -> list[bool]:
    """End blobs; whether there was one."""
    answers = [False] * len(names)
    for place in sorted(range(len(names)), key=names.__getitem__):
        name, now = names[place]
        for content, due in tx.query(BLOBS.delete, {"name": name}):
            discard(tx, content, now)
            answers[place] = due > now
    return answers


def end_over(tx: Tx, now: int, wanted: int) -> int:
    """End blobs whose time is over; how many."""
    rows = tx.query(BLOBS.over, {"now": now, "wanted": wanted})
    for (content,) in sorted(rows):
        discard(tx, content, now)
    return len(rows)
