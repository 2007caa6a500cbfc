"""What workers did, counted by minute and task: for people and their graphs, and for nothing else.

Counts are kept in the process and written as the last thing of a transaction that settles or claims
anyway: at most once a second, and with the end of the last job that runs here. So a process that is
killed loses what it counted in its last second, an idle one writes nothing, and two workers rarely wait
for each other's counters. No guarantee rests on them.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from functools import partial

from duework.db.database import Tx
from duework.db.queries import load
from duework.kernel.job import OWN_QUEUE, Claimed, Ending, LaneName
from duework.kernel.lanes import Lanes

MINUTES = load("duework.kernel.minutes", "minutes")

MINUTE = 60_000
# Rows sum so many minutes; 0 stands for all of time.
SPANS = (0, 1, 15)
KEEP_MS = 7 * 24 * 60 * MINUTE
WRITE_EVERY_MS = 1000
# Start lags up to so many milliseconds are counted together, and one more for what is above.
LAGS = (10, 100, 1000, 10_000, 60_000)

# The places of a row's numbers.
STARTED, DONE, FAILED, CANCELLED, RETRIED, LAG, LAG_MOST, LAG_FIRST = range(8)
WIDTH = LAG_FIRST + len(LAGS) + 1
_PLACE = {
    "done": DONE,
    "failed": FAILED,
    "cancelled": CANCELLED,
    "retry": RETRIED,
    "misfit": RETRIED,
    "crashed": RETRIED,
    "lost": RETRIED,
}
# A fence counts the claims of a job since the last boot in its lower bits.
_CLAIMS = 2**32 - 1

# (start of the minute, queue, task): numbers.
Key = tuple[int, str, str]
Counts = dict[Key, list[int]]


class Minutes:
    """The counters of one process that are yet to be written."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._lock = threading.Lock()
        self._pending: Counts = {}
        self._written = -WRITE_EVERY_MS
        # How many jobs run here, as far as was counted.
        self._running = 0
        # The transaction that has counted something last, and what; it counts from the commit on.
        self._tx: Tx | None = None
        self._now = 0
        self._deltas: list[tuple[Counts, int]] = []

    def claimed(self, tx: Tx, jobs: Sequence[Claimed], now: int) -> None:
        """These start as soon as the transaction has committed."""
        self._note(tx, now, _started(jobs, now), len(jobs))

    def handed(self, jobs: Sequence[Claimed], now: int) -> None:
        """These were claimed for us by another process."""
        self._merge(_started(jobs, now), len(jobs))

    def ended(self, tx: Tx, endings: Sequence[Ending | None], now: int) -> None:
        """Attempts of this worker have ended, or had lost their lease."""
        over = [ending for ending in endings if ending is None or ending.kind != "blocked"]
        counts = self._ended(tx, [ending for ending in over if ending is not None], now)
        self._note(tx, now, counts, -len(over))

    def written_off(self, tx: Tx, endings: Sequence[Ending], now: int) -> None:
        """Attempts of other workers were ended for them, or came too late to start at all."""
        self._note(tx, now, self._ended(tx, endings, now), 0)

    def write(self, tx: Tx) -> None:
        """The last thing that a transaction does, if it has counted anything and it is time."""
        if tx is not self._tx:
            return
        now, idle = self._now, self._running + sum(change for _, change in self._deltas) <= 0
        # A clock that was set back must not keep it from writing.
        if not idle and 0 <= now - self._written < WRITE_EVERY_MS:
            return
        with self._lock:
            counts = {key: list(numbers) for key, numbers in self._pending.items()}
        for delta, _ in self._deltas:
            _add(counts, delta)
        if counts:
            tx.bulk(MINUTES.add, _rows(counts))
            # After those that add what was counted here.
            tx.after_commit.append(partial(self._was_written, counts, now))

    def _note(self, tx: Tx, now: int, counts: Counts, change: int) -> None:
        if tx is not self._tx:
            # One that was undone has left what it counted.
            self._tx, self._deltas = tx, []
        self._now = now
        self._deltas.append((counts, change))
        tx.after_commit.append(partial(self._merge, counts, change))

    def _merge(self, counts: Counts, change: int) -> None:
        with self._lock:
            self._running = max(0, self._running + change)
            _add(self._pending, counts)

    def _was_written(self, counts: Counts, now: int) -> None:
        with self._lock:
            self._written = now
            for key, numbers in counts.items():
                most = self._pending[key][LAG_MOST]
                left = [a - b for a, b in zip(self._pending.pop(key), numbers, strict=True)]
                if left[STARTED] or any(left[DONE:LAG]):
                    left[LAG_MOST] = most
                    self._pending[key] = left

    def _ended(self, tx: Tx, endings: Sequence[Ending], now: int) -> Counts:
        counts: Counts = {}
        for (lane, kind), count in Counter((e.lane, e.kind) for e in endings).items():
            place = _PLACE.get(kind)
            name = self._lanes.name(tx, lane) if place is not None and lane else None
            if place is not None and name is not None and name.queue != OWN_QUEUE:
                _numbers(counts, now, name)[place] += count
        return counts


def _numbers(counts: Counts, now: int, name: LaneName | Claimed) -> list[int]:
    key = (now // MINUTE * MINUTE, name.queue, name.task)
    if (found := counts.get(key)) is None:
        found = counts[key] = [0] * WIDTH
    return found


def _started(jobs: Sequence[Claimed], now: int) -> Counts:
    counts: Counts = {}
    for job in jobs:
        if job.queue == OWN_QUEUE:
            continue
        numbers = _numbers(counts, now, job)
        numbers[STARTED] += 1
        # When a later attempt was due, nothing tells once it is claimed.
        if job.fence & _CLAIMS == 1:
            lag = max(0, now - job.at)
            numbers[LAG] += lag
            numbers[LAG_MOST] = max(numbers[LAG_MOST], lag)
            numbers[LAG_FIRST + bisect_left(LAGS, lag)] += 1
    return counts


def _add(into: Counts, counts: Counts) -> None:
    for key, numbers in counts.items():
        before = into.get(key)
        if before is None:
            into[key] = list(numbers)
            continue
        most = max(before[LAG_MOST], numbers[LAG_MOST])
        into[key] = [a + b for a, b in zip(before, numbers, strict=True)]
        into[key][LAG_MOST] = most


def _rows(counts: Counts) -> list[tuple[int | str, ...]]:
    """What is to be added to the rows of every span, in the order in which all transactions lock them."""
    rows: list[tuple[int | str, ...]] = []
    for span in SPANS:
        sums: Counts = {}
        for (minute, queue, task), numbers in counts.items():
            start = minute // (span * MINUTE) * (span * MINUTE) if span else 0
            _add(sums, {(start, queue, task): numbers})
        rows += [(span, *key, *sums[key]) for key in sorted(sums)]
    return rows


def forget(tx: Tx, *, now: int, chunk: int) -> int:
    """Delete what is older than a week; how many rows."""
    kept = {"before": now - KEEP_MS, "wanted": chunk}
    return sum(tx.change(MINUTES.forget, {"span": span, **kept}) for span in SPANS if span)
