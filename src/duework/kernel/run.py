"""What a running attempt can see and ask for.

Everything that writes is buffered and committed with the settle, or not at all: a raise discards it,
and so does a lost lease. Reads do not see this run's own writes.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, overload

from duework.db.database import Tx
from duework.errors import UsageError
from duework.kernel.changes import touched
from duework.kernel.error_text import hide
from duework.kernel.job import Claimed, Effect, NewJob
from duework.kernel.surroundings.leaving import Leaving
from duework.kernel.surroundings.resources import AsyncResource, Resource

T = TypeVar("T")

# Keys of jobs that a schedule made: with its key and its slot.
SCHEDULED = "schedule:"


class Host(Protocol):
    """What a run needs from the process around it: its worker, or over a pipe its parent."""

    def now(self) -> int: ...

    def read(self, sql: str, values: Mapping[str, Any]) -> list[Any]: ...

    def secret(self, name: str) -> str: ...

    def object(self, of: Any, key: str) -> Any: ...

    def resource(self, resource: Any) -> Any: ...

    def progress(self, job: Claimed, done: float, total: float | None, note: str) -> None: ...

    def effect_of(self, jobs: Sequence[NewJob]) -> Effect: ...

    def effect_as(self, name: str, item: Any) -> Effect: ...

    def transaction(self, tx: Tx) -> Any: ...

    def sign(self, job: Claimed, sign: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Write:
    """A buffered write of the user's own SQL."""

    sql: str
    values: Mapping[str, Any] = field(default_factory=dict)
    rows: Sequence[Mapping[str, Any]] | None = None

    def __call__(self, tx: Tx) -> None:
        tx.write(self.sql, self.rows, **self.values)


