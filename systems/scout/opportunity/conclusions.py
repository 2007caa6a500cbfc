"""What follows from facts and a verdict: reference apps, scores of marketing methods, tips. Pure functions.

    search    how many of the keywords have a first app that is weaker than 50
    product   the cluster's design: how badly people are served
    niche     the cluster's fragmentation: how much room the large ones leave
    price     how many of the leaders ask for money
    charts    how many of the leaders are in no chart, so that a place is to be had

Each from 0 to 100, with its inputs; the best two become tips, after those of the judge.
"""

from __future__ import annotations

from typing import Any

from systems.scout.evaluate import half_up

WEAK, REFERENCES, TIPS = 50, 5, 5
ADVICE = {
    "search": "Be found by search: the first apps for these keywords are weak",
    "product": "Be better where the leaders are poor or not updated",
    "niche": "Serve one group well: no app holds the market",
    "price": "Ask for less, or ask otherwise: leaders ask for money",
    "charts": "Aim at a place in a chart: leaders have none",
}
# The part of the score whose facts a method rests on.
RESTS_ON = {
    "search": "demand",
    "product": "design",
    "niche": "fragmentation",
    "price": "competition",
    "charts": "competition",
}


def method_scores(known: dict[str, Any]) -> dict[str, tuple[float, dict[str, Any]]]:
    """Every method with its score and what that was computed from."""
    leaders, words, parts = known["leaders"], known["words"], known["parts"]
    weak = [w["keyword"] for w in words if w["strength"] is None or w["strength"] < WEAK]
    paid = [each["id"] for each in leaders if each["price"]]
    uncharted = [each["id"] for each in leaders if each["best_place"] is None]
    return {
        "search": (share(weak, words), {"keywords": len(words), "with_a_weak_first": weak[:10]}),
        "product": (parts["design"], {"design": parts["design"]}),
        "niche": (parts["fragmentation"], {"fragmentation": parts["fragmentation"]}),
        "price": (share(paid, leaders), {"leaders": len(leaders), "paid": paid}),
        "charts": (share(uncharted, leaders), {"leaders": len(leaders), "in_no_chart": uncharted}),
    }


def share(some: list[Any], of: list[Any]) -> float:
    return half_up(100 * len(some) / len(of)) if of else 0.0


def reference_apps(known: dict[str, Any]) -> list[tuple[int, str]]:
    """The apps to look at, and what for: whom people choose, and who disappoints them."""
    leaders = known["leaders"]
    chosen = [
        (each["id"], f"chosen most: {each['ratings']:,} ratings") for each in leaders[:REFERENCES]
    ]
    poor = sorted(
        (each for each in leaders[REFERENCES:] if each["stars"] and each["stars"] < 4),  # noqa: PLR2004 - stars
        key=lambda each: (each["stars"], each["id"]),
    )
    return chosen + [(each["id"], f"disappoints: {each['stars']:.1f} stars") for each in poor[:3]]


def tips(known: dict[str, Any], of_judge: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The judge's own, then advice for the methods that score best; each with its facts."""
    scores = method_scores(known)
    best = sorted(scores, key=lambda name: (-scores[name][0], name))[:2]
    ours = [
        {
            "text": f"{ADVICE[name]} ({name} {scores[name][0]:g} of 100)",
            "facts": _facts(known, name),
        }
        for name in best
    ]
    return [*of_judge, *ours][:TIPS]


def _facts(known: dict[str, Any], method: str) -> list[int]:
    return [n for n, fact in enumerate(known["facts"]) if fact["part"] == RESTS_ON[method]]
