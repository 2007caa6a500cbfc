"""Athletes to begin with: those of the twin, connected as a browser would do it."""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qsl, urlsplit

from duework import App
from systems.strides import oauth
from systems.strides.client import client
from systems.strides.part import settings

# The first three have 10,000 activities each.
FIRST = 5001
NOWHERE = "http://127.0.0.1/strides/callback"


def seed(app: App, athletes: int = 3, first: int = FIRST) -> list[str]:
    """Connect athletes of the twin, as a browser would; their first syncs are under way.

    Who is connected already is left alone. Returns the sessions.
    """
    known = {row.id for row in app.read("select id from strides_athlete where connected = 1")}
    wanted = [id_ for id_ in range(first, first + athletes) if id_ not in known]
    return [asyncio.run(_connect(id_)) for id_ in wanted]


def reconnect(app: App) -> list[str]:
    """Let everybody consent again: a twin that was started anew knows nobody's tokens."""
    known = [row.id for row in app.read("select id from strides_athlete order by id")]
    return [asyncio.run(_connect(id_)) for id_ in known]


async def _connect(athlete: int) -> str:
    """The twin takes `as`, so that nobody has to click."""
    where = await asyncio.to_thread(oauth.begin, NOWHERE)
    path = where.removeprefix(settings().strava_url.rstrip("/"))
    reply = await client(settings().strava_url).get(f"{path}&as={athlete}")
    back = dict(parse_qsl(urlsplit(reply.headers["location"]).query))
    row = await oauth.finish(**back)
    return str(row.sync_session_id)
