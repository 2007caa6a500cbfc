"""Claim: take due jobs, a few index seeks whatever lies in front of them.

Lanes are visited by priority, then by how long their first job has been due; a lane that is not due
(paced, paused, full) or whose task this process does not know is not visited, however many jobs it
holds. Leases that have ended are first written off, in the same transaction: a crashed worker's jobs
come back by themselves, by whoever claims next.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from duework.clock import FOREVER
from duework.db.database import NewRow, Tx
from duework.kernel.admission import Admission, Gates, Note
from duework.kernel.job import OWN_QUEUE, Claimed, Ending, JobId, Kind, LaneName, Reaction
from duework.kernel.lanes import Lane, Lanes, Q
from duework.kernel.settle import settle, watched

# The most leases that one claim writes off.
RECOVER = 500
# When to look again for due jobs that somebody else had under lock: is the lease they got known then?
SOON_MS = 100
EXPIRED = "it expired before it could start"


@dataclass(frozen=True, slots=True)
class Want:
    """What a process can take: its tasks by pool, free slots per pool, global limits."""

    worker: int
    lease_ms: int
    # For each task that this process knows: the pool that runs it.
    pools: Mapping[str, str]
    free: Mapping[str, int]
    # Tasks whose suspects get a process of their own: as many at once as there are such slots.
    apart: frozenset[str] = frozenset()
    # Whether it may take one more suspect of another task, which has to run here.
    alone: int = 1
    # Only these queues; None is all. The engine's own is always served.
    queues: frozenset[str] | None = None
    queue_limits: Mapping[str, int] = field(default_factory=dict)
    task_limits: Mapping[str, int] = field(default_factory=dict)
    # Of tasks, and of queues.
    paces: tuple[Gates, Gates] = field(default_factory=lambda: ({}, {}))
    # Every fence that it gives is above this.
    floor: int = 0

    def pool(self, of: LaneName | Claimed) -> str:
        """The kind of slot that a lane's jobs run in."""
        return "process" if of.alone and of.task in self.apart else self.pools[of.task]

    def serves(self, lane: LaneName) -> bool:
        """Whether this process visits the lane at all."""
        if lane.task not in self.pools:
            return False
        return self.queues is None or lane.queue in self.queues or lane.queue == OWN_QUEUE

    def has_room(self, lane: LaneName) -> bool:
        """Whether a free slot is all that a job of the lane needs here, and there is one."""
        if not self.serves(lane) or lane.alone or self.free.get(self.pool(lane), 0) <= 0:
            return False
        tasks, queues = self.paces
        paced = lane.task in tasks or lane.queue in queues
        return not (paced or lane.task in self.task_limits or lane.queue in self.queue_limits)


@dataclass(frozen=True, slots=True)
class Claim:
    """What was taken, and when there may be more."""

    jobs: list[Claimed]
    next_due: int
    # Pools for which there is more to take as soon as they have a free slot.
    hungry: frozenset[str]
    # Whether lanes that were not visited may be due earlier than anybody knows.
    earlier: bool = False
    # Whether another process has claimed it for us: then nobody in this loop waits for that.
    handed: bool = False


def start_by(now: int, lease_ms: int) -> int:
    """When a job that somebody else claims for a worker comes too late for its lease."""
    return now + lease_ms * 4 // 5


class NotHere(Exception):
    """Something has to be done that does not belong here: whoever has asked does without.

    To cancel what has expired may run the user's code, which would be in the way in the transaction of
    somebody else.
    """


