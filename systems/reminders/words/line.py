"""A whole line: what, when, where on earth and to whom. Pure: the time is an argument."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import msgspec

from duework import UsageError
from systems.reminders.words.moments import calendar_date, local, once
from systems.reminders.words.rules import again
from systems.reminders.words.tokens import NotAWhen, Words

LONGEST = 600
EXAMPLE = (
    "write 2026-11-18T09:00, tomorrow at 9:00, every weekday at 9:00, every 3h, 0 9 * * MON-FRI"
    " or FREQ=WEEKLY;BYDAY=MO"
)
_CRON = re.compile(r"@[a-z]+|[\d*?,/\-LlWw#]+(?:\s+[\w*?,/\-#]+){4,5}", re.ASCII)
_RRULE = re.compile(r"FREQ=[A-Z0-9=;,:+\-]+", re.ASCII | re.IGNORECASE)
_LENGTH = re.compile(r"(?:every\s+)?(\d+(?:\.\d+)?)\s*([smhdw])", re.ASCII)
_JOINTS = {"at", "on", "in", "every", "each", "the", "next", "from", "until"}
_AGAIN = {"every", "each", "daily", "weekly", "monthly", "yearly", "hourly"}
_STARTS = ("remind me to", "remind me", "to")


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What a line says: the fields of a new reminder, those that it names."""

    title: str
    zone: str
    when: dict[str, Any]
    email: str | None = None
    endpoint: str | None = None


def read_when(text: str, zone: str = "UTC", now: int = 0) -> dict[str, Any]:
    """The options of a schedule that these words name; `UsageError` with an example otherwise."""
    try:
        return _read_when(text.split(), zone, now)
    except NotAWhen as why:
        raise UsageError(f"cannot read {text!r:.80} as a time: {why}; {EXAMPLE}") from None


def read_line(text: str, zone: str = "UTC", now: int = 0) -> Said:
    """`stretch every weekday 9:00 Europe/Zurich to ada@demo.example`: the title comes first."""
    words = _bounded(text).split()
    words, email, endpoint = _receiver(words)
    words, zone = _zone(words, zone)
    why = "it names no time"
    if _is_when(words, zone, now):
        raise UsageError(
            f"{text!r:.80} says when, and not what: write `stretch {text[:40].strip()}`"
        )
    for place in range(1, len(words)):
        try:
            when = _read_when(words[place:], zone, now)
        except NotAWhen as found:
            why = str(found) if words[place].lower() in {"every", "in", "at", "each"} else why
            continue
        title = _title(words[:place])
        if title and words[place - 1].lower() not in _JOINTS:
            _refuse_guess(title, when)
            return Said(title=title, zone=zone, when=when, email=email, endpoint=endpoint)
    raise UsageError(f"cannot read {text!r:.80}: {why}; write `stretch every weekday at 9:00`")


def _is_when(words: list[str], zone: str, now: int) -> bool:
    try:
        return bool(_read_when(words, zone, now))
    except NotAWhen:
        return False


def _refuse_guess(title: str, when: dict[str, Any]) -> None:
    """`stretch every morning at 9:00` is not meant once."""
    if "at" in when and _AGAIN & set(title.lower().split()):
        raise UsageError(f"cannot read {title!r:.80} as something that comes once: {EXAMPLE}")


def _bounded(text: str) -> str:
    if len(text) > LONGEST or not " ".join(text.split()).isprintable():
        raise UsageError(f"a reminder is one line of at most {LONGEST} characters")
    return text


def _read_when(words: list[str], zone: str, now: int) -> dict[str, Any]:
    line = " ".join(words)
    if found := _machine(line):
        return found
    cursor = Words(words)
    today = local(now, zone)
    try:
        when = again(cursor)
        if when is None:
            cursor.place = 0
            when = {"at": once(cursor, today)}
        when |= _bounds(cursor, today, recurring="at" not in when)
    except OverflowError:
        raise NotAWhen("that is beyond the calendar") from None
    if not cursor.over:
        raise NotAWhen(f"{cursor.next[:30]!r} is not understood")
    return when


def _machine(line: str) -> dict[str, str] | None:
    """An ISO time, five fields of cron, FREQ=…, or a short length such as `every 3h`."""
    if _RRULE.fullmatch(line):
        return {"rrule": line.upper()}
    if found := _LENGTH.fullmatch(line.lower()):
        return {"every": f"{found[1]}{found[2]}"}
    if re.match(r"\d{4}-", line):
        try:
            datetime.fromisoformat(line)
        except ValueError:
            return None
        # A date alone is no time of day.
        return {"at": line} if len(line) > len("2026-11-18") else None
    return {"cron": line} if _CRON.fullmatch(line) else None


def _bounds(words: Words, today: datetime, *, recurring: bool) -> dict[str, Any]:
    """`from 1 december`, `until 24 december`, `5 times`, in any order, each once."""
    found: dict[str, Any] = {}
    while recurring and not words.over:
        if words.take("from", "starting"):
            found |= _new(found, "start", f"{_day(words, today)}T00:00")
        elif words.take("until", "till"):
            found |= _new(found, "end", f"{_day(words, today)}T23:59:59")
        else:
            words.take("for")
            count = words.number()
            if not count:
                raise NotAWhen(f"{words.next[:30]!r} is not understood")
            words.need(("times", "time"), "`times`")
            found |= _new(found, "count", count)
    return found


def _new(found: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    if name in found:
        raise NotAWhen(f"{name} is said twice")
    return {name: value}


def _day(words: Words, today: datetime) -> str:
    found = calendar_date(words, today.date())
    if found is None:
        raise NotAWhen("after from and until comes a date")
    return found.isoformat()


def _receiver(words: list[str]) -> tuple[list[str], str | None, str | None]:
    """`to ada@demo.example` and `to ep_…` at the end, or anywhere as a pair."""
    email = endpoint = None
    left: list[str] = []
    for word in words:
        if "@" in word[1:] and "." in word:
            email = word.rstrip(",.")
        elif word.startswith("ep_"):
            endpoint = word.rstrip(",.")
        else:
            left.append(word)
            continue
        if left and left[-1].lower() in {"to", "and"}:
            left.pop()
    return left, email, endpoint


def _zone(words: list[str], usual: str) -> tuple[list[str], str]:
    """A zone by its name, with or without `in`; the last one counts."""
    for place in range(len(words) - 1, 0, -1):
        name = words[place].rstrip(",.")
        if name == "UTC" or ("/" in name and name in available_timezones()):
            before = place - (words[place - 1].lower() == "in")
            return words[:before] + words[place + 1 :], ZoneInfo(name).key
    return words, usual


def _title(words: list[str]) -> str:
    """What is left in front, without `remind me to`."""
    text = " ".join(words).strip(" ,:;-")
    for start in _STARTS:
        if text.lower().startswith(f"{start} ") or text.lower() == start:
            text = text[len(start) :].strip()
    return text[:1].upper() + text[1:]
