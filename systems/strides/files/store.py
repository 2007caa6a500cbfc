"""Recordings from files become activities and races of an athlete, each once.

The same bytes have the same id, and a recording that starts within two minutes of one that is there is
that one: a watch's file of what Strava has already told us. Everything of one file or archive is one commit.
"""

from __future__ import annotations

from datetime import tzinfo
from typing import Any

import msgspec

from duework import NotFound, UsageError
from systems.strides.files.opening import Found, Tell, opened, silent
from systems.strides.files.recording import as_activity, zone_of
from systems.strides.part import part
from systems.strides.races import Activity, activity_row, race_row, recognise
from systems.strides.statements import ACTIVITIES, RACES

# Athletes that have no account at Strava are numbered from here on; Strava's numbers are far smaller.
LOCAL = 10**15
SAME = 120
LONGEST_NAME = 200
BY_FILES = "this athlete has files alone, and no account at Strava"


class Taken(msgspec.Struct):
    """What became of a file."""

    added: int
    there_already: int
    races: int
    left_out: dict[str, str]


class Ready(msgspec.Struct):
    """What a file holds, read and not yet stored."""

    every: list[Activity]
    left_out: dict[str, str]
    at: int


def take(athlete: int, name: str, content: bytes, *, zone: str = "", race: bool = False) -> Taken:
    """Store what a file holds: all of it, or, with a `FileRefused`, nothing."""
    found = read(name, content, zone=zone, race=race)
    with part.app.transaction() as tx:
        return put(tx, athlete, found)


def read(
    name: str, content: bytes, *, zone: str = "", race: bool = False, tell: Tell = silent
) -> Ready:
    """What a file holds; `tell(n, of)` is called before each recording of an archive."""
    where: tzinfo | None = zone_of(zone) if zone else None
    what, now = opened(name, content, where, tell), part.app.now()
    every = [_activity(found, where, now, race=race) for found in what.found]
    return Ready(every, what.left_out, now)


def put(tx: Any, athlete: int, found: Ready) -> Taken:
    """Store what is not there yet, as a part of a transaction."""
    if not tx.read("select id from strides_athlete where id = :id", id=athlete):
        raise NotFound(f"there is no athlete {athlete}; add one first")
    new = _new(tx, athlete, found.every)
    ACTIVITIES.write(tx, [activity_row(one, athlete, 0) for one in new])
    races = [
        race_row(one, known, athlete=athlete, seen=0, now=found.at)
        for one in new
        if (known := recognise(one)) is not None
    ]
    RACES.write(tx, races)
    return Taken(len(new), len(found.every) - len(new), len(races), found.left_out)


def _activity(found: Found, zone: tzinfo | None, now: int, *, race: bool) -> Activity:
    # Below zero, so that it meets no id of Strava's; exact in every JSON reader.
    own = -1 - (int.from_bytes(found.digest[:8], "big") >> 12)
    identifier = found.strava_id or own
    return as_activity(found.recording, identifier, zone=zone, now=now, race=race)


def _new(tx: Any, athlete: int, every: list[Activity]) -> list[Activity]:
    """Those that are not there yet, by their id or their start."""
    if not every:
        return []
    rows = tx.read(
        "select id, start from strides_activity where athlete_id = :athlete"
        " and start between :first and :last",
        athlete=athlete,
        first=min(one.start for one in every) - SAME,
        last=max(one.start for one in every) + SAME,
    )
    ids = {row.id for row in rows}
    # By spans of two minutes: only neighbours can be near.
    spans: dict[int, list[int]] = {}
    for row in rows:
        spans.setdefault(row.start // SAME, []).append(row.start)
    new = []
    for one in every:
        span = one.start // SAME
        near = [start for each in (span - 1, span, span + 1) for start in spans.get(each, ())]
        if one.id in ids or any(abs(start - one.start) <= SAME for start in near):
            continue
        ids.add(one.id)
        spans.setdefault(span, []).append(one.start)
        new.append(one)
    return new


def add_athlete(firstname: str, lastname: str = "") -> int:
    """Somebody who has files alone; the new number."""
    name = firstname + lastname
    if not firstname.strip() or len(name) > LONGEST_NAME or "\x00" in name:
        raise UsageError("An athlete has a name of at most 200 characters")
    with part.app.transaction() as tx:
        [row] = tx.read("select max(id) as n from strides_athlete where id >= :first", first=LOCAL)
        number: int = LOCAL if row.n is None else row.n + 1
        tx.write(
            "insert into strides_athlete (id, firstname, lastname, connected, reason, joined)"
            " values (:id, :first, :last, 0, :reason, :now)",
            id=number,
            first=firstname.strip(),
            last=lastname.strip(),
            reason=BY_FILES,
            now=part.app.now(),
        )
    return number
