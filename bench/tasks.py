"""The tasks that are measured, and the App they belong to; every process of a scenario imports this.

BENCH_URL is the database, BENCH_CONCURRENCY how many async jobs run at once, BENCH_MARKS the file of
marks, and BENCH_SLOT this process's counter in it.
"""

from __future__ import annotations

import asyncio
import os
from time import monotonic, time

from bench.marks import Marks
from duework import App, Rate, Run

EFFECT = "create table if not exists effect (job bigint not null)"

app = App(
    os.environ.get("BENCH_URL", "sqlite:///never-opened.db"),
    concurrency=int(os.environ.get("BENCH_CONCURRENCY", "100")),
)
marks = Marks(os.environ["BENCH_MARKS"]) if "BENCH_MARKS" in os.environ else None
_slot = int(os.environ.get("BENCH_SLOT", "0"))
_counts = marks.counts if marks is not None else memoryview(bytearray(8 * (_slot + 1))).cast("Q")
# Set by each `stamp` in this process.
stamped = asyncio.Event()


@app.task
async def noop(number: int) -> None:  # noqa: ARG001 - a job has an argument
    """As near to nothing as can be counted."""
    _counts[_slot] += 1


@app.task
async def stamp(number: int) -> None:
    """Leaves the moment of its start."""
    assert marks is not None
    marks.first[number] = monotonic()
    stamped.set()


@app.task
async def work(run: Run, number: int, milliseconds: float) -> None:
    """Takes a while, and has one effect that commits with its outcome."""
    assert marks is not None
    marks.start(number)
    run.write("insert into effect (job) values (:job)", job=number)
    await asyncio.sleep(milliseconds / 1000)
    marks.end(number)


def _computing(jobs: int) -> None:
    """Pure Python until so many `noop`s have run."""
    while _counts[_slot] < jobs:
        pass


@app.task(priority=1)
def compute(number: int, jobs: int) -> None:  # noqa: ARG001 - a job has a number
    """Keeps the interpreter busy, in a thread of the worker's process."""
    _computing(jobs)


@app.task(priority=1, isolation="process")
def compute_apart(number: int, jobs: int) -> None:  # noqa: ARG001 - a job has a number
    """The same in a process of its own."""
    _computing(jobs)


@app.task(pace=Rate("1000/1s", name="bench"))
async def paced(number: int) -> None:
    """Leaves the time of its start, by the clock."""
    assert marks is not None
    marks.first[number] = time()


def counted() -> int:
    """How many `noop`s this process has run."""
    return int(_counts[_slot])
