"""The fault plan: which calls of which route go wrong, and how.

    [{"route": "emails.send", "calls": "3", "do": "drop_after"},
     {"route": "emails.*", "calls": "2..5", "do": "status", "status": 503},
     {"route": "*", "calls": "10%", "do": "delay", "seconds": 0.2}]

A rule counts the calls that its route matches, from the moment the plan is set. Where several rules
hit one call, the first of the list wins. A share is drawn from the plan's seed, so a run can be
repeated. `effect` says whether the call takes effect before it goes wrong; what is ambiguous for a
client is a call that did and whose reply it never saw.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

# What can be done, and whether the call takes effect first unless the rule says otherwise.
DEEDS = {
    "status": False,  # answers `status`, with the upstream's own error body where there is one
    "delay": False,  # waits `seconds`, then answers as usual
    "drop_before": False,  # closes the connection; nothing happened
    "drop_after": True,  # does what was asked, and closes the connection instead of answering
    "malformed": True,  # answers half of the body
    "slow_body": True,  # answers the body in pieces, over `seconds`
    "cut": True,  # answers half of the body, and closes the connection
    "never": False,  # holds the connection and says nothing
}
FIXED = {"drop_before", "drop_after"}
KEYS = {"route", "calls", "do", "effect", "status", "seconds", "body", "headers"}


class BadPlan(ValueError):
    """The plan cannot be used; the one before it still holds."""


@dataclass(frozen=True, slots=True)
class Fault:
    do: str
    effect: bool
    status: int = 500
    seconds: float = 1.0
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Rule:
    route: str
    calls: str
    fault: Fault
    first: int
    last: float
    share: float | None
    draw: random.Random
    seen: int = 0

    def hits(self, route: str) -> bool:
        if not fnmatchcase(route, self.route):
            return False
        self.seen += 1
        if self.share is not None:
            return self.draw.random() < self.share
        return self.first <= self.seen <= self.last

    def as_json(self) -> dict[str, Any]:
        return {
            "route": self.route,
            "calls": self.calls,
            "do": self.fault.do,
            "effect": self.fault.effect,
            "seen": self.seen,
        }


class Plan:
    """The rules of one twin."""

    def __init__(self, routes: Iterable[str], seed: int = 0) -> None:
        self._routes = sorted(routes)
        self._seed = seed
        self.rules: list[Rule] = []

    def set(self, rules: object, seed: int | None = None) -> None:
        """Replace the plan; a rule that makes no sense raises BadPlan and changes nothing."""
        if not isinstance(rules, Sequence) or isinstance(rules, str):
            raise BadPlan("a plan is a list of rules")
        use = self._seed if seed is None else seed
        self.rules = [self._rule(number, each, use) for number, each in enumerate(rules, 1)]
        self._seed = use

    def take(self, route: str) -> Fault | None:
        """What goes wrong with this call. Every rule that matches counts it."""
        hits = [rule.fault for rule in self.rules if rule.hits(route)]
        return hits[0] if hits else None

    def _rule(self, number: int, rule: object, seed: int) -> Rule:
        if not isinstance(rule, dict):
            raise BadPlan(f"rule {number} is not an object")
        if unknown := sorted(set(rule) - KEYS):
            raise BadPlan(f"rule {number} has an unknown {unknown[0]!r}; known: {sorted(KEYS)}")
        route = rule.get("route", "*")
        if not isinstance(route, str) or not any(fnmatchcase(r, route) for r in self._routes):
            raise BadPlan(f"rule {number}: no route is {route!r}; there are {self._routes}")
        calls = str(rule.get("calls", "1.."))
        first, last, share = _calls(number, calls)
        draw = random.Random(f"{seed}/{number}")
        return Rule(route, calls, _fault(number, rule), first, last, share, draw)


def _calls(number: int, text: str) -> tuple[int, float, float | None]:
    if found := re.fullmatch(r"(\d+(?:\.\d+)?)%", text):
        if float(found[1]) > 100:
            raise BadPlan(f"rule {number}: {text} is more than every call")
        return 1, 0, float(found[1]) / 100
    if found := re.fullmatch(r"(\d+)(\.\.(\d*))?", text):
        first = int(found[1])
        last = first if found[2] is None else int(found[3] or 0) or float("inf")
        if 1 <= first <= last:
            return first, last, None
    raise BadPlan(
        f'rule {number}: calls is {text!r}; it should be like "3", "2..5", "2.." or "10%"'
    )


def _fault(number: int, rule: dict[str, Any]) -> Fault:
    do = rule.get("do")
    if do not in DEEDS:
        raise BadPlan(f"rule {number}: do is {do!r}; it should be one of {', '.join(DEEDS)}")
    effect = rule.get("effect", DEEDS[do])
    if not isinstance(effect, bool) or (do in FIXED and effect != DEEDS[do]):
        raise BadPlan(f"rule {number}: effect cannot be {effect!r} with {do}")
    status, seconds = rule.get("status", 500), rule.get("seconds", 1.0)
    if not isinstance(status, int) or not 100 <= status <= 599:
        raise BadPlan(f"rule {number}: {status!r} is no status")
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or seconds < 0:
        raise BadPlan(f"rule {number}: {seconds!r} is no number of seconds")
    headers = rule.get("headers", {})
    if not isinstance(headers, dict) or not all(isinstance(v, str) for v in headers.values()):
        raise BadPlan(f"rule {number}: headers are texts by name")
    return Fault(do, effect, status, float(seconds), rule.get("body"), headers)
