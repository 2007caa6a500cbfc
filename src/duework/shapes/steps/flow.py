"""The steps of one attempt: what is recorded is not done again, what waits frees the worker.

Each call of a step, a sleep, a wait or a child takes the next place. A place that is recorded answers from
its record, if its name is the same; if not, the code has changed under the workflow, which needs attention.
"""

from __future__ import annotations

import asyncio
import inspect
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from duework.clock import FOREVER
from duework.codec import ResultCodec, encode, return_type
from duework.durations import Duration, milliseconds
from duework.errors import StepFailed, UsageError, WaitTimeout
from duework.kernel.error_text import describe
from duework.kernel.failures.retry import Backoff, delays
from duework.kernel.job import NewSignal
from duework.kernel.outcomes import Fail, Outcome, Snooze
from duework.kernel.surroundings.buffer import in_order
from duework.kernel.tasks import check_count
from duework.shapes.shape import in_thread
from duework.shapes.steps import verbs
from duework.shapes.steps.verbs import STEPS, Recorded, StepRow

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from duework.db.database import Tx
    from duework.kernel.engine import Engine
    from duework.kernel.job import Claimed, Effect, NewJob
    from duework.kernel.surroundings.buffer import Buffer

# As long as there is: a wait without an end is still a job that has its turn.
NEVER = FOREVER - 1
NAME = 200
_ANYTHING = ResultCodec(Any)


class WorkerFreed(BaseException):
    """The attempt ends here, to go on later: not for the task to catch, and no error."""


