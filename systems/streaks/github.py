"""GitHub's calendar of contributions, by GraphQL: one call for a year.

Most of its errors come with status 200. Those that only the person can mend are `Refusal`; limits are
`Throttled`; everything else is worth another try.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from duework import Throttled, http
from systems.streaks.streak import DAY, never, reaches

QUERY = """
query($login: String!, $from: DateTime, $to: DateTime) {
  user(login: $login) {
    contributionsCollection(from: $from, to: $to) {
      contributionCalendar { weeks { contributionDays { date contributionCount } } }
    }
  }
}
"""
VIEWER = "query { viewer { databaseId login } }"
# Days of one call: the span must not exceed a year.
WINDOW = 365
# No streak is followed further back than this.
MOST_YEARS = 12
TIMEOUT = "10s"
# For a limit that does not say how long it lasts.
PAUSE = 60.0
LIMITS = frozenset({"RATE_LIMIT", "RATE_LIMITED"})
REFUSALS = frozenset({"NOT_FOUND", "INSUFFICIENT_SCOPES"})
UNAUTHORIZED, FORBIDDEN = 401, 403


class Refusal(Exception):
    """GitHub refuses this person's token or login, and will until it is changed."""


class Strange(Exception):
    """GitHub answered something that nobody expected."""


class Day(msgspec.Struct):
    """A day of the calendar."""

    date: date
    count: int = msgspec.field(name="contributionCount")


class Viewer(msgspec.Struct, frozen=True):
    """Whose token it is; the number stays when the login changes hands."""

    id: int = msgspec.field(name="databaseId")
    login: str


@lru_cache(32)
def client(base: str) -> http.Client:
    """One client for each host, for all who ask."""
    return http.Client(base, timeout=TIMEOUT, headers={"user-agent": "duework-streaks"})


# Made at import, so that processes of their own inherit what TLS needs.
client("https://api.github.com")


async def viewer(base: str, token: str, *, now: int) -> Viewer:
    """Who a token belongs to."""
    data = _data(await _ask(base, token, {"query": VIEWER}), "", now)
    try:
        return msgspec.convert(data.get("viewer"), Viewer)
    except msgspec.ValidationError as error:
        raise Strange(f"GitHub's viewer has another form: {error}") from None


async def _ask(base: str, token: str, body: dict[str, Any]) -> http.Response:
    bearer = {"authorization": f"Bearer {token}"}
    return await client(base).post("/graphql", json=body, headers=bearer)


async def calendar(
    base: str,
    token: str,
    login: str,
    *,
    today: date,
    zone: str,
    now: int,
    rest: Callable[[date], bool] = never,
    weekly: bool = False,
) -> dict[date, int]:
    """The counts of the last year, and of earlier ones for as long as the streak reaches."""
    counts: dict[date, int] = {}
    last = today
    for _ in range(MOST_YEARS):
        found = await _year(base, token, login, last=last, zone=zone, now=now)
        counts.update({day: count for day, count in found.items() if day <= today})
        first = last - (WINDOW - 1) * DAY
        if not reaches(counts, today, first, rest, weekly=weekly):
            break
        last = first - DAY
    return counts


async def _year(
    base: str, token: str, login: str, *, last: date, zone: str, now: int
) -> dict[date, int]:
    there = ZoneInfo(zone)
    begin = datetime.combine(last - (WINDOW - 1) * DAY, time(), there)
    end = datetime.combine(last, time(23, 59, 59), there)
    variables = {"login": login, "from": begin.isoformat(), "to": end.isoformat()}
    reply = await _ask(base, token, {"query": QUERY, "variables": variables})
    return _counts(_data(reply, login, now))


def _data(reply: http.Response, login: str, now: int) -> dict[str, Any]:
    if reply.status == UNAUTHORIZED:
        raise Refusal("GitHub refused the token, which was revoked or has expired")
    if reply.status == FORBIDDEN:
        raise Throttled(_wait(reply, now))
    body = reply.check().json(dict[str, Any])
    for error in body.get("errors") or ():
        _raise(error, reply, login, now)
    if str(body.get("message", "")).startswith("You have exceeded a secondary rate limit"):
        raise Throttled(_wait(reply, now))
    data: dict[str, Any] = body.get("data") or {}
    return data


def _raise(error: dict[str, Any], reply: http.Response, login: str, now: int) -> None:
    kind, text = str(error.get("type")), str(error.get("message"))[:200]
    if kind in LIMITS or "secondary rate limit" in text:
        raise Throttled(_wait(reply, now))
    if kind == "NOT_FOUND":
        raise Refusal(f"GitHub knows no user {login}")
    if kind in REFUSALS:
        raise Refusal("GitHub says that the token lacks the scope read:user")
    raise Strange(f"GitHub: {text}")


def _wait(reply: http.Response, now: int) -> float:
    """Seconds: as it says, else until the window ends, else a minute."""
    said = reply.headers.get("retry-after", "")
    if said.isascii() and said.isdigit():
        return min(max(1.0, float(said)), timedelta(days=1).total_seconds())
    reset = reply.headers.get("x-ratelimit-reset", "")
    if reset.isascii() and reset.isdigit() and reply.headers.get("x-ratelimit-remaining") == "0":
        return min(max(1.0, int(reset) - now / 1000), timedelta(days=1).total_seconds())
    return PAUSE


def _counts(data: dict[str, Any]) -> dict[date, int]:
    try:
        found = data["user"]["contributionsCollection"]["contributionCalendar"]["weeks"]
        listed = [msgspec.convert(week["contributionDays"], list[Day]) for week in found]
    except (KeyError, TypeError, msgspec.ValidationError) as error:
        raise Strange(f"GitHub's calendar has another form: {error}") from None
    return {day.date: day.count for week in listed for day in week}