def claim(
    tx: Tx,
    want: Want,
    *,
    now: int,
    lanes: Lanes,
    react: Reaction,
    notes: Sequence[Note] = (),
    lease_end: int | None = None,
    # In the transaction of somebody else, for a worker that looks again anyway.
    along: bool = False,
) -> Claim:
    """Take what is due, no more than there are free slots; paces first hear their notes."""
    everything = lanes.all(tx, now)
    open_lanes = admissible(everything, want, now)
    # Paces are locked before lanes, by everybody.
    paces = Admission(tx, open_lanes, want.paces, notes, now)
    room = _Room(tx, want, open_lanes)
    taken: list[Claimed] = []
    hungry: set[str] = set()
    short: set[int] = set()
    in_time = start_by(now, want.lease_ms) if along else FOREVER
    for lane in open_lanes:
        pool = want.pool(lane.name)
        admitted = paces.left(lane)
        wanted = min(room.left(lane, pool), admitted)
        if wanted < admitted and room.only_slots_are_missing(lane, pool, wanted):
            hungry.add(pool)
        if wanted <= 0:
            continue
        rows = _lease(tx, want, lane, now=now, bound=paces.bound(lane), wanted=wanted)
        room.take(lane, pool, len(rows))
        if len(rows) < wanted:
            hungry.discard(pool)
            short.add(lane.id)
        paced = paces.take(lane, len(rows), short=len(rows) < wanted)
        taken += _claimed(rows, lane.name, min(paced, in_time))
    kept = paces.keep(taken)
    fresh = _drop_expired(tx, kept, want, now=now, lanes=lanes, react=None if along else react)
    if fresh is not taken:
        # What was dropped or is too early has left its slot free, and may have released others.
        left = {job.id for job in fresh}
        hungry.update(want.pool(job) for job in taken if job.id not in left)
    changed = paces.close()
    if along:
        return Claim(fresh, now, frozenset(hungry), paces.earlier)
    # Behind the jobs that were taken there may be later ones.
    if changed or short or kept is not taken:
        everything = lanes.all(tx, now)
    if not fresh:
        # Perhaps because somebody else has just taken it.
        lease_end = None
    elif hungry or lease_end is not None:
        # Our own; and one that is busy comes back by itself for what it could not take.
        lease_end = min(lease_end or FOREVER, now + want.lease_ms)
    next_due = _next_due(tx, everything, want, now, lease_end, short)
    return Claim(
        fresh, min(next_due, max(lanes.certain_until, now + 1)), frozenset(hungry), paces.earlier
    )


def _lease(
    tx: Tx, want: Want, lane: Lane, *, now: int, bound: int, wanted: int
) -> list[tuple[Any, ...]]:
    place = {"lane": lane.id, "head": lane.head, "head_id": lane.head_id}
    lease = {"until": now + want.lease_ms, "worker": want.worker, "floor": want.floor}
    return tx.query(Q.claim, {**place, **lease, "now": bound, "wanted": wanted})


def admissible(everything: Sequence[Lane], want: Want, now: int) -> list[Lane]:
    """The lanes from which jobs may be taken, in the order in which they are visited."""
    found = [
        lane
        for lane in everything
        if lane.head is not None and lane.head <= now and lane.due <= now and want.serves(lane.name)
    ]
    found.sort(key=lambda lane: (-lane.name.priority, lane.head, lane.id))
    return found


def times(everything: Sequence[Lane], want: Want) -> list[int]:
    """When each lane that this process visits has something to take."""
    return [
        max(lane.head, lane.due)
        for lane in everything
        if lane.head is not None and want.serves(lane.name)
    ]


