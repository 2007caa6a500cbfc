"""What the HTTP API says and is told of the shapes; see `types.py` for the rest."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from duework.web.api.types import Length, Limit, Phase, Short, When

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
