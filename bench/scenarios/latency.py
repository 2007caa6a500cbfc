"""How long after enqueue has returned does the handler start?"""

from __future__ import annotations

import asyncio
import random
from time import monotonic, sleep

from bench.bed import Bed, worker_env
from bench.figures import Bar, Figure, at_most, percentile, spread
from bench.peers.protocol import await_turn

QUESTION = "How long after enqueue has returned does the handler start, on an idle worker?"


def _figures(
    prefix: str,
    where: str,
    p50: float | None = None,
    p99: float | None = None,
    call_p50: float | None = None,
) -> tuple[Figure, ...]:
    return (
        Figure(f"{prefix}_p50", f"enqueue → start, {where}: p50", "ms", _bar(p50)),
        Figure(f"{prefix}_p99", f"enqueue → start, {where}: p99", "ms", _bar(p99)),
        Figure(f"{prefix}_p999", f"enqueue → start, {where}: p99.9", "ms"),
        Figure(f"{prefix}_max", f"enqueue → start, {where}: max", "ms", counts="worst"),
        Figure(
            f"{prefix}_call_p50", f"call of enqueue → start, {where}: p50", "ms", _bar(call_p50)
        ),
    )


def _bar(limit: float | None) -> tuple[Bar, ...]:
    return () if limit is None else (at_most(limit),)


FIGURES = (
    *_figures("start_same", "same process", p50=1, p99=10),
    *_figures("start_other", "other process", p99=25, call_p50=3),
    *_figures("pg_start_other", "other process, PostgreSQL"),
)

# Between two jobs, in seconds; random, so that nothing that ticks can fall into step with it.
GAP = (0.0005, 0.005)
LOST = 30.0
# Milliseconds from the call of enqueue, and from its return, to the handler's start.
Wait = tuple[float, float]


def sample(bed: Bed) -> dict[str, float]:
    jobs = bed.scaled(1000, 100)
    waits = {
        "start_same": _same(bed, jobs),
        "start_other": _other(bed, bed.sqlite(), jobs),
        "pg_start_other": _other(bed, bed.postgres(), jobs // 2),
    }
    told: dict[str, float] = {}
    for prefix, found in waits.items():
        told |= spread([returned for _, returned in found], prefix)
        told[f"{prefix}_call_p50"] = percentile([called for called, _ in found], 0.5)
    return told


def _same(bed: Bed, jobs: int) -> list[Wait]:
    url, marks = bed.sqlite(), bed.marks(jobs)
    told: list[Wait] = bed.child(same, env=worker_env(url, marks, concurrency=100), jobs=jobs)
    bed.drop(url)
    return told


def _other(bed: Bed, url: str, jobs: int) -> list[Wait]:
    marks = bed.marks(jobs)
    # The defaults of a worker: this is about waiting, not about throughput.
    with bed.worker(url, marks=marks, concurrency=100) as worker:
        worker.go()
        told: list[Wait] = bed.child(other, env=worker_env(url, marks), jobs=jobs)
        worker.stop()
    bed.drop(url)
    return told


def same(
    jobs: int, gap: tuple[float, float] = GAP, before: int = 0, turn: int | None = None
) -> list[Wait]:
    """Enqueue by `aenqueue` in the event loop that runs the worker, after so many other jobs.

    With `turn`, so many at a time, whenever it is told to.
    """
    return asyncio.run(_same_loop(jobs, gap, before, turn))


async def _same_loop(
    jobs: int, gap: tuple[float, float], before: int, turn: int | None
) -> list[Wait]:
    from bench.tasks import app, counted, marks, noop, stamp, stamped

    assert marks is not None
    found: list[Wait] = []
    async with app.running():
        await noop.aenqueue_many([(number,) for number in range(before)])
        while counted() < before:  # noqa: ASYNC110 - jobs that count tell nobody
            await asyncio.sleep(0.01)
        for number in range(jobs):
            if turn is not None and not number % turn:
                await asyncio.to_thread(await_turn)
            await asyncio.sleep(random.uniform(*gap))
            stamped.clear()
            called = monotonic()
            await stamp.aenqueue(number)
            returned = monotonic()
            # Asking again and again would keep the worker from its work, and so would a timeout of its own.
            await stamped.wait()
            found.append(_waited(marks.first[number], called, returned))
    return found


def other(
    jobs: int, gap: tuple[float, float] = GAP, before: int = 0, turn: int | None = None
) -> list[Wait]:
    """Enqueue here, after so many other jobs; the worker is another process.

    With `turn`, so many at a time, when told to.
    """
    from bench.tasks import marks, noop, stamp

    assert marks is not None
    noop.enqueue_many([(number,) for number in range(before)])
    while sum(marks.counts) < before:
        sleep(0.01)
    found: list[Wait] = []
    for number in range(jobs):
        if turn is not None and not number % turn:
            await_turn()
        sleep(random.uniform(*gap))
        called = monotonic()
        stamp.enqueue(number)
        returned = monotonic()
        while not marks.first[number]:
            sleep(0.001)
            if monotonic() - returned > LOST:
                raise TimeoutError(f"a job has not started within {LOST:g} s")
        found.append(_waited(marks.first[number], called, returned))
    return found


def _waited(started: float, called: float, returned: float) -> Wait:
    """It may have started before the caller had its turn again: then nobody waited."""
    return (started - called) * 1000, max(0.0, started - returned) * 1000
