"""How many no-op async jobs per second go through one process, and through two?"""

from __future__ import annotations

from contextlib import ExitStack

from bench import fill
from bench.bed import CONCURRENCY, Bed, check_done, settled
from bench.figures import Figure, at_least

QUESTION = "How many no-op async jobs per second are claimed, run and settled?"
FIGURES = (
    Figure("drain", "drain, one process", "/s", (at_least(40_000), at_least(0.2, of="raw_loop"))),
    Figure("drain_100", "drain, one process, 100 at once (default)", "/s", against="raw_loop"),
    Figure("drain_two", "drain, two processes", "/s", (at_least(0.8, of="drain"),)),
    Figure("pg_drain", "PostgreSQL: drain, one process", "/s", (at_least(0.5, of="raw_pg_loop"),)),
    Figure("pg_drain_two", "PostgreSQL: drain, two processes", "/s", against="pg_drain"),
)


def sample(bed: Bed) -> dict[str, float]:
    jobs, served = bed.scaled(40_000, 4000), bed.scaled(20_000, 3000)
    return {
        "drain": drained(bed, bed.sqlite(), jobs),
        "drain_100": drained(bed, bed.sqlite(), jobs // 2, concurrency=100),
        "drain_two": drained(bed, bed.sqlite(), jobs, processes=2),
        "pg_drain": drained(bed, bed.postgres(), served),
        "pg_drain_two": drained(bed, bed.postgres(), served, processes=2),
    }


def drained(
    bed: Bed, url: str, jobs: int, *, processes: int = 1, concurrency: int = CONCURRENCY
) -> float:
    """Jobs per second, from `go` until the last one is settled."""
    fill.ready(bed, url, jobs)
    rate = drain(bed, url, jobs, processes=processes, concurrency=concurrency)
    check_done(url, "noop", jobs)
    bed.drop(url)
    return rate


def drain(
    bed: Bed, url: str, jobs: int, *, processes: int = 1, concurrency: int = CONCURRENCY
) -> float:
    """The same for jobs that are there already, in a database that is kept."""
    marks = bed.marks()
    with ExitStack() as stack:
        workers = [
            stack.enter_context(bed.worker(url, marks=marks, slot=slot, concurrency=concurrency))
            for slot in range(processes)
        ]
        start = min([worker.go() for worker in workers])
        rate = jobs / (settled(url, marks, jobs) - start)
        for worker in workers:
            worker.stop()
    assert marks.count() == jobs, f"{marks.count()} runs of {jobs} jobs"
    return rate
