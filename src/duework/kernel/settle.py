"""Settle: write how attempts ended, only if they are still ours.

The fences of a whole group are checked first. Jobs that nothing hangs on are settled by one
statement for all of them; the others run one by one, effects and reactions in a savepoint, so that
an effect that fails takes down its own attempt and no other, and one that waits for a lock in vain
stays as it is, to be settled later. Of a job that lost its fence nothing is written. What the group
changes in batches is summed and written last. This is the only place that maps an ending to a row.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any

from duework.clock import FOREVER
from duework.codec import checksum, encode
from duework.db.database import Blocked, Retryable, TooSlow, Tx
from duework.kernel.counters import SettleContext
from duework.kernel.error_text import describe, short
from duework.kernel.failures.setbacks import after_crash, after_misfit, lane_among
from duework.kernel.job import Ending, JobId, LockedJob, State
from duework.kernel.lanes import JOBS

# How long the user's own code in all effects of one attempt may take: others wait for the database.
EFFECT_LIMIT_MS = 2000
# From so many on, jobs that are alike have a statement of their own.
ALIKE = 10
# What code of the user may raise in here; it must not end the writer.
THEIRS = (Exception, SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError)


def settle(tx: Tx, endings: Sequence[Ending], context: SettleContext) -> list[Ending | None]:
    """End attempts; for each what was written, or `blocked`, or None if the lease was lost."""
    now = context.now
    answers: dict[JobId, Ending | None] = {}
    kept: list[Ending] = []
    gone: list[Ending] = []
    members: list[Ending] = []
    slow: list[Ending] = []
    for ending in endings:
        if ending.kind != "done" or ending.effects or ending.watched:
            slow.append(ending)
        elif ending.keep == 0:
            gone.append(ending)
        else:
            (kept if ending.batch is None else members).append(ending)
    if kept:
        if _write_done(tx, kept, now) == len(kept):
            answers.update((e.id, e) for e in kept)
        else:
            slow += _not_yet(tx, kept, answers)
    if members:
        slow += _settle_members(tx, members, answers, context)
    if gone:
        slow += _settle_gone(tx, gone, answers, context)
    if slow:
        _settle_slowly(tx, slow, answers, context)
    written = [answers[e.id] for e in endings]
    follow_up = context.tally.write(tx, now=now)
    return [one and one.but(linked=True) for one in written] if follow_up else written


def _write_done(tx: Tx, endings: Sequence[Ending], now: int) -> int:
    """Those that end alike by one statement, the rest row by row; how many were still ours."""
    alike: dict[tuple[Any, ...], list[int]] = {}
    for e in endings:
        alike.setdefault((e.keep, e.result, e.fence, e.worker, e.batch), []).append(e.id)
    rows: list[tuple[Any, ...]] = []
    touched = 0
    for (keep, result, fence, worker, batch), ids in alike.items():
        due = _until(now, keep)
        if len(ids) < ALIKE:
            rows += [(due, result, now, each, fence, worker, batch) for each in ids]
            continue
        lease = {"ids": ids, "fence": fence, "worker": worker, "batch": batch}
        end = {"due": due, "result": result, "settled": now}
        touched += tx.change(JOBS.settle_alike, {**lease, **end})
    return touched + (tx.bulk(JOBS.settle_done, rows) if rows else 0)


class _NotAll(Exception):
    """A statement for a group did not touch every row of it."""


def _settle_members(
    tx: Tx, endings: Sequence[Ending], answers: dict[JobId, Ending | None], context: SettleContext
) -> list[Ending]:
    """End members of batches that are done; returns the endings that need a closer look."""
    try:
        # In a savepoint: afterwards nothing distinguishes a row that was done just now, and has to be
        # counted, from one that was done before by the same attempt.
        with tx.savepoint():
            if _write_done(tx, endings, context.now) != len(endings):
                raise _NotAll
    except _NotAll:
        return _not_yet(tx, endings, answers)
    for batch, count in Counter([e.batch for e in endings]).items():
        context.tally.ended(batch, "done", count)
    answers.update((e.id, e) for e in endings)
    return []


def _settle_gone(
    tx: Tx, endings: Sequence[Ending], answers: dict[JobId, Ending | None], context: SettleContext
) -> list[Ending]:
    """Delete what is not kept, with its history; returns the endings that need a closer look."""
    # Looked at before, since a row that is missing afterwards may have been missing all along.
    rows = lock_jobs(tx, [e.id for e in endings])
    ours = [e for e in endings if _plainly_ours(rows.get(e.id), e)]
    tx.bulk(JOBS.settle_gone, [(e.id, e.fence, e.worker) for e in ours])
    tx.query(JOBS.delete_attempts, {"ids": [e.id for e in ours]})
    for ending in ours:
        context.tally.ended(rows[ending.id].batch, "done", gone=True)
        answers[ending.id] = ending
    return [e for e in endings if e.id not in answers]


def _plainly_ours(row: LockedJob | None, ending: Ending) -> bool:
    return row is not None and _still_ours(row, ending) and not row.linked


def _still_ours(row: LockedJob, ending: Ending) -> bool:
    return row.fence == ending.fence and row.worker == ending.worker


def _until(now: int, keep: int | None) -> int:
    return FOREVER if keep is None else now + keep


def _not_yet(
    tx: Tx, endings: Sequence[Ending], answers: dict[JobId, Ending | None]
) -> list[Ending]:
    """Of a bulk settle that did not touch every row: note those that it did, return the others."""
    rows = lock_jobs(tx, [e.id for e in endings], lock=False)
    rest: list[Ending] = []
    for ending in endings:
        row = rows.get(ending.id)
        if row is not None and row.state == "done" and row.fence == ending.fence:
            answers[ending.id] = ending
        else:
            rest.append(ending)
    return rest


def lock_jobs(tx: Tx, ids: list[int] | list[JobId], *, lock: bool = True) -> dict[int, LockedJob]:
    """Whole rows by id; under lock where the database has such locks."""
    statement = JOBS.held if lock else JOBS.held_unlocked
    return {row[0]: LockedJob(*row) for row in tx.query(statement, {"ids": ids})}


def lock_jobs_in_order(tx: Tx, ids: list[int] | list[JobId]) -> dict[int, LockedJob]:
    """Rows under lock, after the serial values that their ending may wake, as everywhere."""
    rows = lock_jobs(tx, ids, lock=False).values()
    serials = {row.serial for row in rows if row.serial is not None}
    if linked := [row.id for row in rows if row.linked]:
        behind = tx.query(JOBS.serials_behind, {"ids": linked})
        serials.update(serial for (serial,) in behind if serial is not None)
    _lock_serials(tx, serials)
    return lock_jobs(tx, ids)


def _lock_serials(tx: Tx, serials: set[str]) -> None:
    if serials:
        tx.query(JOBS.lock_serials, {"serials": sorted(serials)})


def _settle_slowly(
    tx: Tx,
    endings: Sequence[Ending],
    answers: dict[JobId, Ending | None],
    context: SettleContext,
) -> None:
    ids = sorted(e.id for e in endings)
    rows = lock_jobs_in_order(tx, ids)
    for ending in sorted(endings, key=lambda e: e.id):
        row = rows.get(ending.id)
        if row is None or not _still_ours(row, ending):
            answers[ending.id] = None
        else:
            answers[ending.id] = _settle_one(tx, row, ending, context)


def _settle_one(tx: Tx, row: LockedJob, ending: Ending, context: SettleContext) -> Ending:
    """End one attempt, and cancel what waited for it if it is cancelled."""
    counted = context.tally.copy()
    try:
        ended, state = _ended(tx, row, ending, context)
    except Blocked as error:
        # The lock may be held for long: the other endings do not wait for that.
        context.tally.back(counted)
        return ending.but(kind="blocked", error=str(error), report=None, spent=())
    if state == "cancelled":
        _cancel_behind(tx, row, context)
    linked = bool(row.linked or ending.effects or ending.watched)
    return ended.but(linked=True) if linked else ended


def _ended(tx: Tx, row: LockedJob, ending: Ending, context: SettleContext) -> tuple[Ending, State]:
    """The same for its own row alone: the ending that was written, and the row's new state."""
    if not ending.effects and not ending.watched:
        return _write(tx, row, ending, context)
    counted = context.tally.copy()
    try:
        with contextlib.suppress(TooSlow):
            return _written(tx, row, ending, context)
        # Perhaps we, or the server, stood still meanwhile; what is slow by itself is so again.
        context.tally.back(counted)
        return _written(tx, row, ending, context)
    except (Retryable, RecursionError, MemoryError):
        # Out of stack or memory, writing the other ending here would run out of it again.
        raise
    except THEIRS as error:
        context.tally.back(counted)
        if ending.fallback is None:
            raise
        ended = ending.fallback(error).but(effects=(), fallback=None)
        if ended.watched and ended.kind != ending.kind:
            # It ends in another way now, and its reactions to that may succeed.
            last = ended.but(fallback=lambda _: ended.but(watched=False))
            return _ended(tx, row, last, context)
        # Unobserved: whatever failed must not fail again here.
        return _write(tx, row, ended.but(watched=False), context)


