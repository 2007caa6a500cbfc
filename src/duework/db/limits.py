"""A limit of time for the user's own statements in a part of a transaction.

They count, and the code between them; statements of the kernel do not, since they may wait for
others: a worker that stands still with a row under lock is no fault of what waits for it.
"""

from __future__ import annotations

from duework.clock import monotonic
from duework.db.database import TooSlow


class Limit:
    """Time for what is the user's own in a savepoint, and in those around it."""

    def __init__(self, ms: int, outer: Limit | None) -> None:
        self._ms = ms
        self._outer = outer
        self._deadline = monotonic() + ms / 1000

    def left(self) -> int:
        """Milliseconds; `TooSlow` if there are none."""
        left = round((self._deadline - monotonic()) * 1000)
        if left <= 0:
            raise self.over()
        return left

    def over(self) -> TooSlow:
        return TooSlow(f"interrupted after {self._ms} ms")

    def spare(self, began: float) -> None:
        """What has happened since then was the kernel's."""
        self._deadline += monotonic() - began
        if self._outer is not None:
            self._outer.spare(began)
