"""What users hold in their hands: a job, a queue."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from duework.averbs import averb
from duework.clock import as_datetime, monotonic, pause
from duework.codec import decode
from duework.durations import Duration, Moment, milliseconds
from duework.errors import Error, JobCancelled, JobFailed, NotFound, WaitTimeout
from duework.kernel.failures.failure import Failure, read_failure
from duework.kernel.job import Ending, JobId, LockedJob, Phase, State, phase
from duework.kernel.surroundings.lending import lent

if TYPE_CHECKING:
    from datetime import datetime

    from duework.health.why import Why
    from duework.part import Contents
    from duework.verbs import JobVerbs

R = TypeVar("R")

_FIRST_LOOK = 0.002
_SLOWEST_LOOK = 0.1


def looks(timeout: Duration | None) -> Iterator[float]:
    """How long to pause between looks, until the time is over."""
    deadline = None if timeout is None else monotonic() + milliseconds(timeout) / 1000
    delay = _FIRST_LOOK
    while deadline is None or monotonic() < deadline:
        yield delay if deadline is None else max(0.0, min(delay, deadline - monotonic()))
        delay = min(delay * 1.5, _SLOWEST_LOOK)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt that did not end well."""

    number: int
    outcome: str
    worker: int | None
    started: int | None
    ended: int
    error: str | None

    @property
    def failure(self) -> Failure | None:
        """Its error in parts."""
        return None if self.error is None else read_failure(self.error)


class Job(msgspec.Struct, Generic[R], frozen=True):
    """A job as it was when it was looked at; `refresh()` looks again."""

    id: JobId
    queue: str = ""
    task: str = ""
    priority: int = 0
    alone: bool = False
    key: str | None = None
    state: State = "open"
    due: int = 0
    at: int = 0
    fence: int = 0
    worker: int | None = None
    failures: int = 0
    crashes: int = 0
    payload: str = "{}"
    stored_result: str | None = None
    error: str | None = None
    expires: int | None = None
    serial: str | None = None
    after: int | None = None
    cancelling: str | None = None
    owner: str | None = None
    stored_progress: str | None = None
    settled: int | None = None
    # The id of the batch it is a member of.
    batch: int | None = None
    # Whether an enqueue found this job instead of making it.
    existed: bool = False
    seen_at: int = 0
    _jobs: Any = None

    def __repr__(self) -> str:
        return f"<job {self.id} {self.task} {self.phase}>"

    @property
    def phase(self) -> Phase:
        """waiting, ready, running, expired (its lease ran out), or the state it ended in."""
        return phase(self.state, self.due, self.worker, self.seen_at)

    @property
    def result(self) -> R:
        """What the task returned, by its annotation where this process knows the task.

        None until it is done; of a job that has failed, `JobFailed`.
        """
        if self.state == "failed":
            raise self._failed()
        value: Any = None
        if self.stored_result is not None:
            known = self._of().registry.get(self.task)
            read = known.result.decode if known else decode
            value = read(self.stored_result)
        # None is no R until it is done: `state` tells, and `value()` waits.
        done: R = value
        return done

    @property
    def failure(self) -> Failure | None:
        """What it failed by, or its last attempt; None if it has not, or was cancelled."""
        if self.error is None or self.state == "cancelled":
            return None
        return read_failure(self.error)

    @property
    def arguments(self) -> Any:
        """The stored arguments by name, as plain data."""
        return decode(self.payload)

    @property
    def tags(self) -> list[str]:
        """The tags that it carries, by name; looked up."""
        found: list[str] = self._of().tags(self.id)
        return found

    @property
    def headers(self) -> dict[str, str]:
        """The headers that it carries; looked up."""
        found: dict[str, str] = self._of().headers(self.id)
        return found

    @property
    def progress(self) -> Any:
        """{done, total, note} as the task last said, or None."""
        return None if self.stored_progress is None else decode(self.stored_progress)

    @property
    def due_at(self) -> datetime:
        return as_datetime(self.due)

    def attempts(self) -> list[Attempt]:
        """The attempts that did not end well, oldest first."""
        return self._of().attempts(self.id)

    def refresh(self) -> Job[R]:
        """The job as it is now."""
        return self._of().get(self.id)

    def why(self) -> Why:
        """Why it waits now, from the rows: the first reason that holds, and the others."""
        return self._of().why(self.id)

    def cancel(self, why: str = "cancelled by hand") -> str:
        """End it; if it runs, its worker stops it. 'cancelled', 'cancelling', or how it had ended."""
        return self._of().cancel(self.id, why)

    def retry(self) -> Job[R]:
        """Open a settled job again, due at once."""
        self._of().revive(self.id)
        return self.refresh()

    def move(self, delay: Duration | None = None, *, at: Moment | None = None) -> Job[R]:
        """Let it be due after a delay, or at a time; `Conflict` unless it waits, or is ready."""
        return self._of().move(self.id, delay, at=at)

    def run_now(self) -> Job[R]:
        """Let it be due now, if it waits for a time; `Conflict` if it runs, or has ended."""
        return self._of().move(self.id)

    amove = averb(move)
    arun_now = averb(run_now)
    aattempts = averb(attempts)
    arefresh = averb(refresh)
    awhy = averb(why)
    acancel = averb(cancel)
    aretry = averb(retry)

    def wait(self, timeout: Duration | None = None) -> Job[R]:
        """Wait until it has settled; `WaitTimeout` if that takes longer.

        A task that waits in a thread of a worker lends its slot meanwhile.
        """
        with lent():
            for delay in looks(timeout):
                job = self._settled()
                if job is not None:
                    return job
                pause(delay)
        raise WaitTimeout(f"job {self.id} has not settled in {timeout}")

    async def await_(self, timeout: Duration | None = None) -> Job[R]:  # noqa: ASYNC109 - as `wait`
        """The same for async code."""
        for delay in looks(timeout):
            job = await asyncio.to_thread(self._settled)
            if job is not None:
                return job
            await asyncio.sleep(delay)
        raise WaitTimeout(f"job {self.id} has not settled in {timeout}")

    def value(self, timeout: Duration | None = None) -> R:
        """Wait for what the task returns; `JobFailed` or `JobCancelled` if it does not."""
        return _value(self.wait(timeout))

    async def avalue(self, timeout: Duration | None = None) -> R:  # noqa: ASYNC109 - as `value`
        """The same for async code."""
        return _value(await self.await_(timeout))

    def _failed(self) -> JobFailed:
        failure = self.failure or Failure(None, "no reason is stored")
        why = str(failure).partition("\n")[0]
        return JobFailed(f"job {self.id} of {self.task} has failed: {why}", failure)

    def _settled(self) -> Job[R] | None:
        try:
            job = self.refresh()
        except NotFound:
            # Not kept: a row that was enqueued and is no more has been done.
            raise NotFound(f"job {self.id} is not kept, or never was") from None
        return None if job.state == "open" else job

    def _of(self) -> JobVerbs:
        if self._jobs is None:
            raise Error("this job is not bound to an App")
        jobs: JobVerbs = self._jobs
        return jobs


