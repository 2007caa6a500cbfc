"""A job's life on one axis: asked for, its attempts to scale, what happens next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any

from markupsafe import Markup

from duework.clock import FOREVER
from duework.handles import Attempt, Job
from duework.web import charts
from duework.web.filters import clock, dur

# Rows of attempts: the newest of very many.
MOST = 30
SHORT_MS = 8000
FAILED = frozenset({"failed", "retry", "timeout", "crashed", "crashed alone"})


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """A line of the timeline: its state, name, drawing and length."""

    state: str
    name: str
    track: Markup
    dur: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """All lines, below one axis."""

    axis: Markup
    rows: list[TimelineRow]
    length: str


def timeline(job: Job[Any], attempts: Sequence[Attempt], now: int, zone: tzinfo) -> Timeline:
    """Draw a job and its attempts; of attempts that ended well there is no row."""
    ends = [job.settled or now, *(each.ended for each in attempts)]
    # From there on nobody knows when something wakes it.
    waits = job.state == "open" and job.worker is None and now < job.due < FOREVER - 1
    if waits:
        ends.append(job.due)
    starts = [each.started for each in attempts if each.started is not None]
    asked = [job.at] if job.at < FOREVER - 1 else []
    first, last = min([*asked, *starts, *ends]), max(ends)
    scale = _Scale(first, max(1, last - first), now if job.state == "open" else None, zone)
    rows = [
        scale.row("ready", "Asked for", [], [(at, "f-accent")], clock(at, zone)) for at in asked
    ]
    shown = list(enumerate(attempts, 1))[-MOST:]
    rows += [scale.attempt(number, each) for number, each in shown]
    if job.settled is not None:
        words = clock(job.settled, zone)
        colour = {"done": "f-did", "failed": "f-fail"}.get(job.state, "f-wait")
        rows.append(scale.row(job.state, job.state, [], [(job.settled, colour)], words))
    elif job.worker is not None:
        rows.append(scale.row("running", "Running", [], [(now, "f-run")], "now"))
    elif waits:
        begin = max([*asked, first, *(each.ended for each in attempts)])
        span = [(min(begin, now), job.due, "f-line")]
        rows.append(scale.row("waiting", "Due", span, [(job.due, "f-accent")], dur(job.due - now)))
    return Timeline(scale.axis(), rows, f"{dur(last - first)} in all" if last > first else "")


@dataclass(frozen=True, slots=True)
class _Scale:
    first: int
    length: int
    now: int | None
    zone: tzinfo

    def at(self, ms: int) -> float:
        return min(1.0, max(0.0, (ms - self.first) / self.length))

    @property
    def now_at(self) -> float | None:
        return None if self.now is None else self.at(self.now)

    def axis(self) -> Markup:
        # Where all of it is within seconds, the same time would stand there again and again.
        places = (0.0, 0.25, 0.5, 0.75, 1.0) if self.length > SHORT_MS else (0.0,)
        labels = [(at, clock(self.first + round(at * self.length), self.zone)) for at in places]
        return Markup(charts.axis(labels, self.now_at))  # noqa: S704 - charts escape their texts

    def row(
        self,
        state: str,
        name: str,
        spans: Sequence[tuple[int, int, str]],
        marks: Sequence[tuple[int, str]],
        words: str,
    ) -> TimelineRow:
        drawn = charts.track(
            [(self.at(a), self.at(b), cls, words) for a, b, cls in spans],
            [(self.at(a), cls, clock(a, self.zone)) for a, cls in marks],
            self.now_at,
            f"{name}: {words}",
        )
        return TimelineRow(state, name, Markup(drawn), words)  # noqa: S704 - charts escape their texts

    def attempt(self, number: int, each: Attempt) -> TimelineRow:
        bad = each.outcome in FAILED
        started = each.ended if each.started is None else each.started
        span = [(started, each.ended, "f-fail" if bad else "f-wait")]
        words = dur(each.ended - started) if each.started is not None else "–"  # noqa: RUF001
        return self.row("failed" if bad else "cancelled", f"Attempt {number}", span, [], words)
