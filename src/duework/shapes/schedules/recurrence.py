"""Recurrence rules of calendars (RFC 5545): their times on a wall's clock, without zones.

The days of a year that fit the BY… parts depend on nothing but the form of the year, and the calendar
repeats itself every 400 years. So a search is exact, and ends soon where there is nothing to find. What the
standard forbids, or leaves to be read in two ways, is refused: no rule means something else than it says.

Times are seconds since 1970 on that clock, days are counted from 1 January 1970.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from calendar import isleap, monthrange
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import cached_property, lru_cache
from math import gcd

DAY = 86_400
EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - the wall's clock has no zone

YEARLY, MONTHLY, WEEKLY, DAILY, HOURLY, MINUTELY = range(6)
# After this many of its periods the calendar begins anew, with the same weekdays.
_CYCLE = {YEARLY: 400, MONTHLY: 4800, WEEKLY: 20_871, DAILY: 146_097}
_LAST_YEAR = 9998
_KEPT_YEARS = 16
_MIDWEEK = 3
_FIRST_DAY = date(1970, 1, 1).toordinal()

Values = frozenset[int]
_NONE: Values = frozenset()


@dataclass(frozen=True, slots=True)
class Days:
    """The parts of a rule that choose days. An empty one chooses all."""

    months: Values = _NONE
    weeks: Values = _NONE
    year_days: Values = _NONE
    month_days: Values = _NONE
    weekdays: Values = _NONE
    # The second Tuesday, the last Friday: counted in the month or in the year.
    nth: frozenset[tuple[int, int]] = frozenset()
    in_month: bool = True
    week_start: int = 0


@dataclass(frozen=True)
class Recurrence:
    """A rule, and what it leaves to its start filled in."""

    start: int
    frequency: int
    interval: int
    days: Days
    # Positions in the set of one period; only of periods longer than a day.
    positions: tuple[int, ...]
    # The steps of a day at which there are times: the day itself, its hours or its minutes.
    steps: tuple[int, ...]
    # The times in one step, in seconds.
    within: tuple[int, ...]
    count: int | None
    # As it is written; the zone decides what it means.
    until: str | None
    _years: dict[int, tuple[int, ...]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def through(self) -> bool:
        """Whether it runs all through the hours."""
        return self.frequency > DAILY

    @cached_property
    def first(self) -> int | None:
        """The start, if it fits, or what comes after it; None if it never comes."""
        return self.after(self.start - 1)

    def after(self, wall: int) -> int | None:
        """The first time later than that, COUNT and UNTIL aside; None if none comes."""
        if not self.steps:
            return None
        wall = max(wall, self.start - 1)
        today, second = divmod(wall, DAY)
        for year in self._ahead(_year_of(today), self._cycle):
            if self.positions:
                times = self._chosen(year)
                place = bisect_right(times, wall)
                if place < len(times):
                    return times[place]
                continue
            days = self._fitting(year)
            for day in days[bisect_left(days, today) :]:
                found = self._later(day, second if day == today else -1)
                if found is not None:
                    return day * DAY + found
        return None

    def nth(self, count: int) -> int | None:
        """The time of that number, of which the first is the start if it fits."""
        if self.first is None:
            return None
        today, second = divmod(self.start, DAY)
        for year in self._ahead(_year_of(today), _LAST_YEAR):
            if self.positions:
                times = [each for each in self._chosen(year) if each >= self.start]
                if count <= len(times):
                    return times[count - 1]
                count -= len(times)
                continue
            days = self._fitting(year)
            for day in days[bisect_left(days, today) :]:
                size = len(self.within) * len(self._steps_of(day))
                if day == today or count <= size:
                    times = [each for each in self._times(day) if day > today or each >= second]
                    size = len(times)
                    if count <= size:
                        return day * DAY + times[count - 1]
                count -= size
        return None

    # --- years

    def _ahead(self, year: int, count: int) -> range:
        """So many years and one more, as far as there are so many: those that can have times."""
        if self.positions and self.frequency == WEEKLY:
            # A week that began last year may reach into this one.
            year = max(1, year - 1)
        last = min(_LAST_YEAR, year + count + 1)
        if self.frequency != YEARLY:
            return range(year, last + 1)
        return range(year + (self._first - year) % self.interval, last + 1, self.interval)

    @cached_property
    def _cycle(self) -> int:
        """After how many years its days are the same again."""
        period = self.interval
        if self.through:
            period //= gcd(period, self._length)
        return 400 * (period // gcd(period, _CYCLE[min(self.frequency, DAILY)]))

    def _fitting(self, year: int) -> tuple[int, ...]:
        """The days of a year that fit the parts and the interval."""
        found = self._years.get(year)
        if found is None:
            if len(self._years) > _KEPT_YEARS:
                self._years.clear()
            first = date(year, 1, 1).toordinal() - _FIRST_DAY
            days = [(first + day, month) for day, month in _mask(self.days, year)]
            found = self._years[year] = tuple(self._in_turn(days, year))
        return found

    def _in_turn(self, days: list[tuple[int, int]], year: int) -> list[int]:
        """Those of a year's days that the interval comes upon; whole years are skipped elsewhere."""
        every, begin = self.interval, self._first
        if every == 1 or self.frequency == YEARLY:
            return [day for day, _ in days]
        if self.frequency == MONTHLY:
            return [day for day, month in days if (year * 12 + month - begin) % every == 0]
        if self.frequency == WEEKLY:
            return [day for day, _ in days if (self._week(day) - begin) % every == 0]
        if self.frequency == DAILY:
            return [day for day, _ in days if (day - begin) % every == 0]
        size, classes = self._length, self._classes
        begin = self.start * size // DAY
        return [day for day, _ in days if (begin - day * size) % every in classes]

    def _period(self, day: int, year: int, month: int) -> int:
        if self.frequency == YEARLY:
            return year
        if self.frequency == MONTHLY:
            return year * 12 + month
        return self._week(day) if self.frequency == WEEKLY else day

    def _week(self, day: int) -> int:
        # 1 January 1970 was a Thursday.
        return (day + 3 - self.days.week_start) // 7

    @cached_property
    def _first(self) -> int:
        """The period of the start."""
        shown = EPOCH + timedelta(seconds=self.start)
        return self._period(self.start // DAY, shown.year, shown.month)

    # --- days

    @cached_property
    def _length(self) -> int:
        """How many steps a day has."""
        return {HOURLY: 24, MINUTELY: 1440}.get(self.frequency, 1)

    def _steps_of(self, day: int) -> Sequence[int]:
        """The steps of a day that are in turn."""
        if not self.through or self.interval == 1:
            return self.steps
        size = self._length
        return self._classes.get((self.start * size // DAY - day * size) % self.interval, ())

    @cached_property
    def _classes(self) -> dict[int, list[int]]:
        """Steps by what is left of them when whole intervals are taken away."""
        found: dict[int, list[int]] = {}
        for step in self.steps:
            found.setdefault(step % self.interval, []).append(step)
        return found

    def _later(self, day: int, second: int) -> int | None:
        """The first time of a day that is later, in seconds of the day."""
        steps, length = self._steps_of(day), DAY // self._length
        step, rest = divmod(second, length)
        place = bisect_left(steps, step)
        if place < len(steps) and steps[place] == step:
            inside = bisect_right(self.within, rest)
            if inside < len(self.within):
                return step * length + self.within[inside]
            place += 1
        return steps[place] * length + self.within[0] if place < len(steps) else None

    def _times(self, day: int) -> list[int]:
        length = DAY // self._length
        return [step * length + each for step in self._steps_of(day) for each in self.within]

    # --- positions

    def _chosen(self, year: int) -> list[int]:
        """The times of a year's periods that BYSETPOS chooses; a week is its first day's year's."""
        found: list[int] = []
        for days in self._sets(year):
            size = len(days) * len(self.within)
            places = {each - 1 if each > 0 else size + each for each in self.positions}
            for place in sorted(each for each in places if 0 <= each < size):
                day, inside = divmod(place, len(self.within))
                found.append(days[day] * DAY + self.within[inside])
        return found

    def _sets(self, year: int) -> Iterator[list[int]]:
        """The fitting days of each period that begins in a year."""
        days = list(self._fitting(year))
        if self.frequency == YEARLY:
            yield days
            return
        if self.frequency == WEEKLY:
            first = date(year, 1, 1).toordinal() - _FIRST_DAY
            begun = self._week(first - 1)
            last = self._week(first + 364 + isleap(year))
            days += [day for day in self._fitting(year + 1) if self._week(day) == last]
            days = [day for day in days if self._week(day) != begun]
        sets: dict[int, list[int]] = {}
        for day in days:
            month = (EPOCH + timedelta(days=day)).month
            sets.setdefault(self._period(day, year, month), []).append(day)
        yield from sets.values()


def _year_of(day: int) -> int:
    return (EPOCH + timedelta(days=day)).year


# --- the days of a year


def _mask(days: Days, year: int) -> tuple[tuple[int, int], ...]:
    """The days of a year that fit, counted from 0, with their months."""
    sizes = (365 + isleap(year - 1), 365 + isleap(year), 365 + isleap(year + 1))
    return _mask_of(days, date(year, 1, 1).weekday(), sizes)


@lru_cache(maxsize=4096)
def _mask_of(days: Days, weekday: int, sizes: tuple[int, int, int]) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    size, number = sizes[1], 0
    weeks = _weeks(weekday, days.week_start, sizes)
    for month in range(1, 13):
        length = monthrange(2000 + 366 - size, month)[1]
        for day in range(1, length + 1):
            number += 1
            if (
                (not days.months or month in days.months)
                and either(days.month_days, day, length)
                and either(days.year_days, number, size)
                and (not days.weeks or either(days.weeks, *weeks[number - 1]))
                and _on_weekday(days, (weekday + number - 1) % 7, (day, length), (number, size))
            ):
                found.append((number - 1, month))
    return tuple(found)


def either(wanted: Values, number: int, size: int) -> bool:
    """Whether it is one of those, counted from the beginning or from the end."""
    return not wanted or number in wanted or number - size - 1 in wanted


def _on_weekday(
    days: Days, weekday: int, in_month: tuple[int, int], in_year: tuple[int, int]
) -> bool:
    if not days.weekdays and not days.nth:
        return True
    if weekday in days.weekdays:
        return True
    number, size = in_month if days.in_month else in_year
    places = ((number - 1) // 7 + 1, weekday), (-((size - number) // 7) - 1, weekday)
    return not days.nth.isdisjoint(places)


def _weeks(weekday: int, week_start: int, sizes: tuple[int, int, int]) -> list[tuple[int, int]]:
    """For each day of a year its week, and how many weeks the year of that week has.

    The first week of a year is the first that has four days of it.
    """
    before, size, after = sizes
    first_days = [-before, 0, size, size + after]
    begins = []
    for first in first_days:
        into = (weekday + first - week_start) % 7
        begins.append(first - into if into <= _MIDWEEK else first - into + 7)
    found = []
    for day in range(size):
        which = bisect_right(begins, day) - 1
        total = (begins[which + 1] - begins[which]) // 7
        found.append(((day - begins[which]) // 7 + 1, total))
    return found
