"""Every action of the engine's pages is pressed once: a route that acts and has no case here fails the test.

JavaScript is off, so each is a form and a reload.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from duework.web.asgi import table
from tests.browser.sites import SECONDS, Site, visiting

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]

expect.set_options(timeout=SECONDS * 1000)

# What is pressed on which page (by its words, or by its address), what it says, and whether it asks first.
ACTIONS = [
    ("/schedules/one?key=hourly", "Pause", "It is paused", False),
    ("/schedules/one?key=hourly", "Resume", "It goes on with its next time", False),
    ("/schedules/one?key=hourly", "Fire now", "Fired: job", False),
    ("/schedules/one?key=often", "Put off", "The next fire is put off by 10m", False),
    ("/batches/{batch}", "Retry 13 failed", "13 opened again", False),
    ("/batches/{open_batch}", "Cancel the rest…", "40 cancelled", True),
    ("/chains/{chain}", "Cancel after this page…", "It is cancelled", True),
    ("/chains/{chain}", "Resume", "It goes on after its last completed page", False),
    ("/deliveries/{delivery}", "It arrived", "It is written down as sent", False),
    ("/outboxes/messages/{message}", "Give up…", "It is given up", True),
    ("/outboxes/messages/{message}", "Retry", "It is queued again", False),
    ("/paces/one?name=strava", "Block…", "It is blocked for 15m", True),
    ("/paces/one?name=strava", "Unblock", "It admits jobs again", False),
    ("/paces/one?name=strava", "Forget…", "It has forgotten everything", True),
    ("/paces/one?name=enrich:adaptive", "Stop…", "It is stopped", True),
    ("/paces/one?name=enrich:adaptive", "Start", "It goes on", False),
    ("/objects/one?kind=Basket&key=acme", "Ring alarm now", "Its alarm rings", False),
    ("/queues/one?queue=crawl", "Pause", "Queue crawl is paused", False),
    ("/queues/one?queue=crawl", "Resume", "Queue crawl is resumed", False),
    ("/events", "Redrive failed events of hear", "1 run again", False),
    ("/sweeps/one?name=clean", "Stop", "It is stopped", False),
    ("/sweeps/one?name=clean", "Start", "It is running", False),
    ("/sweeps/one?name=clean", "Reset…", "It counts anew", True),
    ("/steps/{flow}", "Fork from step charge", "begins with step charge", False),
    ("/steps/{flow}", "Cancel…", "It is cancelled", True),
    ("/steps/{flow}", "Resume", "It goes on from its records", False),
    ("/budgets/one?name=llm", "Raise", "The limit is changed", False),
    ("/deliveries/{resent}", "Send again…", "It is sent once more, with the same key", True),
    ("/deliveries/{given_up}", "Give up…", "It is given up", True),
    ("/outboxes/messages/{arrived}", "It arrived", "It is written down as sent", False),
    ("/outboxes/messages/{queued}", "Cancel…", "It is cancelled", True),
    ("/chains/{bad_chain}", "/chains/retry", "It goes on", False),
    ("/jobs/{failed}", "Retry", "1 opened again", False),
    ("/jobs/{waiting}", "Cancel…", "1 cancelled", True),
    ("/failed", "/failed/purge", "purged", True),
    ("/failed", "/failed/redrive", "opened again", False),
    ("/queues/one?queue=mail", "/queues/purge", "cancelled in queue mail", True),
    ("/schedules/one?key=weekly", "/schedules/delete", "deleted", True),
    ("/objects/one?kind=Basket&key=globex", "/objects/delete", "is deleted", True),
    ("/blobs?prefix=xx", "/blobs/delete", "deleted", True),
]
# Those that have forms of their own, in `test_without_javascript.py`.
ELSEWHERE = {"/login", "/logout", "/theme", "/schedules/edit"}


def press(page: Page, button: str) -> None:
    if button.startswith("/"):
        page.locator(f'button[formaction$="{button}"]').first.click()
    else:
        page.get_by_role("button", name=button, exact=True).first.click()


def say_yes(page: Page) -> None:
    """To the question, with a reason, and with what has to be typed."""
    page.get_by_label("Why").fill("a test")
    typed = page.locator("label[for=typed] b")
    if typed.count():
        page.locator("#typed").fill(typed.inner_text())
    page.locator("button.danger").click()


def test_every_action_works_by_form_and_comes_back(
    browser: Browser, site: Site, jobs: dict[str, int]
) -> None:
    session, sent = site.session("root", "admin"), set[str]()
    with visiting(browser, site, session, java_script_enabled=False) as root:
        page = root.page
        page.on("request", lambda each: each.method == "POST" and sent.add(urlsplit(each.url).path))
        for path, button, words, asks in ACTIONS:
            where = path.format(**jobs)
            page.goto(where)
            press(page, button)
            if asks:
                say_yes(page)
            expect(page.locator("#toasts"), f"{button} on {where}").to_contain_text(words)
            gone = re.search("one.*delete$", f"{path} {button}")
            assert gone or page.url.endswith(where), (path, page.url)
        assert root.complaints == []

    assert {each.path for each in table() if each.method == "POST"} - ELSEWHERE == sent
