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


class Acted(msgspec.Struct):
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
