"""What pages have in common: the tabs with their numbers, an opportunity with all that it rests on."""

from __future__ import annotations

from typing import Any

from duework import Template
from systems.scout import reading
from systems.scout.desk import changes, charts, figures, groups, pains
from systems.scout.opportunity import WEIGHTS
from systems.scout.part import part

PARTS = ("demand", "competition", "fragmentation", "design")


def page(template: str, tab: str, **values: Any) -> Template:
    """A page below one of the tabs."""
    had = figures.figures(part.app.now())
    return Template(template, tab=tab, had=had, many_rows=figures.MOST, bar=charts.bar, **values)


def names_in(it: dict[str, Any]) -> dict[int, str]:
    """What the apps of an opportunity's facts are called."""
    return reading.names_of(sorted({id_ for each in it["facts"] for id_ in each["apps"]}))


def evidence(cluster: str) -> dict[str, Any]:
    """An opportunity, and everything that its page shows of it."""
    it = reading.opportunity(cluster)
    history = {"score": changes.score_history(cluster)}
    return {
        "it": it,
        "names": names_in(it),
        "leaders": groups.leaders(cluster, 10),
        "pains": pains.of_cluster(cluster),
        "quoted": pains.quoted,
        "parts": PARTS,
        "weights": WEIGHTS,
        "drawn": charts.lines(history, f"The score of {it['name']} over time")
        if len(history["score"]) > 1
        else None,
    }


def report_body(cluster: str) -> dict[str, Any]:
    """What a report keeps of an opportunity: plain data."""
    found = evidence(cluster)
    return {
        "it": found["it"],
        "names": {str(id_): name for id_, name in found["names"].items()},
        "leaders": [row._asdict() for row in found["leaders"]],
        "pains": [
            {"words": each.words, "reviews": each.reviews, "of": each.of} for each in found["pains"]
        ],
        "weights": found["weights"],
    }
