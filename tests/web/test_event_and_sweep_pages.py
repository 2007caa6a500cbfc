"""The pages of events and sweeps, on both databases: what they show and do."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from duework import Event, Subscription, Sweep
from tests.web.conftest import Site, check_page
from tests.web.test_pages import text_of

HOSTILE = "<script>alert(1)</script>"


class Seeded:
    """An event that one subscriber has failed at, and a sweep with a bad row."""

    def __init__(self, site: Site) -> None:
        @site.app.on("shipped", name="hear", retries=0)
        async def hear(event: Event) -> None:
            if event.payload == HOSTILE:
                raise ValueError(f"nobody heard {HOSTILE}")

        @site.app.sweep("select 7 as number", name="clean", backoff="1h")
        async def clean(number: int) -> None:
            raise ValueError(f"row {number} is bad: {HOSTILE}")

        self.hear: Subscription = hear
        self.clean: Sweep = clean
        self.event = site.app.publish("shipped", HOSTILE)
        site.app.publish("shipped", "heard")
        asyncio.run(site.app.worker().run_until_idle())


@pytest.fixture
def seeded(site: Site) -> Seeded:
    return Seeded(site)


@pytest.mark.parametrize("scope", ["read", "admin"])
def test_every_page_shows_its_rows_and_opens_with_a_verdict(
    site: Site, seeded: Seeded, scope: str
) -> None:
    browser = site.browser(scope)
    paths = ["/events", "/events?name=shipped", f"/events/{seeded.event}"]
    for path in (*paths, "/sweeps", "/sweeps/one?name=clean"):
        answer: Any = browser.get(path)
        assert answer.status_code == 200, (path, answer.text[-500:])
        tags = check_page(answer)
        assert any(attributes.get("id") == "verdict" for _, attributes in tags.found), path
        assert HOSTILE not in answer.text


def test_failed_events_are_redriven(site: Site, seeded: Seeded) -> None:
    browser = site.browser("operate")
    assert "nobody heard" in text_of(browser.get(f"/events/{seeded.event}").text)
    assert site.browser("read").submit("/events/redrive", subscriber="hear").status_code == 403

    assert browser.submit("/events/redrive", subscriber="hear").status_code == 303

    assert seeded.hear.failed() == []
    assert "failed" in text_of(browser.get("/events").text)


def test_a_sweep_is_stopped_started_and_reset_after_asking(site: Site, seeded: Seeded) -> None:
    browser = site.browser("operate")

    for verb, state in (("stop", "stopped"), ("start", "running")):
        assert browser.submit(f"/sweeps/{verb}", name="clean").status_code == 303
        assert seeded.clean.status().state == state

    assert "row 7 is bad" in text_of(browser.get("/sweeps/one?name=clean").text)
    assert browser.submit("/sweeps/reset", name="clean").status_code == 200
    assert len(seeded.clean.failing()) == 1
    assert browser.submit("/sweeps/reset", name="clean", sure="yes").status_code == 303
    assert seeded.clean.failing() == []
