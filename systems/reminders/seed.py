"""People with reminders, for the demo: some due once, some again and again, by mail, webhook or both."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from duework import App
from systems.reminders import book, endpoints
from systems.reminders.part import settings
from systems.reminders.rules import NewReminder

TITLES = (
    "Stand up and stretch",
    "Call the bank",
    "Water the plants",
    "Medicine",
    "Send the invoice",
    "Stand-up in five minutes",
    "Put the bins out",
    "Look at the backups",
)
ZONES = ("Europe/London", "America/New_York", "Asia/Tokyo", "Europe/Oslo", "UTC")
RULES = ("*/10 * * * *", "*/15 * * * *", "*/20 * * * *", "5,35 * * * *")


class Seeded(msgspec.Struct, frozen=True, kw_only=True):
    """What is there now, and the secrets by which the receivers can check signatures."""

    reminders: int
    # Receiver's name, URL and secret; those that were there before are not told again.
    endpoints: list[tuple[str, str, str]]


def seed(app: App, *, people: int = 12, count: int = 40) -> Seeded:
    """Make that many reminders of that many people; what is there already stays as it is."""
    made = [endpoint for person in range(people) if (endpoint := _endpoint(app, person))]
    known = {each.id for each in book.every(limit=1000)}
    fresh = 0
    for number in range(count):
        id_ = f"seed_{number:04}"
        if id_ not in known and not _has_fired(app, id_):
            book.create(_reminder(app, number, people), id_=id_)
            fresh += 1
    return Seeded(reminders=fresh, endpoints=made)


def _endpoint(app: App, person: int) -> tuple[str, str, str] | None:
    id_, name = f"ep_{person:03}", f"person-{person:03}"
    if app.read("select id from reminders_endpoint where id = :id", id=id_):
        return None
    made = endpoints.create(name, f"{settings().hooks_url}/hook/{name}", id_=id_)
    return name, made.url, made.secret


def _has_fired(app: App, id_: str) -> bool:
    """A one-shot that went out is gone, and does not come back with the next start."""
    return bool(app.read("select job from reminders_history where reminder = :id limit 1", id=id_))


def _reminder(app: App, number: int, people: int) -> NewReminder:
    """Every third is due once, minutes from now; by turns mail, webhook and both."""
    person, way = number % people, number % 3
    facts: dict[str, Any] = {
        "title": TITLES[number % len(TITLES)],
        "email": f"person-{person:03}@demo.example" if way != 1 else None,
        "endpoint": f"ep_{person:03}" if way != 0 else None,
        "zone": ZONES[number % len(ZONES)],
    }
    if number % 4 == 0:
        due = app.now() + 60_000 * (2 + number % 45)
        at = datetime.fromtimestamp(due / 1000, UTC).isoformat(timespec="seconds")
        return NewReminder(**facts, at=at)
    return NewReminder(**facts, cron=RULES[number % len(RULES)])
