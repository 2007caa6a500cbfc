"""Strava: tokens that rotate, pages that are short, limits in two windows, pushes."""

from __future__ import annotations

import json
from collections import Counter
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


# Activities.


def test_activities_come_newest_first_in_pages_until_an_empty_one(
    t: Twins, http: httpx2.Client
) -> None:
    access = token(t)
    pages = [get(t, http, access, per_page=200, page=page).json() for page in (1, 2, 3)]

    starts = [one["start_date"] for page in pages for one in page]
    assert [len(page) for page in pages] == [200, 200, 0]
    assert starts == sorted(starts, reverse=True)
    assert len({one["id"] for page in pages for one in page}) == 400


def test_without_the_scope_for_all_pages_are_short_before_the_end(
    t: Twins, http: httpx2.Client
) -> None:
    access = token(t, scope="read,activity:read")
    pages = [get(t, http, access, per_page=100, page=page).json() for page in range(1, 6)]

    assert all(0 < len(page) < 100 for page in pages[:4])
    assert pages[4] == []
    assert not any(one["private"] for page in pages for one in page)


def test_two_activities_start_in_the_same_second_across_a_border(
    t: Twins, http: httpx2.Client
) -> None:
    access = token(t)
    first = get(t, http, access, per_page=200).json()
    border = first[-1]["start_date"]
    last = int(t.strava.athletes[5004].activities[199].start)

    after = get(t, http, access, per_page=200, before=last).json()
    safe = get(t, http, access, per_page=200, before=last + 1).json()

    # Who walks by `before` alone loses the other one; a second more, and both are there.
    assert border not in {one["start_date"] for one in after}
    assert Counter(one["start_date"] for one in safe)[border] == 2
    other = t.strava.athletes[5004].activities[200].id
    assert other not in {one["id"] for one in first + after}
    assert other in {one["id"] for one in first + safe}


def test_before_and_after_are_seconds_and_exclusive(t: Twins, http: httpx2.Client) -> None:
    t.strava.add_athlete(7)
    for start in (100, 200, 300):
        t.strava.add_activity(7, start)
    access = token(t, 7)

    def starts(**query: int) -> list[int]:
        found = get(t, http, access, **query).json()
        by_id = {one.id: one.start for one in t.strava.athletes[7].activities}
        return [by_id[one["id"]] for one in found]

    assert starts(before=300) == [200, 100]
    assert starts(after=100, before=300) == [200]
    # With `after` alone the oldest is first.
    assert starts(after=100) == [200, 300]
    assert starts() == [300, 200, 100]


@pytest.mark.parametrize(
    ("query", "where", "code"),
    [
        ({"after": NOON}, "Application/after", "future"),
        ({"before": NOON}, "Application/before", "future"),
        ({"before": "noon"}, "Application/before", "invalid"),
        ({"per_page": 201}, "Application/per page", "limit exceeded"),
        ({"per_page": 0}, "Application/per_page", "invalid"),
        ({"page": "x"}, "Application/page", "invalid"),
    ],
)
def test_a_wrong_page_is_400(
    t: Twins, http: httpx2.Client, query: dict[str, Any], where: str, code: str
) -> None:
    assert error(get(t, http, token(t), **query)) == (400, where, code)


def test_a_summary_has_the_shape_of_the_reference(t: Twins, http: httpx2.Client) -> None:
    t.strava.add_athlete(5004)
    t.strava.add_activity(5004, 1_772_265_612, "Riverside parkrun", workout=1)
    one = get(t, http, token(t)).json()[0]

    assert one["start_date"] == "2026-02-28T08:00:12Z"
    # Wall clock with a false Z.
    assert one["start_date_local"] == "2026-02-28T09:00:12Z"
    assert one["timezone"] == "(GMT+01:00) Europe/Oslo"
    assert one["utc_offset"] == 3600.0
    assert (one["type"], one["sport_type"], one["workout_type"]) == ("Run", "Run", 1)
    assert (one["resource_state"], one["map"]["resource_state"]) == (2, 2)
    assert not {"description", "calories"} & set(one)


