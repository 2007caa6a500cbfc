"""Clocks are turned both ways in ten zones: each reminder fires once, when the preview said, on the wall."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from duework import App
from duework.testing import Harness
from systems.reminders import book, log
from systems.reminders.part import part
from systems.reminders.rules import NewReminder
from systems.reminders.tests.conftest import use
from systems.reminders.words import read_when
from systems.twins import twins

# The night in which the clock is turned forward, and that in which it is turned back, in 2026.
NIGHTS = {
    "Europe/London": ("2026-03-29", "2026-10-25"),
    "Europe/Berlin": ("2026-03-29", "2026-10-25"),
    "America/New_York": ("2026-03-08", "2026-11-01"),
    "America/Havana": ("2026-03-08", "2026-11-01"),
    "America/Santiago": ("2026-09-06", "2026-04-05"),
    "America/St_Johns": ("2026-03-08", "2026-11-01"),
    "Australia/Lord_Howe": ("2026-10-04", "2026-04-05"),
    "Australia/Adelaide": ("2026-10-04", "2026-04-05"),
    "Pacific/Auckland": ("2026-09-27", "2026-04-05"),
    "Asia/Beirut": ("2026-03-29", "2026-10-25"),
}
WORDS = (
    "every day at 0:30",
    "every day at 1:30",
    "every day at 2:15",
    "every day at 3:00",
    "30 2 * * *",
    "every 5h",
)
CASES = [(zone, night) for zone, nights in NIGHTS.items() for night in nights]


@pytest.mark.rows("003-T13")
@pytest.mark.parametrize(("zone", "night"), CASES)
def test_through_a_night_in_which_clocks_are_turned_what_was_foretold_fires_once(
    zone: str, night: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = datetime.fromisoformat(night).replace(tzinfo=ZoneInfo(zone)) - timedelta(hours=20)
    offsets = {(start + timedelta(days=days)).utcoffset() for days in (0, 2)}
    assert len(offsets) == 2, "no clock is turned here"
    app = App()
    app.include(part)
    with Harness(app, now=start.isoformat()) as h, twins(h.clock, "resend") as t:
        use(monkeypatch, resend_url=t.resend.url)
        foretold: dict[str, list[str]] = {}
        for words in WORDS:
            new = NewReminder(
                title=words,
                email="ada@demo.example",
                zone=zone,
                **read_when(words, zone, h.now),
            )
            made = book.create(new)
            foretold[made.id] = book.preview(made.id, 20)
        h.advance("2d 6h")

        fired: dict[str, list[int]] = {}
        for fire in log.recent(limit=1000):
            assert fire.outcome == "success"
            fired.setdefault(fire.reminder, []).append(fire.slot)
        for reminder, times in foretold.items():
            slots = [round(datetime.fromisoformat(each).timestamp() * 1000) for each in times]
            assert sorted(fired[reminder]) == [each for each in slots if each <= h.now]
        # Whoever is reminded daily is reminded on each day once, whatever the clock does.
        for reminder in list(foretold)[:5]:
            days = [
                datetime.fromtimestamp(ms / 1000, ZoneInfo(zone)).date() for ms in fired[reminder]
            ]
            assert len(days) == len(set(days)) >= 2
