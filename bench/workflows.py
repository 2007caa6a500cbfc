"""Workflows of five steps, each with an effect: how many a second, and every effect once.

    python -m bench.workflows [COUNT] [URL]

The rate is printed with the counts that prove it: one row for each step of each workflow, no more, no less.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from duework import App, Run

STEPS = 5
TABLE = "create table bench_effect (job bigint, step bigint)"
WRITE = "insert into bench_effect (job, step) values (:job, :step)"


@dataclass(frozen=True)
class Outcome:
    """What came of a run: how many effects there are, how many twice, how long it took."""

    workflows: int
    effects: int
    twice: int
    violations: int
    seconds: float

    @property
    def whole(self) -> bool:
        return (self.effects, self.twice, self.violations) == (STEPS * self.workflows, 0, 0)


def run(url: str, count: int) -> Outcome:
    """Run so many workflows in this process, and count."""
    app = App(url)
    with app.transaction() as tx:
        tx.write(TABLE)

    @app.task
    async def flow(run: Run) -> int:
        async def effect(step: int) -> int:
            run.write(WRITE, job=run.job.id, step=step)
            return step

        return sum([await run.step(f"step-{step}", effect, step) for step in range(STEPS)])

    async def work() -> float:
        async with app.running():
            began = perf_counter()
            jobs = flow.enqueue_many([()] * count)
            for job in jobs:
                await job.await_("10m")
            return perf_counter() - began

    seconds = asyncio.run(work())
    [row] = app.read("select count(*) as n from bench_effect")
    twice = app.read("select job from bench_effect group by job, step having count(*) > 1")
    broken = sum(each.violations for each in app.admin.verify())
    app.close()
    return Outcome(count, row.n, len(twice), broken, seconds)


def main(arguments: list[str]) -> int:
    count = int(arguments[0]) if arguments else 10_000
    with tempfile.TemporaryDirectory() as folder:
        url = arguments[1] if len(arguments) > 1 else f"sqlite:///{Path(folder) / 'bench.db'}"
        found = run(url, count)
    rate = found.workflows / found.seconds
    print(f"{found.workflows:,} workflows of {STEPS} steps in {found.seconds:.1f} s: {rate:,.0f}/s")
    print(f"{found.effects:,} effects, {found.twice} twice, {found.violations} violations")
    return 0 if found.whole else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
