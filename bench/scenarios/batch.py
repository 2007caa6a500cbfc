"""What do batches cost: making a large one, working it off, and looking at it?"""

from __future__ import annotations

from time import perf_counter
from typing import Any

from bench.bed import Bed, check_done, worker_env
from bench.figures import Figure, at_least, at_most, percentile
from bench.scenarios.drain import drain, drained

QUESTION = (
    "What do batches cost: making one of 100,000, working it off, looking at one of a million?"
)
FIGURES = (
    Figure("batch_made", "batch of 100,000: made in", "s", (at_most(3),)),
    Figure("batch_plain", "drain of as many jobs without a batch", "/s"),
    Figure("batch_drain", "drain of a batch", "/s", (at_least(0.8, of="batch_plain"),)),
    Figure("batch_progress", "progress of a batch of 1 M: p99", "ms", (at_most(1),)),
    Figure("pg_batch_made", "PostgreSQL: batch of 100,000: made in", "s", (at_most(3),)),
    Figure("pg_batch_plain", "PostgreSQL: drain of as many jobs without a batch", "/s"),
    Figure(
        *("pg_batch_drain", "PostgreSQL: drain of a batch", "/s"),
        (at_least(0.8, of="pg_batch_plain"),),
    ),
)

LOOKS = 1000


def sample(bed: Bed) -> dict[str, float]:
    jobs, served = bed.scaled(100_000, 20_000), bed.scaled(100_000, 10_000)
    told = {"batch_progress": _progress(bed)}
    for prefix, url, count in (("", bed.sqlite(), jobs), ("pg_", bed.postgres(), served)):
        plain = bed.sqlite() if not prefix else bed.postgres()
        seconds = bed.child(make, env=worker_env(url), jobs=count)
        told[f"{prefix}batch_made"] = float(seconds)
        told[f"{prefix}batch_plain"] = drained(bed, plain, count)
        told[f"{prefix}batch_drain"] = drain(bed, url, count)
        check_done(url, "noop", count)
        bed.drop(url)
    return told


def make(jobs: int) -> float:
    """Seconds until a batch is durable, in a database that is open."""
    from bench.tasks import app, noop

    app.status()
    start = perf_counter()
    app.batch(noop, range(jobs))
    taken = perf_counter() - start
    app.close()
    return taken


def _progress(bed: Bed) -> float:
    def filled() -> str:
        url = bed.sqlite()
        bed.child(make, env=worker_env(url), jobs=bed.scaled(1_000_000, 100_000))
        return url

    return percentile(bed.child(look, env=worker_env(bed.once("batch", filled))), 0.99)


def look() -> list[Any]:
    """Milliseconds of each look at the only batch there is."""
    from bench.tasks import app

    [batch] = app.batches()
    times = []
    for _ in range(LOOKS):
        start = perf_counter()
        progress = batch.progress()
        times.append((perf_counter() - start) * 1000)
    assert progress.waiting == batch.total
    app.close()
    return times
