"""Which category comes next: weighted over tiers, so that none starves; pure functions of a draw.

A category is due when it was never scanned or its tier's days are over. One draw of a hundred chooses the
order in which tiers are asked; the first that has something due wins.
"""

from __future__ import annotations

DAY = 86_400_000
WEIGHTS = {"high": 90, "medium": 7, "low": 3}
STALE_DAYS = {"high": 7, "active": 7, "medium": 14, "low": 30}
ORDERS = {
    "high": (("high", "active"), ("medium",), ("low",)),
    "medium": (("medium",), ("high", "active"), ("low",)),
    "low": (("low",), ("high", "active"), ("medium",)),
}


def first_tier(draw: float) -> str:
    """The tier that is asked first, for a draw from 0 to 1."""
    roll, below = draw * 100, 0
    for tier, weight in WEIGHTS.items():
        below += weight
        if roll < below:
            return tier
    return "low"


def order(draw: float) -> tuple[tuple[str, ...], ...]:
    """The tiers in the order in which they are asked."""
    return ORDERS[first_tier(draw)]


def stale_before(tier: str, now: int) -> int:
    """What was scanned before this is due again."""
    return now - STALE_DAYS[tier] * DAY
