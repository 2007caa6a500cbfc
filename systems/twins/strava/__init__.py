"""Strava's API v3 as of 2026: OAuth, activities by pages, two windows of limits, pushes.

Limits belong to the application, not to the athlete: 15 minutes from :00, :15, :30 and :45, and the
day in UTC; calls that the short window refuses still count. A Standard-tier application connects ten
athletes, and without its owner's subscription every call is 403. From June 2027 on tokens are taken
from the header alone, and `deauthorize` is gone.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, ClassVar
from urllib.parse import urlencode

from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from systems.twins.kit.app import Answer, Call, Door, Twin
from systems.twins.kit.limits import Window
from systems.twins.strava.athletes import (
    Activity,
    Athlete,
    club,
    detail,
    history,
    person,
    stats,
    summary,
)
from systems.twins.strava.errors import error as _error
from systems.twins.strava.pushes import Pushes
from systems.twins.strava.tokens import Grant, Tokens

QUARTER, DAY = 900_000, 86_400_000
YEAR = 366 * 86_400
MOST = 200
SUNSET = int(datetime(2027, 6, 1, tzinfo=UTC).timestamp() * 1000)
SCOPES = {"read", "read_all", "profile:read_all", "profile:write"}
SCOPES |= {"activity:read", "activity:read_all", "activity:write"}


class Strava(Twin):
    name = "strava"
    about: ClassVar = "OAuth, activities by pages, read limits, pushes"

    def make_doors(self) -> list[Door]:
        api = "/api/v3"
        self.pushes = Pushes(self)
        return [
            Door("authorize", "GET", "/oauth/authorize", self._authorize),
            Door("token", "POST", "/oauth/token", self._token),
            Door("token", "POST", f"{api}/oauth/token", self._token),
            Door("revoke", "POST", "/oauth/revoke", self._revoke),
            Door("deauthorize", "POST", "/oauth/deauthorize", self._deauthorize),
            Door("athlete", "GET", f"{api}/athlete", self._athlete),
            Door("clubs", "GET", f"{api}/athlete/clubs", self._clubs),
            Door("activities", "GET", f"{api}/athlete/activities", self._activities),
            Door("activity", "GET", f"{api}/activities/{{id}}", self._activity),
            Door("stats", "GET", f"{api}/athletes/{{id}}/stats", self._stats),
            Door("push.create", "POST", f"{api}/push_subscriptions", self.pushes.subscribe),
            Door("push.list", "GET", f"{api}/push_subscriptions", self.pushes.show),
            Door(
                "push.delete", "DELETE", f"{api}/push_subscriptions/{{id}}", self.pushes.unsubscribe
            ),
        ]

    def start_over(self) -> None:
        self.client_id, self.client_secret = "12345", "strava-secret"
        self.active, self.rotate, self.most_athletes = True, True, 10
        self.tokens = Tokens(self.token)
        self.athletes: dict[int, Athlete] = {}
        # What these athletes grant, whatever is asked; nothing is a refusal.
        self.choices: dict[int, frozenset[str]] = {}
        self.last_id = 120_474
        self.pushes.start_over()
        self.set_limits()
        for n in range(1, 13):
            self.add_athlete(5000 + n, 10_000 if n <= 3 else 400)

    def samples(self) -> dict[str, str]:
        ids = {"client_id": self.client_id, "client_secret": self.client_secret}
        return {**ids, "athletes": f"{min(self.athletes)} to {max(self.athletes)}"}

    def switches(self) -> Mapping[str, Callable[..., object]]:
        return {
            "add_athlete": self.add_athlete,
            "add_activity": self.add_activity,
            "edit_activity": self.edit_activity,
            "delete_activity": self.delete_activity,
            "list_activities": self.list_activities,
            "connect": self.connect,
            "choose": self.choose,
            "expire": self.expire,
            "set_active": self.set_active,
            "set_limits": self.set_limits,
        }

    # Switches.

    def set_limits(
        self,
        overall: tuple[int, int] = (200, 2000),
        read: tuple[int, int] = (100, 1000),
    ) -> None:
        """Per quarter of an hour and per day."""
        self._windows = {
            kind: (Window(most[0], QUARTER, aligned=True), Window(most[1], DAY, aligned=True))
            for kind, most in (("overall", overall), ("read", read))
        }

    def add_athlete(self, id: int, count: int = 0) -> None:
        """An athlete with so many activities behind it."""
        first, last, zone = person(id)
        make = partial(history, id, zone, count, self.now(), self.seed)
        self.athletes[id] = Athlete(id, first, last, zone, make)

    def add_activity(
        self,
        athlete: int,
        start: int,
        name: str = "Morning Run",
        workout: int | None = None,
        *,
        private: bool = False,
    ) -> int:
        """Something new, which is pushed; returns its id."""
        self.last_id += 1
        id_ = 95_000_000_000 + self.last_id
        one = Activity(id_, start, name, "Run", 10_012.0, 3000, workout, private)
        self.athletes[athlete].add(one)
        self.pushes.push(athlete, "activity", id_, "create", {})
        return id_

    def edit_activity(self, athlete: int, id: int, name: str) -> None:
        one = next(each for each in self.athletes[athlete].activities if each.id == id)
        one.name = name
        self.pushes.push(athlete, "activity", id, "update", {"title": name})

    def delete_activity(self, athlete: int, id: int) -> None:
        found = self.athletes[athlete]
        found.activities[:] = [each for each in found.activities if each.id != id]
        self.pushes.push(athlete, "activity", id, "delete", {})

    def list_activities(self, athlete: int, *, private: bool = True) -> list[dict[str, Any]]:
        """What an athlete has, newest first, in few words: no call of the API, and no limit."""
        return [
            {"id": one.id, "start": one.start, "name": one.name, "workout": one.workout}
            for one in self.athletes[athlete].activities
            if private or not one.private
        ]

    def connect(self, athlete: int, scope: str = "read,activity:read_all") -> dict[str, Any]:
        """Tokens for an athlete without a browser: what the exchange of a code would answer."""
        code = self.tokens.code(athlete, frozenset(scope.split(",")), self.now())
        grant = self.tokens.exchange(code, self.now())
        assert grant is not None
        return self._granted(grant, self.now())

    def choose(self, athlete: int, scope: str) -> None:
        """What an athlete grants from now on: other scopes than were asked, or nothing."""
        self.choices[athlete] = frozenset(scope.split(",")) if scope else frozenset()

    def expire(self, athlete: int, after_calls: int = 0) -> None:
        """End an athlete's access tokens early, at once or after so many calls."""
        grant = self.tokens.grants[athlete]
        if after_calls:
            grant.calls_left = after_calls
        else:
            self.tokens.expire(grant, self.now())

    def set_active(self, *, active: bool) -> None:
        """Whether the application's owner pays for its subscription."""
        self.active = active

    # Refusals.

    def refusal(self, status: int) -> Response:
        if status == 429:
            return _error(
                429, "Rate Limit Exceeded", "Application", "overall rate limit", "exceeded"
            )
        if status == 404:
            return _error(404, "Record Not Found", "Resource", "id", "not found")
        if status == 401:
            return _error(401, "Authorization Error", "Athlete", "access_token", "invalid")
        return _error(status, "error", "Application", "internal", "error")

    def _admit(self, call: Call, *, scope: str | None = None) -> tuple[Grant, Athlete]:
        """Who asks, if the application, its limits and the scope allow it."""
        self._alive()
        token = call.bearer()
        if token is None and call.now < SUNSET:
            token = call.fields().get("access_token")
        grant = self.tokens.holder(str(token), call.now)
        if grant is None:
            raise Answer(self.refusal(401))
        call.note(athlete=grant.athlete)
        self._meter(call, read=call.request.method == "GET")
        if scope is not None and not grant.scopes & {scope, f"{scope}_all"}:
            reply = _error(
                401, "Authorization Error", "AccessToken", f"{scope}_permission", "missing"
            )
            raise Answer(self._reply(call, reply))
        self.tokens.spend(grant, call.now)
        return grant, self.athletes[grant.athlete]

    def _alive(self) -> None:
        if not self.active:
            errors = [{"resource": "Application", "field": "Status", "code": "Inactive"}]
            raise Answer(JSONResponse({"errors": errors}, 403))

    def _meter(self, call: Call, *, read: bool) -> None:
        kinds = ("read", "overall") if read else ("overall",)
        windows = [(kind, window) for kind in kinds for window in self._windows[kind]]
        full = [(kind, window) for kind, window in windows if window.full(call.now)]
        for _, window in windows:
            window.use(call.now)
        if full:
            kind, window = full[0]
            call.limited(window)
            field = f"{kind} rate limit"
            reply = _error(429, "Rate Limit Exceeded", "Application", field, "exceeded")
            raise Answer(self._reply(call, reply))

    def _reply(self, call: Call, reply: Response) -> Response:
        for kind, header in (("overall", "x-ratelimit"), ("read", "x-readratelimit")):
            windows = self._windows[kind]
            for window in windows:
                window.roll(call.now)
            reply.headers[f"{header}-limit"] = ",".join(str(window.limit) for window in windows)
            reply.headers[f"{header}-usage"] = ",".join(str(window.used) for window in windows)
        return reply

    # OAuth.

    def _authorize(self, call: Call) -> Response:
        """A page that lets a person choose who to be; `as` chooses at once."""
        query = call.query
        if query.get("client_id") != self.client_id:
            return _error(400, "Bad Request", "Application", "client_id", "invalid")
        if not query.get("redirect_uri"):
            return _error(400, "Bad Request", "Application", "redirect_uri", "invalid")
        asked = frozenset(query.get("scope", "read").replace(" ", ",").split(","))
        if query.get("response_type") != "code" or not asked <= SCOPES:
            return _error(400, "Bad Request", "Authorize", "scope", "invalid")
        if "as" not in query:
            return HTMLResponse(self._people(call))
        athlete = int(query["as"]) if query["as"].isdecimal() else 0
        if athlete not in self.athletes:
            return _error(404, "Record Not Found", "Athlete", "id", "not found")
        self._room(athlete)
        granted = self.choices.get(athlete, asked)
        back = {"state": query.get("state", "")}
        if granted:
            code = self.tokens.code(athlete, granted, call.now)
            back |= {"code": code, "scope": ",".join(sorted(granted))}
        else:
            back["error"] = "access_denied"
        mark = "&" if "?" in query["redirect_uri"] else "?"
        return RedirectResponse(query["redirect_uri"] + mark + urlencode(back), 302)

    def _people(self, call: Call) -> str:
        links = [
            f'<li><a href="?{html.escape(urlencode([*call.query.multi_items(), ("as", each.id)]))}">'
            f"{each.firstname} {each.lastname}</a></li>"
            for each in self.athletes.values()
        ]
        return f"<!doctype html><title>Strava twin</title><h1>Be</h1><ul>{''.join(links)}</ul>"

    def _room(self, athlete: int) -> None:
        full = len(self.tokens.grants) >= self.most_athletes
        if full and athlete not in self.tokens.grants:
            message = "Limit of connected athletes exceeded"
            raise Answer(_error(403, message, "Application", "connected athletes", "exceeded"))

    def _token(self, call: Call) -> Response:
        self._alive()
        sent = call.fields()
        if str(sent.get("client_id")) != self.client_id:
            return _error(400, "Bad Request", "Application", "client_id", "invalid")
        if sent.get("client_secret") != self.client_secret:
            return _error(400, "Bad Request", "Application", "client_secret", "invalid")
        if sent.get("grant_type") == "authorization_code":
            code = str(sent.get("code"))
            if code in self.tokens.codes:
                self._room(self.tokens.codes[code].athlete)
            grant = self.tokens.exchange(code, call.now)
            if grant is None:
                return _error(400, "Bad Request", "AuthorizationCode", "code", "invalid")
            self.ledger.add("grant", call.now, athlete=grant.athlete, scopes=sorted(grant.scopes))
            athlete = self.athletes[grant.athlete].as_json()
            return JSONResponse({**self._granted(grant, call.now), "athlete": athlete})
        if sent.get("grant_type") == "refresh_token":
            token = str(sent.get("refresh_token"))
            grant = self.tokens.refresh(token, call.now, rotate=self.rotate)
            if grant is None:
                return _error(400, "Bad Request", "RefreshToken", "refresh_token", "invalid")
            self.ledger.add("refresh", call.now, athlete=grant.athlete)
            return JSONResponse(self._granted(grant, call.now))
        return _error(400, "Bad Request", "Application", "grant_type", "invalid")

    def _granted(self, grant: Grant, now: int) -> dict[str, Any]:
        until = grant.ends[grant.access] // 1000
        return {
            "token_type": "Bearer",
            "expires_at": until,
            "expires_in": until - now // 1000,
            "refresh_token": grant.refresh,
            "access_token": grant.access,
        }

    def _revoke(self, call: Call) -> Response:
        if call.basic() != (self.client_id, self.client_secret):
            return _error(401, "Authorization Error", "Application", "client_id", "invalid")
        self._forget(call, str(call.fields().get("token")))
        # Whether or not it was known, as RFC 7009 has it.
        return Response(status_code=200)

    def _deauthorize(self, call: Call) -> Response:
        if call.now >= SUNSET:
            return self.refusal(404)
        token = call.bearer() or str(call.fields().get("access_token"))
        if self.tokens.holder(token, call.now) is None:
            return self.refusal(401)
        self._forget(call, token)
        return self._reply(call, JSONResponse({"access_token": token}))

    def _forget(self, call: Call, token: str) -> None:
        grant = self.tokens.revoke(token)
        if grant is not None:
            self.ledger.add("revoke", call.now, athlete=grant.athlete)
            id_ = grant.athlete
            self.pushes.push(id_, "athlete", id_, "update", {"authorized": "false"})

    # What athletes did.

    def _athlete(self, call: Call) -> Response:
        _, athlete = self._admit(call)
        return self._reply(call, JSONResponse(athlete.as_json()))

    def _clubs(self, call: Call) -> Response:
        _, athlete = self._admit(call)
        return self._reply(call, JSONResponse([club(id_) for id_ in athlete.clubs]))

    def _stats(self, call: Call) -> Response:
        _, athlete = self._admit(call)
        if call.part("id") != str(athlete.id):
            reply = _error(403, "Forbidden", "Athlete", "id", "invalid")
            return self._reply(call, reply)
        return self._reply(call, JSONResponse(stats(athlete, call.now)))

    def _activity(self, call: Call) -> Response:
        grant, athlete = self._admit(call, scope="activity:read")
        for one in athlete.activities:
            if str(one.id) == call.part("id") and (_sees_all(grant) or not one.private):
                return self._reply(call, JSONResponse(detail(athlete, one)))
        reply = _error(404, "Record Not Found", "Activity", "id", "not found")
        return self._reply(call, reply)

    def _activities(self, call: Call) -> Response:
        grant, athlete = self._admit(call, scope="activity:read")
        page, size = self._number(call, "page", 1), self._number(call, "per_page", 30)
        if size > MOST:
            reply = _error(400, "Bad Request", "Application", "per page", "limit exceeded")
            raise Answer(self._reply(call, reply))
        before, after = self._time(call, "before"), self._time(call, "after")
        chosen = [
            one
            for one in athlete.activities
            if (before is None or one.start < before) and (after is None or one.start > after)
        ]
        if after is not None and before is None:
            chosen.reverse()
        found: list[Activity] = []
        # A page is cut first, and what the scope hides is left out then: so pages are short. Only
        # the end is empty.
        for start in range((page - 1) * size, len(chosen), size):
            cut = chosen[start : start + size]
            found = [one for one in cut if _sees_all(grant) or not one.private]
            if found:
                break
        call.note(page=page, before=before, items=len(found))
        return self._reply(call, JSONResponse([summary(athlete, one) for one in found]))

    def _number(self, call: Call, name: str, otherwise: int) -> int:
        text = call.query.get(name, str(otherwise))
        if not text.isdecimal() or not int(text):
            reply = _error(400, "Bad Request", "Application", name, "invalid")
            raise Answer(self._reply(call, reply))
        return int(text)

    def _time(self, call: Call, name: str) -> int | None:
        text = call.query.get(name)
        if text is None:
            return None
        if not text.lstrip("-").isdecimal():
            reply = _error(400, "Bad Request", "Application", name, "invalid")
            raise Answer(self._reply(call, reply))
        if int(text) > call.now // 1000 + YEAR:
            # Milliseconds, most of the time.
            reply = _error(400, "Bad Request", "Application", name, "future")
            raise Answer(self._reply(call, reply))
        return int(text)


def _sees_all(grant: Grant) -> bool:
    return "activity:read_all" in grant.scopes
