"""Every action by form and reload: JavaScript is off."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from duework import App
from tests.browser.sites import Site, visiting

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]


@pytest.fixture
def page(browser: Browser, site: Site, session: str) -> Iterator[Page]:
    with visiting(browser, site, session, java_script_enabled=False) as plain:
        yield plain.page
        assert plain.complaints == []


@pytest.fixture
def app(site: Site) -> Iterator[App]:
    made = App(site.database)
    yield made
    made.close()


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).first.click()


def enqueued(site: Site, key: str) -> int:
    return int(site.elsewhere("tests.browser.program", "enqueue", key)["id"])


def test_a_page_says_how_it_changes(page: Page, jobs: dict[str, int]) -> None:
    page.goto("/")

    banner = page.locator("noscript .banner")
    expect(banner).to_be_visible()
    assert "This page changes by reload only" in banner.inner_text()


def test_a_failed_job_is_retried(page: Page, app: App, jobs: dict[str, int]) -> None:
    page.goto(f"/jobs/{jobs['failed']}")
    press(page, "Retry")

    expect(page.locator("#toasts")).to_contain_text("1 opened again")
    assert page.url.endswith(f"/jobs/{jobs['failed']}"), "back where it was"
    assert app.job(jobs["failed"]).state == "open"


def test_those_that_are_ticked_are_retried_and_the_filter_stays(
    page: Page, app: App, jobs: dict[str, int]
) -> None:
    where = "/jobs?phase=failed&key=user%3A2"
    page.goto(where)
    page.locator("input[name=id]").check()
    press(page, "Retry")

    expect(page.locator("#toasts")).to_contain_text("1 opened again")
    assert page.url.endswith(where)


def test_a_job_is_cancelled_after_a_question(page: Page, app: App, site: Site) -> None:
    id_ = enqueued(site, "cancelled by form")
    page.goto(f"/jobs/{id_}")
    press(page, "Cancel…")
    expect(page.locator("h1")).to_contain_text(f"Cancel job {id_}?")
    assert app.job(id_).state == "open"

    page.get_by_label("Why").fill("ordered twice")
    page.locator("button.danger").click()

    expect(page.locator(".pill")).to_contain_text("cancelled")
    assert app.job(id_).error == "ordered twice"


def test_a_question_that_is_left_changes_nothing(page: Page, app: App, site: Site) -> None:
    id_ = enqueued(site, "left as it is")
    page.goto(f"/jobs/{id_}")
    press(page, "Cancel…")
    page.locator("form .acts a.btn").click()

    assert page.url.endswith(f"/jobs/{id_}")
    assert app.job(id_).state == "open"


def test_a_queue_is_paused_and_resumed(page: Page, app: App, site: Site) -> None:
    enqueued(site, "of the queue")
    page.goto("/")
    page.get_by_role("button", name="Pause queue default").first.click()
    row = page.locator("#queues tbody tr", has_text="greet").first
    expect(row).to_contain_text("paused")
    assert "default" in app.paused()

    page.get_by_role("button", name="Resume queue default").first.click()
    # Another test may have paused another one.
    lines = page.locator("#queues tbody tr", has_text="default")
    expect(lines.filter(has_text="paused")).to_have_count(0)
    assert "default" not in app.paused()


def test_everything_is_paused_after_a_question_and_resumed(page: Page, app: App) -> None:
    page.goto("/")
    page.get_by_role("link", name="Pause everything").click()
    page.get_by_label("Why").fill("deploy")
    page.locator("button.danger").click()
    expect(page.locator("#verdict")).to_contain_text("Everything is paused")
    assert "*" in app.paused()

    press(page, "Resume everything")
    expect(page.locator("#verdict")).not_to_contain_text("Everything is paused")
    assert "*" not in app.paused()


def test_an_action_of_a_part_works(page: Page, site: Site) -> None:
    page.goto("/club/users/7")
    press(page, "Pause")

    expect(page.locator("#toasts")).to_contain_text("User 7 is paused")
    expect(page.locator("#history")).to_contain_text("by the page")


def test_a_schedule_is_edited_after_a_preview(page: Page, app: App, jobs: dict[str, int]) -> None:
    page.goto("/schedules/edit?key=london")
    page.get_by_label("Rule").fill("45 1 * * *")
    press(page, "Preview")
    expect(page.locator("#verdict")).to_contain_text("Not saved yet")
    expect(page.locator("main")).to_contain_text("the clocks went")
    assert app.get_schedule("london").rule == "30 1 * * *"

    press(page, "Save")

    expect(page.locator("#toasts")).to_contain_text("It is changed")
    assert app.get_schedule("london").rule == "45 1 * * *"


def test_what_deletes_wants_to_be_typed(browser: Browser, site: Site, jobs: dict[str, int]) -> None:
    with visiting(browser, site, site.session("root", "admin"), java_script_enabled=False) as root:
        page = root.page
        page.goto("/objects/one?kind=Basket&key=globex")
        press(page, "Delete…")
        page.locator("button.danger").click()
        expect(page.locator("#typed-e")).to_contain_text("That is not")
        page.get_by_label("Type delete globex to go on").fill("delete globex")
        page.locator("button.danger").click()

        expect(page.locator("#toasts")).to_contain_text("is deleted")
        expect(page.locator("h1")).to_have_text("Objects")


def test_the_theme_is_chosen_in_the_menu(page: Page) -> None:
    page.goto("/menu")
    press(page, "Dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")

    press(page, "As the system")
    expect(page.locator("html[data-theme]")).to_have_count(0)


def test_somebody_signs_in_with_a_token_and_out_again(browser: Browser, site: Site) -> None:
    secret = site.token("bob", "read")
    with visiting(browser, site, java_script_enabled=False) as bob:
        page = bob.page
        page.goto("/jobs?phase=failed")
        page.get_by_label("Token").fill(secret)
        press(page, "Sign in")
        expect(page.locator("h1")).to_have_text("Jobs")
        assert page.url.endswith("/jobs?phase=failed"), "where they wanted to go"

        page.goto("/menu")
        press(page, "Sign out")
        page.goto("/")
        expect(page.locator("h1")).to_have_text("Sign in")