def _written(
    tx: Tx, row: LockedJob, ending: Ending, context: SettleContext
) -> tuple[Ending, State]:
    with tx.savepoint(EFFECT_LIMIT_MS):
        return _write(tx, row, ending, context)


def watched(ending: Ending) -> Ending:
    """With reactions, and without if one fails: that must not keep the row from ending."""

    def fallback(error: BaseException) -> Ending:
        return ending.but(
            error=f"{ending.error} (and a reaction to that failed: {describe(error)})"
        )

    return ending.but(watched=True, fallback=fallback)


def cancel_waiting(tx: Tx, row: LockedJob, why: str, context: SettleContext) -> None:
    """End a job that does not run."""
    ended = _settle_one(tx, row, _unrun(row, why), context)
    if ended.kind == "blocked":
        raise Blocked(ended.error)


def _unrun(row: LockedJob, why: str) -> Ending:
    return watched(Ending(row.id, row.fence, 0, "cancelled", error=why))


def _with_effects(tx: Tx, ending: Ending) -> Ending:
    result = ending.result
    for effect in ending.effects:
        value = effect(tx)
        if value is not None:
            result = encode(value)
    if ending.kind == "done" and result != ending.result:
        tx.query(JOBS.result, {"id": ending.id, "result": result})
    return ending.but(result=result, effects=())


