"""Strava's API as a sync needs it.

A number of calls that is never passed, tokens that end in the middle, limits that are read from every
answer, and refusals by name.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any

import msgspec

from duework import Throttled, http
from systems.strides.part import PER_CALL, QUOTA, SMALL, part, settings
from systems.strides.races import Activity

QUARTER, DAY = 900_000, 86_400_000
OK, UNAUTHORIZED, FORBIDDEN, MISSING = 200, 401, 403, 404
# Sports that the totals of an athlete count; the rest of what it did is in no total.
COUNTED = frozenset({"Run", "Ride", "Swim"})

Renew = Callable[[str], Awaitable[str]]


class AccessLost(Exception):
    """Strava does not let us read this athlete any more; the text says why, for the athlete."""


class ApplicationInactive(Exception):
    """Strava refuses the whole application: no athlete can do anything about it."""


class CallsSpent(Exception):
    """The page has made its calls, or the quota has no more of them."""


class Fault(msgspec.Struct, frozen=True):
    resource: str = ""
    field: str = ""
    code: str = ""


class Faults(msgspec.Struct, frozen=True):
    errors: list[Fault] = []


class Total(msgspec.Struct, frozen=True):
    count: int = 0


class Stats(msgspec.Struct, frozen=True):
    """Public activities of three sports alone."""

    all_run_totals: Total = Total()
    all_ride_totals: Total = Total()
    all_swim_totals: Total = Total()

    @property
    def total(self) -> int:
        return self.all_run_totals.count + self.all_ride_totals.count + self.all_swim_totals.count


class Detail(Activity, frozen=True):
    """What a list leaves out, and a call of its own tells."""

    description: str | None = None
    calories: float | None = None


@lru_cache(maxsize=8)
def client(base: str) -> http.Client:
    """One for each address and process: a client of its own for each call costs 31 ms."""
    return http.Client(base, timeout="20s", headers={"user-agent": "strides"})


def fault_of(reply: http.Response) -> Fault:
    """The first thing that an answer complains about."""
    try:
        found: Faults = reply.json(Faults)
    except http.HttpError:
        return Fault()
    return found.errors[0] if found.errors else Fault()


class Reader:
    """Reads one athlete for one page of a sync."""

    def __init__(
        self, token: str, renew: Renew, now: Callable[[], int], calls: int = SMALL, most: int = 0
    ) -> None:
        self._token = token
        self._renew = renew
        self._renewed = False
        self._now = now
        # Calls that were taken from the quota before; what it may make beyond them is taken one by one.
        self.left = calls
        self.most = max(calls, most)
        self.made = self.extra = 0
        # What the application has used of both windows, as the last answer says.
        self.used: dict[str, int | float] = {}

    async def activities(self, *, before: int, after: int, page: int) -> list[Activity]:
        """Newest first, started before one second and after another."""
        params = {"before": before, "page": page, "per_page": PER_CALL}
        if after:
            params["after"] = after
        reply = await self._get("/athlete/activities", params)
        found: list[Activity] = reply.json(list[Activity])
        return found

    async def activity(self, identifier: int) -> Detail | None:
        """One with its details; None if Strava does not have it, or does not show it to us."""
        reply = await self._reply(f"/activities/{identifier}", {})
        if reply.status == MISSING:
            return None
        found: Detail = _checked(reply).json(Detail)
        return found

    async def total(self, athlete: int) -> int:
        reply = await self._get(f"/athletes/{athlete}/stats", {})
        found: Stats = reply.json(Stats)
        return found.total

    async def check(self) -> None:
        """Whether we may read at all."""
        await self._get("/athlete", {})

    async def _get(self, path: str, params: dict[str, Any]) -> http.Response:
        return _checked(await self._reply(path, params))

    async def _reply(self, path: str, params: dict[str, Any]) -> http.Response:
        reply = await self._ask(path, params)
        if reply.status == UNAUTHORIZED and not self._renewed and not _scope_missing(reply):
            self._renewed = True
            self._token = await self._renew(self._token)
            reply = await self._ask(path, params)
        return reply

    async def ready(self) -> bool:
        """Whether there is another call to make; it has been taken from the quota then."""
        if self.left:
            return True
        if self.made >= self.most or not await part.app.atake_pace(QUOTA.name or ""):
            return False
        self.left += 1
        self.extra += 1
        return True

    async def _ask(self, path: str, params: dict[str, Any]) -> http.Response:
        if not await self.ready():
            raise CallsSpent
        # Counted before it is made: a call whose answer is lost was one all the same.
        self.left -= 1
        self.made += 1
        headers = {"authorization": f"Bearer {self._token}"}
        try:
            reply = await client(settings().api).get(path, params=params, headers=headers)
        except http.TooMany as refused:
            self._saw(refused.response)
            raise Throttled(self._wait(refused.response) / 1000) from refused
        self._saw(reply)
        return reply

    def _saw(self, reply: http.Response) -> None:
        limit, used = _pair(reply, "x-readratelimit-limit"), _pair(reply, "x-readratelimit-usage")
        if limit and used:
            QUOTA.saw(used=used, limit=limit)
            self.used = {"15m": used[0], "1d": used[1]}

    def _wait(self, reply: http.Response) -> int:
        """Until the window ends that is full: Strava does not say it."""
        length = DAY if any(_day_is_full(reply, kind) for kind in ("rate", "readrate")) else QUARTER
        return length - self._now() % length


def _pair(reply: http.Response, name: str) -> tuple[int, int] | None:
    first, _, second = reply.headers.get(name, "").partition(",")
    return (int(first), int(second)) if first.isdecimal() and second.isdecimal() else None


def _day_is_full(reply: http.Response, kind: str) -> bool:
    limit, used = _pair(reply, f"x-{kind}limit-limit"), _pair(reply, f"x-{kind}limit-usage")
    return bool(limit and used and used[1] >= limit[1])


def _scope_missing(reply: http.Response) -> bool:
    return fault_of(reply).code == "missing"


def _checked(reply: http.Response) -> http.Response:
    if reply.status == UNAUTHORIZED:
        if _scope_missing(reply):
            raise AccessLost(
                "the athlete did not grant activity:read; connect again and leave it on"
            )
        raise AccessLost("Strava refuses the token that it has just given; connect again")
    if reply.status == FORBIDDEN and fault_of(reply).code == "Inactive":
        raise ApplicationInactive(
            "Strava has made the application inactive: its owner's subscription has ended"
        )
    return reply.check()
