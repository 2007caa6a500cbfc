"""Races that no recording tells of: typed in by a person, or copied from a list of parkrun results.

The same race typed in twice is one row. Such races are the person's own: no sync changes or deletes them.
"""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, date, datetime, time
from typing import Any

import msgspec

from duework import Transaction, UsageError
from systems.strides.athlete import find
from systems.strides.part import part
from systems.strides.races import distance_class
from systems.strides.statements import RACES

PARKRUN_METRES = 5_000.0
DATE = re.compile(r"(\d{2})/(\d{2})/(\d{4})|(\d{4})-(\d{2})-(\d{2})")
TIME = re.compile(r"(?:(\d{1,2}):)?(\d{1,2}):(\d{2})")
MOST_LINES = 1_000
LONGEST_NAME = 200
LONGEST_TIME, FARTHEST = 360_000, 1_000_000


class Told(msgspec.Struct, frozen=True):
    """A race in somebody's words."""

    day: date
    event: str
    name: str
    metres: float
    seconds: int


class New(msgspec.Struct, kw_only=True):
    """The form of one race."""

    date: str
    event: str
    minutes: int
    seconds: int
    kilometres: float


class Pasted(msgspec.Struct):
    """Lines of a table of parkrun results: event, date, time and what else there is."""

    lines: str


def day_of(text: str, today: date) -> date:
    found = DATE.fullmatch(text.strip())
    try:
        if found is None:
            raise ValueError
        d, m, y, *iso = found.groups()
        day = date(int(y), int(m), int(d)) if y else date(*map(int, iso))
    except ValueError:
        message = f"{text[:40]!r} is no date; write 2026-12-31 or 31/12/2026"
        raise UsageError(message) from None
    if day > today:
        raise UsageError(f"{day.isoformat()} is still to come")
    return day


def results(text: str, today: date) -> list[Told]:
    """Each line of a pasted table; a line without a date is a heading, one without a time an error."""
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > MOST_LINES:
        raise UsageError(f"at most {MOST_LINES:,} lines at a time")
    found = []
    for line in lines:
        cells = [cell.strip() for cell in re.split(r"[\t,;]", line)]
        days = [cell for cell in cells[1:] if DATE.fullmatch(cell)]
        if not days:
            continue
        times = [each for cell in cells[1:] if (each := TIME.fullmatch(cell))]
        if not times or not cells[0]:
            raise UsageError(f"{line[:60]!r} has no event or no time")
        hours, minutes, seconds = (int(each or 0) for each in times[0].groups())
        taken = hours * 3600 + minutes * 60 + seconds
        name = cells[0] if "parkrun" in cells[0].lower() else f"{cells[0]} parkrun"
        found.append(Told(day_of(days[0], today), "parkrun", name, PARKRUN_METRES, taken))
    if not found:
        raise UsageError("there is no line with an event, a date and a time")
    return found


def put(tx: Any, athlete: int, told: list[Told], known_by: str) -> int:
    """Store those that are not there; how many that were."""
    find(athlete)
    for one in told:
        _check(one)
    days = tx.read(
        "select date, event_name as event from strides_race where athlete_id = :id", id=athlete
    )
    there = {(row.date, row.event) for row in days}
    fresh = {(one.day.isoformat(), one.event): one for one in told}
    rows = [_row(athlete, one, known_by) for key, one in fresh.items() if key not in there]
    RACES.write(tx, rows)
    for row in rows:
        tx.write(
            "update strides_race set edited = 1"
            " where athlete_id = :athlete and strava_activity_id = :id",
            athlete=athlete,
            id=row["strava_activity_id"],
        )
    return len(rows)


def _check(one: Told) -> None:
    if not one.event or len(one.event) > LONGEST_NAME or "\x00" in one.event + one.name:
        raise UsageError("An event has a name of at most 200 characters")
    if not 0 < one.seconds < LONGEST_TIME:
        raise UsageError("A time is minutes and seconds, of at most 100 hours")
    if not 0 < one.metres < FARTHEST:
        raise UsageError("A distance is between 0 and 1,000 km")


def _row(athlete: int, one: Told, known_by: str) -> dict[str, Any]:
    said = f"{one.day.isoformat()} {one.event}".encode()
    start = datetime.combine(one.day, time(8), UTC)
    nothing = dict.fromkeys(
        ("elevation_gain", "average_heartrate", "max_heartrate", "polyline"), None
    )
    return {
        **nothing,
        "athlete_id": athlete,
        # Below zero, as all that is not Strava's.
        "strava_activity_id": -1 - (int.from_bytes(hashlib.sha256(said).digest()[:8], "big") >> 12),
        "start": int(start.timestamp()),
        "date": one.day.isoformat(),
        "name": one.name[:LONGEST_NAME],
        "distance": one.metres,
        "distance_class": distance_class(one.metres),
        "elapsed_time": one.seconds,
        "moving_time": one.seconds,
        "event_name": one.event,
        "is_hidden": 0,
        "known_by": known_by,
        "created_at": part.app.now(),
        "seen": 0,
    }


def _today() -> date:
    # Where it is tomorrow already, races of tomorrow have been run.
    return datetime.fromtimestamp(part.app.now() / 1000 + 14 * 3600, UTC).date()


@part.action("/athletes/{athlete}/add")
def add(athlete: int, form: New, tx: Transaction) -> str:
    """A race that somebody types in."""
    if not 0 <= form.seconds < 60:  # noqa: PLR2004 - of a minute
        raise UsageError("A time is minutes and seconds, of at most 100 hours")
    event, taken = form.event.strip(), form.minutes * 60 + form.seconds
    one = Told(day_of(form.date, _today()), event, event, form.kilometres * 1000, taken)
    return (
        f"{event} is added" if put(tx, athlete, [one], "by hand") else f"{event} is there already"
    )


@part.action("/athletes/{athlete}/parkruns")
def parkruns(athlete: int, form: Pasted, tx: Transaction) -> str:
    """A list of results, copied from parkrun's page of a runner."""
    told = results(form.lines, _today())
    added = put(tx, athlete, told, "parkrun results")
    return f"{added} added, {len(told) - added} there already"
