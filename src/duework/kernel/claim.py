"""Claim: take due jobs, a few index seeks whatever lies in front of them.

Lanes are visited by priority, then by how long their first job has been due; a lane that is not due
(paced, paused, full) or whose task this process does not know is not visited, however many jobs it
holds. Leases that have ended are first written off, in the same transaction: a crashed worker's jobs
come back by themselves, with the next claim.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from duework.clock import FOREVER
from duework.db.database import Tx
from duework.kernel.admission import EVERYTHING, Admits, LaneAdmission
from duework.kernel.counters import SettleContext
from duework.kernel.job import (
    OWN_QUEUE,
    SUSPECTS,
    Claimed,
    Ending,
    LaneName,
    places,
)
from duework.kernel.lanes import JOBS, Lane, Lanes
from duework.kernel.settle import settle, watched

# When to look again for due jobs that another transaction had under lock: by then their lease may be known.
SOON_MS = 100
EXPIRED = "it expired before it could start"
EXPIRED_AFTER_FAILING = "it expired before its next retry"


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """What a process can take: its tasks by pool, free slots per pool, global limits."""

    worker: int
    lease_ms: int
    # For each task that this process knows: the pool that runs it.
    pools: Mapping[str, str]
    free: Mapping[str, int]
    # Free places for suspects of tasks that have no process of their own.
    alone: int = SUSPECTS
    # Only these queues; None is all. The engine's own is always served.
    queues: frozenset[str] | None = None
    queue_limits: Mapping[str, int] = field(default_factory=dict)
    task_limits: Mapping[str, int] = field(default_factory=dict)
    # Former names of tasks, and the present ones: what runs under either counts together.
    renamed: Mapping[str, str] = field(default_factory=dict)
    # What else has to admit its jobs, such as paces.
    admission: Admits = EVERYTHING
    # Every fence that it gives is above this.
    floor: int = 0
    # How long a task's failed jobs are kept; None is for ever.
    keep_failed: Callable[[str], int | None] = lambda _: None

    def pool(self, of: LaneName | Claimed) -> str:
        """The kind of slot that a lane's jobs run in."""
        return self.pools[of.task]

    def serves(self, lane: LaneName) -> bool:
        """Whether this process visits the lane at all."""
        if lane.task not in self.pools:
            return False
        return self.queues is None or lane.queue in self.queues or lane.queue == OWN_QUEUE

    def has_room(self, lane: LaneName) -> bool:
        """Whether a free slot is all that a job of the lane needs here, and there is one."""
        if not self.serves(lane) or lane.alone or self.free.get(self.pool(lane), 0) <= 0:
            return False
        asked = lane.task in self.admission.tasks or lane.queue in self.admission.queues
        return not (asked or lane.task in self.task_limits or lane.queue in self.queue_limits)


@dataclass(frozen=True, slots=True)
class Claim:
    """What was taken, and when there may be more."""

    jobs: list[Claimed]
    next_due: int
    # Pools for which there is more to take as soon as they have a free slot.
    hungry: frozenset[str]
    # Whether lanes that were not visited may be due earlier than is known.
    earlier: bool = False
    # What came too late to be run, with its task.
    expired: Sequence[tuple[str, Ending]] = ()


class NeedsOwnTransaction(Exception):
    """Something has to be done that does not belong here: the caller does without.

    To cancel what has expired may run the user's code, which would be in the way in the transaction of
    another request.
    """


def claim(
    tx: Tx,
    want: ClaimRequest,
    context: SettleContext,
    *,
    reports: Sequence[Any] = (),
    lease_end: int | None = None,
    # In the transaction of another request, for a worker that looks again anyway.
    along: bool = False,
) -> Claim:
    """Take what is due, no more than there are free slots; paces first apply their reports."""
    now, lanes = context.now, context.lanes
    everything = lanes.all(tx, now)
    open_lanes = admissible(everything, want, now)
    # Paces are locked before lanes, by every transaction.
    paces = want.admission.visit(tx, open_lanes, reports, now)
    room = _Room(tx, want, open_lanes)
    visits = _Visits(tx, want, paces, room, now)
    for group in _siblings(open_lanes):
        if len(group) == 1:
            visits.take(group[0])
        else:
            _take_turns(visits, group, lanes)
    taken, hungry, short = visits.taken, visits.hungry, visits.short
    kept = paces.keep(taken)
    fresh, expired = _drop_expired(tx, kept, want, None if along else context, now=now)
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
        # Perhaps because another worker has just taken it.
        lease_end = None
    elif hungry or lease_end is not None:
        # Our own; and one that is busy comes back by itself for what it could not take.
        lease_end = min(lease_end or FOREVER, now + want.lease_ms)
    next_due = _next_due(tx, everything, want, now, lease_end, short)
    next_due = min(next_due, max(lanes.certain_until, now + 1))
    return Claim(fresh, next_due, frozenset(hungry), paces.earlier, expired=expired)


