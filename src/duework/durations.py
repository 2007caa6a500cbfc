"""Lengths of time as people write them: "10s", "1h 30m", 2.5, timedelta; and times: ISO texts.

Everything inside is integer milliseconds; this is where other spellings end.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from duework.clock import FOREVER, as_ms
from duework.errors import UsageError

Duration = str | int | float | timedelta
Moment = str | int | datetime

LONGEST_TEXT = 100

_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)")


def milliseconds(length: Duration) -> int:
    """A duration in milliseconds; plain numbers are seconds."""
    if isinstance(length, timedelta):
        result: float = length.total_seconds() * 1000
    elif isinstance(length, str):
        result = _parse(length)
    elif isinstance(length, (int, float)) and not isinstance(length, bool):
        result = length * 1000
    else:
        message = "a duration is a text like '10m', a number of seconds or a timedelta, not"
        raise UsageError(f"{message} {_shown(length)}")
    # Written so that it also refuses what is not a number.
    if not 0 <= result < FOREVER:
        raise UsageError(f"a duration cannot be negative or without end: {_shown(length)}")
    return round(result)


def _parse(text: str) -> float:
    if len(text) > LONGEST_TEXT:
        raise UsageError(f"a duration is a text of at most {LONGEST_TEXT} characters")
    total, position = 0.0, 0
    while match := _PART.match(text, position):
        total += float(match[1]) * _UNITS[match[2]]
        position = match.end()
    if position == 0 or text[position:].strip():
        message = f"cannot read {text!r} as a duration; write '500ms', '10s', '5m', '1h 30m', '7d'"
        raise UsageError(message)
    return total


def _shown(value: object) -> str:
    try:
        return f"{value!r:.100}"
    except ValueError:
        return "a number of thousands of digits"


def moment(when: Moment) -> int:
    """A point in time in milliseconds: an aware datetime, an ISO text with an offset, or ms."""
    found: object = when
    try:
        if isinstance(when, str):
            found = as_ms(datetime.fromisoformat(when))
        elif isinstance(when, datetime):
            found = as_ms(when)
    except ValueError as error:
        raise UsageError(f"cannot read {_shown(when)} as a time: {str(error)[:100]}") from error
    if not isinstance(found, int) or isinstance(found, bool) or not -FOREVER < found < FOREVER:
        message = (
            "a time is a datetime, an ISO text or milliseconds since 1970, before the year 9999"
        )
        raise UsageError(f"{message}, not {_shown(when)}")
    return found


def planned(now: int, delay: Duration | None, at: Moment | None) -> int:
    """The time that one of the two means; now if neither is given."""
    if at is not None:
        return moment(at)
    return now if delay is None else moment(now + milliseconds(delay))


def human(ms: int) -> str:
    """A short text of at most two units: '1h 5m', '12s', '250ms'."""
    if ms < _UNITS["s"]:
        return f"{ms}ms"
    rest, parts = ms, []
    for unit in ("d", "h", "m", "s"):
        count, rest = divmod(rest, _UNITS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2])