def test_a_detail_has_what_the_summary_leaves_out(t: Twins, http: httpx2.Client) -> None:
    everything, some = token(t, 5004), None
    private = next(one for one in t.strava.athletes[5004].activities if one.private)

    shown = get(t, http, everything, f"/activities/{private.id}")
    some = token(t, 5004, "read,activity:read")
    hidden = get(t, http, some, f"/activities/{private.id}")
    unknown = get(t, http, some, "/activities/1")

    assert shown.json()["description"] == "Felt good."
    assert shown.json()["resource_state"] == 3
    assert error(hidden) == error(unknown) == (404, "Activity/id", "not found")


def test_stats_and_clubs_are_there_and_the_removed_club_pages_are_not(
    t: Twins, http: httpx2.Client
) -> None:
    access = token(t)

    totals = get(t, http, access, "/athletes/5004/stats").json()
    clubs = get(t, http, access, "/athlete/clubs").json()

    assert totals["all_run_totals"]["count"] > totals["ytd_run_totals"]["count"] > 0
    assert clubs[0]["id"] == 4497
    assert get(t, http, access, "/athletes/5005/stats").status_code == 403
    assert get(t, http, access, "/clubs/4497/members").status_code == 404


def test_histories_are_the_same_with_the_same_seed_and_large_ones_are_quick(t: Twins) -> None:
    first = [one.id for one in t.strava.athletes[5001].activities]
    starts = [one.start for one in t.strava.athletes[5001].activities]
    t.strava.reset()

    assert [one.id for one in t.strava.athletes[5001].activities] == first
    assert len(first) == 10_000
    races = sum(one.workout in {1, 11} for one in t.strava.athletes[5001].activities)
    assert 500 < races < 3000
    assert starts == sorted(starts, reverse=True)


# Limits.


def test_both_windows_are_told_on_each_reply_and_start_at_the_quarter_hour(
    t: Twins, http: httpx2.Client, clock: Standing
) -> None:
    access = token(t)
    clock.forward(14 * 60)
    replies = [get(t, http, access, "/athlete") for _ in range(102)]
    clock.forward(60)
    after = get(t, http, access, "/athlete")

    assert replies[0].headers["x-ratelimit-limit"] == "200,2000"
    assert replies[0].headers["x-ratelimit-usage"] == "1,1"
    assert replies[0].headers["x-readratelimit-limit"] == "100,1000"
    assert replies[0].headers["x-readratelimit-usage"] == "1,1"
    assert [reply.status_code for reply in replies] == [200] * 100 + [429] * 2
    assert error(replies[100]) == (429, "Application/read rate limit", "exceeded")
    assert replies[100].json()["message"] == "Rate Limit Exceeded"
    assert replies[101].headers["x-readratelimit-usage"] == "102,102"
    assert "retry-after" not in replies[100].headers
    # What was refused counts towards the day.
    assert after.headers["x-readratelimit-usage"] == "1,103"
    assert [asked.limit for asked in t.strava.log.entries][100:] == ["reached", "ignored", None]


def test_the_day_ends_at_midnight_utc(t: Twins, http: httpx2.Client, clock: Standing) -> None:
    t.strava.set_limits(read=(100, 3))
    access = token(t)
    statuses = [get(t, http, access, "/athlete").status_code for _ in range(4)]
    clock.forward(12 * 3600 - 1)
    access = token(t)
    statuses.append(get(t, http, access, "/athlete").status_code)
    clock.forward(1)
    statuses.append(get(t, http, access, "/athlete").status_code)

    assert statuses == [200, 200, 200, 429, 429, 200]


def test_the_overall_limit_has_its_own_name(t: Twins, http: httpx2.Client) -> None:
    t.strava.set_limits(overall=(1, 10))
    access = token(t)
    get(t, http, access, "/athlete")

    over = get(t, http, access, "/athlete")

    assert error(over) == (429, "Application/overall rate limit", "exceeded")


