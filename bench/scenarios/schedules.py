"""A hundred thousand schedules: how fast are they fired when all are due, and what do they cost before?"""

from __future__ import annotations

from time import monotonic, sleep

from bench.bed import Bed, looking
from bench.figures import Figure, at_least, at_most
from bench.scenarios.idle import _share, _used

QUESTION = (
    "How fast are schedules fired that are due at once, and what do they cost while they wait?"
)
FIGURES = (
    Figure("fire", "100 k schedules due at once: fired", "/s", (at_least(5000),)),
    Figure("fire_idle_cpu", "100 k schedules that wait: CPU", "% of a core", (at_most(0.3),)),
    Figure("pg_fire", "PostgreSQL, 5 k schedules due at once: fired", "/s", (at_least(5000),)),
)
CHUNK = 1000


def sample(bed: Bed) -> dict[str, float]:
    many, some = bed.scaled(100_000, 5000), bed.scaled(5000, 1000)
    waiting = bed.sqlite()
    bed.child(put, url=waiting, count=many, due=False)
    with bed.worker(waiting) as worker:
        worker.go()
        # What happens once, at the start, is not idling.
        sleep(2)
        before = _used(worker)
        sleep(bed.scaled(10, 3))
        idle = _share(before, _used(worker))
        worker.stop()
    bed.drop(waiting)
    return {
        "fire": fired(bed, bed.sqlite(), many),
        "fire_idle_cpu": idle,
        "pg_fire": fired(bed, bed.postgres(), some),
    }


def fired(bed: Bed, url: str, count: int) -> float:
    """Schedules per second, of a task that nobody here knows: its jobs are made and not run."""
    bed.child(put, url=url, count=count, due=True)
    with bed.worker(url) as worker, looking(url) as look:
        start = worker.go()
        while look("select count(*) from duework_schedule where fires > 0")[0][0] < count:
            sleep(0.05)
        rate = count / (monotonic() - start)
        worker.stop()
    bed.drop(url)
    return rate


def put(url: str, count: int, *, due: bool) -> int:
    """In a process of its own: schedules for tomorrow, or all of them a moment ago."""
    from duework import App

    app = App(url)

    @app.task
    async def tick(number: int) -> None: ...

    slot = app.now() + 86_400_000
    for first in range(0, count, CHUNK):
        with app.transaction() as tx:
            for number in range(first, min(first + CHUNK, count)):
                tx.schedule(tick, every="1d", start=slot, args=(number,), key=f"tick:{number}")
    if due:
        with app.transaction() as tx:
            # To the day: it stays a slot of its rule.
            tx.write(
                "update duework_schedule set slot = :slot, due = :slot", slot=slot - 86_400_000
            )
            tx.write("update duework_job set due = :slot, at = :slot", slot=slot - 86_400_000)
    app.close()
    return count
