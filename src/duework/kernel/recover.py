"""What becomes of leases after the claim: extended, handed back, or written off and charged.

A lease ends by its settle. Where that does not come, the transaction of another claim writes the lease off; a
crash is charged only to an attempt that had started, and taken back if its worker turns up again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence

from duework.db.database import Tx
from duework.kernel.counters import SettleContext
from duework.kernel.job import ALONE, Ending, JobId, Kind, Lease
from duework.kernel.lanes import JOBS
from duework.kernel.settle import settle, watched

# The most leases that one claim writes off.
RECOVER = 500

# (worker, job): whether that attempt's process crashed under it. A pause or a partition is no crash,
# and a job that was claimed but not started has nothing to do with one.
Verdict = Callable[[int, int], bool]


def recover(
    tx: Tx,
    context: SettleContext,
    *,
    crashed: Verdict,
    immortal: Callable[[str], bool],
    dead: Sequence[int] = (),
    take_over: bool = True,
) -> list[Ending]:
    """Write off leases that ended, and all leases of processes that are known to be dead."""
    over = {"now": context.now, "wanted": RECOVER}
    rows = tx.query(JOBS.leases_over, over) if take_over else []
    if dead:
        rows += tx.query(JOBS.leases_of, {"workers": list(dead), "wanted": RECOVER})
    charged = {job: worker for job, _, worker, _, _ in rows if crashed(worker, job)}
    repeated = _crashed_before(tx, charged)
    known = Counter(charged[job] for job in repeated)
    endings: dict[int, Ending] = {}
    for identifier, fence, worker, task, lane in rows:
        gone, again = identifier in charged, identifier in repeated
        kind: Kind = "crashed" if gone else "lost"
        why = "its worker died while it ran" if gone else "its worker lost the lease"
        lost = Ending(
            JobId(identifier),
            fence,
            worker,
            kind,
            error=why,
            keep=None,
            # Beside another that has crashed before it is not known whose crash it was.
            alone=gone and context.lanes.name(tx, lane).alone == ALONE and known[worker] == again,
            repeated=again,
            immortal=immortal(task),
            lane=lane,
        )
        # A caller that cancelled it gets that outcome, also when the job was only lost.
        endings[identifier] = watched(lost)
    if endings:
        ends = settle(tx, list(endings.values()), context)
        # Left for another time: a lock that a reaction wants is held.
        for each in ends:
            if each is not None and each.kind == "blocked":
                del endings[each.id]
    for worker in dead:
        tx.query(JOBS.worker_gone, {"id": worker})
    return list(endings.values())


def _crashed_before(tx: Tx, jobs: Collection[int]) -> set[int]:
    """Which of them crashed the last time, too."""
    return (
        {row[0] for row in tx.query(JOBS.crashed_before, {"ids": sorted(jobs)})} if jobs else set()
    )


def release_all(tx: Tx, worker: int, context: SettleContext) -> int:
    """Hand back all that a worker holds, whether or not it knows of it: it is about to end."""
    rows = tx.query(JOBS.leases_of, {"workers": [worker], "wanted": RECOVER})
    endings = [watched(Ending(JobId(job), fence, worker, "released")) for job, fence, *_ in rows]
    if endings:
        settle(tx, endings, context)
    return len(endings)


def extend(tx: Tx, leases: Sequence[Lease], *, worker: int, until: int) -> list[Lease]:
    """Move the ends of these leases; returns those that are no longer ours."""
    rows = [(until, job, fence, worker) for job, fence in sorted(leases)]
    if not rows or tx.bulk(JOBS.extend, rows) == len(rows):
        return []
    found = tx.query(JOBS.held_unlocked, {"ids": [job for job, _ in leases]})
    ours = {(row[0], row[7]) for row in found if row[8] == worker}
    return [lease for lease in leases if lease not in ours]


def to_cancel(tx: Tx, worker: int) -> list[tuple[int, int, str]]:
    """(job, fence, reason) of what this worker runs and is to be cancelled."""
    return [(row[0], row[1], row[2]) for row in tx.query(JOBS.to_cancel, {"worker": worker})]


def uncharge_crash(tx: Tx, leases: Sequence[Lease]) -> None:
    """The holder is back: what was charged to these attempts as a crash was none."""
    for job, fence in sorted(leases):
        lease = {"job": job, "fence": fence}
        # Of a crash that many shared nothing was counted.
        if tx.query(JOBS.excuse_attempt, {**lease, "outcome": "crashed alone"}):
            tx.query(JOBS.excuse_job, {"job": job})
        else:
            tx.query(JOBS.excuse_attempt, {**lease, "outcome": "crashed"})
