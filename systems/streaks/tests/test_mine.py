"""People come in with GitHub and see, change and delete what is theirs, and nothing else."""

from __future__ import annotations

import re
from typing import Any

import httpx2
import pytest

from duework import Conflict, Secret
from systems.streaks.accounts import welcome
from systems.streaks.channels import secret_of
from systems.streaks.github import Viewer
from systems.streaks.part import part
from systems.streaks.tests.conftest import Place, settings_for
from systems.streaks.tests.test_pages import words
from tests.web.conftest import HERE, OURS, Browser, Site, check_page

VERBS = ("settings", "test", "pause", "resume", "delete")


def sign_in(place: Place, login: str, browser: Browser | None = None) -> Browser:
    """Through GitHub and back."""
    found = browser or Site(place.app).browser()
    answer = arrive(place, login, found)
    assert answer.status_code == 303, answer.text
    assert answer.headers["location"] == "/streaks/mine"
    return found


def arrive(place: Place, login: str, browser: Browser) -> Any:
    out = browser.get("/streaks/oauth?back=/streaks/mine").headers["location"]
    reply = httpx2.get(f"{out}&as={login}", headers={"user-agent": "tests"}, trust_env=False)
    return browser.get(reply.headers["location"].removeprefix(HERE))


def form_key(browser: Browser) -> str:
    found = re.search(r'name="form" value="(\w+)"', browser.get("/streaks/mine").text)
    assert found
    return found[1]


def submit(browser: Browser, verb: str, **data: Any) -> Any:
    """What a button on the person's own page sends."""
    sent = {"form": form_key(browser), "back": "/streaks/mine", **data}
    return browser.post(f"/streaks/mine/{verb}", data=sent, headers=OURS)


@pytest.mark.rows("000-X4")
def test_somebody_new_signs_in_with_github_and_is_told_the_same_evening(place: Place) -> None:
    browser = Site(place.app).browser()
    asked = browser.get("/streaks/mine")
    assert (asked.status_code, "/streaks/sign-in" in asked.headers["location"]) == (303, True)
    check_page(browser.get(asked.headers["location"]))

    sign_in(place, "user-007", browser)
    page = browser.get("/streaks/mine")
    check_page(page)
    assert "Not checked yet" in words(page.text)
    given = {"hour": "20", "zone": "UTC", "telegram_chat": "555007"}
    assert submit(browser, "settings", **given, telegram_token=BOT).status_code == 303
    place.h.advance("15m")

    assert place.received() == {("telegram", "555007"): 1}
    stored = place.app.read("select * from streaks_day")[0]
    text = browser.get("/streaks/mine").text
    assert stored.message in words(text)
    assert 'href="/jobs/' not in text, "jobs are for operators"
    assert text.count('rx="2" class="q') == 365 + 5


BOT = "900001:AAdemo-streak-bot-token-0123456789ab"


@pytest.mark.rows("000-X5")
def test_a_person_sends_a_test_pauses_goes_on_and_deletes_the_account(place: Place) -> None:
    person = place.person()
    browser = sign_in(place, "user-001")

    submit(browser, "test")
    place.h.drain()
    assert set(place.received().values()) == {1}
    submit(browser, "pause")
    assert place.row("user-001").active == 0
    assert "Paused." in browser.get("/streaks/mine").text
    submit(browser, "resume")
    assert place.row("user-001").active == 1

    asked = submit(browser, "delete")
    assert (asked.status_code, "Delete your account" in asked.text) == (200, True)
    assert len(place.app.read("select id from streaks_person")) == 1
    submit(browser, "delete", sure="yes")
    for table in ("person", "day", "calendar", "message"):
        assert place.app.read(f"select * from streaks_{table}") == []  # noqa: S608 - constants
    assert place.app.secrets.names(f"streaks:github:{person.id}") == []
    assert browser.get("/streaks/mine").status_code == 303, "the session has ended"


def test_nobody_sees_or_changes_what_is_another_ones(place: Place) -> None:
    place.person()
    place.person(hour=9)
    before = tuple(place.row("user-002"))
    stranger, browser = Site(place.app).browser(), sign_in(place, "user-001")

    assert "user-002" not in browser.get("/streaks/mine").text
    assert browser.get("/streaks/people/user-002").status_code in {303, 403}
    for verb in VERBS:
        submit(browser, verb, login="user-002", person="user-002", hour="7")
        sent = {"form": form_key(browser), "sure": "yes"}
        refused = browser.post(f"/streaks/people/user-002/{verb}", data=sent, headers=OURS)
        assert refused.status_code in {303, 401, 403}
        assert stranger.post(f"/streaks/mine/{verb}", headers=OURS).status_code in {303, 401, 403}
    place.h.drain()

    after = place.row("user-002")
    assert tuple(after)[: len(before)] == before
    assert place.received()["discord", after.discord_hook] == 0


