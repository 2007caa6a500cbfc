"""How many calls of durable objects per second, each answered after its commit?"""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import Any

from bench.bed import Bed, looking, worker_env
from bench.figures import Figure, at_least, at_most

QUESTION = "How many calls of durable objects per second, each answered after its commit?"
FIGURES = (
    Figure("objects", "objects: 10,000 of them, 50 callers", "/s", (at_least(6000),)),
    Figure("objects_new", "objects: making 10,000 of them, 50 callers", "/s"),
    Figure("objects_hot", "objects: one of them, 50 callers", "/s"),
    Figure("objects_read", "objects: reading 200 of them, 50 callers", "/s"),
    Figure("objects_queries", "objects: 100 queries in a method", "ms", (at_most(2),)),
    Figure("objects_12mb", "objects: a call on one of 12 MB", "ms"),
    Figure("pg_objects", "PostgreSQL: objects, 50 callers", "/s"),
)
CALLERS = 50


def sample(bed: Bed) -> dict[str, float]:
    url, many = bed.sqlite(), bed.scaled(10_000, 1500)
    found: dict[str, float] = bed.child(calls, env=worker_env(url), objects=many)
    with looking(url) as look:
        stored = look("select count(*) from duework_object")[0][0]
    assert stored == many + 2, f"{stored} objects are stored"
    bed.drop(url)
    served = bed.postgres()
    there = bed.child(calls_there, env=worker_env(served), objects=bed.scaled(2000, 300))
    bed.drop(served)
    return found | {"pg_objects": there}


def _kind() -> Any:
    from duework import DurableObject

    class Flight(DurableObject):
        def open(self) -> None:
            self.sql("create table if not exists seat (id text primary key, occupant text)")

        def assign(self, seat: str, occupant: str) -> None:
            text = "insert into seat values (:seat, :who) on conflict do update set occupant = :who"
            self.sql(text, seat=seat, who=occupant)

        def seats(self) -> int:
            return int(self.sql("select count(*) as n from seat")[0].n)

        def fill(self, lines: int) -> None:
            for line in range(lines):
                self.assign(f"{line}", "x" * 3900)

        def queries(self) -> float:
            start = perf_counter()
            for seat in range(100):
                self.sql("select occupant from seat where id = :seat", seat=f"{seat}")
            return (perf_counter() - start) * 1000

    return Flight


async def _rate(app: Any, kind: Any, keys: list[str], method: str, *args: str) -> float:
    left = iter(keys)

    async def caller() -> None:
        for key in left:
            await getattr(app.object(kind, key), method)(*args)

    start = perf_counter()
    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    return len(keys) / (perf_counter() - start)


def calls(objects: int) -> dict[str, float]:
    from bench.tasks import app

    kind, keys = _kind(), [f"k{n}" for n in range(objects)]
    hot, large = app.object(kind, "hot"), app.object(kind, "large")
    hot.fill(100).result()
    large.fill(3000).result()
    start = perf_counter()
    for _ in range(20):
        large.assign("7", "y").result()
    found = {"objects_12mb": (perf_counter() - start) / 20 * 1000}
    found["objects_queries"] = min(hot.queries().result() for _ in range(20))

    async def run() -> None:
        found["objects_new"] = await _rate(app, kind, keys, "assign", "12A", "ada")
        found["objects"] = await _rate(app, kind, keys, "assign", "12A", "bob")
        found["objects_hot"] = await _rate(app, kind, ["hot"] * objects, "assign", "12A", "ada")
        few = [f"k{n % 200}" for n in range(objects)]
        found["objects_read"] = await _rate(app, kind, few, "seats")

    asyncio.run(run())
    return found


def calls_there(objects: int) -> float:
    from bench.tasks import app

    kind, keys = _kind(), [f"k{n}" for n in range(objects)]

    async def run() -> float:
        await _rate(app, kind, keys, "assign", "12A", "ada")
        return await _rate(app, kind, keys, "assign", "12A", "bob")

    return asyncio.run(run())
