"""Tasks: the code behind jobs, with its policy, found by name in this process's registry only.

Nothing stored can name a function, a class or a module; a task this process does not know is left
for a process that does.
"""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from duework.codec import PAYLOAD_LIMIT, ArgumentCodec, ResultCodec, return_type
from duework.db.database import Tx
from duework.durations import Duration, milliseconds
from duework.errors import TaskNotFound, UsageError
from duework.kernel.failures.retry import Backoff, Exponential, delays
from duework.kernel.job import KEEP, OWN_QUEUE, Ending
from duework.kernel.outcomes import Outcome
from duework.kernel.paces.admission import AddressedReport, Gate
from duework.kernel.paces.pace import Pace, Rate
from duework.kernel.run import Run
from duework.kernel.surroundings.arounds import AroundAttempt, check_around

Isolation = Literal["async", "thread", "process", "own"]
Errors = type[BaseException] | tuple[type[BaseException], ...]

_NAME = re.compile(r"[A-Za-z_][\w.:-]{0,199}")
# What `keep=` may be for rows that are never pruned.
KEPT_FOREVER = ("forever", None)
# How the engine's own jobs are run: whatever happens, they are never given up.
TIRELESS: dict[str, Any] = {
    "immortal": True,
    "retries": 2**31,
    "backoff": ("1s", "10s", "1m"),
    "keep": 0,
}


@dataclass(frozen=True, slots=True)
class Policy:
    """How a task's jobs are run; what `@app.task(…)` takes."""

    queue: str = "default"
    priority: int = 0
    # Retries after the first attempt.
    retries: int = 0
    backoff: Backoff = field(default_factory=Exponential)
    retry_on: Errors = Exception
    give_up_on: Errors = ()
    timeout: Duration = "1h"
    # How many of its jobs may run at once, over all processes.
    concurrency: int | None = None
    # What admits its jobs: one pace, or several that must all admit.
    pace: Pace | Sequence[Pace] = ()
    isolation: Literal["process"] | None = None
    cpu_seconds: int | None = None
    memory_mb: int | None = None
    keep: Duration | None = KEEP / 1000
    keep_failed: Duration | None = None
    payload_limit: int = PAYLOAD_LIMIT
    # Never given up after crashes: the engine's own housekeeping.
    immortal: bool = False

    def __post_init__(self) -> None:
        check_name("queue", self.queue)
        check_priority(self.priority)
        check_count("retries, the number of retries after the first attempt,", self.retries, 0)
        check_count("payload_limit", self.payload_limit, 1)
        if self.concurrency is not None:
            check_count("concurrency", self.concurrency, 1)
        for name in ("retry_on", "give_up_on"):
            _check_errors(name, getattr(self, name))
        if self.isolation not in (None, "process"):
            raise UsageError("isolation is 'process' or left out")
        if self.isolation is None and (self.cpu_seconds or self.memory_mb):
            raise UsageError("cpu_seconds and memory_mb need isolation='process'")


def policy(options: Mapping[str, Any]) -> Policy:
    """A policy from keyword options; a clear error for one that does not exist."""
    known = {each.name for each in fields(Policy)}
    if unknown := options.keys() - known:
        message = (
            f"unknown option {', '.join(sorted(unknown))}; there are: {', '.join(sorted(known))}"
        )
        raise UsageError(message)
    return Policy(**options)


def check_name(what: str, name: str) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        message = f"a {what}'s name has letters, digits and . _ : - and starts with a letter: not {name!r}"
        raise UsageError(message)
    return name


def check_aliases(name: str, aliases: Any) -> tuple[str, ...]:
    """Former names of a task, each in full; a clear error for what is none."""
    if isinstance(aliases, str) or not isinstance(aliases, Sequence):
        raise UsageError(f"aliases= is a list of former names, such as ('{name}_old',)")
    return tuple(check_name("task", alias) for alias in aliases)


def check_count(what: str, count: int, least: int) -> int:
    if not isinstance(count, int) or isinstance(count, bool) or count < least:
        raise UsageError(f"{what} is a whole number from {least} up, not {count!r}")
    return count


