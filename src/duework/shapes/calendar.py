"""When a schedule is due: cron, every, rrule and at, in time zones, as pure functions of time.

A slot is an instant in integer milliseconds. Cron and rrule speak of the clock on the wall, which
some zones turn forward and back:

  * a rule with fixed times (`30 2 * * *`, FREQ=DAILY) has each of them once: a time that the clock
    leaps over is the first instant after the leap, a time that it shows twice is the first of the two;
  * a rule that runs all through the hours (`*/15 * * * *`, `0 * * * *`, FREQ=HOURLY) follows real
    time: what is leapt over is not there, what is shown twice is there twice.

`every` counts from its start and knows no clock on a wall, so it neither drifts nor leaps.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError
from dateutil.rrule import rrule, rrulestr

from duework.clock import FOREVER
from duework.durations import human
from duework.errors import UsageError

Kind = Literal["cron", "every", "rrule", "at"]

SHORTEST_MS = 1000
# Rules with a COUNT are walked from their start each time.
LONGEST_COUNT = 10_000
# How far ahead a rule may have its next time: 29 February on a given weekday comes within 40 years.
HORIZON_YEARS = 50
# Rules by the hour or minute are looked at one by one.
CLOSE_HORIZON_YEARS = 5

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - the wall's clock has no zone
_DAY = 86_400
_YEAR = 31_556_952
_LAST = FOREVER // 1000
_ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_UNTIL = re.compile(r";?UNTIL=(\d{8}T\d{6})Z", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class When:
    """The times of a schedule. `start` is where `every` and `rrule` count from, and what `at` is."""

    kind: Kind
    # A cron expression, a recurrence rule, or the milliseconds of `every`.
    rule: str
    start: int
    tz: str = "UTC"

    def next(self, after: int) -> int | None:
        """The first slot later than `after`, or None if there is no more."""
        if self.kind == "at":
            return self.start if self.start > after else None
        if self.kind == "every":
            period = int(self.rule)
            slot = self.start + max(0, (after - self.start) // period + 1) * period
            return slot if slot < FOREVER else None
        found = _next_on_the_wall(self, after // 1000)
        return None if found is None or found >= _LAST else found * 1000

    def upcoming(self, after: int, count: int) -> list[int]:
        """The next slots, at most `count`."""
        found: list[int] = []
        slot = self.next(after)
        while slot is not None and len(found) < count:
            found.append(slot)
            slot = self.next(slot)
        return found

    def latest(self, after: int, until: int, count: int) -> list[int]:
        """The newest slots later than `after` and up to `until`, at most `count`, oldest first.

        Looks back in growing steps, so that the cost does not grow with the time between.
        """
        if self.kind == "every":
            # Sums instead of a search.
            period = int(self.rule)
            after = max(after, until - count * period)
        step = 60_000
        while True:
            begin = max(after, until - step)
            found = list(self._between(begin, until))
            if begin <= after or len(found) >= count:
                return found[-count:]
            step *= 4

    def _between(self, after: int, until: int) -> Iterator[int]:
        slot = self.next(after)
        while slot is not None and slot <= until:
            yield slot
            slot = self.next(slot)

    def __str__(self) -> str:
        if self.kind == "at":
            return f"at {datetime.fromtimestamp(self.start / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
        if self.kind == "every":
            return f"every {human(int(self.rule))}"
        zone = "" if self.tz == "UTC" else f" {self.tz}"
        return f"{self.kind} {self.rule}{zone}"


def when(
    *,
    cron: str | None = None,
    every: int | None = None,
    rrule: str | None = None,
    at: int | None = None,
    tz: str = "UTC",
    start: int,
) -> When:
    """A checked `When` from one of the four; a UsageError that says what is wrong."""
    given = [each for each in (cron, every, rrule, at) if each is not None]
    if len(given) != 1:
        raise UsageError("a schedule has one of cron=, every=, rrule= and at=")
    zone(tz)
    if at is not None:
        return When("at", "", at, tz)
    if every is not None:
        if every < SHORTEST_MS:
            raise UsageError(f"every= is a second or more, not {every} ms")
        return When("every", str(every), start, tz)
    if cron is not None:
        made = When("cron", " ".join(_ALIASES.get(cron.strip().lower(), cron).split()), 0, tz)
        _cron(made.rule)
    else:
        assert rrule is not None, "one of them was given"
        made = When("rrule", rrule.strip().removeprefix("RRULE:"), start - start % 1000, tz)
        _recurrence(made)
    if made.next(start) is None and made.kind == "cron":
        raise UsageError(f"the cron expression {made.rule!r} never comes")
    return made


@lru_cache(maxsize=1024)
def zone(name: str) -> ZoneInfo:
    """The zone of that name; the package tzdata has them where the machine has not."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        message = f"there is no time zone {name!r}; write it as in 'Europe/London' or 'UTC'"
        raise UsageError(message) from None


