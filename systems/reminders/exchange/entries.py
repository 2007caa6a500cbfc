"""Calendars coming in: events and to-dos are reminders at their start; one of a whole day is at nine o'clock.

What a calendar leaves out stays out: days of EXDATE, occurrences that were moved (they come at their new
time) or called off, and whole entries that were called off.
"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, date, datetime, time
from typing import Any
from zoneinfo import ZoneInfo

from duework import UsageError
from systems.reminders.exchange.calendars import SAID
from systems.reminders.exchange.rows import BYTES, ID, Incoming
from systems.reminders.rules import known_zone

NINE = time(9)
TIMES = {"at", "cron", "rrule", "every", "start", "end", "count", "missed"}
OURS = "@reminders.duework"


def from_ics(content: bytes, now: int, usual: dict[str, Any]) -> tuple[list[Incoming], int]:
    """What a calendar has, and how many of it are over or were called off."""
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
    zone = known_zone(str(usual.get("zone", "UTC")))
    entries = [Entry(number, part, zone) for number, part in enumerate(parts, 1)]
    moved: dict[str, list[datetime]] = {}
    for each in entries:
        if each.replaces is not None:
            moved.setdefault(each.uid, []).append(each.replaces)
    found = [each.incoming(usual, moved.get(each.uid, []), now) for each in entries]
    kept = [each for each in found if each is not None and not _over(each, now)]
    return kept, len(found) - len(kept)


def _over(row: Incoming, now: int) -> bool:
    """Once, and in the past; what cannot be read is refused when it is made."""
    try:
        found = datetime.fromisoformat(row.fields["at"])
    except (KeyError, TypeError, ValueError):
        return False
    if found.tzinfo is None:
        found = found.replace(tzinfo=ZoneInfo(row.fields["zone"]))
    return found.timestamp() * 1000 < now


class Entry:
    """One event or to-do; whatever of it cannot be used is refused with its number."""

    def __init__(self, number: int, part: Any, usual: str) -> None:
        self.where, self._part = f"entry {number}", part
        self.uid = str(part.get("UID", ""))
        start = "DTSTART" if part.get("DTSTART") is not None else "DUE"
        self.begin, self.zone = self._begin(start, usual)
        again = part.get("RECURRENCE-ID") is not None
        self.replaces = self._instant(self._date("RECURRENCE-ID")) if again else None

    def incoming(self, usual: dict[str, Any], moved: list[datetime], now: int) -> Incoming | None:
        """The reminder that it is; None if it was called off."""
        part = self._part
        if str(part.get("STATUS", "")).upper() == "CANCELLED":
            return None
        fields = {**usual, "title": self._title(), "zone": self.zone}
        if text := str(part.get("DESCRIPTION", ""))[:5000]:
            fields["text"] = text
        if part.get(SAID) is not None:
            fields |= self._said(str(part[SAID]))
        elif part.get("RRULE") is not None and self.replaces is None:
            fields |= {"rrule": self._rule(moved, now), "start": self.begin.isoformat()}
        else:
            fields["at"] = self.begin.isoformat()
        return Incoming(self.where, self._id(), fields)

    def _rule(self, moved: list[datetime], now: int) -> str:
        """With what is left out of it, as far as that is still to come."""
        found = self._one("RRULE").to_ical().decode()
        out = [*self._left_out(), *moved]
        stamps = [f"{each.astimezone(UTC):%Y%m%dT%H%M%SZ}" for each in out if _later(each, now)]
        return f"{found}\nEXDATE:{','.join(sorted(set(stamps)))}" if stamps else found

    def _left_out(self) -> list[datetime]:
        given = self._part.get("EXDATE") or []
        lists = given if isinstance(given, list) else [given]
        try:
            return [self._instant(each.dt) for several in lists for each in several.dts]
        except (AttributeError, ValueError):
            raise UsageError(f"{self.where}: its EXDATE cannot be read") from None

    def _instant(self, found: date | datetime) -> datetime:
        """A day is that day's occurrence, a time without a zone one on the wall."""
        if not isinstance(found, datetime):
            return datetime.combine(found, self.begin.timetz())
        return found if found.tzinfo is not None else found.replace(tzinfo=self.begin.tzinfo)

    def _begin(self, name: str, usual: str) -> tuple[datetime, str]:
        """The start, and the zone in which it repeats."""
        found = self._date(name)
        if not isinstance(found, datetime):
            return datetime.combine(found, NINE, ZoneInfo(usual)), usual
        said = str(self._one(name).params.get("TZID", ""))
        if found.tzinfo is None and said:
            raise UsageError(f"{self.where}: there is no zone {said!r:.60} here or in the calendar")
        if found.tzinfo is None:
            return found.replace(tzinfo=ZoneInfo(usual)), usual
        zone = getattr(found.tzinfo, "key", None)
        if zone is None and said and self._part.get("RRULE") is not None:
            raise UsageError(f"{self.where}: it repeats in a zone of its own, {said!r:.60}")
        return found, zone or "UTC"

    def _date(self, name: str) -> date | datetime:
        try:
            found = self._one(name).dt
        except (AttributeError, ValueError):
            found = None
        if not isinstance(found, date):
            raise UsageError(f"{self.where}: its {name} is no date or time")
        return found

    def _one(self, name: str) -> Any:
        found = self._part.get(name)
        if found is None:
            raise UsageError(f"{self.where}: it has no {name if name != 'DUE' else 'DTSTART'}")
        if isinstance(found, list):
            raise UsageError(f"{self.where}: it has more than one {name}")
        return found

    def _said(self, text: str) -> dict[str, Any]:
        """Our own words beside an event; nothing but times."""
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict) or found.keys() - TIMES:
            raise UsageError(f"{self.where}: {SAID} is not one of ours")
        return found

    def _title(self) -> str:
        text = " ".join(str(self._part.get("SUMMARY", "")).split())[:200]
        if not text:
            raise UsageError(f"{self.where}: it has no SUMMARY")
        return text

    def _id(self) -> str | None:
        """The same entry has the same id, whenever it is brought."""
        if not self.uid:
            return None
        own = self.uid.removesuffix(OURS)
        if self.uid.endswith(OURS) and ID.fullmatch(own) and self.replaces is None:
            return own
        name = self.uid if self.replaces is None else f"{self.uid} {self.replaces.timestamp():.0f}"
        return f"ics_{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def _later(each: datetime, now: int) -> bool:
    return each.timestamp() * 1000 >= now
