"""Every score as a pure function of its inputs, from 0 to 100; the ledger keeps exactly these inputs.

docs/agents.md says what each means. `recompute` is for whoever wants to check a row of the ledger.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from systems.scout.crawl.tiers import DAY

Inputs = Mapping[str, Any]

TWO_YEARS, YEAR = 730, 365
FINE_STARS = 4.0
WEIGHTS = {"demand": 0.35, "competition": 0.25, "fragmentation": 0.2, "design": 0.2}
# Searches are good for two weeks; afterwards what they say fades by half in two months.
GOOD_FOR, HALF_LIFE = 14, 60


def half_up(value: float, digits: int = 1) -> float:
    """Halves go up, as people expect."""
    scale: int = 10**digits
    return math.floor(value * scale + 0.5) / scale


def days_since(text: str | None, now: int) -> int | None:
    """Whole days since a date that Apple wrote."""
    if not text:
        return None
    try:
        then = datetime.fromisoformat(text).timestamp() * 1000
    except ValueError:
        return None
    return max(0, int(now - then) // DAY)


def decay(days: int | None) -> float:
    """What a search of so many days ago is still worth, from 0 to 1."""
    if days is None:
        return 0.0
    return float(0.5 ** (max(0, days - GOOD_FOR) / HALF_LIFE))


def competitiveness(given: Inputs) -> float:
    """Of an app: from nobody to be afraid of up to a giant."""
    count, days, place = given["rating_count"], given["days_since_update"], given["best_place"]
    ratings = min(1.0, math.log10(1 + count) / 6)
    stars = min(1.0, max(0.0, (given["average_rating"] - 3) / 2)) if count else 0.0
    fresh = 0.0 if days is None else max(0.0, 1 - days / TWO_YEARS)
    chart = 0.0 if place is None else max(0.0, 1 - (place - 1) / 200)
    return half_up(45 * ratings + 25 * stars + 15 * fresh + 15 * chart)


def demand(given: Inputs) -> float:
    """Of a keyword or a cluster: how many people rate what is found there, and how fresh that is."""
    wanted = min(1.0, math.log10(1 + given["ratings"]) / 7)
    return half_up(100 * wanted * decay(given["searched_days"]))


def competition(given: Inputs) -> float:
    """Of a cluster: how weak its best known apps are."""
    strengths = given["strengths"]
    return half_up(100 - sum(strengths) / len(strengths)) if strengths else 100.0


def fragmentation(given: Inputs) -> float:
    """Of a cluster: what the three best known apps leave of the ratings to others."""
    total = given["ratings"]
    return half_up(100 * (1 - given["of_the_three_largest"] / total)) if total else 0.0


def design(given: Inputs) -> float:
    """Of a cluster: how many of its best known apps have few stars, or were not updated for a year."""
    stars = given["stars"]
    return half_up(50 * (unhappy(stars) + stale(given["days"])) / len(stars)) if stars else 100.0


def concept(given: Inputs) -> float:
    """Of an idea: how much a keyword is wanted, times how weak the apps are that are found first."""
    return half_up(demand(given) * (100 - given["strength"]) / 100)


def unhappy(stars: list[float]) -> int:
    return sum(each < FINE_STARS for each in stars)


def stale(days: list[int | None]) -> int:
    return sum(each is None or each > YEAR for each in days)


def total(parts: Mapping[str, float]) -> float:
    """Of a cluster: the weighted sum of its four parts."""
    return half_up(sum(WEIGHTS[name] * parts[name] for name in WEIGHTS))


# The agent that is responsible for each part of a cluster's score.
AGENTS = {
    "demand": "demand",
    "competition": "competitiveness",
    "fragmentation": "fragmentation",
    "design": "design",
}
FORMULAS: dict[tuple[str, str], Callable[[Inputs], float]] = {
    ("app", "competitiveness"): competitiveness,
    ("keyword", "demand"): demand,
    ("cluster", "demand"): demand,
    ("cluster", "competitiveness"): competition,
    ("cluster", "fragmentation"): fragmentation,
    ("cluster", "design"): design,
}


def recompute(kind: str, agent: str, inputs: Inputs) -> float:
    """The score that belongs to these inputs."""
    return FORMULAS[kind, agent](inputs)
