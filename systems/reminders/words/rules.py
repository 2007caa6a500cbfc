"""What comes again and again: `every weekday at 9:00`, `every other friday at 5pm`, `every 10 minutes`."""

from __future__ import annotations

from datetime import date, time
from typing import Any

from systems.reminders.words.moments import at_clock, calendar_date, no_clock
from systems.reminders.words.tokens import (
    DAY_NAMES,
    MONTH_NAMES,
    ORDINALS,
    WEEKDAYS,
    NotAWhen,
    Words,
    length,
)

Options = dict[str, Any]

ADVERBS = {"daily": "d", "weekly": "w", "monthly": "month", "yearly": "year", "hourly": "h"}
UNIT_WORDS = {"day": "d", "week": "w", "month": "month", "year": "year"}
GROUPS = {
    "weekday": "MO,TU,WE,TH,FR",
    "weekdays": "MO,TU,WE,TH,FR",
    "workday": "MO,TU,WE,TH,FR",
    "weekend": "SA,SU",
    "weekends": "SA,SU",
}
FREQUENCIES = {"d": "DAILY", "w": "WEEKLY", "month": "MONTHLY", "year": "YEARLY"}
SHORT = tuple(name[:2].upper() for name in WEEKDAYS)


def again(words: Words) -> Options | None:
    """The rule that these words name, without `from`, `until` and `times`; None if they name none."""
    spoken = at_clock(words)
    if (unit := words.one_of(ADVERBS)) is not None:
        return _short("h") if unit == "h" else _calendar(words, 1, unit, spoken)
    if words.take("weekdays", "weekends"):
        return _days(words, 1, GROUPS[words.after(-1)], spoken)
    if not words.take("every", "each"):
        return None
    return _every(words, spoken)


def _every(words: Words, spoken: time | None) -> Options:
    step = 2 if words.take("other", "second") else 1
    if (group := words.one_of(GROUPS)) is not None:
        return _days(words, step, group, spoken)
    if step == 1 and words.next in ORDINALS and words.after(1) in {**DAY_NAMES, "day": 0}:
        return _nth_day(words, spoken)
    if (names := _day_list(words)) is not None:
        return _days(words, step, names, spoken)
    if (unit := words.one_of(UNIT_WORDS)) is not None:
        return _calendar(words, step, unit, spoken)
    return _length(words, step, spoken)


def _length(words: Words, step: int, spoken: time | None) -> Options:
    if step == 1 and words.take("hour", "minute"):
        return _short(words.after(-1)[0])
    found = length(words) if step == 1 else None
    if found is None:
        raise NotAWhen("after `every` comes a day, a length or a weekday")
    count, unit = found
    if unit in {"s", "m", "h"}:
        if spoken is not None or words.next == "at":
            raise NotAWhen("a length of hours has no time of day")
        return {"every": f"{count}{unit}"}
    return _calendar(words, count, unit, spoken)


def _short(unit: str) -> Options:
    return {"every": f"1{unit}"}


def _day_list(words: Words) -> str | None:
    """`monday`, `mon and thu`, `mon, wed and fri`."""
    found: list[int] = []
    while (day := words.one_of(DAY_NAMES)) is not None:
        found.append(day)
        words.take("and", "&")
    return ",".join(SHORT[day] for day in sorted(set(found))) or None


def _calendar(words: Words, step: int, unit: str, spoken: time | None) -> Options:
    if unit == "d":
        return _rule("d", step, "", _clock(words, spoken))
    if unit == "w":
        words.need(("on",), "the weekday, as in `every week on monday`,")
        names = _day_list(words)
        if names is None:
            raise NotAWhen("after `on` comes a weekday")
        return _days(words, step, names, spoken)
    words.need(("on",), "the day, as in `every month on the 3rd`,")
    words.take("the")
    where = _of_month(words) if unit == "month" else _of_year(words)
    return _rule(unit, step, where, _clock(words, spoken))


def _of_month(words: Words) -> str:
    """`3rd`, `last day`, `first monday`."""
    if (day := words.nth()) is not None:
        return f"BYMONTHDAY={day}"
    return _ordinal(words)


def _ordinal(words: Words) -> str:
    place = words.one_of(ORDINALS)
    if place == -1 and words.take("day"):
        return "BYMONTHDAY=-1"
    if place == 1 and words.take("day"):
        return "BYMONTHDAY=1"
    day = words.one_of(DAY_NAMES) if place is not None else None
    if place is None or day is None:
        raise NotAWhen("say the 3rd, the last day or the first monday")
    return f"BYDAY={place}{SHORT[day]}"


def _of_year(words: Words) -> str:
    found = calendar_date(words, date(2024, 1, 1))
    if found is None or found.year > 2032:  # noqa: PLR2004 - a leap day has come by then
        raise NotAWhen("say the day of the year, such as 24 december")
    return f"BYMONTH={found.month};BYMONTHDAY={found.day}"


def _nth_day(words: Words, spoken: time | None) -> Options:
    """`every first monday of the month`."""
    where = _ordinal(words)
    if words.take("of"):
        words.take("the", "each", "every")
        if (month := words.one_of(MONTH_NAMES)) is not None:
            return _rule("year", 1, f"BYMONTH={month + 1};{where}", _clock(words, spoken))
        words.need(("month",), "`of the month`")
    return _rule("month", 1, where, _clock(words, spoken))


def _days(words: Words, step: int, names: str, spoken: time | None) -> Options:
    return _rule("w", step, f"BYDAY={names}", _clock(words, spoken))


def _clock(words: Words, spoken: time | None) -> list[time]:
    """The times of day, which share their minutes: a rule is one for all of them."""
    found = [] if spoken is None else [spoken]
    while (one := at_clock(words)) is not None:
        found.append(one)
        if not words.take("and", "&"):
            break
    if not found:
        raise no_clock(words)
    if len({each.minute for each in found}) > 1:
        raise NotAWhen("times of one reminder share their minutes; make one for each")
    return sorted(set(found))


def _rule(unit: str, step: int, where: str, times: list[time]) -> Options:
    if step < 1:
        raise NotAWhen("a length is 1 or more")
    hours = ",".join(str(each.hour) for each in times)
    parts = [f"FREQ={FREQUENCIES[unit]}"]
    parts += [f"INTERVAL={step}"] if step > 1 else []
    parts += [where] if where else []
    parts += [f"BYHOUR={hours}", f"BYMINUTE={times[0].minute}", "BYSECOND=0"]
    return {"rrule": ";".join(parts)}
