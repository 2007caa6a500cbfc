"""Syncs of athletes in virtual time: up to 100,000 activities under kills, and eighteen athletes at once.

What is stored is compared with what Strava has, what was asked with where the sync stood, and the time
that it took with what the quota itself allows.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from duework.testing import Harness
from proof.section import Result, Scale, Section, tell
from systems.strides import app as strides
from systems.strides import reading, sync
from systems.strides.part import SMALL, part
from systems.strides.seed import seed as connect
from systems.strides.settings import Settings
from systems.strides.sizes import MANY
from systems.twins import Strava, twins

# The day turns in the middle of it: both windows of the quota count.
BEGIN = "2026-03-01T21:40:00+00:00"
SIZES: dict[Scale, Sequence[int]] = {"short": (100, 2_000), "full": (100, 1_000, 10_000, 100_000)}
# So many athletes at once, with so many activities each; and the limit of a quarter of an hour.
CROWD: dict[Scale, tuple[int, int, int]] = {"short": (4, 1_200, 12), "full": (18, 10_000, 100)}
QUARTER, DAY = 900_000, 86_400_000
RESERVE, DECLARED = 5, 100
FIRST = 7001
# Of memory, in MiB: what 100,000 activities may take more than 10,000 do.
MORE_MEMORY = 40


class Place:
    """An App with strides, and Strava."""

    def __init__(self, h: Harness, strava: Strava, seed: int) -> None:
        self.h, self.strava, self.draw = h, strava, random.Random(seed)
        self.kills, self.turns = 0, -1
        # A worker dies before so many statements.
        self.patience = 60

    def stored(self, athlete: int) -> list[int]:
        rows = part.app.read("select id from strides_activity where athlete_id = :id", id=athlete)
        return [row.id for row in rows]

    def asked(self) -> list[Any]:
        return [each for each in self.strava.log.entries if each.route in {"activities", "stats"}]

    def oldest(self, athlete: int) -> int | None:
        """The second above which everything is stored."""
        [row] = part.app.read(
            "select min(start) as start from strides_activity where athlete_id = :id", id=athlete
        )
        return None if row.start is None else int(row.start)

    def kill(self, athlete: int, result: Result) -> None:
        """Go on until a worker dies somewhere; what is asked begins where the last stored page ended."""
        oldest, before = self.oldest(athlete), len(self.strava.log.of("activities"))
        # Every second time later than a page ends: one whose job dies three times has failed.
        self.turns += 1
        late = self.turns % 2 * 3 * self.patience
        died = self.h.crash_worker(at=late + self.draw.randrange(1, self.patience))
        self.kills += died
        again = self.strava.log.of("activities")[before:]
        # `before` excludes: the oldest second itself is asked for once more.
        if oldest and again and max(each.notes.get("before", 0) for each in again) > oldest + 1:
            result.violations.append(f"athlete {athlete}: what is stored was asked for again")
        if not died:
            self.h.clock.move_to(max(self.h.now, self.h.drain()))


@contextmanager
def place(seed: int, read: int = 100) -> Iterator[Place]:
    before: Settings = part.settings
    with Harness(strides, now=BEGIN, schedules=False) as h, twins(h.clock, "strava") as t:
        part._settings = Settings(strava_url=t.strava.url, most_athletes=20)
        t.strava.most_athletes = 20
        t.strava.set_limits(overall=(read * 2, 2000), read=(read, 1000))
        try:
            yield Place(h, t.strava, seed)
        finally:
            part._settings = before


def one_athlete(count: int, seed: int, result: Result) -> float:
    """A sync of so many under kills; the MiB that the process grew by."""
    with place(seed) as made:
        # More than a page takes: else none would ever be done.
        made.patience = 60 if count < MANY else 120
        made.strava.add_athlete(FIRST, count)
        at_strava = {one.id for one in made.strava.athletes[FIRST].activities}
        connect(made.h.app, 1, first=FIRST)
        memory = before = resident()
        while _active(FIRST):
            tell(f"activities of {count}", len(made.stored(FIRST)), count)
            made.kill(FIRST, result)
            memory = max(memory, resident())
        stored = made.stored(FIRST)
        if len(stored) != len(set(stored)) or set(stored) != at_strava:
            result.violations.append(f"{count}: {len(stored)} are stored, of {len(at_strava)}")
        _judge_quota(made, result, full=False)
        result.count("activities", count)
        result.count("workers that died", made.kills)
    return memory - before


def _active(athlete: int) -> bool:
    chain = sync.latest(athlete)
    assert chain is not None
    return chain.state == "active"


def resident() -> float:
    """MiB of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _judge_quota(made: Place, result: Result, *, full: bool, read: int = 100) -> None:
    """By the receiver's own clock; `full` if the quota was what it waited for."""
    asked, usable = made.asked(), read * (100 - RESERVE) // 100
    quarters = Counter(each.at // QUARTER for each in asked)
    if made.strava.log.over_limit() or any(each.status == 429 for each in asked):
        result.violations.append("a limit was passed")
    # Before the first answer nobody knows that the limit is another one than was declared.
    if read != DECLARED:
        quarters.pop(min(quarters))
    if max(quarters.values(), default=0) > usable:
        result.violations.append(f"{max(quarters.values())} calls in a quarter, {usable} are ours")
    if full:
        last = max(quarters)
        whole = [count for quarter, count in quarters.items() if quarter != last]
        result.counts["least of a quarter's calls"] = min(whole)
        if min(whole) < usable * 0.9 - SMALL * (usable < 50):
            result.violations.append(f"{min(whole)} calls in a quarter, {usable} were ours")


def crowd(scale: Scale, seed: int, result: Result) -> None:
    """Many athletes at once: in the time that the quota takes, and as it was foretold."""
    people, count, read = CROWD[scale]
    athletes = range(FIRST, FIRST + people)
    with place(seed, read) as made:
        for athlete in athletes:
            made.strava.add_athlete(athlete, count)
        connect(made.h.app, people, first=FIRST)
        began, shown = made.h.now, None
        while any(map(_active, athletes)):
            due = made.h.drain()
            tell("athletes done", people - sum(map(_active, athletes)), people)
            shown = shown or _foretold(athletes, made.h.now)
            made.h.clock.move_to(max(due, made.h.now))
        truth = max((sync.latest(each).settled or 0) for each in athletes)  # type: ignore[union-attr]
        bound = earliest(len(made.asked()), began, read)
        result.counts["minutes: bound, shown first, truth"] = " / ".join(
            "?" if end is None else f"{(end - began) / 60_000:.0f}" for end in (bound, shown, truth)
        )
        for athlete in athletes:
            if set(made.stored(athlete)) != {
                one.id for one in made.strava.athletes[athlete].activities
            }:
                result.violations.append(f"athlete {athlete} is not whole")
        _judge_quota(made, result, full=True, read=read)
        # A quarter of an hour is the least that a quota tells apart.
        slack = max(QUARTER, (truth - began) // 10)
        if truth > bound + max(QUARTER, (bound - began) // 10):
            result.violations.append("it took longer than the quota does")
        if shown is None or abs(shown - truth) > slack:
            result.violations.append("the end that was shown first was wrong")
        result.count("activities", people * count)


def _foretold(athletes: range, now: int) -> int | None:
    """The end of the last one, once all of them have one."""
    ends = []
    for athlete in athletes:
        chain = sync.latest(athlete)
        assert chain is not None
        end = reading.ends_at(chain, now)
        if end is None and chain.state == "active":
            return None
        ends.append(end or now)
    return max(ends)


def earliest(calls: int, began: int, read: int) -> int:
    """When so many calls can have been made, if all that is ours is used at once."""
    quarter, day = read * (100 - RESERVE) // 100, 1000 * (100 - RESERVE) // 100
    at, left, today = began, calls, day
    while left > min(quarter, today):
        made = min(quarter, today)
        left, today = left - made, today - made
        following = at - at % QUARTER + QUARTER
        midnight = at - at % DAY + DAY
        at = midnight if not today else following
        today = day if at >= midnight else today
    return at


def run(scale: Scale, seed: int) -> Result:
    result = Result(seed=seed)
    grown = {count: one_athlete(count, seed, result) for count in SIZES[scale]}
    result.counts["MiB more, by size"] = ", ".join(
        f"{count:,}: {more:.0f}" for count, more in grown.items()
    )
    *_, smaller, largest = grown.values()
    if largest > smaller + MORE_MEMORY:
        result.violations.append(f"memory grows: {result.counts['MiB more, by size']} MiB")
    crowd(scale, seed, result)
    result.floors = {"workers that died": len(SIZES[scale]), "activities": 2_100}
    result.planted["a border that is not asked for again"] = _finds_lost_borders(seed)
    result.planted["a page that begins where the last one began"] = _finds_repeats(seed)
    return result


def _finds_lost_borders(seed: int) -> bool:
    """The section must say that activities are missing."""
    below = sync.Place.below

    def wrong(self: sync.Place, answer: list[Any], new: list[Any]) -> sync.Place:
        found = below(self, answer, new)
        return msgspec.structs.replace(found, before=min(one.start for one in answer), border=[])

    return _finds(seed, sync.Place, "below", wrong)


def _finds_repeats(seed: int) -> bool:
    """The section must say that it was asked for again, as a resume from the page's own begin does."""
    right = sync._place

    async def wrong(page: Any, *args: Any) -> sync.Place:
        found = await right(page, *args)
        higher = msgspec.structs.replace(found, before=found.before + 20 * DAY // 1000, border=[])
        return found if page.cursor is None else higher

    return _finds(seed, sync, "_place", wrong)


def _finds(seed: int, where: Any, name: str, wrong: Any) -> bool:
    found, right = Result(), getattr(where, name)
    setattr(where, name, wrong)
    try:
        one_athlete(4_000, seed, found)
    finally:
        setattr(where, name, right)
    return bool(found.violations)


SECTION = Section(
    name="syncs",
    title="Syncs of athletes",
    promise=(
        "Whatever dies, what is stored in the end is what Strava has, each once; what was stored is not asked"
        " for again; memory does not grow with the athlete; no limit is passed, and what is ours is used; and"
        " the end that is shown first comes true."
    ),
    run=run,
)
