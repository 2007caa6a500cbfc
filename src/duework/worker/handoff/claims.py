"""The one other way for a job to become claimed: with the enqueue that makes it, for a worker that sleeps.

Only if nothing but a free slot decides about it, and nothing that is due may have to go first. Everything
else is left to the claim.
"""

from __future__ import annotations

from collections.abc import Sequence

from duework.clock import FOREVER
from duework.db.database import NewRow, Tx
from duework.db.queries import load
from duework.ids import Ids
from duework.kernel.claim import Claim, ClaimRequest, as_claimed, claim
from duework.kernel.engine import Engine
from duework.kernel.enqueue import is_special, new_row
from duework.kernel.job import Claimed, JobId, LaneName, NewJob
from duework.kernel.lanes import Lanes
from duework.worker.rounds import Rounds

HANDOFF = load("duework.worker.handoff", "handoff")


class Grabs:
    """What goes along with an enqueue in the worker's own process."""

    def __init__(self, engine: Engine, rounds: Rounds) -> None:
        self._engine = engine
        self._rounds = rounds

    def grab(self, tx: Tx, wanted: list[ClaimRequest]) -> Sequence[Claim]:
        """Claim and no more: the worker's next look reads the rest."""
        now = self._engine.clock_watch.checked_now_within(tx)
        claims: list[Claim] = []
        for want in wanted:
            taken = self._grab_made(tx, want, now) or self._grab_any(tx, want, now)
            self._rounds.after_claim(tx, taken, now)
            claims.append(taken)
        return claims

    def _grab_made(self, tx: Tx, want: ClaimRequest, now: int) -> Claim | None:
        """The job that the transaction has made; by far the quickest way to it."""
        if tx.made is None:
            return None
        lane = self._engine.lanes.name(tx, tx.made.lane)
        job = claim_made(tx, want, tx.made, lane, now=now)
        return None if job is None else Claim([job], now, frozenset())

    def _grab_any(self, tx: Tx, want: ClaimRequest, now: int) -> Claim:
        # What was reported to a pace before, it has to apply.
        reports = self._rounds.reports(tx, ())
        return claim(tx, want, self._engine.settle_context(now), reports=reports, along=True)


def enqueue_claimed(
    tx: Tx, job: NewJob, worker: int, *, lease_ms: int, ids: Ids, lanes: Lanes, now: int
) -> Claimed | None:
    """Write a job that a worker holds from the start, if it may start now and nothing due goes first."""
    if is_special(job) or job.at > now or (job.expires is not None and job.expires <= now):
        return None
    row = new_row(ids.draw(), lanes.number(tx, job.lane), job, now + lease_ms)
    if not tx.put_if(HANDOFF.insert_claimed, row, (worker, now, job.lane.priority)):
        return None
    # By its own words: a caller's may be of a type that only looks like a text.
    return new_claim(row, lanes.name(tx, row.lane), start_by(now, lease_ms))


def claim_made(
    tx: Tx, want: ClaimRequest, made: NewRow, lane: LaneName, *, now: int
) -> Claimed | None:
    """Take a job that this transaction has made, if only slots decide and nothing due may go first."""
    in_time = made.due <= now and (made.expires is None or made.expires > now)
    if not (in_time and want.has_room(lane)):
        return None
    job = {"id": made.id, "lane": made.lane, "due": made.due, "checksum": made.checksum}
    lease = {"until": now + want.lease_ms, "worker": want.worker}
    if not tx.change(HANDOFF.claim_made, {**job, **lease, "priority": lane.priority, "now": now}):
        return None
    return new_claim(made, lane)


def new_claim(made: NewRow, lane: LaneName, in_time: int = FOREVER) -> Claimed:
    """A job that was claimed in the transaction that has made it."""
    return Claimed(
        JobId(made.id),
        1,
        made.lane,
        lane.task,
        made.payload,
        made.checksum,
        made.at,
        0,
        0,
        made.key,
        made.expires,
        made.serial,
        made.owner,
        made.batch,
        queue=lane.queue,
        priority=lane.priority,
        start_by=in_time,
    )


def claimed_for(tx: Tx, want: ClaimRequest, jobs: Sequence[int], lanes: Lanes) -> list[Claimed]:
    """Of these jobs, what others have claimed for a worker as they made it."""
    found: list[Claimed] = []
    for *row, until in tx.query(HANDOFF.claimed_for, {"worker": want.worker, "ids": list(jobs)}):
        in_time = start_by(until - want.lease_ms, want.lease_ms)
        found += as_claimed([tuple(row)], lanes.name(tx, row[2]), in_time)
    return found


def start_by(now: int, lease_ms: int) -> int:
    """When a job that another process claims for a worker comes too late for its lease.

    It is not extended until then, and what has started is extended within a third of a lease.
    """
    return now + lease_ms // 2
