"""The pages of events, budgets and metrics while they change: what a reader does on them survives."""

from __future__ import annotations

import itertools

import pytest
from playwright.sync_api import Page, expect

from tests.browser.sites import SECONDS, Site, Visitor
from tests.browser.test_live import is_the_same, opened

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]
PROGRAM = "tests.browser.program"
_numbers = itertools.count(1)

expect.set_options(timeout=SECONDS * 1000)


def shake(site: Site) -> str:
    """Another process changes something of each; returns the word by which it is found."""
    number = str(next(_numbers))
    site.elsewhere(PROGRAM, "shake", number)
    return f"shaken {number}"


def focused(page: Page) -> str:
    return str(page.evaluate("() => document.activeElement.id"))


def test_a_limit_that_is_being_typed_survives_what_others_spend(
    site: Site, visitor: Visitor, jobs: dict[str, int]
) -> None:
    page = opened(visitor, "/budgets/one?name=llm")
    field = page.locator("#limit")
    field.fill("12")

    expect(page.locator("#detail")).to_contain_text(shake(site))
    field.press("End")
    page.keyboard.type("34")

    assert (field.input_value(), focused(page)) == ("1234", "limit")
    assert is_the_same(page)
    assert visitor.complaints == []


def test_a_filter_that_is_being_typed_survives_new_events(
    site: Site, visitor: Visitor, jobs: dict[str, int]
) -> None:
    page = opened(visitor, "/events")
    first = page.locator("#events tbody tr a").first.inner_text()
    page.locator("#q").fill("ship")

    shake(site)
    expect(page.locator("#events tbody tr a").first).not_to_have_text(first)
    page.keyboard.type("ped")

    assert (page.locator("#q").input_value(), focused(page)) == ("shipped", "q")
    assert is_the_same(page)


def test_a_metric_that_is_looked_at_grows_by_itself(
    site: Site, visitor: Visitor, jobs: dict[str, int]
) -> None:
    page = opened(visitor, "/metrics/one?name=sold&span=minute")
    choice = page.get_by_role("link", name="Hour")
    choice.focus()

    number = shake(site).rpartition(" ")[2]

    expect(page.locator("#detail")).to_contain_text(f"shaken={number}")
    assert page.evaluate("() => document.activeElement.textContent") == "Hour"
    assert is_the_same(page)


def test_a_fold_of_a_workflow_job_stays_open_while_it_is_cancelled(
    site: Site, visitor: Visitor, jobs: dict[str, int]
) -> None:
    page = opened(visitor, f"/jobs/{jobs['other_flow']}")
    page.get_by_text("Raw row").click()

    site.elsewhere(PROGRAM, "cancel", str(jobs["other_flow"]))

    expect(page.locator("#head .pill")).to_contain_text("cancelled")
    expect(page.locator("details[open]")).to_have_count(1)
    assert is_the_same(page)
