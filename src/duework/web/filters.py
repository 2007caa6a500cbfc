"""Numbers and times as people read them: one function each, for every page.

They take plain numbers and give plain text. Nothing here knows about HTML.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from duework.clock import FOREVER, as_datetime
from duework.health import words

NONE = "–"  # noqa: RUF001 - an en dash, for what there is none of
BOUND = 100_000
_K, _M = 1000, 1_000_000
_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000
_WEEK = 7 * _DAY
_SOON = 10 * _MINUTE
_UNITS = (("d", _DAY), ("h", _HOUR), ("min", _MINUTE), ("s", _SECOND))
_LONGEST_NAME = 64


def n(count: int | None) -> str:
    """A count that is exact: 1,204, then three digits: 412 k, 1.2 M."""
    if count is None:
        return NONE
    if abs(count) < BOUND:
        return f"{count:,}"
    # 999,500 and more would be a thousand k.
    for unit, size in (("k", _K), ("M", _M), ("G", _K * _M)):
        value = count / size
        if abs(value) < 999.5 or unit == "G":  # noqa: PLR2004 - what rounds to a thousand
            return f"{words.three(value)} {unit}"
    raise AssertionError


def counted(count: int | None) -> str:
    """A count that stops at a bound."""
    return f"{BOUND:,}+" if count is not None and count >= BOUND else n(count)


def rate(per_second: float | None) -> str:
    """6.9/s, or 41/min where it is less than one a second."""
    if per_second is None:
        return NONE
    if per_second >= 1:
        return f"{words.three(per_second)}/s"
    return f"{words.three(per_second * 60)}/min"


def dur(ms: float | None) -> str:
    """A length of time in two units at most: 840 µs, 3 ms, 1.4 s, 1 min 8 s, 6 d 4 h."""
    if ms is None:
        return NONE
    ms = max(0.0, ms)
    if ms < 1:
        return f"{ms * 1000:.0f} µs"
    if ms < 999.5:  # noqa: PLR2004 - what rounds to a second
        return f"{ms:.0f} ms"
    if ms < 9_950:  # noqa: PLR2004 - what rounds to ten seconds
        return f"{ms / _SECOND:.1f}".removesuffix(".0") + " s"
    rest = round(ms / _SECOND) * _SECOND
    parts: list[str] = []
    for unit, size in _UNITS:
        count, rest = divmod(rest, size)
        if count or parts:
            parts.append(f"{count} {unit}" if count else "")
    return " ".join(part for part in parts[:2] if part)


def size(count: int | None) -> str:
    """Bytes in decimal units: 214 bytes, 6.4 GB."""
    return NONE if count is None else words.size(count)


def share(part: float | None) -> str:
    """A part of the whole without decimals; what is something is never 0 %."""
    if part is None:
        return NONE
    percent = round(part * 100)
    return "<1 %" if part > 0 and percent == 0 else f"{percent} %"


def amount(value: Decimal, unit: str = "") -> str:
    """What a budget counts: $0.012454, $5.00, 1,204 tokens; without a unit, the number."""
    whole, _, rest = f"{value:,f}".partition(".")
    money = bool(unit) and not unit[0].isalpha()
    rest = rest.rstrip("0").ljust(2 if money else 0, "0")
    text = f"{whole}.{rest}" if rest else whole
    return f"{unit}{text}" if money else f"{text} {unit}".rstrip()


def when(ms: int | None, now: int, zone: tzinfo = UTC) -> str:
    """A point in time: 8 s ago, in 4 min 12 s, Mon 14:02, 3 Nov, 3 Nov 2025."""
    if ms is None:
        return NONE
    if ms >= FOREVER:
        return "not yet known"
    apart = abs(ms - now)
    if apart < _SECOND:
        return "now"
    if apart < _DAY:
        words = _span(apart, fine=ms > now and _MINUTE < apart < _SOON)
        return f"in {words}" if ms > now else f"{words} ago"
    then, here = as_datetime(ms).astimezone(zone), as_datetime(now).astimezone(zone)
    if apart < _WEEK and abs(then.date() - here.date()) < timedelta(days=7):
        return f"{then:%a %H:%M}"
    return f"{then.day} {then:%b}" + ("" if then.year == here.year else f" {then.year}")


def _span(ms: int, *, fine: bool) -> str:
    """The largest unit alone, as the browser goes on counting it; near to a due time, seconds too."""
    if fine:
        minutes, rest = divmod(ms, _MINUTE)
        return f"{minutes} min {rest // _SECOND} s"
    for unit, length in _UNITS:
        if ms >= length:
            return f"{ms // length} {unit}"
    return "0 s"


def exact(ms: int | None, zone: tzinfo = UTC) -> str:
    """To the millisecond, with the zone's name, and in UTC where that is another."""
    if ms is None or ms >= FOREVER:
        return NONE
    then = as_datetime(ms)
    text = _exact(then.astimezone(zone))
    return text if zone is UTC else f"{text} · {then:%H:%M:%S} UTC"


def _exact(then: datetime) -> str:
    return f"{then:%a} {then.day} {then:%b %Y %H:%M:%S}.{then.microsecond // 1000:03} {then:%Z}"


def clock(ms: int, zone: tzinfo = UTC) -> str:
    """The time of day, for where two times are compared."""
    return f"{as_datetime(ms).astimezone(zone):%H:%M:%S}"


def at_clock(ms: int, now: int, zone: tzinfo = UTC) -> str:
    """A time of the near future or past as a clock shows it: 14:30:05, 14:30, Wed 14:30, 3 Nov 14:30."""
    then, here = as_datetime(ms).astimezone(zone), as_datetime(now).astimezone(zone)
    if then.date() == here.date():
        return f"{then:%H:%M:%S}" if abs(ms - now) < _SOON else f"{then:%H:%M}"
    if abs(ms - now) < _WEEK:
        return f"{then:%a %H:%M}"
    return f"{then.day} {then:%b %H:%M}" + ("" if then.year == here.year else f" {then.year}")


def iso(ms: int) -> str:
    """For machines: ISO in UTC."""
    return as_datetime(ms).strftime("%Y-%m-%dT%H:%M:%S.") + f"{ms % 1000:03}Z"


def zone_of(name: str | None) -> tzinfo:
    """The zone that a browser named; UTC if there is no such zone."""
    if not name or name == "UTC" or len(name) > _LONGEST_NAME:
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC


def zone_name(ms: int, zone: tzinfo) -> str:
    """What the zone calls itself at that time."""
    return f"{as_datetime(ms).astimezone(zone):%Z}"
