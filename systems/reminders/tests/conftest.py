"""What these tests share: both databases, virtual time, and the receivers of mail and webhooks."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
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
from tests.support.postgres import Emptied, Server

# A Monday.
NOW = "2026-03-02T08:00:00+00:00"
START = 1_772_438_400_000


@pytest.fixture(scope="session")
def postgres_emptied(postgres: Server) -> Iterator[Emptied]:
    """One database with this system's tables, emptied for each test."""
    migrated(postgres.create_database("reminders"))
    with closing(Emptied(postgres, "reminders")) as made:
        yield made


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("template") / "migrated.db"
    migrated(f"sqlite:///{file}")
    return file


def migrated(url: str) -> None:
    made = App(url)
    made.include(part)
    made.admin.migrate(create=True)
    made.close()


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of each kind."""
    if request.param == "sqlite":
        made = shutil.copy(request.getfixturevalue("sqlite_template"), tmp_path / "work.db")
        return f"sqlite:///{made}"
    shared: Emptied = request.getfixturevalue("postgres_emptied")
    return shared.address()


class HarnessOn(Harness):
    """A harness on a database that is there already."""

    def __init__(self, app: App, address: str, **options: Any) -> None:
        super().__init__(app, **options)
        self._address = address

    def _temporary_url(self) -> str:
        return self._address


@pytest.fixture
def app(address: str) -> App:
    made = App()
    made.include(part)
    return made


@pytest.fixture
def h(app: App, address: str) -> Iterator[Harness]:
    with HarnessOn(app, address, now=NOW) as harness:
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
