"""A strip of fires: what a schedule did on the left of now, what it is going to do on the right.

What was fired is read from the jobs that are still there, among the newest of all jobs; before the oldest of
those nothing is drawn, since nothing is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Any

from markupsafe import Markup

from duework.clock import as_datetime
from duework.db.database import Tx
from duework.ids import drawn_at
from duework.kernel.run import SCHEDULED
from duework.shapes.schedules.calendar import When, zone
from duework.shapes.schedules.handle import Schedule
from duework.shapes.schedules.verbs import SCHEDULES
from duework.web import charts
from duework.web.filters import clock

HOUR, DAY = 3_600_000, 86_400_000
RANGES = {"1h": HOUR, "24h": DAY, "7d": 7 * DAY}
# Of a strip, this share is behind.
BEHIND = 0.25
# So many jobs are looked at for what was fired, and so many coming slots are drawn one by one.
WALKED, MOST = 5000, 60
RESULTS = 8


@dataclass(frozen=True, slots=True)
class Fired:
    """A job that a schedule made for a slot."""

    job: int
    slot: int
    state: str

    @property
    def glyph(self) -> str:
        return "ready" if self.state == "open" else self.state


@dataclass(frozen=True, slots=True)
class Lately:
    """What all schedules have fired, by key, newest first; and since when that is known."""

    fired: dict[str, list[Fired]]
    since: int

    def of(self, key: str) -> list[Fired]:
        return self.fired.get(key, [])


def lately(tx: Tx, now: int) -> Lately:
    """Look at the newest jobs."""
    [(oldest,)] = tx.query(SCHEDULES.oldest_of, {"before": 2**62, "walk": WALKED})
    found: dict[str, list[Fired]] = {}
    for job, _, name, state, worker in tx.query(
        SCHEDULES.fired_lately, {"before": 2**62, "walk": WALKED, "prefix": SCHEDULED}
    ):
        key, _, slot = name.removeprefix(SCHEDULED).rpartition("@")
        if slot.isdigit():
            shown = "running" if worker is not None else state
            found.setdefault(key, []).append(Fired(job, int(slot), shown))
    return Lately(found, now if oldest is None else drawn_at(oldest))


@dataclass(frozen=True, slots=True)
class Strip:
    """The axis that the rows of a strip share."""

    now: int
    over: str
    zone: tzinfo

    @property
    def first(self) -> int:
        return self.now - round(RANGES[self.over] * BEHIND)

    @property
    def last(self) -> int:
        return self.first + RANGES[self.over]

    def at(self, ms: int) -> float:
        return (ms - self.first) / (self.last - self.first)

    def axis(self) -> Markup:
        places = (0.0, 0.5, 0.75, 1.0)
        labels = [(at, self._label(self.first + round(at * RANGES[self.over]))) for at in places]
        return Markup(charts.axis(labels, BEHIND))  # noqa: S704 - charts escape their texts

    def _label(self, ms: int) -> str:
        if self.over == "7d":
            then = as_datetime(ms).astimezone(self.zone)
            return f"{then:%a} {then.day} {then:%b}"
        return clock(ms, self.zone)[:5]

    def row(self, schedule: Schedule, fired: Sequence[Fired]) -> Markup:
        """One schedule: ticks for what was fired, a diamond for what is next, ticks for what follows."""
        spans = [self._tick(each) for each in fired if each.slot >= self.first]
        coming, marks = self.coming(schedule), []
        if schedule.due is not None and schedule.due <= self.last:
            marks = [
                (
                    self.at(max(schedule.due, self.now)),
                    "f-accent",
                    f"next: {self._exact(schedule.due)}",
                )
            ]
        if len(coming) > MOST:
            spans.append((self.at(coming[0]), 1.0, "f-line", "more than can be told apart"))
        else:
            spans += [
                (self.at(slot), self.at(slot), "f-line", self._exact(slot)) for slot in coming
            ]
        words = f"fires of {schedule.key}: {len(fired)} seen, {len(coming)} to come"
        return Markup(charts.track(spans, marks, BEHIND, words))  # noqa: S704 - charts escape

    def coming(self, schedule: Schedule) -> list[int]:
        """The slots behind the next one, as far as the strip goes; one too many if there are too many."""
        if schedule.slot is None:
            return []
        when = When(schedule.kind, schedule.rule, schedule.start, schedule.tz, schedule.ends)
        most = MOST + 1
        if schedule.count is not None:
            most = min(most, schedule.count - schedule.counted - 1)
        return [slot for slot in when.upcoming(schedule.slot, most) if slot <= self.last]

    def _tick(self, fired: Fired) -> tuple[float, float, str, str]:
        colour = {"done": "f-did", "failed": "f-fail", "running": "f-run"}.get(
            fired.state, "f-wait"
        )
        words = f"{self._exact(fired.slot)}: {fired.glyph}"
        return (self.at(fired.slot), self.at(fired.slot), colour, words)

    def _exact(self, ms: int) -> str:
        then = as_datetime(ms).astimezone(self.zone)
        return f"{then:%a} {then.day} {then:%b %H:%M:%S}"


# --- the next times, across changes of the clock


@dataclass(frozen=True, slots=True)
class Slot:
    """A coming time in the schedule's own zone; `turned` if the clock was changed since the one before."""

    at: datetime
    turned: str = ""

    @property
    def words(self) -> str:
        return f"{self.at:%a} {self.at.day} {self.at:%b %Y %H:%M:%S %Z}"


def with_turns(slots: Iterable[int], tz: str) -> list[Slot]:
    """Times with what the clocks did between them."""
    found: list[Slot] = []
    for ms in slots:
        at = as_datetime(ms).astimezone(zone(tz))
        before = found[-1].at.utcoffset() if found else at.utcoffset()
        apart = (at.utcoffset() or timedelta()) - (before or timedelta())
        how = "forward" if apart > timedelta() else "back"
        hours = abs(apart).total_seconds() / 3600
        found.append(Slot(at, f"the clocks went {how} by {hours:g} h" if apart else ""))
    return found


def next_turn(tz: str, now: int) -> int | None:
    """When the clocks of a zone are changed next, within a year, to the minute."""
    here: Any = zone(tz)

    def offset(ms: int) -> timedelta | None:
        return as_datetime(ms).astimezone(here).utcoffset()

    day = next(
        (now + each * DAY for each in range(1, 367) if offset(now + each * DAY) != offset(now)),
        None,
    )
    if day is None:
        return None
    low, high = day - DAY, day
    while high - low > 60_000:  # noqa: PLR2004 - a minute
        middle = (low + high) // 2
        low, high = (middle, high) if offset(middle) == offset(now) else (low, middle)
    return high


def around_turn(when: When, now: int) -> list[Slot]:
    """The slots on both sides of the next change of the clocks: the last two before it, and two after."""
    turn = next_turn(when.tz, now)
    if turn is None or when.kind == "at":
        return []
    before = when.latest(now, turn - 1, 2)
    return with_turns([*before, *when.upcoming(turn - 1, 2)], when.tz)
