"""Verbs on sweeps: start, stop, reset, commit a group. Each runs inside a transaction of the caller's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from duework.clock import FOREVER
from duework.db.database import Blocked, Retryable
from duework.db.queries import load
from duework.errors import LeaseLost, NotFound
from duework.kernel.error_text import describe, storable
from duework.kernel.facts import ShapeFact
from duework.kernel.job import LaneName, NewJob
from duework.kernel.moves import forget, still_held, wake
from duework.kernel.settle import EFFECT_LIMIT_MS, THEIRS

if TYPE_CHECKING:
    from duework.db.database import Tx
    from duework.kernel.engine import Engine
    from duework.kernel.job import Effect

SWEEPS = load("duework.shapes.sweeps", "sweeps")
OWNER = "sweep:"

# How an item ended: what the paces of the sweep are told.
Word = Literal["completed", "failed", "permanent", "throttled", "snoozed"]


@dataclass(frozen=True, slots=True)
class ItemFailed(ShapeFact):
    """An item of a sweep has failed, and is left alone for a while."""

    sweep: str
    key: str
    error: str


class SweepRow(msgspec.Struct, frozen=True):
    """A sweep as it is stored."""

    name: str
    state: str
    job: int | None
    queue: str
    priority: int
    current: str | None
    rounds: int
    done: int
    failed: int
    last_at: int | None
    created: int


class SweepItem(msgspec.Struct, frozen=True):
    """An item that went wrong, and when it is tried again."""

    key: str
    failures: int
    # In milliseconds; far in the future once it is given up.
    next_try: int
    error: str | None

    @property
    def given_up(self) -> bool:
        """Whether it is not tried again until the sweep is reset."""
        return self.next_try >= FOREVER


class EndedItem(msgspec.Struct):
    """What came of one item: its effects, or when it is tried again."""

    key: str
    word: Word = "completed"
    effects: tuple[Effect, ...] = ()
    error: str | None = None
    # Milliseconds until it is tried again; None: by the backoff of the sweep.
    wait_ms: int | None = None


class SweepGroup(msgspec.Struct):
    """Items that are committed together, under the fence of the job that sweeps."""

    sweep: str
    job: int
    fence: int
    ended: list[EndedItem]
    # Milliseconds until the n-th failure is tried again; None if it is given up.
    delay: Callable[[int], int | None]
    # Whether it is the first of its round.
    first: bool = False


# --- starting and stopping


def declare(tx: Tx, row: SweepRow, engine: Engine) -> None:
    """Write a sweep, and its sweeper if it runs; safe to repeat, on every node."""
    values = {"name": row.name, "state": row.state, "queue": row.queue, "priority": row.priority}
    tx.query(SWEEPS.declare, {**values, "now": engine.clock.now()})
    found = locked(tx, row.name)
    moved = (found.queue, found.priority) != (row.queue, row.priority)
    if moved:
        tx.query(SWEEPS.place, values)
        found = locked(tx, row.name)
    if found.state == "running" and found.job is not None and moved:
        # One that is held sees it when it begins its next round.
        _enqueue_again(tx, found, found.job, engine)
    elif found.state == "running" and found.job is None:
        _enqueue(tx, found, engine)


def _enqueue_again(tx: Tx, row: SweepRow, job: int, engine: Engine) -> None:
    if not still_held(tx, [job]):
        forget(tx, [job])
        _enqueue(tx, row, engine)


def locked(tx: Tx, name: str) -> SweepRow:
    """Under lock where the database has such locks."""
    rows = tx.query(SWEEPS.lock, {"name": name})
    if not rows:
        raise NotFound(f"there is no sweep {name!r}")
    return SweepRow(*rows[0])


def _enqueue(tx: Tx, row: SweepRow, engine: Engine) -> None:
    lane = LaneName(row.queue, row.name, row.priority)
    new = NewJob(lane, "{}", engine.clock.now(), owner=f"{OWNER}{row.name}")
    job = engine.enqueue(tx, [new])[0].id
    tx.query(SWEEPS.runs, {"name": row.name, "state": "running", "job": job})


def start(tx: Tx, name: str, engine: Engine) -> None:
    """Let it run, and look at once. A sweeper that is about to stop sees it when it settles."""
    row = locked(tx, name)
    if row.job is None:
        _enqueue(tx, row, engine)
    else:
        tx.query(SWEEPS.runs, {"name": name, "state": "running", "job": row.job})
        wake(tx, row.job, now=engine.clock.now())
        engine.ring_after(tx)


def stop(tx: Tx, name: str) -> None:
    """Begin no more groups; one that runs is completed."""
    row = locked(tx, name)
    waits = row.job is not None and not still_held(tx, [row.job])
    if row.job is not None and waits:
        forget(tx, [row.job])
    values = {"name": name, "state": "stopped", "job": None if waits else row.job}
    tx.query(SWEEPS.runs, values)


def leave(tx: Tx, name: str, job: int, engine: Engine) -> None:
    """In the settle of a sweeper that was stopped: gone, or another if it was started meanwhile."""
    row = locked(tx, name)
    if row.job == job and row.state == "running":
        _enqueue(tx, row, engine)
    elif row.job == job:
        tx.query(SWEEPS.runs, {"name": name, "state": row.state, "job": None})


def interrupted(tx: Tx, name: str, job: int) -> None:
    """Somebody has cancelled the sweeper: the sweep is stopped."""
    for found in tx.query(SWEEPS.lock, {"name": name}):
        if SweepRow(*found).job == job:
            tx.query(SWEEPS.runs, {"name": name, "state": "stopped", "job": None})


def reset(tx: Tx, name: str) -> None:
    """Forget what went wrong, and begin to count anew."""
    locked(tx, name)
    tx.query(SWEEPS.forget, {"name": name})
    tx.query(SWEEPS.forget_items, {"sweep": name})


# --- a group


def commit(tx: Tx, group: SweepGroup, engine: Engine) -> list[EndedItem]:
    """Write what a group has done, each item in a part of its own; how each ended.

    `LeaseLost` if another sweeper has taken over, and nothing is written.
    """
    if still_held(tx, [group.job]).get(group.job) != group.fence:
        raise LeaseLost
    ended = [_applied(tx, each) for each in group.ended]
    good = [each.key for each in ended if each.word == "completed"]
    tx.query(SWEEPS.went_well, {"sweep": group.sweep, "keys": good})
    bad = {each.key: each for each in ended if each.word != "completed"}
    found = tx.query(SWEEPS.items, {"sweep": group.sweep, "keys": sorted(bad)}) if bad else []
    known = {row[0]: row[1] for row in found}
    for key in sorted(bad):
        _put_off(tx, group, bad[key], known.get(key, 0), engine)
    failed = sum(each.word in {"failed", "permanent"} for each in ended)
    counts = {"rounds": int(group.first), "done": len(good), "failed": failed}
    tx.query(SWEEPS.counted, {"name": group.sweep, **counts, "now": engine.clock.now()})
    return ended


def _applied(tx: Tx, item: EndedItem) -> EndedItem:
    if item.word != "completed" or not item.effects:
        return item
    try:
        with tx.savepoint(EFFECT_LIMIT_MS):
            for effect in item.effects:
                effect(tx)
    except (Retryable, Blocked, RecursionError, MemoryError):
        raise
    except THEIRS as error:
        # What it wrote is undone, and the others of its group are not.
        return EndedItem(item.key, "failed", error=describe(error))
    return item


def _put_off(tx: Tx, group: SweepGroup, item: EndedItem, failures: int, engine: Engine) -> None:
    now, counts = engine.clock.now(), item.word in {"failed", "permanent"}
    failures += int(counts)
    wait = item.wait_ms
    if item.word == "permanent":
        wait = None
    elif wait is None:
        wait = group.delay(failures)
    next_try = FOREVER if wait is None else now + wait
    error = None if item.error is None else storable(item.error)
    values = {"sweep": group.sweep, "key": item.key, "failures": failures, "error": error}
    tx.query(SWEEPS.went_wrong, {**values, "next_try": next_try, "now": now})
    if counts:
        fact = ItemFailed(group.sweep, item.key, item.error or "")
        tx.after_commit.append(partial(engine.emit, fact))


def failing(tx: Tx, name: str, *, now: int, limit: int) -> Sequence[SweepItem]:
    """Items that are left alone for now, the next ones first."""
    values: dict[str, Any] = {"sweep": name, "now": now, "wanted": limit}
    return [SweepItem(*row) for row in tx.query(SWEEPS.failing, values)]
