"""People: registered, changed, paused and deleted. Bad input is refused by the field's name.

Tokens are sealed in the same commit as the row they belong to, and are never given back.
"""

from __future__ import annotations

import re
import uuid
from typing import Any

import msgspec

from duework import App, Conflict, NotFound, Transaction, UsageError
from systems.streaks.channels import TOPIC, secret_of
from systems.streaks.rest import LEAVE, LONGEST, RETURN, span, weekdays
from systems.streaks.streak import next_time, zones

LOGIN = re.compile(r"[A-Za-z0-9](?:-?[A-Za-z0-9]){0,38}")
TOKEN = re.compile(r"(?:ghp|github_pat)_\w{1,255}", re.ASCII)
HOOK = re.compile(
    r"(?:https?://[^/\s]+/api/(?:v\d+/)?webhooks/)?(\d{1,20})/([\w-]{1,100})", re.ASCII
)
BOT = re.compile(r"\d{1,20}:[A-Za-z0-9_-]{1,100}")
CHAT = re.compile(r"-?\d{1,18}|@[A-Za-z]\w{3,31}", re.ASCII)
INSERT = """
insert into streaks_person
(id, login, login_key, zone, hour, second_hour, weekly, has_token, discord_hook, telegram_chat,
only_at_risk, shown, days_off, drill, next_at, created)
values (:id, :login, :login_key, :zone, :hour, :second_hour, :weekly, :has_token, :hook, :chat,
:only_at_risk, :shown, :days_off, :drill, :next_at, :now)
on conflict (login_key) do nothing
"""
SECRETS = ("github", "discord", "telegram")


class Refused(UsageError):
    """A field that cannot be taken as it is."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field}: {why}")
        self.field = field
        self.why = why


class Wishes(msgspec.Struct, kw_only=True):
    """What a person may say; what is left out stays as it is."""

    zone: str | None = None
    hour: int | None = None
    # A later hour of the day, for a louder call; an empty text is none.
    second_hour: str | None = None
    # Weeks in a row, told on the last day of each, instead of days.
    weekly: bool | None = None
    token: str | None = None
    discord: str | None = None
    telegram_token: str | None = None
    telegram_chat: str | None = None
    only_at_risk: bool | None = None
    shown: bool | None = None
    # Weekdays, as "sat,sun"; an empty text is none.
    days_off: str | None = None
    # Holidays, as dates; without a last day it is one.
    away_from: str | None = None
    away_until: str | None = None


def add(tx: Transaction, login: str, wishes: Wishes, *, now: int, drill: str | None = None) -> str:
    """A new person; its id. `Conflict` if the login is there already."""
    if not LOGIN.fullmatch(login):
        raise Refused("login", "a GitHub login has up to 39 letters, digits and single dashes")
    _check(wishes)
    zone = "UTC" if wishes.zone is None else wishes.zone
    hour = 12 if wishes.hour is None else wishes.hour
    person = uuid.uuid4().hex
    written = tx.write(
        INSERT,
        id=person,
        login=login,
        login_key=login.lower(),
        zone=zone,
        hour=hour,
        second_hour=_second(wishes.second_hour, hour),
        weekly=int(bool(wishes.weekly)),
        has_token=int(wishes.token is not None),
        hook=_hook(wishes.discord)[0],
        chat=wishes.telegram_chat,
        only_at_risk=int(bool(wishes.only_at_risk)),
        shown=int(bool(wishes.shown)),
        days_off=weekdays(wishes.days_off or ""),
        drill=drill,
        next_at=next_time(now, zone, hour),
        now=now,
    )
    if not written.inserted:
        raise Conflict(f"{login} is registered already")
    _leave(tx, person, wishes)
    _seal(tx, person, wishes)
    tx.touch(TOPIC)
    return person


def change(tx: Transaction, person: str, wishes: Wishes, *, now: int) -> None:
    """Change what is given and nothing else; a new token or address ends its old problem."""
    _check(wishes)
    row = _row(tx, person)
    fields = _fields(wishes)
    if wishes.second_hour is not None or wishes.hour is not None:
        said = wishes.second_hour
        given = str("" if row.second_hour is None else row.second_hour) if said is None else said
        hour = row.hour if wishes.hour is None else wishes.hour
        fields["second_hour"] = _second(given, hour)
    if wishes.zone is not None or wishes.hour is not None:
        zone = wishes.zone or row.zone
        hour = row.hour if wishes.hour is None else wishes.hour
        if (zone, hour) != (row.zone, row.hour):
            fields |= {"zone": zone, "hour": hour, "next_at": next_time(now, zone, hour)}
    if wishes.weekly is not None and wishes.weekly != bool(row.weekly):
        # The longest of days is none of weeks.
        fields["weekly"] = int(wishes.weekly)
        tx.write("update streaks_calendar set longest = 0 where person = :id", id=person)
    for name, value in fields.items():
        tx.write(_CHANGES[name], id=person, value=value)
    _leave(tx, person, wishes)
    _seal(tx, person, wishes)
    tx.touch(TOPIC)


def _row(tx: Transaction, person: str) -> Any:
    rows = tx.read("select * from streaks_person where id = :id", id=person)
    if not rows:
        raise NotFound(f"there is no person {person!r:.60}")
    return rows[0]


# Names of columns are never made from input.
_CHANGES = {
    name: f"update streaks_person set {name} = :value where id = :id"  # noqa: S608 - constants
    for name in (
        *(
            "zone",
            "hour",
            "second_hour",
            "weekly",
            "next_at",
            "has_token",
            "problem",
            "only_at_risk",
            "shown",
            "active",
            "days_off",
        ),
        *("discord_hook", "discord_problem", "telegram_chat", "telegram_problem"),
    )
}


def _fields(wishes: Wishes) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if wishes.only_at_risk is not None:
        fields["only_at_risk"] = int(wishes.only_at_risk)
    if wishes.shown is not None:
        fields["shown"] = int(wishes.shown)
    if wishes.days_off is not None:
        fields["days_off"] = weekdays(wishes.days_off)
    if wishes.token is not None:
        fields |= {"has_token": 1, "problem": None}
    if wishes.discord is not None:
        fields |= {"discord_hook": _hook(wishes.discord)[0], "discord_problem": None}
    if wishes.telegram_chat is not None:
        fields["telegram_chat"] = wishes.telegram_chat
    if wishes.telegram_chat is not None or wishes.telegram_token is not None:
        fields["telegram_problem"] = None
    return fields


def _leave(tx: Transaction, person: str, wishes: Wishes) -> None:
    if wishes.away_from is not None and (days := span(wishes.away_from, wishes.away_until or "")):
        tx.write(LEAVE, person=person, first=days[0], last=days[1])


def come_back(tx: Transaction, person: str, first: str) -> None:
    """Holidays that were not taken."""
    if not tx.write(RETURN, person=person, first=first).changed:
        raise NotFound(f"there are no holidays that begin on {first!r:.20}")
    tx.touch(TOPIC)


def take_token(tx: Transaction, person: str, token: str) -> None:
    """Keep a token that GitHub itself has given; the problem of an older one is over."""
    tx.seal(secret_of("github", person), token)
    tx.write(_CHANGES["has_token"], id=person, value=1)
    tx.write(_CHANGES["problem"], id=person, value=None)
    tx.touch(TOPIC)


def set_active(tx: Transaction, person: str, *, active: bool, now: int) -> None:
    """Pause or go on; whoever goes on is due at the next time that is planned from now."""
    row = _row(tx, person)
    tx.write(_CHANGES["active"], id=person, value=int(active))
    tx.write(_CHANGES["next_at"], id=person, value=next_time(now, row.zone, row.hour))
    tx.touch(TOPIC)


def delete(tx: Transaction, person: str) -> None:
    """Delete a person with everything that is known of it, tokens included."""
    _row(tx, person)
    tx.write("delete from streaks_person where id = :id", id=person)
    tx.write("delete from streaks_day where person = :id", id=person)
    tx.write("delete from streaks_calendar where person = :id", id=person)
    tx.write("delete from streaks_away where person = :id", id=person)
    tx.write("delete from streaks_message where person = :id", id=person)
    for what in SECRETS:
        tx.forget(secret_of(what, person))
    tx.touch(TOPIC)


def find(reader: App | Transaction, login: str) -> Any:
    """A person's row by login; `NotFound` without one."""
    rows = reader.read("select * from streaks_person where login_key = :key", key=login.lower())
    if not rows:
        raise NotFound(f"there is no person {login!r:.60}")
    return rows[0]


