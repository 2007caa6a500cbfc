"""When a schedule is due: cron, every, rrule and at, in time zones, as pure functions of time.

A slot is an instant in integer milliseconds. Cron and rrule speak of the clock on the wall, which
some zones turn forward and back:

  * a rule with fixed times (`30 2 * * *`, FREQ=DAILY) has each of them once: a time that the clock
    leaps over is the first instant after the leap, a time that it shows twice is the first of the two;
  * a rule that runs all through the hours (`*/15 * * * *`, `0 * * * *`, FREQ=HOURLY) follows real
    time: what is leapt over is not there, what is shown twice is there twice.

`every` counts from its start and knows no clock on a wall, so it neither drifts nor leaps.

Rules are texts of users. Reading one and finding its next slot takes milliseconds whatever it says, and one
that never comes is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import Literal, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from duework.clock import FOREVER
from duework.durations import human
from duework.errors import UsageError
from duework.shapes.schedules.cron import LONGEST_TEXT, expression, read
from duework.shapes.schedules.recurrence import DAY as _DAY
from duework.shapes.schedules.recurrence import EPOCH as _EPOCH
from duework.shapes.schedules.recurrence import Recurrence
from duework.shapes.schedules.recurrence_text import parse

Kind = Literal["cron", "every", "rrule", "at"]

SHORTEST_MS = 1000
_YEAR = 31_556_952
# From this year on zones have no more than their two changes a year, far apart.
_REGULAR = 130
_LAST = FOREVER // 1000
_STAMP = re.compile(r"\d{8}T\d{6}Z?", re.ASCII)


@dataclass(frozen=True, slots=True)
class When:
    """The times of a schedule. `start` is where `every` and `rrule` count from, and what `at` is."""

    kind: Kind
    # A cron expression, a recurrence rule, or the milliseconds of `every`.
    rule: str
    start: int
    tz: str = "UTC"
    # No slot is later than this.
    end: int | None = None

    def next(self, after: int) -> int | None:
        """The first slot later than `after`, or None if there is no more."""
        slot = self._next(after)
        return None if slot is None or (self.end is not None and slot > self.end) else slot

    def _next(self, after: int) -> int | None:
        if self.kind == "at":
            return self.start if self.start > after else None
        if self.kind == "every":
            period = int(self.rule)
            slot = self.start + max(0, (after - self.start) // period + 1) * period
            return slot if slot < FOREVER else None
        found = _next_on_the_wall(self, max(after, self.start - 1) // 1000)
        return None if found is None or found >= _LAST else found * 1000

    def upcoming(self, after: int, count: int) -> list[int]:
        """The next slots, at most `count`."""
        return list(islice(self._between(after, FOREVER), max(0, count)))

    def latest(self, after: int, until: int, count: int) -> list[int]:
        """The newest slots later than `after` and up to `until`, at most `count`, oldest first.

        Looks back in growing steps for a beginning behind which there are enough and not too many, so
        that the cost grows neither with the time between nor with how close the slots are.
        """
        most = 2 * count + 2
        step = int(self.rule) * count if self.kind == "every" else 60_000
        # Behind the one there are too many, behind the other too few.
        far, near = None, until
        begin = max(after, until - step)
        while True:
            found = list(islice(self._between(begin, until), most + 1))
            if len(found) > most:
                far = begin
            elif begin <= after or len(found) >= count:
                return found[-count:]
            else:
                near = begin
            step *= 4
            begin = max(after, until - step) if far is None else (far + near) // 2

    def _between(self, after: int, until: int) -> Iterator[int]:
        slot = self.next(after)
        while slot is not None and slot <= until:
            yield slot
            slot = self.next(slot)

    def __str__(self) -> str:
        if self.kind == "at":
            return f"at {datetime.fromtimestamp(self.start / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
        if self.kind == "every":
            return f"every {human(int(self.rule))}"
        zone = "" if self.tz == "UTC" else f" {self.tz}"
        return f"{self.kind} {' '.join(self.rule.split())}{zone}"


def when(
    *,
    cron: str | None = None,
    every: int | None = None,
    rrule: str | None = None,
    at: int | None = None,
    tz: str = "UTC",
    start: int,
    end: int | None = None,
) -> When:
    """A checked `When` from one of the four; a UsageError that says what is wrong."""
    given = [each for each in (cron, every, rrule, at) if each is not None]
    if len(given) != 1:
        raise UsageError("a schedule has one of cron=, every=, rrule= and at=")
    zone(tz)
    if at is not None:
        if end is not None:
            raise UsageError("at= is once: end= is for cron=, every= and rrule=")
        return When("at", "", at, tz)
    if every is not None:
        if every < SHORTEST_MS:
            raise UsageError(f"every= is a second or more, not {every} ms")
        made = When("every", str(every), start, tz)
    elif cron is not None:
        made = When("cron", expression(cron), start, tz)
    else:
        assert rrule is not None, "one of them was given"
        # Its times are whole seconds, none of them before the start.
        made = When("rrule", _unfolded(rrule), -(-start // 1000) * 1000, tz)
    if not _comes(made):
        raise UsageError(f"the rule {str(made)[:200]!r} never comes")
    return replace(made, end=end)


def _unfolded(text: str) -> str:
    """A rule and its EXDATE lines, with lines that were folded made whole."""
    if len(text) > LONGEST_TEXT:
        raise UsageError(f"rrule= is a text of at most {LONGEST_TEXT} characters")
    return re.sub(r"\n[ \t]", "", text.replace("\r\n", "\n")).strip().removeprefix("RRULE:")


def _comes(made: When) -> bool:
    """Whether it has a slot at all, not asking when it ends."""
    if made.kind != "rrule":
        return made.next(made.start) is not None
    try:
        return _recurring(made).following(made.start // 1000 - 1) is not None
    except (ValueError, OverflowError):
        raise UsageError(f"the start of {str(made)[:200]!r} is beyond the calendar") from None


@lru_cache(maxsize=1024)
def zone(name: str) -> ZoneInfo:
    """The zone of that name; the package tzdata has them where the machine has not."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        message = f"there is no time zone {name!r}; write it as in 'Europe/London' or 'UTC'"
        raise UsageError(message) from None


