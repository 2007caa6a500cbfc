"""Every page of scout in a browser: both widths, light and dark, nobody kept out; what its buttons do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.sites import (
    Site,
    Visitor,
    check_renderings,
    served,
    sideways,
    violations,
    visiting,
)

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]
PAGES = [
    "/scout/",
    "/scout/opportunities/m0",
    "/scout/opportunities/m9",
    "/scout/clusters",
    "/scout/clusters/m0",
    "/scout/apps",
    "/scout/apps?q=shift&genre=Finance",
    "/scout/apps/60",
    "/scout/keywords",
    "/scout/keywords?state=tracked",
    "/scout/keywords/one?word=sleep+timer",
    "/scout/complaints",
    "/scout/changes",
    "/scout/costs",
    "/scout/debates/m0",
    "/scout/saved",
    "/scout/crawl",
    "/scout/controller",
    "/scout/failed",
    "/scout/doctor",
]
Scout = tuple[Site, dict[str, str], str]


@pytest.fixture(scope="module")
def scout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scout]:
    with served("systems.scout:app", tmp_path_factory.mktemp("scout")) as site:
        yield site, site.elsewhere("tests.browser.scout_seed"), site.session("ada")


@pytest.mark.rows("001-X1")
@pytest.mark.parametrize("path", PAGES)
def test_a_page_of_scout_is_right_wide_and_light_and_narrow_and_dark(
    browser: Browser, scout: Scout, path: str
) -> None:
    site, _, session = scout
    with visiting(browser, site, session) as ada:
        answer = ada.page.goto(path)
        assert answer is not None
        assert answer.status == 200
        look_twice(ada, path)


def look_twice(visitor: Visitor, path: str) -> None:
    for width, theme in ((1280, "light"), (390, "dark")):
        visitor.page.set_viewport_size({"width": width, "height": 800})
        visitor.page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        wider = sideways(visitor.page)
        assert not wider, "\n".join([path, *wider])
        found = violations(visitor.page)
        assert not found, "\n".join([f"{path} at {width}, {theme}", *found])
    assert visitor.complaints == [], path


def test_the_tabs_of_scout_stay_in_a_line_with_the_largest_counts(
    browser: Browser, scout: Scout
) -> None:
    site, _, session = scout
    with visiting(browser, site, session) as ada:
        ada.page.set_viewport_size({"width": 1280, "height": 800})
        ada.page.goto("/scout/doctor")

        counts = ada.page.locator("nav.tabs .num")
        assert counts.count() == 5
        counts.evaluate_all("them => them.forEach(each => each.textContent = '10k+')")
        tops = ada.page.locator("nav.tabs a").evaluate_all("all => all.map(a => a.offsetTop)")

        assert len(tops) == 12
        assert len(set(tops)) == 1, tops


@pytest.mark.rows("001-X2")
def test_a_report_is_right_for_a_stranger_and_leaves_no_cookie(
    browser: Browser, scout: Scout
) -> None:
    site, known, _ = scout
    with visiting(browser, site) as stranger:
        check_renderings(stranger, f"/scout/r/{known['report']}")
        assert stranger.context.cookies() == []
        assert stranger.page.evaluate("document.scripts.length") == 0


@pytest.mark.rows("001-X2", "001-X3")
def test_somebody_stars_follows_shares_and_pauses_with_a_few_clicks(
    browser: Browser, scout: Scout
) -> None:
    site, _, session = scout
    with visiting(browser, site, session) as ada:
        page = ada.page
        page.goto("/scout/opportunities/m1")
        page.get_by_role("button", name="Star", exact=True).click()
        expect(page.get_by_role("button", name="Starred")).to_be_visible()
        page.get_by_role("button", name="Share for 30 days").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("pill reminder list")
        assert "/scout/r/" in page.url
        page.goto("/scout/keywords")
        page.get_by_label("One a line").fill("ear plugs\nwhite noise")
        page.get_by_label("Follow them").check()
        page.get_by_role("button", name="Search for them").click()
        expect(page.get_by_text("2 keywords are searched for soon")).to_be_visible()
        page.goto("/scout/saved")
        expect(page.get_by_role("link", name="white noise")).to_be_visible()
        page.goto("/scout/controller")
        page.get_by_role("button", name="Pause").click()
        expect(page.locator("#verdict")).to_contain_text("It stands still")
        page.get_by_role("button", name="Go on").click()
        expect(page.locator("#verdict")).to_contain_text("at a time")
        assert ada.complaints == []
