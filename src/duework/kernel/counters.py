"""Counters: what is told of every job that ends or is open again, and writes it down when the verb is over.

A job may belong to a group (`batch`), and what counts groups implements this. Counts are gathered while the
jobs of one call end, undone with what is undone, and written last, in the same transaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from duework.db.database import Tx
from duework.kernel.job import Reaction, State
from duework.kernel.lanes import Lanes


class Counters(Protocol):
    """What one call of a verb changes in the groups of its jobs."""

    def ended(self, batch: int | None, state: State, count: int = 1, *, gone: bool = False) -> None:
        """Members ended; `gone` says of one that its row is deleted."""

    def reopened(self, batch: int | None, state: State, count: int = 1) -> None:
        """Members that had ended so are open again."""

    def gone(self, batch: int | None) -> None:
        """The row of a member that had ended before is deleted."""

    def copy(self) -> Any:
        """Where it stands, for `back` if what follows is undone."""

    def back(self, before: Any) -> None: ...

    def write(self, tx: Tx, *, now: int) -> bool:
        """Write it, and begin anew; whether a job was enqueued by that."""


@dataclass(slots=True)
class SettleContext:
    """What all endings of one call have in common: the time, the lanes, who reacts and who counts."""

    now: int
    lanes: Lanes
    react: Reaction
    tally: Counters
