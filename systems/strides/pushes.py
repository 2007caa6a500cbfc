"""Strava's events: something was done, changed or deleted, or an athlete has taken its leave.

Events are not signed. They come to an address that nobody can guess, and what they say is not believed:
each is a reason to look, by one call within the quota. A look at an activity brings its details, too.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Any, Literal

import msgspec

from duework import Conflict, NotFound, Reply, Run, http
from systems.strides import athlete as athletes
from systems.strides import sync
from systems.strides.client import AccessLost, ApplicationInactive, Detail, Reader, client
from systems.strides.part import QUOTA, part, settings
from systems.strides.races import activity_row, race_row, recognise
from systems.strides.statements import ACTIVITIES, RACES

# One, and one more with a token that was renewed.
LOOK = 2
BIG = 2**63 - 1


class Hub(msgspec.Struct, kw_only=True):
    """Strava asks whether we are who wants its events."""

    mode: str = msgspec.field(name="hub.mode", default="")
    challenge: str = msgspec.field(name="hub.challenge", default="")
    verify_token: str = msgspec.field(name="hub.verify_token", default="")


class Event(msgspec.Struct, kw_only=True):
    """What has happened, as Strava says."""

    object_type: Literal["activity", "athlete"]
    object_id: int
    aspect_type: Literal["create", "update", "delete"]
    owner_id: int
    updates: dict[str, Any] = {}


def _token() -> str:
    token = settings().push_token
    if token is None:
        raise NotFound("events of Strava need the setting push_token")
    return token.reveal()


def mark() -> str:
    """The piece of our address that only Strava knows."""
    return hmac.new(_token().encode(), b"strides push", hashlib.sha256).hexdigest()[:32]


def _check(given: str) -> None:
    if not hmac.compare_digest(given.encode(), mark().encode()):
        raise NotFound("there is nothing here")


@part.route("/webhooks/strava/{given}", auth="public")
def verify(given: str, query: Hub) -> Reply:
    _check(given)
    if not hmac.compare_digest(query.verify_token.encode(), _token().encode()):
        return Reply(403, {"error": "another verify_token"})
    return Reply(200, {"hub.challenge": query.challenge})


@part.route("/webhooks/strava/{given}", methods=["POST"], auth="public", max_body=16_384)
def pushed(given: str, body: Event) -> Reply:
    """Written down as a job, and answered at once: Strava waits for two seconds."""
    _check(given)
    if not 0 < body.owner_id <= BIG or not 0 < body.object_id <= BIG:
        return Reply(200)
    if part.app.read("select 1 from strides_athlete where id = :id", id=body.owner_id):
        if body.object_type == "activity":
            # One that comes while another is looked at may be newer than what that one saw.
            key = f"push:{body.owner_id}:{body.object_id}"
            look.using(key=key, when_running="again").enqueue(body.owner_id, body.object_id)
        elif str(body.updates.get("authorized")).lower() == "false":
            check_access.enqueue(body.owner_id)
    return Reply(200)


async def _reader(run: Run, athlete: int) -> Reader:
    token = await athletes.access_token(athlete)
    return Reader(token, lambda stale: athletes.renew(athlete, stale), lambda: run.now, LOOK)


@part.task(queue="strides", pace=QUOTA.cost(LOOK), retries=3, timeout="1m")
async def look(run: Run, athlete: int, activity: int) -> str:
    """Store an activity as it is at Strava now, with its details; or delete it."""
    run.spent(QUOTA, 0)
    if not run.read("select 1 from strides_athlete where id = :id and connected = 1", id=athlete):
        return "the athlete is not connected"
    try:
        reader = await _reader(run, athlete)
        try:
            found = await reader.activity(activity)
        finally:
            run.spent(QUOTA, LOOK - reader.left)
    except AccessLost as lost:
        await athletes.lose_access(athlete, str(lost))
        return str(lost)
    except ApplicationInactive as inactive:
        raise sync.parked() from inactive
    if found is None:
        _delete(run, athlete, activity)
        return "deleted"
    _store(run, athlete, found)
    return "stored"


def _delete(run: Run, athlete: int, activity: int) -> None:
    values: dict[str, Any] = {"athlete": athlete, "id": activity}
    run.write("delete from strides_activity where athlete_id = :athlete and id = :id", **values)
    run.write(
        "delete from strides_race where athlete_id = :athlete and strava_activity_id = :id"
        " and edited = 0",
        **values,
    )


def _store(run: Run, athlete: int, found: Detail) -> None:
    # A sync that is past its start must not take it for something that is gone.
    chain = sync.latest(athlete)
    seen = chain.id if chain is not None and chain.state == "active" else 0
    ACTIVITIES.write(run, [activity_row(found, athlete, seen)])
    known = recognise(found)
    if known is None:
        return
    RACES.write(run, [race_row(found, known, athlete=athlete, seen=seen, now=run.now)])
    run.write(
        "update strides_race set description = :words, calories = :calories"
        " where athlete_id = :athlete and strava_activity_id = :id",
        words=found.description,
        calories=found.calories,
        athlete=athlete,
        id=found.id,
    )


@part.task(queue="strides", pace=QUOTA.cost(LOOK), retries=3, timeout="1m")
async def check_access(run: Run, athlete: int) -> str:
    """Delete everything of an athlete who has revoked the access, if that is so."""
    run.spent(QUOTA, 0)
    if not run.read("select 1 from strides_athlete where id = :id and connected = 1", id=athlete):
        # Strava cannot be asked without a token, and what an event says is not believed.
        return "the athlete is not connected"
    try:
        reader = await _reader(run, athlete)
        try:
            await reader.check()
        finally:
            run.spent(QUOTA, LOOK - reader.left)
    except AccessLost as lost:
        if str(lost) == athletes.CUT_OFF:
            await athletes.lose_access(athlete, str(lost))
            return str(lost)
        return await _leave(athlete)
    except ApplicationInactive as inactive:
        raise sync.parked() from inactive
    return "the access is as good as before"


async def _leave(athlete: int) -> str:
    if (chain := sync.latest(athlete)) is not None:
        await chain.acancel("the athlete has revoked the access")
    async with part.app.transaction() as tx:
        athletes.forget(tx, athlete)
    return "deleted"


@part.task(
    cron="0 3 * * WED", queue="strides", owner="strides", why="what is gone is found by a full sync"
)
def weekly() -> int:
    """A full sync of everybody who is connected."""
    rows = part.app.read("select id from strides_athlete where connected = 1 order by id")
    started = 0
    for row in rows:
        try:
            started += not sync.start(row.id, full=True).existed
        except (Conflict, NotFound):
            continue  # it has left meanwhile
    return started


async def subscribe() -> int:
    """Ask Strava for its events; the number of the subscription."""
    known = settings()
    address = f"{known.public_url.rstrip('/')}/webhooks/strava/{mark()}"
    data = {
        "client_id": known.client_id,
        "client_secret": known.client_secret.reveal(),
        "callback_url": address,
        "verify_token": _token(),
    }
    reply: http.Response = await client(known.api).post("/push_subscriptions", data=data)
    found: dict[str, Any] = reply.check().json(dict[str, Any])
    return int(found["id"])
