"""Verbs on steps: each runs inside a transaction of the caller's, that of an attempt under its fence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from duework.codec import checksum
from duework.db.queries import load
from duework.errors import Conflict, LeaseLost, NotFound, UsageError
from duework.kernel import moves
from duework.kernel.job import DAY, NewJob, NewSignal
from duework.kernel.settle import EFFECT_LIMIT_MS, THEIRS, lock_jobs
from duework.shapes.shape import CHUNK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duework.db.database import Tx
    from duework.kernel.engine import Engine
    from duework.kernel.job import Claimed, Effect, Ending, LockedJob

STEPS = load(__package__ or "", "steps")
# What was told is remembered so long, for workflows that begin to wait for it later.
SIGNALS_KEPT = 30 * DAY
# Ids are drawn by time: this many bits of one are not.
_ID_BITS = 22


class StepRow(NamedTuple):
    """A step as it is recorded."""

    place: int
    name: str
    kind: str
    state: str
    fence: int = 0
    failures: int = 0
    due: int | None = None
    event: str | None = None
    key: str | None = None
    signal: int | None = None
    child: int | None = None
    result: str | None = None
    error: str | None = None
    started: int = 0
    ended: int | None = None


class Recorded(NamedTuple):
    """What an attempt writes while it runs, only if it still holds its job."""

    job: int
    fence: int
    effects: tuple[Effect, ...]
    # What is written after them, given what they returned, and what the caller gets.
    last: Any


def call_of(task: str, payload: str) -> int:
    """Tells one call of a job from another that it is opened again for."""
    return checksum(0, task, payload)


def commit(tx: Tx, items: Sequence[Recorded]) -> list[Any]:
    """Write what attempts recorded, each whole or, if its lease is lost, not at all."""
    held = moves.still_held(tx, [each.job for each in items])
    answers = []
    for each in items:
        if held.get(each.job) != each.fence:
            raise LeaseLost(f"job {each.job} is no longer held by this attempt")
        answers.append(_written(tx, each))
    return answers


def _written(tx: Tx, item: Recorded) -> Any:
    value = None
    try:
        with tx.savepoint(EFFECT_LIMIT_MS):
            for effect in item.effects:
                given = effect(tx)
                value = given if given is not None else value
    except THEIRS as error:
        if isinstance(error, Exception):
            raise
        raise UsageError(f"an effect of a step ended with {error!r}") from error
    return item.last(tx, value)


def open_workflow(tx: Tx, job: Claimed, *, fresh: bool, now: int) -> None:
    """Say that a job has steps; what an earlier call of it has recorded is forgotten."""
    if fresh:
        tx.query(STEPS.keep_heard, {"job": job.id})
        tx.query(STEPS.forget, {"job": job.id})
    call = call_of(job.task, job.payload)
    values = {"job": job.id, "task": job.task, "call": call, "now": now, "due": now + DAY}
    tx.query(STEPS.open, values)
    # It has begun, and cannot be too late any more.
    moves.never_expire(tx, job.id)


def record(tx: Tx, job: int, row: StepRow) -> None:
    tx.query(STEPS.record, {"job": job, **row._asdict()})


def heard(tx: Tx, job: int, row: StepRow) -> tuple[int, str] | None:
    """The next signal that a wait may take."""
    # From the millisecond of the job on: within it, ids of two processes have no order.
    since = job >> _ID_BITS << _ID_BITS or job
    values = {"event": row.event, "key": row.key, "since": since, "job": job}
    for found, payload in tx.query(STEPS.heard, values):
        return found, payload
    return None


def receive(tx: Tx, job: int, row: StepRow, now: int) -> StepRow:
    """Take the next signal, or give up if it is too late; else as it was."""
    tx.query(STEPS.lock_topic, {"event": row.event, "key": row.key, "now": now})
    found = heard(tx, job, row)
    if found is not None:
        row = row._replace(state="done", signal=found[0], result=found[1], ended=now)
    elif row.due is not None and row.due <= now:
        row = row._replace(state="failed", error="it did not come in time", ended=now)
    record(tx, job, row)
    return row


def begin_to_wait(tx: Tx, job: int, row: StepRow, now: int) -> None:
    """In the settle that frees the worker: if it has come meanwhile, the job is due at once."""
    tx.query(STEPS.lock_topic, {"event": row.event, "key": row.key, "now": now})
    record(tx, job, row)
    if heard(tx, job, row) is not None:
        moves.wake(tx, job, now=now)


def signal(tx: Tx, new: Sequence[NewSignal], engine: Engine) -> list[int]:
    """Tell all who wait for an event, and those who begin to later."""
    now, answers = engine.clock.now(), dict[int, int]()
    # Topics in one order, by every transaction.
    for place, each in sorted(enumerate(new), key=lambda one: (one[1].event, one[1].key)):
        topic = {"event": each.event, "key": each.key}
        tx.query(STEPS.lock_topic, {**topic, "now": now})
        waiting = [job for [job] in tx.query(STEPS.waiting, topic)]
        told = [last for [last] in tx.query(STEPS.last_told, topic)]
        # Clocks differ: its id is above those of all who wait for it, and of what they were told before.
        answers[place] = max(engine.ids.draw(), max([0, *waiting, *told]) + 1)
        values = {"id": answers[place], **topic, "payload": each.payload, "at": now}
        tx.query(STEPS.tell, values)
        for job in waiting:
            moves.wake(tx, job, now=now)
    engine.ring_after(tx)
    return [answers[place] for place in range(len(new))]


def start_child(tx: Tx, job: int, row: StepRow, new: NewJob, engine: Engine) -> None:
    """Enqueue the job that a step waits for, in the settle that frees the worker."""
    child = engine.enqueue(tx, [new.but(owner=f"step:{job}:{row.place}")])[0].id
    record(tx, job, row._replace(child=child))


def wait_on(tx: Tx, job: int, row: StepRow, now: int) -> None:
    """It still waits for a child, unless that has ended meanwhile."""
    for [ended] in tx.query(STEPS.still_waits, {"job": job, "place": row.place}):
        if ended is not None:
            moves.wake(tx, job, now=now)


def child_ended(tx: Tx, child: LockedJob, ending: Ending, engine: Engine) -> None:
    """A job that a step waits for has settled: record that, and let its workflow go on."""
    _, job, place = (child.owner or "").split(":")
    done, now = ending.kind == "done", engine.clock.now()
    values = {
        "job": int(job),
        "place": int(place),
        "child": child.id,
        "state": "done" if done else "failed",
        "result": ending.result if done else None,
        "error": None if done else ending.error or ending.kind,
        "now": now,
    }
    if tx.change(STEPS.child_ended, values):
        moves.wake(tx, int(job), now=now)
        engine.ring_after(tx)


def mark(tx: Tx, job: int, state: str, reason: str | None = None) -> None:
    tx.query(STEPS.moved, {"job": job, "state": state, "reason": reason})


def resume(tx: Tx, jobs: Sequence[int], engine: Engine) -> list[None]:
    """Open workflows that need attention again; their records stay."""
    for job in sorted(jobs):
        locked(tx, job)
        engine.revive(tx, [job])
        mark(tx, job, "running")
    return [None for _ in jobs]


def cancel(tx: Tx, wanted: Sequence[tuple[int, str]], engine: Engine) -> list[None]:
    """End workflows for good, also those that need attention, whose jobs have failed; not what has ended."""
    for job, why in sorted(wanted):
        if locked(tx, job).state == "failed":
            engine.revive(tx, [job])
        if list(engine.cancel(tx, [(job, why)])) == ["cancelled"]:
            mark(tx, job, "cancelled", why)
    return [None for _ in wanted]


def fork(tx: Tx, wanted: Sequence[tuple[int, str]], engine: Engine) -> list[int]:
    """A new job with the records before a step, which it is the first to run."""
    return [_forked(tx, job, step, engine) for job, step in wanted]


def _forked(tx: Tx, job: int, step: str, engine: Engine) -> int:
    row, now = locked(tx, job), engine.clock.now()
    steps = [StepRow(*each) for each in tx.query(STEPS.of_job, {"job": job})]
    places = [each.place for each in steps if each.name == step]
    if not places:
        there = ", ".join(each.name for each in steps) or "none"
        raise NotFound(f"workflow {job} has recorded no step {step!r}; there are: {there}")
    lane = msgspec.structs.replace(engine.lanes.name(tx, row.lane), alone=0)
    new = engine.enqueue(tx, [NewJob(lane, row.payload, now)])[0].id
    values = {"new": new, "job": job}
    tx.query(STEPS.copy_workflow, {**values, "now": now, "due": now + DAY})
    tx.query(STEPS.copy_steps, {**values, "place": places[0]})
    return new


def locked(tx: Tx, job: int) -> LockedJob:
    """The job of a workflow, under lock, and not running."""
    if not tx.query(STEPS.workflow, {"job": job}) or not (found := lock_jobs(tx, [job])):
        raise NotFound(f"there is no workflow {job}")
    if found[job].worker is not None:
        raise Conflict(f"workflow {job} is running; cancel its job first, or wait")
    return found[job]


def prune(tx: Tx, now: int) -> int:
    """Forget workflows whose jobs are gone, and signals that are too old; how many were looked at."""
    looked = tx.query(STEPS.over, {"now": now, "wanted": CHUNK})
    gone = sorted(job for job, there in looked if there is None)
    tx.query(STEPS.drop_steps, {"ids": gone})
    tx.query(STEPS.drop_heard, {"ids": gone})
    tx.query(STEPS.drop_workflows, {"ids": gone})
    kept = sorted(job for job, there in looked if there is not None)
    tx.query(STEPS.look_again, {"ids": kept, "due": now + DAY})
    until = now - SIGNALS_KEPT
    signals = tx.query(STEPS.drop_signals, {"until": until, "wanted": CHUNK})
    tx.query(STEPS.drop_topics, {"until": until})
    return max(len(looked), len(signals))
