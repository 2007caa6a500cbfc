"""The due line: what was done on the left of now, what falls due on the right, on one axis.

A gutter of 4.5 % has the scales; all slots are equally wide. The upper band has the bars, the lower one the
longest start lag of each slot.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import tzinfo

from markupsafe import Markup

from duework.health.activity import Activity
from duework.web import charts
from duework.web.charts import hline, rect, text
from duework.web.filters import clock, dur

_GUTTER = 4.5
_BASE, _HIGH = 118.0, 100.0
_LAG_BASE, _LAG_HIGH = 182.0, 36.0
_SECOND, _DAY = 1000, 86_400_000


@dataclass(frozen=True, slots=True)
class _Drawing:
    seen: Activity
    # Jobs that are due and have not started.
    late: int
    limit_ms: int
    zone: tzinfo

    @property
    def width(self) -> float:
        return (100 - _GUTTER) / (len(self.seen.past) + len(self.seen.due))

    @property
    def now_x(self) -> float:
        return self.x(len(self.seen.past))

    @property
    def top(self) -> float:
        most = max(each.done + each.failed for each in self.seen.past)
        return max(4, charts.nice(max(most, *self.seen.due)))

    def x(self, slot: float) -> float:
        return _GUTTER + slot * self.width

    def start(self, slot: int) -> int:
        """When a slot begins: those behind are of the clock, those ahead count from now."""
        behind, step = len(self.seen.past), self.seen.step
        if slot >= behind:
            return self.seen.now + (slot - behind) * step
        return self.seen.now // step * step - (behind - 1 - slot) * step

    def label(self, slot: int) -> str:
        at = self.start(slot)
        if self.seen.step * len(self.seen.past) <= _DAY:
            return clock(at, self.zone)[:5]
        return f"{-round((self.seen.now - at) / _DAY):+} d"

    def scale(self) -> Iterator[str]:
        for share in (0.5, 1.0):
            y = _BASE - share * _HIGH
            yield hline(y, "g", _GUTTER)
            yield text(_GUTTER - 0.7, y + 4, f"{self.top * share:,.0f}", "end")
        yield text(_GUTTER - 0.7, _BASE + 4, "0", "end")

    def bars(self) -> Iterator[str]:
        w = self.width
        for slot, each in enumerate(self.seen.past):
            x, well = self.x(slot), each.done / self.top * _HIGH
            if each.done:
                yield rect(x + w * 0.14, _BASE - well, w * 0.72, well, "f-did")
            if each.failed:
                bad = max(2.0, each.failed / self.top * _HIGH)
                yield rect(x + w * 0.14, _BASE - well - bad - 1, w * 0.72, bad, "f-fail")
            tip = f"{self.label(slot)}: {each.done:,} done, {each.failed:,} failed"
            yield rect(x, _BASE - _HIGH, w, _HIGH, "hit", tip)

    def due(self) -> Iterator[str]:
        w, more = self.width, "at least " if self.seen.at_least else ""
        if self.seen.at_least:
            yield charts.hatch("about", "hatch2")
        for place, count in enumerate(self.seen.due):
            x, high = self.x(len(self.seen.past) + place), count / self.top * _HIGH
            if count:
                yield rect(x + w * 0.16, _BASE - high, w * 0.68, high, "due")
            if count and self.seen.at_least:
                yield charts.hatched(x + w * 0.16, _BASE - high, w * 0.68, high, "about")
            ahead = f"{dur(place * self.seen.step) if place else 0} to"
            tip = f"due in {ahead} {dur((place + 1) * self.seen.step)}: {more}{count:,}"
            yield rect(x, _BASE - _HIGH, w, _HIGH, "hit", tip)

    def overdue(self) -> Iterator[str]:
        if self.late:
            x, high = self.now_x, min(_HIGH, max(6.0, self.late / self.top * _HIGH))
            tip = f"{self.late:,} jobs are due and have not started"
            yield rect(x, _BASE - high, self.width * 1.1, high, "f-warn", tip)
            yield text(x + self.width * 1.5, _BASE - _HIGH + 12, f"{self.late:,} late", "late")
        yield hline(_BASE, "base", _GUTTER)

    def lags(self) -> Iterator[str]:
        lags = [each.lag_most / _SECOND for each in self.seen.past]
        limit = self.limit_ms / _SECOND
        top, high = charts.nice(max(*lags, limit * 1.2)), _LAG_BASE - _LAG_HIGH
        yield text(_GUTTER - 0.7, _LAG_BASE + 3, "0", "end")
        yield hline(_LAG_BASE - limit / top * _LAG_HIGH, "g", _GUTTER, self.now_x)
        drawn = charts.area(lags, _LAG_HIGH, top, "f-warn-bg", "l-warn")
        yield charts.paths(_GUTTER, high, self.now_x - _GUTTER, _LAG_HIGH, [drawn])
        yield hline(_LAG_BASE, "base", _GUTTER)
        yield text(_GUTTER, high - 6, f"longest start after due, up to {dur(top * _SECOND)}")

    def fires(self) -> Iterator[str]:
        """When schedules fire next, on the lower band ahead."""
        if self.seen.fires:
            yield text(self.now_x + 1, _LAG_BASE - _LAG_HIGH - 6, "next fires", "opt")
        for at, name in self.seen.fires:
            x = self.x(len(self.seen.past) + (at - self.seen.now) / self.seen.step)
            yield charts.vline(x, _LAG_BASE - 10, _LAG_BASE, "now")
            yield charts.diamond(x, _LAG_BASE - 16, f"{name}, {clock(at, self.zone)}")

    def times(self) -> Iterator[str]:
        behind, ahead = len(self.seen.past), len(self.seen.due)
        yield charts.vline(self.now_x, 8, _LAG_BASE, "now")
        yield text(self.now_x, 5, f"now {clock(self.seen.now, self.zone)[:5]}", "nowt mid")
        for slot, cls in ((0, ""), (behind // 4, "mid opt"), (behind // 2, "mid")):
            yield text(self.x(slot), 202, self.label(slot), cls)
        for slot, cls in ((behind * 3 // 4, "mid opt"), (behind + ahead // 2, "mid opt")):
            yield text(self.x(slot), 202, self.label(slot), cls)
        yield text(100, 202, self.label(behind + ahead), "end")

    def caption(self) -> str:
        total, more = self.seen.total, "at least " if self.seen.at_least else ""
        behind, ahead = len(self.seen.past) * self.seen.step, len(self.seen.due) * self.seen.step
        return (
            f"In the last {dur(behind)} {total.done:,} done and {total.failed:,} failed; {self.late:,}"
            f" late now; {more}{sum(self.seen.due):,} due in the next {dur(ahead)}.{self._next_fire()}"
        )

    def _next_fire(self) -> str:
        if not self.seen.fires:
            return ""
        at, name = self.seen.fires[0]
        return f" {name} fires next, at {clock(at, self.zone)}."


def dueline(seen: Activity, late: int, limit_ms: int, zone: tzinfo) -> Markup:
    """The drawing; its words are in its label."""
    made = _Drawing(seen, late, limit_ms, zone)
    body = [
        *made.scale(),
        *made.bars(),
        *made.due(),
        *made.overdue(),
        *made.lags(),
        *made.fires(),
        *made.times(),
    ]
    return Markup(charts.chart(208, body, made.caption(), "dueline"))  # noqa: S704 - charts escape their texts
