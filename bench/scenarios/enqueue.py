"""How many jobs per second can be enqueued, each answered after its commit?"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from time import perf_counter

from bench.bed import Bed, looking, worker_env
from bench.figures import Figure, at_least
from bench.scenarios import raw_postgres, raw_sqlite

QUESTION = "How many jobs per second can be enqueued, each caller answered after the commit?"
FIGURES = (
    Figure("raw_single", "raw SQLite: one row per commit", "/s"),
    Figure("enqueue", "enqueue, one caller", "/s", (at_least(0.7, of="raw_single"),)),
    Figure("aenqueue", "aenqueue, one caller", "/s", (at_least(0.45, of="raw_single"),)),
    Figure("enqueue_async", "aenqueue, 100 concurrent callers", "/s", (at_least(25_000),)),
    Figure("enqueue_threads", "enqueue, 100 threads", "/s"),
    Figure("enqueue_many", "enqueue_many, 1,000 a call", "/s", (at_least(100_000),), "raw_bulk"),
    Figure("enqueue_many_10k", "enqueue_many, 10,000 a call", "/s", against="raw_bulk"),
    Figure("raw_pg_single", "raw PostgreSQL: one row per commit", "/s"),
    Figure("pg_enqueue", "PostgreSQL: enqueue, one caller", "/s", against="raw_pg_single"),
    Figure("pg_aenqueue", "PostgreSQL: aenqueue, one caller", "/s", against="raw_pg_single"),
    Figure("pg_enqueue_async", "PostgreSQL: aenqueue, 100 concurrent callers", "/s"),
    Figure("pg_enqueue_many", "PostgreSQL: enqueue_many, 1,000 a call", "/s"),
)

CALLERS = 100
# One caller and the bare database take turns: a disk has better and worse seconds.
SLICE = 100


def sample(bed: Bed) -> dict[str, float]:
    many, bulk = bed.scaled(20_000, 3000), bed.scaled(50_000, 10_000)
    plan: dict[str, tuple[Callable[..., float], int]] = {
        "enqueue_async": (concurrent, many),
        "enqueue_threads": (threads, bed.scaled(5000, 2000)),
        "enqueue_many": (bulk_1k, bulk),
        "enqueue_many_10k": (bulk_10k, bulk),
    }
    rates = {name: _rate(bed, bed.sqlite(), *chosen) for name, chosen in plan.items()}
    served: dict[str, tuple[Callable[..., float], int]] = {
        "pg_enqueue_async": (concurrent, bed.scaled(10_000, 2000)),
        "pg_enqueue_many": (bulk_1k, bed.scaled(20_000, 5000)),
    }
    rates |= {name: _rate(bed, bed.postgres(), *chosen) for name, chosen in served.items()}
    rates |= _singles(bed, bed.sqlite, bed.scaled(40, 4))
    return rates | _singles(bed, bed.postgres, bed.scaled(15, 3))


def _singles(bed: Bed, database: Callable[[], str], slices: int) -> dict[str, float]:
    ours, raw = database(), database()
    rates: dict[str, float] = bed.child(in_turn, env=worker_env(ours), raw=raw, slices=slices)
    bed.drop(ours)
    bed.drop(raw)
    return rates


def _rate(bed: Bed, url: str, function: Callable[..., float], jobs: int) -> float:
    seconds = bed.child(function, env=worker_env(url), jobs=jobs)
    with looking(url) as look:
        found = look("select count(*) from duework_job where task like '%noop'")[0][0]
    assert found == jobs + 1, f"{found} rows of {jobs} jobs and the one that opened the database"
    bed.drop(url)
    return jobs / float(seconds)


def single(jobs: int) -> float:
    from bench.tasks import noop

    noop.enqueue(0)
    start = perf_counter()
    for number in range(jobs):
        noop.enqueue(number)
    return perf_counter() - start


def in_turn(raw: str, slices: int) -> dict[str, float]:
    """One caller by `enqueue` and by `aenqueue`, and a bare insert, a slice at a time."""
    return asyncio.run(_in_turn(raw, slices))


async def _in_turn(raw: str, slices: int) -> dict[str, float]:
    from bench.tasks import noop

    bare = _bare(raw)

    async def by_itself(number: int) -> None:
        bare(number)

    async def called(number: int) -> None:
        noop.enqueue(number)

    prefix = "" if raw.startswith("sqlite:") else "pg_"
    ways: dict[str, Callable[[int], Awaitable[object]]] = {
        f"raw_{prefix}single": by_itself,
        f"{prefix}enqueue": called,
        f"{prefix}aenqueue": noop.aenqueue,
    }
    took = dict.fromkeys(ways, 0.0)
    for first in range(-SLICE, slices * SLICE, SLICE):
        for name, way in ways.items():
            start = perf_counter()
            for number in range(first, first + SLICE):
                await way(number)
            # The first slice opens, prepares and warms up.
            took[name] += perf_counter() - start if first >= 0 else 0.0
    return {name: slices * SLICE / seconds for name, seconds in took.items()}


def _bare(url: str) -> Callable[[int], object]:
    if url.startswith("sqlite:"):
        file = raw_sqlite.opened(url)
        return lambda number: file.execute(raw_sqlite.INSERT, (number, '{"number":1}'))
    server = raw_postgres.opened(url)
    return lambda number: server.execute(raw_postgres.INSERT, (number,), prepare=True)


def concurrent(jobs: int) -> float:
    return asyncio.run(_callers(jobs, CALLERS))


async def _callers(jobs: int, callers: int) -> float:
    from bench.tasks import noop

    async def caller(first: int) -> None:
        for number in range(first, jobs, callers):
            await noop.aenqueue(number)

    await noop.aenqueue(0)
    start = perf_counter()
    await asyncio.gather(*(caller(first) for first in range(callers)))
    return perf_counter() - start


def threads(jobs: int) -> float:
    from bench.tasks import noop

    def caller(first: int) -> None:
        for number in range(first, jobs, CALLERS):
            noop.enqueue(number)

    noop.enqueue(0)
    callers = [threading.Thread(target=caller, args=(first,)) for first in range(CALLERS)]
    start = perf_counter()
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join()
    return perf_counter() - start


def bulk_1k(jobs: int) -> float:
    return _bulk(jobs, 1000)


def bulk_10k(jobs: int) -> float:
    return _bulk(jobs, 10_000)


def _bulk(jobs: int, size: int) -> float:
    from bench.tasks import noop

    noop.enqueue(0)
    start = perf_counter()
    for first in range(0, jobs, size):
        noop.enqueue_many([(number,) for number in range(first, first + size)])
    return perf_counter() - start
