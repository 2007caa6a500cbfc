"""Cron expressions: their times on a wall's clock, without zones, in seconds since 1970."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import lru_cache

from cronsim import CronSim, CronSimError

from duework.errors import UsageError
from duework.shapes.schedules.cron_text import complaint, unwrapped
from duework.shapes.schedules.recurrence import EPOCH

LONGEST_TEXT = 4000
# How far ahead cron may have its next time: 29 February on a given weekday comes within 40 years.
HORIZON_YEARS = 50

_ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


def expression(cron: str) -> str:
    if len(cron) > LONGEST_TEXT:
        raise UsageError(f"cron= is a text of at most {LONGEST_TEXT} characters")
    return " ".join(_ALIASES.get(cron.strip().lower(), cron).split())


@dataclass(frozen=True, slots=True)
class Cron:
    """A parsed expression. Days are matched by the parser's own rules; times are walked here."""

    parsed: CronSim
    # Whether it runs all through the hours.
    through: bool
    hours: tuple[int, ...]
    # Minutes and seconds, as seconds of an hour.
    within: tuple[int, ...]

    def after(self, second: int) -> int | None:
        """The first time on the wall that fits and is later, in seconds; zones do not matter."""
        found = self._after(EPOCH + timedelta(seconds=second))
        return None if found is None else int((found - EPOCH).total_seconds())

    def _after(self, wall: datetime) -> datetime | None:
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
def read(text: str) -> Cron:
    try:
        parsed = CronSim(unwrapped(text), EPOCH)
    except (CronSimError, AssertionError, ValueError) as error:
        message = (
            f"cannot read the cron expression {text[:200]!r}:"
            f" {complaint(text, str(error)[:100])}; write five"
            " fields (minute hour day month weekday), such as '30 2 * * *' or '*/15 * * * *'"
        )
        raise UsageError(message) from None
    within = sorted(minute * 60 + second for minute in parsed.minutes for second in parsed.seconds)
    through = parsed.parts[1].startswith("*") or parsed.parts[2].startswith("*")
    return Cron(parsed, through, tuple(sorted(parsed.hours)), tuple(within))
