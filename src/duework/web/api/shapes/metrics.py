"""Metrics by HTTP: what the program counts of its own."""

from __future__ import annotations

from duework.shapes.metrics.handle import MetricPoint
from duework.web.api.operation import Ask, line_of, reads
from duework.web.api.record_types import MetricLine, MetricQuery, MetricsQuery
from duework.web.api.types import Listed


def totals(ask: Ask) -> Listed[MetricLine]:
    """The sums of all time, by name and labels."""
    return Listed([_line(each) for each in ask.app.metrics.totals(limit=ask.query.limit)], None)


def points(ask: Ask) -> Listed[MetricLine]:
    """What was counted under a name, by minute, hour or day, oldest first."""
    wanted: MetricQuery = ask.query
    found = ask.app.metrics.read(
        ask.path["name"], wanted.span, since=wanted.since, limit=wanted.limit
    )
    return Listed([_line(each) for each in found], None)


def _line(seen: MetricPoint) -> MetricLine:
    return line_of(MetricLine, seen)


OPERATIONS = (
    reads("/metrics", totals, Listed[MetricLine], MetricsQuery),
    reads("/metrics/{name}", points, Listed[MetricLine], MetricQuery),
)
