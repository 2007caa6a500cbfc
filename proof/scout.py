"""Scout finds what there is: charts, searches, portfolios and pages of an invented App Store, under faults.

python -m proof.scout --apps 5000 --hours 24     another size than those of the proof
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any
from unittest.mock import patch

from duework import App
from duework.testing import Harness
from proof.mails import most_in
from proof.section import Result, Scale, Section, tell
from systems.scout import client
from systems.scout.crawl import categories, gaps
from systems.scout.part import part
from systems.scout.settings import Settings
from systems.twins import Apple, twins

HOUR, MINUTE = 3_600_000, 60_000
ALLOWED = 20
FAULTS: list[dict[str, Any]] = [
    {"route": "*", "calls": "1%", "do": "status", "status": 403},
    {"route": "*", "calls": "1%", "do": "status", "status": 500},
    {"route": "*", "calls": "1%", "do": "drop_after"},
    {"route": "*", "calls": "0.5%", "do": "malformed"},
]
# Which calls close which gap.
CALLS = {"category": "chart", "keyword": "search", "enrichment": "lookup", "page": "page"}


@dataclass(frozen=True)
class Size:
    """How many apps there are, for how long, how much of a chart is shown, and how much is to be found."""

    apps: int
    hours: int
    chart: int
    share: float
    kills: int
    # A day of new apps.
    growth: int = 0


SIZES: dict[Scale, Size] = {
    "short": Size(apps=500, hours=2, chart=10, share=1.0, kills=10),
    "full": Size(apps=50_000, hours=144, chart=200, share=0.97, kills=500, growth=200),
}


@dataclass
class Seen:
    """What was seen on the way: by the twin's own books, which keep the latest calls alone."""

    times: list[int] = field(default_factory=list)
    last: int = 0
    kills: int = 0
    starved: list[str] = field(default_factory=list)
    # Hours, calls, searches, apps.
    curve: list[tuple[float, int, int, int]] = field(default_factory=list)

    def look(self, apple: Apple) -> dict[str, int]:
        """New calls by route."""
        found: dict[str, int] = {}
        for call in apple.log.entries:
            if call.n > self.last:
                self.times.append(call.at)
                found[call.route] = found.get(call.route, 0) + 1
        self.last = apple.log.calls
        return found


@contextmanager
def shop(size: Size, seed: int) -> Iterator[tuple[App, Harness, Apple]]:
    """Scout alone, and Apple with so many apps."""
    app = App()
    app.include(part)
    with Harness(app) as h, twins(h.clock, "apple", seed=seed) as t:
        t.apple.count, t.apple.growth = size.apps, size.growth
        t.apple.set_chart_cap(size.chart)
        t.apple.faults.set(FAULTS, seed)
        with patch.object(part, "_settings", Settings(apple_url=t.apple.url)):
            with app.transaction() as tx:
                categories.add(tx)
            h.drain()
            # This is about finding; clusters have tests of their own.
            app.get_schedule("scout.cluster").pause()
            yield app, h, t.apple


def run(scale: Scale, seed: int) -> Result:
    return look_for(SIZES[scale], seed)


def look_for(size: Size, seed: int) -> Result:
    """Let scout live for so long, and compare what it has with what there is."""
    result = Result(seed=seed)
    with shop(size, seed) as (app, h, apple):
        seen = live(app, h, apple, size, random.Random(seed))
        judge(app, apple, size, seen, result)
    result.planted["every search asks twice"] = _finds_double_calls(seed)
    result.planted["an app under a number of its own"] = _finds_strangers(seed)
    return result


