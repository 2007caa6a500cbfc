"""GitHub: what the API answers, what it hides, what it counts."""

from __future__ import annotations

import concurrent.futures
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest

from systems.twins import Twins
from systems.twins.github.logins import challenge_of
from systems.twins.tests.conftest import NOON, Standing

TWINS = ("github",)
QUERY = """
query($login: String!, $from: DateTime, $to: DateTime) {
  user(login: $login) {
    contributionsCollection(from: $from, to: $to) {
      contributionCalendar {
        totalContributions
        weeks { contributionDays { date contributionCount } }
      }
    }
  }
  rateLimit { cost remaining resetAt }
}"""
WEEK = {"from": "2026-02-23T00:00:00Z", "to": "2026-03-01T23:59:59Z"}


def ask(
    t: Twins,
    http: httpx2.Client,
    query: str = QUERY,
    token: str = "ghp_ada",
    **variables: Any,
) -> httpx2.Response:
    return http.post(
        f"{t.github.url}/graphql",
        json={"query": query, "variables": {"login": "ada", **variables}},
        headers={"authorization": f"Bearer {token}"},
    )


@pytest.fixture(autouse=True)
def ada(t: Twins) -> None:
    t.github.add_user("ada", since="2021-01-01")
    for day, count in (("2026-02-24", 4), ("2026-02-25", 2), ("2026-02-28", 3), ("2025-06-01", 9)):
        t.github.contribute("ada", day, count)


def days(reply: httpx2.Response) -> dict[str, int]:
    calendar = reply.json()["data"]["user"]["contributionsCollection"]["contributionCalendar"]
    return {
        day["date"]: day["contributionCount"]
        for week in calendar["weeks"]
        for day in week["contributionDays"]
    }


def test_a_calendar_holds_each_day_of_its_span_in_weeks_from_sunday(
    t: Twins, http: httpx2.Client
) -> None:
    body = ask(t, http, **WEEK).json()

    calendar = body["data"]["user"]["contributionsCollection"]["contributionCalendar"]
    assert calendar["totalContributions"] == 9
    assert [len(week["contributionDays"]) for week in calendar["weeks"]] == [6, 1]
    assert calendar["weeks"][1]["contributionDays"] == [
        {"date": "2026-03-01", "contributionCount": 0}
    ]
    assert body["data"]["rateLimit"] == {
        "cost": 1,
        "remaining": 4999,
        "resetAt": "2026-03-01T13:00:00Z",
    }
    assert "errors" not in body


def test_without_a_span_the_last_year_is_shown_and_never_more(
    t: Twins, http: httpx2.Client
) -> None:
    found = days(ask(t, http))

    assert (min(found), max(found)) == ("2025-03-01", "2026-03-01")
    weeks = len(
        ask(t, http).json()["data"]["user"]["contributionsCollection"]["contributionCalendar"][
            "weeks"
        ]
    )
    assert weeks in {53, 54}


def test_a_span_of_more_than_a_year_is_an_error_with_status_200(
    t: Twins, http: httpx2.Client
) -> None:
    reply = ask(t, http, **{"from": "2024-01-01T00:00:00Z", "to": "2026-01-01T00:00:00Z"})

    assert reply.status_code == 200
    assert reply.json()["data"]["user"] is None
    assert reply.json()["errors"][0]["message"] == (
        "The total time spanned by 'from' and 'to' must not exceed 1 year"
    )


def test_a_longer_history_is_had_year_by_year(t: Twins, http: httpx2.Client) -> None:
    query = """query($login: String!) { user(login: $login) {
        y: contributionsCollection { contributionYears }
        a: contributionsCollection(from: "2025-01-01T00:00:00Z", to: "2025-12-31T23:59:59Z") {
          contributionCalendar { totalContributions } } } }"""

    user = ask(t, http, query).json()["data"]["user"]

    assert user["y"]["contributionYears"] == [2026, 2025, 2021]
    assert user["a"]["contributionCalendar"]["totalContributions"] == 9


