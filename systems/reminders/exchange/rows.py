"""What goes in and out, whatever the form: a reminder with an id that stays, and its times as said."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from duework import Schedule, UsageError
from systems.reminders import book
from systems.reminders.part import part
from systems.reminders.rules import NewReminder, key_of

MOST = 2000
BYTES = 2_000_000
# Fit for an address, and short enough for the keys that providers know a mail by.
ID = re.compile(r"[A-Za-z0-9_.\-]{1,80}")


@dataclass(frozen=True, slots=True)
class Incoming:
    """One that is to be made; `where` says where it stood, for errors."""

    where: str
    id: str | None
    fields: dict[str, Any]


class Brought(msgspec.Struct, frozen=True, kw_only=True):
    """What an import did."""

    made: int
    # Their ids were there already.
    known: int
    # Of a calendar: what is over, and was left out.
    over: int = 0


def bring(found: Sequence[Incoming], over: int = 0) -> Brought:
    """Make them all, or none of them; what was brought before is left as it is."""
    if len(found) > MOST:
        raise UsageError(f"at most {MOST} at once: these are {len(found)}")
    _check_ids(found)
    known = {each.id for each in found if each.id is not None and book.exists(each.id)}
    fresh = [each for each in found if each.id not in known]
    made = book.create_all([(each.id, _reminder(each), each.where) for each in fresh])
    return Brought(made=len(made), known=len(found) - len(fresh), over=over)


def _check_ids(found: Sequence[Incoming]) -> None:
    """Each is its own, and fit to be one."""
    seen: dict[str, str] = {}
    for each in found:
        if each.id is None:
            continue
        if not ID.fullmatch(each.id):
            raise UsageError(
                f"{each.where}: an id is 1 to 80 letters, digits, dots, _ and -, not {each.id!r:.60}"
            )
        if (first := seen.setdefault(each.id, each.where)) != each.where:
            raise UsageError(f"{each.where}: it has the id of {first}, {each.id!r}")


def _reminder(row: Incoming) -> NewReminder:
    try:
        return msgspec.convert(row.fields, NewReminder, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f"{row.where}: {error}") from None


def outgoing() -> Iterator[tuple[book.Reminder, Schedule]]:
    """Every reminder that has times to come, with its schedule."""
    last = ""
    while page := book.every(limit=500, after=last):
        last = page[-1].id
        names = {key_of(each.id): each for each in page}
        for key, each in names.items():
            schedule = part.app.get_schedule(key)
            if schedule.slot is not None:
                yield each, schedule


def said_times(schedule: Schedule) -> dict[str, Any]:
    """The times of a schedule in the words that made it; a count is what is left of it."""
    made: dict[str, Any] = {}
    if schedule.kind == "at":
        return {"at": iso(schedule.start)}
    if schedule.kind == "every":
        made["every"] = f"{int(schedule.rule)}ms"
    else:
        made[schedule.kind] = schedule.rule
    if schedule.start:
        made["start"] = iso(schedule.start)
    if schedule.ends is not None:
        made["end"] = iso(schedule.ends)
    if schedule.count is not None:
        made["count"] = schedule.count - schedule.counted
    return made | ({"missed": schedule.missed} if schedule.missed != "once" else {})


def iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat()
