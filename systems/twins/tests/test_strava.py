"""Strava: a person grants, tokens rotate and end, access is revoked."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from systems.twins import Twins
from systems.twins.tests.conftest import NOON, Standing

TWINS = ("strava", "hooks")
CLIENT = {"client_id": "12345", "client_secret": "strava-secret"}
ASKED = {
    "client_id": "12345",
    "redirect_uri": "http://app.test/back",
    "response_type": "code",
    "scope": "read,activity:read_all",
    "state": "s1",
}


def get(
    t: Twins, http: httpx2.Client, token: str, path: str = "/athlete/activities", **query: Any
) -> httpx2.Response:
    url = f"{t.strava.url}/api/v3{path}"
    return http.get(url, params=query, headers={"authorization": f"Bearer {token}"})


def token(t: Twins, athlete: int = 5004, scope: str = "read,activity:read_all") -> str:
    return str(t.strava.connect(athlete, scope)["access_token"])


def exchange(t: Twins, http: httpx2.Client, **sent: str) -> httpx2.Response:
    return http.post(f"{t.strava.url}/oauth/token", data={**CLIENT, **sent})


def error(reply: httpx2.Response) -> tuple[int, str, str]:
    found = reply.json()["errors"][0]
    return reply.status_code, f"{found['resource']}/{found['field']}", found["code"]


def authorize(t: Twins, http: httpx2.Client, athlete: int, **more: str) -> httpx2.Response:
    query = {**ASKED, "as": str(athlete), **more}
    return http.get(f"{t.strava.url}/oauth/authorize", params=query)


def back(reply: httpx2.Response) -> dict[str, str]:
    found = parse_qs(urlsplit(reply.headers["location"]).query)
    return {name: values[0] for name, values in found.items()}


# OAuth.


def test_a_person_grants_and_the_code_is_exchanged_once(t: Twins, http: httpx2.Client) -> None:
    redirect = authorize(t, http, 5001)
    found = back(redirect)
    tokens = exchange(t, http, grant_type="authorization_code", code=found["code"])
    again = exchange(t, http, grant_type="authorization_code", code=found["code"])

    assert redirect.status_code == 302
    assert (found["scope"], found["state"]) == ("activity:read_all,read", "s1")
    body = tokens.json()
    assert (body["token_type"], body["expires_in"]) == ("Bearer", 21_600)
    assert body["expires_at"] == NOON // 1000 + 21_600
    assert body["athlete"]["id"] == 5001
    assert error(again) == (400, "AuthorizationCode/code", "invalid")
    assert get(t, http, body["access_token"], "/athlete").json()["id"] == 5001


def test_what_is_granted_may_be_less_than_what_was_asked_or_nothing(
    t: Twins, http: httpx2.Client
) -> None:
    t.strava.choose(5001, "read")
    t.strava.choose(5002, "")

    less, denied = back(authorize(t, http, 5001)), back(authorize(t, http, 5002))
    body = exchange(t, http, grant_type="authorization_code", code=less["code"]).json()
    refused = get(t, http, body["access_token"])

    assert less["scope"] == "read"
    assert denied == {"state": "s1", "error": "access_denied"}
    assert error(refused) == (401, "AccessToken/activity:read_permission", "missing")


def test_a_browser_gets_a_page_to_choose_from(t: Twins, http: httpx2.Client) -> None:
    page = http.get(f"{t.strava.url}/oauth/authorize", params=ASKED)

    assert page.status_code == 200
    assert "as=5012" in page.text


@pytest.mark.parametrize(
    ("more", "where"),
    [
        ({"client_id": "9"}, "Application/client_id"),
        ({"redirect_uri": ""}, "Application/redirect_uri"),
        ({"scope": "everything"}, "Authorize/scope"),
        ({"response_type": "token"}, "Authorize/scope"),
    ],
)
def test_a_wrong_question_is_not_put_to_a_person(
    t: Twins, http: httpx2.Client, more: dict[str, str], where: str
) -> None:
    assert error(authorize(t, http, 5001, **more)) == (400, where, "invalid")


def test_the_refresh_token_rotates_and_the_old_one_is_dead_at_once(
    t: Twins, http: httpx2.Client, clock: Standing
) -> None:
    first = t.strava.connect(5001)
    refresh = {"grant_type": "refresh_token", "refresh_token": first["refresh_token"]}
    early = exchange(t, http, **refresh).json()
    clock.forward(5 * 3600)
    late = exchange(t, http, **refresh).json()
    dead = exchange(t, http, **refresh)

    # With more than an hour left the same tokens are given again.
    assert early["access_token"] == first["access_token"]
    assert early["refresh_token"] == first["refresh_token"]
    assert late["access_token"] != first["access_token"]
    assert late["refresh_token"] != first["refresh_token"]
    assert "athlete" not in late
    assert error(dead) == (400, "RefreshToken/refresh_token", "invalid")


def test_a_lost_reply_to_a_refresh_loses_the_grant(
    t: Twins, http: httpx2.Client, clock: Standing
) -> None:
    first = t.strava.connect(5001)
    clock.forward(5 * 3600)
    t.strava.faults.set([{"route": "token", "calls": "1", "do": "drop_after"}])
    refresh = {"grant_type": "refresh_token", "refresh_token": first["refresh_token"]}

    with pytest.raises((httpx2.RemoteProtocolError, httpx2.ReadError)):
        exchange(t, http, **refresh)

    assert exchange(t, http, **refresh).status_code == 400


def test_an_access_token_lives_six_hours(t: Twins, http: httpx2.Client, clock: Standing) -> None:
    access = token(t)
    clock.forward(6 * 3600 - 1)
    before = get(t, http, access, "/athlete")
    clock.forward(1)
    after = get(t, http, access, "/athlete")

    assert before.status_code == 200
    assert error(after) == (401, "Athlete/access_token", "invalid")
    assert after.json()["message"] == "Authorization Error"


def test_a_token_may_end_between_two_pages(t: Twins, http: httpx2.Client) -> None:
    access = token(t)
    t.strava.expire(5004, after_calls=2)

    replies = [get(t, http, access, page=page) for page in (1, 2, 3)]

    assert [reply.status_code for reply in replies] == [200, 200, 401]


@pytest.mark.parametrize(
    ("sent", "where"),
    [
        ({"client_id": "9", "grant_type": "refresh_token"}, "Application/client_id"),
        ({"client_secret": "x", "grant_type": "refresh_token"}, "Application/client_secret"),
        ({"grant_type": "password"}, "Application/grant_type"),
        ({"grant_type": "refresh_token", "refresh_token": "x"}, "RefreshToken/refresh_token"),
    ],
)
def test_a_wrong_exchange_is_400(
    t: Twins, http: httpx2.Client, sent: dict[str, str], where: str
) -> None:
    assert error(exchange(t, http, **sent)) == (400, where, "invalid")


def test_tokens_are_exchanged_as_json_and_under_the_api_too(t: Twins, http: httpx2.Client) -> None:
    refresh = t.strava.connect(5001)["refresh_token"]
    sent = {**CLIENT, "grant_type": "refresh_token", "refresh_token": refresh}

    reply = http.post(f"{t.strava.url}/api/v3/oauth/token", json=sent)

    assert reply.status_code == 200


@pytest.mark.parametrize("which", ["access_token", "refresh_token"])
def test_revoking_either_token_revokes_both(t: Twins, http: httpx2.Client, which: str) -> None:
    tokens = t.strava.connect(5001)
    url = f"{t.strava.url}/oauth/revoke"
    basic = (CLIENT["client_id"], CLIENT["client_secret"])

    wrong = http.post(url, data={"token": tokens[which]}, auth=("12345", "x"))
    right = http.post(url, data={"token": tokens[which]}, auth=basic)

    assert (wrong.status_code, right.status_code) == (401, 200)
    assert get(t, http, tokens["access_token"], "/athlete").status_code == 401
    refresh = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
    assert exchange(t, http, **refresh).status_code == 400


def test_deauthorize_works_until_june_2027(t: Twins, http: httpx2.Client, clock: Standing) -> None:
    url = f"{t.strava.url}/oauth/deauthorize"
    access = token(t)
    gone = http.post(url, data={"access_token": access})
    unknown = http.post(url, data={"access_token": access})
    clock.at = 1_811_808_000_000  # 1 June 2027
    over = http.post(url, data={"access_token": token(t)})

    assert gone.json() == {"access_token": access}
    assert "x-ratelimit-usage" in gone.headers
    assert (unknown.status_code, over.status_code) == (401, 404)


def test_from_june_2027_a_token_is_taken_from_the_header_alone(
    t: Twins, http: httpx2.Client, clock: Standing
) -> None:
    url = f"{t.strava.url}/api/v3/athlete"
    before = http.get(url, params={"access_token": token(t)})
    clock.at = 1_811_808_000_000
    access = token(t)
    after = http.get(url, params={"access_token": access})

    assert (before.status_code, after.status_code) == (200, 401)
    assert get(t, http, access, "/athlete").status_code == 200


def test_the_eleventh_athlete_is_refused_by_name(t: Twins, http: httpx2.Client) -> None:
    waiting = back(authorize(t, http, 5011))["code"]
    for athlete in range(5001, 5011):
        t.strava.connect(athlete)

    page = authorize(t, http, 5012)
    late = exchange(t, http, grant_type="authorization_code", code=waiting)
    known = authorize(t, http, 5001)

    for reply in (page, late):
        assert reply.status_code == 403
        assert reply.json()["message"] == "Limit of connected athletes exceeded"
    assert known.status_code == 302


def test_without_a_subscription_every_call_is_403(t: Twins, http: httpx2.Client) -> None:
    access = token(t)
    t.strava.set_active(active=False)

    replies = [get(t, http, access), exchange(t, http, grant_type="refresh_token")]

    for reply in replies:
        assert reply.status_code == 403
        assert reply.json() == {
            "errors": [{"resource": "Application", "field": "Status", "code": "Inactive"}]
        }
