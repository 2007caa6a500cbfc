"""What the tests of the mailroom share: an App in virtual time, and the twin on the same clock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from duework import App
from duework.testing import Harness
from systems.mailroom.part import part
from systems.mailroom.settings import Settings
from systems.twins import Twins, twins
from tests.support.harness import HarnessOn


class Room:
    """An App with the mailroom, a worker that waits to be driven, and the provider's twin."""

    def __init__(self, app: App, h: Harness, t: Twins) -> None:
        self.app, self.h, self.t = app, h, t

    @property
    def acs(self) -> Any:
        return self.t.acs

    def delivered(self) -> dict[str, int]:
        """How often the provider has each key."""
        return self.acs.ledger.counts("key")


def settings_for(monkeypatch: pytest.MonkeyPatch, **values: Any) -> Settings:
    made = Settings(**values)
    monkeypatch.setattr(part, "_settings", made)
    return made


@pytest.fixture
def room(emptied: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Room]:
    app = App(emptied)
    app.include(part)
    with HarnessOn(app, emptied) as h, twins(h.clock, "acs") as t:
        t.acs.set_plan("raised")
        settings_for(monkeypatch, endpoint=t.acs.url)
        yield Room(app, h, t)
