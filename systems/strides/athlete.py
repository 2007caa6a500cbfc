"""Athletes and their tokens: sealed, renewed by one process at a time, and told when they are lost.

A refresh token rotates: the moment Strava answers, the old one is dead. So what it answered is stored
at once, in a commit of its own that holds both tokens, their end and nothing else; not with the page
that needed them, which may still fail. One crash cannot be repaired, between Strava's answer and that
commit. It is known afterwards by the mark that is committed before the refresh is sent, and the athlete
is told to connect again, instead of being told that the access was revoked.
"""

from __future__ import annotations

from typing import Any

import msgspec

from duework import DurableObject, NotFound
from systems.strides.client import OK, AccessLost, client, fault_of
from systems.strides.part import part, settings

# A token is renewed when less than this is left of it: a page takes less.
MARGIN = 300_000
REVOKED = "the athlete has revoked the access at Strava; connect again"
CUT_OFF = (
    "a renewal of the athlete's token was cut off, and Strava gives it only once; connect again"
)


class Tokens(msgspec.Struct, frozen=True):
    """What Strava grants; sealed as one value, so that its halves never belong to two grants."""

    access_token: str
    refresh_token: str
    # Seconds since 1970.
    expires_at: int

    def __repr__(self) -> str:
        return f"Tokens(expires_at={self.expires_at})"


def secret_name(athlete: int) -> str:
    return f"strides.tokens:{athlete}"


def find(athlete: int) -> Any:
    """An athlete's row; `NotFound` if there is none."""
    rows = part.app.read("select * from strides_athlete where id = :id", id=athlete)
    if not rows:
        raise NotFound(f"there is no athlete {athlete}; it connects at /strides/connect")
    return rows[0]


def put_tokens(tx: Any, athlete: int, tokens: Tokens) -> None:
    """Seal them, and say on the row until when they are good and that no refresh is under way."""
    tx.seal(secret_name(athlete), msgspec.json.encode(tokens).decode())
    tx.write(
        "update strides_athlete set token_ends = :ends, refreshing = null, connected = 1,"
        " reason = null where id = :id",
        id=athlete,
        ends=tokens.expires_at * 1000,
    )


async def open_tokens(athlete: int) -> Tokens:
    try:
        text = await part.app.secrets.aopen(secret_name(athlete))
    except NotFound:
        raise AccessLost("the athlete is not connected; connect first") from None
    return msgspec.json.decode(text, type=Tokens)


async def access_token(athlete: int) -> str:
    """A token that is good for the next minutes."""
    tokens = await open_tokens(athlete)
    if tokens.expires_at * 1000 - part.app.now() > MARGIN:
        return tokens.access_token
    return await renew(athlete, tokens.access_token)


async def renew(athlete: int, stale: str) -> str:
    """Another token than the stale one, whoever gets it from Strava."""
    token: str = await part.app.object(Grant, str(athlete)).renew(stale)
    return token


@part.durable
class Grant(DurableObject):
    """The lease under which an athlete's token is renewed: one at a time, over all processes."""

    async def renew(self, stale: str) -> str:
        athlete = int(self.key)
        tokens = await open_tokens(athlete)
        if tokens.access_token != stale:
            # Another page has done it while this one waited for the lease.
            return tokens.access_token
        cut_off = await _begin(athlete)
        fresh = await _refresh(tokens.refresh_token, cut_off=cut_off)
        async with part.app.transaction() as tx:
            put_tokens(tx, athlete, fresh)
        return fresh.access_token


async def _begin(athlete: int) -> bool:
    """Mark that a refresh is sent; whether an earlier one never came to an end."""
    async with part.app.transaction() as tx:
        rows = tx.read("select refreshing from strides_athlete where id = :id", id=athlete)
        tx.write(
            "update strides_athlete set refreshing = :now where id = :id",
            id=athlete,
            now=part.app.now(),
        )
    return bool(rows) and rows[0].refreshing is not None


async def _refresh(refresh_token: str, *, cut_off: bool) -> Tokens:
    reply = await ask_for_tokens(grant_type="refresh_token", refresh_token=refresh_token)
    if reply.status != OK and fault_of(reply).resource == "RefreshToken":
        raise AccessLost(CUT_OFF if cut_off else REVOKED)
    tokens: Tokens = reply.check().json(Tokens)
    return tokens


async def ask_for_tokens(**fields: str) -> Any:
    """Strava's answer to a code or a refresh token."""
    known = settings()
    data = {
        "client_id": known.client_id,
        "client_secret": known.client_secret.reveal(),
        **fields,
    }
    return await client(known.strava_url).post("/oauth/token", data=data)


async def lose_access(athlete: int, reason: str) -> None:
    """The athlete is not connected any more: its tokens are forgotten, and the row says why."""
    async with part.app.transaction() as tx:
        tx.forget(secret_name(athlete))
        tx.write(
            "update strides_athlete set connected = 0, reason = :reason, refreshing = null"
            " where id = :id",
            id=athlete,
            reason=reason,
        )


def forget(tx: Any, athlete: int) -> None:
    """Everything of an athlete, in one transaction."""
    tx.forget(secret_name(athlete))
    tx.write("delete from strides_race where athlete_id = :id", id=athlete)
    tx.write("delete from strides_activity where athlete_id = :id", id=athlete)
    tx.write("delete from strides_log where athlete_id = :id", id=athlete)
    tx.write("delete from strides_upload where athlete_id = :id", id=athlete)
    tx.write("delete from strides_athlete where id = :id", id=athlete)
