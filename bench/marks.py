"""What handlers leave behind in a file that all processes map, so that it outlives a kill -9.

Per job: when it was started first and last (CLOCK_MONOTONIC, which processes of one machine share),
how often it was started and how often it came to its end. Per process: a count.
Only the standard library: the adapters of other libraries import this too.
"""

from __future__ import annotations

import mmap
from pathlib import Path
from time import monotonic

SLOTS = 64
_PER_JOB = 8 + 8 + 1 + 1


class Marks:
    """Marks for `jobs` jobs; the file is made by whoever gives a number of jobs."""

    def __init__(self, path: str | Path, jobs: int | None = None) -> None:
        self.path = Path(path)
        if jobs is not None:
            with self.path.open("wb") as made:
                made.truncate(SLOTS * 8 + jobs * _PER_JOB)
        self.jobs = (self.path.stat().st_size - SLOTS * 8) // _PER_JOB
        with self.path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        view, offset = memoryview(self._map), SLOTS * 8
        self.counts = view[:offset].cast("Q")
        self.first = view[offset : (offset := offset + self.jobs * 8)].cast("d")
        self.last = view[offset : (offset := offset + self.jobs * 8)].cast("d")
        self.starts = view[offset : (offset := offset + self.jobs)]
        self.ends = view[offset : offset + self.jobs]

    def start(self, job: int) -> None:
        now = monotonic()
        if not self.starts[job]:
            self.first[job] = now
        self.last[job] = now
        self.starts[job] = min(255, self.starts[job] + 1)

    def end(self, job: int) -> None:
        self.ends[job] = min(255, self.ends[job] + 1)

    def count(self) -> int:
        """How many calls the counters of all processes saw."""
        return sum(self.counts)

    def ended(self, jobs: int | None = None) -> int:
        """How many jobs came to their end at least once."""
        wanted = self.jobs if jobs is None else jobs
        return wanted - bytes(self.ends[:wanted]).count(0)
