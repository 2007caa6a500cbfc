"""The pages as a browser gets them: what they say is what the rows and the receivers say."""

from __future__ import annotations

import re
from typing import Any

import pytest

from systems.streaks import views
from systems.streaks.channels import secret_of
from systems.streaks.tests.conftest import Place
from tests.web.conftest import Site, check_page


def words(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


@pytest.fixture
def browser(place: Place) -> Any:
    return Site(place.app).browser("operate")


@pytest.mark.rows("000-X3")
def test_a_person_sees_the_streak_the_calendar_and_what_was_sent(
    place: Place, browser: Any
) -> None:
    person = place.person()
    place.t.github.contribute("user-001", "2026-03-04", 5)
    place.t.discord.faults.set([{"route": "execute", "calls": "1", "do": "drop_after"}])
    place.h.advance("15m")

    answer = browser.get("/streaks/people/user-001")

    check_page(answer)
    text = words(answer.text)
    stored = place.app.read("select * from streaks_day")[0]
    assert f"{stored.streak} day" in text
    assert "and 5 contributions today: the streak is safe" in text
    assert stored.message in text
    assert answer.text.count('rx="2" class="q') == 365 + 5
    assert "discord, unsure" in text
    assert 'st-sent"' in answer.text
    assert place.t.discord.ledger.counts("hook") == {person.discord_hook: 1}


@pytest.mark.rows("000-X3")
def test_the_newest_two_weeks_of_messages_are_shown_and_no_older_one(
    place: Place, browser: Any
) -> None:
    person = place.person()
    told = """insert into streaks_message (person, day, channel, job, address, text, promised, state)
        values (:id, :day, 'discord', 1, 'x', :text, :at, 'sent')"""
    days = [f"2026-02-{number:02}" for number in range(1, 21)]
    with place.app.transaction() as tx:
        for number, day in enumerate(days):
            tx.write(told, id=person.id, day=day, text=f"of {day}", at=number)

    text = words(browser.get("/streaks/people/user-001").text)

    assert [day for day in days if f"of {day}" in text] == days[-views.SHOWN :]
    assert text.index(f"of {days[-1]}") < text.index(f"of {days[-2]}")
    assert views.SHOWN >= 10


def test_a_token_that_was_refused_is_told_on_both_pages(place: Place, browser: Any) -> None:
    place.person()
    place.t.github.revoke("ghp_user001")
    place.h.advance("15m")

    for path in ("/streaks/", "/streaks/people/user-001"):
        answer = browser.get(path)
        check_page(answer)
        assert "GitHub refused the token" in answer.text
    assert "1 token was refused by GitHub" in words(browser.get("/streaks/").text)


def test_the_list_shows_everybody_and_how_far_the_batch_is(place: Place, browser: Any) -> None:
    place.person(drill="die")
    place.person()
    place.person(token=None)
    place.pause(place.person())
    empty = browser.get("/streaks/?after=user-999")
    place.h.advance("15m")

    answer = browser.get("/streaks/")

    check_page(answer)
    check_page(empty)
    text = words(answer.text)
    assert "4 people , 1 paused" in text
    assert "100 %" in text
    assert all(f"user-00{n}" in text for n in range(1, 5))
    assert "no token" in text
    assert "check failed, next in" in text
    assert "The last check failed" in words(browser.get("/streaks/people/user-001").text)


@pytest.mark.rows("000-X5")
def test_a_test_message_is_sent_once_a_minute_and_shown(place: Place, browser: Any) -> None:
    person = place.person()

    for _ in range(2):
        assert browser.submit("/streaks/people/user-001/test").status_code == 303
    place.h.drain()

    assert place.received() == {
        ("discord", person.discord_hook): 1,
        ("telegram", person.telegram_chat): 1,
    }
    assert "test 19:50" in browser.get("/streaks/people/user-001").text


@pytest.mark.rows("000-X1", "000-X5")
def test_settings_change_what_is_given_and_nothing_else(place: Place, browser: Any) -> None:
    person = place.person()
    before = place.app.secrets.open(secret_of("discord", person.id))

    given = {"hour": "7", "zone": "Asia/Tokyo", "token": "ghp_new", "only_at_risk": "true"}
    browser.submit("/streaks/people/user-001/settings", **given)
    browser.submit("/streaks/people/user-001/pause")

    row = place.row("user-001")
    assert (row.hour, row.zone, row.only_at_risk, row.active) == (7, "Asia/Tokyo", 1, 0)
    assert place.app.secrets.open(secret_of("github", person.id)) == "ghp_new"
    assert place.app.secrets.open(secret_of("discord", person.id)) == before
    text = browser.get("/streaks/people/user-001").text
    assert "ghp_new" not in text
    assert "token-001" not in text
    browser.submit("/streaks/people/user-001/resume")
    assert place.row("user-001").active == 1


BAD = [
    ("user-001/settings", {"zone": "Mars/Olympus"}, "zone:"),
    ("user-001/settings", {"hour": "24"}, "hour:"),
    ("user-001/settings", {"hour": "noon"}, "hour"),
    ("user-001/settings", {"token": "password"}, "token:"),
    ("user-001/settings", {"discord": "https://evil.example/x"}, "discord:"),
    ("user-001/settings", {"telegram_token": "no"}, "telegram_token:"),
    ("user-001/settings", {"telegram_chat": "1; drop table"}, "telegram_chat:"),
    ("nobody/settings", {"hour": "1"}, "no person"),
    ("nobody/pause", {}, "no person"),
    ("nobody/resume", {}, "no person"),
    ("nobody/test", {}, "no person"),
]


@pytest.mark.rows("000-X1")
def test_bad_settings_are_refused_by_the_name_of_the_field(place: Place, browser: Any) -> None:
    place.person()
    before = tuple(place.row("user-001"))

    for path, data, said in BAD:
        answer = browser.submit(f"/streaks/people/{path}", **data)

        assert answer.status_code == 303, path
        assert said in browser.get("/streaks/").text.lower(), path
        assert tuple(place.row("user-001")) == before


def test_somebody_is_registered_by_the_form_and_twice_is_refused(
    place: Place, browser: Any
) -> None:
    first = browser.submit("/streaks/people", login="ada", zone="Europe/London", hour="20")
    second = browser.submit("/streaks/people", login="Ada", zone="UTC", hour="20")

    assert first.headers["location"].endswith("/streaks/people/ada")
    assert second.status_code == 303
    assert "registered already" in browser.get("/streaks/").text
    assert len(place.app.read("select id from streaks_person")) == 1
    check_page(browser.get("/streaks/people/ada"))
    assert "No GitHub token" in browser.get("/streaks/people/ada").text


@pytest.mark.rows("000-X5")
def test_a_person_is_deleted_with_everything(place: Place, browser: Any) -> None:
    person = place.person()
    place.h.advance("15m")

    asked = browser.submit("/streaks/people/user-001/delete")
    assert asked.status_code == 200
    assert "Delete user-001" in asked.text
    browser.submit("/streaks/people/user-001/delete", sure="yes")

    for table in ("person", "day", "calendar", "message"):
        assert place.app.read(f"select * from streaks_{table}") == []  # noqa: S608 - constants
    assert place.app.secrets.names(f"streaks:github:{person.id}") == []
    assert browser.get("/streaks/people/user-001").status_code == 404


def test_nobody_sees_or_changes_anything_without_the_right_token(place: Place) -> None:
    place.person()
    site = Site(place.app)

    assert site.browser().get("/streaks/people/user-001").status_code == 303
    assert site.browser("read").get("/streaks/people/user-001").status_code == 200
    assert site.browser("read").submit("/streaks/people/user-001/pause").status_code == 403
    assert place.row("user-001").active == 1
