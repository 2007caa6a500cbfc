"""What users count, by minute, name and labels: for graphs, and for nothing else.

Kept in the process and written as the last thing of a transaction that is written anyway, at most once a
second; one that finds nothing to write runs no statement more. Rows of every span are added to at once, so
nothing has to be rolled up later. No guarantee rests on them: if they cannot be written, that is logged
once, what was counted is dropped, and a minute later it is tried again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial

from duework.db.database import Retryable, Tx
from duework.db.queries import load
from duework.errors import DatabaseError

SERIES = load("duework.kernel.minutes", "series")
logger = logging.getLogger("duework")

MINUTE = 60_000
DAY = 1440 * MINUTE
# How many minutes a row sums, and how long it is kept; 0 stands for all of time, and is kept for ever.
SPANS = {1: 2 * DAY, 60: 60 * DAY, 1440: 800 * DAY, 0: 0}
WRITE_EVERY_MS = 1000
# So many at once in a process; what comes on top is counted without its labels.
MOST_SERIES = 10_000

# (start of the minute, name, labels as JSON, kind): how many, their sum, the largest.
Key = tuple[int, str, str, str]
Numbers = tuple[int, float, float]


class Series:
    """What this process has counted and not written yet."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._lock = threading.Lock()
        # Empty if nothing is counted, which is all that most commits ask.
        self.pending: dict[Key, Numbers] = {}
        self._written = -WRITE_EVERY_MS
        self._broken = False
        # The transaction that has them, until it is committed or another one is asked.
        self._tx: Tx | None = None

    def add(self, name: str, labels: str, kind: str, value: float) -> None:
        """Count one."""
        minute = self._now() // MINUTE * MINUTE
        with self._lock:
            key = (minute, name, labels, kind)
            if key not in self.pending and len(self.pending) >= MOST_SERIES:
                key = (minute, name, "{}", kind)
            count, total, most = self.pending.get(key, (0, 0.0, value))
            self.pending[key] = (count + 1, total + value, max(most, value))

    def write(self, tx: Tx) -> None:
        """The last thing that a transaction does, if there is anything and it is time."""
        # A clock that was set back must not keep it from writing.
        if not 0 <= self._now() - self._written < (MINUTE if self._broken else WRITE_EVERY_MS):
            self.write_now(tx)

    def write_now(self, tx: Tx) -> None:
        """Write all that was counted with this transaction."""
        with self._lock:
            taken = dict(self.pending)
        if not taken or tx is self._tx:
            return
        try:
            tx.bulk(SERIES.add, _rows(taken))
        except Retryable:
            raise
        except DatabaseError as error:
            self._drop(error)
            raise
        self._tx = tx
        tx.after_commit.append(partial(self._was_written, taken, self._now()))

    def _drop(self, error: DatabaseError) -> None:
        if not self._broken:
            logger.error("the metrics cannot be written: %s", error)
        with self._lock:
            self._broken, self._written, self.pending = True, self._now(), {}

    def _was_written(self, taken: dict[Key, Numbers], now: int) -> None:
        """What was counted meanwhile stays."""
        with self._lock:
            self._written, self._broken, self._tx = now, False, None
            for key, (count, total, most) in taken.items():
                left = self.pending.pop(key, None)
                if left is not None and left[0] > count:
                    self.pending[key] = (left[0] - count, left[1] - total, max(left[2], most))


def _rows(taken: dict[Key, Numbers]) -> list[tuple[int | str | float, ...]]:
    """What is to be added to the rows of every span, in the order in which all transactions lock them.

    A row is of the kind that was counted first: what is counted and timed under one name is one sum.
    """
    sums: dict[tuple[int, str, int, str], tuple[str, int, float, float]] = {}
    for (minute, name, labels, kind), (count, total, most) in taken.items():
        for span in SPANS:
            start = minute // (span * MINUTE) * (span * MINUTE) if span else 0
            key = (span, name, start, labels)
            known = sums.get(key, (kind, 0, 0.0, most))
            sums[key] = (known[0], known[1] + count, known[2] + total, max(known[3], most))
    return [(*key, *sums[key]) for key in sorted(sums)]


def forget(tx: Tx, *, now: int, chunk: int) -> int:
    """Delete what is older than its span is kept; how many rows."""
    return sum(
        tx.change(SERIES.forget, {"span": span, "before": now - kept, "wanted": chunk})
        for span, kept in SPANS.items()
        if kept
    )
