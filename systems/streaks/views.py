"""What the pages show, made from rows: verdicts, the calendar, what was sent."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import date, datetime
from itertools import groupby
from typing import Any
from zoneinfo import ZoneInfo

from duework import App
from systems.streaks.promises import Promise, decided
from systems.streaks.streak import DAY, contributions, length, local_day

CELL, GAP, LEFT, TOP = 14, 3, 28, 16
PITCH = CELL + GAP
YEAR = 365
LEVELS = 4
HISTORY = """
select person, '' as login, day, channel, address, text, state, error, job, promised
from streaks_message where person = :person order by promised desc, channel limit :limit
"""
DAYS = """
select day, contributions, streak, message, weekly from streaks_day
where person = :person order by day desc limit :limit
"""
SHOWN = 14


@dataclass(frozen=True)
class Verdict:
    """The sentence at the top: its kind, its picture, and the parts that are bold."""

    kind: str
    glyph: str
    lead: str
    text: str


@dataclass(frozen=True)
class Calendar:
    """A year of days as a picture: weeks are columns, Monday is on top."""

    cells: list[tuple[int, int, int, str]]
    months: list[tuple[int, str]]
    today: tuple[int, int]
    width: int
    active: int
    height: int = TOP + 7 * PITCH


@dataclass
class Told:
    """A day, or a test, with what was sent about it."""

    day: str
    text: str
    streak: int | None = None
    channels: list[Promise] = field(default_factory=list)


def verdict(person: Any, last: Any, now: int) -> Verdict:
    """How a person stands, by what is known at this moment."""
    if (idle := _idle(person)) is not None:
        return idle
    next_ = datetime.fromtimestamp(person.next_at / 1000, ZoneInfo(person.zone))
    when = f"The next reminder is on {next_:%a %H:%M}, {person.zone}."
    if person.last_error:
        return Verdict("bad", "failed", f"The last check failed: {person.last_error}.", when)
    if last is None:
        return Verdict("", "unknown", "Not checked yet.", when)
    if last.day != local_day(now, person.zone).isoformat():
        return Verdict("", "clock", _length(last), f"as of {_short(last.day)}. {when}")
    if not last.at_risk:
        count = last.contributions
        today = f"and {contributions(count)} today: " if count else "and "
        return Verdict("ok", "done", _length(last), f"{today}the streak is safe. {when}")
    period, end = ("this week", "Sunday, ") if last.weekly else ("today", "")
    risk = f"and nothing yet {period}: the streak is at risk until {end}midnight in {person.zone}. {when}"
    return Verdict("warn", "late", _length(last), risk)


def _length(last: Any) -> str:
    return length(last.streak, weekly=bool(last.weekly))


def as_of(last: Any, today: date) -> Verdict:
    """The same for everybody: nothing of tokens, hours and errors."""
    if last is None:
        return Verdict("", "unknown", "Not checked yet.", "Come back tomorrow.")
    if last.day != today.isoformat():
        return Verdict("", "clock", _length(last), f"as of {_short(last.day)}.")
    if not last.at_risk:
        count = last.contributions
        text = f"{contributions(count)} today." if count else "and safe."
        return Verdict("ok", "done", _length(last), text)
    period = "this week" if last.weekly else "today"
    return Verdict("warn", "late", _length(last), f"and nothing yet {period}.")


def _idle(person: Any) -> Verdict | None:
    """Why a person is not checked at all."""
    if person.problem:
        return Verdict(
            "bad", "failed", person.problem, "Put in a new token: nothing is checked until then."
        )
    if not person.has_token:
        return Verdict("warn", "late", "No GitHub token.", "Nothing can be checked without one.")
    if not person.active:
        return Verdict("", "paused", "Paused.", "Nothing is checked, and nothing is sent.")
    return None


def calendar(stored: Any, today: date) -> Calendar:
    """The picture of the last year, of what was stored at the last check."""
    first = date.fromisoformat(stored.first) if stored else today
    counts = json.loads(stored.counts) if stored else []
    known = {first + n * DAY: count for n, count in enumerate(counts)}
    start = today - (YEAR - 1) * DAY
    shown = [start + n * DAY for n in range(YEAR)]
    top = max([known.get(day, 0) for day in shown] + [1])
    cells, months = [], []
    for day in shown:
        n = start.weekday() + (day - start).days
        x, y = LEFT + n // 7 * PITCH, TOP + n % 7 * PITCH
        count = known.get(day, 0)
        level = -(-count * LEVELS // top)
        cells.append((x, y, level, f"{_short(day.isoformat())}: {contributions(count)}"))
        if day.day == 1 and day < today - 14 * DAY:
            months.append((x, f"{day:%b}"))
    width = LEFT + (start.weekday() + YEAR + 6) // 7 * PITCH
    active = sum(1 for day in shown if known.get(day, 0))
    return Calendar(cells, months, cells[-1][:2], width, active)


def history(app: App, person: str) -> list[Told]:
    """The newest days first, each with its channels."""
    rows = app.read(HISTORY, person=person, limit=SHOWN * 2)
    sent = [decided(app, Promise(*row)) for row in rows]
    found = {row.day: row for row in app.read(DAYS, person=person, limit=SHOWN)}
    told = {row.day: Told(_short(row.day), row.message, row.streak) for row in found.values()}
    for day, group in groupby(sent, key=lambda each: each.day):
        channels = list(group)
        one = told.setdefault(day, Told(_short(day), channels[0].text))
        one.channels.extend(sorted(channels, key=lambda each: each.channel))
    return [told[day] for day in sorted(told, reverse=True)][:SHOWN]


def _short(day: str) -> str:
    """Mon 16 Nov; a test has its time behind it."""
    parsed = date.fromisoformat(day[:10])
    return f"{parsed:%a} {parsed.day} {parsed:%b}{day[10:]}"
