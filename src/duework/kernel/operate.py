"""What operators do to jobs: cancel, revive, search, purge.

Every function here runs inside a transaction that the caller opened, takes the time as an argument
and works on lists. Locks are always taken in one order: serial values, then job rows by id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from duework.clock import FOREVER
from duework.db.database import Tx
from duework.db.queries import load
from duework.errors import Conflict, NotFound
from duework.kernel.counters import SettleContext
from duework.kernel.error_text import storable
from duework.kernel.job import OWN_QUEUE, LockedJob
from duework.kernel.lanes import JOBS
from duework.kernel.settle import cancel_waiting, lock_jobs, lock_jobs_in_order, serial_busy, waits

OPERATE = load("duework.kernel", "operate")

# The most rows that one transaction of an operator's verb touches.
CHUNK = 1000
# Phases of jobs that a worker has: few, with an index of their own.
HELD = frozenset({"running", "expired"})


def cancel(tx: Tx, wanted: Sequence[int], context: SettleContext, *, why: str) -> list[str]:
    """End open jobs. What runs gets a cancel reason, and its worker stops it; what has ended stays as it is.

    Returns for each job 'cancelled', 'cancelling', or the state it had already.
    """
    rows = lock_jobs_in_order(tx, list(wanted))
    answers: list[str] = []
    spread = False
    for identifier in wanted:
        # One that was cancelled before may have taken this one with it.
        row = lock_jobs(tx, [identifier]).get(identifier) if spread else rows.get(identifier)
        if row is None:
            raise NotFound(f"there is no job {identifier}")
        if row.state != "open":
            answers.append(row.state)
        elif row.worker is not None:
            tx.query(JOBS.ask_cancel, {"id": row.id, "why": storable(why)})
            answers.append("cancelling")
        else:
            cancel_waiting(tx, row, why, context)
            answers.append("cancelled")
            row.state = "cancelled"
            spread = spread or bool(row.linked)
    if "cancelling" in answers:
        tx.hint("cancel")
    context.tally.write(tx, now=context.now)
    return answers


def revive(tx: Tx, wanted: Sequence[int], context: SettleContext) -> list[str]:
    """Open settled jobs again, due at once, with no failures; for operators.

    A job that is open stays as it is. Reviving onto a key that another open job holds is a Conflict.
    """
    rows = lock_jobs_in_order(tx, list(wanted))
    answers: list[str] = []
    for identifier in wanted:
        row = rows.get(identifier)
        if row is None:
            raise NotFound(f"there is no job {identifier}")
        if row.state == "open":
            answers.append("open")
            continue
        if row.key is not None and (
            taken := tx.query(JOBS.key_taken, {"task": row.task, "key": row.key})
        ):
            message = f"job {identifier} cannot be revived: its key {row.key!r} is held by job {taken[0][0]}"
            raise Conflict(message)
        due = context.now
        if waits(tx, row.after):
            tx.query(JOBS.link, {"id": row.after})
            due = FOREVER
        elif row.serial is not None and serial_busy(tx, row.serial):
            due = FOREVER
        values = (
            *("open", due, row.lane, 0, 0, None, row.error),
            *(row.payload, row.checksum, None, None, None, row.id),
        )
        tx.bulk(JOBS.rewrite, [values])
        # It was done when they were enqueued; now they wait for it once more.
        if not row.linked and tx.query(JOBS.waiting_for, {"job": row.id}):
            tx.query(JOBS.link, {"id": row.id})
        context.tally.reopened(row.batch, row.state)
        row.state = "open"
        answers.append("revived")
    context.tally.write(tx, now=context.now)
    return answers


@dataclass(frozen=True, slots=True)
class Filter:
    """What to search for; empty texts match everything."""

    phase: str = ""
    task: str = ""
    queue: str = ""
    key: str = ""
    before: int = 2**62
    limit: int = 50
    # Only those with a higher id.
    after: int = 0
    # Also the engine's own jobs; those that failed, or whose task, queue or key is named, are found anyway.
    own: bool = False


class Found(NamedTuple):
    """Rows of jobs, and the `before` with which a search goes on; None where it has seen everything."""

    rows: list[tuple[Any, ...]]
    before: int | None


def search(tx: Tx, wanted: Filter, *, now: int, most: int | None = None) -> Found:
    """One page of jobs, newest first; with `most`, of the next so many rows whatever they are.

    A filter that few jobs fit would else walk through the whole table.
    """
    floor = 0 if most is None else _floor(tx, wanted, most)
    ids = _searched(tx, replace(wanted, after=max(wanted.after, floor)), now=now)
    full = ids and len(ids) == min(wanted.limit, CHUNK)
    before = ids[-1] if full else floor + 1 if floor > wanted.after else None
    return Found(tx.query(JOBS.jobs, {"ids": ids}), before)


def _floor(tx: Tx, wanted: Filter, most: int) -> int:
    """The first job that a look does not reach; 0 if it reaches the end, or finds its page at once."""
    if wanted.phase in HELD or not (wanted.phase or wanted.task or wanted.queue or wanted.key):
        return 0
    failed = wanted.phase == "failed"
    statement = OPERATE.search_floor_failed if failed else OPERATE.search_floor
    rows = tx.query(statement, {"before": wanted.before, "look": most})
    return int(rows[0][0]) if rows else 0


def _searched(tx: Tx, wanted: Filter, *, now: int) -> list[int]:
    values: dict[str, Any] = {
        "before": wanted.before,
        "after": wanted.after,
        "task": wanted.task,
        "queue": wanted.queue,
        "key": wanted.key,
        "wanted": min(wanted.limit, CHUNK),
    }
    own = wanted.own or bool(wanted.task or wanted.queue or wanted.key)
    more = {"phase": wanted.phase, "now": now, "own": int(own), "own_queue": OWN_QUEUE}
    if wanted.phase == "failed":
        found = tx.query(OPERATE.search_failed, values)
    elif wanted.phase in HELD:
        found = tx.query(OPERATE.search_held, {**values, **more})
    else:
        found = tx.query(OPERATE.search, {**values, **more})
    return [row[0] for row in found]


def replan(tx: Tx, plans: Sequence[tuple[int, int]]) -> list[int]:
    """Let jobs (id, due) that wait be due at another time, with the failures they have; for operators.

    A Conflict if one of them runs, has ended, or waits for another job and not for a time.
    """
    rows = lock_jobs_in_order(tx, [job for job, _ in plans])
    for job, due in sorted(plans):
        if (row := rows.get(job)) is None:
            raise NotFound(f"there is no job {job}")
        if (why := _fixed(row)) is not None:
            raise Conflict(f"nothing was changed: job {job} {why}")
        tx.query(JOBS.replan, {"id": job, "due": due})
    return [job for job, _ in plans]


def _fixed(row: LockedJob) -> str | None:
    """Why its time cannot be changed; None if it can."""
    if row.state != "open":
        return f"is {row.state}; a retry opens it again"
    if row.worker is not None:
        return "runs already"
    if row.due >= FOREVER:
        return "waits for another job, not for a time"
    return "is the engine's own" if row.task.startswith(f"{OWN_QUEUE}.") else None


def purge(tx: Tx, wanted: Sequence[int], context: SettleContext) -> int:
    """Delete settled jobs for good; what waits for one of them is cancelled."""
    rows = lock_jobs_in_order(tx, list(wanted))
    gone = [row for row in rows.values() if row.state != "open"]
    for row in gone:
        # What came after a done job has been released, and what came after a cancelled one cancelled.
        behind = tx.query(JOBS.waiting_for, {"job": row.id}) if row.state == "failed" else []
        for waiting, *_ in behind:
            why = f"job {row.id}, which it waited for, was purged"
            cancel(tx, [waiting], context, why=why)
    delete_settled(tx, {row.id: row.batch for row in gone}, context)
    return len(gone)


def purge_queue(tx: Tx, queue: str, context: SettleContext) -> int:
    """Cancel a chunk of a queue's jobs that do not run; call again until it returns 0."""
    found: list[int] = []
    for [lane] in tx.query(OPERATE.lanes_of, {"queue": queue}):
        left = CHUNK - len(found)
        found += [row[0] for row in tx.query(OPERATE.of_lane, {"lane": lane, "wanted": left})]
    if found:
        cancel(tx, found, context, why="the queue was purged")
    return len(found)


def delete_settled(tx: Tx, found: Mapping[int, int | None], context: SettleContext) -> None:
    """Delete settled jobs, given with their batches."""
    tx.query(JOBS.delete_attempts, {"ids": list(found)})
    tx.query(JOBS.delete_jobs, {"ids": list(found)})
    for batch in found.values():
        context.tally.gone(batch)
    context.tally.write(tx, now=context.now)
