"""Receivers of webhooks: a URL each, a sealed secret, and whether it is switched on.

A secret is shown once, when it is made. After a rotation the one before signs as well, for a day, so that
the receiver can change over without missing anything.
"""

from __future__ import annotations

import secrets as randomness
from collections.abc import Callable
from typing import Literal

import msgspec

from duework import Conflict, NotFound, Transaction, UsageError, http, webhooks
from systems.reminders.part import part, settings
from systems.reminders.rules import check_address

OVERLAP_MS = 86_400_000
NAME_LIMIT = 60
URL_LIMIT = 1000


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    url: str
    state: Literal["on", "off"]
    reason: str | None
    old_until: int | None
    # Who is told before it is switched off, how many calls failed in a row, and when it was said.
    contact: str | None
    failures: int
    warned_at: int | None
    created_at: int
    updated_at: int


class MadeEndpoint(Endpoint, frozen=True, kw_only=True):
    """With its secret, which nobody is told a second time."""

    secret: str


def create(
    name: str,
    url: str,
    *,
    secret: str | None = None,
    id_: str | None = None,
    contact: str | None = None,
) -> MadeEndpoint:
    """A receiver and its secret, in one commit."""
    _check(name, url)
    if contact is not None:
        check_address(contact)
    found, now = secret or webhooks.new_secret(), part.app.now()
    # Refuses what is not a secret before anything is written.
    webhooks.sign([found], "check", "", now=now)
    made = MadeEndpoint(
        id=id_ or f"ep_{randomness.token_hex(6)}",
        name=name,
        url=url,
        state="on",
        reason=None,
        old_until=None,
        contact=contact,
        failures=0,
        warned_at=None,
        created_at=now,
        updated_at=now,
        secret=found,
    )
    with part.app.transaction() as tx:
        if tx.read("select id from reminders_endpoint where name = :name", name=name):
            raise Conflict(f"there is an endpoint {name!r} already")
        tx.write(
            "insert into reminders_endpoint (id, name, url, state, contact, created_at, updated_at)"
            " values (:id, :name, :url, 'on', :contact, :now, :now)",
            id=made.id,
            name=name,
            url=url,
            contact=contact,
            now=now,
        )
        tx.seal(_secret(made.id), found)
        tx.touch("reminders")
    return made


def find(endpoint: str) -> Endpoint:
    """One of them; `NotFound` if there is none."""
    rows = part.app.read("select * from reminders_endpoint where id = :id", id=endpoint)
    return _one(endpoint, rows)


def every() -> list[Endpoint]:
    """All of them by name, the first thousand."""
    rows = part.app.read("select * from reminders_endpoint order by name limit 1000")
    return [_endpoint(row) for row in rows]


def secrets_of(endpoint: Endpoint, now: int, opened: Callable[[str], str]) -> list[str]:
    """The secrets that sign now, the newest first."""
    names = [_secret(endpoint.id)]
    if endpoint.old_until is not None and now < endpoint.old_until:
        names.append(_old(endpoint.id))
    return [opened(name) for name in names]


def rotate(endpoint: str) -> MadeEndpoint:
    """A new secret; the present one signs beside it for a day."""
    before, now = part.app.secrets.open(_secret(find(endpoint).id)), part.app.now()
    made = webhooks.new_secret()
    with part.app.transaction() as tx:
        tx.seal(_old(endpoint), before)
        tx.seal(_secret(endpoint), made)
        tx.write(
            "update reminders_endpoint set old_until = :until, updated_at = :now where id = :id",
            until=now + OVERLAP_MS,
            now=now,
            id=endpoint,
        )
    return MadeEndpoint(**msgspec.structs.asdict(find(endpoint)), secret=made)


def change(endpoint: str, *, url: str | None = None, on: bool = True) -> Endpoint:
    """Give it another address, switch it on again, or off."""
    found = find(endpoint)
    _check(found.name, url or found.url)
    with part.app.transaction() as tx:
        tx.write(
            "update reminders_endpoint set url = :url, state = :state, reason = :reason,"
            " failures = 0, warned_at = null, updated_at = :now where id = :id",
            url=url or found.url,
            state="on" if on else "off",
            reason=None if on else "switched off by hand",
            now=part.app.now(),
            id=endpoint,
        )
        tx.touch("reminders")
    return find(endpoint)


def delete(endpoint: str) -> None:
    """Forget it and its secrets; not while a reminder goes there."""
    with part.app.transaction() as tx:
        _one(endpoint, tx.read("select * from reminders_endpoint where id = :id", id=endpoint))
        if tx.read("select id from reminders_reminder where endpoint = :id limit 1", id=endpoint):
            raise Conflict("reminders go to this endpoint: change or delete them first")
        tx.write("delete from reminders_endpoint where id = :id", id=endpoint)
        tx.forget(_secret(endpoint))
        tx.forget(_old(endpoint))


def require(tx: Transaction, endpoint: str) -> None:
    """An error unless a reminder may go there."""
    found = tx.read("select * from reminders_endpoint where id = :id", id=endpoint)
    if not found:
        raise UsageError(f"there is no endpoint {endpoint!r:.80}: create it first")


def _one(endpoint: str, rows: list[object]) -> Endpoint:
    if not rows:
        raise NotFound(f"there is no endpoint {endpoint!r:.80}")
    return _endpoint(rows[0])


def _endpoint(row: object) -> Endpoint:
    return Endpoint(**{name: getattr(row, name) for name in Endpoint.__struct_fields__})


def _check(name: str, url: str) -> None:
    if not 0 < len(name) <= NAME_LIMIT or not name.isprintable() or not name.strip():
        raise UsageError(f"the name of an endpoint is a line of 1 to {NAME_LIMIT} characters")
    if len(url) > URL_LIMIT:
        raise UsageError(f"the URL of an endpoint has at most {URL_LIMIT} characters")
    try:
        http.Guard(settings().allowed).check(url)
    except http.Refused as refused:
        raise UsageError(f"this URL is not let through: {refused}") from refused


def _secret(endpoint: str) -> str:
    return f"reminders:endpoint:{endpoint}"


def _old(endpoint: str) -> str:
    return f"reminders:endpoint:{endpoint}:old"


SWITCH_OFF = """
update reminders_endpoint set state = 'off', reason = :reason, updated_at = :now where id = :id
"""
