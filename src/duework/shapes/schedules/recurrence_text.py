"""Recurrence rules as texts: `FREQ=WEEKLY;BYDAY=MO,TH`. What the standard forbids is refused here."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta
from math import gcd

from duework.shapes.schedules.recurrence import (
    DAILY,
    DAY,
    EPOCH,
    HOURLY,
    MINUTELY,
    MONTHLY,
    WEEKLY,
    YEARLY,
    Days,
    Recurrence,
    Values,
    either,
)

LONGEST = 10_000
# Such a rule is counted hour by hour.
_FARTHEST = 36_525

_WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY")
# Whether a value may be negative, counted from the end; the least and the most of it.
_LISTS = {
    "BYMONTH": (False, 1, 12),
    "BYWEEKNO": (True, 1, 53),
    "BYYEARDAY": (True, 1, 366),
    "BYMONTHDAY": (True, 1, 31),
    "BYHOUR": (False, 0, 23),
    "BYMINUTE": (False, 0, 59),
    "BYSECOND": (False, 0, 59),
    "BYSETPOS": (True, 1, 366),
}
_NTH = re.compile(r"([+-]?\d{1,2})?(MO|TU|WE|TH|FR|SA|SU)", re.ASCII)
_NUMBER = re.compile(r"[+-]?\d{1,5}", re.ASCII)
_NONE: Values = frozenset()


def parse(text: str, start: int) -> Recurrence:
    """Read one rule that begins at a time on the wall; a ValueError says what is wrong with it."""
    parts = _parts(text)
    frequency = _frequency(parts)
    lists = {name: _numbers(parts, name) for name in _LISTS}
    week_start = _one_of(_WEEKDAYS, parts, "WKST", "MO")
    interval = _number(parts, "INTERVAL") or 1
    count, until = _number(parts, "COUNT"), parts.get("UNTIL")
    if count is not None and until is not None:
        raise ValueError("COUNT and UNTIL exclude each other")
    shown = EPOCH + timedelta(seconds=start)
    days = _days(frequency, lists, _by_day(parts), week_start)
    _check(frequency, interval, lists, days, parts)
    days = _from_start(frequency, days, shown)
    steps, within = _clock(frequency, lists, shown)
    positions = lists["BYSETPOS"]
    if positions and frequency >= DAILY:
        # The set of such a period is always the same.
        size = len(within)
        within = tuple(
            each for place, each in enumerate(within, 1) if either(positions, place, size)
        )
        positions = _NONE
    if frequency > DAILY:
        # Steps that the interval never comes upon.
        size = 24 if frequency == HOURLY else 1440
        if (count or 0) * interval > _FARTHEST * size:
            raise ValueError(
                f"COUNT by the hour or minute is of {_FARTHEST} days at most; use UNTIL"
            )
        common = gcd(size, interval)
        steps = tuple(each for each in steps if (each - start * size // DAY) % common == 0)
    most = len(within) * {MONTHLY: 31, WEEKLY: len(days.weekdays)}.get(frequency, 366)
    chosen = tuple(sorted(each for each in positions if abs(each) <= most))
    if not within or (positions and not chosen):
        # It never comes.
        steps = ()
    return Recurrence(start, frequency, interval, days, chosen, steps, within, count, until)


def _parts(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in text.upper().strip().removesuffix(";").split(";"):
        name, equals, value = (each.strip() for each in part.partition("="))
        if not equals or not value:
            raise ValueError(f"{part[:50]!r} is not NAME=VALUE")
        if name in found:
            raise ValueError(f"{name} is there twice")
        if name not in {"FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYDAY"} | _LISTS.keys():
            raise ValueError(f"there is no part {name[:50]!r}")
        found[name] = value
    return found


def _frequency(parts: dict[str, str]) -> int:
    if parts.get("FREQ") == "SECONDLY":
        raise ValueError("a recurrence rule is by the minute or slower; use every= for seconds")
    return _one_of(_FREQUENCIES, parts, "FREQ", "")


def _one_of(words: tuple[str, ...], parts: dict[str, str], name: str, default: str) -> int:
    value = parts.get(name, default)
    if value not in words:
        raise ValueError(f"{name} is one of {', '.join(words)}")
    return words.index(value)


def _integer(name: str, text: str, least: int, most: int, *, negative: bool = False) -> int:
    value = int(text) if _NUMBER.fullmatch(text) else None
    if value is None or not (least <= value <= most or (negative and least <= -value <= most)):
        sign = ", or negative" if negative else ""
        raise ValueError(f"{name} is {least} to {most}{sign}, not {text[:50]!r}")
    return value


def _number(parts: dict[str, str], name: str) -> int | None:
    return _integer(name, parts[name], 1, LONGEST) if name in parts else None


def _numbers(parts: dict[str, str], name: str) -> Values:
    negative, least, most = _LISTS[name]
    texts = parts[name].split(",") if name in parts else ()
    return frozenset(_integer(name, each.strip(), least, most, negative=negative) for each in texts)


def _by_day(parts: dict[str, str]) -> list[tuple[int, int]]:
    """Weekdays, each with its number or 0."""
    found: list[tuple[int, int]] = []
    for text in parts["BYDAY"].split(",") if "BYDAY" in parts else ():
        match = _NTH.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"BYDAY is days such as MO, 1MO or -1FR, not {text[:50]!r}")
        number = _integer("BYDAY", match[1], 1, 53, negative=True) if match[1] else 0
        found.append((number, _WEEKDAYS.index(match[2])))
    return found


def _days(
    frequency: int, lists: dict[str, Values], by_day: list[tuple[int, int]], week_start: int
) -> Days:
    return Days(
        lists["BYMONTH"],
        lists["BYWEEKNO"],
        lists["BYYEARDAY"],
        lists["BYMONTHDAY"],
        frozenset(day for number, day in by_day if number == 0),
        frozenset(each for each in by_day if each[0] != 0),
        in_month=frequency == MONTHLY or bool(lists["BYMONTH"]),
        week_start=week_start,
    )


def _check(
    frequency: int, interval: int, lists: dict[str, Values], days: Days, parts: dict[str, str]
) -> None:
    """Refuse what the standard forbids, and what programs read in different ways."""
    weeks = bool(days.weeks)
    mistakes = {
        "BYWEEKNO goes with FREQ=YEARLY only": weeks and frequency != YEARLY,
        "BYWEEKNO goes with neither INTERVAL nor BYSETPOS, since some weeks are in two years": (
            weeks and (interval > 1 or bool(lists["BYSETPOS"]))
        ),
        "BYYEARDAY does not go with DAILY, WEEKLY and MONTHLY": (
            bool(days.year_days) and frequency in {DAILY, WEEKLY, MONTHLY}
        ),
        "BYMONTHDAY does not go with WEEKLY": bool(days.month_days) and frequency == WEEKLY,
        "FREQ=YEARLY with BYMONTHDAY needs BYMONTH; for every month write FREQ=MONTHLY": (
            bool(days.month_days) and frequency == YEARLY and not days.months
        ),
        "BYDAY with numbers, as in 1MO, goes with MONTHLY and YEARLY, and not with BYWEEKNO": (
            bool(days.nth) and (frequency > MONTHLY or weeks)
        ),
        "BYSETPOS needs another BY… part to choose from": (
            bool(lists["BYSETPOS"]) and sum(name.startswith("BY") for name in parts) == 1
        ),
    }
    for mistake, made in mistakes.items():
        if made:
            raise ValueError(mistake)


def _from_start(frequency: int, days: Days, shown: datetime) -> Days:
    """Take from the start what the rule does not say."""
    if days.weekdays or days.nth or days.month_days or days.year_days or frequency >= DAILY:
        return days
    if frequency == WEEKLY or days.weeks:
        return replace(days, weekdays=frozenset({shown.weekday()}))
    if frequency == YEARLY and not days.months:
        days = replace(days, months=frozenset({shown.month}))
    return replace(days, month_days=frozenset({shown.day}))


def _clock(
    frequency: int, lists: dict[str, Values], shown: datetime
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The steps of a day that have times, and the times in a step."""
    hours, minutes = lists["BYHOUR"], lists["BYMINUTE"]
    seconds = sorted(lists["BYSECOND"] or {shown.second})
    if frequency == MINUTELY:
        steps = [
            hour * 60 + minute
            for hour in sorted(hours or range(24))
            for minute in sorted(minutes or range(60))
        ]
        return tuple(steps), tuple(seconds)
    inside = [m * 60 + s for m in sorted(minutes or {shown.minute}) for s in seconds]
    if frequency == HOURLY:
        return tuple(sorted(hours or range(24))), tuple(inside)
    each_hour = sorted(hours or {shown.hour})
    return (0,), tuple(hour * 3600 + each for hour in each_hour for each in inside)
