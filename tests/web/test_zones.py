"""Times on pages: in the zone of whoever reads them."""

from __future__ import annotations

import re

from duework import Rate
from tests.web.conftest import Site, work


def test_a_reason_ends_in_the_zone_of_the_reader(site: Site) -> None:
    @site.app.task(pace=Rate("1/1h", name="strava"))
    async def slow() -> None: ...

    jobs = [slow.enqueue().id for _ in range(2)]
    work(site.app)
    browser = site.browser("read")
    browser.cookies.set("tz", "Asia/Kolkata")

    found = re.search(r'<div id="why">.*?</form>', browser.get(f"/jobs/{jobs[1]}").text, re.DOTALL)

    assert found is not None
    assert re.search(r"pace strava until <time [^>]*IST[^>]*>", found[0])
    assert "UTC</span>" not in found[0]


def test_a_list_of_jobs_says_in_the_readers_zone_until_when_a_pace_holds_them(site: Site) -> None:
    @site.app.task(pace=Rate("1/1h", name="strava"))
    async def slow() -> None: ...

    for _ in range(2):
        slow.enqueue()
    work(site.app)
    browser = site.browser("read")
    browser.cookies.set("tz", "Asia/Kolkata")

    text = browser.get("/jobs").text

    assert re.search(r"pace strava until <time [^>]*IST[^>]*>", text)
    assert not re.search(r"\d\d:\d\d UTC<", text)
