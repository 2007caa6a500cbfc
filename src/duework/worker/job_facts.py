"""What a worker emits to hooks about its jobs: how they ended, and that some are unknown here."""

from __future__ import annotations

from collections.abc import Sequence

from duework.clock import monotonic
from duework.kernel.claim import Claim, ClaimRequest
from duework.kernel.engine import Engine
from duework.kernel.facts import (
    JobBlocked,
    JobSettled,
    LeaseRecovered,
    LeaseWasLost,
    Traffic,
    UnknownTask,
)
from duework.kernel.job import Ending
from duework.kernel.lanes import Lane

# How often a busy worker says in one line what went well.
SUM_UP_SECONDS = 1.0


class JobFacts:
    """Remembers what hooks get once, or later."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        # Task and start of what was claimed.
        self._started: dict[int, tuple[str, int]] = {}
        self._unknown: set[str] = set()
        self._blocked: set[int] = set()
        # What went well since it was last summed up, and when that was.
        self._done = self._put_off = 0
        self._since = monotonic()

    def claimed(self, claim: Claim) -> None:
        """So that it is known how long they took; and what was too late to be run."""
        if self._engine.listeners:
            now = self._engine.clock.now()
            self._started.update((job.id, (job.task, now)) for job in claim.jobs)
            for task, ending in claim.expired:
                self._engine.emit(JobSettled(ending.id, task, ending.kind, 0, ending.error))

    def settled(self, endings: Sequence[Ending], written: Sequence[Ending | None]) -> None:
        """What each attempt wanted, and what was written of it."""
        if not (self._started or self._engine.listeners):
            return
        each, well = self._engine.tells_each, 0
        for ending, one in zip(endings, written, strict=True):
            if one is not None and one.kind == "done":
                well += 1
                if not (each or self._blocked):
                    # By far the most common case.
                    self._started.pop(ending.id, None)
                    continue
            elif one is not None and one.kind == "snooze":
                self._put_off += 1
            self._settled(ending, one)
        self._done += well
        self.sum_up(every=SUM_UP_SECONDS)

    def sum_up(self, every: float = 0.0) -> None:
        """Tell the log what went well since the last time, if that was long enough ago."""
        time = monotonic()
        if not (self._done or self._put_off):
            self._since = time
        elif time - self._since >= every:
            took = int((time - self._since) * 1000)
            self._engine.sum_up(Traffic(self._done, self._put_off, took))
            self._done = self._put_off = 0
            self._since = time

    def _settled(self, ending: Ending, written: Ending | None) -> None:
        now = self._engine.clock.now()
        task, started = self._started.pop(ending.id, ("", now))
        if written is not None and written.kind == "blocked":
            self._started[ending.id] = task, started
            if ending.id not in self._blocked:
                self._blocked.add(ending.id)
                self._engine.emit(JobBlocked(ending.id, task, written.error or ""))
            return
        self._blocked.discard(ending.id)
        if written is None:
            self._engine.emit(LeaseWasLost(ending.id, task))
            return
        retry_at = written.due if written.kind in {"retry", "misfit", "snooze"} else None
        took, raised = now - started, written.exception
        self._engine.emit(
            JobSettled(ending.id, task, written.kind, took, written.error, retry_at, raised)
        )

    def recovered(self, endings: Sequence[Ending]) -> None:
        """Leases of others that were written off."""
        for ending in endings:
            crashed = ending.kind == "crashed"
            self._engine.emit(LeaseRecovered(ending.id, ending.worker, crashed))

    def unknown(self, lanes: Sequence[Lane], want: ClaimRequest) -> None:
        """Tasks that have jobs and that this process does not know, each of them once."""
        for lane in lanes:
            task = lane.name.task
            ours = want.queues is None or lane.name.queue in want.queues
            if ours and task not in want.pools and task not in self._unknown:
                self._unknown.add(task)
                self._engine.emit(UnknownTask(task))
