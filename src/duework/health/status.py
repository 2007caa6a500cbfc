"""What is going on, counted without a scan: per queue and task, and per worker.

Counts stop at a bound, so that a look costs the same however many jobs are waiting. A worker is listed
from its start to its end; one that was killed until another one writes off what it held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from duework.clock import FOREVER
from duework.db.database import Tx
from duework.db.queries import load
from duework.kernel.job import OWN_QUEUE
from duework.kernel.lanes import JOBS
from duework.kernel.machine.processes import Process, Verdict, verdict
from duework.kernel.operate import OPERATE

NEEDS = load("duework.health", "needs")

# A job that was ready for so long would have been taken by a worker that is there.
LATE_MS = 30_000
FIRE = "duework.fire"
# No count goes beyond this; a count that reaches it means "at least".
BOUND = 100_000


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """The jobs of one task in one queue."""

    queue: str
    task: str
    ready: int
    waiting: int
    running: int
    # How long the oldest ready job has been due, in milliseconds; None if none is ready.
    lag: int | None
    paused: bool
    # Whether the App that was asked knows the task; None where it knows none at all.
    known: bool | None
    # When the first of its lanes admits jobs again, and the pace it waits for; None if it does now.
    held_until: int | None = None
    pace: str | None = None
    # How long its oldest ready job could have started, whatever held it back before; None if it could not.
    free_for: int | None = None


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """A process that works, or that died and was not written off yet."""

    id: int
    host: str
    pid: int
    started: int
    seen: Verdict
    running: int


@dataclass(frozen=True, slots=True)
class Status:
    """One moment of a database."""

    now: int
    tasks: tuple[TaskStatus, ...]
    failed: int
    workers: tuple[WorkerStatus, ...]
    paused: tuple[str, ...]
    # Messages of outboxes that failed, and those of which nobody can tell.
    failed_messages: int = 0
    unsure_messages: int = 0
    # `LATE_MS`, on a clock that may be quicker than the real one.
    late_ms: int = LATE_MS


def ours(seen: Status) -> list[TaskStatus]:
    """The lines of users' own tasks."""
    return [line for line in seen.tasks if line.queue != OWN_QUEUE]


def stuck(seen: Status) -> list[TaskStatus]:
    """Tasks of which nothing runs although a job could have started long ago: twice what is late."""
    limit = 2 * seen.late_ms
    return [
        line
        for line in seen.tasks
        if asked_for(line.queue, line.task) and (line.free_for or 0) > limit and not line.running
    ]


def asked_for(queue: str, task: str) -> bool:
    """Whether users wait for it; of the engine's own tasks they do for those that fire schedules.

    Of a program that has nothing but schedules nothing else would be seen.
    """
    return queue != OWN_QUEUE or task.startswith(FIRE)


def status(
    tx: Tx,
    *,
    now: int,
    near: bool,
    known: Callable[[str], bool] | None,
    own: bool = False,
    late_ms: int = LATE_MS,
) -> Status:
    """Look once; `known` says which tasks the asking process could run."""
    tx.query(OPERATE.in_order, {})
    paused = tuple(row[0] for row in tx.query(JOBS.paused, {}))
    held = dict(tx.query(OPERATE.held_by_worker, {}))
    return Status(
        now,
        tuple(
            line
            for line in _tasks(tx, now, frozenset(paused), known)
            if own or line.queue != OWN_QUEUE
        ),
        tx.query(OPERATE.count_failed, {"bound": BOUND})[0][0],
        tuple(
            WorkerStatus(p.id, p.host, p.pid, p.started, verdict(p, near=near), held.get(p.id, 0))
            for p in (Process(*row) for row in tx.query(JOBS.workers, {}))
        ),
        paused,
        *_messages(tx),
        late_ms,
    )


def _messages(tx: Tx) -> tuple[int, int]:
    """Of all outboxes: how many failed, how many are unsure."""
    found = {"failed": 0, "unsure": 0}
    for state, _, messages, _ in tx.query(NEEDS.messages, {"bound": BOUND}):
        found[state] += messages
    return found["failed"], found["unsure"]


def _tasks(
    tx: Tx, now: int, paused: frozenset[str], known: Callable[[str], bool] | None
) -> Iterable[TaskStatus]:
    """Lanes that differ only in priority or in running alone are one line for people."""
    lines: dict[tuple[str, str], tuple[int, int, int, int | None]] = {}
    held: dict[tuple[str, str], tuple[int, str | None]] = {}
    for row in tx.query(OPERATE.summary, {"now": now, "bound": BOUND}):
        queue, task, ready, waiting, running, oldest = row[0], row[1], *row[5:9]
        before = lines.get((queue, task), (0, 0, 0, None))
        if ready or waiting:
            first = held.get((queue, task), (FOREVER, None))
            held[queue, task] = min((row[4], row[9]), first, key=lambda each: each[0])
        times = [time for time in (oldest, before[3]) if time is not None]
        lines[queue, task] = (
            *(before[0] + ready, before[1] + waiting, before[2] + running),
            min(times, default=None),
        )
    for (queue, task), (ready, waiting, running, oldest) in lines.items():
        stopped = queue in paused or "*" in paused
        yield TaskStatus(
            queue,
            task,
            ready,
            waiting,
            running,
            lag=None if oldest is None else now - oldest,
            paused=stopped,
            known=None if known is None else known(task),
            **_held(held.get((queue, task)), now),
            free_for=None if stopped else _free_for(held.get((queue, task)), oldest, now),
        )


def _held(first: tuple[int, str | None] | None, now: int) -> dict[str, Any]:
    """What keeps the lanes of a line from admitting jobs; a pause is told elsewhere."""
    if first is None or not now < first[0] < FOREVER:
        return {}
    return {"held_until": first[0], "pace": first[1]}


def _free_for(first: tuple[int, str | None] | None, oldest: int | None, now: int) -> int | None:
    """Since when a job is ready and its lane open: a pace may have held it until a moment ago."""
    if first is None or oldest is None or first[0] > now:
        return None
    return now - max(oldest, first[0])
