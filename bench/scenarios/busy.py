"""What a worker of the command line drains, alone and beside a job that computes."""

from __future__ import annotations

import os
import sys
from time import monotonic

from bench import fill
from bench.bed import Bed, ScenarioFailed, check_done, settled, talking, until, worker_env
from bench.figures import Figure
from bench.marks import Marks

QUESTION = "How many no-op async jobs per second does `duework run` drain, alone and beside a computing job?"
FIGURES = (
    Figure("run", "duework run, 100 at once (default)", "/s", against="drain_100"),
    Figure("run_busy", "duework run, beside a `def` job that computes", "/s", against="run"),
    Figure("run_apart", 'duework run, beside one with isolation="process"', "/s", against="run"),
)
# Of a process that imports, opens and logs by itself, the middle is measured.
FROM, TO = 0.1, 0.9


def sample(bed: Bed) -> dict[str, float]:
    jobs, few = bed.scaled(40_000, 8000), bed.scaled(20_000, 4000)
    return {
        "run": drained(bed, jobs),
        "run_busy": drained(bed, few, beside="compute"),
        "run_apart": drained(bed, few, beside="compute_apart"),
    }


def _reached(marks: Marks, count: float) -> tuple[int, float]:
    """How many have run when at least so many have, and the moment."""
    until(lambda: marks.count() >= count)
    return marks.count(), monotonic()


def drained(bed: Bed, jobs: int, *, beside: str | None = None) -> float:
    """Jobs per second of the middle; a computing job starts first and ends with the last of them."""
    url, marks = bed.sqlite(), bed.marks()
    if beside is not None:
        fill.ready(bed, url, 1, task=beside, more=(jobs,))
    fill.ready(bed, url, jobs)
    command = [sys.executable, "-m", "duework", "run", "bench.tasks:app", "--no-view"]
    with talking(command, os.environ | worker_env(url, marks, concurrency=100)) as worker:
        first, began = _reached(marks, jobs * FROM)
        last, ended = _reached(marks, jobs * TO)
        settled(url, marks, jobs)
        worker.process.terminate()
        if worker.process.wait(30):
            raise ScenarioFailed(f"duework run ended with {worker.process.returncode}")
    check_done(url, "noop", jobs)
    bed.drop(url)
    return (last - first) / (ended - began)