def _value(job: Job[R]) -> R:
    """What a settled job gave; an error if it gave nothing."""
    if job.state == "cancelled":
        raise JobCancelled(f"job {job.id} of {job.task} was cancelled: {job.error}")
    return job.result


def not_kept(jobs: JobVerbs, row: LockedJob, ending: Ending) -> Job[Any]:
    """The view of a row that was not kept."""
    state: Any = ending.kind
    return Job(
        row.id,
        "",
        row.task,
        key=row.key,
        state=state,
        at=row.at,
        failures=row.failures + (state == "failed"),
        payload=row.payload,
        stored_result=ending.result,
        error=ending.error,
        _jobs=jobs,
    )


class Queue:
    """A named queue: pause it, resume it, empty it."""

    def __init__(self, of: Contents, name: str) -> None:
        self._of = of
        self.name = name

    @property
    def _jobs(self) -> JobVerbs:
        return self._of.wiring.jobs

    def pause(self) -> None:
        """Start no more of its jobs; what runs goes on."""
        self._jobs.pause(self.name)

    def resume(self) -> None:
        self._jobs.resume(self.name)

    def purge(self) -> int:
        """Cancel every job of it that does not run; returns how many."""
        return self._jobs.purge_queue(self.name)

    apause = averb(pause)
    aresume = averb(resume)
    apurge = averb(purge)

    @property
    def paused(self) -> bool:
        names = self._jobs.paused()
        return self.name in names or "*" in names
