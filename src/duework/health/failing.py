"""Failed jobs by what they failed of: the same error with other numbers counts as one.

A look reads a bounded number of rows: the newest failures, and of a filter as many as that walk finds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from duework.db.database import Tx
from duework.health.needs import NEEDS, blanked
from duework.kernel.job import POISON

# So many failed jobs are grouped, among so many that are walked through for a filter.
GROUPED, WALKED = 1000, 10_000


@dataclass(frozen=True, slots=True)
class FailedJob:
    """A failed job, with the first line of what it failed of."""

    id: int
    task: str
    queue: str
    key: str | None
    error: str
    settled: int
    failures: int
    crashes: int

    @property
    def alike(self) -> str:
        """What it has in common with others."""
        return blanked(self.error)

    @property
    def poison(self) -> bool:
        return self.crashes >= POISON


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Jobs of one task that failed alike, newest first."""

    task: str
    error: str
    jobs: tuple[FailedJob, ...]

    @property
    def newest(self) -> int:
        return max(job.settled for job in self.jobs)


def failed_jobs(
    tx: Tx, *, task: str = "", queue: str = "", before: int = 2**62, wanted: int = GROUPED
) -> list[FailedJob]:
    """The newest ones."""
    values = {"task": task, "queue": queue, "before": before, "walk": WALKED, "wanted": wanted}
    rows = tx.query(NEEDS.failures, values)
    return [
        FailedJob(number, name, of, key, (error or "").partition("\n")[0], settled, *counts)
        for number, name, of, key, error, settled, *counts in rows
    ]


def grouped(jobs: Iterable[FailedJob]) -> list[FailureGroup]:
    """By task and error, those with the newest failure first."""
    found: dict[tuple[str, str], list[FailedJob]] = {}
    for job in jobs:
        found.setdefault((job.task, job.alike), []).append(job)
    groups = [FailureGroup(task, error, tuple(each)) for (task, error), each in found.items()]
    return sorted(groups, key=lambda group: -group.newest)
