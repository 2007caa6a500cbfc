"""Days, streaks and their words: pure functions of counts, a date and a zone.

A day is the person's own. A zero today does not break a streak: the day is not over yet. Days after
today, which the calendar may show, do not count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

DAY = timedelta(days=1)
# Names that tzdata has and people mean: neither files such as "posixrules" nor "localtime".
_ZONE = re.compile(r"[A-Z][\w+-]*(/[\w+-]+){0,2}")


@dataclass(frozen=True, slots=True)
class Standing:
    """What a calendar says on a day."""

    today: int
    streak: int
    longest: int
    # Today is a day of rest.
    resting: bool = False
    # Contributions of this week, where weeks are counted; else the day's own.
    week: int | None = None

    @property
    def at_risk(self) -> bool:
        """Whether the streak ends with this day, or week, unless something is done."""
        return (self.today if self.week is None else self.week) == 0 and not self.resting

    @property
    def weekly(self) -> bool:
        """Whether it is weeks that are in a row."""
        return self.week is not None

    @property
    def length(self) -> str:
        """The streak in words."""
        return length(self.streak, weekly=self.weekly)


@lru_cache(1)
def zones() -> tuple[str, ...]:
    """The names of all zones, in order."""
    return tuple(sorted(name for name in available_timezones() if _ZONE.fullmatch(name)))


def minutes_left(now: int, zone: str) -> int:
    """How many minutes the day has there."""
    midnight = _moment(local_day(now, zone) + DAY, zone, 0)
    return -((now - midnight) // 60_000)


def local_day(now: int, zone: str) -> date:
    """The date on the wall in that zone."""
    return _local(now, zone).date()


def next_time(now: int, zone: str, hour: int) -> int:
    """The next time after now at which that hour begins there, in milliseconds.

    A time that the clock leaps over comes when the leap ends; of one that comes twice it is the first.
    """
    day = local_day(now, zone)
    while (found := _moment(day, zone, hour)) <= now:
        day += DAY
    return found


def has_come(now: int, zone: str, hour: int) -> bool:
    """Whether that hour of today has begun there."""
    return _moment(local_day(now, zone), zone, hour) <= now


def _local(now: int, zone: str) -> datetime:
    return datetime.fromtimestamp(now / 1000, ZoneInfo(zone))


def _moment(day: date, zone: str, hour: int) -> int:
    there = ZoneInfo(zone)
    planned = datetime(day.year, day.month, day.day, hour, tzinfo=there)
    real = planned.astimezone(UTC)
    if real.astimezone(there).replace(tzinfo=None) != planned.replace(tzinfo=None):
        real = _end_of_leap(real, there)
    return int(real.timestamp()) * 1000


def _end_of_leap(inside: datetime, there: ZoneInfo) -> datetime:
    """The first moment after the leap, to the minute; `inside` is read by the offset from before it."""
    before, after = inside - DAY, inside
    old = before.astimezone(there).utcoffset()
    while after - before > timedelta(minutes=1):
        middle = before + (after - before) / 2
        if middle.astimezone(there).utcoffset() == old:
            before = middle
        else:
            after = middle
    return after.replace(second=0, microsecond=0)


def never(_day: date) -> bool:
    """Nobody rests."""
    return False


def standing(
    counts: Mapping[date, int],
    today: date,
    rest: Callable[[date], bool] = never,
    *,
    weekly: bool = False,
) -> Standing:
    """Contributions today, the streak that is alive, and the longest one there is in these days."""
    if weekly:
        weeks, this = _weeks(counts, today), _week(today)
        found = standing(weeks, this, lambda week: _rests(week, rest))
        return Standing(counts.get(today, 0), found.streak, found.longest, rest(today), found.today)
    count = counts.get(today, 0)
    streak, _ = run_until(counts, today if count else today - DAY, rest)
    return Standing(count, streak, max(_longest(counts, today, rest), streak), rest(today))


def run_until(
    counts: Mapping[date, int], last: date, rest: Callable[[date], bool] = never
) -> tuple[int, date]:
    """How many days in a row, up to this one, have contributions, and where the row begins.

    Days of rest without any are passed over.
    """
    length, day = 0, last
    while (count := counts.get(day, 0)) > 0 or rest(day):
        length += count > 0
        day -= DAY
    return length, day + DAY


def reaches(
    counts: Mapping[date, int],
    today: date,
    first: date,
    rest: Callable[[date], bool] = never,
    *,
    weekly: bool = False,
) -> bool:
    """Whether the streak may have begun before `first`, the oldest of the days that are known."""
    if weekly:
        # The oldest week may be known in part alone, and have something in the rest of it.
        weeks, edge = _weeks(counts, today), _week(first) + DAY
        return reaches(weeks, _week(today), edge, lambda week: _rests(week, rest))
    start = today if counts.get(today) else today - DAY
    return run_until(counts, start, rest)[1] <= first


def told_on(today: date, rest: Callable[[date], bool], *, weekly: bool) -> bool:
    """Whether this day is told: each one, or the last of the week that is none of rest."""
    later = range(1, 7 - today.weekday()) if weekly else ()
    return not rest(today) and all(rest(today + n * DAY) for n in later)


def _week(day: date) -> date:
    """A week as a date of its own, one day for each week, so that weeks in a row are days in a row."""
    return date.fromordinal((day.toordinal() - 1) // 7 + 1)


def _weeks(counts: Mapping[date, int], today: date) -> dict[date, int]:
    found: dict[date, int] = {}
    for day, count in counts.items():
        if day <= today:
            found[_week(day)] = found.get(_week(day), 0) + count
    return found


def _rests(week: date, rest: Callable[[date], bool]) -> bool:
    """Whether all seven days of a week are days of rest."""
    monday = (week.toordinal() - 1) * 7 + 1
    return all(rest(date.fromordinal(monday + n)) for n in range(7))


def _longest(counts: Mapping[date, int], today: date, rest: Callable[[date], bool]) -> int:
    longest = length = 0
    previous: date | None = None
    for day in sorted(day for day, count in counts.items() if count > 0 and day <= today):
        length = length + 1 if previous is not None and _joined(previous, day, rest) else 1
        longest, previous = max(longest, length), day
    return longest


def _joined(before: date, after: date, rest: Callable[[date], bool]) -> bool:
    """Whether nothing but rest is between two days."""
    return all(rest(before + n * DAY) for n in range(1, (after - before).days))


def message(login: str, day: date, found: Standing) -> str:
    """What a person is told; the date makes it one of its kind."""
    when = f"{day:%a} {day.day} {day:%b}"
    if found.resting and not found.today:
        return f"{login}, {when} is a day of rest. Your streak of {found.length} is safe."
    period = f"in the week of {when}" if found.weekly else f"on {when}"
    if not found.at_risk:
        count = found.today if found.week is None else found.week
        safe = f"Your streak of {found.length} is safe."
        return f"Well done, {login}: {contributions(count)} {period}. {safe}"
    if found.streak:
        risk = f"Your streak of {found.length} is at risk: one commit saves it."
        return f"{login}, nothing yet {period}. {risk}"
    return f"{login}, nothing yet {period}. No streak is at risk; one commit starts a new one."


def last_call(login: str, day: date, found: Standing, left: int) -> str:
    """The louder words, with so many minutes left of the day."""
    hours, minutes = divmod(left, 60)
    when = f"{day:%a} {day.day} {day:%b}"
    time = f"{hours} h {minutes} min" if hours else f"{minutes} min"
    ends = f"Your streak of {found.length} ends in {time}: commit now."
    return f"LAST CALL, {login}: still nothing on {when}. {ends}"


def contributions(count: int) -> str:
    """So many, in words."""
    return "1 contribution" if count == 1 else f"{count} contributions"


def length(count: int, *, weekly: bool) -> str:
    """So many days or weeks, in words."""
    if not weekly:
        return days(count)
    return "1 week" if count == 1 else f"{count} weeks"


def days(count: int) -> str:
    """So many, in words."""
    return "1 day" if count == 1 else f"{count} days"
