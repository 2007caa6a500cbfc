"""What an open page does by itself: it follows other processes, survives a restart, leaves readers alone."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.browser.sites import SECONDS, Site, Visitor, served, visiting

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]
PROGRAM = "tests.browser.program"
_keys = (f"pushed:{number}" for number in itertools.count(1))

expect.set_options(timeout=SECONDS * 1000)


def enqueue(site: Site) -> tuple[str, int]:
    """By another process; its key and its id."""
    key = next(_keys)
    return key, site.elsewhere(PROGRAM, "enqueue", key)["id"]


def opened(visitor: Visitor, path: str) -> Page:
    """A page that is connected, and that would forget its mark if it were loaded again."""
    visitor.page.goto(path)
    visitor.page.wait_for_function("() => window.heard")
    visitor.page.evaluate("() => { window.mark = 'not loaded again' }")
    return visitor.page


def is_the_same(page: Page) -> bool:
    return bool(page.evaluate("() => window.mark === 'not loaded again'"))


def waiting_of(page: Page) -> int:
    """How many wait, as the overview says."""
    return int(page.locator("#tiles div", has_text="Waiting").locator("dd a").inner_text())


@pytest.fixture
def overview(visitor: Visitor, jobs: dict[str, int]) -> Iterator[Page]:
    yield opened(visitor, "/")
    assert visitor.complaints == []


def test_a_job_of_another_process_changes_the_open_page(site: Site, overview: Page) -> None:
    before = waiting_of(overview)

    enqueue(site)

    tile = overview.locator("#tiles div", has_text="Waiting").locator("dd a")
    # Not by how much: jobs of workflows and sweeps come and go in the same database.
    expect(tile).not_to_have_text(str(before))
    assert is_the_same(overview)


def test_a_list_stands_still_and_says_that_there_is_something_newer(
    site: Site, visitor: Visitor, jobs: dict[str, int]
) -> None:
    page = opened(visitor, "/jobs")
    rows = page.locator("#rows tr").count()

    enqueue(site)

    expect(page.locator("#newer")).to_contain_text("newer")
    assert page.locator("#rows tr").count() == rows
    assert is_the_same(page)


def test_a_page_comes_back_after_a_restart_and_is_right(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with served(f"{PROGRAM}:app", tmp_path_factory.mktemp("restarted")) as own:
        enqueue(own)
        with visiting(browser, own, own.session("ada")) as visitor:
            page = opened(visitor, "/")
            own.stop()
            expect(page.locator("#live")).to_have_text("Not live")
            expect(page.locator("#notlive")).to_contain_text("the server does not answer")
            enqueue(own)
            assert waiting_of(page) == 1

            own.start()

            tile = page.locator("#tiles div", has_text="Waiting").locator("dd a")
            expect(tile).to_have_text("2")
            expect(page.locator("#live")).to_have_text("Live")
            expect(page.locator("#notlive")).to_be_empty()
            assert is_the_same(page)


def test_typed_text_focus_ticks_and_folds_survive_pushes(
    site: Site, visitor: Visitor, jobs: dict[str, int]
) -> None:
    _, id_ = enqueue(site)
    page = opened(visitor, "/jobs")
    page.locator(f"#job-{id_} input").check()
    page.locator("#q").click()
    page.keyboard.type("half a w")
    for _ in range(3):
        enqueue(site)
    expect(page.locator("#newer")).to_contain_text("3 newer")
    page.keyboard.type("ord")

    assert page.locator("#q").input_value() == "half a word"
    assert page.locator(f"#job-{id_} input").is_checked()
    assert page.locator("#bulk").is_visible()


def test_a_fold_stays_open_while_its_job_changes(site: Site, visitor: Visitor) -> None:
    key, id_ = enqueue(site)
    page = opened(visitor, f"/jobs/{id_}")
    page.get_by_text("Raw row").click()
    expect(page.locator("details[open]")).to_have_count(1)

    with visiting(page.context.browser, site, site.session(key)) as other:  # type: ignore[arg-type]
        other.page.goto(f"/jobs/{id_}")
        other.page.get_by_role("button", name="Cancel…").click()
        other.page.get_by_label("Why").fill("no longer needed")
        other.page.get_by_role("button", name="Cancel").last.click()

    expect(page.locator("#head .pill")).to_contain_text("cancelled")
    expect(page.locator("details[open]")).to_have_count(1)
    assert is_the_same(page)


def test_a_picture_that_is_held_stands_still_and_catches_up(site: Site, overview: Page) -> None:
    before = waiting_of(overview)
    overview.keyboard.press(".")
    expect(overview.locator("#live")).to_have_text("Held")
    heard = overview.evaluate("() => window.heard")

    enqueue(site)
    overview.wait_for_function("(before) => window.heard > before", arg=heard)

    assert waiting_of(overview) == before
    overview.keyboard.press(".")
    tile = overview.locator("#tiles div", has_text="Waiting").locator("dd a")
    expect(tile).not_to_have_text(str(before))
    expect(overview.locator("#live")).to_have_text("Live")


def test_a_page_connects_although_its_second_script_is_late(
    visitor: Visitor, jobs: dict[str, int]
) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    visitor.page.route("**/hx-ws.min.*.js", hold)
    visitor.page.goto("/", wait_until="commit")
    # By a timer: nothing is painted while a script of the head is held, so frames would not come.
    visitor.page.wait_for_function("() => window.htmx", polling=50)
    # Long enough for the timer in which htmx starts; the delay is what is tested.
    visitor.page.evaluate("() => new Promise((done) => setTimeout(done, 300))")
    [late] = held

    late.continue_()

    visitor.page.wait_for_function("() => window.heard")


def test_a_reader_who_is_signed_out_is_told_on_the_open_page(
    browser: Browser, site: Site, jobs: dict[str, int]
) -> None:
    with visiting(browser, site, site.session("eve")) as eve:
        page = opened(eve, "/")
        away = eve.context.new_page()
        away.goto("/menu")
        away.get_by_role("button", name="Sign out").click()
        page.bring_to_front()
        enqueue(site)

        expect(page.locator("#notlive")).to_contain_text("you are signed out")
