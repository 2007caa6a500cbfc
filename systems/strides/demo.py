"""What a demonstration needs of strides: athletes to begin with, and what is promised to be stored."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec

from duework import App
from systems.strides import oauth, sync
from systems.strides.client import client
from systems.strides.part import settings

FIRST = 5001
NOWHERE = "http://127.0.0.1/strides/callback"


class Promise(msgspec.Struct, frozen=True):
    """What the tables hold of one athlete; to be compared with Strava's own list.

    It is due once `state` is done: everything that Strava shows then is stored, each once.
    """

    athlete: int
    # active, done, failed, cancelled, or none.
    state: str
    activities: frozenset[int]
    races: frozenset[int]


def seed(app: App, athletes: int = 3, first: int = FIRST) -> list[str]:
    """Connect athletes of the twin, as a browser would; their first syncs are under way.

    Who is connected already is left alone. Returns the sessions.
    """
    known = {row.id for row in app.read("select id from strides_athlete where connected = 1")}
    wanted = [id_ for id_ in range(first, first + athletes) if id_ not in known]
    return [asyncio.run(_connect(id_)) for id_ in wanted]


async def _connect(athlete: int) -> str:
    """The twin takes `as`, so that nobody has to click."""
    where = await asyncio.to_thread(oauth.begin, NOWHERE)
    path = where.removeprefix(settings().strava_url.rstrip("/"))
    reply = await client(settings().strava_url).get(f"{path}&as={athlete}")
    back = dict(parse_qsl(urlsplit(reply.headers["location"]).query))
    row = await oauth.finish(**back)
    return str(row.sync_session_id)


def promises(app: App) -> list[Promise]:
    """What is stored of every athlete, and whether its last sync has come to its end."""
    found = app.read("select id from strides_athlete order by id")
    return [_promise(app, row.id) for row in found]


def _promise(app: App, athlete: int) -> Promise:
    chain = sync.latest(athlete)
    values: dict[str, Any] = {"id": athlete}
    activities = app.read("select id from strides_activity where athlete_id = :id", **values)
    races = app.read(
        "select strava_activity_id as id from strides_race where athlete_id = :id", **values
    )
    return Promise(
        athlete,
        "none" if chain is None else chain.state,
        frozenset(row.id for row in activities),
        frozenset(row.id for row in races),
    )
