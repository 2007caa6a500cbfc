"""What `app.schedule`, `edit` and the decorator take, checked, and turned into a schedule's row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from typing import Any

from duework.codec import encode
from duework.durations import Duration, Moment, milliseconds, moment
from duework.errors import UsageError
from duework.kernel.tasks import Definition, check_count, check_name, check_priority
from duework.shapes.schedules.calendar import When, instant, when, zone
from duework.shapes.schedules.row import Missed, Overlap, Row

KEY_LIMIT = 400
PAGE = 1000
MOST_FIRES = 1_000_000_000


@dataclass(frozen=True, slots=True)
class SchedulePlan:
    """What `app.schedule`, `edit` and the decorator take."""

    cron: str | None = None
    every: Duration | None = None
    rrule: str | None = None
    at: Moment | None = None
    start: Moment | None = None
    end: Moment | None = None
    count: int | None = None
    tz: str = "UTC"
    missed: Missed = "once"
    missed_limit: int = 100
    overlap: Overlap | None = None
    owner: str = ""
    why: str = ""
    queue: str | None = None
    priority: int | None = None

    def __post_init__(self) -> None:
        if self.missed not in {"skip", "once", "all"}:
            raise UsageError("missed= is 'skip', 'once' or 'all'")
        if self.overlap not in {None, "skip", "queue", "replace"}:
            raise UsageError("overlap= is 'skip', 'queue' or 'replace'")
        if self.missed == "all" and self.overlap not in {None, "queue"}:
            raise UsageError("missed='all' needs overlap='queue': its runs wait for each other")
        if check_count("missed_limit", self.missed_limit, 1) > PAGE:
            raise UsageError(f"missed_limit= is {PAGE} at most")
        if self.count is not None and check_count("count", self.count, 1) > MOST_FIRES:
            raise UsageError(f"count= is {MOST_FIRES} at most")
        if self.queue is not None:
            check_name("queue", self.queue)
        if self.priority is not None:
            check_priority(self.priority)
        for name in ("owner", "why", "tz"):
            text = getattr(self, name)
            if not isinstance(text, str) or len(text) > KEY_LIMIT or not storable(text):
                raise UsageError(f"{name}= is a text of at most {KEY_LIMIT} characters")

    def when(self, now: int) -> When:
        """When it is due; checked. What it counts from is now unless it says so."""
        if self.at is not None and self.count is not None:
            raise UsageError("at= is once: count= is for cron=, every= and rrule=")
        for name in ("cron", "rrule"):
            text = getattr(self, name)
            if text is not None and not (isinstance(text, str) and storable(text)):
                raise UsageError(f"{name}= is a text, not {text!r:.100}")
        made = when(
            cron=self.cron,
            every=None if self.every is None else milliseconds(self.every),
            rrule=self.rrule,
            at=None if self.at is None else _instant(self.at, self.tz),
            tz=self.tz,
            start=now if self.start is None else _instant(self.start, self.tz),
            end=None if self.end is None else _instant(self.end, self.tz),
        )
        # Cron counts from nothing.
        return replace(made, start=0) if made.kind == "cron" and self.start is None else made

    def row(self, task: Definition, key: str, payload: str, now: int) -> Row:
        due, policy = self.when(now), task.policy
        overlap: Overlap = self.overlap or ("queue" if self.missed == "all" else "skip")
        queue = self.queue or policy.queue
        priority = policy.priority if self.priority is None else self.priority
        options = {
            name: str(value)
            for name, value in asdict(self).items()
            if value is not None or name not in _YOUNGER
        }
        said = encode([task.name, queue, priority, payload, options])
        row = Row(
            key,
            task.name,
            queue,
            priority,
            payload,
            kind=due.kind,
            rule=due.rule,
            start=due.start,
            tz=due.tz,
            missed=self.missed,
            missed_limit=self.missed_limit,
            overlap=overlap,
            declared=said,
            owner=self.owner,
            why=self.why,
            created=now,
            ends=due.end,
            count=self.count,
            from_now=self.start is None and due.kind in {"every", "rrule"},
        )
        # Before any transaction.
        row.plan(now)
        return row


# Options that declarations of older releases do not have: they stay the same without them.
_YOUNGER = frozenset({"end", "count"})
OPTIONS = frozenset(each.name for each in fields(SchedulePlan)) - {"queue", "priority"}
TIMES = frozenset({"cron", "every", "rrule", "at"})
_AROUND = frozenset({"tz", "start", "end"})


def storable(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)


def _instant(given: Moment, tz: str) -> int:
    """A time without an offset is one on the wall of the schedule's zone."""
    if isinstance(given, str):
        try:
            given = datetime.fromisoformat(given)
        except ValueError as error:
            raise UsageError(f"cannot read {given!r:.100} as a time: {str(error)[:100]}") from error
    if isinstance(given, datetime) and given.tzinfo is None:
        zone(tz)
        try:
            given = instant(given, tz)
        except (ValueError, OverflowError):
            raise UsageError(f"the time {given} is beyond the calendar in {tz}") from None
    return moment(given)


def new_plan(options: Mapping[str, Any]) -> SchedulePlan:
    known = {each.name for each in fields(SchedulePlan)}
    if unknown := options.keys() - known:
        message = (
            f"a schedule has no {', '.join(sorted(unknown))}; it takes: {', '.join(sorted(known))}"
        )
        raise UsageError(message)
    return SchedulePlan(**options)


def edit_row(row: Row, plan: SchedulePlan, options: Mapping[str, Any], now: int) -> None:
    """Change what was named and leave the rest; an error changes nothing."""
    if options.keys() & (TIMES | _AROUND):
        due = _edited(row, plan, options).when(now)
        row.kind, row.rule, row.start, row.tz = due.kind, due.rule, due.start, due.tz
        row.ends = due.end
    if "count" in options or row.kind == "at":
        row.count = plan.count
    for name in options.keys() - TIMES - _AROUND - {"count"}:
        value = getattr(plan, name)
        if value is None:
            raise UsageError(f"edit({name}=None) changes nothing: give a value, or leave it out")
        setattr(row, name, value)
    # The two have to fit each other.
    SchedulePlan(missed=row.missed, overlap=row.overlap)


def _edited(row: Row, plan: SchedulePlan, options: Mapping[str, Any]) -> SchedulePlan:
    """The plan with what the row says of the times that were not named."""
    if "start" in options and plan.start is None:
        raise UsageError("edit(start=None) changes nothing: give a time, or leave it out")
    if not options.keys() & TIMES:
        if row.kind == "at" and "start" in options:
            raise UsageError("start= is where every= and rrule= count from, and cron= begins")
        times: dict[str, Any] = {"every": row.rule + "ms", "at": row.start}
        start = row.start if plan.start is None else plan.start
        given = {row.kind: times.get(row.kind, row.rule), "start": start}
        plan = replace(plan, **given)
    tz = plan.tz if "tz" in options else row.tz
    end = plan.end if "end" in options or plan.at is not None else row.ends
    count = plan.count if "count" in options or plan.at is not None else row.count
    return replace(plan, tz=tz, end=end, count=count)