def instant(wall: datetime, tz: str) -> int:
    """The milliseconds of a time on the wall, by the rule for fixed times."""
    seconds = int((wall.replace(tzinfo=None, microsecond=0) - _EPOCH).total_seconds())
    return _first_instant(zone(tz), seconds) * 1000 + wall.microsecond // 1000


# --- zones: offsets in seconds, and where they change


def _offset(area: ZoneInfo, second: int) -> int:
    found = datetime.fromtimestamp(second, area).utcoffset()
    assert found is not None, "a zone knows its offset"
    return found.days * _DAY + found.seconds


@lru_cache(maxsize=4096)
def _changes(area: ZoneInfo, period: int) -> tuple[int, ...]:
    """The instants in one year's length at which the offset changes; looked for day by day."""
    found: list[int] = []
    begin = period * _YEAR
    before = _offset(area, begin)
    for low in range(begin, begin + _YEAR, _DAY):
        high = min(low + _DAY, begin + _YEAR)
        after = _offset(area, high)
        if after != before:
            found.append(_change(area, low, high, before))
            before = after
    return tuple(found)


def _change(area: ZoneInfo, low: int, high: int, before: int) -> int:
    """The first second after `low` with another offset."""
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(area, middle) == before:
            low = middle
        else:
            high = middle
    return high


