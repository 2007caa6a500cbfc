"""The data of the kernel: what a job is, how it can end, and which verbs move it.

Four states are stored. What people call waiting, ready or running is derived from `due`, `worker`
and the time, by `phase` here and by one fragment of SQL; nothing has to move a row for it to change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NewType

import msgspec

from duework.clock import FOREVER
from duework.db.database import Tx

JobId = NewType("JobId", int)
State = Literal["open", "done", "failed", "cancelled"]
Phase = Literal["waiting", "ready", "running", "expired", "done", "failed", "cancelled"]
# What jobs are looked for by: `open` is all that has not ended.
PHASES = ("waiting", "ready", "running", "expired", "done", "failed", "cancelled", "open")

# Every change of a row there is: (verb, from, to). The diagram and the tests are checked against it.
TRANSITIONS: tuple[tuple[str, State | None, State | None], ...] = (
    ("enqueue", None, "open"),
    ("enqueue", "open", "open"),
    ("claim", "open", "open"),
    ("extend", "open", "open"),
    ("settle", "open", "open"),
    ("settle", "open", "done"),
    ("settle", "open", "failed"),
    ("settle", "open", "cancelled"),
    ("settle", "open", None),
    ("cancel", "open", "open"),
    ("cancel", "open", "cancelled"),
    ("revive", "failed", "open"),
    ("revive", "cancelled", "open"),
    ("revive", "done", "open"),
    ("prune", "done", None),
    ("prune", "cancelled", None),
    ("prune", "failed", None),
    ("prune", "failed", "failed"),
)

# Lanes of jobs that crashed twice in a row, and of those that crashed again after that.
SUSPECT, ALONE = 1, 2
# How many suspects a worker runs at once; one that runs alone takes the places of all.
SUSPECTS = 10
# The third crash of an attempt that ran alone makes a job poison.
POISON = 3

# The queue of the engine's own housekeeping.
OWN_QUEUE = "duework"

DAY = 86_400_000
KEEP = 7 * DAY


class LaneName(msgspec.Struct, frozen=True, cache_hash=True):
    """What jobs have in common that are interchangeable for admission."""

    queue: str
    task: str
    priority: int = 0
    tier: str = ""
    share: str = ""
    alone: int = 0


class NewJob(msgspec.Struct, frozen=True, gc=False):
    """A job to be enqueued. Times are given; the id is drawn when it is written."""

    lane: LaneName
    payload: str
    at: int
    key: str | None = None
    once_until: int | None = None
    replace: bool = False
    again: bool = False
    expires: int | None = None
    serial: str | None = None
    after: int | None = None
    owner: str | None = None
    batch: int | None = None
    # What it carries beside its arguments: tags, headers as JSON, and until when it may be replaced.
    tags: tuple[str, ...] = ()
    headers: str | None = None
    latest: int | None = None

    @property
    def carries(self) -> bool:
        return bool(self.tags) or self.headers is not None or self.latest is not None

    def but(self, **changes: Any) -> NewJob:
        return msgspec.structs.replace(self, **changes)


class Enqueued(msgspec.Struct, frozen=True, gc=False):
    """What came of a `NewJob`: its id, or that of the job that was there already."""

    id: JobId
    existed: bool = False


# A job and the fence of the claim that it is held by.
Lease = tuple[int, int]


class Claimed(msgspec.Struct, frozen=True):
    """A job this worker holds until its lease ends, and the fence that proves it."""

    id: JobId
    fence: int
    lane: int
    task: str
    payload: str
    checksum: int
    at: int
    failures: int
    crashes: int
    key: str | None
    expires: int | None
    serial: str | None
    owner: str | None
    batch: int | None
    # When its pace promised to admit it, and the fence of the claim that it was promised to.
    slot: int | None = None
    slot_fence: int | None = None
    queue: str = ""
    priority: int = 0
    # As its lane says: 0 for most, SUSPECT or ALONE.
    alone: int = 0
    # An attempt that has not started by then comes too late for its pace, or for a lease that another
    # process got it.
    start_by: int = FOREVER
    # The key among which its queue takes turns; most have none.
    share: str = ""
    # When its paces counted it; 0 if it has none.
    taken_at: int = 0


Kind = Literal[
    "done",
    "retry",
    "misfit",
    "snooze",
    "failed",
    "cancelled",
    "crashed",
    "lost",
    "released",
    "blocked",
]
# Something that is written in the settle's transaction; what `commit` functions return is the result.
Effect = Callable[[Tx], Any]


class PaceReport(msgspec.Struct, frozen=True):
    """How an attempt went, for the paces of its task: completed, failed, throttled and so on."""

    word: str
    value: int = 0
    # (pace's row, pace), filled in by the worker's side.
    rows: tuple[tuple[str, Any], ...] = ()


class Ending(msgspec.Struct, frozen=True):
    """How one attempt ended, as settle writes it. Policy has been applied; only storing is left."""

    id: JobId
    fence: int
    worker: int
    kind: Kind
    due: int = 0
    result: str | None = None
    error: str | None = None
    started: int | None = None
    # How long the settled row is kept: None is for ever, 0 deletes it at once.
    keep: int | None = KEEP
    # The same if it was to be cancelled meanwhile.
    keep_cancelled: int | None = KEEP
    # A crash that counts against the job: it was in a process of its own, or alone among suspects.
    alone: bool = False
    # A crash after another one.
    repeated: bool = False
    # It has failed before, and came too late to be tried again: what it failed by stays its error.
    untried: bool = False
    # Rows of schedules and pruning are never given up.
    immortal: bool = False
    effects: tuple[Effect, ...] = ()
    # What an effect or a reaction that failed makes of the attempt.
    fallback: Callable[[BaseException], Ending] | None = None
    # Whether there are reactions inside the settle.
    watched: bool = False
    # The batch that counts it, as the claim said.
    batch: int | None = None
    # The lane that it was claimed from, where that is known; for counters.
    lane: int = 0
    # Set by settle: more than the row was touched, and something may be claimable now.
    linked: bool = False
    # What its paces are to apply, in the settle's transaction: a word, and for how long if they
    # are to be blocked.
    report: PaceReport | None = None
    # What it has used of quotas: (name, what its claim took, what it used, when that was taken).
    spent: tuple[tuple[str, int, int, int], ...] = ()
    # What was raised, for hooks; only its text is stored.
    exception: BaseException | None = None

    def but(self, **changes: Any) -> Ending:
        return msgspec.structs.replace(self, **changes)


@dataclass(slots=True)
class LockedJob:
    """A job's row as settle, cancel and revive see it, under lock."""

    id: JobId
    lane: int
    task: str
    key: str | None
    state: State
    due: int
    at: int
    fence: int
    worker: int | None
    failures: int
    crashes: int
    payload: str
    checksum: int
    result: str | None
    error: str | None
    serial: str | None
    after: int | None
    again: str | None
    cancel_reason: str | None
    owner: str | None
    linked: int
    progress: str | None
    settled: int | None
    batch: int | None


Reaction = Callable[[Tx, LockedJob, Ending], None]


def places(alone: int) -> int:
    """How many of a worker's places for suspects a job takes."""
    return SUSPECTS if alone == ALONE else alone


def phase(state: State, due: int, worker: int | None, now: int) -> Phase:
    """The same as the fragment of SQL in `jobs.sql`; a test compares them."""
    if state != "open":
        return state
    if worker is not None:
        return "running" if due > now else "expired"
    return "waiting" if due > now else "ready"
