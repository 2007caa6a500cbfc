"""Tally: what a group of endings changes in its batches.

Counts are summed while jobs end and written when all of them are, once for each batch and in the order
of their ids, in the same transaction: a batch's counters always equal a recount of its members. The verb that
writes the last one enqueues the follow-up, whose id was drawn when the batch was made.
"""

from __future__ import annotations

from dataclasses import dataclass

from duework.clock import FOREVER
from duework.codec import checksum
from duework.db.database import Tx
from duework.db.queries import load
from duework.kernel.job import State

BATCHES = load("duework.kernel.batches", "batches")

# done, failed, cancelled, and rows that are gone.
Counts = tuple[int, int, int, int]
_ENDS: dict[State, Counts] = {
    "done": (1, 0, 0, 0),
    "failed": (0, 1, 0, 0),
    "cancelled": (0, 0, 1, 0),
}


class Tally:
    """Changes of batches that are yet to be written."""

    __slots__ = ("_changes",)

    def __init__(self) -> None:
        self._changes: dict[int, Counts] = {}

    def ended(self, batch: int | None, state: State, count: int = 1, *, gone: bool = False) -> None:
        """Members ended; `gone` says of one that its row is deleted."""
        if batch is not None:
            self._add(batch, _ENDS[state], count)
            if gone:
                self.gone(batch)

    def reopened(self, batch: int | None, state: State, count: int = 1) -> None:
        """Members that had ended so are open again."""
        if batch is not None:
            self._add(batch, _ENDS[state], -count)

    def gone(self, batch: int | None) -> None:
        """The row of a member that had ended before is deleted."""
        if batch is not None:
            self._add(batch, (0, 0, 0, 1), 1)

    def touch(self, batch: int) -> None:
        """Look whether it is complete, though nothing has changed."""
        self._add(batch, (0, 0, 0, 0), 1)

    def _add(self, batch: int, counts: Counts, times: int) -> None:
        a, b, c, d = self._changes.get(batch, (0, 0, 0, 0))
        w, x, y, z = counts
        self._changes[batch] = (a + times * w, b + times * x, c + times * y, d + times * z)

    def copy(self) -> dict[int, Counts]:
        """Where it stands, for `back` if what follows is undone."""
        return self._changes.copy()

    def back(self, before: dict[int, Counts]) -> None:
        self._changes = before

    def write(self, tx: Tx, *, now: int) -> bool:
        """Write every batch once; whether a follow-up was enqueued."""
        fired = False
        for batch, counts in sorted(self._changes.items()):
            values = dict(zip(("done", "failed", "cancelled", "gone"), counts, strict=True))
            for row in tx.query(BATCHES.count, {"id": batch, **values}):
                fired = _concluded(tx, batch, _Counted(*row), now) or fired
        self._changes = {}
        return fired


@dataclass(frozen=True, slots=True)
class _Counted:
    """A batch just after its counters were written."""

    open: int
    settled: int | None
    fired: int
    keep: int | None
    then_job: int | None
    then_lane: int | None
    then_task: str | None
    then_payload: str | None
    then_delay: int | None
    then_expires: int | None


def _concluded(tx: Tx, batch: int, row: _Counted, now: int) -> bool:
    """Note that the last member has ended, or that one is open again; whether the follow-up is due."""
    if row.open > 0:
        if row.settled is not None:
            tx.query(BATCHES.reopen, {"id": batch, "forever": FOREVER})
        return False
    if row.settled is not None:
        return False
    job = None if row.fired else _followed(tx, row, now)
    due = FOREVER if row.keep is None else now + row.keep
    values = {"id": batch, "now": now, "due": due, "then_job": job or row.then_job}
    tx.query(BATCHES.complete, values)
    return job is not None


def _followed(tx: Tx, row: _Counted, now: int) -> int | None:
    """Enqueue the follow-up, if there is to be one."""
    job, task, payload = row.then_job, row.then_task, row.then_payload
    # A row that was damaged must not keep its last member from ending.
    if job is None or row.then_lane is None or task is None or payload is None:
        return None
    at = now + (row.then_delay or 0)
    expires = None if row.then_expires is None else at + row.then_expires
    values = {"lane": row.then_lane, "task": task, "at": at, "payload": payload}
    while True:
        check = checksum(job, task, payload)
        more = {"id": job, "checksum": check, "expires": expires}
        if tx.query(BATCHES.insert_follow, {**values, **more}):
            break
        job += 1
    tx.hint("due")
    return job
