"""The client against the twin: one call for both questions, and what each answer of GitHub means."""

from __future__ import annotations

import asyncio
from datetime import date, timedelta
from typing import Any

import pytest

from duework import Throttled, http
from systems.streaks import github
from systems.streaks.streak import Standing, standing
from systems.twins import Twins
from systems.twins.github import GitHub

TODAY = date(2026, 3, 4)
# 4 March 2026, 19:50 UTC.
NOW = 1_772_653_800_000


@pytest.fixture
def hub(upstreams: Twins) -> GitHub:
    upstreams.github.reset()
    upstreams.github.add_user("ada")
    return upstreams.github


def ask(hub: GitHub, login: str = "ada", token: str = "ghp_ada", zone: str = "UTC") -> Any:
    asked = github.calendar(hub.url, token, login, today=TODAY, zone=zone, now=NOW)
    return asyncio.run(asked)


def contribute(hub: GitHub, length: int, *, until: date = TODAY) -> None:
    for n in range(length):
        hub.contribute("ada", (until - timedelta(days=n)).isoformat(), 1 + n % 3)


@pytest.mark.rows("000-38", "000-39", "000-T15")
def test_one_call_answers_both_questions(hub: GitHub) -> None:
    contribute(hub, 41)

    assert standing(ask(hub), TODAY) == Standing(1, 41, 41)
    assert hub.log.calls == 1


def test_a_zero_today_leaves_the_streak_of_yesterday(hub: GitHub) -> None:
    contribute(hub, 41, until=TODAY - timedelta(days=1))

    assert standing(ask(hub), TODAY) == Standing(0, 41, 41)


@pytest.mark.parametrize("today", [True, False])
@pytest.mark.parametrize(("length", "calls"), [(363, 1), (370, 2), (1000, 3)])
def test_a_streak_is_followed_beyond_one_year(
    hub: GitHub, length: int, calls: int, today: bool
) -> None:
    contribute(hub, length, until=TODAY if today else TODAY - timedelta(days=1))

    assert standing(ask(hub), TODAY).streak == length
    assert hub.log.calls == calls


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "America/Los_Angeles", "Pacific/Kiritimati"])
def test_the_calendar_has_the_day_of_the_person_whatever_the_zone(hub: GitHub, zone: str) -> None:
    hub.add_token("ghp_there", "ada", zone=zone)
    contribute(hub, 3)

    found = ask(hub, token="ghp_there", zone=zone)

    assert found[TODAY] == 1
    assert max(found) == TODAY


def test_a_day_that_has_begun_elsewhere_is_none_of_the_person(hub: GitHub) -> None:
    hub.add_token("ghp_far", "ada", zone="Pacific/Kiritimati")
    hub.contribute("ada", (TODAY + timedelta(days=1)).isoformat(), 9)

    assert max(ask(hub, token="ghp_far")) == TODAY


def test_private_contributions_count_for_their_owner(hub: GitHub) -> None:
    hub.contribute("ada", TODAY.isoformat(), 7, private=True)

    assert ask(hub)[TODAY] == 7


@pytest.mark.parametrize(
    ("login", "token", "words"),
    [
        ("ada", "ghp_nobody", "refused the token"),
        ("nobody-at-all", "ghp_ada", "knows no user nobody-at-all"),
    ],
)
def test_what_only_the_person_can_mend_is_a_refusal(
    hub: GitHub, login: str, token: str, words: str
) -> None:
    with pytest.raises(github.Refusal, match=words):
        ask(hub, login, token)


def test_a_token_that_was_revoked_is_a_refusal(hub: GitHub) -> None:
    hub.revoke("ghp_ada")

    with pytest.raises(github.Refusal, match="revoked"):
        ask(hub)


@pytest.mark.parametrize("wording", ["old", "new"])
def test_the_hourly_limit_is_waited_for_until_it_ends(hub: GitHub, wording: str) -> None:
    hub.set_answers(wording)
    hub.spend("ada", 5000)

    with pytest.raises(Throttled) as caught:
        ask(hub)

    assert 1_000 <= caught.value.after_ms <= 3_600_000


@pytest.mark.parametrize("status", [200, 403, 429])
def test_the_secondary_limit_is_waited_for_as_long_as_it_says(hub: GitHub, status: int) -> None:
    hub.set_answers(secondary=status)
    hub.set_limits(minute=0)

    with pytest.raises(Throttled) as caught:
        ask(hub)

    assert caught.value.after_ms == 60_000


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ({"do": "status", "status": 502}, http.BadStatus),
        ({"do": "drop_before"}, http.LostReply),
        ({"do": "malformed"}, http.HttpError),
        ({"do": "status", "status": 200, "body": {"data": {}}}, github.Strange),
        ({"do": "status", "status": 200, "body": {"data": {"user": {}}}}, github.Strange),
        ({"do": "status", "status": 200, "body": {"errors": [{"message": "no"}]}}, github.Strange),
    ],
)
def test_anything_else_is_worth_another_try(
    hub: GitHub, fault: dict[str, Any], error: type[Exception]
) -> None:
    hub.faults.set([{"route": "graphql", "calls": "1", **fault}])

    with pytest.raises(error):
        ask(hub)


def test_what_was_too_costly_is_no_calendar(hub: GitHub) -> None:
    hub.set_answers(costly=True)

    with pytest.raises(github.Strange):
        ask(hub)
