"""When a reminder fires, and what may be said of it: pure functions, no database and no clock.

A reminder is due once (`at`), or again and again (`cron`, `rrule`, `every`), in a zone of its own, from
`start` on, until `end`, or `count` times.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from duework import UsageError
from duework.durations import milliseconds

CHANNELS = ("email", "webhook")
# A one-shot that was due longer ago than this is a mistake of whoever asked for it.
LATEST_START_MS = 60_000
SHORTEST_REPEAT_MS, LONGEST_REPEAT_MS = 60_000, 7 * 86_400_000

_ADDRESS = re.compile(r"[^@<>\s,;]{1,64}@[^@<>\s,;]{1,180}\.[^@<>\s,;]{2,60}")

Title = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Body = Annotated[str, msgspec.Meta(max_length=5000)]
Word = Annotated[str, msgspec.Meta(max_length=400)]
Missed = Literal["once", "skip", "all"]


class NewReminder(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """What creates a reminder. `channels` may be left out: those with an address are meant."""

    title: Title
    text: Body = ""
    channels: tuple[Word, ...] | None = None
    email: Word | None = None
    endpoint: Word | None = None
    at: Word | None = None
    cron: Word | None = None
    rrule: Annotated[str, msgspec.Meta(max_length=1000)] | None = None
    every: Word | None = None
    zone: Word = "UTC"
    start: Word | None = None
    end: Word | None = None
    count: Annotated[int, msgspec.Meta(ge=1, le=100_000)] | None = None
    missed: Missed = "once"
    # Hours in which nothing is sent, on the wall of the zone: "22:00-07:00".
    quiet: Word | None = None
    # Again after so long, until somebody says that it is done: "15m".
    repeat: Word | None = None


class Change(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """What edits one: what is left out stays. New times need all that they are made of."""

    title: Title | msgspec.UnsetType = msgspec.UNSET
    text: Body | msgspec.UnsetType = msgspec.UNSET
    channels: tuple[Word, ...] | msgspec.UnsetType = msgspec.UNSET
    email: Word | msgspec.UnsetType | None = msgspec.UNSET
    endpoint: Word | msgspec.UnsetType | None = msgspec.UNSET
    at: Word | None = None
    cron: Word | None = None
    rrule: Annotated[str, msgspec.Meta(max_length=1000)] | None = None
    every: Word | None = None
    zone: Word | None = None
    start: Word | None = None
    end: Word | None = None
    count: Annotated[int, msgspec.Meta(ge=1, le=100_000)] | None = None
    missed: Missed = "once"
    quiet: Word | msgspec.UnsetType | None = msgspec.UNSET
    repeat: Word | msgspec.UnsetType | None = msgspec.UNSET


def key_of(reminder: str) -> str:
    """The key of its schedule."""
    return f"reminders:{reminder}"


def webhook_id(key: str) -> str:
    """The id that a receiver knows a webhook by, which has no dots; no id of a reminder has a tilde."""
    return key.replace(".", "~")


def sent_id(key: str, body: str | None) -> str:
    """The id of a webhook as its stored body says it: what was begun stays the same over all versions."""
    return webhook_id(key) if body is None else str(msgspec.json.decode(body)["id"])


def timing(asked: NewReminder | Change, zone: str, now: int) -> dict[str, Any] | None:
    """What a schedule takes, or None if nothing is said of times; the schedule checks the rest."""
    kinds = {name: getattr(asked, name) for name in ("at", "cron", "rrule", "every")}
    given = {name: text for name, text in kinds.items() if text is not None}
    around = {name: getattr(asked, name) for name in ("start", "end", "count")}
    around = {name: value for name, value in around.items() if value is not None}
    if not given and (around or isinstance(asked, NewReminder)):
        raise UsageError("say when: one of at, cron, rrule and every")
    if not given:
        return None
    if len(given) > 1:
        raise UsageError(f"say when in one way, not by {' and '.join(sorted(given))}")
    if "at" in given:
        _refuse_past(given["at"], zone, now)
    more = {} if asked.missed == "once" or "at" in given else {"missed": asked.missed}
    return {**given, **around, **more, "tz": known_zone(zone)}


def rule_of(options: dict[str, Any]) -> str | None:
    """The recurrence in one line, or None for what is due once."""
    for kind in ("cron", "rrule", "every"):
        if kind in options:
            return f"{kind} {options[kind]}"
    return None


def repeat_ms(text: str | None) -> int | None:
    """How long after a fire it is said again, in milliseconds."""
    if text is None or not text.strip():
        return None
    found = milliseconds(text)
    if not SHORTEST_REPEAT_MS <= found <= LONGEST_REPEAT_MS:
        raise UsageError("repeat until it is done after a minute to a week, such as 15m")
    return found


def in_zone(times: list[int], zone: str) -> list[str]:
    """Milliseconds as people there write them."""
    return [datetime.fromtimestamp(each / 1000, ZoneInfo(zone)).isoformat() for each in times]


def known_zone(zone: str) -> str:
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UsageError(f"there is no zone {zone!r:.60}; write one such as Europe/Oslo") from None
    return zone


def _refuse_past(at: str, zone: str, now: int) -> None:
    try:
        found = datetime.fromisoformat(at)
    except ValueError:
        raise UsageError(
            f"at is a time such as 2026-11-18T09:00, with an offset or in the zone; not {at!r:.60}"
        ) from None
    if found.tzinfo is None:
        found = found.replace(tzinfo=ZoneInfo(known_zone(zone)))
    if found.timestamp() * 1000 < now - LATEST_START_MS:
        raise UsageError(f"{at} in {zone} is over")


def chosen_channels(
    channels: tuple[str, ...] | None, email: str | None, endpoint: str | None
) -> list[str]:
    """The channels, each known and with an address; at least one."""
    addresses = {"email": email, "webhook": endpoint}
    if channels is None:
        channels = tuple(name for name in CHANNELS if addresses[name])
    if not channels:
        raise UsageError("a reminder needs a channel: give an email, an endpoint or both")
    for name in channels:
        if name not in addresses:
            raise UsageError(f"there is no channel {name!r:.40}; there are: {', '.join(CHANNELS)}")
        if not addresses[name]:
            needed = "email" if name == "email" else "endpoint"
            raise UsageError(f"the channel {name} needs {needed}")
    if "email" in channels:
        check_address(email or "")
    return [name for name in CHANNELS if name in channels]


def check_address(address: str) -> str:
    if not _ADDRESS.fullmatch(address) or not address.isprintable():
        raise UsageError(f"{address!r:.80} is not an e-mail address")
    return address


def one_line(title: str) -> str:
    """A title is the subject of a mail: one line, with something on it."""
    if not title.strip() or not title.isprintable():
        raise UsageError("a title is one line of text")
    return title


def listed(stored: str) -> list[str]:
    """A stored list of channels; of a row that somebody has broken, none: it must not break a page."""
    try:
        return msgspec.json.decode(stored, type=list[str])
    except msgspec.DecodeError:
        return []
