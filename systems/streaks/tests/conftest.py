"""What the tests of streaks share: an App in virtual time, and the three upstreams on the same clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from duework import App
from duework.testing import Harness
from systems.streaks import promises
from systems.streaks.part import part
from systems.streaks.people import Wishes, add, change, find, set_active
from systems.streaks.seed import BOT
from systems.streaks.settings import Settings
from systems.twins import Twins, twins
from tests.support.harness import HarnessOn

# Wednesday, 4 March 2026; the first reminder in these tests is at 20:00.
EVENING = "2026-03-04T19:50:00+00:00"
SECRET = "let-me-in"


class Following:
    """The clock of whichever harness runs: the twins stay up, the tests change."""

    def __init__(self) -> None:
        self.clock: Any = None

    def now(self) -> int:
        return 1_772_653_800_000 if self.clock is None else int(self.clock.now())


@pytest.fixture(scope="session")
def following() -> Following:
    return Following()


@pytest.fixture(scope="session")
def upstreams(following: Following) -> Iterator[Twins]:
    with twins(following, "github", "discord", "telegram") as found:
        yield found


class Place:
    """An App with streaks, a worker that waits to be driven, and what the receivers really got."""

    def __init__(self, app: App, h: Harness, t: Twins) -> None:
        self.app, self.h, self.t = app, h, t
        self.people = 0

    def person(self, *, drill: str | None = None, **wishes: Any) -> Any:
        """Somebody whom the twins know, who is reminded at 20:00 UTC by both channels."""
        self.people += 1
        n = self.people
        given: dict[str, Any] = {
            "zone": "UTC",
            "hour": 20,
            "token": f"ghp_user{n:03}",
            "discord": f"{1_100_000_000_000_000_000 + n}/token-{n:03}",
            "telegram_token": BOT,
            "telegram_chat": str(555_000 + n),
        }
        login = f"user-{n:03}"
        wished = {name: value for name, value in {**given, **wishes}.items() if value is not None}
        with self.app.transaction() as tx:
            add(tx, login, Wishes(**wished), now=self.app.now(), drill=drill)
        return self.row(login)

    def jump(self, hours: int) -> None:
        """So many hours later at once, as after a night without workers."""
        self.h.clock.move_to(self.h.now + hours * 3_600_000)
        self.h.advance("15m")

    def change(self, person: Any, **wishes: Any) -> None:
        with self.app.transaction() as tx:
            change(tx, person.id, Wishes(**wishes), now=self.app.now())

    def pause(self, person: Any) -> None:
        with self.app.transaction() as tx:
            set_active(tx, person.id, active=False, now=self.app.now())

    def row(self, login: str) -> Any:
        return find(self.app, login)

    def received(self) -> Counter[tuple[str, str]]:
        """How many messages each address really got."""
        found = Counter(("discord", str(e["hook"])) for e in self.t.discord.ledger.of("message"))
        found.update(("telegram", str(e["chat"])) for e in self.t.telegram.ledger.of("message"))
        return found

    def states(self) -> dict[tuple[str, str], str]:
        return {(each.login, each.channel): each.state for each in promises(self.app)}

    def checks(self, **filters: Any) -> list[Any]:
        return self.app.jobs(task="streaks.check", limit=1000, **filters)


@pytest.fixture
def place(
    emptied: str,
    upstreams: Twins,
    following: Following,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Place]:
    app = App(emptied, processes=4)
    app.include(part)
    with HarnessOn(app, emptied, now=EVENING) as h:
        monkeypatch.setattr(following, "clock", h.clock)
        for twin in upstreams.all:
            twin.reset()
        monkeypatch.setattr(part, "_settings", settings_for(upstreams))
        yield Place(app, h, upstreams)


def settings_for(t: Twins, **more: Any) -> Settings:
    urls = {"github_url": t.github.url, "login_url": t.github.url, "discord_url": t.discord.url}
    return Settings(**urls, telegram_url=t.telegram.url, **more)
