"""One recording, whichever format it came in, and the rules that all of them have in common."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import msgspec

from systems.strides.files.refusals import NotUnderstood, WrongTime
from systems.strides.races import MARKED, Activity

EARTH = 6_371_000.0
# Slower than this is a rest, in metres a second.
MOVES = 0.5
DAY = 86_400
FIRST_YEAR = 1980
LONGEST = 30 * DAY


class Recording(msgspec.Struct, kw_only=True):
    """What a file says of what was done."""

    start: datetime
    name: str = ""
    sport: str = "Run"
    distance: float = 0.0
    elapsed: float = 0.0
    moving: float = 0.0
    climbed: float | None = None
    average_heartrate: float | None = None
    max_heartrate: float | None = None
    # Minutes by which the wall clock was ahead of UTC, if the file says it.
    offset: int | None = None


def zone_of(name: str) -> tzinfo:
    """A zone by its name; `WrongTime` if there is none such."""
    try:
        return ZoneInfo(name) if name else UTC
    except (KeyError, ValueError, OSError):
        message = f"there is no time zone {name[:60]!r}; write it as Europe/London"
        raise WrongTime(message) from None


def moment(text: str, zone: tzinfo | None) -> datetime:
    """A time of a file; one without an offset is a time in the zone that was given, if one was."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise NotUnderstood(f"{text[:40]!r} is no time") from None
    if found.tzinfo is not None:
        return found
    if zone is None:
        raise WrongTime(f"{text[:40]!r} says no zone; give one with the file: zone=Europe/London")
    return found.replace(tzinfo=zone)


def metres(a: tuple[float, float], b: tuple[float, float]) -> float:
    """Between two places, on a ball."""
    (lat1, lon1), (lat2, lon2) = (tuple(map(math.radians, each)) for each in (a, b))
    half = (
        math.sin((lat2 - lat1) / 2) ** 2
        + math.cos(lat1) * math.cos(lat2) * math.sin((lon2 - lon1) / 2) ** 2
    )
    return 2 * EARTH * math.asin(min(1.0, math.sqrt(half)))


def as_activity(
    found: Recording, identifier: int, *, zone: tzinfo | None, now: int, race: bool = False
) -> Activity:
    """The same as Strava would have told it."""
    check(found, now)
    if found.offset is not None:
        zone = timezone(timedelta(minutes=found.offset))
    wall = found.start.astimezone(zone or UTC)
    return Activity(
        id=identifier,
        start_date=found.start,
        start_date_local=wall.replace(tzinfo=UTC),
        name=found.name[:200] or f"{found.sport} of {wall.date().isoformat()}",
        sport_type=found.sport,
        distance=found.distance,
        moving_time=round(found.moving),
        elapsed_time=round(found.elapsed),
        total_elevation_gain=found.climbed,
        workout_type=MARKED if race else None,
        average_heartrate=found.average_heartrate,
        max_heartrate=found.max_heartrate,
    )


def check(found: Recording, now: int) -> None:
    """Numbers and times that can be true."""
    start = found.start.timestamp()
    if found.start.year < FIRST_YEAR or start > now / 1000 + DAY:
        raise WrongTime(f"it starts at {found.start.isoformat()}: correct the clock of the watch")
    numbers = (found.distance, found.elapsed, found.moving)
    if not all(math.isfinite(each) and each >= 0 for each in numbers) or found.elapsed > LONGEST:
        raise NotUnderstood("its distance or its time cannot be true")
