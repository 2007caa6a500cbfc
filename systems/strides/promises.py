"""What a sync promises to have stored, to be compared with Strava's own list.

The twin tells its list by `POST /_twin/switch/list_activities` with `{"athlete": 5001}`.
"""

from __future__ import annotations

import msgspec

from duework import App
from systems.strides import sync


class Promise(msgspec.Struct, frozen=True):
    """One athlete. Once `state` is done, everything that Strava shows is stored, each once."""

    athlete: int
    # active, done, failed, cancelled, or none.
    state: str
    # The ids that are stored; those of races are among the activities.
    activities: frozenset[int]
    races: frozenset[int]
    # What the pages of the sync counted; more than are stored would be a page that counted twice.
    counted: int


def promises(app: App) -> list[Promise]:
    """Of every athlete, in the order of their ids."""
    found = app.read("select id from strides_athlete order by id")
    return [_promise(app, row.id) for row in found]


def _promise(app: App, athlete: int) -> Promise:
    chain = sync.latest(athlete)
    activities = app.read("select id from strides_activity where athlete_id = :id", id=athlete)
    races = app.read(
        "select strava_activity_id as id from strides_race where athlete_id = :id", id=athlete
    )
    return Promise(
        athlete,
        "none" if chain is None else chain.state,
        frozenset(row.id for row in activities),
        frozenset(row.id for row in races),
        0 if chain is None else int(chain.counts.get("activities", 0)),
    )
