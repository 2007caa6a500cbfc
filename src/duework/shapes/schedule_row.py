"""A schedule's row, and what becomes of it when it is due: no database, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from duework.errors import Error
from duework.kernel.job import LaneName
from duework.kernel.report import describe
from duework.shapes.calendar import Kind, When

# A slot that is later than this was missed.
LATE_MS = 60_000

Missed = Literal["skip", "once", "all"]
Overlap = Literal["skip", "queue", "replace"]
State = Literal["active", "paused", "ended", "deleted"]


@dataclass(slots=True)
class Row:
    """A schedule's row, in the order of its columns."""

    key: str
    task: str
    queue: str
    priority: int
    payload: str
    kind: Kind
    rule: str
    start: int
    tz: str
    missed: Missed
    missed_limit: int
    overlap: Overlap
    idle: int = 0
    state: State = "active"
    slot: int | None = None
    due: int | None = None
    job: int | None = None
    last_slot: int | None = None
    last_at: int | None = None
    last_job: int | None = None
    last_outcome: str | None = None
    fires: int = 0
    idles: int = 0
    skips: int = 0
    declared: str | None = None
    decorated: int = 0
    edited: int = 0
    owner: str = ""
    why: str = ""
    error: str | None = None
    created: int = 0

    @property
    def when(self) -> When:
        return When(self.kind, self.rule, self.start, self.tz)

    @property
    def lane(self) -> LaneName:
        return LaneName(self.queue, self.task, self.priority)

    def plan(self, after: int) -> None:
        """The first slot later than `after`, and than every slot it ever had.

        A one-shot whose time has passed and that was never fired is still to come.
        """
        if self.kind == "at":
            after = self.start - 1
        if self.last_slot is not None:
            after = max(after, self.last_slot)
        self.slot = self.due = self.when.next(after)
        self.state = "active" if self.slot is not None else "ended"

    def unplan(self, state: State) -> None:
        self.state, self.slot, self.due = state, None, None


# What code may say about a schedule; the rest is history.
SAID = (
    *("task", "queue", "priority", "payload", "kind", "rule", "start", "tz"),
    *("missed", "missed_limit", "overlap", "idle", "owner", "why"),
)


def turn(row: Row, now: int, *, busy: set[int], idle: bool) -> list[int]:
    """Note what becomes of a due row and plan its next slot; the slots to make jobs of."""
    planned = row.slot
    assert planned is not None, "it is due"
    try:
        if row.kind in {"cron", "rrule"}:
            moved = row.when.next(planned - 1)
            if moved is not None and moved > now and row.due == planned:
                # The rules of its zone have changed since it was planned.
                row.slot = row.due = moved
                return []
        slots = _due_slots(row, planned, now)
        newest = slots[-1] if slots else planned
        row.last_slot = max(planned, newest, row.last_slot or planned)
        row.plan(now)
    except Error as error:
        # One row that cannot be read must not stop the others.
        row.unplan("paused")
        row.error = describe(error)
        return []
    row.last_at = now
    if idle:
        row.last_outcome, row.idles = "idle", row.idles + 1
        return []
    if not slots:
        row.last_outcome, row.skips = "missed", row.skips + 1
        return []
    if row.overlap == "skip" and row.last_job in busy:
        row.last_outcome, row.skips = "overlap", row.skips + 1
        return []
    row.last_outcome, row.fires = "fired", row.fires + len(slots)
    return slots


def _due_slots(row: Row, planned: int, now: int) -> list[int]:
    """The slots up to now that are to be fired, by what the schedule says of missed ones."""
    when, due = row.when, row.due or planned
    later = when.next(planned)
    if later is None or later > now:
        return [] if row.missed == "skip" and now - due > LATE_MS else [planned]
    if row.missed == "all":
        return [planned, *when.latest(planned, now, row.missed_limit)][-row.missed_limit :]
    newest = when.latest(planned, now, 1)
    return [] if row.missed == "skip" and now - newest[0] > LATE_MS else newest