def test_every_documented_field_of_the_collection_can_be_asked(
    t: Twins, http: httpx2.Client
) -> None:
    query = """query($login: String!) { user(login: $login) { contributionsCollection {
      startedAt endedAt doesEndInCurrentMonth hasActivityInThePast
      hasAnyContributions hasAnyRestrictedContributions isSingleDay
      restrictedContributionsCount totalCommitContributions totalIssueContributions
      totalPullRequestContributions totalPullRequestReviewContributions
      totalRepositoryContributions
      contributionCalendar { colors isHalloween months { firstDay name totalWeeks year }
        weeks { firstDay contributionDays { color weekday contributionLevel } } } } }
      rateLimit { cost limit nodeCount remaining used resetAt } }"""

    data = ask(t, http, query).json()["data"]

    found = data["user"]["contributionsCollection"]
    assert (found["startedAt"], found["endedAt"]) == (
        "2025-03-01T12:00:00Z",
        "2026-03-01T12:00:00Z",
    )
    levels = {
        day["contributionLevel"]
        for week in found["contributionCalendar"]["weeks"]
        for day in week["contributionDays"]
    }
    assert levels == {"NONE", "FIRST_QUARTILE", "SECOND_QUARTILE", "FOURTH_QUARTILE"}
    assert found["contributionCalendar"]["weeks"][1]["contributionDays"][1]["weekday"] == 1
    assert data["rateLimit"]["used"] == 1


def test_private_contributions_are_seen_by_the_owner_or_if_the_owner_says_so(
    t: Twins, http: httpx2.Client
) -> None:
    t.github.contribute("ada", "2026-02-26", 5, private=True)
    t.github.add_user("bob")
    query = QUERY.replace(
        "contributionCalendar {", "restrictedContributionsCount contributionCalendar {"
    )

    def seen(token: str) -> tuple[int, int]:
        reply = ask(t, http, query, token, **WEEK)
        found = reply.json()["data"]["user"]["contributionsCollection"]
        return days(reply)["2026-02-26"], found["restrictedContributionsCount"]

    assert seen("ghp_ada") == (5, 0)
    assert seen("ghp_bob") == (0, 0)
    t.github.people["ada"].shows_private = True
    assert seen("ghp_bob") == (5, 5)


def test_days_are_those_of_the_token_owners_zone(t: Twins, http: httpx2.Client) -> None:
    t.github.add_token("ghp_east", "ada", zone="Pacific/Auckland")

    assert max(days(ask(t, http))) == "2026-03-01"
    assert max(days(ask(t, http, token="ghp_east"))) == "2026-03-02"


def test_a_contribution_may_be_a_day_late(t: Twins, http: httpx2.Client, clock: Standing) -> None:
    t.github.contribute("ada", "2026-03-01", 2, late=24)

    assert days(ask(t, http, **WEEK))["2026-03-01"] == 0
    clock.forward(86_400)
    assert days(ask(t, http, **WEEK))["2026-03-01"] == 2


def test_an_unknown_login_is_an_error_with_status_200(t: Twins, http: httpx2.Client) -> None:
    reply = ask(t, http, "query($login: String!) { user(login: $login) { login } }", login="nobody")

    assert reply.status_code == 200
    assert reply.json() == {
        "data": {"user": None},
        "errors": [
            {
                "type": "NOT_FOUND",
                "path": ["user"],
                "locations": [{"line": 1, "column": 26}],
                "message": "Could not resolve to a User with the login of 'nobody'.",
            }
        ],
    }


@pytest.mark.parametrize("token", ["x", "ghp_wrong", "ghp_gone"])
def test_a_bad_or_revoked_token_is_refused(t: Twins, http: httpx2.Client, token: str) -> None:
    t.github.add_token("ghp_gone", "ada")
    t.github.revoke("ghp_gone")

    reply = ask(t, http, token=token)

    assert reply.status_code == 401
    assert reply.json() == {
        "message": "Bad credentials",
        "documentation_url": "https://docs.github.com/graphql",
        "status": "401",
    }


def test_a_user_agent_is_required(t: Twins, http: httpx2.Client) -> None:
    reply = http.post(f"{t.github.url}/graphql", headers={"user-agent": ""})

    assert reply.status_code == 403


