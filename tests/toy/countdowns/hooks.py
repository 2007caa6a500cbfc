"""What users hold of countdowns, and what the engine calls: the job, its end, the housekeeping."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from duework.kernel.run import Run, buffer_of
from duework.kernel.tasks import Definition, Policy, Writes
from duework.shapes.shape import CHUNK, Hooks, Shape, in_chunks

from . import SHAPE, verbs
from .verbs import COUNTDOWNS, TASK, NewCountdown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duework.db.database import Tx
    from duework.kernel.job import Ending, LockedJob
    from duework.wiring import Wiring


class Countdowns(Hooks):
    """The countdowns of one App: `countdowns = app.adopt(Countdowns())`."""

    shape: ClassVar[Shape] = SHAPE

    def bind(self, wiring: Wiring) -> None:
        self._wiring = wiring
        wiring.registry.add(Definition(TASK, self._tick, Policy(keep=0)))

    def writes(self) -> Mapping[str, Writes]:
        return {"countdown": Writes(NewCountdown, self._start)}

    def start(self, name: str, seconds: int) -> int:
        """Count down from so many seconds; durable when this returns."""
        return self._wiring.engine.writer.call(self._start, [NewCountdown(name, seconds)])[0]

    def list(self) -> list[tuple[Any, ...]]:
        """Name, state and what is left."""
        with self._wiring.engine.database.reading() as tx:
            return verbs.listed(tx)

    def settled(self, tx: Tx, job: LockedJob, ending: Ending) -> None:
        """Its job was cancelled, or has failed for good: then it does not count down any more."""
        if ending.kind != "done":
            row = int((job.owner or "").removeprefix("countdown:"))
            verbs.end(tx, row, "stopped", self._wiring.engine)

    def prune(self) -> None:
        in_chunks(self._wiring.engine, self._prune)

    def _start(self, tx: Tx, new: list[NewCountdown]) -> Sequence[int]:
        return verbs.start(tx, new, self._wiring.engine)

    async def _tick(self, run: Run, row: int) -> None:
        engine, job = self._wiring.engine, run.job.id
        buffer_of(run).add(lambda tx: verbs.tick(tx, row, job, engine))

    def _prune(self, tx: Tx, items: list[None]) -> Sequence[int]:
        now = self._wiring.engine.clock.now()
        return [len(tx.query(COUNTDOWNS.over, {"now": now, "wanted": CHUNK})) for _ in items]
