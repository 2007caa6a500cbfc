"""The overview: is everything fine, what is stuck, what was done and what comes."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from duework.errors import DatabaseError, UsageError
from duework.health.activity import RANGES, Activity, Counted
from duework.health.needs import Need
from duework.health.status import Status, TaskStatus, ours, stuck
from duework.web import charts
from duework.web.dueline import dueline
from duework.web.filters import dur
from duework.web.visits import LATER, SOON, Visit

SHOWN = 8
LINES = 12
# Sparklines have so many points.
POINTS = 12


def overview(visit: Visit) -> Response:
    """Everything on it comes from lanes, counters and counts with a bound."""
    over = visit.asked("range") or RANGES[0]
    if over not in RANGES:
        raise HTTPException(400, f"A range is one of {', '.join(RANGES)}.")
    status, found = visit.app.admin.status(own=True), visit.app.needs()
    seen = visit.app.admin.activity(over)
    lines = ours(status)
    lags = [line.lag for line in lines if line.lag is not None and not line.paused]
    visit.again = _again(lines, seen)
    lines.sort(key=lambda line: _busy(line, seen))
    return visit.render(
        *(visit, "overview.html"),
        live=visit.live(),
        needs=found[:SHOWN],
        hidden_needs=max(0, len(found) - SHOWN),
        asks=len(found),
        needing=lambda: found,
        stuck=bool(stuck(status)),
        bare=not lines and not status.failed and not status.paused,
        lines=lines[:LINES],
        hidden_lines=max(0, len(lines) - LINES),
        oldest=max(lags, default=None),
        late=max(lags, default=0) > status.late_ms,
        late_ms=status.late_ms,
        paused=status.paused,
        failed=status.failed,
        alive=sum(worker.seen in {"alive", "elsewhere"} for worker in status.workers),
        over=over,
        ranges=RANGES,
        drawn=dueline(seen, _late(lines), status.late_ms, visit.zone),
        seen=seen,
        total=seen.total,
        median=_within(seen.total, 0.5),
        slowest=_within(seen.total, 0.99),
        sparks=_sparks(seen),
        spark_of=lambda line: _spark_of(seen, line, status.late_ms),
        seconds=len(seen.past) * seen.step / 1000,
        **sums(status),
    )


def _busy(line: TaskStatus, seen: Activity) -> tuple[int | bool | str, ...]:
    """What is late first, then what has something to do, then what did something; else lines stand still."""
    idle = not (line.ready or line.running or line.waiting)
    quiet = not any(map(any, seen.by_task.get((line.queue, line.task), ())))
    return (-(line.lag or 0), -line.ready, idle, quiet, line.queue, line.task)


def _again(lines: list[TaskStatus], seen: Activity) -> float | None:
    """In how many seconds it looks different though nothing is written."""
    if any(line.running or (line.lag is not None and not line.paused) for line in lines):
        return SOON
    # Falls due without a commit if there is no worker; and what was done moves to the left.
    moves = any(line.waiting for line in lines) or seen.total != Counted()
    return LATER if moves else None


def _late(lines: list[TaskStatus]) -> int:
    """Jobs that could have started, and have not."""
    return sum(line.ready for line in lines if not line.paused and line.held_until is None)


def _within(total: Counted, share: float) -> str:
    """How soon that share of the jobs started, as far as the counters tell."""
    if not sum(total.lags):
        return "–"  # noqa: RUF001 - an en dash, for what there is none of
    limit = total.within(share)
    return "over 1 min" if limit is None else f"under {dur(limit)}"


def _sparks(seen: Activity) -> dict[str, Markup]:
    done = _points([each.done for each in seen.past])
    failed = _points([each.failed for each in seen.past])
    return {
        "done": Markup(charts.spark(done, "done")),  # noqa: S704 - numbers alone
        "failed": Markup(charts.spark(failed, "fail")),  # noqa: S704 - numbers alone
    }


def _spark_of(seen: Activity, line: TaskStatus, late_ms: int) -> Markup:
    """What was done with a task; in the colour of what is wrong with it, if something is."""
    points = seen.by_task.get((line.queue, line.task))
    if points is None:
        return Markup("")
    failed = sum(each[1] for each in points)
    late = (line.lag or 0) > late_ms or line.paused
    tone = "fail" if failed and failed >= sum(each[0] for each in points) else "done"
    drawn = charts.spark([done + bad for done, bad in points], "warn" if late else tone, 84, 18)
    return Markup(drawn)  # noqa: S704 - numbers alone


def _points(values: list[int]) -> list[int]:
    size = max(1, len(values) // POINTS)
    return [sum(values[start : start + size]) for start in range(0, len(values), size)]


def sums(status: Status) -> dict[str, int]:
    """The jobs of users' own tasks by phase."""
    lines = ours(status)
    return {
        "ready": sum(line.ready for line in lines),
        "waiting": sum(line.waiting for line in lines),
        "running": sum(line.running for line in lines),
    }


def health(visit: Visit) -> Response:
    """Whether work gets done: 503 if it is stuck although this process is up. Details need a token."""
    try:
        status = visit.app.admin.status(own=True)
        found = visit.app.needs() if visit.who is not None else []
    except (DatabaseError, UsageError):
        return JSONResponse({"status": "unavailable"}, 503)
    waits = stuck(status)
    answer: dict[str, Any] = {"status": "stuck" if waits else "ok"}
    if visit.who is not None:
        answer["now"] = status.now
        answer["failed"] = status.failed
        answer["stuck"] = [[line.queue, line.task] for line in waits]
        answer["needs"] = [as_dict(need) for need in found]
    return JSONResponse(answer, 503 if waits else 200)


def as_dict(need: Need) -> dict[str, Any]:
    """As `duework status --json` has it, and what it is about."""
    names = ("kind", "tone", "sentence", "count", "oldest", "command", "task", "queue")
    return {name: getattr(need, name) for name in names}