def live(app: App, h: Harness, apple: Apple, size: Size, draw: random.Random) -> Seen:
    """Hour by hour; now and then a worker dies, and twice a day Apple refuses everything for a while."""
    seen, start = Seen(), h.now
    for hour in range(size.hours):
        tell("hours", hour, size.hours)
        if hour % 12 == 1:
            apple.storm(180)
        wanted = gaps.assess(app.read, h.now)._asdict()
        for _ in range(max(1, size.kills // size.hours)):
            h.clock.move_to(max(h.now, min(h.drain(), h.now + MINUTE)))
            seen.kills += h.crash_worker(at=draw.randrange(1, 15))
        h.advance((start + (hour + 1) * HOUR - h.now) / 1000)
        made = seen.look(apple)
        seen.starved += [
            f"hour {hour}: {route} had work and no call"
            for kind, route in CALLS.items()
            if wanted[kind] and not made.get(route)
        ]
        searches = app.read("select sum(keywords_searched) as n from scout_crawl_log")[0].n
        found = app.read("select count(*) as n from scout_app")[0].n
        seen.curve.append(((h.now - start) / HOUR, len(seen.times), int(searches or 0), found))
    return seen


def judge(app: App, apple: Apple, size: Size, seen: Seen, result: Result) -> None:
    """By the twin's own list and log."""
    there = set(apple.list_apps())
    rows = app.read("select track_id, found_by, enrichments, first_seen_at from scout_app")
    found = {row.track_id for row in rows}
    most = 1 + size.hours // (7 * 24)
    result.violations += [f"app {id_} is in no catalogue" for id_ in sorted(found - there)[:10]]
    result.violations += [
        f"app {row.track_id} was looked up {row.enrichments} times"
        for row in rows
        if row.enrichments > most
    ][:10]
    busiest = most_in(seen.times, MINUTE)
    if busiest > ALLOWED:
        result.violations.append(f"{busiest} calls in a minute, {ALLOWED} are allowed")
    result.violations += seen.starved[:10]
    if _late(seen) > 0.2:
        result.violations.append("the last searches found as many new apps as the first")
    result.counts = {
        "apps there are": len(there),
        "apps found": len(found),
        "calls": len(seen.times),
        "most calls in a minute": busiest,
        "workers that died": seen.kills,
        **{
            f"found by {way}": _by(rows, way) for way in ("chart", "search", "portfolio", "similar")
        },
        "searches": seen.curve[-1][2],
        "curve (hour: apps)": ", ".join(f"{hour:.0f}: {apps}" for hour, _, _, apps in _few(seen)),
    }
    result.floors = {
        "apps found": int(size.share * len(there)),
        "workers that died": size.kills // 2,
    }


def _by(rows: list[Any], way: str) -> int:
    return sum(row.found_by == way for row in rows)


def _few(seen: Seen) -> list[tuple[float, int, int, int]]:
    step = max(1, len(seen.curve) // 12)
    return [*seen.curve[:-1:step], seen.curve[-1]]


def _late(seen: Seen) -> float:
    """New apps a call in the second half of all calls, as a share of those in the first."""
    half = next(each for each in seen.curve if each[1] * 2 >= seen.curve[-1][1])
    last = seen.curve[-1]
    if last[1] == half[1]:
        return 0.0
    return (last[3] - half[3]) / (last[1] - half[1]) / (half[3] / half[1])


TINY = Size(apps=60, hours=1, chart=5, share=0.0, kills=0)


def _found(seed: int) -> list[str]:
    result = Result()
    with shop(TINY, seed) as (app, h, apple):
        judge(app, apple, TINY, live(app, h, apple, TINY, random.Random(seed)), result)
    return result.violations


def _finds_double_calls(seed: int) -> bool:
    search = client.search

    async def twice(term: str) -> Any:
        await search(term)
        return await search(term)

    with patch.object(client, "search", twice):
        return any("in a minute" in each for each in _found(seed))


def _finds_strangers(seed: int) -> bool:
    described: Callable[..., Any] = client.described

    def moved(given: dict[str, Any]) -> Any:
        return described({**given, "trackId": given["trackId"] + 10**9})

    with patch.object(client, "described", moved):
        return any("no catalogue" in each for each in _found(seed))


SECTION = Section(
    name="scout",
    title="Scout finds what there is",
    promise=(
        "Under refusals, lost replies and workers that die, every app is found once and none that is not"
        " there, at most 20 calls reach Apple in any minute of its own log, no kind of work starves, and"
        " searches converge."
    ),
    run=run,
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m proof.scout")
    parser.add_argument("--apps", type=int, default=5000)
    parser.add_argument("--hours", type=int, default=24)
    parser.add_argument("--chart", type=int, default=200)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    size = Size(given.apps, given.hours, given.chart, 0.97, given.kills)
    result = look_for(size, given.seed)
    print(json.dumps({**asdict(result), "problems": result.problems()}, indent=2))


if __name__ == "__main__":
    main()
