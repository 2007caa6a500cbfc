"""What the HTTP API says and is told: one Struct each, from which its OpenAPI document is made.

Ids are texts, since they exceed what JavaScript's numbers hold; times are milliseconds since 1970. The client
reads answers as the same types, so nothing here needs a web server.
"""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec

T = TypeVar("T")

Phase = Literal["waiting", "ready", "running", "expired", "done", "failed", "cancelled"]
Limit = Annotated[int, msgspec.Meta(ge=1, le=200)]
Short = Annotated[str, msgspec.Meta(max_length=500)]
# '10m' or seconds; an ISO text with an offset, or milliseconds.
Length = str | Annotated[float, msgspec.Meta(ge=0)]
When = str | int


class Listed(msgspec.Struct, Generic[T]):
    """One page of a list; `next` is the `cursor` of the one behind it, null at the end."""

    items: list[T]
    next: str | None


class Fault(msgspec.Struct):
    """Where a body does not fit."""

    path: str
    message: str


class ProblemDocument(msgspec.Struct, omit_defaults=True):
    """RFC 9457: `code` says what is wrong in a word that does not change."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: list[Fault] = []


class Outcome(msgspec.Struct):
    """What became of something: cancelled, cancelling, revived, or how it had ended already."""

    id: str
    outcome: str


class Because(msgspec.Struct, forbid_unknown_fields=True):
    """Why somebody does it; kept in the audit."""

    why: Short = ""


class Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """An action that needs nothing to be said."""


# --- jobs


class JobLine(msgspec.Struct, kw_only=True):
    """A job in a list."""

    id: str
    task: str
    queue: str
    priority: int
    phase: Phase
    key: str | None
    at: int
    due: int
    settled: int | None
    failures: int
    batch: str | None
    # Its first line.
    error: str | None


class JobDetail(JobLine, kw_only=True):
    """A job as it is now."""

    crashes: int
    fence: int
    worker: str | None
    serial: str | None
    after: str | None
    owner: str | None
    expires: int | None
    cancelling: str | None
    progress: Any
    # None where the App shows them to operators only.
    arguments: Any
    result: Any


class AttemptLine(msgspec.Struct):
    """An attempt that did not end well."""

    fence: int
    outcome: str
    worker: str | None
    started: int | None
    ended: int
    error: str | None


class Reasons(msgspec.Struct):
    """Why a job is where it is: the first reason that holds, then the others."""

    kind: str
    sentence: str
    until: int | None
    job: str | None
    pace: str | None
    queue: str | None
    others: list[Reasons]


class Enqueue(msgspec.Struct, forbid_unknown_fields=True):
    """A job to be made. `arguments` by name, or as a list by place."""

    task: Short
    arguments: dict[str, Any] | list[Any] = {}
    queue: Short | None = None
    priority: Annotated[int, msgspec.Meta(ge=0, le=9)] | None = None
    delay: Length | None = None
    at: When | None = None
    expires: Length | None = None
    key: Short | None = None
    once: Length | None = None
    replace: bool = False
    serial: Short | None = None
    after: Short | None = None


class Made(msgspec.Struct):
    """What was made, or was there already under the same key."""

    id: str
    existed: bool


class JobQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which jobs; newest first."""

    phase: Phase | Literal[""] = ""
    task: Short = ""
    queue: Short = ""
    key: Short = ""
    cursor: Short = ""
    limit: Limit = 50


class PageQuery(msgspec.Struct, forbid_unknown_fields=True):
    """How far into a list."""

    cursor: Short = ""
    limit: Limit = 50


# --- what is going on


class TaskLine(msgspec.Struct):
    """The jobs of one task in one queue; a count of 100000 means at least so many."""

    queue: str
    task: str
    ready: int
    waiting: int
    running: int
    lag_ms: int | None
    paused: bool
    known: bool | None


class WorkerLine(msgspec.Struct):
    """A process that holds jobs, or held some."""

    id: str
    host: str
    pid: int
    started: int
    seen: str
    running: int


class NeedLine(msgspec.Struct):
    """One thing that somebody should look at."""

    kind: str
    sentence: str
    count: int
    oldest: int | None
    command: str


class Overview(msgspec.Struct):
    """One moment of a database."""

    now: int
    tasks: list[TaskLine]
    failed: int
    paused: list[str]
    workers: list[WorkerLine]
    needs: list[NeedLine]


class CheckLine(msgspec.Struct):
    """One thing the doctor looked at."""

    name: str
    value: str
    fitness: Literal["ok", "warning", "problem"]
    advice: str


class Checks(msgspec.Struct):
    """What the doctor found."""

    ok: bool
    checks: list[CheckLine]


class TaskName(msgspec.Struct):
    """A task that can be enqueued here."""

    name: str
    queue: str
    priority: int
    # Of its arguments.
    takes: list[str]


class QueueState(msgspec.Struct):
    """Whether a queue is paused; '*' is all of them."""

    queue: str
    paused: bool


# --- batches and chains


class ProgressDetail(msgspec.Struct):
    """The members of a batch by what became of them."""

    waiting: int
    running: int
    done: int
    failed: int
    cancelled: int
    total: int
    percent: int


class BatchLine(msgspec.Struct, kw_only=True):
    """A batch in a list."""

    id: str
    name: str
    key: str | None
    task: str
    total: int
    done: int
    failed: int
    cancelled: int
    created: int
    settled: int | None
    then: str | None
    then_job: str | None


class BatchDetail(BatchLine, kw_only=True):
    """A batch as it is now."""

    progress: ProgressDetail


class BatchQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which batches; newest first."""

    name: Short = ""
    cursor: Short = ""
    limit: Limit = 50


class MembersQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which jobs of a batch; newest first."""

    phase: Phase | Literal[""] = ""
    cursor: Short = ""
    limit: Limit = 50


class StartBatch(msgspec.Struct, forbid_unknown_fields=True):
    """One job for each item: an object is arguments by name, a list by place, else the one argument."""

    task: Short
    items: Annotated[list[Any], msgspec.Meta(max_length=10_000)]
    name: Short = ""
    then: Short | None = None
    key: Short | None = None
    queue: Short | None = None
    priority: Annotated[int, msgspec.Meta(ge=0, le=9)] | None = None


class Count(msgspec.Struct):
    """How many jobs something was done to."""

    count: int


class ChainLine(msgspec.Struct):
    """A chain as it is now, with what its pages have counted."""

    id: str
    task: str
    key: str | None
    state: Literal["active", "done", "failed", "cancelled"]
    pages: int
    percent: float | None
    counts: dict[str, int | float]
    error: str | None
    started: int
    settled: int | None


class ChainQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which chains; newest first."""

    state: Literal["", "active", "done", "failed", "cancelled"] = ""
    task: Short = ""
    key: Short = ""
    cursor: Short = ""
    limit: Limit = 50


class StartChain(msgspec.Struct, forbid_unknown_fields=True):
    """A chain to be started."""

    task: Short
    arguments: dict[str, Any] | list[Any] = {}
    key: Short | None = None
    page_size: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None = None
    delay: Length | None = None


class PageLine(msgspec.Struct):
    """One page of a chain."""

    number: int
    phase: Phase
    cursor: Any
    size: int
    counts: dict[str, int | float]
    job: str
    failures: int
    error: str | None
    started: int | None
    settled: int | None


# --- schedules


class ScheduleLine(msgspec.Struct):
    """A schedule as it is now."""

    key: str
    task: str
    queue: str
    when: str
    tz: str
    state: Literal["active", "paused", "ended", "deleted"]
    due: int | None
    last_at: int | None
    last_outcome: str | None
    last_job: str | None
    fires: int
    idles: int
    skips: int
    owner: str
    why: str
    error: str | None
    # The next five, in its own time zone.
    next: list[str]


class ScheduleQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which schedules, by key."""

    prefix: Short = ""
    cursor: Short = ""
    limit: Limit = 50


class ChangeSchedule(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What is to be changed; what is left out stays."""

    cron: Short | msgspec.UnsetType = msgspec.UNSET
    every: Length | msgspec.UnsetType = msgspec.UNSET
    rrule: Short | msgspec.UnsetType = msgspec.UNSET
    at: When | msgspec.UnsetType = msgspec.UNSET
    start: When | msgspec.UnsetType = msgspec.UNSET
    end: When | msgspec.UnsetType = msgspec.UNSET
    tz: Short | msgspec.UnsetType = msgspec.UNSET
    missed: Literal["skip", "once", "all"] | msgspec.UnsetType = msgspec.UNSET
    overlap: Literal["skip", "queue", "replace"] | msgspec.UnsetType = msgspec.UNSET
    owner: Short | msgspec.UnsetType = msgspec.UNSET
    why: Short | msgspec.UnsetType = msgspec.UNSET


class NewSchedule(ChangeSchedule, forbid_unknown_fields=True, kw_only=True):
    """A schedule that is made, or replaced if its key is known."""

    task: Short
    arguments: list[Any] = []


class Postpone(msgspec.Struct, forbid_unknown_fields=True):
    """By how much the next fire is put off."""

    by: Length


# --- messages, deliveries, objects, paces


class OutboxLine(msgspec.Struct):
    """An outbox, and its messages by state; counts stop at 10000."""

    name: str
    counts: dict[str, int]


class MessageLine(msgspec.Struct):
    """A message of an outbox."""

    id: str
    outbox: str
    key: str
    state: Literal["queued", "sending", "sent", "failed", "unsure", "cancelled"]
    lane: str
    submits: int
    polls: int
    handle: str | None
    error: str | None
    job: str
    created: int
    accepted: int | None
    settled: int | None


class MessageQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which messages; newest first."""

    state: Literal["", "queued", "sending", "sent", "failed", "unsure", "cancelled"] = ""
    lane: Short = ""
    cursor: Short = ""
    limit: Limit = 50


class NewOutboxMessage(msgspec.Struct, forbid_unknown_fields=True):
    """A message to be queued, as its outbox takes it."""

    message: Any
    key: Short | None = None
    lane: Short = ""
    priority: Annotated[int, msgspec.Meta(ge=0, le=9)] = 0
    delay: Length | None = None


class ChannelLine(msgspec.Struct):
    """One channel of a delivery."""

    job: str
    channel: str
    key: str
    state: str
    sends: int
    error: str | None
    settled: int | None


class ObjectLine(msgspec.Struct):
    """A durable object."""

    kind: str
    key: str
    version: int
    bytes: int
    created: int
    changed: int
    alarm: int | None
    failures: int
    error: str | None
    running: bool


class ObjectQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which objects of a kind, by key."""

    kind: Short
    prefix: Short = ""
    cursor: Short = ""
    limit: Limit = 50


class PaceLine(msgspec.Struct):
    """A pace as it is now."""

    name: str
    kind: str
    says: str
    used: int
    limit: int
    blocked_until: int | None
    waits_until: int | None
    stopped: bool


class PaceQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which paces, by name."""

    prefix: Short = ""


class BlockPace(msgspec.Struct, forbid_unknown_fields=True):
    """For how long nothing of a pace starts; 0 ends a block."""

    length: Length = msgspec.field(name="for")
