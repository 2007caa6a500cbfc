"""How a worker that is told to stop gets away from a database that cannot be written.

A round is asked with endless patience: what a job came to is worth waiting for. Once the worker is to stop
that ends, at once if it holds nothing, else with its grace.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from types import TracebackType

from duework.clock import monotonic
from duework.db.writer.writer import Writer
from duework.errors import Error, Unavailable
from duework.kernel.job import Ending, Lease

LOOK_SECONDS = 0.25


class Departure:
    """A context manager around the work of a worker, entered in the task that works."""

    def __init__(self, writer: Writer, leases: Collection[Lease]) -> None:
        self._writer = writer
        # What the worker holds: what runs, and what has ended and is not stored.
        self._leases = leases
        self._task: asyncio.Task[object] | None = None
        self._timer: asyncio.TimerHandle | None = None
        # The endings of the round that is being asked for.
        self.asked: Sequence[Ending] = ()
        # Whether a round was left alone. It may still be written, as fences allow.
        self.left = False

    def __enter__(self) -> None:
        self._task = asyncio.current_task()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> bool:
        task, self._task = self._task, None
        assert task is not None, "entered"
        # A second cancellation, by another, is not swallowed.
        return self.left and kind is asyncio.CancelledError and task.uncancel() == 0

    @property
    def patience(self) -> float:
        """Seconds for the last round."""
        return 1.0 if self.left else 5.0

    def unstored(self, more: int, error: Error) -> Error | None:
        """What to end with if the last round was not written: nothing, unless jobs had ended."""
        count = len(self.asked) + more
        if not (self.left and count):
            return None
        jobs, they = ("1 job", "it") if count == 1 else (f"{count} jobs", "they")
        return Unavailable(f"what became of {jobs} is not stored, {they} may run again: {error}")

    def tell(self, stop_at: float) -> None:
        """It is to stop, at the latest at that time; the last word counts."""
        if self._timer is not None:
            self._timer.cancel()
        if self._task is None or self.left:
            return
        if self._writer.parked is not None and (not self._leases or monotonic() >= stop_at):
            self.left = True
            self._task.cancel()
            return
        self._timer = asyncio.get_running_loop().call_later(LOOK_SECONDS, self.tell, stop_at)
