"""Quiet hours: what is due in them waits for their end. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from duework import UsageError

_HOURS = re.compile(r"(\d{1,2}):(\d{2})\s*-\s*(\d{1,2}):(\d{2})", re.ASCII)


def quiet_hours(text: str | None) -> str | None:
    """The hours as they are stored; `UsageError` for what names none."""
    if text is None or not text.strip():
        return None
    begin, end = _read(text)
    if begin == end:
        raise UsageError("quiet hours that begin when they end are no hours, or all of them")
    return f"{begin:%H:%M}-{end:%H:%M}"


def waits_until(quiet: str | None, zone: str, now: int) -> int | None:
    """The end of the quiet hours that this moment lies in, in milliseconds; None if it lies in none."""
    if quiet is None:
        return None
    begin, end = _read(quiet)
    here = datetime.fromtimestamp(now / 1000, ZoneInfo(zone))
    at = here.time().replace(tzinfo=None)
    over_night = begin > end
    inside = (at >= begin or at < end) if over_night else begin <= at < end
    if not inside:
        return None
    day = here.date() + timedelta(days=1 if over_night and at >= begin else 0)
    return _end(datetime.combine(day, end, ZoneInfo(zone)), now)


def _end(shown: datetime, now: int) -> int:
    """When the wall shows this after now: the second time if clocks went back, or when they leapt over it."""
    first, second = (round(shown.replace(fold=each).timestamp() * 1000) for each in (0, 1))
    if first <= second:
        return first if first > now else second
    # It is leapt over: `second` is before the leap and `first` after it, both by the other offset.
    low, high = second // 1000, first // 1000
    before = _offset(low, shown)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _offset(middle, shown) == before else (low, middle)
    return high * 1000


def _offset(second: int, where: datetime) -> timedelta | None:
    return datetime.fromtimestamp(second, where.tzinfo).utcoffset()


def audible(times: Iterable[int], held: Callable[[int], int | None]) -> list[int]:
    """When these times are really sent: those of one night together at its end."""
    found: list[int] = []
    for each in times:
        moved = held(each) or each
        if not found or moved != found[-1]:
            found.append(moved)
    return found


def _read(text: str) -> tuple[time, time]:
    found = _HOURS.fullmatch(text.strip())
    try:
        if found is None:
            raise ValueError(text)
        hours = [int(each) for each in found.groups()]
        return time(hours[0], hours[1]), time(hours[2], hours[3])
    except ValueError:
        raise UsageError(f"quiet hours are such as 22:00-07:00, not {text!r:.40}") from None
