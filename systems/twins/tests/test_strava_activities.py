"""Strava: pages that are short, limits in two windows, pushes."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import httpx2
import pytest

from systems.twins import Twins
from systems.twins.tests.conftest import NOON, Standing
from systems.twins.tests.test_strava import CLIENT, error, get, token

TWINS = ("strava", "hooks")


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
