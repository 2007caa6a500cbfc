"""A rule of cron as a calendar has it, where there is one: fixed minutes and hours on days."""

from __future__ import annotations

import re

DAYS = ("SU", "MO", "TU", "WE", "TH", "FR", "SA", "SU")
NAMES = {
    name: place for place, name in enumerate(("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"))
}
_LIST = re.compile(r"\d{1,2}(?:,\d{1,2})*", re.ASCII)
FIELDS = 5


def rrule_of(cron: str) -> str | None:
    """`0 9 * * MON-FRI` is FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYHOUR=9;BYMINUTE=0;BYSECOND=0."""
    fields = cron.upper().split()
    if len(fields) != FIELDS or not all(_LIST.fullmatch(each) for each in fields[:2]):
        return None
    minute, hour, day, month, weekday = fields
    if day != "*" and weekday != "*":
        return None
    where = _where(day, month, weekday)
    return None if where is None else f"{where};BYHOUR={hour};BYMINUTE={minute};BYSECOND=0"


def _where(day: str, month: str, weekday: str) -> str | None:
    months = "" if month == "*" else f";BYMONTH={month}"
    if month != "*" and not _LIST.fullmatch(month):
        return None
    if day != "*":
        frequency = "YEARLY" if months else "MONTHLY"
        return f"FREQ={frequency}{months};BYMONTHDAY={day}" if _LIST.fullmatch(day) else None
    if weekday == "*":
        return f"FREQ=DAILY{months}"
    names = _weekdays(weekday)
    return None if names is None else f"FREQ=WEEKLY{months};BYDAY={names}"


def _weekdays(text: str) -> str | None:
    found: list[str] = []
    for piece in text.split(","):
        ends = [NAMES.get(each, int(each) if each.isdigit() else None) for each in piece.split("-")]
        if any(each is None or not 0 <= each <= 7 for each in ends) or len(ends) > 2:  # noqa: PLR2004
            return None
        first, last = ends[0] or 0, ends[-1] or 0
        if first > last:
            return None
        found += [DAYS[each] for each in range(first, last + 1)]
    return ",".join(dict.fromkeys(found))
