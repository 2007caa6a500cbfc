"""GitHub's GraphQL API, as far as contributions go, and its sign-in for applications.

Most errors are HTTP 200 with `errors` in the body; a revoked token is 401. Points are counted per
user and hour from the first call, as headers say on each reply. The days of the calendar are those
of the token owner's zone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import partial
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

from starlette.responses import JSONResponse, Response

from systems.twins.github.contributions import Person, collection, invent
from systems.twins.github.graphql import Field, Parser, Problem, check, fill, pick, value_of
from systems.twins.github.logins import Logins
from systems.twins.kit.app import Answer, Call, Door, Twin
from systems.twins.kit.clock import as_datetime, as_iso
from systems.twins.kit.limits import Window, Windows
from systems.twins.kit.shapes import misfit

DOCS = "https://docs.github.com/graphql"
HOUR, MINUTE = 3_600_000, 60_000


def _scalars(*names: str) -> dict[str, tuple[str | None, frozenset[str]]]:
    return {name: (None, frozenset()) for name in names}


def _objects(**kinds: str) -> dict[str, tuple[str | None, frozenset[str]]]:
    return {name: (kind, frozenset()) for name, kind in kinds.items()}


SCHEMA: dict[str, dict[str, tuple[str | None, frozenset[str]]]] = {
    "Query": {
        "user": ("User", frozenset({"login"})),
        "viewer": ("User", frozenset()),
        "rateLimit": ("RateLimit", frozenset({"dryRun"})),
    },
    "User": {
        **_scalars("id", "databaseId", "login", "name", "email", "createdAt"),
        "contributionsCollection": (
            "ContributionsCollection",
            frozenset({"from", "to", "organizationID"}),
        ),
    },
    "RateLimit": _scalars("cost", "limit", "nodeCount", "remaining", "used", "resetAt"),
    "ContributionsCollection": {
        **_objects(contributionCalendar="ContributionCalendar"),
        **_scalars(
            "contributionYears",
            "startedAt",
            "endedAt",
            "isSingleDay",
            "doesEndInCurrentMonth",
            "hasActivityInThePast",
            "hasAnyContributions",
            "hasAnyRestrictedContributions",
            "restrictedContributionsCount",
            "earliestRestrictedContributionDate",
            "latestRestrictedContributionDate",
            "totalCommitContributions",
            "totalIssueContributions",
            "totalPullRequestContributions",
            "totalPullRequestReviewContributions",
            "totalRepositoryContributions",
        ),
    },
    "ContributionCalendar": {
        **_scalars("totalContributions", "colors", "isHalloween"),
        **_objects(months="ContributionCalendarMonth", weeks="ContributionCalendarWeek"),
    },
    "ContributionCalendarMonth": _scalars("firstDay", "name", "totalWeeks", "year"),
    "ContributionCalendarWeek": {
        **_scalars("firstDay"),
        **_objects(contributionDays="ContributionCalendarDay"),
    },
    "ContributionCalendarDay": _scalars(
        "date", "weekday", "contributionCount", "contributionLevel", "color"
    ),
}


@dataclass(slots=True)
class Token:
    login: str
    scopes: frozenset[str]
    zone: ZoneInfo
    revoked: bool = False


@dataclass(slots=True)
class Answered:
    data: dict[str, Any] = field(default_factory=dict)
    errors: list[dict[str, Any]] = field(default_factory=list)


class GitHub(Twin):
    name = "github"
    about: ClassVar = "GraphQL: contributions, calendar, points; sign-in"

    def make_doors(self) -> list[Door]:
        self.logins = Logins(self)
        return [
            Door("graphql", "POST", "/graphql", self._graphql),
            Door("graphql", "POST", "/api/graphql", self._graphql),
            *self.logins.doors(),
        ]

    def start_over(self) -> None:
        self.logins.start_over()
        self.people: dict[str, Person] = {}
        self.tokens: dict[str, Token] = {}
        # "old" or "new" wording of the primary limit; the new one since January 2026.
        self.wording = "new"
        # The status of the secondary limit: 403, or 200 and 429, which were seen too.
        self.secondary = 403
        self.costly = False
        self.limit, self.minute_limit, self.at_once_limit = 5000, 2000, 100
        self._hours = Windows(lambda: Window(self.limit, HOUR))
        self._minutes = Windows(lambda: Window(self.minute_limit, MINUTE))
        for name in ("fern-okoye", *(f"user-{n:03}" for n in range(1, 61))):
            self.add_user(name, invented=True)

    def samples(self) -> dict[str, str]:
        return {"graphql": f"{self.url}/graphql", "login": "fern-okoye", "token": "ghp_fernokoye"}

    def switches(self) -> Mapping[str, Callable[..., object]]:
        return {
            "add_user": self.add_user,
            "add_token": self.add_token,
            "contribute": self.contribute,
            "revoke": self.revoke,
            "set_limits": self.set_limits,
            "spend": self.spend,
            "set_answers": self.set_answers,
            "decide": self.logins.decide,
        }

    # Switches.

    def add_user(
        self,
        login: str,
        *,
        invented: bool = False,
        shows_private: bool = False,
        since: str = "2019-05-01",
    ) -> str:
        """A person, and a token of its own, `ghp_` and the login in letters and digits."""
        today = as_datetime(self.now()).date()
        person = Person(login, 1000 + len(self.people), date.fromisoformat(since), shows_private)
        if invented:
            person.history = partial(invent, login, self.seed, today)
        self.people[login.lower()] = person
        return self.add_token("ghp_" + "".join(c for c in login if c.isalnum()), login)

    def add_token(
        self, token: str, login: str, scopes: str = "read:user", zone: str = "UTC"
    ) -> str:
        if login.lower() not in self.people:
            raise ValueError(f"there is no user {login!r}")
        self.tokens[token] = Token(login.lower(), frozenset(scopes.split()), ZoneInfo(zone))
        return token

    def contribute(
        self, login: str, day: str, count: int = 1, *, private: bool = False, late: float = 0
    ) -> None:
        """Set a day's count; `late` hours pass before the calendar shows it."""
        person, when = self.people[login.lower()], date.fromisoformat(day)
        (person.private if private else person.public)[when] = count
        person.late[when] = self.now() + int(late * HOUR) if late else 0

    def revoke(self, token: str) -> None:
        self.tokens[token].revoked = True

    def set_limits(
        self, hour: int | None = None, minute: int | None = None, at_once: int | None = None
    ) -> None:
        """Other limits than the documented ones, from the next window on."""
        self.limit = self.limit if hour is None else hour
        self.minute_limit = self.minute_limit if minute is None else minute
        self.at_once_limit = self.at_once_limit if at_once is None else at_once

    def spend(self, login: str, points: int) -> None:
        """Points that the user's other programs have used in this hour."""
        self._hours[login.lower()].use(self.now(), points)

    def set_answers(
        self, wording: str = "new", secondary: int = 403, *, costly: bool = False
    ) -> None:
        """How limits are worded, and whether every query is too costly to be answered in full."""
        if wording not in {"old", "new"} or secondary not in {200, 403, 429}:
            raise ValueError("wording is old or new, and secondary 200, 403 or 429")
        self.wording, self.secondary, self.costly = wording, secondary, costly

    # The API.

    def refusal(self, status: int) -> Response:
        message = {401: "Bad credentials", 404: "Not Found"}.get(status)
        if status in {403, 429}:
            message = "You have exceeded a secondary rate limit. Please wait a few minutes."
        if message is None:
            return Response("<html><body>We couldn't respond in time.</body></html>", status)
        body = {"message": message, "documentation_url": DOCS, "status": str(status)}
        return JSONResponse(body, status)

    def _graphql(self, call: Call) -> Response:
        token = self.admit(call)
        if self.log.at_once > self.at_once_limit:
            return self._secondary(call, token)
        return self._with_headers(call, token, self._metered(call, token))

    def admit(self, call: Call) -> Token:
        """Whose token it is."""
        if not call.headers.get("user-agent"):
            text = "Request forbidden by administrative rules. Please make sure your request has a "
            raise Answer(Response(text + "User-Agent header\n", 403, media_type="text/plain"))
        token = self.tokens.get(call.bearer() or "")
        if token is None or token.revoked:
            raise Answer(self.refusal(401))
        call.note(login=token.login)
        return token

    def _metered(self, call: Call, token: Token) -> Response:
        minute, hour = self._minutes[token.login], self._hours[token.login]
        if minute.full(call.now):
            call.limited(minute)
            return self._secondary(call, token)
        if hour.full(call.now):
            call.limited(hour)
            return JSONResponse({"errors": [self._primary(token)]})
        try:
            selection, values = self._read(call)
        except Problem as problem:
            return JSONResponse({"errors": [problem.error]})
        minute.use(call.now)
        hour.use(call.now)
        answered = Answered()
        for each in selection:
            self._resolve(call, token, each, values, answered)
        if self.costly and selection:
            # What came last is left out.
            answered.data[selection[-1].alias] = None
            message = "Resource limits for this query exceeded."
            answered.errors.append({"type": "RESOURCE_LIMITS_EXCEEDED", "message": message})
        body: dict[str, Any] = {"data": answered.data}
        if answered.errors:
            body["errors"] = answered.errors
            if any(error["type"] == "INSUFFICIENT_SCOPES" for error in answered.errors):
                del body["data"]
        return JSONResponse(body)

    def _primary(self, token: Token) -> dict[str, str]:
        who = f"for user ID {self.people[token.login].id}."
        if self.wording == "old":
            return {"type": "RATE_LIMITED", "message": f"API rate limit exceeded {who}"}
        message = f"API rate limit already exceeded {who}"
        return {"type": "RATE_LIMIT", "code": "graphql_rate_limit", "message": message}

    def _secondary(self, call: Call, token: Token) -> Response:
        reply = self.refusal(403)
        reply.status_code = self.secondary
        reply.headers["retry-after"] = "60"
        return self._with_headers(call, token, reply)

    def _with_headers(self, call: Call, token: Token, reply: Response) -> Response:
        hour = self._hours[token.login]
        reply.headers["x-ratelimit-limit"] = str(hour.limit)
        reply.headers["x-ratelimit-remaining"] = str(hour.remaining(call.now))
        reply.headers["x-ratelimit-used"] = str(hour.used)
        reply.headers["x-ratelimit-reset"] = str(-(-hour.reset_at(call.now) // 1000))
        reply.headers["x-ratelimit-resource"] = "graphql"
        return reply

    def _read(self, call: Call) -> tuple[list[Field], dict[str, Any]]:
        sent = call.json()
        if misfit(sent, {"query": str, "variables": {}}) or not sent or sent.get("query") is None:
            raise Answer(
                JSONResponse({"message": "Problems parsing JSON", "documentation_url": DOCS}, 400)
            )
        operation = Parser(sent["query"]).operation()
        check(SCHEMA, "Query", operation.selection, [operation.kind])
        return operation.selection, fill(operation, sent.get("variables") or {})

    def _resolve(
        self, call: Call, token: Token, asked: Field, values: dict[str, Any], to: Answered
    ) -> None:
        if asked.name == "__typename":
            to.data[asked.alias] = "Query"
        elif asked.name == "rateLimit":
            to.data[asked.alias] = pick(
                asked.selection or [], "RateLimit", self._points(call, token)
            )
        else:
            self._user(call, token, asked, values, to)

    def _points(self, call: Call, token: Token) -> dict[str, Any]:
        hour = self._hours[token.login]
        left, reset = hour.remaining(call.now), as_iso(hour.reset_at(call.now))
        numbers = {"cost": 1, "limit": hour.limit, "nodeCount": 0, "remaining": left}
        return {**numbers, "used": hour.used, "resetAt": reset}

    def _user(
        self, call: Call, token: Token, asked: Field, values: dict[str, Any], to: Answered
    ) -> None:
        place = {
            "path": [asked.alias],
            "locations": [dict(zip(("line", "column"), asked.at, strict=True))],
        }
        login = token.login
        if asked.name == "user":
            login = str(value_of(asked.arguments.get("login"), values))
        person = self.people.get(login.lower())
        if person is None:
            message = f"Could not resolve to a User with the login of '{login}'."
            to.data[asked.alias] = None
            to.errors.append({"type": "NOT_FOUND", **place, "message": message})
            return
        found: dict[str, Any] = {
            "id": f"U_{person.id}",
            "databaseId": person.id,
            "login": person.login,
            "name": None,
            "email": "",
            "createdAt": f"{person.since.isoformat()}T00:00:00Z",
        }
        try:
            picked = {}
            for each in asked.selection or []:
                if each.name == "email" and not token.scopes & {"read:user", "user", "user:email"}:
                    raise Problem(_scopes("email", token), each.at, type="INSUFFICIENT_SCOPES")
                if each.name == "contributionsCollection":
                    found[each.name] = self._collection(call, token, person, each, values)
                picked.update(pick([each], "User", found))
            to.data[asked.alias] = picked
        except Problem as problem:
            to.data[asked.alias] = None
            to.errors.append({"type": "ERROR", "path": [asked.alias], **problem.error})

    def _collection(
        self, call: Call, token: Token, person: Person, asked: Field, values: dict[str, Any]
    ) -> dict[str, Any]:
        now = as_datetime(call.now)
        begin = _moment(value_of(asked.arguments.get("from"), values))
        end = _moment(value_of(asked.arguments.get("to"), values))
        if begin is None:
            begin = _year(end, -1) if end else _year(now, -1)
        if end is None:
            end = min(now, _year(begin, 1))
        if end > _year(begin, 1):
            message = "The total time spanned by 'from' and 'to' must not exceed 1 year"
            raise Problem(message, asked.at, type="VALIDATION")
        own = person.login.lower() == token.login
        return collection(person, begin, end, token.zone, call.now, own=own)


def _year(when: datetime, by: int) -> datetime:
    try:
        return when.replace(year=when.year + by)
    except ValueError:  # 29 February
        return when.replace(year=when.year + by, month=3, day=1)


def _moment(text: Any) -> datetime | None:
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        message = f"Could not coerce value {json.dumps(text)} to DateTime"
        raise Problem(message, extensions={"code": "argumentLiteralsIncompatible"}) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _scopes(field_name: str, token: Token) -> str:
    return (
        "Your token has not been granted the required scopes to execute this query. The "
        f"'{field_name}' field requires one of the following scopes: ['user:email', 'read:user'], "
        f"but your token has only been granted the: {sorted(token.scopes) or ['']} scopes. Please "
        "modify your token's scopes at: https://github.com/settings/tokens."
    )
