"""Times of day, dates, and moments that come once: `tomorrow at 9:00`, `in 10 minutes`, `friday noon`."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from systems.reminders.rules import known_zone
from systems.reminders.words.tokens import (
    DAY_NAMES,
    MONTH_NAMES,
    NotAWhen,
    Words,
    length,
)

_CLOCK = re.compile(r"(\d{1,2})(?::(\d{2}))?(am|pm)?", re.ASCII)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
NAMED_TIMES = {"noon": time(12), "midday": time(12), "midnight": time(0)}
FIXED = {"s": 1, "m": 60, "h": 3600}
WEEK = 7
NOON = 12


def clock(words: Words, *, bare: bool = False) -> time | None:
    """`9:00`, `9am`, `9 pm`, `noon`; a bare `9` only behind `at`."""
    if (named := words.one_of(NAMED_TIMES)) is not None:
        return named
    found = _CLOCK.fullmatch(words.next)
    if found is None:
        return None
    half = found[3] or (words.after(1) if words.after(1) in {"am", "pm"} else None)
    if found[2] is None and half is None and not bare:
        return None
    words.place += 1 + (half is not None and found[3] is None)
    return _time(int(found[1]), int(found[2] or 0), half)


def _time(hour: int, minute: int, half: str | None) -> time:
    if half is not None:
        if not 1 <= hour <= NOON:
            raise NotAWhen("hours before am and pm are 1 to 12")
        hour = hour % NOON + (NOON if half == "pm" else 0)
    try:
        return time(hour, minute)
    except ValueError:
        raise NotAWhen("a time is 0:00 to 23:59") from None


def at_clock(words: Words) -> time | None:
    """A time of day with or without `at`."""
    if words.take("at", "@"):
        found = clock(words, bare=True)
        if found is None:
            raise NotAWhen("after `at` comes a time such as 9:00")
        return found
    return clock(words)


def no_clock(words: Words) -> NotAWhen:
    """What to say where a time of day is missing."""
    if words.over:
        return NotAWhen("say the time of day, such as `at 9:00`")
    return NotAWhen(f"{words.next[:30]!r} is not understood")


def calendar_date(words: Words, today: date) -> date | None:
    """`2026-12-24`, `24 december`, `december 24th 2026`, `today`, `tomorrow`."""
    if words.take("today"):
        return today
    if words.take("tomorrow"):
        return today + timedelta(days=1)
    if _DATE.fullmatch(words.next):
        words.place += 1
        return _date(*(int(each) for each in words.after(-1).split("-")))
    return _named_date(words, today)


def _named_date(words: Words, today: date) -> date | None:
    began = words.place
    month = words.one_of(MONTH_NAMES)
    day = words.nth() or words.number()
    if month is None and day is not None:
        words.take("of")
        month = words.one_of(MONTH_NAMES)
    if month is None or day is None:
        words.place = began
        return None
    return _year_of(words, today, month + 1, day)


def _year_of(words: Words, today: date, month: int, day: int) -> date:
    """The year that is said, else the next time that this day comes."""
    if re.fullmatch(r"[12]\d{3}", words.next):
        words.place += 1
        return _date(int(words.after(-1)), month, day)
    for year in range(today.year, today.year + 9):
        try:
            found = date(year, month, day)
        except ValueError:
            continue
        if found >= today:
            return found
    raise NotAWhen("there is no such day")


def _date(year: int, month: int, day: int) -> date:
    try:
        return date(year, month, day)
    except ValueError:
        raise NotAWhen("there is no such day") from None


def once(words: Words, now: datetime) -> str:
    """A moment that comes once, as an ISO time on the wall or with its offset; `now` is in the zone."""
    if words.take("in"):
        return _later(words, now)
    spoken = at_clock(words)
    words.take("on")
    weekday = _weekday(words, now.date())
    day = weekday or calendar_date(words, now.date())
    if spoken is None:
        spoken = at_clock(words)
    if spoken is None:
        raise no_clock(words)
    if day is None:
        day = now.date() + timedelta(days=spoken <= now.time())
    elif weekday is not None and day == now.date() and spoken <= now.time():
        day += timedelta(days=WEEK)
    return datetime.combine(day, spoken).isoformat(timespec="minutes")


def _weekday(words: Words, today: date) -> date | None:
    """The first such day from today on; behind `next` from tomorrow on."""
    began = words.place
    later = words.take("next")
    found = words.one_of(DAY_NAMES)
    if found is None:
        words.place = began
        return None
    ahead = (found - today.weekday()) % WEEK
    return today + timedelta(days=WEEK if later and not ahead else ahead)


def _later(words: Words, now: datetime) -> str:
    """`in 10 minutes` is a length of time, `in 2 days` the same time of day; both may name a time."""
    found = length(words)
    if found is None:
        raise NotAWhen("after `in` comes a length such as 10 minutes")
    count, unit = found
    if unit in FIXED:
        moment = now.astimezone(UTC) + timedelta(seconds=count * FIXED[unit])
        return moment.isoformat(timespec="seconds")
    if unit not in {"d", "w"}:
        raise NotAWhen("months and years differ in length: say the date")
    day = now.date() + timedelta(days=count * (WEEK if unit == "w" else 1))
    spoken = at_clock(words) or now.time().replace(second=0, microsecond=0)
    return datetime.combine(day, spoken).isoformat(timespec="minutes")


def local(now: int, zone: str) -> datetime:
    """Milliseconds as the time on the wall there."""
    return datetime.fromtimestamp(now / 1000, ZoneInfo(known_zone(zone)))
