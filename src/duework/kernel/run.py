"""What a running attempt can see and ask for.

Everything that writes is buffered and committed with the settle, or not at all: a raise discards it,
and so does a lost lease. Reads do not see this run's own writes.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeVar, overload

import msgspec

from duework.codec import encode
from duework.db.database import Tx
from duework.durations import Duration
from duework.errors import UsageError
from duework.kernel.changes import touched
from duework.kernel.error_text import hide
from duework.kernel.failures.retry import Backoff, Exponential
from duework.kernel.job import Claimed, Effect, NewJob, NewSignal, new_event
from duework.kernel.surroundings.buffer import Buffer
from duework.kernel.surroundings.leaving import Leaving
from duework.kernel.surroundings.resources import AsyncResource, Resource

if TYPE_CHECKING:
    from duework.shapes.objects.proxy import ObjectHandle
    from duework.typed.calls import Enqueues, MakesBatch, MakesSchedule, Starts, Submits

P = ParamSpec("P")
T = TypeVar("T")
M = TypeVar("M")
J = TypeVar("J")
C = TypeVar("C")

STEP_BACKOFF = Exponential()
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

    def flow(self, job: Claimed, buffer: Buffer) -> Any: ...

    def sign(self, job: Claimed, sign: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Write:
    """A buffered write of the user's own SQL."""

    sql: str
    values: Mapping[str, Any] = field(default_factory=dict)
    rows: Sequence[Mapping[str, Any]] | None = None

    def __call__(self, tx: Tx) -> None:
        tx.write(self.sql, self.rows, **self.values)


class CommitVerbs(Generic[J, C]):
    """What a Run and a Transaction have in common: all of it goes with one commit, or nothing does.

    Of a Transaction that is its own, and a verb answers; of a Run it is the settle, and nothing is known yet.
    """

    def _commit_now(self) -> int:
        """The time that new rows go by."""
        raise NotImplementedError

    def _put(self, shape: str, item: Any) -> Any:
        """Write an item of a shape, by its name: job, batch, chain, schedule, message, touch."""
        raise NotImplementedError

    def enqueue(self, task: Enqueues[P], /, *args: P.args, **kwargs: P.kwargs) -> J:
        """Enqueue a task, or `task.using(…)`, with this commit or not at all."""
        new: J = self._put("job", task.as_job(args, kwargs, self._commit_now()))
        return new

    @property
    def batch(self) -> MakesBatch[J]:
        """Make a batch with this commit; the id is the batch's. Takes what `app.batch` takes."""
        return self._batch

    def _batch(self, task: Any, items: Iterable[Any], /, **options: Any) -> J:
        new: J = self._put("batch", task.as_batch(items, self._commit_now(), **options))
        return new

    def start(self, chain: Starts[P], /, *args: P.args, **kwargs: P.kwargs) -> C:
        """Start a chain, or `chain.using(…)`, with this commit or not at all."""
        new: C = self._put("chain", chain.as_chain(args, kwargs, self._commit_now()))
        return new

    @property
    def schedule(self) -> MakesSchedule[None]:
        """Make or change a schedule with this commit. Takes what `app.schedule` takes."""
        return self._schedule

    def _schedule(self, task: Any, /, **options: Any) -> None:
        self._put("schedule", task.as_schedule(options, self._commit_now()))

    def submit(self, outbox: Submits[M], message: M, /) -> None:
        """Queue a message of an outbox, or of `outbox.using(…)`, with this commit or not at all."""
        self._put("message", outbox.as_message(message, self._commit_now()))

    def signal(self, event: str, payload: Any = None, /, *, key: str = "") -> None:
        """Tell the workflows that wait for an event, with this commit or not at all."""
        self._put("signal", NewSignal(event, key, encode(payload)))

    def publish(self, name: str, payload: Any = None) -> C:
        """Publish an event with this commit or not at all; of a Transaction its id."""
        new: C = self._put("event", new_event(name, payload))
        return new

    def touch(self, *topics: str) -> None:
        """Tell those who listen to `app.changes()` that these changed, once this has committed."""
        self._put("touch", touched(topics))


