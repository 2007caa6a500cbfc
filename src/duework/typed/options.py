"""The options that decorators and `using` take, for type checkers: checked, and shown while they are written.

What they mean, and what is refused, stands in the classes that are made of them; a test compares the names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from duework.durations import Duration, Moment
    from duework.handles import Job
    from duework.kernel.failures.retry import Backoff
    from duework.kernel.paces.pace import Pace
    from duework.kernel.tasks import Errors
    from duework.shapes.schedules.row import Missed, Overlap
    from duework.task import Using

Forever = Literal["forever"]


class PolicyOptions(TypedDict, total=False):
    """How a task's jobs are run: `Policy`."""

    name: str
    aliases: Sequence[str]
    queue: str
    priority: int
    retries: int
    backoff: Backoff
    retry_on: Errors
    give_up_on: Errors
    timeout: Duration
    concurrency: int | None
    pace: Pace | Sequence[Pace]
    isolation: Literal["process"] | None
    cpu_seconds: int | None
    memory_mb: int | None
    keep: Duration | None
    keep_failed: Duration | None
    payload_limit: int


class PlanOptions(TypedDict, total=False):
    """When a schedule fires: `SchedulePlan`, without what a task has, too."""

    cron: str | None
    every: Duration | None
    rrule: str | None
    at: Moment | None
    start: Moment | None
    end: Moment | None
    count: int | None
    tz: str
    missed: Missed
    missed_limit: int
    overlap: Overlap | None
    owner: str
    why: str


class TaskOptions(PolicyOptions, PlanOptions, total=False):
    """What `@app.task(…)` takes: a policy, and a schedule if it has one."""

    idle: Callable[..., Any] | None


class ScheduleOptions(PlanOptions, total=False):
    """What `app.schedule`, `tx.schedule` and `schedule.edit` take."""

    queue: str | None
    priority: int | None


class EnqueueOptions(TypedDict, total=False):
    """What `task.using(…)` takes: `Options`."""

    delay: Duration | None
    at: Moment | None
    key: str | None
    once: Duration | Forever | None
    priority: int | None
    queue: str | None
    expires: Duration | None
    serial: str | None
    after: Job[Any] | int | None
    replace: bool
    when_running: Literal["again"] | None
    latest: Duration | None
    tags: Sequence[str] | None
    headers: Mapping[str, str] | None
    connection: Any


class ChainOptions(TypedDict, total=False):
    """What `chain.using(…)` takes: `StartOptions`."""

    key: str | None
    page_size: int | None
    delay: Duration | None
    at: Moment | None
    priority: int | None
    queue: str | None


class OutboxOptions(TypedDict, total=False):
    """What `outbox.using(…)` takes: `MessageOptions`."""

    key: str | None
    delay: Duration | None
    at: Moment | None
    lane: str
    priority: int
    connection: Any


class BatchOptions(TypedDict, total=False):
    """What `app.batch`, `tx.batch` and `run.batch` take."""

    name: str
    then: Using[..., Any] | None
    key: str | None
    keep: Duration | None
    member_key: str | None
    once: Duration | Forever | None
