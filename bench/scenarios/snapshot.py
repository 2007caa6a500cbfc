"""PostgreSQL keeps dead rows while anybody holds an old snapshot: how much slower does it get?"""

from __future__ import annotations

import psycopg

from bench import fill
from bench.bed import Bed, check_done, settled, until
from bench.figures import Figure, at_least

QUESTION = "PostgreSQL with a foreign snapshot held: are the second 30,000 jobs slower?"
FIGURES = (
    Figure("snapshot_first", "PostgreSQL, snapshot held: first 30,000", "/s", against="pg_drain"),
    Figure(
        *("snapshot_second", "PostgreSQL, snapshot held: second 30,000", "/s"),
        (at_least(0.7, of="snapshot_first"),),
    ),
)


def sample(bed: Bed) -> dict[str, float]:
    half, url, marks = bed.scaled(30_000, 3000), bed.postgres(), bed.marks()
    fill.ready(bed, url, 2 * half)
    with psycopg.connect(url) as holder, bed.worker(url, marks=marks) as worker:
        holder.execute("set transaction isolation level repeatable read")
        holder.execute("select count(*) from duework_job")
        start = worker.go()
        middle = until(lambda: marks.count() >= half)
        at_middle = marks.count()
        end = settled(url, marks, 2 * half)
        worker.stop()
    check_done(url, "noop", 2 * half)
    bed.drop(url)
    return {
        "snapshot_first": at_middle / (middle - start),
        "snapshot_second": (2 * half - at_middle) / (end - middle),
    }