class Run:
    """The running attempt; given to a task whose first parameter is annotated `Run`."""

    _random: random.Random | None = None
    _cancelled = False
    _closed = False
    # What its claim took of quotas, by their names; set by the runner.
    _taken: Mapping[str, int] = {}

    def __init__(self, job: Claimed, host: Host) -> None:
        self.job = job
        self._host = host
        self._effects: list[Effect | NewJob] = []
        self._spent: dict[str, int] = {}

    @property
    def attempt(self) -> int:
        """1 at first, then one more for each failure."""
        return self.job.failures + 1

    @property
    def key(self) -> str:
        """An idempotency key for the outside world: the same over retries and crashes.

        Of a schedule's job it is the schedule and the slot.
        """
        key = self.job.key
        if key is not None and key.startswith(SCHEDULED) and key.endswith(f"@{self.job.at}"):
            return key
        return f"{self.job.task}:{self.job.id}"

    @property
    def slot(self) -> int:
        """The planned time in milliseconds: what was asked for, however late it runs."""
        return self.job.at

    @property
    def now(self) -> int:
        return self._host.now()

    @property
    def cancelled(self) -> bool:
        """Whether to stop: cancelled, over its timeout, or no longer ours. For threads to look at."""
        return self._cancelled

    def random(self) -> float:
        """A number below 1 from a sequence that is the same in every attempt of this job."""
        if self._random is None:
            self._random = random.Random(self.job.id)  # noqa: S311 - repeatable on purpose
        return self._random.random()

    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        """Show how far it is; written now and then, not with the settle."""
        self._host.progress(self.job, done, total, note)

    def read(self, sql: str, /, **values: Any) -> list[Any]:
        """Rows of the app's database."""
        return self._host.read(sql, values)

    def secret(self, name: str) -> str:
        """Open a secret that `app.secrets` has sealed; its value is left out of this job's errors."""
        value = self._host.secret(name)
        hide(value)
        return value

    def object(self, of: Any, key: str) -> Any:
        """A durable object by class and key, to call its methods: each call is a commit of its own.

        It is not undone when this attempt fails, and made again when it is retried: `run.key` tells.
        """
        return self._host.object(of, key)

    def spent(self, quota: Any, units: int) -> None:
        """Say how much of a quota this attempt has used in all; said again, the last one counts.

        What its claim took and it did not use is given back with the settle, however the attempt
        ends. Of one that says nothing, or whose process dies, all that was taken counts as used.
        """
        name = getattr(quota, "name", quota)
        if name not in self._taken:
            known = ", ".join(self._taken) or "none"
            raise UsageError(f"{self.job.task} takes nothing of {quota!r}; its quotas: {known}")
        if not isinstance(units, int) or isinstance(units, bool) or units < 0:
            raise UsageError(f"what was spent is a whole number from 0 up, not {units!r}")
        self._spent[name] = units

    @overload
    def resource(self, resource: AsyncResource[T], /) -> Awaitable[T]: ...

    @overload
    def resource(self, resource: Resource[T], /) -> T: ...

    def resource(self, resource: Any, /) -> Any:
        """What an `@app.resource` yields, opened at its first use; of an async one: `await` it."""
        return self._host.resource(resource)

    def write(
        self, sql: str, /, rows: Sequence[Mapping[str, Any]] | None = None, **values: Any
    ) -> None:
        """Write with the settle, or not at all."""
        self._add(Write(sql, values, rows))

    def enqueue(self, task: Any, /, *args: Any, **kwargs: Any) -> None:
        """Enqueue with the settle, or not at all. `task` may be `task.using(…)`."""
        self._add(task.using()._new_job(args, kwargs, self._host.now()))  # noqa: SLF001 - ours

    def batch(self, task: Any, items: Iterable[Any], /, **options: Any) -> None:
        """Make a batch with the settle, or not at all. Takes what `app.batch` takes."""
        new = task.using()._new_batch(items, self._host.now(), **options)  # noqa: SLF001 - ours
        self._add(self._host.effect_as("batch", new))

    def start(self, chain: Any, /, *args: Any, **kwargs: Any) -> None:
        """Start a chain with the settle, or not at all. `chain` may be `chain.using(…)`."""
        new = chain.using()._new_chain(args, kwargs, self._host.now())  # noqa: SLF001 - ours
        self._add(self._host.effect_as("chain", new))

    def schedule(self, task: Any, /, **options: Any) -> None:
        """Make or change a schedule with the settle, or not at all; options as `app.schedule`."""
        new = task.declared_by.new_schedule(task, options, self._host.now())
        self._add(self._host.effect_as("schedule", new))

    def submit(self, outbox: Any, message: Any, /) -> None:
        """Queue a message with the settle, or not at all. `outbox` may be `outbox.using(…)`."""
        new = outbox.using()._new(message, self._host.now())  # noqa: SLF001 - ours
        self._add(self._host.effect_as("message", new))

    def touch(self, *topics: str) -> None:
        """Tell those who listen to `app.changes()` that these changed, with the settle or not at all."""
        self._add(self._host.effect_as("touch", touched(topics)))

    def commit(self, function: Callable[[Any], Any]) -> None:
        """Call `function(tx)` inside the settle; what it returns becomes the job's result."""
        self._add(lambda tx: function(self._host.transaction(tx)))

    def _add(self, effect: Effect | NewJob) -> None:
        if self._closed:
            raise UsageError("this attempt has ended; nothing can be added to it")
        self._effects.append(effect)

    def _leaving(self) -> Leaving:
        """For shapes that send: where they say whether anything has left."""
        return Leaving(lambda sign: self._host.sign(self.job, sign))

    def _stop(self) -> None:
        self._cancelled = True

    def _close(self) -> tuple[Effect, ...]:
        """End the buffering; the effects in order, neighbouring enqueues as one."""
        self._closed = True
        if not self._effects:
            return ()
        effects: list[Effect] = []
        jobs: list[NewJob] = []
        for each in self._effects:
            if isinstance(each, NewJob):
                jobs.append(each)
                continue
            if jobs:
                effects.append(self._host.effect_of(jobs))
                jobs = []
            effects.append(each)
        if jobs:
            effects.append(self._host.effect_of(jobs))
        return tuple(effects)
