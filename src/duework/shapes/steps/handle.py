"""Workflows for people: what each has recorded, and what can be done with one that needs attention."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from duework.averbs import Verbs, averb
from duework.codec import encode
from duework.errors import NotFound
from duework.kernel.job import NewSignal
from duework.kernel.tasks import Writes
from duework.shapes.shape import Hooks, Shape, in_chunks
from duework.shapes.steps import SHAPE, verbs
from duework.shapes.steps.verbs import STEPS, StepRow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duework.db.database import Tx
    from duework.kernel.job import Ending, LockedJob
    from duework.wiring import Wiring


# As a workflow is shown: one that has failed or was cancelled as a job says so.
STATES = ("running", "attention", "failed", "ended", "cancelled")


@dataclass(frozen=True, slots=True)
class Step:
    """One line of a workflow's timeline; times in milliseconds since 1970."""

    place: int
    name: str
    # step, sleep, wait or child; trying, waiting, done or failed.
    kind: str
    state: str
    failures: int
    started: int
    ended: int | None
    # The end of a sleep, of a wait, or of the pause before the next try.
    due: int | None
    # JSON text.
    result: str | None
    error: str | None
    # The job that it waits for, or waited for.
    child: int | None


@dataclass(frozen=True, slots=True)
class Workflow:
    """A job that has recorded steps, as it was when it was looked at."""

    job: int
    task: str
    # One of STATES.
    state: str
    # Why it needs attention.
    reason: str | None
    started: int
    # How many steps are done.
    done: int
    _verbs: Any = field(default=None, repr=False, compare=False)

    def steps(self) -> list[Step]:
        """Its timeline."""
        found: list[Step] = self._verbs.timeline(self.job)
        return found

    def resume(self) -> None:
        """Go on from its records: the code reaches them again."""
        self._verbs.resume(self.job)

    def fork(self, step: str) -> int:
        """A new job with the records before a step; its id."""
        new: int = self._verbs.fork(self.job, step)
        return new

    def cancel(self, why: str = "cancelled") -> None:
        """End it for good; its records stay as long as its job."""
        self._verbs.cancel(self.job, why)

    asteps = averb(steps)
    aresume = averb(resume)
    afork = averb(fork)
    acancel = averb(cancel)


class Workflows(Verbs):
    """What an App knows of workflows, and tells them."""

    def signal(self, event: str, payload: Any = None, /, *, key: str = "") -> None:
        """Tell the workflows that wait for an event, now or later; durable when this returns."""
        new = NewSignal(event, key, encode(payload))
        self.engine.writer.call(self._signal, [new])

    def search(self, state: str = "", *, before: int = 2**62, limit: int = 50) -> list[Workflow]:
        """Workflows, newest first; `state="attention"`: those that need somebody."""
        values = {"state": state, "before": before, "wanted": limit}
        with self.engine.database.reading() as tx:
            return [_workflow(row, self) for row in tx.query(STEPS.listed, values)]

    def get(self, job: int) -> Workflow:
        """The workflow of a job; `NotFound` if that has recorded no step."""
        for each in self.search(before=job + 1, limit=1):
            if each.job == job:
                return each
        raise NotFound(f"there is no workflow {job}")

    def timeline(self, job: int) -> list[Step]:
        with self.engine.database.reading() as tx:
            return [_step(StepRow(*row)) for row in tx.query(STEPS.of_job, {"job": job})]

    def resume(self, job: int) -> None:
        self.engine.writer.call(self._resume, [job])

    def fork(self, job: int, step: str) -> int:
        return self.engine.writer.call(self._fork, [(job, step)])[0]

    def cancel(self, job: int, why: str) -> None:
        self.engine.writer.call(self._cancel, [(job, why)])

    def _signal(self, tx: Tx, new: list[NewSignal]) -> Sequence[int]:
        return verbs.signal(tx, new, self.engine)

    def _resume(self, tx: Tx, jobs: list[int]) -> Sequence[None]:
        return verbs.resume(tx, jobs, self.engine)

    def _fork(self, tx: Tx, wanted: list[tuple[int, str]]) -> Sequence[int]:
        return verbs.fork(tx, wanted, self.engine)

    def _cancel(self, tx: Tx, wanted: list[tuple[int, str]]) -> Sequence[None]:
        return verbs.cancel(tx, wanted, self.engine)


class Steps(Hooks):
    """What the engine calls: the end of a job that is waited for, signals in a commit, the housekeeping."""

    shape: ClassVar[Shape] = SHAPE

    def bind(self, wiring: Wiring) -> None:
        self._wiring = wiring

    def writes(self) -> Mapping[str, Writes]:
        return {"signal": Writes(NewSignal, self._signal)}

    def settled(self, tx: Tx, job: LockedJob, ending: Ending) -> None:
        verbs.child_ended(tx, job, ending, self._wiring.engine)

    def prune(self) -> None:
        in_chunks(self._wiring.engine, self._prune)

    def _signal(self, tx: Tx, new: list[NewSignal]) -> Sequence[int]:
        return verbs.signal(tx, new, self._wiring.engine)

    def _prune(self, tx: Tx, items: list[None]) -> Sequence[int]:
        now = self._wiring.engine.clock.now()
        return [verbs.prune(tx, now) for _ in items]


def _workflow(row: tuple[Any, ...], of: Workflows) -> Workflow:
    job, task, state, reason, started, done = row
    return Workflow(job, task, state, reason, started, done, of)


def _step(row: StepRow) -> Step:
    return Step(
        row.place,
        row.name,
        row.kind,
        row.state,
        row.failures,
        row.started,
        row.ended,
        row.due,
        row.result,
        row.error,
        row.child,
    )