def _lease(
    tx: Tx, want: ClaimRequest, lane: Lane, *, now: int, bound: int, wanted: int
) -> list[tuple[Any, ...]]:
    place = {"lane": lane.id, "head": lane.head, "head_id": lane.head_id}
    lease = {"until": now + want.lease_ms, "worker": want.worker, "floor": want.floor}
    return tx.query(JOBS.claim, {**place, **lease, "now": bound, "wanted": wanted})


class _Visits:
    """What is taken of lanes, one after the other, and what is known of those that gave less."""

    def __init__(
        self, tx: Tx, want: ClaimRequest, paces: LaneAdmission, room: _Room, now: int
    ) -> None:
        self._tx, self._want, self._room, self._now = tx, want, room, now
        self.paces = paces
        self.taken: list[Claimed] = []
        self.hungry: set[str] = set()
        # Lanes of which less was taken than was wanted.
        self.short: set[int] = set()

    def in_common(self, lane: Lane) -> int:
        """How many jobs the lane and its siblings may have together."""
        free = self._room.left(lane, self._want.pool(lane.name))
        return min(free, self.paces.left_in_common(lane))

    def take(self, lane: Lane, most: int = FOREVER) -> bool:
        """Take what is admitted of a lane, at most `most`; whether it may have more."""
        pool = self._want.pool(lane.name)
        admitted = self.paces.left(lane)
        possible = min(self._room.left(lane, pool), admitted)
        if possible < admitted and self._room.only_slots_are_missing(lane, pool, possible):
            self.hungry.add(pool)
        wanted = min(possible, most)
        if wanted <= 0:
            return False
        bound = self.paces.bound(lane)
        rows = _lease(self._tx, self._want, lane, now=self._now, bound=bound, wanted=wanted)
        self._room.take(lane, pool, len(rows))
        if len(rows) < wanted:
            self.hungry.discard(pool)
            self.short.add(lane.id)
        in_time = self.paces.take(lane, len(rows), short=len(rows) < wanted)
        self.taken += as_claimed(rows, lane.name, in_time, self._now)
        return len(rows) == wanted


def _siblings(open_lanes: Sequence[Lane]) -> list[list[Lane]]:
    """Lanes that differ in their shares alone, at the place of the first of them."""
    found: dict[tuple[Any, ...], list[Lane]] = {}
    for lane in open_lanes:
        name = lane.name
        key = (name.queue, name.task, name.priority, name.tier, name.alone)
        found.setdefault(key, []).append(lane)
    return list(found.values())


