"""The people of the GitHub twin and their contributions, day by day."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any

COLORS = ["#9be9a8", "#40c463", "#30a14e", "#216e39"]
LEVELS = ["FIRST_QUARTILE", "SECOND_QUARTILE", "THIRD_QUARTILE", "FOURTH_QUARTILE"]


@dataclass(slots=True)
class Person:
    login: str
    id: int
    since: date
    # Chosen in the profile: counts of private contributions are shown to everybody.
    shows_private: bool = False
    public: dict[date, int] = field(default_factory=dict)
    private: dict[date, int] = field(default_factory=dict)
    # Days that have not reached the calendar yet, and when they do.
    late: dict[date, int] = field(default_factory=dict)

    # How to invent a history, once somebody asks for it.
    history: Callable[[], dict[date, int]] | None = None

    def invent(self) -> None:
        if self.history is not None:
            # What was set before counts.
            self.public, self.history = self.history() | self.public, None

    def counts(self, first: date, last: date, now: int, *, own: bool) -> dict[date, int]:
        """What the viewer sees of each day."""
        self.invent()
        seen = {}
        for n in range((last - first).days + 1):
            day = first + timedelta(days=n)
            hidden = day < self.since or self.late.get(day, 0) > now
            count = 0 if hidden else self.public.get(day, 0)
            if not hidden and (own or self.shows_private):
                count += self.private.get(day, 0)
            seen[day] = count
        return seen


def invent(login: str, seed: int, today: date, days: int = 1200) -> dict[date, int]:
    """A plausible history: busy weeks, idle weekends, a streak that ends today or not."""
    draw = random.Random(f"{seed}/{login}")
    busy = draw.uniform(0.3, 0.95)
    found = {}
    for n in range(days):
        day = today - timedelta(days=n)
        chance = busy * (0.5 if day.weekday() >= 5 else 1)
        if draw.random() < chance:
            found[day] = 1 + int(draw.expovariate(0.35))
    return found


def calendar(counts: Mapping[date, int]) -> dict[str, Any]:
    """The whole of a ContributionCalendar; its weeks begin on Sunday, the first one may be short."""
    top = max([*counts.values(), 1])
    weeks: list[dict[str, Any]] = []
    for day, count in sorted(counts.items()):
        weekday = day.isoweekday() % 7
        if not weeks or weekday == 0:
            weeks.append({"firstDay": day.isoformat(), "contributionDays": []})
        quarter = min(3, (count * 4 - 1) // top) if count else None
        weeks[-1]["contributionDays"].append(
            {
                "date": day.isoformat(),
                "weekday": weekday,
                "contributionCount": count,
                "contributionLevel": "NONE" if quarter is None else LEVELS[quarter],
                "color": "#ebedf0" if quarter is None else COLORS[quarter],
            }
        )
    return {
        "totalContributions": sum(counts.values()),
        "colors": COLORS,
        "isHalloween": False,
        "months": _months(weeks),
        "weeks": weeks,
    }


def _months(weeks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found: dict[tuple[int, int], dict[str, Any]] = {}
    for week in weeks:
        first = date.fromisoformat(week["firstDay"])
        begin = first.replace(day=1).isoformat()
        month = {"firstDay": begin, "name": first.strftime("%b"), "totalWeeks": 0}
        found.setdefault((first.year, first.month), {**month, "year": first.year})
        found[first.year, first.month]["totalWeeks"] += 1
    return list(found.values())


def collection(
    person: Person, begin: datetime, end: datetime, zone: tzinfo, now: int, *, own: bool
) -> dict[str, Any]:
    """The whole of a ContributionsCollection; a zone decides which days there are."""
    first, last = begin.astimezone(zone).date(), end.astimezone(zone).date()
    counts = person.counts(first, last, now, own=own)
    today = datetime.fromtimestamp(now / 1000, zone)
    restricted = {}
    if person.shows_private and not own:
        restricted = {day: n for day, n in person.private.items() if first <= day <= last and n}
    total = sum(counts.values()) - sum(restricted.values())
    active = {day.year for day, n in {**person.public, **person.private}.items() if n}
    return {
        "contributionCalendar": calendar(counts),
        "contributionYears": sorted(active | {person.since.year}, reverse=True),
        "startedAt": begin.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "endedAt": end.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "isSingleDay": first == last,
        "doesEndInCurrentMonth": (last.year, last.month) == (today.year, today.month),
        "hasActivityInThePast": any(n for day, n in person.public.items() if day < first),
        "hasAnyContributions": any(counts.values()),
        "hasAnyRestrictedContributions": bool(restricted),
        "restrictedContributionsCount": sum(restricted.values()),
        "earliestRestrictedContributionDate": min(restricted).isoformat() if restricted else None,
        "latestRestrictedContributionDate": max(restricted).isoformat() if restricted else None,
        "totalCommitContributions": total,
        "totalIssueContributions": 0,
        "totalPullRequestContributions": 0,
        "totalPullRequestReviewContributions": 0,
        "totalRepositoryContributions": 0,
    }
