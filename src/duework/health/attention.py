"""What needs somebody: made from one `Status`, so that every place that asks gets the same list.

Most urgent first. What goes as planned, such as a pace that is used up, is told too, but asks nobody.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from duework.health.status import Status, TaskStatus
from duework.kernel.job import OWN_QUEUE

Kind = Literal["unknown", "dead", "late", "failed", "paused", "pace"]
Tone = Literal["bad", "warn", "info"]

# A ready job that is older than this is late; where nothing of its task runs, it is stuck.
LATE_MS = 30_000
STUCK_MS = 60_000


@dataclass(frozen=True, slots=True)
class AttentionItem:
    """One thing that needs somebody."""

    kind: Kind
    tone: Tone
    queue: str = ""
    task: str = ""
    count: int = 0
    # How long it has been so, or until when it will be, in milliseconds; None where nobody knows.
    lag: int | None = None
    until: int | None = None
    name: str = ""


def ours(status: Status) -> list[TaskStatus]:
    """The lines of users' own tasks."""
    return [line for line in status.tasks if line.queue != OWN_QUEUE]


def needs(status: Status) -> list[AttentionItem]:
    """What needs somebody, most urgent first."""
    return [
        *_unknown(status),
        *_dead(status),
        *_late(status),
        *([AttentionItem("failed", "bad", count=status.failed)] if status.failed else []),
        *_paused(status),
        *_paced(status),
    ]


def asking(found: list[AttentionItem]) -> list[AttentionItem]:
    """Those that ask for something to be done."""
    return [need for need in found if need.tone != "info"]


def stuck(status: Status) -> list[TaskStatus]:
    """Tasks of which nothing runs although a job could have started long ago."""
    return [
        line
        for line in ours(status)
        if (line.lag or 0) > STUCK_MS
        and not line.running
        and not line.paused
        and line.held_until is None
    ]


def _unknown(status: Status) -> Iterator[AttentionItem]:
    for line in ours(status):
        if line.known is False and line.ready + line.waiting:
            count = line.ready + line.waiting
            yield AttentionItem("unknown", "bad", line.queue, line.task, count, line.lag)


def _dead(status: Status) -> Iterator[AttentionItem]:
    for worker in status.workers:
        if worker.seen in {"dead", "rebooted"} and worker.running:
            name = f"{worker.host}:{worker.pid}"
            yield AttentionItem("dead", "warn", count=worker.running, name=name)


def _late(status: Status) -> Iterator[AttentionItem]:
    for line in ours(status):
        free = not line.paused and line.held_until is None and line.known is not False
        if free and (line.lag or 0) > LATE_MS:
            tone: Tone = "warn" if line.running else "bad"
            yield AttentionItem("late", tone, line.queue, line.task, line.ready, line.lag)


def _paused(status: Status) -> Iterator[AttentionItem]:
    everything = "*" in status.paused
    for queue in status.paused:
        lines = [line for line in ours(status) if queue in {"*", line.queue}]
        count = sum(line.ready + line.waiting for line in lines)
        if count or queue == "*":
            lag = max((line.lag for line in lines if line.lag is not None), default=None)
            if queue == "*" or not everything:
                yield AttentionItem("paused", "warn", queue, "", count, lag)


def _paced(status: Status) -> Iterator[AttentionItem]:
    for line in ours(status):
        if line.held_until is not None and line.ready and not line.paused:
            name = line.pace or ""
            yield AttentionItem(
                *("pace", "info", line.queue, line.task, line.ready),
                until=line.held_until,
                name=name,
            )
