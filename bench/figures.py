"""What is measured, which bar it has to clear, and what a few samples say about it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Samples = Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Bar:
    """A limit on a figure, or on its ratio to another figure of the same run."""

    kind: Literal["at least", "at most"]
    limit: float
    of: str | None = None

    def met(self, value: float) -> bool:
        return value >= self.limit if self.kind == "at least" else value <= self.limit


@dataclass(frozen=True)
class Figure:
    """One number that a scenario answers with."""

    name: str
    what: str
    unit: str
    bars: tuple[Bar, ...] = ()
    # Shown as a ratio to this figure even where no bar asks for one.
    against: str | None = None
    # What counts over several samples: their median, or the worst of them.
    counts: Literal["median", "worst"] = "median"

    @property
    def base(self) -> str | None:
        """The figure that this one is divided by."""
        return next((bar.of for bar in self.bars if bar.of is not None), self.against)


def at_least(limit: float, *, of: str | None = None) -> Bar:
    return Bar("at least", limit, of)


def at_most(limit: float) -> Bar:
    return Bar("at most", limit)


@dataclass(frozen=True)
class Result:
    """A figure with its samples of one run."""

    figure: Figure
    samples: Sequence[float]
    # The ratios to the base, sample by sample, so that a slow minute slows both of them.
    ratios: Sequence[float]

    @property
    def value(self) -> float:
        return max(self.samples) if self.figure.counts == "worst" else _median(self.samples)

    @property
    def ratio(self) -> float | None:
        return _median(self.ratios) if self.ratios else None

    @property
    def met(self) -> bool | None:
        """Whether every bar is cleared; None if there is none, or its base was not measured."""
        answers = []
        for bar in self.figure.bars:
            value = self.value if bar.of is None else self.ratio
            if value is None:
                return None
            answers.append(bar.met(value))
        return all(answers) if answers else None


def results(figures: Sequence[Figure], samples: Samples) -> list[Result]:
    """What a run says about each figure that it has samples of."""
    found = []
    for figure in figures:
        if own := samples.get(figure.name):
            bases = samples.get(figure.base or "", ())
            ratios = [mine / base for mine, base in zip(own, bases, strict=False) if base]
            found.append(Result(figure, own, ratios))
    return found


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of all values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def spread(values: Sequence[float], prefix: str) -> dict[str, float]:
    """The percentiles that latencies are told by."""
    shares = {"p50": 0.5, "p99": 0.99, "p999": 0.999}
    told = {f"{prefix}_{name}": percentile(values, share) for name, share in shares.items()}
    return told | {f"{prefix}_max": max(values)}


def _median(values: Sequence[float]) -> float:
    return statistics.median(values)


def number(value: float, unit: str) -> str:
    """As people read it: no more digits than the measurement has."""
    if unit in {"/s", "rows"} or value >= 1000:
        return f"{value:,.0f}"
    if unit in {"jobs", "statements"}:
        return f"{value:g}"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def told(bar: Bar, unit: str) -> str:
    sign = "≥" if bar.kind == "at least" else "≤"
    return f"{sign} {number(bar.limit, unit)}" if bar.of is None else f"{sign} {bar.limit:g} ×"