def test_bad_settings_are_refused_on_the_persons_own_page(place: Place) -> None:
    place.person()
    browser = sign_in(place, "user-001")
    before = tuple(place.row("user-001"))

    for field, value in (("zone", "Mars/Olympus"), ("hour", "24"), ("token", "password")):
        assert submit(browser, "settings", **{field: value}).status_code == 303
        assert f"{field.capitalize()}:" in browser.get("/streaks/mine").text
        assert tuple(place.row("user-001")) == before


@pytest.mark.rows("000-X4")
def test_a_revoked_token_is_told_to_the_person_and_signing_in_again_mends_it(place: Place) -> None:
    person = place.person()
    browser = sign_in(place, "user-001")
    assert place.app.secrets.open(secret_of("github", person.id)) == "ghp_user001"
    place.t.github.revoke("ghp_user001")
    place.h.advance("15m")
    asked = place.t.github.log.calls
    place.jump(24)

    page = browser.get("/streaks/mine")
    check_page(page)
    assert "GitHub refused the token" in words(page.text)
    assert place.t.github.log.calls == asked, "nobody asks again"

    sign_in(place, "user-001", browser)
    assert place.app.secrets.open(secret_of("github", person.id)).startswith("gho_")
    place.jump(24)
    assert place.row("user-001").problem is None
    assert set(place.received().values()) == {1}


def test_a_login_that_changed_hands_does_not_open_the_old_owners_row(place: Place) -> None:
    place.person()
    with place.app.transaction() as tx:
        first = welcome(tx, Viewer(7, "user-001"), "gho_a", now=place.h.now)
        again = welcome(tx, Viewer(7, "user-001"), "gho_a", now=place.h.now)
        stranger = welcome(tx, Viewer(8, "User-001"), "gho_b", now=place.h.now)
        renamed = welcome(tx, Viewer(7, "ada"), "gho_a", now=place.h.now)
        newcomer = welcome(tx, Viewer(8, "user-001"), "gho_b", now=place.h.now)
        taken = welcome(tx, Viewer(8, "ada"), "gho_b", now=place.h.now)

    assert first == again == "7+user-001@users.noreply.github.com"
    assert (stranger, taken) == (None, None)
    assert renamed == "7+ada@users.noreply.github.com"
    assert newcomer == "8+user-001@users.noreply.github.com"
    rows = place.app.read("select login, github_id from streaks_person order by github_id")
    assert [tuple(row) for row in rows] == [("ada", 7), ("user-001", 8)]


def test_whoever_github_does_not_vouch_for_is_not_let_in(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.t.github.logins.decide("user-001", allows=False)
    browser = Site(place.app).browser()
    assert arrive(place, "user-001", browser).status_code == 401

    place.t.github.faults.set([{"route": "graphql", "calls": "1", "do": "status", "status": 500}])
    assert arrive(place, "user-002", browser).status_code == 403

    def taken(*_: Any, **__: Any) -> None:
        raise Conflict("at the same moment")

    monkeypatch.setattr("systems.streaks.people.add", taken)
    assert arrive(place, "user-003", browser).status_code == 403
    assert place.app.read("select * from streaks_person") == []
    assert place.app.secrets.names("streaks:") == []


@pytest.mark.rows("000-X4")
def test_too_many_requests_and_too_large_bodies_are_refused_and_answers_have_their_headers(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part, "_settings", settings_for(place.t, server_secret=Secret("s")))
    monkeypatch.setenv("DUEWORK_WEB_REQUESTS", "60")
    monkeypatch.setenv("DUEWORK_WEB_ACTIONS", "10")
    place.person()
    browser = sign_in(place, "user-001")
    large = browser.post(
        "/api/cron/process-user", content=b" " * 1_048_577, headers={"x-cron-secret": "s"}
    )
    assert large.status_code == 413
    assert "default-src 'none'" in large.headers["content-security-policy"]
    key = form_key(browser)
    sent = {"form": key, "back": "/streaks/mine"}

    pressed = [browser.post("/streaks/mine/test", data=sent, headers=OURS) for _ in range(11)]
    assert [answer.status_code for answer in pressed] == [303] * 10 + [429]
    stranger = Site(place.app).browser()
    seen = [stranger.get("/api/streaks/user-001").status_code for _ in range(61)]
    assert (set(seen[:60]), seen[60]) == ({404}, 429)
    place.h.drain()
    assert set(place.received().values()) == {1}, "ten times the button is one message"
