"""What a line or a new reminder would do: the times at which it would be sent, before it is made."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from duework import UsageError
from duework.shapes.schedules.plan import new_plan
from systems.reminders import book
from systems.reminders.part import part, settings
from systems.reminders.quiet import audible, quiet_hours, waits_until
from systems.reminders.rules import NewReminder, in_zone, timing
from systems.reminders.words import read_line

MOST = 50


class Time(msgspec.Struct, frozen=True, kw_only=True):
    """A time on the wall, and whether clocks were turned since the one before it."""

    at: str
    turned: bool


def said(text: str, zone: str = "UTC") -> NewReminder:
    """The reminder that a line means; one that names no receiver goes to the usual one."""
    found = read_line(text, zone, part.app.now())
    email, endpoint, usual = found.email, found.endpoint, settings().to
    if email is None and endpoint is None:
        if not usual:
            raise UsageError("say to whom: an address, or the id of an endpoint; or set `to`")
        email, endpoint = (usual, None) if "@" in usual else (None, usual)
    options: dict[str, Any] = {**found.when, "zone": found.zone}
    return NewReminder(title=found.title[:200], email=email, endpoint=endpoint, **options)


def times(new: NewReminder, count: int = 5) -> list[int]:
    """When it would be sent, as a schedule of it would be, with quiet hours left out."""
    now, quiet = part.app.now(), quiet_hours(new.quiet)
    options = timing(new, new.zone, now) or {}
    when = new_plan(options).when(now)
    count = min(count, MOST)
    wanted = count if quiet is None else count * 24
    if new.count is not None:
        wanted = min(wanted, new.count)
    # What is due this very moment counts for a rule and a time, as it does for their schedules.
    slots = when.upcoming(now - (when.kind in {"rrule", "at"}), wanted)
    return audible(slots, lambda at: waits_until(quiet, new.zone, at))[:count]


def marked(found: list[int], zone: str) -> list[Time]:
    """Times on the wall, with a mark where the offset differs from that of the one before."""
    stated = in_zone(found, zone)
    offsets = [datetime.fromtimestamp(each / 1000, ZoneInfo(zone)).utcoffset() for each in found]
    # Nothing comes before the first one: it stands for itself.
    before = [*offsets[:1], *offsets[:-1]]
    return [
        Time(at=text, turned=offset != old)
        for text, offset, old in zip(stated, offsets, before, strict=True)
    ]


def create_said(text: str, zone: str = "UTC") -> book.Reminder:
    """Make the reminder that a line means."""
    return book.create(said(text, zone))
