"""What happened, after it was committed. Emitted to hooks; `observe/log.py` has the words.

A hook sees facts and cannot change them; in a crash the last ones may be lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from duework.kernel.job import Kind


@dataclass(frozen=True, slots=True)
class WorkerStarted:
    worker: int
    pid: int
    tasks: int


@dataclass(frozen=True, slots=True)
class WorkerStopped:
    worker: int
    released: int


@dataclass(frozen=True, slots=True)
class JobStarted:
    job: int
    task: str
    attempt: int


@dataclass(frozen=True, slots=True)
class JobSettled:
    job: int
    task: str
    kind: Kind
    milliseconds: int
    error: str | None = None
    retry_at: int | None = None
    # What the task raised, itself; None where it ran in a process of its own.
    exception: BaseException | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class LeaseWasLost:
    job: int
    task: str


@dataclass(frozen=True, slots=True)
class LeaseRecovered:
    """A lease of another worker was written off."""

    job: int
    worker: int
    crashed: bool


@dataclass(frozen=True, slots=True)
class JobStuck:
    """It was asked to stop and did not; its slot was given to others."""

    job: int
    task: str
    why: str


@dataclass(frozen=True, slots=True)
class JobBlocked:
    """It has ended, and what it writes to is locked by others; it is settled when that is over."""

    job: int
    task: str
    why: str


@dataclass(frozen=True, slots=True)
class LoopBlocked:
    """A task keeps the event loop from running anything else."""

    task: str
    seconds: float
    where: str


@dataclass(frozen=True, slots=True)
class ClockStepped:
    milliseconds: int


@dataclass(frozen=True, slots=True)
class Parked:
    """Nothing can be written; no job is claimed until that changes."""

    why: str


@dataclass(frozen=True, slots=True)
class Resumed:
    """Writing works again."""


@dataclass(frozen=True, slots=True)
class UnknownTask:
    """Jobs of a task that this process does not know are waiting for one that does."""

    task: str


class ShapeFact:
    """What happened to a shape: its own facts are made from this, and its `words.py` has the words."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class LimitsDiffer:
    """Another worker goes by another limit or pace of the same name; jobs start by the looser one."""

    name: str
    ours: str
    theirs: str
    pid: int
    host: str


@dataclass(frozen=True, slots=True)
class MessageMoved(ShapeFact):
    """A message of an outbox has another state."""

    outbox: str
    id: int
    state: str
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Words:
    """A fact in words: how much it matters, as logging has it, a stable name, a sentence."""

    level: int
    event: str
    text: str


# From one fact to its words.
Wording = Callable[[Any], Words]


@dataclass(frozen=True, slots=True)
class Traffic:
    """What went well lately; for the log alone, about once a second, instead of a line for each job."""

    done: int
    put_off: int
    milliseconds: int


Fact = (
    WorkerStarted
    | WorkerStopped
    | JobStarted
    | JobSettled
    | LeaseWasLost
    | LeaseRecovered
    | JobStuck
    | JobBlocked
    | LoopBlocked
    | ClockStepped
    | Parked
    | Resumed
    | UnknownTask
    | ShapeFact
    | LimitsDiffer
)
