"""Metrics: what the program counts of its own; one of them large, over time and by its labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo
from itertools import groupby

from markupsafe import Markup
from starlette.responses import Response

from duework.clock import as_datetime
from duework.errors import NotFound
from duework.shapes.metrics.handle import MetricPoint
from duework.web.charts import stacked
from duework.web.filters import clock
from duework.web.lists import PAGE, address, one_of, required, show
from duework.web.regions import regions
from duework.web.table import NavItem, OwnPage
from duework.web.visits import Visit

MINUTE = 60_000
DAY_MINUTES = 1440
# How many minutes a bar is, and how many bars there are.
SPANS = {"minute": (1, 60), "hour": (60, 48), "day": (DAY_MINUTES, 30)}
# Sets of labels with a colour of their own; the rest is one more.
COLOURS = ("did", "run", "unsure", "warn")
OTHERS = "others"
MOST_NAMES = 500


@dataclass(frozen=True, slots=True)
class Sum:
    """What was counted under a name, or under one set of its labels."""

    name: str
    kind: str
    sets: int
    count: int
    total: float
    most: float

    @property
    def mean(self) -> float:
        return self.total / max(1, self.count)


def _sum(name: str, points: Sequence[MetricPoint]) -> Sum:
    return Sum(
        *(name, points[0].kind, len({_words(each) for each in points})),
        sum(each.count for each in points),
        sum(each.total for each in points),
        max(each.most for each in points),
    )


def _words(point: MetricPoint) -> str:
    return ", ".join(f"{name}={value}" for name, value in point.labels.items()) or "no labels"


def metrics(visit: Visit) -> Response:
    """Every name, with the sums of all time."""
    found = groupby(visit.app.metrics.totals(), lambda each: each.name)
    rows = [_sum(name, list(points)) for name, points in found]
    return show(
        *(visit, "metrics.html"),
        rows=rows[:MOST_NAMES],
        hidden=max(0, len(rows) - MOST_NAMES),
        order="By name",
    )


def metric(visit: Visit) -> Response:
    """One of them, by minute, hour or day."""
    name = required(visit, "name")
    span = one_of(visit, "span", tuple(SPANS)) or "hour"
    whole = [each for each in visit.app.metrics.totals() if each.name == name]
    if not whole:
        raise NotFound(f"nothing was counted under {name[:100]}")
    minutes, bars = SPANS[span]
    step = minutes * MINUTE
    first = (visit.app.now() // step - bars + 1) * step
    points = visit.app.metrics.read(name, span, since=first)  # type: ignore[arg-type]
    by_labels: dict[str, list[MetricPoint]] = {}
    for each in points:
        by_labels.setdefault(_words(each), []).append(each)
    sums = sorted((_sum(*each) for each in by_labels.items()), key=lambda each: -each.total)

    def here(chosen: str) -> str:
        return address(visit.base, "/metrics/one", name=name, span=chosen)

    return show(
        *(visit, "metric.html"),
        heading=name,
        whole=_sum(name, whole),
        seen=_sum(name, points) if points else None,
        sums=sums[:PAGE],
        colours=dict(zip((each.name for each in sums), COLOURS, strict=False)),
        span=span,
        spans=[(each.capitalize(), here(each), each == span) for each in SPANS],
        chart=_drawn(points, sums, first, step, bars, visit.zone),
    )


def _drawn(
    points: Sequence[MetricPoint],
    sums: Sequence[Sum],
    first: int,
    step: int,
    bars: int,
    zone: tzinfo,
) -> Markup:
    """Bars of sums, by labels; of a timing, how long it took on average."""
    timing = bool(points) and points[0].kind == "timing"
    shown = [OTHERS] if timing else [each.name for each in sums[: len(COLOURS)]] + [OTHERS]
    rows = [[0.0] * len(shown) for _ in range(bars)]
    counts = [0] * bars
    for each in points:
        place = (each.start - first) // step
        if 0 <= place < bars:
            words = _words(each)
            rows[place][shown.index(words if words in shown else OTHERS)] += each.total
            counts[place] += each.count
    if timing:
        rows = [[row[0] * 1000 / max(1, count)] for row, count in zip(rows, counts, strict=True)]
    times = [_time(first + place * step, step, zone) for place in range(bars)]
    every = max(1, bars // 6)
    unit = " ms on average" if timing else ""
    return Markup(  # noqa: S704 - charts escape their texts
        stacked(
            rows,
            ["run"] if timing else [*COLOURS[: len(shown) - 1], "wait"],
            [time if place % every == 0 else "" for place, time in enumerate(times)],
            f"{bars} bars, the largest is {max(map(sum, rows)):,.6g}{unit}",
            [f"{time}: {sum(row):,.6g}{unit}" for time, row in zip(times, rows, strict=True)],
            height=150,
        )
    )


def _time(at: int, step: int, zone: tzinfo) -> str:
    there = as_datetime(at).astimezone(zone)
    return f"{there.day} {there:%b}" if step >= DAY_MINUTES * MINUTE else clock(at, zone)[:5]


LIVE = regions("metrics", metrics=2.0)
ONE = regions("metrics", head=2.0, detail=10.0)
PAGES = [
    # `/metrics` itself is what Prometheus reads.
    OwnPage(
        "/metrics/names", metrics, live=LIVE, nav=NavItem("Metrics", "metrics", "Machine", place=60)
    ),
    OwnPage("/metrics/one", metric, live=ONE),
]
