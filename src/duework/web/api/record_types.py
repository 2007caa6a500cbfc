"""What the HTTP API says and is told of events, sweeps, workflows, budgets, blobs and metrics."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from duework.web.api.types import Length, Limit, Short

Digits = Annotated[str, msgspec.Meta(pattern="^[0-9]{1,19}$")]
Time = Annotated[int, msgspec.Meta(ge=0, le=2**62)]

# --- events


class EventLine(msgspec.Struct):
    """What was published; `payload` is null where the App shows it to operators only."""

    id: str
    name: str
    payload: Any
    at: int


class ReachedLine(msgspec.Struct):
    """What became of an event at one subscriber; `state` is null once its job is not kept any more."""

    subscriber: str
    job: str
    state: str | None
    failures: int | None
    error: str | None


class EventDetail(EventLine):
    """An event, and what became of it."""

    subscribers: list[ReachedLine]


class EventQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which events; newest first."""

    name: Short = ""
    cursor: Short = ""
    limit: Limit = 50


class PublishEvent(msgspec.Struct, forbid_unknown_fields=True):
    """An event to be published, of which every subscriber gets a job."""

    name: Short
    payload: Any = None


class SubscriberLine(msgspec.Struct):
    """Who gets events of a name; `bulk` of more than 1: so many at once, within that time of the first."""

    name: str
    event: str
    queue: str
    bulk: int
    within_ms: int


class FailedEventLine(msgspec.Struct):
    """An event that a subscriber has given up on."""

    event: EventLine
    job: str
    failures: int
    error: str | None
    settled: int | None


class ChosenEvents(msgspec.Struct, forbid_unknown_fields=True):
    """Which failed events: these, by id, or `"all": true`."""

    events: Annotated[list[Digits], msgspec.Meta(max_length=1000)] = []
    all: bool = False
    why: Short = ""


# --- sweeps


class SweepLine(msgspec.Struct):
    """How a sweep goes; `waiting` are items that are put off, counted to 10000."""

    name: str
    state: str
    rounds: int
    done: int
    failed: int
    waiting: int
    last_at: int | None
    next_at: int | None
    job: str | None
    error: str | None


class SweepItemLine(msgspec.Struct):
    """An item that went wrong; `next_try` is null once it is given up."""

    key: str
    failures: int
    next_try: int | None
    error: str | None


class SweepItemsQuery(msgspec.Struct, forbid_unknown_fields=True):
    """How many items, the next ones first."""

    limit: Limit = 50


# --- workflows


WorkflowState = Literal["running", "attention", "failed", "ended", "cancelled"]


class WorkflowLine(msgspec.Struct):
    """A job that has recorded steps; `reason` says why it needs attention, `done` how many steps are."""

    id: str
    task: str
    state: WorkflowState
    reason: str | None
    started: int
    done: int


class StepLine(msgspec.Struct):
    """One step of a workflow; `child` is the job that it waits for, or waited for."""

    place: int
    name: str
    kind: Literal["step", "sleep", "wait", "child"]
    state: Literal["trying", "waiting", "done", "failed"]
    failures: int
    started: int
    ended: int | None
    due: int | None
    # None where the App shows it to operators only.
    result: Any
    error: str | None
    child: str | None


class WorkflowQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which workflows; newest first."""

    state: WorkflowState | Literal[""] = ""
    cursor: Short = ""
    limit: Limit = 50


class ForkWorkflow(msgspec.Struct, forbid_unknown_fields=True):
    """The step that the new job begins with."""

    step: Short


class SendSignal(msgspec.Struct, forbid_unknown_fields=True):
    """What workflows that wait for an event are told; with a key, those that wait with it."""

    event: Short
    key: Short = ""
    payload: Any = None


# --- budgets


class BudgetLine(msgspec.Struct):
    """A budget in its present period; amounts are decimal texts."""

    name: str
    limit: str
    declared: str
    spent: str
    reserved: str
    left: str
    per: str
    tz: str
    turns_at: int


class SpendLine(msgspec.Struct):
    """A row of a budget's ledger."""

    id: str
    amount: str
    state: Literal["reserved", "settled", "released", "assumed"]
    note: str
    at: int
    ended: int | None


class BudgetQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which budgets, by name."""

    prefix: Short = ""
    cursor: Short = ""
    limit: Limit = 50


class RaiseBudget(msgspec.Struct, forbid_unknown_fields=True):
    """The new limit, as a number or a decimal text."""

    limit: Annotated[str, msgspec.Meta(max_length=30)] | Annotated[float, msgspec.Meta(ge=0)]
    why: Short = ""


# --- blobs


class BlobLine(msgspec.Struct):
    """A blob without its content; `digest` is the SHA-256 of that."""

    key: str
    size: int
    digest: str
    content_type: str
    metadata: dict[str, str]
    created: int
    expires: int | None


class BlobMade(BlobLine):
    """A blob that was put; `new` says whether this content was stored, or one was there."""

    new: bool


class BlobContent(BlobLine):
    """A blob with its content, as base64."""

    base64: bytes


class BlobQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which blobs, by key."""

    prefix: Short = ""
    cursor: Annotated[str, msgspec.Meta(max_length=6000)] = ""
    limit: Limit = 50


class PutBlob(msgspec.Struct, forbid_unknown_fields=True):
    """A content, as `text` or as `base64`; over after `ttl`."""

    text: str | None = None
    base64: bytes | None = None
    content_type: Short | None = None
    ttl: Length | None = None
    metadata: dict[str, str] = {}
    if_absent: bool = False


# --- metrics


class MetricLine(msgspec.Struct):
    """What was counted under one name and one set of labels; `start` is 0 for all of time."""

    name: str
    labels: dict[str, str]
    kind: Literal["counter", "timing"]
    count: int
    total: float
    most: float
    start: int


class MetricsQuery(msgspec.Struct, forbid_unknown_fields=True):
    """How many sums, by name and labels."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 1000


class MetricQuery(msgspec.Struct, forbid_unknown_fields=True):
    """What a point sums, and since when, in milliseconds; oldest first."""

    span: Literal["minute", "hour", "day"] = "hour"
    since: Time = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 1000
