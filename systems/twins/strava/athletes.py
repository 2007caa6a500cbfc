"""The athletes of the Strava twin and what they did, made from a seed.

The histories have what hurts clients: two recordings of one run that start in the same second, one of
such pairs across each border of a page of 200; private activities, which are left out of a page after
it was cut; races and parkruns; manual entries without a map.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from systems.twins.kit.clock import as_datetime, as_iso

DAY = 86_400
PAGE = 200
NAMES = ("Ida", "Tom", "Mei", "Omar", "Lena", "Raj", "Ana", "Kofi", "Noor", "Bo", "Eva", "Jon")
FAMILIES = ("Holm", "Berg", "Tanaka", "Haddad", "Vogel", "Iyer", "Costa", "Mensah", "Aziz", "Lind")
ZONES = ("Europe/Oslo", "Australia/Sydney", "America/Los_Angeles", "Europe/Lisbon")


@dataclass(slots=True)
class Activity:
    id: int
    start: int  # epoch seconds
    name: str
    sport: str
    distance: float
    moving: int
    workout: int | None = None
    private: bool = False
    manual: bool = False


@dataclass(slots=True)
class Athlete:
    id: int
    firstname: str
    lastname: str
    zone: str
    make: Callable[[], list[Activity]] | None = None
    found: list[Activity] = field(default_factory=list)
    clubs: list[int] = field(default_factory=lambda: [4497])

    @property
    def activities(self) -> list[Activity]:
        """Newest first."""
        if self.make is not None:
            self.found, self.make = self.make(), None
        return self.found

    def add(self, activity: Activity) -> None:
        self.activities.append(activity)
        self.activities.sort(key=lambda each: (-each.start, -each.id))

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "username": f"{self.firstname}_{self.lastname}".lower(),
            "resource_state": 2,
            "firstname": self.firstname,
            "lastname": self.lastname,
            "city": None,
            "state": None,
            "country": None,
            "sex": "F",
            "premium": False,
            "summit": False,
            "created_at": "2015-04-01T10:00:00Z",
            "updated_at": "2026-01-01T10:00:00Z",
            "badge_type_id": 0,
            "weight": 60.0,
            "profile_medium": "avatar/athlete/medium.png",
            "profile": "avatar/athlete/large.png",
            "friend": None,
            "follower": None,
        }


def person(id_: int) -> tuple[str, str, str]:
    return NAMES[id_ % len(NAMES)], FAMILIES[id_ % len(FAMILIES)], ZONES[id_ % len(ZONES)]


def history(athlete: int, zone: str, count: int, now: int, seed: int) -> list[Activity]:
    """So many activities back from now, newest first."""
    draw = random.Random(f"{seed}/{athlete}")
    at = now // 1000 // DAY * DAY
    made: list[Activity] = []
    while len(made) < count:
        number = len(made)
        # The same second as the one before: at each border of a page, and now and then.
        if number and (number % PAGE == 0 or draw.random() < 0.01):
            twin = made[-1]
            copy = Activity(
                0, twin.start, f"{twin.name} (phone)", twin.sport, twin.distance, twin.moving
            )
            made.append(copy)
            continue
        at -= draw.randint(DAY // 3, DAY)
        one = _one(draw, at, zone)
        # Newest first, also where nine o'clock was moved to.
        one.start = min(one.start, made[-1].start) if made else one.start
        made.append(one)
    for number, activity in enumerate(made):
        activity.id = 91_000_000_000 + athlete * 100_000 + count - number
    return made


def _one(draw: random.Random, at: int, zone: str) -> Activity:
    start = at + draw.randint(0, 3599)
    local = datetime.fromtimestamp(start, ZoneInfo(zone))
    if local.weekday() == 5:
        # Saturday, nine o'clock by the wall.
        nine = local.replace(hour=9, minute=0, second=draw.randint(0, 50))
        time = draw.randint(1150, 2000)
        marked = 1 if draw.random() < 0.5 else 0
        return Activity(0, int(nine.timestamp()), "Riverside parkrun", "Run", 5012.3, time, marked)
    kind = draw.random()
    private, manual = draw.random() < 0.06, draw.random() < 0.02
    if kind < 0.7:
        distance = round(
            draw.choice((5000, 8000, 10000, 21097, 12000)) * draw.uniform(0.97, 1.03), 1
        )
        race = 1 if draw.random() < 0.05 else draw.choice((None, 0, 2, 3))
        name = "City 10K" if race == 1 else "Morning Run"
        moving = int(distance / draw.uniform(2.6, 4.4))
        return Activity(0, start, name, "Run", distance, moving, race, private, manual)
    if kind < 0.9:
        distance = round(draw.uniform(15000, 90000), 1)
        workout = 11 if draw.random() < 0.03 else 10
        moving = int(distance / draw.uniform(6, 9))
        return Activity(0, start, "Lunch Ride", "Ride", distance, moving, workout, private, manual)
    sport = draw.choice(("Walk", "Swim", "TrailRun", "VirtualRun"))
    distance = round(draw.uniform(1000, 9000), 1)
    return Activity(
        0, start, f"Evening {sport}", sport, distance, int(distance / 1.6), None, private
    )


def summary(athlete: Athlete, one: Activity) -> dict[str, Any]:
    """A SummaryActivity."""
    start = as_datetime(one.start * 1000)
    local = start.astimezone(ZoneInfo(athlete.zone))
    offset = local.utcoffset()
    assert offset is not None
    seconds = offset.total_seconds()
    sign, hours = "-" if seconds < 0 else "+", int(abs(seconds))
    line = None if one.manual else "_p~iF~ps|U_ulLnnqC_mqNvxq`@"
    place = None if one.manual else [59.9, 10.7]
    kind = {"TrailRun": "Run"}.get(one.sport, one.sport)
    return {
        "resource_state": 2,
        "athlete": {"id": athlete.id, "resource_state": 1},
        "name": one.name,
        "distance": one.distance,
        "moving_time": one.moving,
        "elapsed_time": one.moving + 31,
        "total_elevation_gain": 22.0,
        "type": kind,
        "sport_type": one.sport,
        "workout_type": one.workout,
        "id": one.id,
        "external_id": None if one.manual else f"garmin_{one.id}.fit",
        "upload_id": None if one.manual else one.id + 1_000_000_000,
        "start_date": as_iso(one.start * 1000),
        # The time on the wall, with a Z that is not true.
        "start_date_local": local.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "timezone": f"(GMT{sign}{hours // 3600:02}:{hours % 3600 // 60:02}) {athlete.zone}",
        "utc_offset": seconds,
        "start_latlng": place,
        "end_latlng": place,
        "location_city": None,
        "location_state": None,
        "location_country": None,
        "achievement_count": 1,
        "kudos_count": 4,
        "comment_count": 0,
        "athlete_count": 1,
        "photo_count": 0,
        "map": {"id": f"a{one.id}", "summary_polyline": line, "resource_state": 2},
        "trainer": False,
        "commute": False,
        "manual": one.manual,
        "private": one.private,
        "visibility": "only_me" if one.private else "followers_only",
        "flagged": False,
        "gear_id": None,
        "from_accepted_tag": False,
        "average_speed": round(one.distance / max(1, one.moving), 3),
        "max_speed": 5.1,
        "has_heartrate": False,
        "pr_count": 0,
        "total_photo_count": 0,
        "has_kudoed": False,
    }


def detail(athlete: Athlete, one: Activity) -> dict[str, Any]:
    """A DetailedActivity: what a summary leaves out costs a call each."""
    found = summary(athlete, one)
    line = found["map"]["summary_polyline"]
    more = {"description": "Felt good.", "calories": round(one.distance / 16, 1), "photos": {}}
    found["map"] = {**found["map"], "polyline": line, "resource_state": 3}
    splits = [{"distance": 1000.0, "split": n + 1} for n in range(int(one.distance // 1000))]
    lists = {"splits_metric": splits, "segment_efforts": [], "best_efforts": [], "laps": []}
    return {**found, **more, **lists, "resource_state": 3}


def stats(athlete: Athlete, now: int) -> dict[str, Any]:
    """Totals of what is public."""
    year = as_datetime(now).replace(month=1, day=1, hour=0, minute=0, second=0).timestamp()
    spans = {"recent": now / 1000 - 28 * DAY, "ytd": year, "all": 0}
    found: dict[str, Any] = {"biggest_ride_distance": None, "biggest_climb_elevation_gain": None}
    for sport in ("Run", "Ride", "Swim"):
        public = [one for one in athlete.activities if one.sport == sport and not one.private]
        for span, since in spans.items():
            chosen = [one for one in public if one.start >= since]
            found[f"{span}_{sport.lower()}_totals"] = {
                "count": len(chosen),
                "distance": round(sum(one.distance for one in chosen), 1),
                "moving_time": sum(one.moving for one in chosen),
                "elapsed_time": sum(one.moving + 31 for one in chosen),
                "elevation_gain": 22.0 * len(chosen),
            }
    return found


def club(id_: int) -> dict[str, Any]:
    return {
        "id": id_,
        "resource_state": 2,
        "name": f"Club {id_}",
        "profile_medium": "avatar/club/medium.png",
        "profile": "avatar/club/large.png",
        "sport_type": "running",
        "city": "Oslo",
        "state": "",
        "country": "Norway",
        "private": False,
        "member_count": 42,
        "url": f"club-{id_}",
    }