class _Room:
    """Counts down free slots, jobs that run alone, and the limits of queues and tasks."""

    def __init__(self, tx: Tx, want: Want, open_lanes: Sequence[Lane]) -> None:
        self._want = want
        self._free = dict(want.free)
        self._alone = want.alone
        self._queues: dict[str, int] = {}
        self._tasks: dict[str, int] = {}
        limited = [
            lane
            for lane in open_lanes
            if lane.name.queue in want.queue_limits or lane.name.task in want.task_limits
        ]
        if limited:
            self._count(tx, limited)

    def _count(self, tx: Tx, limited: Sequence[Lane]) -> None:
        """Count leases, after making sure that nobody else counts them at the same time."""
        queues = {lane.name.queue for lane in limited}
        tasks = {lane.name.task for lane in limited}
        names = {
            row[0]: (row[1], row[2])
            for row in tx.query(Q.lanes_of, {"queues": sorted(queues), "tasks": sorted(tasks)})
        }
        tx.query(Q.lock_lanes, {"lanes": sorted(names)})
        self._queues = {queue: self._want.queue_limits.get(queue, FOREVER) for queue in queues}
        self._tasks = {task: self._want.task_limits.get(task, FOREVER) for task in tasks}
        for number, count in tx.query(Q.running, {}):
            if number in names:
                queue, task = names[number]
                if queue in self._queues:
                    self._queues[queue] -= count
                if task in self._tasks:
                    self._tasks[task] -= count

    def left(self, lane: Lane, pool: str) -> int:
        """How many jobs of the lane may be taken."""
        return min(self._free.get(pool, 0), self._allowed(lane))

    def only_slots_are_missing(self, lane: Lane, pool: str, wanted: int) -> bool:
        """Whether more could be taken if the pool had more slots; a limit is freed by others."""
        return wanted == max(0, self._free.get(pool, 0)) and wanted < self._allowed(lane)

    def _allowed(self, lane: Lane) -> int:
        return min(
            self._alone if self._here(lane) else FOREVER,
            self._queues.get(lane.name.queue, FOREVER),
            self._tasks.get(lane.name.task, FOREVER),
        )

    def _here(self, lane: Lane) -> bool:
        """Whether its jobs are suspects that cannot have a process of their own."""
        return bool(lane.name.alone) and lane.name.task not in self._want.apart

    def take(self, lane: Lane, pool: str, count: int) -> None:
        self._free[pool] = self._free.get(pool, 0) - count
        if self._here(lane):
            self._alone -= count
        if lane.name.queue in self._queues:
            self._queues[lane.name.queue] -= count
        if lane.name.task in self._tasks:
            self._tasks[lane.name.task] -= count


def claim_made(tx: Tx, want: Want, made: NewRow, lane: LaneName, *, now: int) -> Claimed | None:
    """Take a job that this transaction has made, if only slots decide and nothing due may go first."""
    in_time = made.due <= now and (made.expires is None or made.expires > now)
    if not (in_time and want.has_room(lane)):
        return None
    job = {"id": made.id, "lane": made.lane, "due": made.due, "checksum": made.checksum}
    lease = {"until": now + want.lease_ms, "worker": want.worker}
    if not tx.change(Q.claim_made, {**job, **lease, "priority": lane.priority, "now": now}):
        return None
    return new_claim(made, lane, now=now, lease_ms=want.lease_ms)


def new_claim(made: NewRow, lane: LaneName, *, now: int, lease_ms: int) -> Claimed:
    """A job that was claimed, for somebody else, in the transaction that has made it."""
    return Claimed(
        *(JobId(made.id), 1, made.lane, lane.task, made.payload, made.checksum, made.at),
        *(0, 0, made.key, made.expires, made.serial, made.owner, made.batch),
        queue=lane.queue,
        priority=lane.priority,
        start_by=start_by(now, lease_ms),
    )


def _claimed(rows: list[tuple[Any, ...]], lane: LaneName, in_time: int) -> list[Claimed]:
    # The order in which an update returns its rows is not promised; ids rise with time.
    rows.sort(key=itemgetter(6, 0))
    more: tuple[Any, ...] = (
        *(lane.queue, lane.priority, bool(lane.alone)),
        in_time,
    )
    return [Claimed(*row, *more) for row in rows]


def _drop_expired(
    tx: Tx, taken: list[Claimed], want: Want, *, now: int, lanes: Lanes, react: Reaction | None
) -> list[Claimed]:
    """Jobs that are too late to be of use are cancelled instead of run."""
    late = [job for job in taken if job.expires is not None and job.expires <= now]
    if not late:
        return taken
    if react is None:
        raise NotHere
    endings = [
        watched(Ending(job.id, job.fence, want.worker, "cancelled", error=EXPIRED)) for job in late
    ]
    settle(tx, endings, now=now, lanes=lanes, react=react)
    gone = {job.id for job in late}
    return [job for job in taken if job.id not in gone]


def _next_due(
    tx: Tx,
    everything: Sequence[Lane],
    want: Want,
    now: int,
    lease_end: int | None,
    short: Collection[int],
) -> int:
    """When to look again if nobody rings: a job or a lane comes due, or a lease ends.

    `short` are lanes of which less was taken than was wanted.
    """
    later = [time for time in times(everything, want) if time > now]
    if lease_end is None:
        lease_end = tx.query(Q.next_lease_end, {})[0][0]
    if lease_end is not None:
        # One that is over was left alone for a reason, which will not be gone at once.
        later.append(lease_end if lease_end > now else now + SOON_MS)
    if any(lane.id in short for lane in admissible(everything, want, now)):
        # A due job was passed over: a transaction that has not ended yet has it under lock, to
        # claim it or for another reason, and nobody rings if that is undone.
        later.append(now + SOON_MS)
    return min(later, default=FOREVER)


