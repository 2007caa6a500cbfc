"""Calendars as RFC 5545 has them, by the icalendar library.

Going out, a rule of cron becomes an RRULE where it has one; what has none stands beside the event as it was
said, for us to read again. Coming in, events and to-dos are reminders at their start; one of a whole day is
at nine o'clock.
"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from duework import Schedule, UsageError
from systems.reminders.book import Reminder
from systems.reminders.exchange.crons import rrule_of
from systems.reminders.exchange.rows import BYTES, Incoming, outgoing, said_times

NINE = 9
TIMES = {"at", "cron", "rrule", "every", "start", "end", "count", "missed"}
SAID = "X-DUEWORK-TIMES"
LENGTH = timedelta(minutes=5)


def to_ics(now: int) -> bytes:
    """All that have times to come, as one calendar."""
    from icalendar import Calendar

    made = Calendar()
    made.add("prodid", "-//Duework//reminders//EN")
    made.add("version", "2.0")
    for reminder, schedule in outgoing():
        made.add_component(_event(reminder, schedule, now))
    found: bytes = made.to_ical()
    return found


def _event(reminder: Reminder, schedule: Schedule, now: int) -> Any:
    from icalendar import Event, vRecur

    event = Event()
    event.add("uid", f"{reminder.id}@reminders.duework")
    event.add("summary", reminder.title)
    if reminder.text:
        event.add("description", reminder.text)
    event.add("dtstamp", datetime.fromtimestamp(now / 1000, UTC))
    first = schedule.slot or schedule.start
    event.add("dtstart", _wall(first, reminder.zone))
    event.add("dtend", _wall(first, reminder.zone) + LENGTH)
    rule = _rule(schedule)
    if schedule.kind == "every" or (schedule.kind == "cron" and rule is None):
        event.add(SAID, json.dumps(said_times(schedule)))
    if rule is not None:
        event.add("rrule", vRecur.from_ical(rule))
    return event


def _wall(ms: int, zone: str) -> datetime:
    return datetime.fromtimestamp(ms / 1000, ZoneInfo(zone) if zone != "UTC" else UTC)


def _rule(schedule: Schedule) -> str | None:
    """As a calendar repeats it, with its end; None for what is once, or has no such rule."""
    if schedule.kind == "at":
        return None
    if schedule.kind == "every":
        rule: str | None = _length(int(schedule.rule) // 1000)
    else:
        rule = schedule.rule if schedule.kind == "rrule" else rrule_of(schedule.rule)
    if rule is None or "COUNT=" in rule or "UNTIL=" in rule:
        return rule
    if schedule.count is not None:
        return f"{rule};COUNT={schedule.count - schedule.counted}"
    if schedule.ends is not None:
        return f"{rule};UNTIL={datetime.fromtimestamp(schedule.ends / 1000, UTC):%Y%m%dT%H%M%SZ}"
    return rule


def _length(seconds: int) -> str:
    for name, unit in (("HOURLY", 3600), ("MINUTELY", 60)):
        if seconds % unit == 0:
            return f"FREQ={name};INTERVAL={seconds // unit}"
    return f"FREQ=SECONDLY;INTERVAL={max(1, seconds)}"


def from_ics(content: bytes, now: int, usual: dict[str, Any]) -> tuple[list[Incoming], int]:
    """What a calendar has, and how many of it are over."""
    from icalendar import Calendar

    if len(content) > BYTES:
        raise UsageError(f"a file of at most {BYTES} bytes")
    try:
        calendars = Calendar.from_ical(content, multiple=True)
    except (ValueError, IndexError, KeyError) as error:
        raise UsageError(f"this is no calendar: {error}") from None
    parts = [part for each in calendars for kind in ("VEVENT", "VTODO") for part in each.walk(kind)]
    if not parts:
        raise UsageError("this is no calendar with events or to-dos")
    found = [_incoming(number, part, usual) for number, part in enumerate(parts, 1)]
    kept = [each for each in found if not _over(each, now)]
    return kept, len(found) - len(kept)


def _over(row: Incoming, now: int) -> bool:
    return "at" in row.fields and datetime.fromisoformat(row.fields["at"]).timestamp() * 1000 < now


def _incoming(number: int, part: Any, usual: dict[str, Any]) -> Incoming:
    where = f"entry {number}"
    start = part.get("DTSTART") or part.get("DUE")
    if start is None:
        raise UsageError(f"{where}: it has no DTSTART")
    begin, zone = _begin(start.dt, str(usual.get("zone", "UTC")))
    fields = {**usual, "title": _title(part, where), "zone": zone}
    if text := str(part.get("DESCRIPTION", ""))[:5000]:
        fields["text"] = text
    if part.get(SAID) is not None:
        fields |= _said(str(part[SAID]), where)
    elif part.get("RRULE") is not None:
        fields |= {"rrule": part["RRULE"].to_ical().decode(), "start": begin.isoformat()}
    else:
        fields["at"] = begin.isoformat()
    return Incoming(where, _id(part), fields)


def _said(text: str, where: str) -> dict[str, Any]:
    """Our own words beside an event; nothing but times."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or found.keys() - TIMES:
        raise UsageError(f"{where}: {SAID} is not one of ours")
    return found


def _title(part: Any, where: str) -> str:
    text = " ".join(str(part.get("SUMMARY", "")).split())[:200]
    if not text:
        raise UsageError(f"{where}: it has no SUMMARY")
    return text


def _begin(found: date | datetime, zone: str) -> tuple[datetime, str]:
    """The start, and the zone in which it repeats."""
    if not isinstance(found, datetime):
        return datetime(found.year, found.month, found.day, NINE, tzinfo=ZoneInfo(zone)), zone
    if found.tzinfo is None:
        return found.replace(tzinfo=ZoneInfo(zone)), zone
    return found, getattr(found.tzinfo, "key", None) or "UTC"


def _id(part: Any) -> str | None:
    """The same entry has the same id, whenever it is brought."""
    uid = str(part.get("UID", ""))
    if not uid:
        return None
    if uid.endswith("@reminders.duework"):
        return uid.partition("@")[0][:60]
    return f"ics_{hashlib.sha256(uid.encode()).hexdigest()[:16]}"
