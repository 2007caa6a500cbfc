"""Why a job of a list waits, in few words: from its own row and one status, without a statement for each.

The order is that of `why`, which tells the whole of it for one job. What a row does not tell is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from duework.clock import FOREVER
from duework.health.status import Status, TaskStatus
from duework.health.why import Kind
from duework.health.words import first_line, on_the_clock

GONE = frozenset({"dead", "rebooted"})


class OpenJob(Protocol):
    """What a list has of a job."""

    @property
    def queue(self) -> str: ...
    @property
    def task(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def due(self) -> int: ...
    @property
    def at(self) -> int: ...
    @property
    def fence(self) -> int: ...
    @property
    def worker(self) -> int | None: ...
    @property
    def failures(self) -> int: ...
    @property
    def alone(self) -> bool: ...
    @property
    def serial(self) -> str | None: ...
    @property
    def after(self) -> int | None: ...
    @property
    def error(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class ShortWhy:
    """The first reason that holds, and its words."""

    kind: Kind
    words: str
    # When it ends by itself, if its words say so.
    until: int | None = None


def shortly(seen: Status) -> Callable[[OpenJob], ShortWhy | None]:
    """A function for the rows of one list, looked at when the status was."""
    lines = {(line.queue, line.task): line for line in seen.tasks}
    alive = any(worker.seen not in GONE for worker in seen.workers)

    def short(job: OpenJob) -> ShortWhy | None:
        if job.state != "open" or job.worker is not None:
            return None
        line = lines.get((job.queue, job.task))
        return (
            (None if alive else _no_worker(job, seen, line))
            or _paused(job, seen)
            or _order(job)
            or _pace(line, seen.now)
            or _own(job, seen.now)
        )

    return short


def _no_worker(job: OpenJob, seen: Status, line: TaskStatus | None) -> ShortWhy | None:
    held = line is not None and (line.paused or line.held_until is not None)
    if job.due > seen.now or held:
        return None
    if seen.workers:
        return ShortWhy("no worker", "no worker is alive")
    if seen.now - job.due > seen.late_ms:
        return ShortWhy("no worker", "no worker has taken it")
    return None


def _paused(job: OpenJob, seen: Status) -> ShortWhy | None:
    if "*" in seen.paused:
        return ShortWhy("paused", "everything is paused")
    if job.queue in seen.paused:
        return ShortWhy("paused", f"queue {job.queue} is paused")
    return None


def _order(job: OpenJob) -> ShortWhy | None:
    """It is parked until something else has ended, or wakes it."""
    if job.due < FOREVER - 1:
        return None
    if job.after is not None:
        return ShortWhy("after", f"after job {job.after}")
    if job.serial is not None:
        return ShortWhy("serial", f"behind others of serial {job.serial}")
    return ShortWhy("parked", "until something wakes it")


def _pace(line: TaskStatus | None, now: int) -> ShortWhy | None:
    if line is None or line.held_until is None:
        return None
    what = f"pace {line.pace}" if line.pace else "held"
    words = f"{what} until {on_the_clock(line.held_until, now)}"
    return ShortWhy("pace", words, line.held_until)


def _own(job: OpenJob, now: int) -> ShortWhy:
    """What its own row says."""
    if job.due > now and job.failures:
        return ShortWhy("retry", f"retry {job.failures}: {first_line(job.error, 120)}")
    if job.alone:
        return ShortWhy("suspect", "a suspect: few of them run at once")
    if job.due <= now:
        return ShortWhy("in turn", "ready, in turn")
    asked = job.due == job.at
    return ShortWhy("later", "due later, as asked for" if asked else "due later")