# (worker, job): whether that attempt's process crashed under it. A pause or a partition is no crash,
# and a job that was claimed but not started has nothing to do with one.
Verdict = Callable[[int, int], bool]


def recover(
    tx: Tx,
    *,
    now: int,
    lanes: Lanes,
    react: Reaction,
    crashed: Verdict,
    immortal: Callable[[str], bool],
    dead: Sequence[int] = (),
    take_over: bool = True,
) -> list[Ending]:
    """Write off leases that ended, and all leases of processes that are known to be dead."""
    rows = tx.query(Q.leases_over, {"now": now, "wanted": RECOVER}) if take_over else []
    if dead:
        rows += tx.query(Q.leases_of, {"workers": list(dead), "wanted": RECOVER})
    endings: dict[int, Ending] = {}
    for identifier, fence, worker, task in rows:
        gone = crashed(worker, identifier)
        kind: Kind = "crashed" if gone else "lost"
        why = "its worker died while it ran" if gone else "its worker lost the lease"
        lost = Ending(
            *(JobId(identifier), fence, worker, kind),
            error=why,
            keep=None,
            immortal=immortal(task),
        )
        # Somebody who marked it for cancelling is told of that, also when it was only lost.
        endings[identifier] = watched(lost)
    if endings:
        settle(tx, list(endings.values()), now=now, lanes=lanes, react=react)
    for worker in dead:
        tx.query(Q.worker_gone, {"id": worker})
    return list(endings.values())


def claimed_for(tx: Tx, want: Want, jobs: Sequence[int], lanes: Lanes) -> list[Claimed]:
    """Of these jobs, what others have claimed for a worker as they made it."""
    found: list[Claimed] = []
    for *row, until in tx.query(Q.claimed_for, {"worker": want.worker, "ids": list(jobs)}):
        in_time = start_by(until - want.lease_ms, want.lease_ms)
        found += _claimed([tuple(row)], lanes.name(tx, row[2]), in_time)
    return found


def let_go(tx: Tx, worker: int, *, now: int, lanes: Lanes, react: Reaction) -> int:
    """Hand back all that a worker holds, whether or not it knows of it: it is about to end."""
    rows = tx.query(Q.leases_of, {"workers": [worker], "wanted": RECOVER})
    endings = [watched(Ending(JobId(job), fence, worker, "released")) for job, fence, _, _ in rows]
    if endings:
        settle(tx, endings, now=now, lanes=lanes, react=react)
    return len(endings)


def extend(tx: Tx, leases: Sequence[tuple[int, int]], *, worker: int, until: int) -> list[JobId]:
    """Move the lease's end of (job, fence) pairs; returns the jobs that are no longer ours."""
    rows = [(until, job, fence, worker) for job, fence in sorted(leases)]
    if not rows or tx.bulk(Q.extend, rows) == len(rows):
        return []
    found = tx.query(Q.held_unlocked, {"ids": [job for job, _ in leases]})
    ours = {(row[0], row[7]) for row in found if row[8] == worker}
    return [JobId(job) for job, fence in leases if (job, fence) not in ours]


def marked(tx: Tx, worker: int) -> list[tuple[int, int, str]]:
    """(job, fence, reason) of what this worker runs and somebody wants cancelled."""
    return [(row[0], row[1], row[2]) for row in tx.query(Q.marked, {"worker": worker})]


def excuse(tx: Tx, leases: Sequence[tuple[int, int]]) -> None:
    """The holder is back: what was charged to these attempts as a crash was none."""
    for job, fence in sorted(leases):
        lease = {"job": job, "fence": fence}
        # Of a crash that many shared nothing was counted.
        if tx.query(Q.excuse_attempt, {**lease, "outcome": "crashed alone"}):
            tx.query(Q.excuse_job, {"job": job})
        else:
            tx.query(Q.excuse_attempt, {**lease, "outcome": "crashed"})
