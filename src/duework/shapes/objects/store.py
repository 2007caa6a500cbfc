"""Verbs on stored objects: load, commit, list, lease, verify. Each runs inside a caller's transaction.

A commit is a list of changes, one for each object, and each names the version that it was made from.
Versions are compared first, under lock and in one query; of a change that lost nothing is written.
Job rows are locked before objects, as in a settle, which may touch the object of an alarm.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from duework.clock import FOREVER
from duework.db.database import Tx
from duework.db.queries import load as load_statements
from duework.db.sqlite.pages import PAGE, unpacked
from duework.errors import DatabaseError
from duework.kernel.engine import Engine
from duework.kernel.job import Ending, LaneName, LockedJob, NewJob
from duework.kernel.moves import move
from duework.kernel.settle import apply, lock_jobs

OBJECTS = load_statements("duework.shapes.objects", "objects")
# Pages of an object of which a process may keep a packed copy beside the open one.
SMALL = 64


class Loaded(msgspec.Struct, frozen=True):
    """An object as it is stored; id 0 and version 0 if it is not."""

    id: int = 0
    version: int = 0
    alarm: int | None = None
    pages: bytes = b""
    # The same as they are stored, of an object that is small.
    stored: Sequence[bytes] = ()


class Alarm(msgspec.Struct, frozen=True):
    """When the alarm is to ring, and with which payload; `at` None takes it off."""

    at: int | None
    queue: str = "default"
    payload: str = "{}"


class ShapeWrite(msgspec.Struct, frozen=True):
    """What a shape is to write of its own in the commit: a chain, a schedule, a message."""

    name: str
    item: Any


class ObjectChange(msgspec.Struct, frozen=True):
    """What calls of one object made of it."""

    kind: str
    key: str
    base: Loaded
    # How many pages it has now, and those that are new, packed; None leaves them as they are.
    count: int = 0
    pages: Sequence[tuple[int, bytes]] | None = None
    jobs: Sequence[NewJob] = ()
    writes: Sequence[ShapeWrite] = ()
    alarm: Alarm | None = None
    delete: bool = False
    # The holder of the lease under which it was made, if there was one.
    holder: int | None = None


class Stored(msgspec.Struct, frozen=True):
    """What came of a change: the object's id, version and alarm now, or that it lost."""

    outcome: Literal["stored", "lost", "lease lost"]
    id: int = 0
    version: int = 0
    alarm: int | None = None


LOST = Stored("lost")
LEASE_LOST = Stored("lease lost")


def load(tx: Tx, kind: str, key: str) -> Loaded:
    """The object with its pages."""
    rows = tx.query(OBJECTS.load, {"kind": kind, "key": key})
    if not rows:
        return Loaded()
    identifier, version, count, alarm, _ = rows[0]
    stored = [row[4] for row in rows] if count else []
    pages = unpacked(stored)
    if len(pages) != count * PAGE:
        raise DatabaseError(
            f"object {kind} {key} should have {count} pages and has {len(pages) / PAGE:g}:"
            " see `duework verify`"
        )
    return Loaded(identifier, version, alarm, pages, stored if count <= SMALL else ())


def find(tx: Tx, kind: str, key: str) -> Loaded:
    """The object without its pages."""
    rows = tx.query(OBJECTS.find, {"kind": kind, "key": key})
    return Loaded(rows[0][0], rows[0][1], rows[0][3]) if rows else Loaded()


def versions(tx: Tx, ids: list[int]) -> dict[int, int]:
    return {row[0]: row[1] for row in tx.query(OBJECTS.versions, {"ids": ids})}


def commit(tx: Tx, changes: Sequence[ObjectChange], engine: Engine) -> list[Stored]:
    """Write each change whose object is still at the version that it was made from."""
    now = engine.clock.now()
    alarms = _alarm_jobs(tx, changes)
    answers, ids = _admitted(tx, changes, engine, now)
    won = [place for place, answer in enumerate(answers) if answer is None]
    _write(tx, [(ids[place], changes[place]) for place in won], now)
    set_to = _set_alarms(tx, [(ids[p], changes[p]) for p in won], alarms, engine, now)
    if jobs := [job for place in won for job in changes[place].jobs]:
        engine.enqueue(tx, jobs)
    for place in won:
        for each in changes[place].writes:
            engine.registry.writes[each.name].verb(tx, [each.item])
    for place in won:
        change, identifier = changes[place], ids[place]
        version = 0 if change.delete else change.base.version + 1
        alarm = set_to.get(identifier, change.base.alarm)
        answers[place] = Stored("stored", identifier, version, alarm)
    return [answer for answer in answers if answer is not None]


