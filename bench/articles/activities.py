"""Article 004, syncs by pages: a thousand by the size of a page, memory, and what is fetched again."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.articles.figure import Figure
from duework.testing import Harness
from systems.strides import app as strides
from systems.strides import sync
from systems.strides.part import PER_CALL, part
from systems.strides.seed import seed
from systems.strides.settings import Settings
from systems.twins import Strava, twins

ATHLETE = 7001
# The article's sizes, and the calls of 200 that come next to them.
SIZES = {500: 3, 1000: 5, 1500: 8}


@contextmanager
def system(count: int, *, calls: int = 0) -> Iterator[tuple[Harness, Strava]]:
    """The system alone, with an athlete of so many activities and limits that nobody reaches."""
    before = part.settings
    with Harness(strides, schedules=False) as h, twins(h.clock, "strava") as t:
        part._settings = Settings(strava_url=t.strava.url, page_calls=calls)  # noqa: SLF001
        t.strava.set_limits(overall=(100_000, 1_000_000), read=(100_000, 1_000_000))
        t.strava.add_athlete(ATHLETE, count)
        assert len(t.strava.athletes[ATHLETE].activities) == count
        try:
            yield h, t.strava
        finally:
            part._settings = before  # noqa: SLF001


def stored() -> set[int]:
    rows = part.app.read("select id from strides_activity where athlete_id = :id", id=ATHLETE)
    return {row.id for row in rows}


def sizes(*, quick: bool) -> list[Figure]:
    """Seconds for a thousand activities, by the size of a page; calls take no time here."""
    count, found = 1_000 if quick else 10_000, []
    for theirs, calls in SIZES.items():
        with system(count, calls=calls) as (h, _):
            seed(h.app, 1, first=ATHLETE)
            began = time.perf_counter()
            h.drain()
            took = time.perf_counter() - began
            assert len(stored()) == count
        what = (
            f"a thousand of {count:,} activities, in pages of {calls * PER_CALL:,} (for {theirs:,})"
        )
        ours = f"{took / count * 1000:.2f} s"
        found.append(Figure("004", what, "2 to 5 s", ours, "the calls alone"))
    return found


def memory(*, quick: bool) -> list[Figure]:
    """How much a process grows by while it syncs."""
    counts = (1_000,) if quick else (10_000, 100_000)
    return [_memory(count) for count in counts]


def _memory(count: int) -> Figure:
    draw = random.Random(1)
    with system(count) as (h, _):
        seed(h.app, 1, first=ATHLETE)
        before = highest = resident()
        while _chain().state == "active":
            # A worker that dies now and then, so that there is a moment to look.
            h.crash_worker(at=draw.randrange(150, 400))
            highest = max(highest, resident())
        assert len(stored()) == count
    ours = f"{highest - before:.0f} MiB more"
    return Figure("004", f"memory of a sync of {count:,}", "that of 1,000", ours, "that of a page")


def _chain() -> Any:
    chain = sync.latest(ATHLETE)
    assert chain is not None
    return chain


def resident() -> float:
    """MiB of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def fetched_again(count: int) -> tuple[int, int]:
    """How many activities that are stored are fetched once more by a resume; and how many were stored."""
    with system(count, calls=5) as (h, strava):
        # Enough for two pages in this quarter of an hour.
        strava.set_limits(overall=(1_000, 1_000), read=(12, 1_000))
        [session] = seed(h.app, 1, first=ATHLETE)
        h.drain()
        sync.cancel(session)
        strava.set_limits(overall=(100_000, 1_000_000), read=(100_000, 1_000_000))
        there, asked = stored(), len(strava.log.of("activities"))
        sync.resume(session)
        h.advance("31m")
        every = strava.athletes[ATHLETE].activities
        again = 0
        for call in strava.log.of("activities")[asked:]:
            below = [one.id for one in every if one.start < call.notes["before"]]
            again += len(there & set(below[: call.notes["items"]]))
        assert len(stored()) == count
    return again, len(there)


def resume(*, quick: bool) -> list[Figure]:
    """A sync that was stopped goes on: what is fetched of what is there already."""
    again, _ = fetched_again(3_000 if quick else 10_000)
    what = "activities fetched again at a resume; the border second is asked for once more"
    return [Figure("004", what, "1,000", str(again), "0")]


def killed(*, quick: bool) -> list[Figure]:
    """A worker dies half-way through: how many calls had to be made once more."""
    count = 2_000 if quick else 10_000
    calls, least = calls_with_a_kill(count)
    # One invocation that loops stores at its end: the half that it had is fetched again.
    theirs = f"{count // 2 // PER_CALL}: all of them"
    what = f"calls made again after a kill half-way through {count:,} activities"
    return [Figure("004", what, theirs, str(calls - least), "0")]


def calls_with_a_kill(count: int) -> tuple[int, int]:
    """The calls of a sync with a kill in the middle, and of one without."""
    made, statements = [], 10**9
    for _ in range(2):
        with system(count, calls=5) as (h, strava):
            seed(h.app, 1, first=ATHLETE)
            h.crash_worker(at=statements // 2)
            statements = h.statements
            h.drain()
            assert len(stored()) == count
            made.append(len(strava.log.of("activities")))
    return made[1], made[0]


FIGURES: dict[str, Callable[..., list[Figure]]] = {
    "sizes": sizes,
    "memory": memory,
    "resume": resume,
    "killed": killed,
}
