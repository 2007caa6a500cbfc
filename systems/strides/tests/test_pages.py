"""Pages and actions: the athletes, one athlete, its sync, a race to correct, and coming from Strava."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest

from systems.strides import sync
from systems.strides.pages import clock, pace
from systems.strides.reading import Quotas, Window, quota_time
from systems.strides.tests.conftest import NOON, World
from tests.web.conftest import Browser, Site, check_page

MINUTE = 60_000


@pytest.fixture
def browser(world: World) -> Browser:
    return Site(world.app).browser("operate")


def test_the_first_page_asks_for_an_athlete_when_there_is_none(browser: Browser) -> None:
    answer = browser.get("/strides/")

    check_page(answer)
    assert "No athletes yet" in answer.text


def test_the_first_page_lists_athletes_with_their_syncs_and_the_quota(
    world: World, browser: Browser
) -> None:
    world.connect(5001, 5004)
    world.strava.set_limits(read=(6, 1000))
    world.h.drain()

    answer = browser.get("/strides/")

    check_page(answer)
    assert "Waiting for the shared Strava quota until" in answer.text
    assert "/strides/athletes/5001" in answer.text
    assert "of 10" in answer.text


@pytest.mark.rows("004-35")
def test_an_athlete_s_page_shows_progress_races_bests_and_the_year(
    world: World, browser: Browser
) -> None:
    world.strava.set_limits(read=(6, 1000))
    world.connect(5001)
    world.h.drain()

    answer = browser.get("/strides/athletes/5001")
    pages = browser.get("/strides/athletes/5001/sync")

    check_page(answer)
    check_page(pages)
    assert "Syncing: <b>598 of about 9,9" in answer.text
    assert "ends at about" in answer.text
    assert "page 2 of 11" in answer.text
    assert "Stop after this page" in answer.text
    assert "Days on the move" in answer.text
    assert "Riverside parkrun" in answer.text
    assert "parkrun score 0.8" in answer.text
    assert "Batch 2 of 11" in pages.text
    assert "completed" in pages.text
    assert "pending" in pages.text
    assert "Batch 1 complete. Enqueued batch 2" in pages.text


def test_races_are_filtered_on_the_page(world: World, browser: Browser) -> None:
    world.connect(5004)
    world.finish()

    tens = browser.get("/strides/athletes/5004?distance=10+km&event=city")
    none = browser.get("/strides/athletes/5004?event=%3Cscript%3E")

    check_page(none)
    assert "City 10K" in tens.text
    assert "Riverside parkrun</a>" not in tens.text
    assert "No races match" in none.text
    assert "<script>" not in none.text.partition("<main")[2].partition("</main>")[0]


def test_every_state_of_a_sync_has_words(world: World, browser: Browser) -> None:
    [session] = world.connect(5004)
    said = [browser.get("/strides/athletes/5004").text]
    sync.cancel(session)
    said.append(browser.get("/strides/athletes/5004").text)
    sync.resume(session)
    world.finish()
    said.append(browser.get("/strides/athletes/5004").text)
    world.strava.tokens.grants.pop(5004)
    sync.start(5004)
    world.finish()
    said.append(browser.get("/strides/athletes/5004").text)
    said.append(browser.get("/strides/").text)

    assert "Syncing:" in said[0]
    assert "Stopped after 0 pages: Cancelled by user" in said[1]
    assert "Go on" in said[1]
    assert "<b>400 activities</b> on 2 pages" in said[2]
    assert "Not connected: the athlete has revoked the access" in said[3]
    assert "not connected" in said[4]


def test_a_sync_is_stopped_and_goes_on_by_a_button(world: World, browser: Browser) -> None:
    world.connect(5004)

    stopped = browser.submit("/strides/athletes/5004/cancel")
    assert (stopped.status_code, world.chain(5004).state) == (303, "cancelled")
    browser.submit("/strides/athletes/5004/resume")
    assert world.chain(5004).state == "active"
    world.finish()
    browser.submit("/strides/athletes/5004/sync", full="true")

    assert world.chain(5004).arguments["kind"] == "full"


@pytest.mark.rows("004-X3")
def test_a_correction_by_hand_survives_the_next_sync(world: World, browser: Browser) -> None:
    world.connect(5004)
    world.finish()
    race = max(world.races(5004))
    path = f"/strides/athletes/5004/races/{race}"
    check_page(browser.get(path))

    browser.submit(
        f"{path}/correct", event="Club race", minutes=41, seconds=8, kilometres=10, hidden="true"
    )
    sync.start(5004, full=True)
    world.finish()

    row = world.races(5004)[race]
    assert (row.event_name, row.elapsed_time, row.distance) == ("Club race", 2468, 10_000)
    assert (row.distance_class, row.is_hidden, row.known_by) == ("10 km", 1, "corrected by hand")
    assert "Club race" in browser.get(path).text
    assert "Club race</a>" not in browser.get("/strides/athletes/5004").text


GOOD = {"event": "Race", "minutes": "41", "seconds": "8", "kilometres": "10"}


WRONG = [
    {"event": " "},
    {"event": "x" * 201},
    {"event": "a\0b"},
    {"minutes": "-1"},
    {"minutes": "many"},
    {"minutes": "99999"},
    {"minutes": "9" * 30},
    {"seconds": "60"},
    {"minutes": "0", "seconds": "0"},
    {"kilometres": "0"},
    {"kilometres": "nan"},
    {"kilometres": "1e9"},
]


def test_a_correction_that_makes_no_sense_changes_nothing(world: World, browser: Browser) -> None:
    world.connect(5004)
    world.finish()
    race = max(world.races(5004))
    path = f"/strides/athletes/5004/races/{race}/correct"

    for wrong in WRONG:
        answer = browser.submit(path, **GOOD | wrong)
        assert answer.status_code in {303, 422}, (wrong, answer.text)
        assert world.races(5004)[race].edited == 0, wrong

    browser.submit(path, **GOOD)
    assert world.races(5004)[race].edited == 1


TYPED = [
    ("/strides/athletes/1", 404),
    ("/strides/athletes/ada", 404),
    ("/strides/athletes/1/sync", 404),
    ("/strides/athletes/5004/races/1", 404),
    ("/strides/athletes/5004?offset=-5", 400),
    ("/strides/athletes/5004?since=yesterday", 400),
    ("/strides/athletes/5004?event=a%00b", 400),
    ("/strides/athletes/99999999999999999999", 404),
    ("/strides/callback", 400),
    ("/strides/callback?state=a%00b", 400),
]


def test_addresses_that_are_typed_in_are_answered(world: World, browser: Browser) -> None:
    world.connect(5004)

    for path, status in TYPED:
        answer = browser.get(path)
        assert answer.status_code == status, (path, answer.text)


# --- coming from Strava


def at_strava(location: str, athlete: int) -> str:
    """What a person clicks at Strava; where the browser is sent back to."""
    answer = httpx2.get(f"{location}&as={athlete}", trust_env=False)
    target = urlsplit(answer.headers["location"])
    return f"{target.path}?{target.query}"


@pytest.mark.rows("004-X1")
def test_an_athlete_connects_by_a_browser_and_its_first_sync_begins(
    world: World, browser: Browser
) -> None:
    away = browser.get("/strides/connect").headers["location"]
    stranger = Site(world.app).browser()

    back = stranger.get(at_strava(away, 5004))

    assert (back.status_code, back.headers["location"]) == (303, "/strides/athletes/5004")
    assert dict(parse_qsl(urlsplit(away).query))["scope"] == "read,activity:read_all"
    assert world.row(5004).scopes == "activity:read_all,read"
    world.finish()
    assert world.stored(5004) == world.at_strava(5004)


@pytest.mark.rows("004-X1")
def test_a_state_is_good_once_and_for_ten_minutes(world: World, browser: Browser) -> None:
    first = at_strava(browser.get("/strides/connect").headers["location"], 5004)
    second = at_strava(browser.get("/strides/connect").headers["location"], 5005)
    forged = first.replace("state=", "state=x")

    assert browser.get(forged).status_code == 400
    assert browser.get(first).status_code == 303
    assert browser.get(first).status_code == 400
    world.h.advance("11m")
    assert browser.get(second).status_code == 400
    assert [row.id for row in world.app.read("select id from strides_athlete")] == [5004]


@pytest.mark.parametrize("scope", ["", "read", "read,profile:read_all"])
def test_an_athlete_who_grants_too_little_is_not_connected(
    world: World, browser: Browser, scope: str
) -> None:
    world.strava.choose(5004, scope)

    answer = browser.get(at_strava(browser.get("/strides/connect").headers["location"], 5004))

    assert answer.status_code == 400
    assert "was not connected" in answer.text
    assert world.app.read("select id from strides_athlete") == []


def test_one_athlete_more_than_are_allowed_is_refused_by_name(
    world: World, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    import msgspec

    from systems.strides import part

    fewer = msgspec.structs.replace(part.settings, most_athletes=1)
    monkeypatch.setattr(part, "_settings", fewer)
    world.connect(5004)

    answer = browser.get(at_strava(browser.get("/strides/connect").headers["location"], 5005))

    assert answer.status_code == 409
    person = world.strava.athletes[5005]
    assert f"{person.firstname} {person.lastname} was not connected" in answer.text
    assert world.app.secrets.names("strides.") == ["strides.tokens:5004"]


def test_disconnecting_asks_first(world: World, browser: Browser) -> None:
    world.connect(5004)
    world.finish()

    asked = browser.submit("/strides/athletes/5004/disconnect")

    assert "Disconnect athlete 5004, and delete it?" in asked.text
    assert world.row(5004).connected == 1


# --- numbers


def quota(used: int, day: int = 0, *, waits: int | None = None) -> Quotas:
    return Quotas(
        Window(used, 95, NOON + 15 * MINUTE), Window(day, 950, NOON + 720 * MINUTE), waits
    )


@pytest.mark.parametrize(
    ("calls", "given", "minutes"),
    [
        (50, quota(0), 0),
        (95, quota(0), 0),
        (96, quota(0), 15),
        (50, quota(95, waits=NOON + 15 * MINUTE), 15),
        (96, quota(95, waits=NOON + 15 * MINUTE), 30),
        (500, quota(0, 0), 15 * 5),
        (100, quota(0, 900), 720),
        (50 + 950 + 96, quota(0, 900), 720 + 1440 + 15),
    ],
)
def test_when_a_number_of_calls_will_have_been_made(
    calls: int, given: Quotas, minutes: int
) -> None:
    pages = [5] * (calls // 5) + [calls % 5] * (calls % 5 > 0)

    assert quota_time(pages, given, NOON) == NOON + minutes * MINUTE


def test_the_shown_end_comes_true(world: World, browser: Browser) -> None:
    from systems.strides import reading

    athletes = (6001, 6002, 6003)
    for athlete in athletes:
        world.strava.add_athlete(athlete, 3_000)
    world.connect(*athletes)
    world.strava.set_limits(read=(12, 1000))
    world.h.drain()
    shown = [reading.ends_at(world.chain(athlete), world.h.now) for athlete in athletes]

    world.finish("5h")

    for athlete, end in zip(athletes, shown, strict=True):
        truth = world.chain(athlete).settled
        assert truth is not None
        assert end is not None
        # To a quarter of an hour: which of the three comes first in one is open.
        assert abs(end - truth) <= 15 * MINUTE, (athlete, (end - truth) / MINUTE)
    # It was no matter of one quarter; who is the first to end is open, too.
    assert max(world.chain(athlete).settled or 0 for athlete in athletes) - NOON >= 60 * MINUTE


def test_times_and_paces_read_as_runners_write_them() -> None:
    shown: list[Any] = [clock(1182), clock(5515), clock(59.6), pace(1182, 5000), pace(10, 0)]

    assert shown == ["19:42", "1:31:55", "1:00", "3:56 /km", ""]