def _check_errors(what: str, errors: Errors) -> None:
    for each in errors if isinstance(errors, tuple) else (errors,):
        if not (isinstance(each, type) and issubclass(each, BaseException)):
            raise UsageError(f"{what} is an exception class or a tuple of them, not {each!r}")


def check_priority(priority: int) -> None:
    if not isinstance(priority, int) or isinstance(priority, bool) or not 0 <= priority <= 9:  # noqa: PLR2004 - one digit
        raise UsageError(f"a priority is 0 to 9, and 9 goes first: not {priority!r}")


class Definition:
    """A registered function: how to call it, how to store its arguments, what follows it."""

    def __init__(self, name: str, function: Callable[..., Any], chosen: Policy) -> None:
        self.name = check_name("task", name)
        self.function = function
        self.policy = chosen
        self.is_async = inspect.iscoroutinefunction(function)
        self.takes_run = leads_with(function, Run)
        self.arguments = ArgumentCodec(function, int(self.takes_run), chosen.payload_limit)
        self.result = ResultCodec(_value_type(return_type(function)))
        self.delay = delays(chosen.backoff)
        self.timeout_ms = milliseconds(chosen.timeout)
        self.keep_ms = _kept(chosen.keep)
        self.keep_failed_ms = _kept(chosen.keep_failed)
        self.reactions: list[Callable[..., None]] = []
        # Names that it had before: jobs that were enqueued under them are its own.
        self.aliases: tuple[str, ...] = ()
        # For shapes: called with the run and with the function that runs the task's own process.
        self.around_child: Callable[[Run, Callable[[], Ending]], Any] | None = None
        # Whether the user's context managers go around its attempts: the Part's own, and all of them.
        self.surrounded = False
        self.inner: list[AroundAttempt] = []
        self.arounds: tuple[AroundAttempt, ...] = ()
        # Which kind of slot runs it.
        self.pool: Isolation = "async" if self.is_async else "thread"
        if chosen.isolation == "process":
            self.pool = "process"
        self.gates = gates(name, chosen.pace, self._default)

    def check_arounds(self, arounds: Sequence[AroundAttempt]) -> None:
        """A clear error for context managers that cannot go around it."""
        check_around(self.name, is_async=self.is_async, arounds=arounds)

    def _default(self, name: str) -> Any:
        """What an argument is that was not given; an error if there is no such argument."""
        parameters = list(inspect.signature(self.function).parameters.values())
        for parameter in parameters[int(self.takes_run) :]:
            if parameter.name == name:
                return None if parameter.default is parameter.empty else parameter.default
        raise UsageError(f"{self.name} has no argument {name!r} that its pace could be per")


def gates(
    owner: str, paces: Pace | Sequence[Pace], default: Callable[[str], Any]
) -> tuple[Gate, ...]:
    """The paces of a task or queue under the names of their rows; unnamed ones are its own."""
    listed = (paces,) if isinstance(paces, Pace) else tuple(paces)
    found: list[Gate] = []
    for pace in listed:
        if not isinstance(pace, Pace):
            raise UsageError(f"pace= is a Rate, Tick, Quota or Adaptive, or a list: not {pace!r}")
        if pace.per is not None and not isinstance(pace, Rate):
            raise UsageError(
                f"{pace!r} per {pace.per!r} is for the lanes of an outbox: {owner} has none"
            )
        name = pace.name or f"{owner}:{pace.kind}"
        if count := sum(gate.name.partition("#")[0] == name for gate in found):
            name = f"{name}#{count + 1}"
        found.append(Gate(name, pace, None if pace.per is None else default(pace.per)))
    return tuple(found)


def _kept(length: Duration | None) -> int | None:
    return None if length in KEPT_FOREVER else milliseconds(length)


def _value_type(annotated: Any) -> Any:
    """The part of a return annotation that is a value: outcomes are never stored."""
    if isinstance(annotated, type) and issubclass(annotated, Outcome):
        return type(None)
    if typing.get_origin(annotated) not in (typing.Union, types.UnionType):
        return annotated
    values = [each for each in typing.get_args(annotated) if _value_type(each) is each]
    return typing.Union[tuple(values)] if values else type(None)  # noqa: UP007 - made at run time


