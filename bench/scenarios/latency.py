"""How long after enqueue has returned does the handler start?"""

from __future__ import annotations

import asyncio
import random
from time import monotonic, sleep

from bench.bed import Bed, worker_env
from bench.figures import Figure, at_most, spread

QUESTION = "How long after enqueue has returned does the handler start, on an idle worker?"


def _figures(prefix: str, where: str, bars: tuple[float, float] | None) -> tuple[Figure, ...]:
    p50, p99 = ((at_most(bars[0]),), (at_most(bars[1]),)) if bars else ((), ())
    return (
        Figure(f"{prefix}_p50", f"enqueue → start, {where}: p50", "ms", p50),
        Figure(f"{prefix}_p99", f"enqueue → start, {where}: p99", "ms", p99),
        Figure(f"{prefix}_p999", f"enqueue → start, {where}: p99.9", "ms"),
        Figure(f"{prefix}_max", f"enqueue → start, {where}: max", "ms", counts="worst"),
    )


FIGURES = (
    *_figures("start_same", "same process", (1, 10)),
    *_figures("start_other", "other process", (3, 25)),
    *_figures("pg_start_other", "other process, PostgreSQL", None),
)

# Between two jobs, in seconds; random, so that nothing that ticks can fall into step with it.
GAP = (0.0005, 0.005)
LOST = 30.0


def sample(bed: Bed) -> dict[str, float]:
    jobs = bed.scaled(1000, 100)
    told = spread(_same(bed, jobs), "start_same") | spread(
        _other(bed, bed.sqlite(), jobs), "start_other"
    )
    return told | spread(_other(bed, bed.postgres(), jobs // 2), "pg_start_other")


def _same(bed: Bed, jobs: int) -> list[float]:
    url, marks = bed.sqlite(), bed.marks(jobs)
    told: list[float] = bed.child(same, env=worker_env(url, marks, concurrency=100), jobs=jobs)
    bed.drop(url)
    return told


def _other(bed: Bed, url: str, jobs: int) -> list[float]:
    marks = bed.marks(jobs)
    # The defaults of a worker: this is about waiting, not about throughput.
    with bed.worker(url, marks=marks, concurrency=100) as worker:
        worker.go()
        told: list[float] = bed.child(other, env=worker_env(url, marks), jobs=jobs)
        worker.stop()
    bed.drop(url)
    return told


def same(jobs: int) -> list[float]:
    """Enqueue by `aenqueue` in the event loop that runs the worker."""
    return asyncio.run(_same_loop(jobs))


async def _same_loop(jobs: int) -> list[float]:
    from bench.tasks import app, marks, stamp, stamped

    assert marks is not None
    found: list[float] = []
    async with app.running():
        for number in range(jobs):
            await asyncio.sleep(random.uniform(*GAP))
            stamped.clear()
            await stamp.aenqueue(number)
            returned = monotonic()
            # Asking again and again would keep the worker from its work.
            await asyncio.wait_for(stamped.wait(), LOST)
            # It may have started before this caller had its turn.
            found.append(max(0.0, marks.first[number] - returned) * 1000)
    return found


def other(jobs: int) -> list[float]:
    """Enqueue here; the worker is another process."""
    from bench.tasks import marks, stamp

    assert marks is not None
    found: list[float] = []
    for number in range(jobs):
        sleep(random.uniform(*GAP))
        stamp.enqueue(number)
        returned = monotonic()
        while not marks.first[number]:
            sleep(0.001)
            if monotonic() - returned > LOST:
                raise TimeoutError(f"a job has not started within {LOST:g} s")
        found.append(max(0.0, marks.first[number] - returned) * 1000)
    return found

