"""Amounts and periods: pure functions, no clock, no database."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from zoneinfo import ZoneInfo

from duework.errors import UsageError

MILLION = 1_000_000
MOST = 10**12
PERIODS = ("minute", "hour", "day", "month")
_LENGTHS = {"minute": timedelta(minutes=1), "hour": timedelta(hours=1)}
Amount = int | float | str | Decimal


def millionths(amount: Amount) -> int:
    """An amount as whole millionths; a number from 0 up that can still be added to."""
    try:
        exact = Decimal(str(amount))
    except InvalidOperation:
        exact = Decimal(-1)
    if isinstance(amount, bool) or not exact.is_finite() or not 0 <= exact <= MOST:
        raise UsageError(f"an amount is a number from 0 up to {MOST:,}, not {amount!r:.50}")
    return int((exact * MILLION).to_integral_value())


def shown(amount: int) -> str:
    """Millionths as a decimal number, without zeros that say nothing beyond two places."""
    text = f"{Decimal(amount) / MILLION:.6f}"
    whole, _, rest = text.partition(".")
    return f"{whole}.{rest.rstrip('0').ljust(2, '0')}"


def zone(name: str) -> ZoneInfo:
    """A time zone by its name."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise UsageError(
            f"there is no time zone {name!r}; names are as in Europe/London"
        ) from error


def period(now: int, per: str, tz: str) -> tuple[int, int]:
    """When the period of a time began and when it ends, in milliseconds."""
    at = datetime.fromtimestamp(now / 1000, zone(tz)).replace(second=0, microsecond=0)
    if per == "minute":
        start = at
    elif per == "hour":
        start = at.replace(minute=0)
    else:
        start = at.replace(hour=0, minute=0, fold=0, day=1 if per == "month" else at.day)
    if (length := _LENGTHS.get(per)) is not None:
        return _ms(start), _ms(start) + round(length.total_seconds() * 1000)
    # Into the next day or month, however long this one is.
    later = start + timedelta(days=1 if per == "day" else 32)
    return _ms(start), _ms(later if per == "day" else later.replace(day=1))


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)