def apply(tx: Tx, row: LockedJob, ending: Ending, context: SettleContext) -> None:
    """Write an ending to its row, which the caller holds under lock, and what follows from it."""
    _, state = _write(tx, row, ending, context)
    if state == "cancelled":
        _cancel_behind(tx, row, context)
    context.tally.write(tx, now=context.now)


def _write(tx: Tx, row: LockedJob, ending: Ending, context: SettleContext) -> tuple[Ending, State]:
    """The row, its effects, its reaction, and what may be claimed now; the row's new state.

    The row goes first: an effect may enqueue a job under the key of this one, or after it, and would be
    answered with a job that is as good as over.
    """
    ending = _as_wished(tx, row, ending, context.now)
    if ending.kind in {"retry", "misfit", "failed", "crashed", "lost"} and not ending.untried:
        _record(tx, row, ending, context)
    final, change = _changed(tx, row, ending, context)
    state: State = change[0]
    gone = state != "open" and ending.keep == 0 and not _is_waited_for(tx, row, state)
    if gone:
        tx.query(JOBS.delete_attempts, {"ids": [row.id]})
        tx.bulk(JOBS.delete, [(row.id,)])
    else:
        tx.bulk(JOBS.rewrite, [(*change, row.id)])
    if ending.effects:
        ending = _with_effects(tx, ending)
    if state != "open":
        context.tally.ended(row.batch, state, gone=gone)
    if ending.watched and final != "open":
        context.react(tx, row, ending.but(kind=final))
    if state != "open" and row.serial is not None:
        wake_serials(tx, [row.serial])
    if state == "done":
        _release_behind(tx, row)
    return ending, state


def _record(tx: Tx, row: LockedJob, ending: Ending, context: SettleContext) -> None:
    """One line of history for an attempt that did not end well."""
    outcome = "crashed alone" if ending.kind == "crashed" and ending.alone else ending.kind
    error = short(ending.error)
    line = (row.id, row.fence, outcome, row.worker, ending.started, context.now, error)
    tx.bulk(JOBS.attempt, [line])


def _as_wished(tx: Tx, row: LockedJob, ending: Ending, now: int) -> Ending:
    """A job with a cancel reason ends so, unless it was done before it noticed; others as it is due."""
    if row.cancel_reason is not None and ending.kind != "done":
        why, keep = row.cancel_reason, ending.keep_cancelled
        return ending.but(kind="cancelled", error=why, keep=keep, exception=None)
    if ending.kind == "misfit":
        return after_misfit(tx, row, ending, now=now)
    if ending.untried:
        return ending.but(error=f"{row.error}\n{ending.error}")
    return ending


def _is_waited_for(tx: Tx, row: LockedJob, state: State) -> bool:
    """A failed job stays while another waits for it: it may be revived and done yet."""
    return (
        state == "failed" and bool(row.linked) and bool(tx.query(JOBS.waiting_for, {"job": row.id}))
    )


