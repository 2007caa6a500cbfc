"""Every reason of `why()` in a browser: on the page of a job, and in few words in the list."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import get_args

import pytest
from playwright.sync_api import Browser, Page, expect

from duework import App
from duework.health.why import Kind
from tests.browser.sites import Site, served, visiting

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]
PROGRAM = "tests.browser.reasons"

# What stands in the note of a page, or, of what has ended, in its head; and the word in a list.
SAYS = {
    "no worker": "No worker that has left a row is alive",
    "paused": "Queue mail is paused",
    "serial": "Serial athlete:18, behind job",
    "after": "After job",
    "pace blocked": "Pace discord is blocked until",
    "pace": "Waiting for pace calls until",
    "full": "Full: 1 of 1 of task single run",
    "suspect": "It crashed twice in a row",
    "retry": "Retry 1 of 3 in",
    "snoozed": "Snoozed by its handler until",
    "later": "Due in",
    "in turn": "ahead in its lane",
    "running": "Running on",
    "lease over": "Its lease ended",
    "parked": "It is parked",
    "done": "done",
    "failed": "failed",
    "cancelled": "cancelled",
    "expired": "cancelled",
}
SHORT = {
    "no worker": "no worker is alive",
    "paused": "queue mail is paused",
    "serial": "behind others of serial athlete:18",
    "after": "after job",
    "pace": "pace calls until",
    "suspect": "a suspect",
    "retry": "retry 1: TimeoutError: no answer",
    "later": "due later, as asked for",
    "in turn": "ready, in turn",
    "parked": "until something wakes it",
    "expired": "expired",
    "lease over": "its lease has ended",
    "failed": "order 7 is broken",
    "cancelled": "ordered twice",
}
ENDED = {"done", "failed", "cancelled", "expired"}
# States of the whole database: one has a moment of its own below, the other in `tests/web/test_pages.py`.
WHOLE = {"no worker", "not writable"}


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with served(f"{PROGRAM}:app", tmp_path_factory.mktemp("reasons")) as made:
        yield made


@pytest.fixture(scope="module")
def made(own: Site) -> dict[str, int]:
    found: dict[str, int] = own.elsewhere(PROGRAM, "seed")
    own.elsewhere(PROGRAM, "worker", str(os.getpid()))
    return found


@pytest.fixture
def page(browser: Browser, own: Site) -> Iterator[Page]:
    session = own.session(f"ada-{os.urandom(4).hex()}")
    with visiting(browser, own, session) as visitor:
        yield visitor.page


def test_every_reason_has_a_case(made: dict[str, int]) -> None:
    kinds = set(get_args(Kind))

    assert set(SAYS) == kinds - {"not writable"}
    assert set(made) == kinds - WHOLE


def test_every_reason_stands_on_the_page_of_its_job_and_in_the_list(
    page: Page, own: Site, made: dict[str, int]
) -> None:
    app = App(own.database)
    for kind, job in made.items():
        page.goto(f"/jobs/{job}")
        place = page.locator("#head .pill" if kind in ENDED else "#why")
        expect(place).to_contain_text(SAYS[kind])
        if kind in ENDED:
            assert app.job(job).why().kind == kind
    app.close()
    page.goto("/jobs")
    for kind, words in SHORT.items():
        if kind not in WHOLE:
            expect(page.locator(f"#job-{made[kind]}")).to_contain_text(words)


def test_without_a_worker_every_job_that_is_ready_says_so(
    page: Page, own: Site, made: dict[str, int]
) -> None:
    own.elsewhere(PROGRAM, "worker", "0")
    try:
        page.goto(f"/jobs/{made['in turn']}")
        expect(page.locator("#why")).to_contain_text(SAYS["no worker"])
        page.goto("/jobs")
        expect(page.locator(f"#job-{made['in turn']}")).to_contain_text(SHORT["no worker"])
    finally:
        own.elsewhere(PROGRAM, "worker", str(os.getpid()))
