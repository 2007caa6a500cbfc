"""One line of the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    article: str
    what: str
    theirs: str
    ours: str
    ideal: str


def table(figures: Sequence[Figure]) -> str:
    head = "| article | what | theirs | ours | ideal |\n|---|---|---:|---:|---:|"
    lines = [
        f"| {each.article} | {each.what} | {each.theirs} | {each.ours} | {each.ideal} |"
        for each in figures
    ]
    return "\n".join([head, *lines])


def percentile(values: Sequence[float], share: float) -> float:
    found = sorted(values)
    return found[min(len(found) - 1, int(len(found) * share))]