def test_limits_belong_to_the_application_not_to_the_athlete(t: Twins, http: httpx2.Client) -> None:
    get(t, http, token(t, 5004), "/athlete")

    second = get(t, http, token(t, 5005), "/athlete")

    assert second.headers["x-readratelimit-usage"] == "2,2"


# Pushes.


def subscribe(t: Twins, http: httpx2.Client, url: str) -> httpx2.Response:
    sent = {**CLIENT, "callback_url": url, "verify_token": "v"}
    return http.post(f"{t.strava.url}/api/v3/push_subscriptions", data=sent)


def test_a_subscription_is_verified_and_there_is_one(t: Twins, http: httpx2.Client) -> None:
    url = f"{t.hooks.url}/hook/strava"
    api = f"{t.strava.url}/api/v3/push_subscriptions"

    made, second = subscribe(t, http, url), subscribe(t, http, url)
    listed = http.get(api, params=CLIENT).json()
    gone = http.delete(f"{api}/{made.json()['id']}", params=CLIENT)

    assert made.status_code == 201
    assert error(second) == (400, "PushSubscription/callback url", "already exists")
    assert [each["id"] for each in listed] == [made.json()["id"]]
    assert gone.status_code == 204
    assert http.get(api, params=CLIENT).json() == []
    assert http.get(api).status_code == 401
    assert http.delete(f"{api}/1", params=CLIENT).status_code == 404


def test_a_callback_that_does_not_answer_the_challenge_is_refused(
    t: Twins, http: httpx2.Client
) -> None:
    nobody = subscribe(t, http, f"{t.hooks.url}/nowhere")
    t.hooks.faults.set([{"route": "challenge", "do": "malformed"}])
    wrong = subscribe(t, http, f"{t.hooks.url}/hook/strava")

    assert error(nobody)[2] == "GET to callback URL does not return 200"
    assert error(wrong)[2] == "not verifiable"


def test_changes_and_revocations_are_pushed_at_most_three_times(
    t: Twins, http: httpx2.Client, clock: Standing
) -> None:
    subscribe(t, http, f"{t.hooks.url}/hook/strava")
    access = token(t)
    id_ = t.strava.add_activity(5004, NOON // 1000)
    t.strava.edit_activity(5004, id_, "City 10K")
    t.strava.delete_activity(5004, id_)
    http.post(f"{t.strava.url}/oauth/deauthorize", data={"access_token": access})
    t.settle()
    events = [json.loads(entry["body"]) for entry in t.hooks.ledger.of("delivered")]

    t.hooks.answer("strava", 500)
    t.strava.add_activity(5005, NOON // 1000)
    for wait in (0, 60, 300, 3600):
        clock.forward(wait)
        t.settle()

    assert sorted((e["object_type"], e["aspect_type"]) for e in events) == [
        ("activity", "create"),
        ("activity", "delete"),
        ("activity", "update"),
        ("athlete", "update"),
    ]
    revoked = next(event for event in events if event["object_type"] == "athlete")
    assert revoked["updates"] == {"authorized": "false"}
    assert revoked["owner_id"] == 5004
    assert revoked["subscription_id"] == 120475
    assert len(t.hooks.ledger.of("refused")) == 3


def test_its_own_list_is_told_without_a_call_of_the_api(t: Twins, http: httpx2.Client) -> None:
    url = f"{t.strava.url}/_twin/switch/list_activities"

    every = http.post(url, json={"athlete": 5004}).json()["result"]
    public = http.post(url, json={"athlete": 5004, "private": False}).json()["result"]

    assert [one["id"] for one in every] == [one.id for one in t.strava.athletes[5004].activities]
    assert 0 < len(public) < len(every) == 400
    assert http.post(url, json={"athlete": 1}).status_code == 400
    assert t.strava.log.calls == 0
