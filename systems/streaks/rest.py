"""Days of rest: weekdays off, holidays, a day that is frozen. They neither break a streak nor are told.

What was done on such a day counts. Holidays are kept for good: a streak reaches back over them.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

from duework import App, Run, Transaction

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
# Longer than any holiday that is one.
LONGEST = 92
AWAY = "select first, last from streaks_away where person = :id order by first desc"
LEAVE = """
insert into streaks_away (person, first, last) values (:person, :first, :last)
on conflict (person, first) do update set last = excluded.last
"""
RETURN = "delete from streaks_away where person = :person and first = :first"
Rest = Callable[[date], bool]


def rest_of(reader: App | Run | Transaction, person: Any) -> Rest:
    """Whether a day is one of rest for this person."""
    off = {WEEKDAYS.index(name) for name in person.days_off.split(",") if name}
    away = [(row.first, row.last) for row in reader.read(AWAY, id=person.id)]

    def resting(day: date) -> bool:
        text = day.isoformat()
        return day.weekday() in off or any(first <= text <= last for first, last in away)

    return resting


def weekdays(text: str) -> str | None:
    """The weekdays in order; None if one of them is none, or if no day is left to work on."""
    names = set(text.lower().replace(",", " ").split())
    if names - set(WEEKDAYS) or len(names) == len(WEEKDAYS):
        return None
    return ",".join(name for name in WEEKDAYS if name in names)


def span(first: str, last: str) -> tuple[str, str] | None:
    """Two dates as they are stored; None if they are no dates, turned round or too far apart."""
    try:
        begin, end = date.fromisoformat(first), date.fromisoformat(last or first)
    except ValueError:
        return None
    in_order = 0 <= (end - begin).days < LONGEST
    return (begin.isoformat(), end.isoformat()) if in_order else None