def _next_change(area: ZoneInfo, after: int) -> int | None:
    """The first change later than `after`; None if there is none in the next two years."""
    for period in range(after // _YEAR, after // _YEAR + 3):
        for change in _changes(area, period):
            if change > after:
                return change
    return None


def _first_instant(area: ZoneInfo, wall: int) -> int:
    """When the clock on the wall first shows this time, or has leapt over it."""
    shown = _EPOCH + timedelta(seconds=wall)
    # Of a time that is shown twice this is the first offset, of one that is leapt over the old one.
    delta = shown.replace(tzinfo=area, fold=0).utcoffset()
    assert delta is not None, "a zone knows its offset"
    second = wall - delta.days * _DAY - delta.seconds
    if second + _offset(area, second) == wall:
        return second
    low = second - 2 * _DAY
    return _change_up_to(area, low, second)


def _change_up_to(area: ZoneInfo, low: int, high: int) -> int:
    """The last change in a short stretch that has one."""
    found = high
    change = _next_change(area, low)
    while change is not None and change <= high:
        found = change
        change = _next_change(area, change)
    return found


# --- rules on the wall


def _next_on_the_wall(rule: When, after: int) -> int | None:
    area = zone(rule.tz)
    try:
        through = (_cron(rule.rule) if rule.kind == "cron" else _recurrence(rule)).through
        found = _through(rule, area, after) if through else _fixed(rule, area, after)
    except (OverflowError, ValueError):
        # The calendar ends with the year 9999.
        return None
    if found is not None and rule.kind == "rrule" and (last := _recurrence(rule).until) is not None:
        return found if found <= last else None
    return found


def _fixed(rule: When, area: ZoneInfo, after: int) -> int | None:
    wall: int | None = after + _offset(area, after)
    while wall is not None:
        wall = _next_match(rule, wall)
        if wall is not None and (found := _first_instant(area, wall)) > after:
            return found
    return None


def _through(rule: When, area: ZoneInfo, after: int) -> int | None:
    """Stretch by stretch of one offset, since the clock may show some times twice."""
    end_of_search = after + HORIZON_YEARS * _YEAR
    while after < end_of_search:
        offset = _offset(area, after + 1)
        end = _next_change(area, after + 1)
        wall = _next_match(rule, after + offset)
        if wall is not None and (end is None or wall - offset < end):
            return wall - offset
        if end is None:
            return None
        after = end - 1
    return None


def _next_match(rule: When, wall: int) -> int | None:
    """The first time on the wall that fits the rule and is later, in seconds; zones do not matter."""
    shown = _EPOCH + timedelta(seconds=wall)
    found = _cron(rule.rule).after(shown) if rule.kind == "cron" else _recurrence(rule).after(shown)
    return None if found is None else int((found - _EPOCH).total_seconds())


@dataclass(frozen=True, slots=True)
class _Cron:
    """A parsed expression. Days are matched by the parser's own rules; times are walked here."""

    parsed: CronSim
    # Whether it runs all through the hours.
    through: bool
    hours: tuple[int, ...]
    # Minutes and seconds, as seconds of an hour.
    within: tuple[int, ...]

    def after(self, wall: datetime) -> datetime | None:
        day = wall.date()
        if self._has(day) and (found := self._later(wall)) is not None:
            return found
        last = day.year + HORIZON_YEARS
        while day.year <= last:
            day += timedelta(days=1)
            while day.month not in self.parsed.months:
                day = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
            if self._has(day):
                return _at(day, self.hours[0] * 3600 + self.within[0])
        return None

    def _has(self, day: date) -> bool:
        return day.month in self.parsed.months and self.parsed.match_day(day)

    def _later(self, wall: datetime) -> datetime | None:
        """The next time of the same day."""
        place = bisect_left(self.hours, wall.hour)
        if place < len(self.hours) and self.hours[place] == wall.hour:
            inside = bisect_right(self.within, wall.minute * 60 + wall.second)
            if inside < len(self.within):
                return _at(wall.date(), wall.hour * 3600 + self.within[inside])
            place += 1
        if place < len(self.hours):
            return _at(wall.date(), self.hours[place] * 3600 + self.within[0])
        return None


def _at(day: date, second: int) -> datetime:
    return datetime.combine(day, time()) + timedelta(seconds=second)


@lru_cache(maxsize=4096)
def _cron(expression: str) -> _Cron:
    try:
        parsed = CronSim(expression, _EPOCH)
    except (CronSimError, AssertionError, ValueError) as error:
        message = (
            f"cannot read the cron expression {expression!r}: {str(error) or 'bad step'}; write five"
            " fields (minute hour day month weekday), such as '30 2 * * *' or '*/15 * * * *'"
        )
        raise UsageError(message) from None
    within = sorted(minute * 60 + second for minute in parsed.minutes for second in parsed.seconds)
    through = parsed.parts[1].startswith("*") or parsed.parts[2].startswith("*")
    return _Cron(parsed, through, tuple(sorted(parsed.hours)), tuple(within))


@dataclass(frozen=True, slots=True)
class _Recurrence:
    rule: Any
    # Seconds of the last instant, if UNTIL was given in UTC.
    until: int | None

    @property
    def through(self) -> bool:
        """Whether it runs all through the hours."""
        return int(self.rule._freq) > _DAILY  # noqa: SLF001 - it has no public name

    def after(self, wall: datetime) -> datetime | None:
        rule = self.rule
        if rule._count is None:  # noqa: SLF001 - as above
            rule = _moved(rule, wall)
        found: datetime | None = rule.after(wall)
        return found


_YEARLY, _MONTHLY, _WEEKLY, _DAILY, _HOURLY, _MINUTELY, _SECONDLY = range(7)
_LENGTHS = {
    _WEEKLY: timedelta(weeks=1),
    _DAILY: timedelta(days=1),
    _HOURLY: timedelta(hours=1),
    _MINUTELY: timedelta(minutes=1),
}


@lru_cache(maxsize=4096)
def _recurrence(given: When) -> _Recurrence:
    text, until = given.rule, None
    if match := _UNTIL.search(text):
        ends = datetime.strptime(match[1], "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
        until = int(ends.timestamp())
        text = text.replace(match[0], "").removeprefix(";")
    seconds = given.start // 1000
    start = _EPOCH + timedelta(seconds=seconds + _offset(zone(given.tz), seconds))
    try:
        made: Any = rrulestr(text, dtstart=start)
    except (ValueError, TypeError, AttributeError, KeyError, IndexError) as error:
        message = (
            f"cannot read the recurrence rule {given.rule!r}: {error}; write it as in"
            " 'FREQ=WEEKLY;BYDAY=MO,TH;BYHOUR=9;BYMINUTE=0'"
        )
        raise UsageError(message) from None
    single = isinstance(made, rrule)
    if not single or "DTSTART" in text.upper():
        raise UsageError(f"rrule= takes one rule and no DTSTART; give start= instead: {text!r}")
    if made._freq == _SECONDLY or not 0 < made._interval <= LONGEST_COUNT:  # noqa: SLF001
        raise UsageError("a recurrence rule is by the minute or slower; use every= for seconds")
    if made._count is not None and not 0 < made._count <= LONGEST_COUNT:  # noqa: SLF001
        raise UsageError(f"COUNT is 1 to {LONGEST_COUNT}; use UNTIL for longer ones: {text!r}")
    return _Recurrence(made, until)


def _moved(rule: Any, wall: datetime) -> Any:
    """The same rule begun shortly before `wall`, and ended at the horizon.

    A rule is walked from its start, which may be years ago. Begun a whole number of its intervals
    later, with the same day and time, it has the same times from there on.
    """
    freq, interval, begin = rule._freq, rule._interval, rule._dtstart  # noqa: SLF001 - as above
    if wall > begin:
        if freq in _LENGTHS:
            length = _LENGTHS[freq] * interval
            begin += max(0, (wall - begin) // length - 1) * length
        else:
            begin = _months_later(begin, wall, interval * (12 if freq == _YEARLY else 1))
    years = CLOSE_HORIZON_YEARS if freq > _DAILY else HORIZON_YEARS
    last = max(wall, begin) + timedelta(days=366 * max(years, 2 * interval * (freq == _YEARLY)))
    until = rule._until  # noqa: SLF001 - as above
    return rule.replace(dtstart=begin, until=last if until is None else min(until, last))


def _months_later(begin: datetime, wall: datetime, step: int) -> datetime:
    months = (wall.year - begin.year) * 12 + wall.month - begin.month
    for count in range(max(0, months // step - 1), -1, -1):
        month = begin.month - 1 + count * step
        try:
            return begin.replace(year=begin.year + month // 12, month=month % 12 + 1)
        except ValueError:
            # That month has no such day; an earlier one has.
            continue
    return begin
