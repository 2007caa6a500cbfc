"""Which activities are races, and which event: pure rules, no database and no network.

A run that is marked as a race (`workout_type` 1) and not private is one. A parkrun is known by a score
of six signs; a run that is not marked is taken for a race if its score is above 0.7, which needs the
name and the distance. A marked race with 0.5 or more is given the event `parkrun`.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import msgspec

RUNS = frozenset({"Run", "TrailRun", "VirtualRun"})
MARKED = 1
# The weights of the signs; they sum to 0.938.
NAMED, ABOUT_5K, AT_EIGHT, MORNING, NEARLY_5K, SATURDAY = 0.339, 0.327, 0.093, 0.092, 0.047, 0.040
IS_PARKRUN, IS_SURELY_PARKRUN = 0.5, 0.7
PARKRUN = re.compile(r"park\s?run|parkie|parky", re.IGNORECASE)
SATURDAY_NUMBER = 5
# Metres from and to, with the name that people give to the distance.
CLASSES = (
    (4_800, 5_200, "5 km"),
    (9_700, 10_300, "10 km"),
    (13_700, 14_300, "14 km"),
    (20_800, 21_600, "Half"),
    (29_500, 30_500, "30 km"),
    (41_700, 43_200, "Marathon"),
    (43_200, 10_000_000, "Ultra"),
)


RACE_COLUMNS = (
    "athlete_id",
    "strava_activity_id",
    "start",
    "date",
    "name",
    "distance",
    "distance_class",
    "elapsed_time",
    "moving_time",
    "elevation_gain",
    "average_heartrate",
    "max_heartrate",
    "polyline",
    "event_name",
    "is_hidden",
    "known_by",
    "created_at",
    "seen",
)


class Map(msgspec.Struct, frozen=True):
    summary_polyline: str | None = None


class Activity(msgspec.Struct, frozen=True):
    """What of Strava's SummaryActivity is used; the rest is left unread."""

    id: int
    start_date: datetime
    # The time on the wall, with a Z that is not true.
    start_date_local: datetime
    name: str = ""
    sport_type: str = ""
    type: str = ""
    distance: float = 0.0
    moving_time: int = 0
    elapsed_time: int = 0
    total_elevation_gain: float | None = None
    workout_type: int | None = None
    private: bool = False
    average_heartrate: float | None = None
    max_heartrate: float | None = None
    map: Map | None = None

    @property
    def start(self) -> int:
        return int(self.start_date.timestamp())

    @property
    def sport(self) -> str:
        return self.sport_type or self.type

    @property
    def day(self) -> str:
        return self.start_date_local.date().isoformat()


class Recognised(msgspec.Struct, frozen=True):
    """Why an activity is a race, and of which event."""

    event: str
    known_by: str


def recognise(one: Activity) -> Recognised | None:
    """The race that an activity is; None if it is none."""
    if one.sport not in RUNS or one.private:
        return None
    score = parkrun_score(one)
    if one.workout_type == MARKED:
        event = "parkrun" if score >= IS_PARKRUN else one.name
        return Recognised(event, "workout type")
    if score > IS_SURELY_PARKRUN:
        return Recognised("parkrun", f"parkrun score {score:.2f}")
    return None


def parkrun_score(one: Activity) -> float:
    """How much looks like a parkrun: 0 to 0.938."""
    local = one.start_date_local
    signs = (
        (NAMED, PARKRUN.search(one.name) is not None),
        (ABOUT_5K, 4_500 <= one.distance <= 5_500),  # noqa: PLR2004 - metres
        (AT_EIGHT, local.hour == 8),  # noqa: PLR2004 - o'clock
        (MORNING, 6 <= local.hour <= 10),  # noqa: PLR2004 - o'clock
        (NEARLY_5K, 4_800 <= one.distance <= 5_200),  # noqa: PLR2004 - metres
        (SATURDAY, local.weekday() == SATURDAY_NUMBER),
    )
    return round(sum(weight for weight, there in signs if there), 3)


def distance_class(metres: float) -> str:
    for least, most, name in CLASSES:
        if least <= metres <= most:
            return name
    return "Other"


def activity_row(one: Activity, athlete: int, seen: int) -> dict[str, Any]:
    return {
        "athlete_id": athlete,
        "id": one.id,
        "start": one.start,
        "day": one.day,
        "name": one.name,
        "sport": one.sport,
        "distance": one.distance,
        "moving_time": one.moving_time,
        "seen": seen,
    }


def race_row(
    one: Activity, known: Recognised, *, athlete: int, seen: int, now: int
) -> dict[str, Any]:
    return {
        "athlete_id": athlete,
        "strava_activity_id": one.id,
        "start": one.start,
        "date": one.day,
        "name": one.name,
        "distance": one.distance,
        "distance_class": distance_class(one.distance),
        "elapsed_time": one.elapsed_time,
        "moving_time": one.moving_time,
        "elevation_gain": one.total_elevation_gain,
        "average_heartrate": one.average_heartrate,
        "max_heartrate": one.max_heartrate,
        "polyline": None if one.map is None else one.map.summary_polyline,
        "event_name": known.event,
        "is_hidden": 0,
        "known_by": known.known_by,
        "created_at": now,
        "seen": seen,
    }