def _alarm_jobs(tx: Tx, changes: Sequence[ObjectChange]) -> dict[int, LockedJob]:
    """The present alarms of changes that touch them, under lock."""
    touched = [c for c in changes if c.alarm is not None or c.delete]
    ids = sorted({c.base.alarm for c in touched if c.base.alarm is not None})
    return lock_jobs(tx, ids) if ids else {}


def _admitted(
    tx: Tx, changes: Sequence[ObjectChange], engine: Engine, now: int
) -> tuple[list[Stored | None], list[int]]:
    """For each change, None or why it lost; and the ids of the objects, new ones drawn."""
    answers: list[Stored | None] = [None] * len(changes)
    ids = [change.base.id for change in changes]
    for place, change in enumerate(changes):
        if change.holder is not None and not _holds(tx, change):
            answers[place] = LEASE_LOST
        elif change.delete and change.holder is None:
            # It will be ended: leases are locked before objects.
            tx.query(OBJECTS.lease_holder, {"kind": change.kind, "key": change.key})
    known = sorted({each for each in ids if each})
    stored = dict(tx.query(OBJECTS.lock_versions, {"ids": known})) if known else {}
    fresh: list[int] = []
    for place, change in enumerate(changes):
        if answers[place] is not None:
            continue
        if not change.base.id:
            fresh.append(place)
        # Also of two in one group the first wins: the other was not made from what it wrote.
        elif stored.pop(change.base.id, None) != change.base.version:
            answers[place] = LOST
    if fresh:
        _create(tx, changes, fresh, answers, ids, engine, now)
    return answers, ids


def _create(
    tx: Tx,
    changes: Sequence[ObjectChange],
    fresh: list[int],
    answers: list[Stored | None],
    ids: list[int],
    engine: Engine,
    now: int,
) -> None:
    """Make the objects that are new; somebody else may have been first."""
    fresh = [place for place in fresh if not changes[place].delete]
    fresh.sort(key=lambda place: (changes[place].kind, changes[place].key))
    rows = []
    for place in fresh:
        ids[place] = engine.ids.draw()
        change = changes[place]
        rows.append((ids[place], change.kind, change.key, change.count, now))
    tx.bulk(OBJECTS.create, rows)
    made = versions(tx, [ids[place] for place in fresh])
    for place in fresh:
        if ids[place] not in made:
            answers[place] = LOST


def _holds(tx: Tx, change: ObjectChange) -> bool:
    rows = tx.query(OBJECTS.lease_holder, {"kind": change.kind, "key": change.key})
    return bool(rows) and rows[0][0] == change.holder