def test_a_missing_scope_is_an_error_with_status_200_and_no_data(
    t: Twins, http: httpx2.Client
) -> None:
    t.github.add_token("ghp_bare", "ada", scopes="")

    reply = ask(t, http, "{ viewer { email } }", token="ghp_bare")

    assert reply.status_code == 200
    assert "data" not in reply.json()
    assert reply.json()["errors"][0]["type"] == "INSUFFICIENT_SCOPES"
    assert "the: [''] scopes" in reply.json()["errors"][0]["message"]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("{ user(login: ", "Parse error"),
        ("{ viewer { shoes } }", "Field 'shoes' doesn't exist on type 'User'"),
        ("{ viewer }", "Field must have selections"),
        ("{ viewer { login { x } } }", "Selections can't be made on scalars"),
        ('{ viewer(id: "x") { login } }', "doesn't accept argument 'id'"),
        ("query($n: Int!) { viewer { login } }", "Variable $n"),
        ("{ viewer { ...F } }", "Fragment F was used, but not defined"),
        ("", "No operation"),
    ],
)
def test_a_query_that_is_wrong_costs_nothing_and_has_no_data(
    t: Twins, http: httpx2.Client, query: str, message: str
) -> None:
    reply = ask(t, http, query)

    assert reply.status_code == 200
    assert "data" not in reply.json()
    assert message in reply.json()["errors"][0]["message"]
    assert reply.headers["x-ratelimit-used"] == "0"


def test_fragments_and_aliases_are_understood(t: Twins, http: httpx2.Client) -> None:
    query = "{ me: viewer { ...F ... on User { n: login } } } fragment F on User { id __typename }"

    assert ask(t, http, query).json()["data"]["me"]["n"] == "ada"


def test_a_body_that_is_no_query_is_a_plain_400(t: Twins, http: httpx2.Client) -> None:
    headers = {"authorization": "bearer ghp_ada"}

    assert http.post(f"{t.github.url}/graphql", content=b"{", headers=headers).status_code == 400


@pytest.mark.parametrize(
    ("wording", "error"),
    [
        ("old", {"type": "RATE_LIMITED", "message": "API rate limit exceeded for user ID 1061."}),
        (
            "new",
            {
                "type": "RATE_LIMIT",
                "code": "graphql_rate_limit",
                "message": "API rate limit already exceeded for user ID 1061.",
            },
        ),
    ],
)
def test_the_primary_limit_is_told_with_status_200_and_resets_in_an_hour(
    t: Twins, http: httpx2.Client, clock: Standing, wording: str, error: dict[str, str]
) -> None:
    t.github.set_answers(wording)
    last = ask(t, http)
    t.github.spend("ada", 4999)

    over = [ask(t, http), ask(t, http)]
    clock.forward(3600)
    after = ask(t, http)

    assert last.headers["x-ratelimit-remaining"] == "4999"
    assert [reply.status_code for reply in over] == [200, 200]
    assert over[0].json() == {"errors": [error]}
    assert over[0].headers["x-ratelimit-limit"] == "5000"
    assert over[0].headers["x-ratelimit-remaining"] == "0"
    assert over[0].headers["x-ratelimit-used"] == "5000"
    assert over[0].headers["x-ratelimit-reset"] == str(NOON // 1000 + 3600)
    assert over[0].headers["x-ratelimit-resource"] == "graphql"
    assert [asked.limit for asked in t.github.log.entries] == [None, "reached", "ignored", None]
    assert after.json()["data"]["rateLimit"]["remaining"] == 4999


def test_more_points_in_a_minute_than_allowed_meet_the_secondary_limit(
    t: Twins, http: httpx2.Client, clock: Standing
) -> None:
    t.github.set_limits(minute=2)

    replies = [ask(t, http) for _ in range(3)]
    clock.forward(60)
    after = ask(t, http)

    assert [reply.status_code for reply in (*replies, after)] == [200, 200, 403, 200]
    assert replies[2].json()["message"].startswith("You have exceeded a secondary rate limit.")
    assert replies[2].headers["retry-after"] == "60"


@pytest.mark.parametrize("status", [200, 429])
def test_the_secondary_limit_was_seen_with_other_statuses(
    t: Twins, http: httpx2.Client, status: int
) -> None:
    t.github.set_limits(minute=0)
    t.github.set_answers(secondary=status)

    reply = ask(t, http)

    assert reply.status_code == status
    assert reply.json()["message"].startswith("You have exceeded a secondary rate limit.")


def test_a_query_that_is_too_costly_is_answered_in_part(t: Twins, http: httpx2.Client) -> None:
    t.github.set_answers(costly=True)

    body = ask(t, http).json()

    assert body["data"]["user"]
    assert body["data"]["rateLimit"] is None
    assert body["errors"][0]["type"] == "RESOURCE_LIMITS_EXCEEDED"


def test_too_many_calls_at_once_meet_the_secondary_limit(t: Twins, http: httpx2.Client) -> None:
    t.github.set_limits(at_once=2)
    t.github.faults.set([{"do": "delay", "seconds": 0.2}])

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(lambda _: ask(t, http), range(4)))

    assert t.github.log.peak == 4
    assert {reply.status_code for reply in replies} == {200, 403}


