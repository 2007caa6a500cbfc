"""Jobs and queues on one App: enqueue, find, cancel, revive, purge, pause, resume."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from duework.averbs import Verbs
from duework.durations import Duration, Moment, planned
from duework.errors import NotFound, UsageError, check_one_of
from duework.handles import Attempt, Job
from duework.health.why import Why, why
from duework.kernel import lanes, operate
from duework.kernel.error_text import redact
from duework.kernel.job import OWN_QUEUE, PHASES, Enqueued, NewJob
from duework.kernel.labels.verbs import LABELS
from duework.kernel.lanes import JOBS

# How many rows a search looks at before it says how far it got.
LOOK = 10_000


@dataclass(frozen=True, slots=True)
class FoundJobs:
    """A page of a search, newest first; `before` is where it goes on, None at the end."""

    jobs: list[Job[Any]]
    before: int | None


class JobVerbs(Verbs):
    """What can be done with jobs and with queues."""

    # --- new ones

    def enqueue(self, new: list[NewJob], connection: Any = None) -> list[Job[Any]]:
        """What every `enqueue` comes down to."""
        if connection is not None:
            return self._made(new, self.wiring.enqueue_within(new, connection))
        engine = self.engine
        return self._made(new, engine.writer.call(engine.enqueue_alone, new))

    async def aenqueue(self, new: list[NewJob], connection: Any = None) -> list[Job[Any]]:
        """The same for async code."""
        if connection is not None:
            return self._made(new, self.wiring.enqueue_within(new, connection))
        engine = self.engine
        return self._made(new, await engine.writer.acall(engine.enqueue_alone, new))

    def _made(self, new: Sequence[NewJob], answers: Sequence[Enqueued]) -> list[Job[Any]]:
        now = self.wiring.bound.clock.now()
        return [
            Job(
                id=answer.id,
                queue=(lane := job.lane).queue,
                task=lane.task,
                priority=lane.priority,
                key=job.key,
                due=job.at,
                at=job.at,
                payload=job.payload,
                existed=answer.existed,
                seen_at=now,
                _jobs=self,
            )
            for job, answer in zip(new, answers, strict=True)
        ]

    # --- one job, or many

    def get(self, identifier: int) -> Job[Any]:
        """The job as it is now; `NotFound` if there is none."""
        with self.engine.database.reading() as tx:
            rows = tx.query(JOBS.jobs, {"ids": [int(identifier)]})
        if not rows:
            raise NotFound(f"there is no job {identifier}")
        return self.view(rows[0])

    def search(
        self,
        *,
        phase: str = "",
        task: str = "",
        queue: str = "",
        key: str = "",
        before: int = 2**62,
        limit: int = 50,
        own: bool = False,
        after: int = 0,
    ) -> list[Job[Any]]:
        """Jobs, newest first; go on with `before=` the last id. Those up to `after=` are not looked at.

        The engine's own, which prune and fire schedules, are left out unless they failed or are asked
        for: by `own=True`, or by the name of their task, queue or key.
        """
        check_one_of("phase", phase, PHASES, optional=True)
        wanted = operate.Filter(phase, task, queue, key, before, limit, after, own)
        with self.engine.database.reading() as tx:
            rows = operate.search(tx, wanted, now=self.now()).rows
        return [self.view(row) for row in rows]

    def look(
        self,
        *,
        phase: str = "",
        task: str = "",
        queue: str = "",
        key: str = "",
        before: int = 2**62,
        limit: int = 50,
        own: bool = False,
    ) -> FoundJobs:
        """The same among the next 10,000 rows only, however many there are: as far as it got.

        A page may hold few jobs, or none, and not be the last: go on with `before=` of what it returns.
        """
        wanted = operate.Filter(phase, task, queue, key, before, limit, own=own)
        with self.engine.database.reading() as tx:
            found = operate.search(tx, wanted, now=self.now(), most=LOOK)
        return FoundJobs([self.view(row) for row in found.rows], found.before)

    def get_many(self, identifiers: Sequence[int]) -> list[Job[Any]]:
        """Those of these jobs that are there, newest first."""
        with self.engine.database.reading() as tx:
            rows = tx.query(JOBS.jobs, {"ids": [int(each) for each in identifiers]})
        return sorted(map(self.view, rows), key=lambda job: -job.id)

    def tagged(self, tag: str, *, before: int = 2**62, limit: int = 50) -> list[Job[Any]]:
        """Jobs that carry a tag, newest first; go on with `before=` the last id."""
        with self.engine.database.reading() as tx:
            values = {"tag": tag, "before": before, "wanted": limit}
            found = [row[0] for row in tx.query(LABELS.tagged, values)]
        return self.get_many(found)

    def tags(self, identifier: int) -> list[str]:
        """The tags of a job, by name."""
        with self.engine.database.reading() as tx:
            return [row[0] for row in tx.query(LABELS.tags_of, {"job": int(identifier)})]

    def headers(self, identifier: int) -> dict[str, str]:
        """The headers of a job."""
        with self.engine.database.reading() as tx:
            rows = tx.query(LABELS.headers_of, {"job": int(identifier)})
        return msgspec.json.decode(rows[0][0] or "{}", type=dict[str, str]) if rows else {}

    def view(self, row: tuple[Any, ...]) -> Job[Any]:
        """A row of the `jobs` statement as users see it."""
        names = Job.__struct_fields__[: len(row)]
        fields: dict[str, Any] = dict(zip(names, row, strict=True))
        return Job(**{**fields, "alone": bool(fields["alone"])}, seen_at=self.now(), _jobs=self)

    def attempts(self, identifier: int) -> list[Attempt]:
        """The attempts of a job that did not end well, oldest first."""
        with self.engine.database.reading() as tx:
            return [Attempt(*row) for row in tx.query(JOBS.attempts, {"job": identifier})]

    def why(self, identifier: int) -> Why:
        """Why a job waits, runs or has ended, from the rows; `NotFound` if there is none."""
        around = self.wiring.around()
        with self.engine.database.reading() as tx:
            return why(tx, int(identifier), around)

    def cancel(self, identifier: int, why: str = "cancelled by hand") -> str:
        """End a job: 'cancelled', 'cancelling' if it runs, or how it had ended."""
        engine = self.engine
        return engine.writer.call(engine.cancel, [(int(identifier), redact(why))])[0]

    def revive(self, identifier: int) -> str:
        """Open a settled job again, due at once; `Conflict` if its key is taken."""
        engine = self.engine
        return engine.writer.call(engine.revive, [int(identifier)])[0]

    def move(
        self, identifier: int, delay: Duration | None = None, *, at: Moment | None = None
    ) -> Job[Any]:
        """Let a job that waits be due at another time, now if none is given; `Conflict` for others."""
        engine = self.engine
        due = planned(engine.clock.now(), delay, at)
        engine.writer.call(engine.replan, [(int(identifier), due)])
        return self.get(identifier)

    def purge(self, identifiers: Sequence[int]) -> int:
        """Delete settled jobs for good."""
        engine = self.engine
        return engine.writer.call(engine.purge, [[int(each) for each in identifiers]])[0]

    # --- queues

    def pause(self, queue: str = "*") -> None:
        """Start no more jobs, of one queue or of all."""
        self.engine.writer.call(self.engine.pause, [queue])

    def resume(self, queue: str = "*") -> None:
        """Start jobs again, of one queue or of all."""
        self.engine.writer.call(self.engine.resume, [queue])

    def unknown_tasks(self) -> list[str]:
        """Tasks with open jobs that this process does not know; they wait for one that does."""
        known = self.registry.names()
        with self.engine.database.reading() as tx:
            found = {lane.name.task for lane in self.engine.lanes.all(tx)}
        return sorted(found.difference(known))

    def paused(self) -> list[str]:
        """Paused queues; '*' is all of them."""
        with self.engine.database.reading() as tx:
            return lanes.paused(tx)

    def purge_queue(self, queue: str) -> int:
        """Cancel every job of a queue that does not run, a chunk at a time."""
        if queue == OWN_QUEUE:
            raise UsageError(
                f"{queue!r} is the engine's own queue, and without its jobs no schedule fires;"
                " pause a schedule instead"
            )
        total = 0
        while count := self.engine.writer.call(self.engine.purge_queue, [queue])[0]:
            total += count
        return total