class Run(CommitVerbs[None, None]):
    """The running attempt; given to a task whose first parameter is annotated `Run`."""

    _random: random.Random | None = None
    _headers: dict[str, str] | None = None

    def __init__(self, job: Claimed, host: Host, buffer: Buffer) -> None:
        self.job = job
        self._host = host
        self._buffer = buffer
        buffer.host = host

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
    def headers(self) -> Mapping[str, str]:
        """What was given to `using(headers=…)`: a trace's context for example. Read when first asked for."""
        if self._headers is None:
            rows = self.read("select headers from duework_label where job = :job", job=self.job.id)
            text = rows[0].headers if rows else None
            self._headers = {} if text is None else msgspec.json.decode(text, type=dict[str, str])
        return self._headers

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
        return self._buffer.stopped

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

    def object(self, of: type[T], key: str) -> ObjectHandle[T]:
        """A durable object by class and key, to call its methods: each call is a commit of its own.

        It is not undone when this attempt fails, and made again when it is retried: `run.key` tells.
        """
        found: ObjectHandle[T] = self._host.object(of, key)
        return found

    def spent(self, quota: Any, units: int) -> None:
        """Say how much of a quota this attempt has used in all; said again, the last one counts.

        What its claim took and it did not use is given back with the settle, however the attempt
        ends. Of one that says nothing, or whose process dies, all that was taken counts as used.
        """
        name = getattr(quota, "name", quota)
        taken = self._buffer.taken
        if name not in taken:
            known = ", ".join(taken) or "none"
            raise UsageError(f"{self.job.task} takes nothing of {quota!r}; its quotas: {known}")
        if not isinstance(units, int) or isinstance(units, bool) or units < 0:
            raise UsageError(f"what was spent is a whole number from 0 up, not {units!r}")
        self._buffer.spent[name] = units

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
        self._buffer.add(Write(sql, values, rows))

    @overload
    async def step(
        self,
        name: str,
        function: Callable[..., Coroutine[Any, Any, T]],
        /,
        *args: Any,
        retries: int = 0,
        backoff: Backoff = STEP_BACKOFF,
    ) -> T: ...

    @overload
    async def step(
        self,
        name: str,
        function: Callable[..., T],
        /,
        *args: Any,
        retries: int = 0,
        backoff: Backoff = STEP_BACKOFF,
    ) -> T: ...

    async def step(
        self,
        name: str,
        function: Callable[..., Any],
        /,
        *args: Any,
        retries: int = 0,
        backoff: Backoff = STEP_BACKOFF,
    ) -> Any:
        """Run a function once: what it returns is recorded, in one commit with the effects made inside.

        When the job runs again, for whatever reason, the record answers. A plain function runs in a thread.
        Retries of a step free the worker; after the last one `StepFailed` is raised.
        """
        return await self._flow().step(name, function, args, retries, backoff)

    async def sleep(self, length: Duration, /, *, name: str = "sleep") -> None:
        """Go on after so long; no worker waits meanwhile."""
        await self._flow().sleep(length, name)

    async def wait_for(
        self,
        event: str,
        /,
        *,
        key: str = "",
        timeout: Duration | None = None,  # noqa: ASYNC109 - nothing here waits so long
    ) -> Any:
        """What `app.signal` tells next of an event, of all since this job was enqueued.

        No worker waits meanwhile. `WaitTimeout` if nothing comes in time.
        """
        return await self._flow().wait_for(event, key, timeout)

    async def child(
        self, name: str, task: Enqueues[P], /, *args: P.args, **kwargs: P.kwargs
    ) -> Any:
        """Enqueue a job and wait for its result; `StepFailed` if it fails or is cancelled."""
        return await self._flow().child(name, task, args, kwargs)

    def _flow(self) -> Any:
        if self._buffer.flow is None:
            self._buffer.flow = self._host.flow(self.job, self._buffer)
        return self._buffer.flow

    def commit(self, function: Callable[[Any], Any]) -> None:
        """Call `function(tx)` inside the settle; what it returns becomes the job's result."""
        self._buffer.add(lambda tx: function(self._host.transaction(tx)))

    def _commit_now(self) -> int:
        return self._host.now()

    def _put(self, shape: str, item: Any) -> None:
        self._buffer.add(item if shape == "job" else self._host.effect_as(shape, item))


def buffer_of(run: Run) -> Buffer:
    """What the engine and its shapes have of a run, and its user has not."""
    return run._buffer  # noqa: SLF001 - the one door


def leaving_of(run: Run) -> Leaving:
    """For shapes that send: where they say whether anything has left."""
    return Leaving(lambda sign: _host_of(run).sign(run.job, sign))


def _host_of(run: Run) -> Host:
    return run._host  # noqa: SLF001 - the other door