def _take_turns(visits: _Visits, group: list[Lane], lanes: Lanes) -> None:
    """Give each share its part of what there is, beginning after the one that was served last.

    What one does not need goes to the others. A share without due jobs has no lane here, and costs nothing.
    """
    name = group[0].name
    turn = f"{name.queue}:{name.task}:{name.priority}"
    known = visits.paces.last_turn(group[0], turn)
    last = first = lanes.turns.get(turn, 0) if known is None else known
    group.sort(key=lambda lane: (lane.id <= first, lane.id))
    waiting, before = group, len(visits.taken)
    while waiting and (left := visits.in_common(waiting[0])) > 0:
        more = []
        for place, lane in enumerate(waiting):
            part = -(-left // (len(waiting) - place))
            left -= part
            if visits.take(lane, part):
                more.append(lane)
            if waiting is group and len(visits.taken) > before:
                before, last = len(visits.taken), lane.id
        waiting = more
    lanes.turns[turn] = last
    visits.paces.note_turn(group[0], turn, last)


def admissible(everything: Sequence[Lane], want: ClaimRequest, now: int) -> list[Lane]:
    """The lanes from which jobs may be taken, in the order in which they are visited."""
    found = [
        lane
        for lane in everything
        if lane.head <= now and lane.due <= now and want.serves(lane.name)
    ]
    # Suspects first: they take few slots, and what runs few at a time has to start early.
    found.sort(key=lambda lane: (-lane.name.priority, -lane.name.alone, lane.head, lane.id))
    return found


def times(everything: Sequence[Lane], want: ClaimRequest) -> list[int]:
    """When each lane that this process visits has something to take."""
    return [max(lane.head, lane.due) for lane in everything if want.serves(lane.name)]


class _Room:
    """Counts down free slots, places for suspects, and the limits of queues and tasks."""

    def __init__(self, tx: Tx, want: ClaimRequest, open_lanes: Sequence[Lane]) -> None:
        self._want = want
        self._free = dict(want.free)
        self._alone = want.alone
        self._queues: dict[str, int] = {}
        self._tasks: dict[str, int] = {}
        queues = {lane.name.queue for lane in open_lanes} & want.queue_limits.keys()
        tasks = {self._present(lane.name.task) for lane in open_lanes} & want.task_limits.keys()
        if queues or tasks:
            self._count(tx, queues, tasks)

    def _count(self, tx: Tx, queues: Collection[str], tasks: Collection[str]) -> None:
        """Count leases, after making sure that no other claim counts them at the same time."""
        limits = sorted([f"queue:{queue}" for queue in queues] + [f"task:{task}" for task in tasks])
        tx.query(JOBS.lock_limits, {"limits": limits})
        self._queues = {queue: self._want.queue_limits[queue] for queue in queues}
        self._tasks = {task: self._want.task_limits[task] for task in tasks}
        for queue, task, count in tx.query(JOBS.running, {}):
            if queue in self._queues:
                self._queues[queue] -= count
            if (present := self._present(task)) in self._tasks:
                self._tasks[present] -= count

    def _present(self, task: str) -> str:
        return self._want.renamed.get(task, task)

    def left(self, lane: Lane, pool: str) -> int:
        """How many jobs of the lane may be taken."""
        return min(self._free.get(pool, 0), self._allowed(lane, pool))

    def only_slots_are_missing(self, lane: Lane, pool: str, wanted: int) -> bool:
        """Whether more could be taken if the pool had more slots; a limit is freed by others."""
        return wanted == max(0, self._free.get(pool, 0)) and wanted < self._allowed(lane, pool)

    def _allowed(self, lane: Lane, pool: str) -> int:
        needed = self._places(lane, pool)
        return min(
            self._alone // needed if needed else FOREVER,
            self._queues.get(lane.name.queue, FOREVER),
            self._tasks.get(self._present(lane.name.task), FOREVER),
        )

    def _places(self, lane: Lane, pool: str) -> int:
        """How many places each of its jobs takes, since it may take this process with it."""
        return 0 if pool == "process" else places(lane.name.alone)

    def take(self, lane: Lane, pool: str, count: int) -> None:
        self._free[pool] = self._free.get(pool, 0) - count
        self._alone -= count * self._places(lane, pool)
        if lane.name.queue in self._queues:
            self._queues[lane.name.queue] -= count
        if (present := self._present(lane.name.task)) in self._tasks:
            self._tasks[present] -= count


def as_claimed(
    rows: list[tuple[Any, ...]], lane: LaneName, in_time: int, taken_at: int = 0
) -> list[Claimed]:
    # The order in which an update returns its rows is not promised; ids rise with time.
    rows.sort(key=itemgetter(6, 0))
    more: tuple[Any, ...] = (
        *(lane.queue, lane.priority, lane.alone),
        in_time,
        lane.share,
        taken_at,
    )
    return [Claimed(*row, *more) for row in rows]


def _drop_expired(
    tx: Tx, taken: list[Claimed], want: ClaimRequest, context: SettleContext | None, *, now: int
) -> tuple[list[Claimed], list[tuple[str, Ending]]]:
    """Jobs that are too late to be of use are ended instead of run: what is left, and how they ended."""
    late = [job for job in taken if job.expires is not None and job.expires <= now]
    if not late:
        return taken, []
    if context is None:
        raise NeedsOwnTransaction
    written = settle(tx, [_expired(job, want) for job in late], context)
    gone = {job.id: job.task for job in late}
    fresh = [job for job in taken if job.id not in gone]
    return fresh, [(gone[one.id], one) for one in written if one is not None]


def _expired(job: Claimed, want: ClaimRequest) -> Ending:
    """Cancelled; or failed, if it has failed before and waited for its retry."""
    lease = (job.id, job.fence, want.worker)
    if not job.failures:
        return watched(Ending(*lease, "cancelled", error=EXPIRED, lane=job.lane))
    keep, why = want.keep_failed(job.task), EXPIRED_AFTER_FAILING
    failed = Ending(*lease, "failed", error=why, keep=keep, untried=True, lane=job.lane)
    return watched(failed)


def _next_due(
    tx: Tx,
    everything: Sequence[Lane],
    want: ClaimRequest,
    now: int,
    lease_end: int | None,
    short: Collection[int],
) -> int:
    """When to look again without a ring: a job or a lane comes due, or a lease ends.

    `short` are lanes of which less was taken than was wanted.
    """
    later = [time for time in times(everything, want) if time > now]
    if lease_end is None:
        lease_end = tx.query(JOBS.next_lease_end, {})[0][0]
    if lease_end is not None:
        # One that is over was left alone for a reason, which will not be gone at once.
        later.append(lease_end if lease_end > now else now + SOON_MS)
    if any(lane.id in short for lane in admissible(everything, want, now)):
        # A due job was passed over: a transaction that has not ended yet has it under lock, to
        # claim it or for another reason, and nothing rings if that is undone.
        later.append(now + SOON_MS)
    return min(later, default=FOREVER)
