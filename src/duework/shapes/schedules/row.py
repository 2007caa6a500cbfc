"""A schedule's row, and what becomes of it when it is due: no database, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from duework.errors import Error
from duework.kernel.error_text import describe
from duework.kernel.job import LaneName
from duework.shapes.schedules.calendar import Kind, When

# A slot that is later than this was missed.
MISSED_MS = 60_000

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
    # No slot is later than this.
    ends: int | None = None
    # How many slots it fires, and how many of them it has fired.
    count: int | None = None
    counted: int = 0
    # Not stored: nobody has said what it counts from, so that is now.
    from_now: bool = False

    @property
    def when(self) -> When:
        return When(self.kind, self.rule, self.start, self.tz, self.ends)

    @property
    def lane(self) -> LaneName:
        return LaneName(self.queue, self.task, self.priority)

    def plan(self, after: int) -> None:
        """The first slot later than `after`, and than every slot it ever had.

        A one-shot whose time has passed and that was never fired is still to come. A recurrence rule
        begins with its start, which is a slot also if it is now.
        """
        if self.kind == "at":
            after = self.start - 1
        elif self.kind == "rrule":
            after -= 1
        if self.last_slot is not None:
            after = max(after, self.last_slot)
        over = self.count is not None and self.counted >= self.count
        self.slot = self.due = None if over else self.when.next(after)
        self.state = "active" if self.slot is not None else "ended"

    def replace(self, given: Row, *, default: bool) -> None:
        """Say what code says now; the history stays.

        Two releases may say it in turn, each time that one of their processes starts. What is due already
        stays due, and `every` goes on counting from where it began, or such a schedule would never fire.
        What a decorator (`default`) says counts from there as well, unless that has no slot to come.
        """
        planned, slot, due, start = (self.when, self.count), self.slot, self.due, self.start
        deleted, same_kind = self.state == "deleted", self.kind == given.kind
        same_rule = same_kind and (self.rule, self.tz) == (given.rule, given.tz)
        for name in SAID:
            setattr(self, name, getattr(given, name))
        goes_on = same_rule or (same_kind and (default or self.kind == "every"))
        if given.from_now and goes_on and not deleted:
            self.start = start
            if not same_rule and self.when.next(given.created) is None:
                self.start = given.start
        changed = deleted or (self.when, self.count) != planned
        if changed and (deleted or not default):
            self.counted = 0
        self.edited = 0
        if self.state == "paused" or not (changed or slot is None):
            return
        after = given.created if slot is None or not same_kind else min(given.created, slot - 1)
        self.plan(after)
        if self.slot is not None and self.slot == slot:
            # It may have been postponed.
            self.due = due

    def unplan(self, state: State) -> None:
        self.state, self.slot, self.due = state, None, None


# What code may say about a schedule; the rest is history.
SAID = (
    *("task", "queue", "priority", "payload", "kind", "rule", "start", "tz"),
    *("missed", "missed_limit", "overlap", "idle", "owner", "why", "ends", "count"),
)


def advance(row: Row, now: int, *, busy: set[int], idle: bool) -> list[int]:
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
    if row.count is not None:
        slots = slots[: row.count - row.counted]
        row.counted += len(slots)
        if row.counted >= row.count:
            row.unplan("ended")
    row.last_outcome, row.fires = "fired", row.fires + len(slots)
    return slots


def _due_slots(row: Row, planned: int, now: int) -> list[int]:
    """The slots up to now that are to be fired, by what the schedule says of missed ones."""
    when, due = row.when, row.due or planned
    later = when.next(planned)
    if later is None or later > now:
        return [] if row.missed == "skip" and now - due > MISSED_MS else [planned]
    if row.missed == "all":
        return [planned, *when.latest(planned, now, row.missed_limit)][-row.missed_limit :]
    newest = when.latest(planned, now, 1)
    return [] if row.missed == "skip" and now - newest[0] > MISSED_MS else newest
