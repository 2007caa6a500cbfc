"""What does a kill -9 in the middle of 2,000 jobs lose, repeat and delay?"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from bench import fill
from bench.bed import Bed, ScenarioFailed, Talker, looking, until
from bench.figures import Figure, at_most, percentile
from bench.marks import Marks

QUESTION = "kill -9 in the middle of 2,000 jobs: what is lost, repeated, and how soon is it back?"


def _figures(prefix: str, where: str) -> tuple[Figure, ...]:
    return (
        Figure(f"{prefix}_lost", f"kill -9, {where}: lost", "jobs", (at_most(0),), counts="worst"),
        Figure(
            *(f"{prefix}_twice", f"kill -9, {where}: completed twice", "jobs", (at_most(0),)),
            counts="worst",
        ),
        Figure(f"{prefix}_held", f"kill -9, {where}: to be run again", "jobs"),
        Figure(f"{prefix}_p50", f"kill -9, {where}: started again, p50", "s"),
        Figure(f"{prefix}_p99", f"kill -9, {where}: started again, p99", "s", (at_most(2),)),
        Figure(f"{prefix}_max", f"kill -9, {where}: started again, max", "s", counts="worst"),
        Figure(f"{prefix}_all", f"kill -9, {where}: all 2,000 done after", "s"),
    )


FIGURES = (*_figures("kill", "restarted"), *_figures("kill_one", "one of two"))

JOBS = 2000
MILLISECONDS = 10.0
WITHIN = 60.0
OPEN = "select count(*) from duework_job where task like '%work' and state <> 'done'"
LEASED_BY = """
select payload from duework_job join duework_worker on duework_worker.id = duework_job.worker
where pid = {pid}
"""
EFFECTS = "select count(*), count(distinct job) from effect"


def sample(bed: Bed) -> dict[str, float]:
    return _killed(bed, "kill", survivor=False) | _killed(bed, "kill_one", survivor=True)


def _killed(bed: Bed, prefix: str, *, survivor: bool) -> dict[str, float]:
    url, marks = bed.sqlite(), bed.marks(JOBS)
    fill.ready(bed, url, JOBS, task="work", more=(MILLISECONDS,))
    # 100 at once, as a worker has it by default.
    with (
        bed.worker(url, marks=marks, concurrency=100) as first,
        bed.worker(url, marks=marks, concurrency=100) as second,
    ):
        first.go()
        if survivor:
            second.go()
        until(lambda: marks.ended() >= JOBS // 3, every=0.0005)
        killed = first.kill()
        with looking(url) as look:
            held = _held(look, first, marks, killed)
            if not survivor:
                second.go()
            ended = until(lambda: not look(OPEN)[0][0], WITHIN, every=0.01)
            written, distinct = look(EFFECTS)[0]
        second.stop()
    bed.drop(url)
    back = [marks.last[job] - killed for job in held if marks.last[job] > killed]
    if not back:
        raise ScenarioFailed("nothing was running when the worker was killed")
    return {
        f"{prefix}_lost": JOBS - distinct,
        f"{prefix}_twice": written - distinct,
        f"{prefix}_held": len(back),
        f"{prefix}_p50": percentile(back, 0.5),
        f"{prefix}_p99": percentile(back, 0.99),
        f"{prefix}_max": max(back),
        f"{prefix}_all": ended - killed,
    }


def _held(
    look: Callable[[str], list[Any]], worker: Talker, marks: Marks, killed: float
) -> set[int]:
    """The jobs that the dead worker had leased, as far as nobody has taken them over yet."""
    leased = {json.loads(row[0])["number"] for row in look(LEASED_BY.format(pid=worker.pid))}
    return leased | {job for job in range(JOBS) if 0 < marks.first[job] < killed}
