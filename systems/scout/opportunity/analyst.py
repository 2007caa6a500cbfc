"""A rule-based analyst: facts from rows, what speaks for it, what against it, and a verdict.

It invents nothing. A claim is a sentence with the rows it comes from; the two speakers only choose among the
facts, and the judge repeats the arithmetic of the score. The same facts give the same debate.
"""

from __future__ import annotations

import json
from typing import Any

from systems.scout.evaluate.formulas import WEIGHTS

BUILD, WATCH = 60, 45
GOOD = 50
# What each part says when it is high, and when it is low.
SAYS = {
    "demand": ("people rate these apps a lot", "few people rate these apps"),
    "competition": ("the leaders are weak", "the leaders are strong"),
    "fragmentation": ("no three apps hold the market", "three apps hold most of the ratings"),
    "design": ("people are not served well", "people are served well"),
}


def facts(
    cluster: Any, inputs: dict[str, Any], leaders: list[Any], words: list[Any]
) -> list[dict[str, Any]]:
    """What the rows say, each with where it comes from."""
    ids = [row.track_id for row in leaders]
    poor = [row for row in leaders if row.average_rating < 4]  # noqa: PLR2004 - stars
    total, giants = inputs["ratings"], inputs["of_the_three_largest"]
    share = 100 * giants // total if total else 0
    stale, count = inputs["leaders_not_updated_for_a_year"], len(leaders)
    return [
        fact("demand", f"{total:,} ratings over {cluster.apps} apps", ids),
        fact(
            "demand",
            f"{len(words)} keywords lead here, most of all “{cluster.name}”",
            words=[row.keyword for row in words[:5]],
        ),
        fact(
            "competition",
            f"the {count} best known apps have a mean strength of {inputs['mean_strength']:g} of 100",
            ids,
        ),
        fact("fragmentation", f"the three largest hold {share} % of the ratings", ids[:3]),
        fact(
            "design",
            f"{len(poor)} of {count} leaders have fewer than four stars",
            [row.track_id for row in poor] or ids,
        ),
        fact("design", f"{stale} of {count} leaders were not updated for a year", ids),
    ]


def fact(
    part: str, text: str, apps: list[int] | None = None, words: list[str] | None = None
) -> dict[str, Any]:
    return {"part": part, "text": text, "apps": apps or [], "keywords": words or []}


def bull(parts: dict[str, float], known: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What speaks for it: the parts that are high, with their facts."""
    return _argue(parts, known, high=True)


def bear(parts: dict[str, float], known: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What speaks against it."""
    return _argue(parts, known, high=False)


def _argue(
    parts: dict[str, float], known: list[dict[str, Any]], *, high: bool
) -> list[dict[str, Any]]:
    chosen = sorted(
        (name for name in SAYS if (parts[name] >= GOOD) == high),
        key=lambda name: -parts[name] if high else parts[name],
    )
    return [
        {
            "part": name,
            "text": f"{SAYS[name][0 if high else 1]}: {name} {parts[name]:g} of 100",
            "facts": [number for number, each in enumerate(known) if each["part"] == name],
            "answers": [],
        }
        for name in chosen
    ]


def ruling(
    parts: dict[str, float], pro: list[dict[str, Any]], contra: list[dict[str, Any]]
) -> dict[str, Any]:
    """The judge's turn: the verdict, with the sum that leads to it."""
    score = parts["score"]
    terms = " + ".join(f"{WEIGHTS[name]:.0%} of {name} {parts[name]:g}" for name in WEIGHTS)
    text = f"{len(pro)} for it, {len(contra)} against; {terms} = {score:g}: {verdict(score)}"
    claim = {"text": text, "facts": [], "part": "score"}
    return {"who": "judge", "claims": [claim], "verdict": verdict(score)}


def verdict(score: float) -> str:
    return "build" if score >= BUILD else "watch" if score >= WATCH else "leave"


def evaluations(known: dict[str, Any], said: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One for each voice: the mean of the parts it spoke about, the judge's verdict, and the rules' own."""
    parts = known["parts"]
    found = [_evaluation("rules", parts["score"], verdict(parts["score"]), {"parts": parts})]
    for turn in said:
        if turn["who"] == "judge":
            found.append(_evaluation("judge", parts["score"], turn["verdict"], {"parts": parts}))
            continue
        about = sorted({claim["part"] for claim in turn["claims"] if claim["part"] in WEIGHTS})
        mean = sum(parts[name] for name in about) / len(about) if about else 0.0
        inputs = {name: parts[name] for name in about}
        found.append(_evaluation(turn["who"], round(mean, 1), None, inputs))
    return found


def _evaluation(
    agent: str, score: float, ruled: str | None, inputs: dict[str, Any]
) -> dict[str, Any]:
    return {"agent": agent, "score": score, "verdict": ruled, "inputs": json.dumps(inputs)}
