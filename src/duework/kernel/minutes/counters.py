"""What workers did, counted by minute and task: for people and their graphs, and for nothing else.

Counts are kept in the process and written as the last thing of a transaction that settles or claims
anyway: at most once a second, and with the end of the last job that runs here. So a process that is
killed loses what it counted in its last second, an idle one writes nothing, and two workers rarely wait
for each other's counters. No guarantee rests on them: if they cannot be written, that is logged once, what
was counted is dropped, and a minute later it is tried again.
"""

from __future__ import annotations

import logging
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from functools import partial
from operator import add

from duework.db.database import Retryable, Tx
from duework.db.queries import load
from duework.errors import DatabaseError
from duework.kernel.job import OWN_QUEUE, Claimed, Ending, LaneName
from duework.kernel.lanes import Lanes

MINUTES = load("duework.kernel.minutes", "minutes")
logger = logging.getLogger("duework")

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
        self._pending: list[Counts] = []
        self._written = -WRITE_EVERY_MS
        # Whether the last try to write them was refused.
        self._broken = False
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
        lanes = [each.lane for each in endings if each is not None and each.kind == "done"]
        kinds: Counter[tuple[int, str]] = Counter()
        for lane, count in Counter(lanes).items():
            kinds[lane, "done"] = count
        over = len(lanes)
        if over < len(endings):
            others = [
                each for each in endings if each is None or each.kind not in {"done", "blocked"}
            ]
            kinds.update((each.lane, each.kind) for each in others if each is not None)
            over += len(others)
        self._note(tx, now, self._by_task(tx, kinds, now), -over)

    def written_off(self, tx: Tx, endings: Sequence[Ending], now: int) -> None:
        """Attempts of other workers were ended for them, or came too late to start at all."""
        kinds: Counter[tuple[int, str]] = Counter((e.lane, e.kind) for e in endings)
        self._note(tx, now, self._by_task(tx, kinds, now), 0)

    def write(self, tx: Tx) -> None:
        """The last thing that a transaction does, if it has counted anything and it is time."""
        if tx is not self._tx:
            return
        now, idle = self._now, self._running + sum(change for _, change in self._deltas) <= 0
        # A clock that was set back must not keep it from writing.
        pause = MINUTE if self._broken else WRITE_EVERY_MS
        if (self._broken or not idle) and 0 <= now - self._written < pause:
            return
        with self._lock:
            written = [*self._pending, *(counts for counts, _ in self._deltas)]
        if rows := _rows(written):
            self._add(tx, rows, now)
            # After those that add what was counted here.
            tx.after_commit.append(partial(self._was_written, written, now))

    def _add(self, tx: Tx, rows: list[tuple[int | str, ...]], now: int) -> None:
        """The writer runs the transaction once more without counters if this raises."""
        try:
            tx.bulk(MINUTES.add, rows)
        except Retryable:
            raise
        except DatabaseError as error:
            if not self._broken:
                logger.error("the counters of minutes cannot be written: %s", error)  # noqa: TRY400 - its text tells all
            with self._lock:
                self._broken, self._written, self._pending = True, now, []
            raise

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
            if counts and not self._broken:
                self._pending.append(counts)

    def _was_written(self, written: list[Counts], now: int) -> None:
        with self._lock:
            self._written, self._broken = now, False
            over = {id(counts) for counts in written}
            self._pending = [counts for counts in self._pending if id(counts) not in over]

    def _by_task(self, tx: Tx, kinds: dict[tuple[int, str], int], now: int) -> Counts:
        counts: Counts = {}
        for (lane, kind), count in kinds.items():
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
    lanes = {job.lane for job in jobs}
    for lane in lanes:
        of_lane = jobs if len(lanes) == 1 else [job for job in jobs if job.lane == lane]
        if of_lane[0].queue != OWN_QUEUE:
            numbers = _numbers(counts, now, of_lane[0])
            numbers[STARTED] += len(of_lane)
            # When a later attempt was due, nothing tells once it is claimed.
            _add_lags(numbers, [job.at for job in of_lane if job.fence & _CLAIMS == 1], now)
    return counts


def _add_lags(numbers: list[int], times: list[int], now: int) -> None:
    """Add how long ago these were; by few steps, since it is done for every job."""
    if not times:
        return
    times.sort()
    numbers[LAG_MOST] = max(numbers[LAG_MOST], now - times[0])
    if times[-1] > now:
        times = [min(time, now) for time in times]
    numbers[LAG] += len(times) * now - sum(times)
    above = len(times)
    for place, limit in enumerate(LAGS, LAG_FIRST):
        longer = bisect_left(times, now - limit)
        numbers[place] += above - longer
        above = longer
        if not above:
            return
    numbers[-1] += above


def _rows(counted: Sequence[Counts]) -> list[tuple[int | str, ...]]:
    """What is to be added to the rows of every span, in the order in which all transactions lock them."""
    sums: dict[tuple[int, int, str, str], list[int]] = {}
    for counts in counted:
        for (minute, queue, task), numbers in counts.items():
            for span in SPANS:
                start = minute // (span * MINUTE) * (span * MINUTE) if span else 0
                _add(sums.setdefault((span, start, queue, task), [0] * WIDTH), numbers)
    return [(*key, *sums[key]) for key in sorted(sums)]


def _add(into: list[int], numbers: Sequence[int]) -> None:
    most = max(into[LAG_MOST], numbers[LAG_MOST])
    into[:] = map(add, into, numbers)
    into[LAG_MOST] = most


def forget(tx: Tx, *, now: int, chunk: int) -> int:
    """Delete what is older than a week; how many rows."""
    kept = {"before": now - KEEP_MS, "wanted": chunk}
    return sum(tx.change(MINUTES.forget, {"span": span, **kept}) for span in SPANS if span)
