"""Strava's grants: codes, access tokens that live six hours, and refresh tokens that rotate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

LIFE = 6 * 3_600_000
# A token with more than this left is given again.
REUSE = 3_600_000
CODE_LIFE = 600_000


@dataclass(slots=True)
class Code:
    athlete: int
    scopes: frozenset[str]
    until: int


@dataclass(slots=True)
class Grant:
    """What one athlete allowed: the scopes, the newest tokens, and older ones that still live."""

    athlete: int
    scopes: frozenset[str]
    refresh: str
    access: str
    # When each access token ends; rotation leaves the older ones alive.
    ends: dict[str, int] = field(default_factory=dict)
    # Calls until the tokens end early, for those who want to see it in the middle of a page.
    calls_left: int | None = None


class Tokens:
    def __init__(self, draw: Callable[[str], str]) -> None:
        self._draw = draw
        self.codes: dict[str, Code] = {}
        self.grants: dict[int, Grant] = {}

    def code(self, athlete: int, scopes: frozenset[str], now: int) -> str:
        code = self._draw("")
        self.codes[code] = Code(athlete, scopes, now + CODE_LIFE)
        return code

    def exchange(self, code: str, now: int) -> Grant | None:
        """A code is good for one exchange."""
        found = self.codes.pop(code, None)
        if found is None or found.until <= now:
            return None
        access = self._draw("a")
        grant = Grant(found.athlete, found.scopes, self._draw("r"), access, {access: now + LIFE})
        self.grants[found.athlete] = grant
        return grant

    def refresh(self, token: str, now: int, *, rotate: bool) -> Grant | None:
        """New tokens, or the same ones while they have more than an hour left."""
        grant = next((each for each in self.grants.values() if each.refresh == token), None)
        if grant is None or grant.ends[grant.access] - now > REUSE:
            return grant
        grant.access = self._draw("a")
        grant.ends[grant.access] = now + LIFE
        if rotate:
            # From here on the old one is dead: who did not store the new one has lost the grant.
            grant.refresh = self._draw("r")
        return grant

    def holder(self, access: str, now: int) -> Grant | None:
        for grant in self.grants.values():
            if grant.ends.get(access, 0) > now:
                return grant
        return None

    def spend(self, grant: Grant, now: int) -> None:
        """One more call with this grant's token."""
        if grant.calls_left is not None:
            grant.calls_left -= 1
            if grant.calls_left <= 0:
                self.expire(grant, now)

    def expire(self, grant: Grant, now: int) -> None:
        grant.ends = {token: min(end, now) for token, end in grant.ends.items()}
        grant.calls_left = None

    def revoke(self, token: str) -> Grant | None:
        """Either of the tokens ends both."""
        for grant in self.grants.values():
            if token == grant.refresh or token in grant.ends:
                return self.grants.pop(grant.athlete)
        return None
