"""Admission: what has to agree before jobs of a lane are claimed, besides free slots and limits.

A claim asks once for all lanes that it visits, inside its transaction, and says what it took of each. Paces
implement this; without any, everything is admitted.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

from duework.clock import FOREVER
from duework.db.database import Tx
from duework.kernel.job import Claimed
from duework.kernel.lanes import Lane


class LaneAdmission(Protocol):
    """What is admitted of the lanes that one claim visits."""

    def left(self, lane: Lane) -> int:
        """How many jobs of the lane are admitted now."""

    def left_in_common(self, lane: Lane) -> int:
        """The same by what it shares with lanes that differ in their shares alone."""

    def last_turn(self, lane: Lane, turn: str) -> int | None:
        """Of lanes that take turns, the one that was served last; None if that is not known here."""

    def note_turn(self, lane: Lane, turn: str, last: int) -> None:
        """That one was served last."""

    def bound(self, lane: Lane) -> int:
        """Only jobs that were due by then are admitted."""

    def take(self, lane: Lane, count: int, *, short: bool) -> int:
        """So many were claimed, of fewer than there was room for if `short`; until when they start."""

    def keep(self, taken: list[Claimed]) -> list[Claimed]:
        """Of what was claimed, what may start; the rest is handed back."""

    def close(self) -> bool:
        """Write what was taken, and when lanes may be visited again; whether any was moved."""

    @property
    def earlier(self) -> bool:
        """Whether lanes may be due earlier than was known, also those not visited."""


class Admits(Protocol):
    """What a process asks when it claims."""

    @property
    def tasks(self) -> Collection[str]:
        """Jobs of these tasks have to be admitted."""

    @property
    def queues(self) -> Collection[str]:
        """The same by queue."""

    def visit(
        self, tx: Tx, lanes: Sequence[Lane], reports: Sequence[Any], now: int, /
    ) -> LaneAdmission:
        """Look at these lanes, after applying what was reported since."""


class AllAdmitted:
    """Nothing has to agree."""

    tasks: Collection[str] = ()
    queues: Collection[str] = ()

    def visit(self, _tx: Tx, _lanes: Sequence[Lane], _reports: Sequence[Any], now: int) -> _At:
        return _At(now)


class _At:
    """At one time, everything that is due."""

    earlier = False

    def __init__(self, now: int) -> None:
        self._now = now

    def left(self, lane: Lane) -> int:  # noqa: ARG002 - whatever it is
        return FOREVER

    def left_in_common(self, lane: Lane) -> int:  # noqa: ARG002
        return FOREVER

    def last_turn(self, lane: Lane, turn: str) -> int | None:  # noqa: ARG002
        return None

    def note_turn(self, lane: Lane, turn: str, last: int) -> None: ...

    def bound(self, lane: Lane) -> int:  # noqa: ARG002
        return self._now

    def take(self, lane: Lane, count: int, *, short: bool) -> int:  # noqa: ARG002
        return FOREVER

    def keep(self, taken: list[Claimed]) -> list[Claimed]:
        return taken

    def close(self) -> bool:
        return False


EVERYTHING = AllAdmitted()