def _changed(
    tx: Tx, row: LockedJob, ending: Ending, context: SettleContext
) -> tuple[State, tuple[Any, ...]]:
    """How it ended, and the row's new values in the order of the `rewrite` statement."""
    now = context.now
    state: State = "open"
    due, lane, failures, crashes = ending.due, row.lane, row.failures, row.crashes
    result, error, settled = row.result, row.error, None
    payload, check, again, progress = row.payload, row.checksum, row.again, row.progress
    match ending.kind:
        case "done":
            state, result, error = "done", ending.result, None
        case "failed":
            state, error, failures = "failed", ending.error, failures + (not ending.untried)
        case "cancelled":
            state, error = "cancelled", ending.error
        case "misfit":
            error = ending.error
        case "retry" | "snooze":
            lane, crashes = lane_among(tx, row, context.lanes, alone=0), 0
            failures += ending.kind == "retry"
            error = error if ending.kind == "snooze" else ending.error
        case "released" | "lost":
            due = now
        case "crashed":
            state, due, lane, crashes = after_crash(tx, row, ending, now=now, lanes=context.lanes)
            error = ending.error
    final = state
    if state != "open":
        due, settled = _until(now, ending.keep), now
        if row.again is not None:
            # A second enqueue asked for another run while this one was under way.
            state, due, settled, failures, crashes, progress = "open", now, None, 0, 0, None
            payload, check, again = row.again, checksum(row.id, row.task, row.again), None
            lane = lane_among(tx, row, context.lanes, alone=0)
    return final, (
        *(state, due, lane, failures, crashes, result, short(error)),
        *(payload, check, again, progress, settled),
    )


def _release_behind(tx: Tx, row: LockedJob) -> None:
    """What waited for a job that is done may be claimed, or is the next of its serial value."""
    for identifier, serial, at in _behind(tx, row):
        if serial is None:
            _release(tx, identifier, at)
        else:
            wake_serials(tx, [serial])


def _cancel_behind(tx: Tx, row: LockedJob, context: SettleContext) -> None:
    """What waited for a cancelled job is cancelled too, and what waited for that.

    A list and not a recursion, since a chain may be longer than a stack is deep; and each of them
    in a savepoint of its own, so that a reaction that fails takes back its own row and no other.
    A job that has failed cancels nothing: it may be revived and done yet.
    """
    cancelled = deque([row])
    while cancelled:
        first = cancelled.popleft()
        why = f"job {first.id}, which it waited for, was cancelled"
        for identifier, *_ in _behind(tx, first):
            waiting = lock_jobs(tx, [identifier]).get(identifier)
            # A reaction to one of the others may have ended it, or released it.
            if waiting is None or waiting.state != "open":
                continue
            ending = _unrun(waiting, why)
            _, state = _ended(tx, waiting, ending, context)
            if state == "cancelled":
                cancelled.append(waiting)


def _behind(tx: Tx, row: LockedJob) -> list[tuple[Any, ...]]:
    """(job, serial value, at) of the open jobs that wait for this one; the values under lock."""
    found = tx.query(JOBS.waiting_for, {"job": row.id}) if row.linked else []
    # Most are locked already; not those of jobs that came meanwhile, or wait further down a chain.
    _lock_serials(tx, {serial for _, serial, _ in found if serial is not None})
    return found


def wake_serials(tx: Tx, serials: Sequence[str]) -> None:
    """Make the first parked job of each serial value claimable, if no other of it is or runs.

    The first one need not be the newest to wait: a revived job goes to its old place in the line.
    """
    for serial in serials:
        for identifier, after, due, at, worker in tx.query(JOBS.serial_head, {"serial": serial}):
            if worker is None and due >= FOREVER and not waits(tx, after):
                _release(tx, identifier, at)


def serial_busy(tx: Tx, serial: str) -> bool:
    """Whether a job of the serial value is claimable or held."""
    return any(due < FOREVER for _, _, due, _, _ in tx.query(JOBS.serial_head, {"serial": serial}))


def _release(tx: Tx, identifier: int, due: int) -> None:
    tx.query(JOBS.release, {"id": identifier, "due": due, "forever": FOREVER})
    # It may not be claimed in this transaction, and no other claim would look for it soon.
    tx.hint("due")


def waits(tx: Tx, after: int | None) -> bool:
    """Whether the job that has to be done first may still be done."""
    if after is None:
        return False
    state = tx.query(JOBS.state_of, {"id": after})
    return bool(state) and state[0][0] in {"open", "failed"}