class Flow:
    """What one attempt knows of its workflow."""

    def __init__(self, job: Claimed, buffer: Buffer, engine: Engine) -> None:
        self._job = job
        self._buffer = buffer
        self._engine = engine
        self._recorded: dict[int, StepRow] | None = None
        self._opens = self._fresh = False
        self._place = 0
        self._named: dict[str, int] = {}
        self._inside: str | None = None
        # Failed steps that the task has caught: recorded with what it does next.
        self._caught: list[StepRow] = []
        # When to go on, and what is written then; the record that the code does not reach.
        self._freed: tuple[int, tuple[Effect, ...]] | None = None
        self._unreached: StepRow | None = None

    # --- what the user calls

    async def step(
        self,
        name: str,
        function: Callable[..., Any],
        args: Sequence[Any],
        retries: int,
        backoff: Backoff,
    ) -> Any:
        """Run a function once, and record what it returned with the effects that it made."""
        check_count("retries of a step", retries, 0)
        codec = ResultCodec(_result_type(function))
        async with self._arrived(name, "step") as row:
            if row.state == "done":
                return codec.decode(row.result or "null")
            if row.state == "failed":
                raise StepFailed(f"step {row.name}: {row.error}")
            if row.due is not None and row.due > self._now():
                self._free(row.due)
            effects, outside = list[Any](), self._buffer.effects
            self._buffer.effects = effects
            try:
                text = codec.encode(await _called(function, args))
            except Outcome:
                raise
            except Exception as error:  # noqa: BLE001 - whatever a step raises is its failure
                self._failed(row, error, retries, backoff)
            finally:
                self._buffer.effects = outside
            closed = in_order(effects, self._enqueued)
            done = row._replace(state="done", result=text, due=None, error=None, ended=self._now())
            return codec.decode((await self._commit(done, closed)).result or "null")

    async def sleep(self, length: Duration, name: str) -> None:
        """Go on after so long; nothing waits meanwhile."""
        async with self._arrived(name, "sleep") as row:
            if row.due is None:
                now = self._now()
                due = now + milliseconds(length)
                # What is recorded is when it ends, which does not change any more.
                slept = row._replace(state="done", due=due, ended=now)
                self._free(due, partial(_recorded, job=self._job.id, row=slept))
            elif row.due > self._now():
                self._free(row.due)

    async def wait_for(self, event: str, key: str, within: Duration | None) -> Any:
        """The payload of the next signal of an event, of those since the job was enqueued."""
        NewSignal(event, key)  # refuses what is no name
        async with self._arrived((f"{event}:{key}" if key else event)[:NAME], "wait") as found:
            row = found
            if row.state != "trying" and (row.event, row.key) != (event, key):
                # Its name is both in one text, and cut: another wait may have the same.
                self._unreached = row
                raise WorkerFreed
            if row.state == "trying":
                due = NEVER if within is None else min(self._now() + milliseconds(within), NEVER)
                row = row._replace(state="waiting", event=event, key=key, due=due)
            if row.state == "waiting":
                row = await self._received(row)
            if row.state == "failed":
                raise WaitTimeout(f"{row.name}: {row.error}")
            return _ANYTHING.decode(row.result or "null")

    async def child(self, name: str, task: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Enqueue a job, wait for its end with no worker held, and give its result."""
        async with self._arrived(name, "child") as row:
            if row.state == "trying":
                self._start_child(row, task.as_job(args, kwargs, self._now()))
            if row.state == "waiting":
                on = partial(verbs.wait_on, job=self._job.id, row=row, now=self._now())
                self._free(NEVER, on)
            if row.state == "failed":
                raise StepFailed(f"child {row.name}: {row.error}")
            # Of a task that runs elsewhere the type of its result is not known here.
            known = self._engine.registry.get(task.task_name)
            return (_ANYTHING if known is None else known.result).decode(row.result or "null")

    def _start_child(self, row: StepRow, new: NewJob) -> None:
        if new.key is not None or new.batch is not None:
            raise UsageError(f"child {row.name}: a job that is waited for has no key of its own")
        waits = row._replace(state="waiting")
        start = partial(
            verbs.start_child, job=self._job.id, row=waits, new=new, engine=self._engine
        )
        self._free(NEVER, start)

    # --- what the worker asks

    def conclude(
        self, value: Any, error: BaseException | None, now: int
    ) -> tuple[Any, BaseException | None]:
        """What came of the attempt, seen with its steps."""
        if error is None and self._inside is not None:
            error = UsageError(f"step {self._inside} has not ended, and its task has: await it")
        done = error is None and not isinstance(value, Outcome)
        if done and self._freed is None and self._unreached is None:
            self._unreached = (self._recorded or {}).get(self._place + 1)
        effects = self._buffer.effects
        if self._unreached is not None:
            why = _unreached(self._unreached)
            effects[:] = [lambda tx: verbs.mark(tx, self._job.id, "attention", why)]
            return Fail(why), None
        if self._freed is not None:
            due, last = self._freed
            effects[:] = [*self._pending(now), *last]
            later = Snooze(0)
            later.after_ms = max(due - now, 0)
            return later, None
        if error is None and self._recorded is not None:
            # What was caught belongs to what the task did then, whatever it returns.
            effects += self._pending(now)
        if done and self._recorded is not None:
            effects.append(lambda tx: verbs.mark(tx, self._job.id, "ended"))
        return value, error

    # --- inside

    @asynccontextmanager
    async def _arrived(self, name: str, kind: str) -> AsyncIterator[StepRow]:
        """Take the next place, and no other until that is left: what is recorded of it, or is to be."""
        if not isinstance(name, str) or not 0 < len(name) <= NAME:
            raise UsageError(
                f"the name of a step is a text of 1 to {NAME} characters: not {name!r:.50}"
            )
        if self._inside is not None:
            raise UsageError(f"step {self._inside} has not ended: steps follow one another")
        if self._freed is not None or self._unreached is not None:
            # The task has caught what it was not meant to.
            raise WorkerFreed
        self._inside = name
        try:
            yield await self._arrive(name, kind)
        finally:
            self._inside = None

    async def _arrive(self, name: str, kind: str) -> StepRow:
        if self._recorded is None:
            self._recorded = await asyncio.to_thread(self._load)
        self._place += 1
        count = self._named[name] = self._named.get(name, 0) + 1
        full = name if count == 1 else f"{name}#{count}"
        found = self._recorded.get(self._place)
        if found is None:
            return StepRow(self._place, full, kind, "trying", self._job.fence, started=self._now())
        if (found.name, found.kind) != (full, kind):
            self._unreached = found
            raise WorkerFreed
        return found if found.ended is not None else found._replace(fence=self._job.fence)

    def _load(self) -> dict[int, StepRow]:
        job = self._job
        with self._engine.database.reading() as tx:
            workflow = tx.query(STEPS.workflow, {"job": job.id})
            rows = (
                [StepRow(*row) for row in tx.query(STEPS.of_job, {"job": job.id})]
                if workflow
                else []
            )
        state, call = workflow[0][:2] if workflow else ("", 0)
        # A job that is opened again after its end, or for another call, begins from the start.
        self._fresh = bool(workflow) and (
            state == "ended" or call != verbs.call_of(job.task, job.payload)
        )
        self._opens = state != "running" or self._fresh
        return {} if self._fresh else {row.place: row for row in rows}

    def _failed(self, row: StepRow, error: Exception, retries: int, backoff: Backoff) -> None:
        """Try it again later, or let the task know."""
        now, failures, text = self._now(), row.failures + 1, describe(error)
        if failures <= retries:
            due = now + delays(backoff)(failures, self._engine.chance())
            again = row._replace(failures=failures, due=due, error=text)
            self._free(due, partial(_recorded, job=self._job.id, row=again))
        failed = row._replace(state="failed", failures=failures, due=None, error=text, ended=now)
        self._caught.append(failed)
        raise StepFailed(f"step {row.name}: {error}") from error

    async def _received(self, row: StepRow) -> StepRow:
        now = self._now()
        if (row.due or 0) > now and not await asyncio.to_thread(self._heard, row):
            job = self._job.id
            self._free(row.due or now, partial(verbs.begin_to_wait, job=job, row=row, now=now))

        def take(tx: Tx, _: Any) -> StepRow:
            return verbs.receive(tx, self._job.id, row, now)

        taken: StepRow = await self._written((), take)
        if taken.state == "waiting":
            # Another wait of this job has taken it.
            self._free(row.due or now)
        return taken

    def _heard(self, row: StepRow) -> bool:
        with self._engine.database.reading() as tx:
            return verbs.heard(tx, self._job.id, row) is not None

    async def _commit(self, row: StepRow, effects: tuple[Effect, ...]) -> StepRow:
        def last(tx: Tx, value: Any) -> StepRow:
            written = row if value is None else row._replace(result=encode(value))
            verbs.record(tx, self._job.id, written)
            return written

        done: StepRow = await self._written(effects, last)
        return done

    async def _written(self, effects: tuple[Effect, ...], last: Callable[[Tx, Any], Any]) -> Any:
        """Commit, under the fence of this attempt."""
        all_ = (*self._pending(self._now()), *effects)
        item = Recorded(self._job.id, self._job.fence, all_, last)
        [answer] = await self._engine.writer.acall(verbs.commit, [item])
        self._opens, self._fresh, self._caught = False, False, []
        return answer

    def _pending(self, now: int) -> list[Effect]:
        """What goes before the next record: the workflow itself, and failures that were caught."""
        found: list[Effect] = []
        if self._opens:
            found.append(partial(verbs.open_workflow, job=self._job, fresh=self._fresh, now=now))
        found += [partial(_recorded, job=self._job.id, row=row) for row in self._caught]
        return found

    def _enqueued(self, jobs: Sequence[NewJob]) -> Effect:
        def enqueue(tx: Tx) -> None:
            self._engine.enqueue(tx, list(jobs))

        return enqueue

    def _free(self, due: int, *effects: Effect) -> None:
        """End the attempt here, with these effects; go on when it is due."""
        self._freed = due, effects
        raise WorkerFreed

    def _now(self) -> int:
        return self._engine.clock_watch.checked_now()


async def _called(function: Callable[..., Any], args: Sequence[Any]) -> Any:
    """A coroutine in this loop, a plain function in a thread."""
    if inspect.iscoroutinefunction(function):
        return await function(*args)
    answer = await in_thread(function, *args)
    return await answer if inspect.isawaitable(answer) else answer


def _recorded(tx: Tx, job: int, row: StepRow) -> None:
    verbs.record(tx, job, row)


def _result_type(function: Callable[..., Any]) -> Any:
    given = function.func if isinstance(function, partial) else function
    return return_type(given)


def _unreached(row: StepRow) -> str:
    return (
        f"needs attention: step {row.name!r} ({row.kind}, at place {row.place}) is recorded, and the code no"
        " longer reaches it; put the code back and resume, or fork from a step, or cancel"
    )