def _seal(tx: Transaction, person: str, wishes: Wishes) -> None:
    if wishes.token is not None:
        tx.seal(secret_of("github", person), wishes.token)
    if wishes.discord is not None:
        tx.seal(secret_of("discord", person), "/".join(str(part) for part in _hook(wishes.discord)))
    if wishes.telegram_token is not None:
        tx.seal(secret_of("telegram", person), wishes.telegram_token)


def _second(text: str | None, hour: int) -> int | None:
    """The hour of the louder call, which is later than the first on the same day."""
    if not text:
        return None
    whole = text.isascii() and text.isdigit() and len(text) <= 2  # noqa: PLR2004
    if not whole or not hour < int(text) <= 23:  # noqa: PLR2004
        raise Refused("second_hour", f"a whole hour after {hour}, up to 23; empty for none")
    return int(text)


def _hook(text: str | None) -> tuple[str | None, str | None]:
    """The id and the token of a webhook, from its URL or from `id/token`."""
    found = HOOK.fullmatch(text or "")
    return (found[1], found[2]) if found else (None, None)


def _check(wishes: Wishes) -> None:
    if wishes.zone is not None and wishes.zone not in zones():
        raise Refused("zone", "a name such as Europe/London")
    if wishes.hour is not None and not 0 <= wishes.hour <= 23:  # noqa: PLR2004 - a clock
        raise Refused("hour", "a whole hour, 0 to 23")
    if wishes.days_off is not None and weekdays(wishes.days_off) is None:
        raise Refused("days_off", "up to six of mon, tue, wed, thu, fri, sat, sun")
    if wishes.away_from is None and wishes.away_until is not None:
        raise Refused("away_from", "the first day is missing")
    if wishes.away_from is not None and not span(wishes.away_from, wishes.away_until or ""):
        raise Refused("away_from", f"two dates in order, at most {LONGEST} days")
    _fits("token", wishes.token, TOKEN, "a GitHub token begins with ghp_ or github_pat_")
    _fits("discord", wishes.discord, HOOK, "https://discord.com/api/webhooks/ID/TOKEN")
    _fits("telegram_token", wishes.telegram_token, BOT, "a bot's token: digits, a colon, letters")
    _fits("telegram_chat", wishes.telegram_chat, CHAT, "a chat's number, or @ and a channel's name")


def _fits(field: str, value: str | None, pattern: re.Pattern[str], why: str) -> None:
    if value is not None and not pattern.fullmatch(value):
        raise Refused(field, why)