def _write(tx: Tx, won: list[tuple[int, ObjectChange]], now: int) -> None:
    """Versions and pages of changes that were admitted."""
    in_order = sorted(won, key=lambda pair: pair[0])
    old = [(i, c) for i, c in in_order if c.base.id and not c.delete]
    if old:
        count = [c.count if c.pages is not None else len(c.base.pages) // PAGE for _, c in old]
        tx.bulk(OBJECTS.change, [(n, now, i) for n, (i, _) in zip(count, old, strict=True)])
    pages = [(i, number, page) for i, c in in_order for number, page in c.pages or ()]
    if pages:
        tx.bulk(OBJECTS.write_pages, pages)
    gone = [(i, 0) for i, c in in_order if c.delete and i]
    short = [
        (i, c.count) for i, c in old if c.pages is not None and c.count * PAGE < len(c.base.pages)
    ]
    if gone or short:
        tx.bulk(OBJECTS.cut_pages, [*gone, *short])
    if gone:
        tx.bulk(OBJECTS.remove, [(i,) for i, _ in gone])
    for _, change in in_order:
        if change.delete:
            # An async method that runs may go on, and what it writes must not make the object anew.
            where = {"kind": change.kind, "key": change.key, "holder": change.holder or 0}
            tx.query(OBJECTS.end_lease, where)


def _set_alarms(
    tx: Tx,
    won: list[tuple[int, ObjectChange]],
    alarms: dict[int, LockedJob],
    engine: Engine,
    now: int,
) -> dict[int, int | None]:
    """Move, make and take off alarms; the new one of each object whose alarm is another job now."""
    new: list[tuple[int, NewJob]] = []
    now_is: dict[int, int | None] = {}
    for identifier, change in won:
        if change.alarm is None and not change.delete:
            continue
        row = alarms.get(change.base.alarm or 0)
        waits = row is not None and row.state == "open" and row.worker is None
        if change.alarm is not None and change.alarm.at is not None and not change.delete:
            if row is not None and waits:
                move(tx, [(row.id, change.alarm.at)])
                engine.ring_after(tx)
            else:
                new.append((identifier, _alarm_job(identifier, change, change.alarm)))
            continue
        if row is not None and waits:
            ending = Ending(row.id, row.fence, 0, "cancelled", keep=0)
            apply(tx, row, ending, engine.settle_context(now))
        if not change.delete:
            now_is[identifier] = None
    if new:
        answers = engine.enqueue(tx, [job for _, job in new])
        now_is |= {i: answer.id for (i, _), answer in zip(new, answers, strict=True)}
    if now_is:
        tx.bulk(OBJECTS.alarm_is, [(now_is[i], i) for i in sorted(now_is)])
    return now_is


def alarm_task(kind: str) -> str:
    return f"{kind}.alarm"


def _alarm_job(identifier: int, change: ObjectChange, alarm: Alarm) -> NewJob:
    lane = LaneName(alarm.queue, alarm_task(change.kind))
    at = FOREVER if alarm.at is None else alarm.at
    return NewJob(lane, alarm.payload, at, owner=f"object:{identifier}")


# --- leases of async methods


class ObjectClaim(msgspec.Struct, frozen=True):
    """Who wants to run an async method of which object, and until when."""

    kind: str
    key: str
    # Drawn for this call.
    holder: int
    until: int = 0
    # Of an alarm: its job, and the attempt that it is of.
    job: int | None = None
    fence: int = 0


def take_leases(tx: Tx, claims: Sequence[ObjectClaim], now: int) -> list[bool]:
    """Whether each of them holds the object now."""
    found = [False] * len(claims)
    for place, claim in _in_order(claims):
        values = {**msgspec.structs.asdict(claim), "now": now}
        found[place] = bool(tx.query(OBJECTS.take_lease, values))
        if not found[place]:
            tx.query(OBJECTS.want_lease, {"kind": claim.kind, "key": claim.key})
    return found


def _in_order(claims: Sequence[ObjectClaim]) -> list[tuple[int, ObjectClaim]]:
    """With their places, in the order in which every transaction locks leases."""
    return sorted(enumerate(claims), key=lambda each: (each[1].kind, each[1].key))


def leased(tx: Tx, claim: ObjectClaim, now: int) -> bool:
    """Whether somebody else holds the object."""
    values = {"kind": claim.kind, "key": claim.key, "holder": claim.holder, "now": now}
    return bool(tx.query(OBJECTS.leased, values))


def extend_leases(tx: Tx, claims: Sequence[ObjectClaim]) -> None:
    rows = [(c.until, c.kind, c.key, c.holder) for _, c in _in_order(claims)]
    tx.bulk(OBJECTS.extend_lease, rows)


def drop_leases(tx: Tx, claims: Sequence[ObjectClaim]) -> list[bool]:
    """Whether somebody in another process waits for each of them."""
    found = [False] * len(claims)
    for place, claim in _in_order(claims):
        values = {"kind": claim.kind, "key": claim.key, "holder": claim.holder}
        found[place] = any(row[0] for row in tx.query(OBJECTS.drop_lease, values))
    return found


# --- alarms


def alarm_of(tx: Tx, kind: str, key: str) -> int | None:
    rows = tx.query(OBJECTS.alarm_of, {"kind": kind, "key": key})
    return rows[0][0] if rows else None


def end_alarm(tx: Tx, kind: str, key: str, job: int) -> None:
    """It has rung; the next one may have been set meanwhile."""
    tx.query(OBJECTS.alarm_is_over, {"kind": kind, "key": key, "job": job})


# --- looking


def listed(tx: Tx, kind: str, *, after: tuple[str, str], prefix: str, wanted: int, now: int) -> Any:
    """One page of rows, by kind and key."""
    if not kind:
        values = {"kind": after[0], "key": after[1], "wanted": wanted, "now": now}
        return tx.query(OBJECTS.listed, values)
    values = {
        "kind": kind,
        "key": after[1],
        "first": prefix,
        "last": prefix + "\U0010ffff",
        "wanted": wanted,
        "now": now,
    }
    return tx.query(OBJECTS.listed_of, values)


def shown(tx: Tx, kind: str, key: str, now: int) -> Any:
    rows = tx.query(OBJECTS.shown, {"kind": kind, "key": key, "now": now})
    return rows[0] if rows else None
