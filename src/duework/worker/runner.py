"""One attempt, from a claimed row to an ending. What a task did becomes an `Ending` here only.

The runner looks the task up, checks and decodes the stored arguments, and maps whatever came of the
call: a value, an outcome, an error, a timeout. It does not know how the call was made; the worker
has a pool for each kind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from duework.codec import checksum
from duework.durations import human
from duework.errors import Error, InvalidArguments, TaskNotFound
from duework.kernel.error_text import decided, describe
from duework.kernel.job import KEEP, Claimed, Effect, Ending, PaceReport
from duework.kernel.outcomes import (
    BudgetSpent,
    Cancel,
    Fail,
    FailedPart,
    Misfit,
    Outcome,
    Retry,
    Snooze,
    Throttled,
)
from duework.kernel.run import Host, Run
from duework.kernel.surroundings.buffer import Buffer
from duework.kernel.tasks import Definition, Registry

# What is reported to paces of an ending that says no more than its kind.
_REPORTS = {
    "done": PaceReport("completed"),
    "retry": PaceReport("failed"),
    "failed": PaceReport("failed"),
}
_PERMANENT, _OVER = PaceReport("permanent"), PaceReport("over")


class TooLate(Exception):
    """It was to start by a time that is over, for its pace or for its lease."""


class Broken(Exception):
    """The stored row cannot be run here or anywhere; it fails, others flow."""


class TimedOut(Exception):
    """The attempt ran longer than its task allows."""


class RunningAttempt(msgspec.Struct, eq=False):
    """A claimed job while it runs."""

    job: Claimed
    task: Definition
    run: Run
    buffer: Buffer
    # Which kind of slot it runs in.
    pool: str
    args: list[Any]
    kwargs: dict[str, Any]
    started: int
    # Seconds of the monotonic clock.
    deadline: float
    # Set once it was asked to stop: why, and when patience with it ends.
    stopping: str | None = None
    patience: float = 0.0
    # Kills the process that it has of its own.
    kill: Callable[[], None] | None = None
    over: bool = False
    # Whether it waits for another job, and its slot is lent.
    lent: bool = False
    # Its place among the started jobs.
    place: int = 0


class Runner:
    """Prepares attempts and concludes them, for one worker."""

    def __init__(
        self, registry: Registry, host: Host, worker: int, chance: Callable[[], float]
    ) -> None:
        self._registry = registry
        self._host = host
        self._worker = worker
        self._chance = chance

    def prepare(self, job: Claimed, *, now: int, monotonic: float) -> RunningAttempt | Ending:
        """An attempt that is ready to be called, or the ending of a row that cannot be."""
        try:
            task = self._registry.find(job.task)
            if checksum(job.id, job.task, job.payload) != job.checksum:
                raise Broken("the stored payload does not match its checksum: it was damaged")
            args, kwargs = task.arguments.decode(job.payload)
        except TaskNotFound:
            # Only lanes of known tasks are claimed: the row contradicts its lane.
            why = f"the stored row names a task {job.task!r} that is not its lane's: it was damaged"
            return self._ending(job, "failed", None, now, error=why, watched=True)
        except Broken as error:
            known = self._registry.get(job.task)
            return self._ending(job, "failed", known, now, error=str(error), watched=True)
        except InvalidArguments as error:
            # Stored by code of another version, perhaps; a worker of that one may take it.
            why = f"its arguments do not fit this worker's version of the task: {error}"
            return self._ending(job, "misfit", task, now, error=why, watched=True)
        deadline, buffer = monotonic + task.timeout_ms / 1000, Buffer()
        if task.gates or self._registry.queue_paces:
            buffer.taken = self._registry.quotas(task, job.queue)
        run = Run(job, self._host, buffer)
        return RunningAttempt(job, task, run, buffer, task.pool, args, kwargs, now, deadline)

    def done(self, attempt: RunningAttempt, result: str = "null") -> Ending | None:
        """The ending of a task that is done; None if others are to know of it.

        As `_ending` would make it: it is by far the most common one.
        """
        job, task, buffer = attempt.job, attempt.task, attempt.buffer
        watched = task.reactions or job.owner or task.gates or self._registry.queue_paces
        if watched or buffer.effects or buffer.flow is not None:
            return None
        buffer.closed = True
        keep = task.keep_ms
        return Ending(
            job.id,
            job.fence,
            self._worker,
            "done",
            0,
            result,
            None,
            attempt.started,
            keep,
            keep,
            batch=job.batch,
            lane=job.lane,
        )

    def conclude(
        self, attempt: RunningAttempt, value: Any, error: BaseException | None, now: int
    ) -> Ending:
        """What the call gave back, as an ending."""
        if attempt.buffer.flow is not None:
            value, error = attempt.buffer.flow.conclude(value, error, now)
        if error is None and not isinstance(value, Outcome):
            return self._done(attempt, value, now)
        outcome = error if error is not None else value
        job, task = attempt.job, attempt.task
        effects = self._effects(attempt) if error is None else ()
        match outcome:
            case Snooze() | Throttled():
                throttled = isinstance(outcome, Throttled)
                if isinstance(outcome, BudgetSpent) and outcome.waits is not None:
                    effects = (*effects, partial(outcome.waits, job=job.id))
                return self._ending(
                    job,
                    "snooze",
                    task,
                    now,
                    due=now + outcome.after_ms,
                    effects=effects,
                    attempt=attempt,
                    report=PaceReport("throttled", outcome.after_ms) if throttled else None,
                )
            case Retry():
                return self._failure(attempt, outcome, now, outcome.after_ms, effects)
            case Fail():
                return self._ending(
                    job,
                    "failed",
                    task,
                    now,
                    error=decided(outcome),
                    effects=effects,
                    attempt=attempt,
                    report=_PERMANENT,
                    exception=outcome if isinstance(outcome, FailedPart) else error,
                )
            case Cancel() | Misfit():
                kind = "cancelled" if isinstance(outcome, Cancel) else "misfit"
                return self._ending(
                    job,
                    kind,
                    task,
                    now,
                    error=decided(outcome),
                    effects=effects,
                    attempt=attempt,
                )
            case _:
                return self._failure(attempt, outcome, now)

    def give_up_waiting(self, attempt: RunningAttempt, now: int) -> Ending:
        """The ending of an attempt that was asked to stop and did not."""
        # It may go on to use what it had not.
        attempt.buffer.spent.clear()
        return self._failure(attempt, TimedOut(attempt.stopping or "it did not stop"), now)

    def unreadable(self, attempt: RunningAttempt, now: int) -> Ending:
        """The ending of an attempt whose value or error cannot even be looked at."""
        return self._failure(attempt, TimedOut("what it gave back could not be read"), now)

    def timed_out(self, attempt: RunningAttempt) -> TimedOut:
        return TimedOut(f"it ran longer than its timeout of {human(attempt.task.timeout_ms)}")

    def crashed(self, attempt: RunningAttempt, why: str, now: int) -> Ending:
        """Its own process died under it."""
        return self._ending(
            attempt.job, "crashed", attempt.task, now, error=why, attempt=attempt, alone=True
        )

    def complete(self, attempt: RunningAttempt, frame: Ending, now: int) -> Ending:
        """What a process of its own reported, with this side's policy for keeping and reacting."""
        return self._ending(
            attempt.job,
            frame.kind,
            attempt.task,
            now,
            due=frame.due,
            result=frame.result,
            error=frame.error,
            effects=frame.effects,
            attempt=attempt,
            report=frame.report,
        )

    def release(self, job: Claimed, now: int) -> Ending:
        """Hand it back as it was: no failure, due at once."""
        return self._ending(job, "released", self._registry.get(job.task), now)

    def _done(self, attempt: RunningAttempt, value: Any, now: int) -> Ending:
        try:
            result = attempt.task.result.encode(value)
        except Error as error:
            return self._failure(attempt, error, now)
        if (ending := self.done(attempt, result)) is not None:
            return ending
        effects = self._effects(attempt)
        done = (attempt.job, "done", attempt.task, now)
        return self._ending(*done, result=result, effects=effects, attempt=attempt)

    def _effects(self, attempt: RunningAttempt) -> tuple[Effect, ...]:
        return attempt.buffer.close(self._host.effect_of)

    def _failure(
        self,
        attempt: RunningAttempt,
        error: Any,
        now: int,
        after_ms: int | None = None,
        effects: tuple[Any, ...] = (),
    ) -> Ending:
        """A failure counts against `retries`; the policy says whether and when it is tried again."""
        job, task = attempt.job, attempt.task
        text = decided(error) if isinstance(error, (Outcome, TimedOut)) else describe(error)
        retry = job.failures + 1
        hopeless = not _worth_retrying(task, error)
        if retry > task.policy.retries or hopeless:
            return self._ending(
                job,
                "failed",
                task,
                now,
                error=text,
                effects=effects,
                attempt=attempt,
                report=_PERMANENT if hopeless else None,
                exception=error,
            )
        delay = after_ms if after_ms is not None else task.delay(retry, self._chance())
        return self._ending(
            job,
            "retry",
            task,
            now,
            due=now + delay,
            error=text,
            effects=effects,
            attempt=attempt,
            exception=error,
        )

    def _ending(
        self,
        job: Claimed,
        kind: Any,
        task: Definition | None,
        now: int,
        *,
        attempt: RunningAttempt | None = None,
        watched: bool | None = None,
        report: PaceReport | None = None,
        **more: Any,
    ) -> Ending:
        if task is None:
            keep = None if kind == "failed" else KEEP
        else:
            keep = task.keep_failed_ms if kind in {"failed", "misfit", "crashed"} else task.keep_ms
        if watched is None:
            watched = task is not None and bool(task.reactions or job.owner)
        ending = Ending(
            job.id,
            job.fence,
            self._worker,
            kind,
            started=attempt.started if attempt else None,
            keep=keep,
            keep_cancelled=KEEP if task is None else task.keep_ms,
            immortal=task is not None and task.policy.immortal,
            watched=watched,
            batch=job.batch,
            lane=job.lane,
            report=self._pace_report(job, task, kind, report),
            spent=() if attempt is None else _spent(attempt),
            **more,
        )
        if ending.effects or ending.watched:
            return ending.but(fallback=lambda error: self._fallback(ending, attempt, error, now))
        return ending

    def _pace_report(
        self, job: Claimed, task: Definition | None, kind: str, report: PaceReport | None
    ) -> PaceReport | None:
        """What is reported to the paces of its task; None for most, which have none."""
        registry = self._registry
        if task is None or not (task.gates or registry.queue_paces):
            # A process of its own knows no queues: what it says is for its parent to use.
            return report
        said = report or _REPORTS.get(kind, _OVER)
        gates = registry.reported_to(task, job.queue, said.word)
        rows = tuple((gate.row(job.payload, job.share), gate.pace) for gate in gates)
        return PaceReport(said.word, said.value, rows) if rows else report

    def _fallback(
        self, ending: Ending, attempt: RunningAttempt | None, error: BaseException, now: int
    ) -> Ending:
        """An effect or a reaction failed: so has an attempt that was done; what failed stays so."""
        lost = bool(ending.effects) and ending.kind == "cancelled"
        if attempt is not None and (lost or ending.kind in {"done", "retry", "misfit", "snooze"}):
            return self._failure(attempt, error, now)
        text = f"{ending.error or ending.kind} (and a reaction to that failed: {describe(error)})"
        return ending.but(error=text, fallback=None)


def _spent(attempt: RunningAttempt) -> tuple[tuple[str, int, int, int], ...]:
    """What it said that it has used, beside what its claim took."""
    taken, said = attempt.buffer.taken, attempt.buffer.spent
    at = attempt.job.taken_at
    return tuple((name, taken[name], used, at) for name, used in said.items() if name in taken)


def _worth_retrying(task: Definition, error: Any) -> bool:
    if isinstance(error, (Outcome, TimedOut)):
        return True
    if isinstance(error, task.policy.give_up_on):
        return False
    # It was not asked for here: something that the task awaited was cancelled under it.
    if isinstance(error, asyncio.CancelledError):
        return True
    return isinstance(error, task.policy.retry_on)