def instant(wall: datetime, tz: str) -> int:
    """The milliseconds of a time on the wall, by the rule for fixed times."""
    seconds = _seconds(wall.replace(tzinfo=None, microsecond=0))
    return _first_instant(zone(tz), seconds) * 1000 + wall.microsecond // 1000


def _seconds(wall: datetime) -> int:
    return int((wall - _EPOCH).total_seconds())


# --- zones: offsets in seconds, and where they change


def _offset(area: ZoneInfo, second: int) -> int:
    found = datetime.fromtimestamp(second, area).utcoffset()
    assert found is not None, "a zone knows its offset"
    return found.days * _DAY + found.seconds


@lru_cache(maxsize=4096)
def _changes(area: ZoneInfo, period: int) -> tuple[int, ...]:
    """The instants in one year's length at which the offset changes; looked for day by day."""
    found: list[int] = []
    begin = period * _YEAR
    before = _offset(area, begin)
    step = _DAY if period < _REGULAR else 7 * _DAY
    for low in range(begin, begin + _YEAR, step):
        high = min(low + step, begin + _YEAR)
        after = _offset(area, high)
        if after != before:
            found.append(_change(area, low, high, before))
            before = after
    return tuple(found)


def _change(area: ZoneInfo, low: int, high: int, before: int) -> int:
    """The first second after `low` with another offset."""
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(area, middle) == before:
            low = middle
        else:
            high = middle
    return high


def _next_change(area: ZoneInfo, after: int) -> int:
    """The first change later than `after`, or years later if there is none until then."""
    period = after // _YEAR
    for each in range(period, period + 3):
        for change in _changes(area, each):
            if change > after:
                return change
    return (period + 3) * _YEAR


def _first_instant(area: ZoneInfo, wall: int) -> int:
    """When the clock on the wall first shows this time, or has leapt over it."""
    shown = _EPOCH + timedelta(seconds=wall)
    # Of a time that is shown twice this is the first offset, of one that is leapt over the old one.
    delta = shown.replace(tzinfo=area, fold=0).utcoffset()
    assert delta is not None, "a zone knows its offset"
    second = wall - delta.days * _DAY - delta.seconds
    if second + _offset(area, second) == wall:
        return second
    low = second - 2 * _DAY
    return _change_up_to(area, low, second)


def _change_up_to(area: ZoneInfo, low: int, high: int) -> int:
    """The last change in a short stretch that has one."""
    found = high
    change = _next_change(area, low)
    while change <= high:
        found = change
        change = _next_change(area, change)
    return found


# --- rules on the wall


Match = Callable[[int], int | None]


def _next_on_the_wall(given: When, after: int) -> int | None:
    area = zone(given.tz)
    try:
        if given.kind == "cron":
            cron = read(given.rule)
            return _following(cron.after, area, after, through=cron.through)
        return _recurring(given).next(after)
    except (OverflowError, ValueError):
        # The calendar ends with the year 9999.
        return None


