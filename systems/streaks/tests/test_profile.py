"""What everybody may see: the page, the card and the JSON of those who say so, from any site."""

from __future__ import annotations

from datetime import date
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from systems.streaks.tests.conftest import Place
from systems.streaks.tests.test_pages import words
from tests.web.conftest import Site, check_page

PATHS = ("/streaks/u/user-001", "/api/streaks/user-001", "/api/streaks/user-001/card.svg")


@pytest.fixture
def anybody(place: Place) -> Any:
    return Site(place.app).browser()


def test_nobody_is_shown_who_has_not_said_so(place: Place, anybody: Any) -> None:
    person = place.person()
    for path in PATHS:
        hidden, unknown = anybody.get(path), anybody.get(path.replace("user-001", "nobody"))
        assert hidden.status_code == unknown.status_code == 404

    place.change(person, shown=True)
    assert [anybody.get(path).status_code for path in PATHS] == [200] * 3
    place.change(person, hour=21)
    assert anybody.get(PATHS[0]).status_code == 200
    place.change(person, shown=False)
    assert [anybody.get(path).status_code for path in PATHS] == [404] * 3


@pytest.mark.rows("000-X3")
def test_the_page_the_card_and_the_json_say_what_was_stored(place: Place, anybody: Any) -> None:
    place.person(shown=True)
    before = anybody.get(PATHS[0])
    check_page(before)
    assert "Not checked yet" in before.text
    place.t.github.contribute("user-001", "2026-03-04", 5)
    place.h.advance("15m")

    page, found, card = (anybody.get(path) for path in PATHS)

    stored = place.app.read("select * from streaks_day")[0]
    longest = place.app.read("select longest from streaks_calendar")[0].longest
    check_page(page)
    assert "5 contributions today" in words(page.text)
    assert page.text.count('rx="2" class="q') == 365 + 5
    body = found.json()
    assert (body["day"], body["contributionsToday"]) == ("2026-03-04", 5)
    assert (body["currentStreak"], body["longestStreak"]) == (stored.streak, longest)
    assert body["days"][-1] == {"date": "2026-03-04", "count": 5}
    assert (
        len(body["days"]) == len({date.fromisoformat(day["date"]) for day in body["days"]}) == 371
    )
    drawn = ET.fromstring(card.text)  # noqa: S314 - our own
    assert drawn.attrib["aria-label"].startswith(f"user-001: {stored.streak} day")
    assert sum(1 for each in drawn if each.tag.endswith("rect")) == 1 + 28


def test_other_sites_may_embed_the_card_and_nothing_of_it_is_a_cookie_or_a_script(
    place: Place, anybody: Any
) -> None:
    place.person(shown=True)
    place.h.advance("15m")

    for path in PATHS[1:]:
        answer = anybody.get(path, headers={"origin": "https://elsewhere.example"})
        assert answer.headers["access-control-allow-origin"] == "*"
        assert answer.headers["cross-origin-resource-policy"] == "cross-origin"
        assert "max-age=300" in answer.headers["cache-control"]
        assert "set-cookie" not in answer.headers
        assert answer.headers["x-content-type-options"] == "nosniff"
    card = anybody.get(PATHS[2])
    assert card.headers["content-type"].startswith("image/svg+xml")
    for bad in ("<script", "style=", "onload", "href="):
        assert bad not in card.text


def test_everybody_sees_no_token_no_channel_no_hour_and_no_error(
    place: Place, anybody: Any
) -> None:
    person = place.person(shown=True)
    place.t.github.revoke("ghp_user001")
    place.h.advance("15m")
    assert place.row("user-001").problem

    for path in PATHS:
        text = anybody.get(path).text
        secret = ("refused", "token", person.discord_hook, person.telegram_chat, person.id)
        assert not [each for each in secret if each in text], path