def leads_with(function: Callable[..., Any], kind: type) -> bool:
    """Whether the first parameter of a function is annotated so, and not stored with the others."""
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters:
        return False
    try:
        hints = typing.get_type_hints(function)
    except Exception:  # noqa: BLE001 - the codec reports annotations that cannot be read
        return False
    return hints.get(parameters[0].name) is kind


@dataclass(frozen=True, slots=True)
class Writes:
    """What a shape writes in a caller's transaction: its items are data, and can leave a process."""

    item: type
    verb: Callable[[Any, list[Any]], Sequence[Any]]


class Registry:
    """The tasks this process knows."""

    def __init__(self) -> None:
        self._tasks: dict[str, Definition] = {}
        # Former names, and what those tasks are called now.
        self.renamed: dict[str, str] = {}
        self.queue_limits: dict[str, int] = {}
        # Context managers around every attempt of the user's tasks, the outermost first.
        self.arounds: list[AroundAttempt] = []
        # Manifests of shapes, by name.
        self.shapes: dict[str, Any] = {}
        # By name: chain, schedule, message, batch and so on.
        self.writes: dict[str, Writes] = {}
        # By kind of shape: forget that sends have begun, of jobs whose worker died before anything left.
        self.forget_starts: dict[str, Callable[[Tx, list[int]], None]] = {}
        self.task_paces: dict[str, tuple[Gate, ...]] = {}
        self.queue_paces: dict[str, tuple[Gate, ...]] = {}
        # Paces by the names of their rows, and the reports to them that are not written yet.
        self.paces: dict[str, Pace] = {}
        self.reports: deque[AddressedReport] = deque()
        self.on_report: Callable[[], None] = lambda: None

    def add(self, definition: Definition) -> None:
        known = self._tasks.get(definition.name)
        if known is not None and known.function is not definition.function:
            message = f"there is a task {definition.name!r} already; give one of them another name="
            raise UsageError(message)
        if definition.surrounded:
            self._surround(definition)
        if definition.gates and known is None:
            self._pace(definition.gates)
            self.task_paces[definition.name] = definition.gates
        self._tasks[definition.name] = definition
        for alias in definition.aliases:
            self._add_alias(alias, definition)

    def _add_alias(self, alias: str, definition: Definition) -> None:
        known = self._tasks.get(alias)
        if known is not None and known.function is not definition.function:
            raise UsageError(
                f"{definition.name} had the name {alias!r} before, which another task has now:"
                " its waiting jobs cannot be both"
            )
        self._tasks[alias] = definition
        self.renamed[alias] = definition.name
        if definition.gates:
            self.task_paces[alias] = definition.gates

    def add_around(self, made: AroundAttempt) -> None:
        """One more context manager around all of the user's tasks, inside those before it."""
        for task in (surrounded := self._surrounded()):
            task.check_arounds([made])
        self.arounds.append(made)
        for task in surrounded:
            self._surround(task)

    def surround_again(self) -> None:
        """A Part has one more."""
        for task in self._surrounded():
            self._surround(task)

    def _surrounded(self) -> list[Definition]:
        return [task for task in self._tasks.values() if task.surrounded]

    def _surround(self, task: Definition) -> None:
        found = (*self.arounds, *task.inner)
        task.check_arounds(found)
        task.arounds = found

    def limit_queue(
        self, name: str, concurrency: int | None, pace: Pace | Sequence[Pace] = ()
    ) -> None:
        """What holds for a queue's jobs over all processes."""
        if concurrency is not None:
            self.queue_limits[name] = check_count("concurrency", concurrency, 1)
        if pace:
            self.pace_queue(name, pace)

    def pace_queue(self, name: str, pace: Pace | Sequence[Pace]) -> None:
        """Let a queue's jobs be admitted by a pace, whatever their tasks have."""

        def default(argument: str) -> Any:
            raise UsageError(f"a queue has no argument {argument!r}: give per= to a task's pace")

        found = gates(f"queue:{name}", pace, default)
        if [gate.pace for gate in found] != [g.pace for g in self.queue_paces.get(name, ())]:
            self._pace(found)
            self.queue_paces[name] = found

    def know_paces(self, found: tuple[Gate, ...]) -> None:
        """Paces that a shape takes from by itself, and no claim."""
        if any(self.paces.get(gate.name) is not gate.pace for gate in found):
            self._pace(found)

    def _pace(self, found: tuple[Gate, ...]) -> None:
        for gate in found:
            known = self.paces.get(gate.name)
            if known is not None and known.terms() != gate.pace.terms():
                raise UsageError(f"there are two paces {gate.name!r} that differ")
            if gate.pace.name is None and any(gate.pace is each for each in self.paces.values()):
                raise UsageError(
                    f"{gate.pace!r} is given to {gate.name.partition(':')[0]} and to another:"
                    " give it a name= to share it, or each of them its own"
                )
        for gate in found:
            self.paces.setdefault(gate.name, gate.pace)
            if self._heard not in gate.pace.listeners:
                gate.pace.listeners.append(self._heard)

    def _heard(self, pace: Pace, word: str, value: Any) -> None:
        assert pace.name is not None, "only quotas are reported to, and they have names"
        self.reports.append(AddressedReport(pace.name, pace, word, value))
        self.on_report()

    def drop_reports(self, count: int) -> None:
        """The oldest of them are written."""
        for _ in range(min(count, len(self.reports))):
            self.reports.popleft()

    def reported_to(self, task: Definition, queue: str, word: str) -> list[Gate]:
        """Which paces are reported how a job went: its own are blocked; adaptive ones count everything."""
        around = self.queue_paces.get(queue, ())
        if word == "throttled":
            return list(task.gates or around)
        return [gate for gate in (*task.gates, *around) if gate.pace.kind == "adaptive"]

    def quotas(self, task: Definition, queue: str) -> dict[str, int]:
        """What a claim of a job takes of quotas, by their names."""
        found: dict[str, int] = {}
        for gate in (*task.gates, *self.queue_paces.get(queue, ())):
            if gate.pace.kind == "quota":
                found[gate.name] = found.get(gate.name, 0) + gate.pace.units
        return found

    def add_as(self, name: str, definition: Definition) -> None:
        """Under the name that stored jobs use, where that is not its own."""
        self._tasks[name] = definition

    def find(self, name: str) -> Definition:
        try:
            return self._tasks[name]
        except KeyError:
            raise TaskNotFound(f"this process knows no task {name!r}") from None

    def get(self, name: str) -> Definition | None:
        return self._tasks.get(name)

    def immortal(self, name: str) -> bool:
        known = self._tasks.get(name)
        return known is not None and known.policy.immortal

    def keep_failed(self, name: str) -> int | None:
        """How long a failed job of the task is kept; for ever if it is not known here."""
        known = self._tasks.get(name)
        return None if known is None else known.keep_failed_ms

    def pools(self) -> dict[str, str]:
        """Task to the kind of slot that runs it."""
        return {name: task.pool for name, task in self._tasks.items()}

    def task_limits(self) -> dict[str, int]:
        return {
            name: task.policy.concurrency
            for name, task in self._tasks.items()
            if task.policy.concurrency is not None
        }

    def limits(self) -> dict[str, str]:
        """What holds over all processes, by what it is of, to be compared with that of another."""
        found = {f"task {name}": f"concurrency {most}" for name, most in self.task_limits().items()}
        found |= {f"queue {name}": f"concurrency {n}" for name, n in self.queue_limits.items()}
        found |= {
            f"pace {name}": f"{type(pace).__name__}{pace.terms()}"
            for name, pace in self.paces.items()
        }
        return found

    def names(self) -> list[str]:
        return sorted(self._tasks)

    def count_theirs(self) -> int:
        """How many tasks there are beside the engine's own."""
        return sum(task.policy.queue != OWN_QUEUE for task in self._tasks.values())
