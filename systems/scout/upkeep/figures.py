"""What came of the last day, by phase: from metrics, and so without a look at the tables."""

from __future__ import annotations

from collections import defaultdict

from systems.scout.part import part

DAY = 86_400_000
FIGURES = ("apps_discovered", "rankings_added", "keywords_searched", "apps_enriched")


def last_day(now: int) -> dict[str, dict[str, float]]:
    """For each phase the sums of 24 hours; a phase is what a cycle was about, or `enrich`."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for name in FIGURES:
        for point in part.app.metrics.read(f"scout_{name}", "hour", since=now - DAY):
            sums = found[point.labels["phase"]]
            sums[name] = sums.get(name, 0) + point.total
    return dict(found)
