"""Article 001, the adaptive controller: its rule and ours on an upstream of 20 calls a minute.

In virtual time. Theirs is the article's loop, call by call: a batch at each tick, every refusal a failure,
and nothing that knows the limit. Ours is the system itself against Apple's twin, with one app a lookup, so
that a call is an app in both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from bench.articles.figure import Figure
from duework.testing import Harness
from systems.scout import app
from systems.scout.enrich import feed
from systems.scout.part import part
from systems.scout.settings import Settings
from systems.twins import twins
from systems.twins.kit.limits import Window

LIMIT, MINUTE, HOUR = 20, 60_000, 3_600_000
# Refuses everything from minute 20 to 30.
STORM = (20 * MINUTE, 30 * MINUTE)
# A minute with so many answers is full speed.
FULL = 18


@dataclass
class Log:
    """What the upstream saw: answers by minute, and refusals."""

    good: Counter[int] = field(default_factory=Counter)
    refused: int = 0

    def note(self, at: int, *, good: bool) -> None:
        if good:
            self.good[at // MINUTE] += 1
        else:
            self.refused += 1

    def used(self, minutes: int) -> float:
        """Of what the limit allows, in percent."""
        return 100 * sum(self.good.values()) / (LIMIT * minutes)

    def full_after(self, start: int, minutes: int) -> int | None:
        """Minutes from there to the first at full speed."""
        fast = (each for each in range(start, minutes) if self.good[each] >= FULL)
        return next((each + 1 - start for each in fast), None)


@dataclass
class Rule:
    """The article's controller."""

    batch: int = 10
    interval: int = 30_000
    cooldown: int = 0
    minutes: dict[int, list[int]] = field(default_factory=dict)

    def count(self, now: int, good: int, bad: int) -> None:
        bucket = self.minutes.setdefault(now // MINUTE, [0, 0])
        bucket[0] += good
        bucket[1] += bad

    def adapt(self, now: int) -> None:
        recent = [counts for at, counts in self.minutes.items() if at > now // MINUTE - 5]
        good, bad = sum(each[0] for each in recent), sum(each[1] for each in recent)
        if good + bad < 5:
            return
        rate = good / (good + bad)
        if rate < 0.2:
            self.cooldown, self.batch, self.interval = now + 300_000, 2, 120_000
        elif rate < 0.5:
            self.batch, self.interval = (
                max(2, self.batch // 2),
                min(120_000, self.interval * 3 // 2),
            )
        elif rate > 0.95:
            self.batch, self.interval = (
                min(50, -(-self.batch * 5 // 4)),
                max(10_000, self.interval * 4 // 5),
            )
        elif rate > 0.8:
            self.batch, self.interval = (
                min(50, -(-self.batch * 11 // 10)),
                max(10_000, self.interval * 19 // 20),
            )


def theirs(minutes: int, *, storm: bool) -> Log:
    """The article's loop, tick by tick."""
    rule, window, log, now = Rule(), Window(LIMIT, MINUTE), Log(), 0
    while now < minutes * MINUTE:
        if now >= rule.cooldown:
            good = 0
            for _ in range(rule.batch):
                stormy = storm and STORM[0] <= now < STORM[1]
                answered = not stormy and not window.full(now)
                if answered:
                    window.use(now)
                good += answered
                log.note(now, good=answered)
            rule.count(now, good, rule.batch - good)
            rule.adapt(now)
        now += rule.interval
    return log


@contextmanager
def _settings(url: str) -> Iterator[None]:
    before = part.settings
    part._settings = Settings(apple_url=url, lookup=1, pages=False)  # noqa: SLF001 - for this run
    try:
        yield
    finally:
        part._settings = before  # noqa: SLF001


def ours(minutes: int, *, storm: bool) -> Log:
    """The system itself: lookups of one app, and nothing else that asks Apple."""
    log = Log()
    with (
        Harness(app, now=1_772_366_400_000) as h,
        twins(h.clock, "apple") as t,
        _settings(t.apple.url),
    ):
        h.drain()
        for each in app.schedules(prefix="scout."):
            each.pause()
        t.apple.count = minutes * LIMIT + 100
        _plant([each.id for each in t.apple.catalogue.apps])
        began = h.now
        for minute in range(minutes):
            if storm and minute * MINUTE == STORM[0]:
                t.apple.storm((STORM[1] - STORM[0]) / 1000)
            h.advance("1m")
        for call in t.apple.log.entries:
            log.note(call.at - began, good=call.status == 200)
    return log


def _plant(ids: list[int]) -> None:
    with app.transaction() as tx:
        tx.write(
            "insert into scout_app (track_id, track_name, seller_name, first_seen_at, last_seen_at)"
            " values (:id, 'x', 'x', 0, 0)",
            rows=[{"id": id_} for id_ in ids],
        )
        feed.wake(tx)


def controller(*, quick: bool) -> list[Figure]:
    """Two hours without trouble, and with a storm of ten minutes."""
    minutes = 60 if quick else 240
    found = []
    for storm in (False, True):
        logs = [rule(minutes, storm=storm) for rule in (theirs, ours)]
        with_storm = ", with ten minutes of refusals" if storm else ""
        start = STORM[1] // MINUTE if storm else 0
        found += [
            _figure(
                f"share of 20 calls a minute that is used, in {minutes} min{with_storm}",
                "100 %",
                [f"{log.used(minutes):.0f} %" for log in logs],
            ),
            _figure(
                f"refusals an hour{with_storm}",
                "0",
                [f"{log.refused * 60 / minutes:.0f}" for log in logs],
            ),
            _figure(
                f"minutes to a minute of {FULL} answers{' after it' if storm else ''}",
                "1",
                [str(log.full_after(start, minutes) or "never") for log in logs],
            ),
        ]
    return found


def _figure(what: str, ideal: str, values: list[str]) -> Figure:
    return Figure("001", what, values[0], values[1], ideal)


FIGURES: dict[str, Callable[..., list[Figure]]] = {"controller": controller}
