"""The text of cron expressions: ranges that go round, and why one cannot be read."""

from __future__ import annotations

import re
from dataclasses import dataclass

_MONTH_NAMES = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES, 1)}
DAY_NAMES = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_DAYS = {name: number for number, name in enumerate(DAY_NAMES)}
_RANGE = re.compile(r"(\w+)-(\w+)(?:/(\d{1,4}))?")


@dataclass(frozen=True, slots=True)
class Field:
    """One field of an expression: what it is called and what it may hold."""

    # As the parser's errors name it.
    name: str
    least: int
    most: int
    names: dict[str, int]

    def number(self, text: str) -> int | None:
        found = self.names.get(text.upper())
        if found is None and text.isascii() and text.isdecimal():
            found = int(text[:4])
        return found if found is not None and self.least <= found <= self.most else None

    def unwrapped(self, term: str) -> str:
        """`FRI-MON` as the days that it means; what does not go round as it is."""
        found = _RANGE.fullmatch(term)
        if found is None:
            return term
        first, last, step = self.number(found[1]), self.number(found[2]), int(found[3] or 1)
        if first is None or last is None or first <= last or step < 1:
            return term
        circle = self.most - self.least + 1
        steps = range(first - self.least, last - self.least + circle + 1, step)
        return ",".join(str(each % circle + self.least) for each in steps)


_SECOND = Field("second", 0, 59, {})
_FIELDS = (
    Field("minute", 0, 59, {}),
    Field("hour", 0, 23, {}),
    Field("day-of-month", 1, 31, {}),
    Field("month", 1, 12, _MONTHS),
    Field("day-of-week", 0, 6, _DAYS),
)


def _fields(text: str) -> list[tuple[Field, str]]:
    parts = text.split()
    kinds = _FIELDS if len(parts) == len(_FIELDS) else (_SECOND, *_FIELDS)
    return list(zip(kinds, parts, strict=True)) if len(parts) == len(kinds) else []


def unwrapped(text: str) -> str:
    """With ranges that go round, such as SAT-SUN and 22-2, in a form that the parser knows."""
    fields = _fields(text)
    if not any("-" in part for _, part in fields):
        return text
    return " ".join(",".join(map(kind.unwrapped, part.split(","))) for kind, part in fields)


def complaint(text: str, said: str) -> str:
    """What is wrong with an expression, and what to write instead; `said` is the parser's word."""
    if text.lower() == "@reboot":
        return "@reboot is no time: enqueue the job where your program starts"
    if text.lower().startswith("@every"):
        return "@every is not cron: use every=, as every='5m'"
    if text.startswith("@"):
        return "of the words with @ there are @hourly, @daily, @weekly, @monthly and @yearly"
    for kind, part in _fields(text):
        if said.lower() == f"bad {kind.name}":
            return f"the {kind.name} {part[:50]!r} {_why(kind, part)}"
    fields = "fields (minute hour day month weekday)"
    count = len(text.split())
    return f"it has {count} of the five {fields}" if count != len(_FIELDS) else said or "bad step"


def _why(kind: Field, part: str) -> str:
    if "?" in part:
        return "has a ?: write * for any"
    if re.search(r"/0*(,|$)", part):
        return "has a step of nothing: write one of 1 or more after the /"
    if re.search(r"\d[Ww]", part):
        return "asks for the nearest weekday (W), which is not known here"
    if "L" in part.upper() and not set(part.upper()) & {*"ABCEGJN"}:
        return "has an L, which is for the last day of a month (L) or its last Friday (5L)"
    if re.fullmatch(r"[Hh](\W.*)?", part):
        return "has an H, which only Jenkins knows: write a number"
    names = f", or {', '.join(kind.names)}" if kind.names else ""
    return f"is not of {kind.least} to {kind.most}{names}"