def test_a_timeout_of_github_is_html(t: Twins, http: httpx2.Client) -> None:
    t.github.faults.set([{"calls": "1", "do": "status", "status": 502}])

    reply = ask(t, http)

    assert (reply.status_code, reply.text[:6]) == (502, "<html>")


def test_people_are_the_same_with_the_same_seed(t: Twins, http: httpx2.Client) -> None:
    first = days(ask(t, http, login="fern-okoye"))
    t.github.reset()
    t.github.add_user("ada")

    assert days(ask(t, http, login="fern-okoye")) == first
    assert sum(first.values()) > 100


# Sign-in for applications.


def authorize(t: Twins, http: httpx2.Client, **more: str) -> dict[str, str]:
    query = {"client_id": "Iv1.twin", "redirect_uri": "http://app.test/back", "state": "s1"}
    reply = http.get(f"{t.github.url}/login/oauth/authorize", params={**query, "as": "ada", **more})
    assert reply.status_code == 302, reply.text
    return dict(parse_qsl(urlsplit(reply.headers["location"]).query))


def exchange(t: Twins, http: httpx2.Client, **sent: str) -> httpx2.Response:
    data = {"client_id": "Iv1.twin", "client_secret": "github-secret", **sent}
    accept = {"accept": "application/json"}
    return http.post(f"{t.github.url}/login/oauth/access_token", data=data, headers=accept)


def test_a_code_is_exchanged_once_for_a_token_with_its_scopes(
    t: Twins, http: httpx2.Client
) -> None:
    back = authorize(t, http, scope="user:email")
    assert back["state"] == "s1"

    token = exchange(t, http, code=back["code"]).json()["access_token"]
    bearer = {"authorization": f"Bearer {token}"}
    [address] = http.get(f"{t.github.url}/user/emails", headers=bearer).json()
    assert (address["email"], address["verified"]) == ("ada@users.example", True)
    again = exchange(t, http, code=back["code"])
    assert (again.status_code, again.json()["error"]) == (200, "bad_verification_code")


def test_a_challenge_wants_its_verifier_and_a_secret_is_checked(
    t: Twins, http: httpx2.Client
) -> None:
    pkce = {"code_challenge": challenge_of("v" * 43), "code_challenge_method": "S256"}

    assert "error" in exchange(t, http, code=authorize(t, http, **pkce)["code"]).json()
    right = exchange(t, http, code=authorize(t, http, **pkce)["code"], code_verifier="v" * 43)
    assert right.json()["token_type"] == "bearer"
    wrong = exchange(t, http, code=authorize(t, http)["code"], client_secret="x").json()
    assert wrong["error"] == "incorrect_client_credentials"
    t.github.logins.decide("ada", allows=False)
    assert authorize(t, http)["error"] == "access_denied"
