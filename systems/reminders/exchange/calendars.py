"""Calendars going out, as RFC 5545 has them, by the icalendar library.

A rule of cron becomes an RRULE where it has one; what has none stands beside the event as it was said, for us
to read again.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from duework import Schedule
from systems.reminders.book import Reminder
from systems.reminders.exchange.crons import rrule_of
from systems.reminders.exchange.rows import outgoing, said_times

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
        rule, *left_out = rule.splitlines()
        event.add("rrule", vRecur.from_ical(rule))
        for line in left_out:
            _leave_out(event, line, reminder.zone)
    return event


def _leave_out(event: Any, line: str, zone: str) -> None:
    """A line of EXDATE of ours; without a zone its times are those on the wall."""
    from icalendar import Event

    head, _, times = line.partition(":")
    if "TZID" not in head.upper() and zone != "UTC":
        walls = [each for each in times.split(",") if not each.strip().upper().endswith("Z")]
        head = f"{head};TZID={zone}" if walls else head
    read = Event.from_ical(f"BEGIN:VEVENT\r\n{head}:{times}\r\nEND:VEVENT\r\n")
    event.add("exdate", read["EXDATE"])


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
    return "\n".join([f"{rule.splitlines()[0]}{_bound(schedule)}", *rule.splitlines()[1:]])


def _bound(schedule: Schedule) -> str:
    if schedule.count is not None:
        return f";COUNT={schedule.count - schedule.counted}"
    if schedule.ends is not None:
        return f";UNTIL={datetime.fromtimestamp(schedule.ends / 1000, UTC):%Y%m%dT%H%M%SZ}"
    return ""


def _length(seconds: int) -> str:
    for name, unit in (("HOURLY", 3600), ("MINUTELY", 60)):
        if seconds % unit == 0:
            return f"FREQ={name};INTERVAL={seconds // unit}"
    return f"FREQ=SECONDLY;INTERVAL={max(1, seconds)}"
