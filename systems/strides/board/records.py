"""What an athlete may be proud of, and all of it to take away: milestones, years, and races as CSV."""

from __future__ import annotations

import csv
import io
from typing import Any

import msgspec

from systems.strides.part import part
from systems.strides.reading import Wanted, races

COUNTS = (1, 10, 25, 50, 100, 200, 300, 400, 500, 1000)
COLUMNS = (
    "athlete_id", "athlete", "strava_activity_id", "date", "event_name", "name", "distance",
    "distance_class", "elapsed_time", "moving_time", "elevation_gain", "average_heartrate",
    "max_heartrate", "known_by", "is_hidden", "edited",
)  # fmt: skip
# What a spreadsheet takes for a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r")
PAGE = 500


class Milestone(msgspec.Struct, frozen=True):
    date: str
    words: str


class Year(msgspec.Struct, frozen=True):
    year: str
    races: int
    kilometres: float
    # All that was done, races or not.
    activities: int
    moved: float


def milestones(athlete: int) -> list[Milestone]:
    """Newest first: the first race of each distance, round numbers of races, and bests that fell."""
    rows = part.app.read(
        "select date, distance_class as name, elapsed_time as taken from strides_race"
        " where athlete_id = :id and is_hidden = 0 order by start, strava_activity_id",
        id=athlete,
    )
    found: list[Milestone] = []
    bests: dict[str, int] = {}
    for number, row in enumerate(rows, 1):
        if number in COUNTS:
            found.append(Milestone(row.date, "first race" if number == 1 else f"race {number}"))
        best = bests.get(row.name)
        if row.name != "Other" and (best is None or row.taken < best):
            words = f"first {row.name}" if best is None else f"best {row.name}"
            found.append(Milestone(row.date, words))
            bests[row.name] = row.taken
    return found[::-1]


def eddington(athlete: int) -> int:
    """The largest E with E days of at least E kilometres."""
    rows = part.app.read(
        "select sum(distance) as metres from strides_activity where athlete_id = :id group by day",
        id=athlete,
    )
    days = sorted((float(row.metres) / 1000 for row in rows), reverse=True)
    return sum(kilometres >= rank for rank, kilometres in enumerate(days, 1))


def years(athlete: int) -> list[Year]:
    """Newest first."""
    rows = part.app.read(
        "select substr(day, 1, 4) as year, count(*) as n, sum(distance) as metres"
        " from strides_activity where athlete_id = :id group by 1 order by 1 desc",
        id=athlete,
    )
    raced = part.app.read(
        "select substr(date, 1, 4) as year, count(*) as n, sum(distance) as metres"
        " from strides_race where athlete_id = :id and is_hidden = 0 group by 1",
        id=athlete,
    )
    sums = {row.year: (row.n, float(row.metres) / 1000) for row in raced}
    return [
        Year(row.year, *sums.get(row.year, (0, 0.0)), row.n, float(row.metres) / 1000)
        for row in rows
    ]


def top(athlete: int, name: str, limit: int = 10) -> list[Any]:
    """The best races of a distance."""
    return part.app.read(
        "select * from strides_race where athlete_id = :id and is_hidden = 0"
        " and distance_class = :name order by elapsed_time, start limit :limit",
        id=athlete,
        name=name,
        limit=limit,
    )


def to_csv(wanted: Wanted) -> bytes:
    """All races that the filters let through, however many."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    offset = 0
    while rows := races(msgspec.structs.replace(wanted, limit=PAGE, offset=offset)):
        for row in rows:
            values = {**row._asdict(), "athlete": f"{row.firstname} {row.lastname}".strip()}
            writer.writerow([_cell(values[column]) for column in COLUMNS])
        offset += PAGE
    return out.getvalue().encode()


def _cell(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
