"""Why a job waits, from the rows of this moment: one reason, and the others that hold too.

Every reason that holds is found, in one order; the first is the answer. Nothing is guessed: what
the rows cannot tell is left out. An idle worker writes no row, so nobody can tell from rows that there
is none; only that every worker which has left one is dead, or that nobody has taken a job that has
been ready for long. How many may run at once, and how often a task is retried, is known where the
task is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from duework.clock import FOREVER
from duework.db.database import Tx
from duework.db.queries import load
from duework.errors import NotFound
from duework.health.status import LATE_MS
from duework.health.words import count, first_line, length, moment, on_the_clock
from duework.kernel.claim import EXPIRED, EXPIRED_AFTER_FAILING
from duework.kernel.job import POISON
from duework.kernel.lanes import JOBS
from duework.kernel.machine.processes import Process, verdict
from duework.kernel.paces.pace import UNTIL_ASKED
from duework.kernel.tasks import Registry

WHY = load("duework.health", "why")

Kind = Literal[
    "not writable",
    "no worker",
    "paused",
    "serial",
    "after",
    "pace blocked",
    "pace",
    "full",
    "suspect",
    "retry",
    "snoozed",
    "later",
    "in turn",
    "running",
    "lease over",
    "parked",
    "done",
    "failed",
    "cancelled",
    "expired",
]

# So many jobs that are ahead are counted, and no more.
AHEAD = 1000


@dataclass(frozen=True, slots=True)
class Why:
    """Why a job is where it is: the first reason that holds."""

    kind: Kind
    sentence: str
    # When it ends by itself, in milliseconds since 1970; None if nobody can tell.
    until: int | None = None
    # The job, the pace or the queue that it waits for.
    job: int | None = None
    pace: str | None = None
    queue: str | None = None
    # What else holds, in the same order.
    others: tuple[Why, ...] = ()


@dataclass(frozen=True, slots=True)
class Around:
    """What the process that asks knows besides the rows."""

    now: int
    # Whether all who use the database are on this machine.
    near: bool
    # Why this process cannot write.
    broken: str | None
    registry: Registry
    # When a job that nobody has taken is late.
    late_ms: int = LATE_MS


class _Asked(NamedTuple):
    """A job with its lane, as the statement `job` reads it."""

    id: int
    lane: int
    task: str
    state: str
    due: int
    at: int
    fence: int
    worker: int | None
    failures: int
    crashes: int
    payload: str
    error: str | None
    serial: str | None
    after: int | None
    cancel_reason: str | None
    settled: int | None
    slot: int | None
    slot_fence: int | None
    queue: str
    alone: int
    lane_due: int
    lane_pace: str | None
    paused: str | None
    # How the last attempt ended, if not well.
    ended: str | None


class _Other(NamedTuple):
    """A job that it waits for."""

    id: int
    state: str
    due: int
    worker: int | None
    failures: int


class _Pace(NamedTuple):
    """A pace's row."""

    name: str
    used: int
    most: int
    blocked: int


def why(tx: Tx, job: int, around: Around) -> Why:
    """Why it waits, runs or has ended; at most six statements, however many jobs there are."""
    rows = tx.query(WHY.job, {"id": job})
    if not rows:
        raise NotFound(f"there is no job {job}")
    row, columns = _Asked(*rows[0][: len(_Asked._fields)]), rows[0][len(_Asked._fields) :]
    if row.state != "open":
        return _over(row, around.now)
    holder = None if columns[0] is None else Process(*columns)
    first, *others = _reasons(tx, row, holder, around)
    return replace(first, others=tuple(others))


def _reasons(tx: Tx, row: _Asked, holder: Process | None, around: Around) -> Iterator[Why]:
    """Every reason that holds, the most urgent first."""
    if around.broken is not None:
        yield Why("not writable", not_writable(around.broken))
    if row.worker is not None:
        yield _held(row, holder, around)
        return
    ready = row.due <= around.now
    if ready and row.lane_due <= around.now:
        yield from _no_worker(tx, row, around)
    if row.paused is not None:
        everything = row.paused == "*"
        name = "Everything" if everything else f"Queue {row.queue}"
        yield Why("paused", f"{name} is paused", queue=row.paused)
    parked = row.due >= FOREVER
    waits = list(_order(tx, row, around.now)) if parked else []
    yield from waits
    yield from _paces(tx, row, around)
    if ready:
        yield from _full(tx, row, around)
    if row.alone:
        text = "It crashed twice in a row: it is a suspect, of which few run at once"
        yield Why("suspect", text, until=None if ready else row.due)
    if ready:
        yield _in_turn(tx, row, around.now)
    elif not parked:
        yield from _later(row, around)
    elif not waits:
        yield Why("parked", "It is parked, and no row says for what: `duework verify` may know")


