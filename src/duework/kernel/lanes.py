"""Lanes: the small rows behind jobs that are interchangeable for admission.

A lane is made the first time a job needs it and is never removed, so its number can be remembered
by a process for as long as it lives, once the transaction that made it has committed. One without jobs
costs nothing: a look for work comes from the jobs to their lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from duework.clock import FOREVER
from duework.db.database import Database, Tx, Values
from duework.db.queries import Statement, load
from duework.kernel.job import LaneName

JOBS = load("duework.kernel", "jobs")

Query = Callable[[Statement, Values], list[tuple[Any, ...]]]

# With so many dead rows, a look at lanes starts where the last one found the first job, for so long.
DEAD_ROWS = 50_000
FLOOR_MS = 1000


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane as a claim sees it: when it admits jobs, and when its first one is due."""

    id: int
    name: LaneName
    due: int
    head: int
    # The first job itself, where a claim should start with it.
    head_id: int = 0


class Lanes:
    """The lane numbers that this process has seen committed."""

    def __init__(self) -> None:
        self._known: dict[LaneName, int] = {}
        self._names: dict[int, LaneName] = {}
        # The first job of each lane when it was last looked at, and until when that is good enough.
        self._floors: dict[int, tuple[int, int]] = {}
        self._floors_until = 0
        self._many_dead = False
        # Of lanes that take turns, the one that was served last; of paced ones their pace knows.
        self.turns: dict[str, int] = {}

    def number(self, tx: Tx, name: LaneName) -> int:
        """The lane's number; makes the lane if it is new."""
        if (known := self._known.get(name)) is not None:
            return known
        values = msgspec.structs.asdict(name)
        if not (rows := tx.query(JOBS.lane_ids, values)):
            tx.query(JOBS.lock_lane_births, {})
            while not (rows := tx.query(JOBS.lane_ids, values)):
                tx.query(JOBS.new_lane, {**values, "forever": FOREVER})
        *plain, number = rows[0]
        # By its own words: a caller's may be of a type that only looks like a text.
        tx.after_commit.append(partial(self._remember, name, LaneName(*plain), int(number)))
        return int(number)

    def numbers(self, tx: Tx, names: Iterable[LaneName]) -> dict[LaneName, int]:
        # In one order for all, since making a lane takes a lock.
        ordered = sorted(set(names), key=lambda n: (n.queue, n.task, n.priority, n.tier, n.share))
        return {name: self.number(tx, name) for name in ordered}

    def name(self, tx: Tx, number: int) -> LaneName:
        if (known := self._names.get(number)) is not None:
            return known
        if not (rows := tx.query(JOBS.lane_name, {"id": number})):
            # A row whose lane is not there was damaged; it must not stop the others.
            return LaneName("lost", "lost")
        found = LaneName(*rows[0])
        # Not before the commit: a lane made by a transaction that is undone leaves its number.
        tx.after_commit.append(partial(self._names.__setitem__, number, found))
        return found

    def all(self, tx: Tx, now: int | None = None) -> list[Lane]:
        """Every lane with jobs that no worker holds, and the due time of the first one."""
        if now is None:
            return _looked(tx.query, {})
        if not self._floors_until - FLOOR_MS <= now < self._floors_until:
            # PostgreSQL keeps claimed jobs in the index while a transaction has an old snapshot, and would
            # walk through all of them. What comes before the floor meanwhile waits for a second.
            self._floors_until, self._floors = now + FLOOR_MS, {}
            self._many_dead = tx.query(JOBS.dead_rows, {})[0][0] > DEAD_ROWS
        found = _looked(tx.query, self._floors)
        if self._floors and not self._floors.keys() <= {lane.id for lane in found}:
            self._floors, found = {}, _looked(tx.query, {})
        if self._many_dead:
            ready = [lane for lane in found if lane.head <= now]
            self._floors.update((lane.id, (lane.head, lane.head_id)) for lane in ready)
        return found

    @property
    def certain_until(self) -> int:
        """When to look again for jobs that may lie before a floor."""
        return self._floors_until if self._floors else FOREVER

    def seen(self, database: Database) -> list[Lane]:
        """The same as they are now, without a transaction."""
        return _looked(database.ask, {})

    def _remember(self, asked: LaneName, name: LaneName, number: int) -> None:
        self._known[asked] = number
        self._names[number] = name


def _looked(query: Query, floors: Mapping[int, tuple[int, int]]) -> list[Lane]:
    if floors:
        places = list(floors.values())
        values = {
            "floor_lanes": list(floors),
            "floor_dues": [due for due, _ in places],
            "floor_ids": [job for _, job in places],
        }
        rows = query(JOBS.lanes_above, values)
    else:
        rows = query(JOBS.lanes, {})
    return [
        Lane(row[0], LaneName(row[1], row[2], row[3], row[4], row[5], row[6]), *row[7:])
        for row in rows
    ]


def pause(tx: Tx, queue: str) -> None:
    """Admit no more jobs of a queue, or of all ('*'); what runs goes on."""
    tx.query(JOBS.lock_lane_births, {})
    tx.query(JOBS.pause, {"queue": queue})
    tx.query(JOBS.pause_lanes, {"queue": queue, "forever": FOREVER})


def resume(tx: Tx, queue: str) -> None:
    tx.query(JOBS.lock_lane_births, {})
    tx.query(JOBS.resume, {"queue": queue})
    tx.query(JOBS.resume_lanes, {"queue": queue, "forever": FOREVER})


def paused(tx: Tx) -> list[str]:
    return [row[0] for row in tx.query(JOBS.paused, {})]
