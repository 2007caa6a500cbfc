"""Paces over time: the controller of an adaptive one, and what was started, from the counters of minutes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any

from markupsafe import Markup

from duework.durations import milliseconds
from duework.health.activity import Slots
from duework.shapes.paces.handle import PaceStatus
from duework.web import charts
from duework.web.charts import Band
from duework.web.filters import clock, dur

# A controller is drawn over so long at most, in so many steps.
LONGEST, STEPS = 7_200_000, 48
SHORTEST = 600_000
# Below this share of successes it takes a rest; these are where it turns.
REST, TURNS = 20, (20, 50, 80, 95)
Point = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class PaceWindow:
    """A window of a quota: what is used of what may be, the reserve, and when it turns."""

    label: str
    used: int
    limit: int
    reserve: int
    ends: int

    @property
    def words(self) -> str:
        return dur(milliseconds(self.label))


def windows(pace: PaceStatus, known: Any) -> list[PaceWindow]:
    """Those of a quota that this process knows."""
    percent = getattr(known, "reserve", 0)
    found = []
    for label, value in pace.details.items():
        if isinstance(value, dict) and {"used", "limit", "ends"} <= value.keys():
            whole = round(value["limit"] * 100 / (100 - percent))
            reserve = whole - value["limit"]
            found.append(PaceWindow(label, value["used"], value["limit"], reserve, value["ends"]))
    return found


def controller(pace: PaceStatus, known: Any, now: int, zone: tzinfo, name: str) -> Markup:
    """Batch, interval and success of an adaptive pace, each held until it was changed."""
    points = sorted(pace.history)
    first = max(now - LONGEST, min([now - SHORTEST, *(point[0] for point in points[:1])]))
    shown = [
        _at(points, first + (now - first) * step // STEPS, pace) for step in range(1, STEPS + 1)
    ]
    batch, interval = (getattr(known, each, (0, 0)) for each in ("batch", "interval"))
    most = max(batch[1], *(each[0] for each in shown), 1)
    longest = max(interval[1], *(each[1] for each in shown), 1) / 1000
    bands = [
        Band("batch size", [each[0] for each in shown], most, "", "l-run"),
        Band("interval", [each[1] / 1000 for each in shown], longest, " s", "l-text"),
        Band("success, 5 min", [each[2] for each in shown], 100, " %", "l-done", TURNS),
    ]
    rest = getattr(known, "cooldown", 0)
    rests = [(point[0], point[0] + rest) for point in points if point[3] < REST and rest]

    def place(ms: int) -> float:
        return min(1.0, max(0.0, (ms - first) / max(1, now - first)))

    columns = [(place(a), place(b)) for a, b in rests if b > first]
    labels = [clock(first + (now - first) * step // 4, zone)[:5] for step in range(5)]
    words = f"Batch size, interval and success of the pace {pace.name} over {dur(now - first)}"
    return Markup(charts.bands(bands, columns, labels, words, name))  # noqa: S704 - charts escape


def _at(points: Sequence[Point], ms: int, pace: PaceStatus) -> tuple[int, int, int]:
    """What held at a time: the last change before it, else what the first one began with."""
    held = [point for point in points if point[0] <= ms] or list(points[:1])
    if held:
        return held[-1][1], held[-1][2], held[-1][3]
    details = pace.details
    return (
        details.get("current_batch_size", 0),
        details.get("current_interval_ms", 0),
        details.get("success_rate", 100),
    )


def starts(seen: Slots, zone: tzinfo, every: int, limit: int = 0) -> dict[str, Any]:
    """What `stacked` needs for bars of what was started in each slot."""
    times = [clock(seen.first + place * seen.step, zone)[:5] for place in range(len(seen.counted))]
    pairs = list(zip(times, seen.counted, strict=True))
    return {
        "rows": [[each.started] for each in seen.counted],
        "classes": ["run"],
        "labels": [time if place % every == 0 else "" for place, time in enumerate(times)],
        "label": f"starts in each {dur(seen.step)}",
        "tips": [f"{time}: {each.started:,} started" for time, each in pairs],
        "limit": limit,
        "limit_text": f"at most {limit:,}" if limit else "",
    }
