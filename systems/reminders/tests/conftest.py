"""What these tests share: both databases, virtual time, and the receivers of mail and webhooks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from duework import App
from duework.testing import Harness
from systems.reminders import book, endpoints
from systems.reminders.part import part
from systems.reminders.rules import NewReminder
from systems.reminders.settings import Settings
from systems.twins import Twins, twins
from tests.support.postgres import Server, server

# A Monday.
NOW = "2026-03-02T08:00:00+00:00"
START = 1_772_438_400_000


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    with server(durable=False) as running:
        yield running


@pytest.fixture(params=["sqlite", "postgres"])
def server_url(request: pytest.FixtureRequest) -> str | None:
    if request.param == "sqlite":
        return None
    running: Server = request.getfixturevalue("postgres")
    return running.dsn


@pytest.fixture
def app() -> App:
    made = App()
    made.include(part)
    return made


@pytest.fixture
def h(app: App, server_url: str | None) -> Iterator[Harness]:
    with Harness(app, now=NOW, url=server_url) as harness:
        yield harness


@pytest.fixture
def t(h: Harness, monkeypatch: pytest.MonkeyPatch) -> Iterator[Twins]:
    """The twins under the Harness's clock, with this system set to them."""
    with twins(h.clock, "resend", "hooks") as running:
        use(monkeypatch, resend_url=running.resend.url, hooks_url=running.hooks.url)
        yield running


def use(monkeypatch: pytest.MonkeyPatch, **settings: Any) -> None:
    """Other settings from here on."""
    before = msgspec.structs.asdict(part.settings)
    monkeypatch.setattr(part, "_settings", Settings(**{**before, **settings}))


class Hook:
    """An endpoint of ours, whose receiver checks what is signed."""

    def __init__(self, t: Twins, name: str = "ada", scheme: str = "standard") -> None:
        self.name, self._t = name, t
        made = endpoints.create(name, f"{t.hooks.url}/hook/{name}")
        self.id, self.secret = made.id, made.secret
        t.hooks.endpoint(name, scheme, [made.secret])

    def answers(self, *statuses: int) -> None:
        self._t.hooks.answer(self.name, list(statuses))


def remind(**given: Any) -> book.Reminder:
    """A reminder, by mail in an hour unless it says otherwise."""
    if not given.keys() & {"email", "endpoint", "channels"}:
        given["email"] = "ada@demo.example"
    if not given.keys() & {"at", "cron", "rrule", "every"}:
        given["at"] = "2026-03-02T09:00"
    return book.create(NewReminder(**{"title": "Call the bank", **given}))
