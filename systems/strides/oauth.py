"""Connecting and disconnecting an athlete: OAuth with a state that is good once, and scopes that count.

What Strava grants is stored with the athlete's row and its first sync in one commit. A crash before it
loses the code, which is good once; the athlete connects again, and Strava answers with a new grant.
"""

from __future__ import annotations

import logging
import secrets
from typing import Any
from urllib.parse import urlencode

import msgspec

from duework import Conflict, NotFound, UsageError, http
from systems.strides import sync
from systems.strides.athlete import Tokens, ask_for_tokens, find, forget, open_tokens, put_tokens
from systems.strides.client import AccessLost, client, fault_of
from systems.strides.part import part, settings

SCOPE = "read,activity:read_all"
READS = frozenset({"activity:read", "activity:read_all"})
# Ten minutes of whoever clicks, however fast the App's clock goes.
STATE_LIFE = 600_000
log = logging.getLogger("duework.strides")
# What asking once more would not change.
REFUSALS = frozenset({400, 401, 403, 404})
NOT_CONNECTED = "was not connected: "


class Person(msgspec.Struct, frozen=True):
    id: int
    firstname: str = ""
    lastname: str = ""


class Granted(msgspec.Struct, frozen=True):
    """Strava's answer to a code."""

    access_token: str
    refresh_token: str
    expires_at: int
    athlete: Person


def begin(redirect_uri: str) -> str:
    """Where to send a person who wants to connect; the state in it is good once, for ten minutes."""
    state, now = secrets.token_urlsafe(24), part.app.now()
    with part.app.transaction() as tx:
        tx.write("delete from strides_state where made < :old", old=now - _state_life())
        tx.write(
            "insert into strides_state (state, redirect_uri, made) values (:state, :uri, :now)",
            state=state,
            uri=redirect_uri,
            now=now,
        )
    query = {
        "client_id": settings().client_id,
        "redirect_uri": redirect_uri,
        "response_type": "code",
        "approval_prompt": "auto",
        "scope": SCOPE,
        "state": state,
    }
    return f"{settings().strava_url.rstrip('/')}/oauth/authorize?{urlencode(query)}"


async def finish(*, state: str, code: str = "", scope: str = "", error: str = "") -> Any:
    """What the browser came back with; the athlete's row, and its first sync is under way."""
    await _use_state(state)
    if error or not code:
        raise UsageError(f"The athlete {NOT_CONNECTED}{error or 'Strava sent no code'}")
    granted_scopes = frozenset(scope.split(","))
    if not granted_scopes & READS:
        raise UsageError(f"The athlete {NOT_CONNECTED}activity:read was not granted; leave it on")
    granted = await _exchange(code)
    async with part.app.transaction() as tx:
        _admit(tx, granted, scope)
        sync.start_in(tx, granted.athlete.id)
    return find(granted.athlete.id)


def _state_life() -> int:
    return int(STATE_LIFE * part.app.wiring.engine.clock.speed)


async def _use_state(state: str) -> None:
    async with part.app.transaction() as tx:
        used = tx.write(
            "delete from strides_state where state = :state and made >= :since",
            state=state,
            since=part.app.now() - _state_life(),
        )
    if not used.changed:
        raise UsageError("This authorisation was not begun here, or was used already: begin again")


async def _exchange(code: str) -> Granted:
    reply = await ask_for_tokens(grant_type="authorization_code", code=code)
    if reply.ok:
        granted: Granted = reply.json(Granted)
        return granted
    fault = fault_of(reply)
    if fault.field == "connected athletes":
        raise Conflict(f"The athlete {NOT_CONNECTED}Strava lets this application have no more")
    if fault.resource == "AuthorizationCode":
        raise UsageError(f"The athlete {NOT_CONNECTED}the code is used up or too old; begin again")
    reply.check()
    raise AssertionError  # check raises for what is not ok


def _admit(tx: Any, granted: Granted, scope: str) -> None:
    """The athlete's row and tokens; one more than are allowed is refused by name."""
    person, most = granted.athlete, settings().most_athletes
    others = tx.read(
        "select count(*) as n from strides_athlete where connected = 1 and id <> :id", id=person.id
    )
    if others[0].n >= most:
        name = f"{person.firstname} {person.lastname}".strip()
        raise Conflict(
            f"{name} {NOT_CONNECTED}{most} athletes are, which is the most; one of them has to leave"
        )
    tx.write(
        "insert into strides_athlete (id, firstname, lastname, scopes, joined)"
        " values (:id, :firstname, :lastname, :scopes, :now)"
        " on conflict (id) do update set firstname = excluded.firstname,"
        " lastname = excluded.lastname, scopes = excluded.scopes",
        id=person.id,
        firstname=person.firstname,
        lastname=person.lastname,
        scopes=scope,
        now=part.app.now(),
    )
    tokens = Tokens(granted.access_token, granted.refresh_token, granted.expires_at)
    put_tokens(tx, person.id, tokens)


async def disconnect(athlete: int) -> None:
    """Revoke at Strava, and delete everything of the athlete here; repeatable after a crash."""
    row = find(athlete)
    if (chain := sync.latest(athlete)) is not None:
        await chain.acancel("the athlete disconnects")
    if row.connected:
        await _revoke(athlete)
    async with part.app.transaction() as tx:
        forget(tx, athlete)


async def _revoke(athlete: int) -> None:
    try:
        tokens = await open_tokens(athlete)
    except (AccessLost, NotFound):
        return
    known = settings()
    reply: http.Response = await client(known.strava_url).post(
        "/oauth/revoke",
        data={"token": tokens.refresh_token},
        headers={"authorization": _basic(known.client_id, known.client_secret.reveal())},
    )
    if reply.status in REFUSALS:
        # Our own secret is another one by now, or the grant is gone: nobody stays here for that.
        log.warning("Strava would not revoke the access of athlete %s: %s", athlete, reply.status)
        return
    reply.check()


def _basic(user: str, password: str) -> str:
    import base64

    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
