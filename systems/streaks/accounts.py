"""People come in with their account of GitHub, and find their own row: made now, if there is none.

GitHub says who it is by a number that stays when a login changes hands. What they are signed in as is the
address that GitHub itself gives to that number, so that no address of theirs is asked for.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from duework import (
    Conflict,
    NotFound,
    OAuth,
    OAuthGrant,
    Person,
    Throttled,
    Transaction,
    UsageError,
    http,
)
from systems.streaks import github, people
from systems.streaks.github import Viewer
from systems.streaks.part import part

log = logging.getLogger("duework.streaks")
SCOPE = "read:user"
BY_ID = "select * from streaks_person where github_id = :github_id"
BY_LOGIN = "select * from streaks_person where login_key = :key"
BY_ACCOUNT = "select * from streaks_person where account = :account"
OWN = """
update streaks_person set github_id = :github_id, account = :account, login = :login, login_key = :key
where id = :id
"""
# Whatever of this happens, nobody is let in, and the log says why.
NOT_NOW = (http.HttpError, Throttled, github.Refusal, github.Strange, UsageError, Conflict)


def provider() -> OAuth:
    """GitHub, as the settings know it."""
    given = part.settings
    return OAuth(
        name="GitHub",
        authorize_url=f"{given.login_url}/login/oauth/authorize",
        token_url=f"{given.login_url}/login/oauth/access_token",
        client_id=given.client_id,
        client_secret=given.client_secret,
        scope=SCOPE,
    )


@part.oauth(provider)
async def whose(grant: OAuthGrant) -> str | None:
    """Who came back from GitHub, with their row at hand."""
    now, token = part.app.now(), grant.access_token
    try:
        found = await github.viewer(part.settings.github_url, token, now=now)
        return await asyncio.to_thread(_welcome, found, token, now)
    except NOT_NOW as error:
        log.warning("somebody could not sign in with GitHub: %s", error)
        return None


def _welcome(found: Viewer, token: str, now: int) -> str | None:
    with part.app.transaction() as tx:
        return welcome(tx, found, token, now=now)


def welcome(tx: Transaction, found: Viewer, token: str, *, now: int) -> str | None:
    """The address of whoever GitHub has shown; None if the row of that login is somebody else's."""
    known = tx.read(BY_ID, github_id=found.id)
    named = tx.read(BY_LOGIN, key=found.login.lower())
    row = (known or named or [None])[0]
    if named and (named[0].github_id not in {None, found.id} or named[0].id != row.id):
        log.warning("the login %s has changed hands; its row has another owner", found.login)
        return None
    person = people.add(tx, found.login, people.Wishes(), now=now) if row is None else row.id
    account = f"{found.id}+{found.login}@users.noreply.github.com".lower()
    own: dict[str, Any] = {"github_id": found.id, "account": account, "login": found.login}
    tx.write(OWN, id=person, key=found.login.lower(), **own)
    if row is None or not row.has_token or row.problem:
        people.take_token(tx, person, token)
    return account


def own_row(reader: Any, person: Person) -> Any:
    """The row of whoever is signed in, and never another one."""
    rows = reader.read(BY_ACCOUNT, account=person.email)
    if not rows:
        raise NotFound("you are not registered any more; sign in again to begin anew")
    return rows[0]
