"""What was done and what comes: the counters of minutes, and the jobs that fall due next.

Neither grows with the job table: the past is read from sums, and the future is counted up to a bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from duework.db.database import Tx
from duework.health.needs import NEEDS
from duework.health.status import asked_for
from duework.kernel.job import OWN_QUEUE
from duework.kernel.lanes import JOBS
from duework.kernel.minutes.counters import LAGS, MINUTE, MINUTES

Range = Literal["1h", "6h", "24h", "7d"]
RANGES: tuple[Range, ...] = get_args(Range)
# For each range: minutes of a slot, how many slots are behind, how many ahead, which sums are read.
_SLOTS = {
    "1h": (1, 60, 30, 1),
    "6h": (6, 60, 30, 1),
    "24h": (30, 48, 24, 15),
    "7d": (180, 56, 28, 15),
}
# So many jobs are counted that fall due, and no more; and so many fires are named.
BOUND = 10_000
FIRES = 50
# What a job that fires schedules belongs to.
_SCHEDULE = "schedule:"
# What was done with a task is told in so many slots.
POINTS = 12


@dataclass(frozen=True, slots=True)
class Counted:
    """What workers did in some time, or with one task."""

    started: int = 0
    done: int = 0
    failed: int = 0
    cancelled: int = 0
    retried: int = 0
    # From due to start, of first attempts: milliseconds in all, and the most.
    lag: int = 0
    lag_most: int = 0
    # How many of them took 10 ms at most, 100 ms, 1 s, 10 s, 1 min, and longer.
    lags: tuple[int, ...] = (0,) * (len(LAGS) + 1)

    def within(self, share: float) -> int | None:
        """Milliseconds within which so large a share started; None if nobody knows, or it took longer."""
        wanted, seen = share * sum(self.lags), 0
        for limit, count in zip(LAGS, self.lags, strict=False):
            seen += count
            if seen and seen >= wanted:
                return limit
        return None


@dataclass(frozen=True, slots=True)
class Activity:
    """The slots of a range, the last of which is not over yet, and what falls due in the next ones."""

    now: int
    step: int
    past: tuple[Counted, ...]
    due: tuple[int, ...]
    # Whether more may fall due than was counted.
    at_least: bool
    # When schedules fire next, and which.
    fires: tuple[tuple[int, str], ...] = ()
    # For each queue and task, how many ended well and failed in each twelfth of the past.
    by_task: Mapping[tuple[str, str], tuple[tuple[int, int], ...]] = field(default_factory=dict)

    @property
    def total(self) -> Counted:
        """All of the past slots."""
        return summed(self.past)


@dataclass(frozen=True, slots=True)
class TaskTotals:
    """What workers did with a task since the database was made."""

    queue: str
    task: str
    counted: Counted


def activity(tx: Tx, *, now: int, over: Range) -> Activity:
    """Look once."""
    minutes, behind, ahead, span = _SLOTS[over]
    step = minutes * MINUTE
    first = now // step * step - (behind - 1) * step
    rows = tx.query(MINUTES.since, {"span": span, "since": first, "step": step})
    slots = {int(start): _counted(numbers) for start, *numbers in rows}
    past = tuple(slots.get(first + place * step, Counted()) for place in range(behind))
    lanes = [(row[0], row[1], row[2]) for row in tx.query(JOBS.lanes, {})]
    theirs = [number for number, queue, _ in lanes if queue != OWN_QUEUE]
    due, seen = [0] * ahead, 0
    for slot, count in _due_later(tx, theirs, now, step, ahead):
        due[slot] += count
        seen += count
    firing = [
        number for number, queue, task in lanes if queue == OWN_QUEUE and asked_for(queue, task)
    ]
    fires = _fires(tx, firing, now, now + ahead * step)
    by_task = _by_task(tx, span, first, behind * step // POINTS)
    return Activity(now, step, past, tuple(due), seen >= BOUND, fires, by_task)


def _due_later(
    tx: Tx, lanes: Sequence[int], now: int, step: int, ahead: int
) -> list[tuple[int, int]]:
    time = {"now": now, "step": step, "until": now + ahead * step}
    rows = tx.query(NEEDS.due_later, {"lanes": lanes, **time, "bound": BOUND})
    return [(int(slot), int(count)) for slot, count in rows]


def per_queue(tx: Tx, *, now: int, slots: int = 12, minutes: int = 5) -> dict[str, list[int]]:
    """How many jobs of each queue ended in each of the last slots."""
    step = minutes * MINUTE
    first = now // step * step - (slots - 1) * step
    found: dict[str, list[int]] = {}
    for queue, start, done, failed in tx.query(
        MINUTES.by_queue, {"span": 1, "since": first, "step": step}
    ):
        place = (int(start) - first) // step
        if place < slots:
            found.setdefault(queue, [0] * slots)[place] = int(done) + int(failed)
    return found


@dataclass(frozen=True, slots=True)
class Slots:
    """What was counted in slots of the clock, the last of which is not over yet."""

    first: int
    step: int
    counted: tuple[Counted, ...]


def slots_of(
    tx: Tx,
    *,
    now: int,
    queue: str = "",
    tasks: Sequence[str] | None = None,
    minutes: int = 1,
    slots: int = 60,
) -> Slots:
    """What workers did with the tasks of a queue, or with these."""
    step = minutes * MINUTE
    first = now // step * step - (slots - 1) * step
    values = {"span": 15 if minutes % 15 == 0 else 1, "since": first, "step": step}
    names = {"queue": queue, "every": int(tasks is None), "tasks": list(tasks or ())}
    found = {
        int(start): _counted(numbers)
        for start, *numbers in tx.query(MINUTES.of_lines, {**values, **names})
    }
    counted = tuple(found.get(first + place * step, Counted()) for place in range(slots))
    return Slots(first, step, counted)


def _fires(tx: Tx, lanes: Sequence[int], now: int, until: int) -> tuple[tuple[int, str], ...]:
    if not lanes:
        return ()
    time = {"now": now, "until": until, "bound": FIRES}
    rows = tx.query(NEEDS.next_fires, {"lanes": lanes, **time})
    return tuple(sorted((int(due), (owner or "").removeprefix(_SCHEDULE)) for due, owner in rows))


def _by_task(
    tx: Tx, span: int, first: int, step: int
) -> dict[tuple[str, str], tuple[tuple[int, int], ...]]:
    """Twelfths of the range, the last of which is not over yet."""
    found: dict[tuple[str, str], list[tuple[int, int]]] = {}
    rows = tx.query(MINUTES.done_by_task, {"span": span, "since": first, "step": step})
    for queue, task, slot, done, failed in rows:
        points = found.setdefault((queue, task), [(0, 0)] * POINTS)
        # A clock that was set back leaves minutes that are yet to come.
        if int(slot) < POINTS:
            points[int(slot)] = (int(done), int(failed))
    return {name: tuple(points) for name, points in found.items()}


def totals(tx: Tx) -> list[TaskTotals]:
    """Per queue and task, since the first job."""
    rows = tx.query(MINUTES.totals, {})
    return [TaskTotals(queue, task, _counted(numbers)) for queue, task, *numbers in rows]


def _counted(numbers: Sequence[int]) -> Counted:
    plain = [int(number) for number in numbers]
    started, done, failed, cancelled, retried, lag, most, *lags = plain
    return Counted(started, done, failed, cancelled, retried, lag, most, tuple(lags))


def summed(counted: Sequence[Counted]) -> Counted:
    """All of them together."""
    return Counted(
        sum(each.started for each in counted),
        sum(each.done for each in counted),
        sum(each.failed for each in counted),
        sum(each.cancelled for each in counted),
        sum(each.retried for each in counted),
        sum(each.lag for each in counted),
        max((each.lag_most for each in counted), default=0),
        tuple(sum(column) for column in zip(*(each.lags for each in counted), strict=True)),
    )