def not_writable(reason: str) -> str:
    """A process that has not tried since knows no better."""
    return f"The database could not be written when last tried: {first_line(reason)}"


def _held(row: _Asked, holder: Process | None, around: Around) -> Why:
    """Some worker has it; since when, no row tells."""
    now, where = around.now, "a worker without a row"
    gone = False
    if holder is not None:
        where = f"{holder.host}:{holder.pid}"
        gone = verdict(holder, near=around.near) in {"dead", "rebooted"}
    if row.due <= now:
        text = f"Its lease ended {moment(row.due, now)}, on {where}: the next claim takes it over"
        return Why("lease over", text)
    until = on_the_clock(row.due, now)
    if gone:
        text = f"Was running on {where}, which is dead: it runs again by {until}"
    else:
        text = f"Running on {where}, attempt {row.failures + 1}; leased until {until}"
    if row.cancel_reason is not None:
        text += f"; it is being cancelled: {first_line(row.cancel_reason)}"
    return Why("running", text, until=row.due)


def _no_worker(tx: Tx, row: _Asked, around: Around) -> Iterator[Why]:
    found = [Process(*each) for each in tx.query(JOBS.workers, {})]
    if (text := absent(found, max(row.due, row.lane_due), around)) is not None:
        yield Why("no worker", text)


def absent(found: list[Process], since: int, around: Around) -> str | None:
    """What rows tell of workers that are not there, for a job that has been ready since then."""
    if any(verdict(each, near=around.near) not in {"dead", "rebooted"} for each in found):
        return None
    if found:
        last = max(found, key=lambda each: each.started)
        return (
            f"No worker that has left a row is alive. The last one, {last.host}:{last.pid}, is dead"
        )
    if around.now - since > around.late_ms:
        return f"No worker has taken it in {length(around.now - since)}, and none has left a row"
    return None


def _order(tx: Tx, row: _Asked, now: int) -> Iterator[Why]:
    """What has to end before it, by its serial value or by its own wish."""
    found = tx.query(WHY.behind, {"serial": row.serial, "after": row.after})
    others = {each[0]: _Other(*each[1:]) for each in found}
    head, before = others.get("serial"), others.get("after")
    if head is not None and head.id != row.id:
        text = f"Serial {row.serial}, behind job {head.id}, which {_what(head, now)}"
        yield Why("serial", text, job=head.id)
    if before is not None and before.state in {"open", "failed"}:
        text = f"After job {before.id}, which {_what(before, now)}"
        yield Why("after", text, job=before.id)


def _what(other: _Other, now: int) -> str:
    """What another job is doing."""
    if other.state == "failed":
        return "has failed: retry that one, or cancel this"
    if other.worker is not None:
        return "is running"
    if other.due <= now:
        return "is ready"
    if other.due >= FOREVER:
        return "waits itself"
    return ("waits for its own retry " if other.failures else "is due ") + moment(other.due, now)


def _paces(tx: Tx, row: _Asked, around: Around) -> Iterator[Why]:
    now, registry = around.now, around.registry
    gates = registry.task_paces.get(row.task, ()) + registry.queue_paces.get(row.queue, ())
    of_value = [gate.row(row.payload) for gate in gates if gate.pace.per is not None]
    names = {row.lane_pace, *of_value, *(g.name for g in gates if g.pace.per is None)} - {None}
    rows = tx.query(WHY.paces, {"names": sorted(map(str, names))}) if names else []
    found = {each[0]: _Pace(*each) for each in rows}
    for pace in sorted(found.values()):
        if pace.blocked > now:
            text = f"Pace {pace.name} is blocked until {on_the_clock(pace.blocked, now)}"
            until = None if pace.blocked >= UNTIL_ASKED else pace.blocked
            yield Why("pace blocked", text, until=until, pace=pace.name)
    promised = row.slot is not None and row.slot == row.due and row.slot_fence == row.fence
    if promised and row.due > now:
        name = of_value[0] if len(of_value) == 1 else None
        text = f"Waiting for {f'pace {name}' if name else 'its pace'} until"
        yield Why("pace", f"{text} {on_the_clock(row.due, now)}", until=row.due, pace=name)
    if now < row.lane_due < FOREVER:
        yield from _lane_waits(row, found.get(row.lane_pace or ""), now)


