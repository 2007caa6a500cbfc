"""Verbs on schedules: put, fire, move, take away. Each runs inside a caller's transaction.

An active schedule has one open job of the engine's own, due when its next slot is to be fired. A fire
makes the job of the slot, notes what it did and plans the next slot, in one transaction: so a slot is
fired once, whoever fires it and wherever that process is lost. Whoever fires one schedule takes along
others that are due. Jobs are locked before schedules, by every transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from typing import Any

from duework.codec import encode
from duework.db.database import Tx
from duework.db.queries import load
from duework.durations import moment
from duework.errors import Conflict, NotFound, UsageError
from duework.kernel.engine import Engine
from duework.kernel.job import OWN_QUEUE, LaneName, NewJob
from duework.kernel.moves import forget, move
from duework.kernel.run import SCHEDULED
from duework.kernel.settle import lock_jobs
from duework.shapes.schedules.row import Row, advance

SCHEDULES = load("duework.shapes.schedules", "schedules")

FIRE_TASK = "duework.fire"
OWNER = "schedule:"
# The most schedules that are fired in one transaction.
GROUP = 500


class ScheduleVerbs:
    """The schedules of one process's database."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    # --- looking

    def find(self, tx: Tx, keys: Sequence[str]) -> dict[str, Row]:
        found = tx.query(SCHEDULES.rows, {"keys": list(keys)})
        return {row[0]: Row(*row) for row in found}

    def page(self, tx: Tx, prefix: str, after: str, limit: int) -> list[Row]:
        """One page by key. Behind every key with the prefix comes the prefix and the last letter."""
        low = max(prefix, after + "\x01") if after else prefix
        values = {"low": low, "high": prefix + "\U0010ffff", "wanted": limit}
        return [Row(*row) for row in tx.query(SCHEDULES.page, values)]

    def _locked(self, tx: Tx, keys: Sequence[str]) -> dict[str, Row]:
        """Rows under lock, after the jobs that fire them."""
        jobs = [row.job for row in self.find(tx, keys).values() if row.job is not None]
        if jobs:
            lock_jobs(tx, sorted(jobs))
        return {row[0]: Row(*row) for row in tx.query(SCHEDULES.rows_locked, {"keys": list(keys)})}

    def _one(self, tx: Tx, key: str) -> Row:
        row = self._locked(tx, [key]).get(key)
        if row is None or row.state == "deleted":
            raise NotFound(f"there is no schedule {key!r}")
        return row

    # --- putting

    def put(self, tx: Tx, wanted: Sequence[Row], *, default: bool) -> list[Row]:
        """Write schedules as code gives them; what is there already keeps its history.

        With `default`, by a decorator: what an operator has changed or deleted stays so.
        """
        # A group may be run again: each time with rows of its own.
        wanted = [copy(row) for row in wanted]
        found = self._locked(tx, [row.key for row in wanted])
        new = [row for row in wanted if row.key not in found]
        for row in () if default else wanted:
            there = found.get(row.key)
            if row.slot is None and (there is None or not _unchanged(there, row)):
                raise UsageError(f"the schedule {row.key!r} has no slot to come: {row.when}")
        self._enqueue(tx, [row for row in new if row.due is not None])
        made = self._create(tx, sorted(new, key=lambda row: row.key))
        answers: dict[str, Row] = {}
        for row in sorted(wanted, key=lambda row: row.key):
            there = found.get(row.key)
            if there is None and made.get(row.key) is row:
                answers[row.key] = row
                continue
            if there is None:
                # Another transaction was first; that row has a job already.
                self._take_away(tx, row)
                there = self._locked(tx, [row.key])[row.key]
            answers[row.key] = self._put_again(tx, there, row, default=default)
        return [answers[row.key] for row in wanted]

    def _create(self, tx: Tx, rows: Sequence[Row]) -> dict[str, Row]:
        """Write rows that were not there, in one statement; those of which no other was first."""
        names = SCHEDULES.create.names
        count = tx.bulk(SCHEDULES.create, [tuple(_values(row, names).values()) for row in rows])
        if count == len(rows):
            return {row.key: row for row in rows}
        there = self.find(tx, [row.key for row in rows])
        return {row.key: row for row in rows if row.job and row.job == there[row.key].job}

    def _put_again(self, tx: Tx, there: Row, given: Row, *, default: bool) -> Row:
        if there.declared == given.declared and (default or there.state != "deleted"):
            return there
        there.declared, there.decorated = given.declared, given.decorated
        if not (default and (there.edited or there.state == "deleted")):
            there.replace(given, default=default)
            self._arm(tx, there)
        self._save(tx, there)
        return there

    def withdraw(self, tx: Tx, keys: Sequence[str]) -> list[str]:
        """Take away what a decorator once declared and no longer does, unless somebody edited it."""
        gone = [
            row
            for row in self._locked(tx, keys).values()
            if row.decorated and not row.edited and row.state != "deleted"
        ]
        for row in gone:
            self._take_away(tx, row)
            tx.query(SCHEDULES.remove, {"key": row.key})
        return [row.key for row in gone]

    # --- by operators

    def pause(self, tx: Tx, key: str) -> Row:
        row = self._one(tx, key)
        if row.state == "active":
            row.unplan("paused")
            self._take_away(tx, row)
            self._save(tx, row)
        return row

    def resume(self, tx: Tx, key: str) -> Row:
        """Go on from now; slots that passed meanwhile were not wanted."""
        row = self._one(tx, key)
        if row.state == "paused":
            row.error = None
            row.plan(self._engine.clock.now())
            self._arm(tx, row)
            self._save(tx, row)
        return row

    def edit(self, tx: Tx, key: str, change: Callable[[Row], None]) -> Row:
        row = self._one(tx, key)
        planned = (row.when, row.count)
        change(row)
        row.edited = 1
        if (row.when, row.count) != planned:
            row.counted = 0
            if row.state != "paused":
                row.plan(self._engine.clock.now())
        self._arm(tx, row)
        self._save(tx, row)
        return row

    def postpone(self, tx: Tx, key: str, length: int) -> Row:
        """The next slot is fired later than planned; it is still that slot."""
        row = self._one(tx, key)
        if row.due is None:
            raise Conflict(f"schedule {key!r} is {row.state}: there is no fire to postpone")
        row.due = moment(row.due + length)
        self._arm(tx, row)
        self._save(tx, row)
        return row

    def delete(self, tx: Tx, key: str) -> Row:
        """Fire no more. One that a decorator declares stays deleted when it is declared again."""
        row = self._one(tx, key)
        row.unplan("deleted")
        self._take_away(tx, row)
        if row.decorated:
            row.edited = 1
            self._save(tx, row)
        else:
            tx.query(SCHEDULES.remove, {"key": key})
        return row

    def fire_now(self, tx: Tx, key: str) -> int:
        """Make a job at once, whatever the plan and whatever still runs; the job's id."""
        row = self._one(tx, key)
        now = self._engine.clock.now()
        new = NewJob(row.lane, row.payload, now, key=f"{SCHEDULED}{row.key}@{now}")
        made = self._engine.enqueue(tx, [new])[0]
        row.last_job, row.last_at, row.last_outcome = made.id, now, "fired"
        row.fires += 1
        self._save(tx, row)
        return made.id

    def interrupted(self, tx: Tx, key: str, job: int, why: str | None) -> None:
        """Somebody has ended the job that fires: so be it, until it is resumed."""
        row = self._locked(tx, [key]).get(key)
        if row is not None and row.job == job and row.state == "active":
            row.unplan("paused")
            row.job, row.error = None, f"the job that fires it was ended: {why}"
            self._save(tx, row)

    # --- firing

    def fire(
        self,
        tx: Tx,
        key: str,
        job: int,
        *,
        group: bool,
        idle: bool = False,
        note: str | None = None,
    ) -> None:
        """Fire a schedule whose job is about to end, and with `group` others that are due."""
        now = self._engine.clock.now()
        others: dict[str, int] = {}
        if group:
            lane = self._engine.lanes.number(tx, LaneName(OWN_QUEUE, FIRE_TASK))
            values = {"lane": lane, "now": now, "wanted": GROUP - 1}
            for other, owner in tx.query(SCHEDULES.due_fires, values):
                others[owner.removeprefix(OWNER)] = other
        rows = [
            Row(*row) for row in tx.query(SCHEDULES.rows_locked, {"keys": sorted({key, *others})})
        ]
        # A job that is not its schedule's any more has nothing to fire; it is not in the way either.
        mine = [row for row in rows if row.job == (job if row.key == key else others[row.key])]
        busy = self._busy(tx, mine)
        fires: list[tuple[Row, int]] = []
        for row in mine:
            if row.due is not None and row.due <= now:
                row.error = note
                fires += [(row, slot) for slot in advance(row, now, busy=busy, idle=idle)]
        # Ids in the order of slots: of jobs that are claimed together, the oldest goes first.
        self._make(tx, sorted(fires, key=lambda fire: fire[1]), busy)
        self._rearm(tx, mine, key, others)
        tx.bulk(
            SCHEDULES.fired,
            [
                (
                    *(row.slot, row.due, row.job, row.last_slot, row.last_at, row.last_job),
                    *(row.last_outcome, row.fires, row.idles, row.skips, row.state, row.error),
                    *(row.counted, row.key),
                )
                for row in mine
            ],
        )

    def _busy(self, tx: Tx, rows: Sequence[Row]) -> set[int]:
        """Jobs of earlier slots that are still open."""
        jobs = [row.last_job for row in rows if row.last_job is not None]
        return (
            {found[0] for found in tx.query(SCHEDULES.open_among, {"ids": jobs})} if jobs else set()
        )

    def _make(self, tx: Tx, fires: Sequence[tuple[Row, int]], busy: set[int]) -> None:
        """The jobs of slots: in bulk, but for those that wait in line."""
        engine = self._engine
        plain: list[tuple[Row, NewJob]] = []
        for row, slot in fires:
            key = f"{SCHEDULED}{row.key}@{slot}"
            if row.overlap == "skip":
                plain.append((row, NewJob(row.lane, row.payload, slot, key=key)))
            else:
                if row.overlap == "replace" and row.last_job in busy:
                    engine.cancel(tx, [(row.last_job, f"replaced by the slot {slot} of {row.key}")])
                serial = f"{SCHEDULED}{row.key}"
                new = NewJob(row.lane, row.payload, slot, key=key, serial=serial)
                row.last_job = engine.enqueue(tx, [new])[0].id
        if plain:
            # A slot that was fired before, and is still open, is not fired again.
            made = engine.enqueue_keyed(tx, [new for _, new in plain])
            for (row, _), one in zip(plain, made, strict=True):
                row.last_job = one.id
        if fires:
            engine.ring_after(tx)

    def _rearm(self, tx: Tx, rows: Sequence[Row], key: str, others: dict[str, int]) -> None:
        """Ours ends with this transaction, so it gets a new job; the others' jobs are moved."""
        moves: list[tuple[int, int]] = []
        gone: list[int] = []
        for row in rows:
            if row.key == key:
                row.job = None
                self._arm(tx, row)
            elif row.due is None:
                gone.append(others[row.key])
                row.job = None
            else:
                moves.append((others[row.key], row.due))
        move(tx, moves)
        # One whose schedule is gone, or has another.
        kept = {row.key for row in rows}
        gone += [job for name, job in others.items() if name not in kept and name != key]
        forget(tx, gone)

    # --- the job that fires

    def _arm(self, tx: Tx, row: Row) -> None:
        """Let the row's job be due when the row is; the caller saves the row."""
        if row.due is None:
            self._take_away(tx, row)
            return
        there = lock_jobs(tx, [row.job]).get(row.job) if row.job is not None else None
        if there is not None and there.state == "open":
            if there.worker is not None:
                # It is being fired at this moment, and will look at the row before it ends.
                return
            if there.task == fire_task(row):
                move(tx, [(there.id, row.due)])
                self._engine.ring_after(tx)
                return
            forget(tx, [there.id])
        self._enqueue(tx, [row])

    def _enqueue(self, tx: Tx, rows: Sequence[Row]) -> None:
        """A new job for each of these, which are due at some time."""
        new = [
            NewJob(
                LaneName(OWN_QUEUE, fire_task(row)),
                encode({"key": row.key}),
                row.due or 0,
                owner=f"{OWNER}{row.key}",
            )
            for row in rows
        ]
        for row, made in zip(rows, self._engine.enqueue(tx, new) if new else (), strict=True):
            row.job = made.id

    def _take_away(self, tx: Tx, row: Row) -> None:
        if row.job is None:
            return
        there = lock_jobs(tx, [row.job]).get(row.job)
        if there is None or there.state != "open":
            row.job = None
        elif there.worker is None:
            forget(tx, [there.id])
            row.job = None

    def mend(self, tx: Tx, keys: Sequence[str]) -> None:
        """Give these a job again if theirs is gone, as after rows were deleted by hand."""
        for row in self._locked(tx, keys).values():
            self._arm(tx, row)
            self._save(tx, row)

    def _save(self, tx: Tx, row: Row) -> None:
        tx.query(SCHEDULES.save, _values(row, SCHEDULES.save.names))


def _values(row: Row, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(row, name) for name in names}


def _unchanged(there: Row, given: Row) -> bool:
    return there.declared == given.declared and there.state != "deleted"


def fire_task(row: Row) -> str:
    """The task that fires it: a check is known only to processes that know the task."""
    return f"{FIRE_TASK}:{row.task}" if row.idle else FIRE_TASK
