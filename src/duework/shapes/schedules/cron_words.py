"""Cron expressions as people say them: the usual ones in words, every other one as it was written."""

from __future__ import annotations

import re

from duework.shapes.schedules.cron_text import DAY_NAMES

_FIELDS = 5
# A longer list is easier to read as it was written.
_MOST = 6
_MINUTES, _HOURS, _MONTH_DAYS, _LAST_DAY = 60, 24, 31, 7
_DAYS = ("Sundays", "Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays")
_GROUPS = {(1, 2, 3, 4, 5): "weekdays", (0, 6): "weekends"}
_STEP = re.compile(r"\*/(\d{1,2})")


def cron_words(rule: str) -> str:
    """`every 15 min`, `every hour at :05`, `weekdays at 07:30`; else `cron` and the fields."""
    fields = rule.split()
    said = _said(*fields) if len(fields) == _FIELDS else None
    return said or f"cron {' '.join(fields)}"


def _said(minute: str, hour: str, day: str, month: str, weekday: str) -> str | None:
    days = _days(day, weekday) if month == "*" else None
    if days is None:
        return None
    often = _often(minute, hour)
    if often is not None:
        return f"{often} on {days}" if days else often
    minutes, hours = _numbers(minute, _MINUTES - 1), _numbers(hour, _HOURS - 1)
    if minutes is None or hours is None or len(minutes) > 1:
        return None
    return f"{days or 'daily'} at {_joined([f'{each:02}:{minutes[0]:02}' for each in hours])}"


def _often(minute: str, hour: str) -> str | None:
    """What comes at the same distance again, each hour or more often, or every few hours."""
    if hour == "*" and (step := _step(minute, _MINUTES)):
        return "every minute" if step == 1 else f"every {step} min"
    minutes, step = _numbers(minute, _MINUTES - 1), _step(hour, _HOURS)
    if minutes is None or step is None:
        return None
    at = _joined([f":{each:02}" for each in minutes])
    return f"every {'hour' if step == 1 else f'{step} h'} at {at}"


def _step(field: str, circle: int) -> int | None:
    """How far apart its times are, if that is always the same."""
    if field == "*":
        return 1
    found = _STEP.fullmatch(field)
    step = int(found[1]) if found else 0
    return step if 0 < step < circle and circle % step == 0 else None


def _days(day: str, weekday: str) -> str | None:
    """On which days; empty for each day, None for what has no short words."""
    if weekday == "*":
        if day == "*":
            return ""
        dates = _numbers(day, _MONTH_DAYS)
        return None if dates is None else f"day {_joined(list(map(str, dates)))} of the month"
    text = weekday.upper()
    for number, name in enumerate(DAY_NAMES):
        text = text.replace(name, str(number))
    found = _numbers(text, _LAST_DAY)
    if day != "*" or found is None:
        return None
    numbers = tuple(sorted({each % _LAST_DAY for each in found}))
    return _GROUPS.get(numbers) or _joined([_DAYS[each] for each in numbers])


def _numbers(field: str, most: int) -> list[int] | None:
    """The numbers of a list like `5,35` or `1-5`; None for anything else."""
    found: list[int] = []
    for term in field.split(","):
        first, _, last = term.partition("-")
        last = last or first
        if not (first.isascii() and first.isdecimal() and last.isascii() and last.isdecimal()):
            return None
        if not int(first[:3]) <= int(last[:3]) <= most:
            return None
        found += range(int(first), int(last) + 1)
    return sorted(set(found)) if len(found) <= _MOST else None


def _joined(words: list[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last
