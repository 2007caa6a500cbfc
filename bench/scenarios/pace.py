"""Does a paced queue keep its rate over two processes, and never go above it?"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from contextlib import ExitStack
from time import sleep

from bench import fill
from bench.bed import Bed
from bench.figures import Figure, at_least, at_most

RATE, BURST = 1000, 200
QUESTION = f"Two processes, one pace of {RATE}/s: how many start in each second, by the clock?"
FIGURES = tuple(
    figure
    for key, words in (("pace", "paced"), ("pg_pace", "PostgreSQL: paced"))
    for figure in (
        Figure(f"{key}_mean", f"{words} 1,000/s, two processes: mean", "/s", (at_least(950),)),
        Figure(
            *(f"{key}_period", f"{words}: most in a second of the clock", "jobs"),
            (at_most(RATE),),
            counts="worst",
        ),
        Figure(
            *(f"{key}_sliding", f"{words}: most in any second", "jobs"),
            (at_most(RATE + BURST),),
            counts="worst",
        ),
    )
)


def sample(bed: Bed) -> dict[str, float]:
    seconds = bed.scaled(30, 4)
    return {
        f"{key}_{name}": value
        for key, url in (("pace", bed.sqlite()), ("pg_pace", bed.postgres()))
        for name, value in paced(bed, url, seconds).items()
    }


def paced(bed: Bed, url: str, seconds: int) -> dict[str, float]:
    jobs = RATE * (seconds + 4)
    marks = bed.marks(jobs)
    fill.ready(bed, url, jobs, task="paced")
    with ExitStack() as stack:
        workers = [
            stack.enter_context(bed.worker(url, marks=marks, slot=slot, concurrency=100))
            for slot in range(2)
        ]
        for worker in workers:
            worker.go()
        sleep(seconds + 2)
        for worker in workers:
            worker.stop()
    starts = sorted(each for each in marks.first if each)
    bed.drop(url)
    return judged(starts)


def judged(starts: list[float]) -> dict[str, float]:
    """Of whole seconds, without the first and the last, in which there was not always work."""
    periods = Counter(int(each) for each in starts)
    whole = [periods[second] for second in range(min(periods) + 1, max(periods))]
    sliding = max(bisect_left(starts, each + 1) - place for place, each in enumerate(starts))
    return {
        "mean": sum(whole) / len(whole),
        "period": max(periods.values()),
        "sliding": sliding,
    }
