"""Every page of the shell in four renderings: two widths, light and dark."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser

from duework.web.table import found_pages
from tests.browser.sites import Site, Visitor, check_renderings, served, sideways, visiting
from tests.web.records import PAGES as RECORD_PAGES
from tests.web.test_shape_pages import PAGES as SHAPE_PAGES

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]

PAGES = [
    "/",
    "/jobs",
    "/jobs?phase=failed&key=user%3A1",
    "/jobs?phase=running",
    "/jobs/{failed}",
    "/jobs/{waiting}",
    "/jobs/{after}",
    "/jobs/{done}",
    "/menu",
    "/queues/pause?queue=*",
    "/club/",
    "/club/users/7",
    *SHAPE_PAGES,
    *RECORD_PAGES,
]


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_right_at_both_widths_in_light_and_dark(
    visitor: Visitor, jobs: dict[str, int], path: str
) -> None:
    check_renderings(visitor, path.format(**jobs))


@pytest.mark.parametrize(
    ("path", "status"),
    [
        *(("/login", 200), ("/login?code=abc", 200), ("/club/rules", 200)),
        *(("/club/sign-in", 200), ("/club/enter?code=abc", 200), ("/crew/sign-in", 200)),
        ("/crew/oauth/back?state=x", 400),
    ],
)
def test_a_page_for_strangers_is_right_too(
    browser: Browser, site: Site, path: str, status: int
) -> None:
    with visiting(browser, site) as stranger:
        check_renderings(stranger, path, status)


def test_pages_for_people_are_right_and_somebody_elses_is_not_there(
    browser: Browser, site: Site
) -> None:
    session = site.person("club", "ada@club.test")
    with visiting(browser, site, session, cookie_name="duework-club") as ada:
        check_renderings(ada, "/club/mine/1")
        ada.page.get_by_role("button", name="Stop").click()
        ada.page.get_by_text("ada@club.test stopped 1").wait_for()
        check_renderings(ada, "/club/mine/2", 404)


def test_a_page_that_is_not_there_says_so_in_the_same_look(visitor: Visitor) -> None:
    check_renderings(visitor, "/jobs/5", 404)


def test_the_question_before_a_cancel_is_right_in_four_renderings(
    visitor: Visitor, jobs: dict[str, int]
) -> None:
    visitor.page.goto(f"/jobs/{jobs['waiting']}")
    visitor.page.get_by_role("button", name="Cancel…").click()
    visitor.page.locator("h1", has_text="Cancel job").wait_for()
    check_renderings(visitor)


def test_a_token_that_is_wrong_is_explained_at_its_field(browser: Browser, site: Site) -> None:
    with visiting(browser, site) as stranger:
        stranger.page.goto("/login")
        stranger.page.get_by_label("Token").fill("dw_wrong")
        stranger.page.get_by_role("button", name="Sign in").click()
        stranger.page.locator("#tok-e").wait_for()
        assert stranger.page.get_by_label("Token").get_attribute("aria-invalid") == "true"


def test_a_first_run_is_right(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> None:
    with (
        served("tests.browser.program:app", tmp_path_factory.mktemp("first")) as empty,
        visiting(browser, empty, empty.session("ada")) as first,
    ):
        check_renderings(first, "/")
        check_renderings(first, "/jobs")
        for page in found_pages():
            if page.nav is not None:
                check_renderings(first, page.path)


WIDE = ["/", "/jobs", "/jobs/{failed}", "/failed", "/queues", "/schedules", "/batches/{batch}"]
WIDE += ["/chains/{chain}", "/deliveries", "/outboxes/one?name=email", "/paces", "/objects"]


@pytest.mark.parametrize("path", WIDE)
def test_no_width_from_a_small_phone_to_a_wide_screen_scrolls_sideways(
    visitor: Visitor, jobs: dict[str, int], path: str
) -> None:
    visitor.page.goto(path.format(**jobs))
    for width in (320, 640, 768, 1024, 1920):
        visitor.page.set_viewport_size({"width": width, "height": 800})
        assert sideways(visitor.page) == [], width


def test_the_tab_that_is_open_is_in_view_on_a_phone(visitor: Visitor) -> None:
    visitor.page.set_viewport_size({"width": 390, "height": 800})
    visitor.page.goto("/jobs?phase=cancelled")

    found = visitor.page.locator(".tabs [aria-current]").bounding_box()

    assert found is not None
    assert found["x"] >= 0
    assert found["x"] + found["width"] <= 390


def test_the_keyboard_reaches_everything_and_says_where_it_is(
    visitor: Visitor, jobs: dict[str, int]
) -> None:
    page = visitor.page
    page.goto("/jobs")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    page.keyboard.press("?")
    page.locator("#keys[open]").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "q"
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("x")
    page.locator("#bulk:visible").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("o")
    page.wait_for_url(f"{visitor.site.url}/")
