"""People to begin with: those whom the twins know, spread over zones, all due at about the same time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from zoneinfo import ZoneInfo

from duework import App, Conflict
from systems.streaks.people import Wishes, add

ZONES = (
    "Europe/Lisbon",
    "Europe/Berlin",
    "America/New_York",
    "America/Los_Angeles",
    "Asia/Kolkata",
    "Asia/Tokyo",
    "Australia/Adelaide",
    "UTC",
)
# The bot of the Telegram twin.
BOT = "900001:AAdemo-streak-bot-token-0123456789ab"
HOUR_MS = 3_600_000


def seed(
    app: App,
    people: int = 60,
    *,
    when: int | None = None,
    drills: Mapping[int, str] | None = None,
) -> int:
    """Register `user-001` and so on, due in the hour that begins at `when` or next; how many are new.

    `drills` lets some of them hang or die when they are checked: `{17: "hang", 23: "die"}`.
    """
    now = app.now()
    start = now if when is None else when
    count = 0
    for number in range(1, people + 1):
        zone = ZONES[number % len(ZONES)]
        wishes = Wishes(
            zone=zone,
            hour=_hour(start, zone),
            token=f"ghp_user{number:03}",
            discord=f"{1_100_000_000_000_000_000 + number}/token-{number:03}",
            telegram_token=BOT,
            telegram_chat=str(555_000 + number),
        )
        drill = (drills or {}).get(number)
        count += _new(app, f"user-{number:03}", wishes, drill)
    return count


def _hour(start: int, zone: str) -> int:
    """The hour that begins there in the hour after `start`."""
    later = datetime.fromtimestamp((start + HOUR_MS - 1) / 1000, ZoneInfo(zone))
    return later.hour


def _new(app: App, login: str, wishes: Wishes, drill: str | None) -> bool:
    try:
        with app.transaction() as tx:
            add(tx, login, wishes, now=app.now(), drill=drill)
    except Conflict:
        return False
    return True
