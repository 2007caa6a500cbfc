"""What a worker tells hooks of its jobs: how they ended, and that some are unknown here."""

from __future__ import annotations

from collections.abc import Sequence

from duework.kernel.claim import Want
from duework.kernel.engine import Engine
from duework.kernel.facts import JobSettled, LeaseWasLost, UnknownTask
from duework.kernel.job import Claimed, Ending
from duework.kernel.lanes import Lane


class Telling:
    """Remembers what hooks have to be told once, or later."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        # Task and start of what was claimed.
        self._started: dict[int, tuple[str, int]] = {}
        self._unknown: set[str] = set()

    def claimed(self, jobs: Sequence[Claimed]) -> None:
        """So that it can be told how long they took."""
        if self._engine.hooks:
            now = self._engine.clock.now()
            self._started.update((job.id, (job.task, now)) for job in jobs)

    def settled(self, endings: Sequence[Ending], written: Sequence[Ending | None]) -> None:
        """What each attempt wanted, and what was written of it."""
        if self._started or self._engine.hooks:
            for ending, one in zip(endings, written, strict=True):
                self._settled(ending, one)

    def _settled(self, ending: Ending, written: Ending | None) -> None:
        now = self._engine.clock.now()
        task, started = self._started.pop(ending.id, ("", now))
        if written is None:
            self._engine.tell(LeaseWasLost(ending.id, task))
            return
        retry_at = written.due if written.kind in {"retry", "snooze"} else None
        self._engine.tell(
            JobSettled(ending.id, task, written.kind, now - started, written.error, retry_at)
        )

    def unknown(self, lanes: Sequence[Lane], want: Want) -> None:
        """Tasks that have jobs and that this process does not know, each of them once."""
        for lane in lanes:
            task = lane.name.task
            ours = want.queues is None or lane.name.queue in want.queues
            if ours and lane.head and task not in want.pools and task not in self._unknown:
                self._unknown.add(task)
                self._engine.tell(UnknownTask(task))