def _lane_waits(row: _Asked, pace: _Pace | None, now: int) -> Iterator[Why]:
    until = on_the_clock(row.lane_due, now)
    if row.lane_pace is None:
        text = f"Task {row.task} is held until {until}: the other side asked to slow down"
        yield Why("pace blocked", text, until=row.lane_due)
    elif row.lane_due >= UNTIL_ASKED:
        yield Why("pace blocked", f"Pace {row.lane_pace} was stopped by hand", pace=row.lane_pace)
    elif pace is None or pace.blocked <= now:
        # Of several windows only the first has a count in its row: one that is not full says nothing.
        full = pace is not None and pace.used >= pace.most > 0
        used = f": {pace.used:,} of {pace.most:,} are used" if full and pace is not None else ""
        text = f"Waiting for pace {row.lane_pace} until {until}{used}"
        yield Why("pace", text, until=row.lane_due, pace=row.lane_pace)


def _full(tx: Tx, row: _Asked, around: Around) -> Iterator[Why]:
    known = around.registry.get(row.task)
    limits = {
        "task": None if known is None else known.policy.concurrency,
        "queue": around.registry.queue_limits.get(row.queue),
    }
    if not any(limits.values()):
        return
    rows = tx.query(JOBS.running, {})
    runs = {
        "task": sum(number for _, task, number in rows if task == row.task),
        "queue": sum(number for queue, _, number in rows if queue == row.queue),
    }
    for what, name in (("task", row.task), ("queue", row.queue)):
        limit = limits[what]
        if limit is not None and runs[what] >= limit:
            text = f"Full: {runs[what]:,} of {limit:,} of {what} {name} run"
            yield Why("full", text, queue=name if what == "queue" else None)


def _later(row: _Asked, around: Around) -> Iterator[Why]:
    """Its due is still to come; by whose wish."""
    when = moment(row.due, around.now)
    if row.ended == "retry":
        known = around.registry.get(row.task)
        most = f" of {known.policy.retries}" if known is not None else ""
        text = f"Retry {row.failures}{most} {when}: {first_line(row.error)}"
        yield Why("retry", text, until=row.due)
    elif row.due == row.at:
        yield Why("later", f"Due {when}, as asked for", until=row.due)
    elif row.slot == row.due or row.ended is not None:
        # Its pace, or the crash that made it a suspect, is a reason of its own.
        yield Why("later", f"Due {when}", until=row.due)
    elif row.fence and row.due >= FOREVER - 1:
        yield Why("snoozed", "Waits until something wakes it: an event, a signal, or its child")
    elif row.fence:
        until = on_the_clock(row.due, around.now)
        yield Why("snoozed", f"Snoozed by its handler until {until}", until=row.due)
    else:
        yield Why("later", f"Due {when}", until=row.due)


def _in_turn(tx: Tx, row: _Asked, now: int) -> Why:
    place = {"lane": row.lane, "due": row.due, "id": row.id, "bound": AHEAD}
    ahead = min(tx.query(WHY.ahead, place)[0][0], AHEAD)
    since = max(row.due, row.lane_due) if row.lane_due <= now else row.due
    text = f"Ready for {length(now - since)}; {count(ahead, AHEAD)} ahead in its lane"
    return Why("in turn", text)


def _over(row: _Asked, now: int) -> Why:
    """How it ended."""
    when = moment(row.settled or now, now)
    said = first_line(row.error)
    because = f": {said}" if said else ""
    lines = (row.error or "").split("\n")
    if row.state == "done":
        return Why("done", f"Done {when}, at attempt {row.failures + 1}")
    if row.state == "cancelled" and said.startswith(EXPIRED):
        return Why("expired", f"Expired {when}: nothing had started it in time")
    if row.state == "cancelled":
        return Why("cancelled", f"Cancelled {when}{because}")
    if any(line.startswith(EXPIRED_AFTER_FAILING) for line in lines):
        return Why("expired", f"Expired {when}, before its next retry{because}")
    if row.crashes >= POISON:
        return Why("failed", f"Failed {when} as poison: it crashed {row.crashes} times alone")
    tries = row.failures + row.crashes
    attempts = "attempt" if tries == 1 else "attempts"
    return Why("failed", f"Failed {when}, after {tries} {attempts}{because}")
