"""What a worker emits to hooks about its jobs: how they ended, and that some are unknown here."""

from __future__ import annotations

from collections.abc import Sequence

from duework.kernel.claim import Claim, ClaimRequest
from duework.kernel.engine import Engine
from duework.kernel.facts import JobBlocked, JobSettled, LeaseRecovered, LeaseWasLost, UnknownTask
from duework.kernel.job import Ending
from duework.kernel.lanes import Lane


class JobFacts:
    """Remembers what hooks get once, or later."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        # Task and start of what was claimed.
        self._started: dict[int, tuple[str, int]] = {}
        self._unknown: set[str] = set()
        self._blocked: set[int] = set()

    def claimed(self, claim: Claim) -> None:
        """So that it is known how long they took; and what was too late to be run."""
        if self._engine.listeners:
            now = self._engine.clock.now()
            self._started.update((job.id, (job.task, now)) for job in claim.jobs)
            for task, ending in claim.expired:
                self._engine.emit(JobSettled(ending.id, task, ending.kind, 0, ending.error))

    def settled(self, endings: Sequence[Ending], written: Sequence[Ending | None]) -> None:
        """What each attempt wanted, and what was written of it."""
        if self._started or self._engine.listeners:
            for ending, one in zip(endings, written, strict=True):
                self._settled(ending, one)

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
