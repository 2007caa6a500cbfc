"""Words of a line, one after the other, and what they name: days, months, numbers, lengths."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeVar

T = TypeVar("T")

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
MONTHS = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
NUMBERS = {
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
    "twelve": 12,
    "fifteen": 15,
    "twenty": 20,
    "thirty": 30,
}
ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "last": -1}
UNITS = {
    "second": "s",
    "sec": "s",
    "minute": "m",
    "min": "m",
    "hour": "h",
    "day": "d",
    "week": "w",
    "month": "month",
    "year": "year",
}


class NotAWhen(Exception):
    """These words are no time; `why` says what would be one."""


def _with_plurals(names: Mapping[str, T]) -> dict[str, T]:
    return {**names, **{f"{name}s": value for name, value in names.items()}}


def _names(full: tuple[str, ...]) -> dict[str, int]:
    """In full, and by the first three letters."""
    found = {name[:3]: place for place, name in enumerate(full)}
    return found | {name: place for place, name in enumerate(full)}


DAY_NAMES = _with_plurals(_names(WEEKDAYS)) | {"tues": 1, "weds": 2, "thur": 3, "thurs": 3}
MONTH_NAMES = _names(MONTHS) | {"sept": 8}
UNIT_NAMES = _with_plurals(UNITS) | {"hrs": "h", "hr": "h", **dict.fromkeys("smhdw", "")}


class Words:
    """A place in a line of words; `take` moves on, and says what it took."""

    def __init__(self, words: list[str]) -> None:
        self._words = [word.lower().rstrip(",") for word in words]
        self.place = 0

    @property
    def over(self) -> bool:
        return self.place >= len(self._words)

    @property
    def next(self) -> str:
        return "" if self.over else self._words[self.place]

    def after(self, distance: int) -> str:
        """The word that far behind the next one."""
        place = self.place + distance
        return self._words[place] if place < len(self._words) else ""

    def take(self, *options: str) -> bool:
        """Move on if the next word is one of these."""
        found = self.next in options and not self.over
        self.place += found
        return found

    def one_of(self, names: Mapping[str, T]) -> T | None:
        """What the next word stands for, if it stands for something."""
        if self.over or self.next not in names:
            return None
        self.place += 1
        return names[self._words[self.place - 1]]

    def need(self, names: Collection[str], what: str) -> None:
        if not self.take(*names):
            raise NotAWhen(f"{what} is missing")

    def number(self) -> int | None:
        """A whole number in digits or as a word."""
        if self.next.isascii() and self.next.isdigit() and len(self.next) <= 4:  # noqa: PLR2004
            self.place += 1
            return int(self._words[self.place - 1])
        return self.one_of(NUMBERS)

    def nth(self) -> int | None:
        """A day of a month, such as `3rd`, `21st` and `31.`, by its number."""
        word = self.next
        digits = word.removesuffix(".") if word.endswith(".") else word[:-2]
        if word[len(digits) :] not in {"st", "nd", "rd", "th", "."} or not digits.isdigit():
            return None
        if not digits.isascii() or not 1 <= int(digits) <= 31:  # noqa: PLR2004 - days of a month
            return None
        self.place += 1
        return int(digits)


def length(words: Words) -> tuple[int, str] | None:
    """`10 minutes`, `an hour`, `3h`: a number and one of s, m, h, d, w, month, year."""
    began = words.place
    word = words.next
    if word[:-1].isdigit() and word[:-1].isascii() and word[-1] in "smhdw" and len(word) <= 5:  # noqa: PLR2004
        words.place += 1
        return _positive(int(word[:-1]), word[-1])
    count = 1 if words.take("a", "an") else words.number()
    unit = words.one_of(UNIT_NAMES) if count is not None else None
    if count is None or unit is None:
        words.place = began
        return None
    return _positive(count, unit or words.after(-1))


def _positive(count: int, unit: str) -> tuple[int, str]:
    if count < 1:
        raise NotAWhen("a length is 1 or more")
    return count, unit