def _following(match: Match, area: ZoneInfo, after: int, *, through: bool) -> int | None:
    """The first instant later than `after` at which the wall shows a time that fits, by its rule."""
    return _through(match, area, after) if through else _fixed(match, area, after)


def _fixed(match: Match, area: ZoneInfo, after: int) -> int | None:
    wall: int | None = after + _offset(area, after)
    while wall is not None:
        wall = match(wall)
        if wall is not None and (found := _first_instant(area, wall)) > after:
            return found
    return None


def _through(match: Match, area: ZoneInfo, after: int) -> int | None:
    """Stretch by stretch of one offset, since the clock may show some times twice."""
    while True:
        offset = _offset(area, after + 1)
        end = _next_change(area, after + 1)
        wall = match(after + offset)
        if wall is not None and wall - offset < end:
            return wall - offset
        if end - after <= 2 * _DAY:
            # The clock may go back to a time that fits.
            after = end - 1
        elif wall is None:
            return None
        else:
            # Whatever it shows until shortly before then does not fit.
            after = max(end - 1, wall - 2 * _DAY)


class _Recurring(NamedTuple):
    """A recurrence rule in its zone; times are seconds."""

    rule: Recurrence
    area: ZoneInfo
    start: int
    # The last one, by UNTIL or COUNT.
    last: int | None = None
    # EXDATE.
    without: frozenset[int] = frozenset()

    def next(self, after: int) -> int | None:
        found = self.following(after)
        while found is not None and found in self.without:
            found = self.following(found)
        return None if found is None or (self.last is not None and found > self.last) else found

    def following(self, after: int) -> int | None:
        """The next one, also if it is one too many or left out."""
        if self.rule.first is None:
            return None
        if after < self.start and self.rule.first == self.rule.start:
            # Also if the clock shows that time for the second time.
            return self.start
        return _following(self.rule.after, self.area, after, through=self.rule.through)

    def counted(self, count: int) -> int | None:
        """The one of that number; None if there are not that many."""
        wall = self.rule.nth(count)
        if wall is None or wall == self.rule.start:
            return None if wall is None else self.start
        if not self.rule.through:
            return _first_instant(self.area, wall)
        straight = self.start + wall - self.rule.start
        if straight < _next_change(self.area, self.start):
            return straight
        # What the clock shows twice counts twice.
        found: int | None = self.start - 1
        for _ in range(count):
            found = None if found is None else self.following(found)
        return found


@lru_cache(maxsize=4096)
def _recurring(given: When) -> _Recurring:
    try:
        return _read(given)
    except (ValueError, OverflowError) as error:
        message = (
            f"cannot read the recurrence rule {given.rule[:200]!r}: {error}; write it as in"
            " 'FREQ=WEEKLY;BYDAY=MO,TH;BYHOUR=9;BYMINUTE=0'"
        )
        raise UsageError(message) from None


def _read(given: When) -> _Recurring:
    text, *more = given.rule.split("\n")
    area, start = zone(given.tz), given.start // 1000
    made = _Recurring(parse(text, start + _offset(area, start)), area, start)
    last: int | None = None
    if made.rule.until is not None:
        last = _stamp(made.rule.until, area)
    elif made.rule.count is not None:
        last = made.counted(made.rule.count)
    return made._replace(last=last, without=frozenset(_left_out(more, area)))


def _left_out(lines: list[str], area: ZoneInfo) -> Iterator[int]:
    """The times of EXDATE lines: `EXDATE;TZID=Europe/Paris:20260102T090000,20260105T090000`."""
    for line in lines:
        head, _, value = line.strip().partition(":")
        name, *options = head.split(";")
        if name.upper() != "EXDATE":
            raise ValueError(
                f"rrule= takes one rule, EXDATE lines and no DTSTART (give start=), not {line[:50]!r}"
            )
        for option in options:
            key, _, said = option.partition("=")
            if key.upper() == "TZID":
                area = zone(said)
            elif option.upper() != "VALUE=DATE-TIME":
                raise ValueError(f"EXDATE takes TZID=, not {option[:50]!r}")
        yield from (_stamp(each.strip(), area) for each in value.split(","))


def _stamp(text: str, area: ZoneInfo) -> int:
    """A time as calendars write it; without Z it is one on the wall."""
    if not _STAMP.fullmatch(text):
        raise ValueError(
            f"a time is written as 20261231T090000 or 20261231T090000Z, not {text[:50]!r}"
        )
    wall = _seconds(datetime.strptime(text[:15], "%Y%m%dT%H%M%S"))  # noqa: DTZ007 - the wall's
    return wall if text.endswith("Z") else _first_instant(area, wall)
