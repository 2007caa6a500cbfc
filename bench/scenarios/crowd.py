"""Can a third process still enqueue while two drain?"""

from __future__ import annotations

import sys
import threading
from time import perf_counter

from bench import fill
from bench.bed import Bed, settled, worker_env
from bench.figures import Figure, at_most, percentile

QUESTION = "How long does a third process wait for its enqueue while two others drain?"
FIGURES = (
    Figure("crowd_p50", "enqueue while two drain: p50", "ms"),
    Figure("crowd_p99", "enqueue while two drain: p99", "ms", (at_most(50),)),
    Figure("crowd_max", "enqueue while two drain: max", "ms", (at_most(250),), counts="worst"),
    Figure("crowd_enqueued", "enqueue while two drain: how many were measured", "jobs"),
    Figure("crowd_drain", "two drain while a third enqueues", "/s", against="drain"),
)


def sample(bed: Bed) -> dict[str, float]:
    jobs, url, marks = bed.scaled(60_000, 6000), bed.sqlite(), bed.marks()
    fill.ready(bed, url, jobs)
    with (
        bed.worker(url, marks=marks, slot=0) as one,
        bed.worker(url, marks=marks, slot=1) as two,
        bed.background(enqueue, env=worker_env(url)) as third,
    ):
        third.listen()
        start = one.go()
        two.go()
        third.tell("go")
        rate = jobs / (settled(url, marks, jobs) - start)
        third.tell("stop")
        waited = third.listen()
        for each in (one, two):
            each.stop()
    bed.drop(url)
    return {
        "crowd_p50": percentile(waited, 0.5),
        "crowd_p99": percentile(waited, 0.99),
        "crowd_max": max(waited),
        "crowd_enqueued": len(waited),
        "crowd_drain": rate,
    }


def enqueue() -> list[float]:
    """One after the other, from `go` until `stop`."""
    from bench.tasks import noop

    noop.using(delay="1d").enqueue(0)
    print("{}", flush=True)
    sys.stdin.readline()
    over = threading.Event()

    def listen() -> None:
        sys.stdin.readline()
        over.set()

    threading.Thread(target=listen, daemon=True).start()
    waited: list[float] = []
    while not over.is_set():
        start = perf_counter()
        noop.using(delay="1d").enqueue(len(waited))
        waited.append((perf_counter() - start) * 1000)
    return waited
