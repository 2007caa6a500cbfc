"""What shapes do to rows of the kernel: move a due, wake, forget, hold lanes back; see who still holds a job.

A shape keeps rows of its own and never writes those of jobs or lanes: it calls these, inside the transaction
that changes its own rows. Jobs are locked before rows of shapes, by every transaction.
"""

from __future__ import annotations

from collections.abc import Sequence

from duework.db.database import Tx
from duework.db.queries import load
from duework.kernel.counters import SettleContext
from duework.kernel.job import Ending
from duework.kernel.lanes import JOBS
from duework.kernel.settle import apply, lock_jobs_in_order

MOVES = load("duework.kernel", "moves")


def still_held(tx: Tx, jobs: Sequence[int]) -> dict[int, int]:
    """The fences of those jobs that a worker holds, under lock: no claim can come in between."""
    return dict(tx.query(MOVES.still_held, {"ids": sorted(jobs)})) if jobs else {}


def move(tx: Tx, plans: Sequence[tuple[int, int]]) -> int:
    """Give jobs (job, at) another time, as if they had never failed; how many.

    One that is held, or has ended, stays as it is.
    """
    return tx.bulk(MOVES.move, [(at, at, job) for job, at in sorted(plans)]) if plans else 0


def wake(tx: Tx, job: int, *, now: int) -> None:
    """Let a job that waits be due now; the time that was asked for stays."""
    tx.query(MOVES.wake, {"id": job, "now": now})


def hasten(tx: Tx, job: int, *, now: int) -> None:
    """The same for one that waits for the time that it was given; what was put off since stays so."""
    tx.query(MOVES.hasten, {"id": job, "now": now})


def crashed_before(tx: Tx, job: int, fence: int) -> bool:
    """Whether the attempt before this one ended with its process."""
    last = tx.query(JOBS.last_attempts, {"job": job, "wanted": 1})
    return bool(last) and last[0][0] == fence - 1 and str(last[0][1]).startswith("crashed")


def never_expire(tx: Tx, job: int) -> None:
    """It has begun what cannot be too late any more."""
    tx.query(MOVES.never_expire, {"id": job})


def complete(tx: Tx, jobs: Sequence[int], context: SettleContext, *, keep: int | None) -> list[int]:
    """End jobs as done that no worker holds: another one has done their work, in this transaction.

    Those that were, of the ones that are still open.
    """
    ended = []
    for row in lock_jobs_in_order(tx, sorted(jobs)).values():
        if row.state == "open" and row.worker is None:
            ending = Ending(row.id, row.fence, 0, "done", result="null", keep=keep, watched=True)
            apply(tx, row, ending, context)
            ended.append(int(row.id))
    return ended


def forget(tx: Tx, jobs: Sequence[int]) -> None:
    """Delete jobs that no worker holds, with their attempts: nothing is told of it, and nothing counts it.

    For the engine's own jobs, which a shape makes again when it needs them. Others are cancelled.
    """
    if jobs:
        tx.query(JOBS.delete_attempts, {"ids": sorted(jobs)})
        tx.bulk(JOBS.delete, [(job,) for job in sorted(jobs)])


def delay_lanes(tx: Tx, tasks: Sequence[str], until: int) -> None:
    """Start none of these tasks' jobs before then, whatever a pace that they waited for says meanwhile."""
    tx.query(MOVES.delay_lanes, {"tasks": sorted(tasks), "until": until})
