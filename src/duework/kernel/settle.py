"""Settle: write how attempts ended, only if they are still ours.

The fences of a whole group are checked first. Jobs that nothing hangs on are settled by one
statement for all of them; the others run one by one, effects and reactions in a savepoint, so that
an effect that fails takes down its own attempt and no other. Of a job that lost its fence nothing is
written. What the group changes in batches is summed and written last. This is the only place that maps
an ending to a row.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any

import msgspec

from duework.clock import FOREVER, monotonic
from duework.codec import checksum, encode
from duework.db.database import Retryable, Tx
from duework.errors import DatabaseError
from duework.kernel.job import POISON, Ending, Held, JobId, LaneName, Reaction, State
from duework.kernel.lanes import Lanes, Q
from duework.kernel.report import describe, storable
from duework.kernel.tally import Around

# All effects of one attempt together; the database is locked for others meanwhile.
EFFECT_LIMIT_MS = 2000
# From so many on, jobs that are alike have a statement of their own.
ALIKE = 10
# Error texts are for people: this much of them is enough.
ERROR_LIMIT = 4000
# What code of the user may raise in here; it must not end the writer.
THEIRS = (Exception, SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError)


def settle(
    tx: Tx, endings: Sequence[Ending], *, now: int, lanes: Lanes, react: Reaction
) -> list[Ending | None]:
    """End attempts; for each, the ending that was written, or None if the lease was lost."""
    around = Around(now, lanes, react)
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
        slow += _settle_members(tx, members, answers, around)
    if gone:
        slow += _settle_gone(tx, gone, answers, around)
    if slow:
        _settle_slowly(tx, slow, answers, around)
    written = [answers[e.id] for e in endings]
    return _told(written) if around.tally.write(tx, now=now) else written


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
        touched += tx.change(Q.settle_alike, {**lease, **end})
    return touched + (tx.bulk(Q.settle_done, rows) if rows else 0)


def _told(written: list[Ending | None]) -> list[Ending | None]:
    """The same, saying that something may be claimable now."""
    return [ending and ending.but(linked=True) for ending in written]


class _NotAll(Exception):
    """A statement for a group did not touch every row of it."""


def _settle_members(
    tx: Tx, endings: Sequence[Ending], answers: dict[JobId, Ending | None], around: Around
) -> list[Ending]:
    """End members of batches that are done; returns the endings that need a closer look."""
    try:
        # In a savepoint: afterwards nobody could tell a row that was done just now, and has to be
        # counted, from one that was done before by the same attempt.
        with tx.savepoint():
            if _write_done(tx, endings, around.now) != len(endings):
                raise _NotAll
    except _NotAll:
        return _not_yet(tx, endings, answers)
    for batch, count in Counter([e.batch for e in endings]).items():
        around.tally.ended(batch, "done", count)
    answers.update((e.id, e) for e in endings)
    return []


def _settle_gone(
    tx: Tx, endings: Sequence[Ending], answers: dict[JobId, Ending | None], around: Around
) -> list[Ending]:
    """Delete what is not kept, with its history; returns the endings that need a closer look."""
    # Looked at before, since a row that is missing afterwards may have been missing all along.
    rows = held(tx, [e.id for e in endings])
    ours = [e for e in endings if _plainly_ours(rows.get(e.id), e)]
    tx.bulk(Q.settle_gone, [(e.id, e.fence, e.worker) for e in ours])
    tx.query(Q.delete_attempts, {"ids": [e.id for e in ours]})
    for ending in ours:
        around.tally.ended(rows[ending.id].batch, "done", gone=True)
        answers[ending.id] = ending
    return [e for e in endings if e.id not in answers]


def _plainly_ours(row: Held | None, ending: Ending) -> bool:
    return row is not None and _still_ours(row, ending) and not row.linked


def _still_ours(row: Held, ending: Ending) -> bool:
    return row.fence == ending.fence and row.worker == ending.worker


def _until(now: int, keep: int | None) -> int:
    return FOREVER if keep is None else now + keep


def _not_yet(
    tx: Tx, endings: Sequence[Ending], answers: dict[JobId, Ending | None]
) -> list[Ending]:
    """Of a bulk settle that did not touch every row: note those that it did, return the others."""
    rows = held(tx, [e.id for e in endings], lock=False)
    rest: list[Ending] = []
    for ending in endings:
        row = rows.get(ending.id)
        if row is not None and row.state == "done" and row.fence == ending.fence:
            answers[ending.id] = ending
        else:
            rest.append(ending)
    return rest


def held(tx: Tx, ids: list[int] | list[JobId], *, lock: bool = True) -> dict[int, Held]:
    """Whole rows by id; under lock where the database has such locks."""
    statement = Q.held if lock else Q.held_unlocked
    return {row[0]: Held(*row) for row in tx.query(statement, {"ids": ids})}


def held_in_turn(tx: Tx, ids: list[int] | list[JobId]) -> dict[int, Held]:
    """Rows under lock, after the serial values that their ending may wake, as everywhere."""
    rows = held(tx, ids, lock=False).values()
    serials = {row.serial for row in rows if row.serial is not None}
    if linked := [row.id for row in rows if row.linked]:
        behind = tx.query(Q.serials_behind, {"ids": linked})
        serials.update(serial for (serial,) in behind if serial is not None)
    _lock_serials(tx, serials)
    return held(tx, ids)


def _lock_serials(tx: Tx, serials: set[str]) -> None:
    if serials:
        tx.query(Q.lock_serials, {"serials": sorted(serials)})


def _settle_slowly(
    tx: Tx,
    endings: Sequence[Ending],
    answers: dict[JobId, Ending | None],
    around: Around,
) -> None:
    ids = sorted(e.id for e in endings)
    rows = held_in_turn(tx, ids)
    for ending in sorted(endings, key=lambda e: e.id):
        row = rows.get(ending.id)
        if row is None or not _still_ours(row, ending):
            answers[ending.id] = None
        else:
            ended = _settle_one(tx, row, ending, around)
            linked = bool(row.linked or ending.effects or ending.watched)
            answers[ending.id] = ended.but(linked=True) if linked else ended


def _settle_one(tx: Tx, row: Held, ending: Ending, around: Around) -> Ending:
    """End one attempt, and cancel what waited for it if it is cancelled."""
    ended, state = _ended(tx, row, ending, around)
    if state == "cancelled":
        _cancel_behind(tx, row, around)
    return ended


def _ended(tx: Tx, row: Held, ending: Ending, around: Around) -> tuple[Ending, State]:
    """The same for its own row alone: the ending that was written, and the row's new state."""
    if not ending.effects and not ending.watched:
        return ending, _write(tx, row, ending, around)
    started = monotonic()
    counted = around.tally.mark()
    try:
        with tx.savepoint(EFFECT_LIMIT_MS):
            ended = _with_effects(tx, ending)
            state = _write(tx, row, ended, around)
            if (monotonic() - started) * 1000 > EFFECT_LIMIT_MS:
                raise DatabaseError(f"its effects took more than {EFFECT_LIMIT_MS} ms")
    except (Retryable, RecursionError, MemoryError):
        # Out of stack or memory, writing the other ending here would run out of it again.
        raise
    except THEIRS as error:
        around.tally.back(counted)
        if ending.fallback is None:
            raise
        ended = ending.fallback(error).but(effects=(), fallback=None)
        if ended.watched and ended.kind != ending.kind:
            # It ends in another way now, to which reactions may be another matter.
            last = ended.but(fallback=lambda _: ended.but(watched=False))
            return _ended(tx, row, last, around)
        # Unobserved: whatever failed must not fail again here.
        ended = ended.but(watched=False)
        state = _write(tx, row, ended, around)
    return ended, state


def watched(ending: Ending) -> Ending:
    """With reactions, and without if one fails: that must not keep the row from ending."""

    def fallback(error: BaseException) -> Ending:
        return ending.but(
            error=f"{ending.error} (and a reaction to that failed: {describe(error)})"
        )

    return ending.but(watched=True, fallback=fallback)


def cancel_waiting(tx: Tx, row: Held, why: str, around: Around) -> None:
    """End a job that nobody runs."""
    _settle_one(tx, row, _unrun(row, why), around)


def _unrun(row: Held, why: str) -> Ending:
    return watched(Ending(row.id, row.fence, 0, "cancelled", error=why))


def _with_effects(tx: Tx, ending: Ending) -> Ending:
    result = ending.result
    for effect in ending.effects:
        value = effect(tx)
        if value is not None:
            result = encode(value)
    return ending.but(result=result, effects=())


def apply(tx: Tx, row: Held, ending: Ending, *, now: int, lanes: Lanes, react: Reaction) -> None:
    """Write an ending to its row, which the caller holds under lock, and what follows from it."""
    around = Around(now, lanes, react)
    if _write(tx, row, ending, around) == "cancelled":
        _cancel_behind(tx, row, around)
    around.tally.write(tx, now=now)


def _write(tx: Tx, row: Held, ending: Ending, around: Around) -> State:
    """The row, its reaction, and what may be claimed now; returns the row's new state."""
    ending = _as_wished(row, ending)
    if ending.kind in {"retry", "failed", "crashed", "lost"}:
        _record(tx, row, ending, around)
    final, change = _changed(tx, row, ending, around)
    state: State = change[0]
    gone = state != "open" and ending.keep == 0 and not _is_waited_for(tx, row, state)
    if gone:
        tx.query(Q.delete_attempts, {"ids": [row.id]})
        tx.bulk(Q.delete, [(row.id,)])
    else:
        tx.bulk(Q.rewrite, [(*change, row.id)])
    if state != "open":
        around.tally.ended(row.batch, state, gone=gone)
    if ending.watched and final != "open":
        around.react(tx, row, ending.but(kind=final))
    if state != "open" and row.serial is not None:
        wake_serials(tx, [row.serial])
    if state == "done":
        _release_behind(tx, row)
    return state


def _record(tx: Tx, row: Held, ending: Ending, around: Around) -> None:
    """One line of history for an attempt that did not end well."""
    crashed_alone = ending.kind == "crashed" and _alone(tx, row, ending, around.lanes)
    outcome = "crashed alone" if crashed_alone else ending.kind
    error = _short(ending.error)
    line = (row.id, row.fence, outcome, row.worker, ending.started, around.now, error)
    tx.bulk(Q.attempt, [line])


def _as_wished(row: Held, ending: Ending) -> Ending:
    """A job marked for cancelling ends so, unless it was done before it noticed."""
    if row.marked is not None and ending.kind != "done":
        return ending.but(kind="cancelled", error=row.marked, keep=ending.keep_cancelled)
    return ending


def _is_waited_for(tx: Tx, row: Held, state: State) -> bool:
    """A failed job stays while another waits for it: it may be revived and done yet."""
    return state == "failed" and bool(row.linked) and bool(tx.query(Q.waiting_for, {"job": row.id}))


def _alone(tx: Tx, row: Held, ending: Ending, lanes: Lanes) -> bool:
    return ending.alone or bool(lanes.name(tx, row.lane).alone)


def _changed(tx: Tx, row: Held, ending: Ending, around: Around) -> tuple[State, tuple[Any, ...]]:
    """How it ended, and the row's new values in the order of the `rewrite` statement."""
    now = around.now
    state: State = "open"
    due, lane, failures, crashes = ending.due, row.lane, row.failures, row.crashes
    result, error, settled = row.result, row.error, None
    payload, check, again, progress = row.payload, row.checksum, row.again, row.progress
    match ending.kind:
        case "done":
            state, result, error = "done", ending.result, None
        case "failed":
            state, error, failures = "failed", ending.error, failures + 1
        case "cancelled":
            state, error = "cancelled", ending.error
        case "retry":
            failures, error = failures + 1, ending.error
        case "snooze":
            pass
        case "released" | "lost":
            due = now
        case "crashed":
            state, due, lane, crashes = _after_crash(tx, row, ending, around)
            error = ending.error
    final = state
    if state != "open":
        due, settled = _until(now, ending.keep), now
        if row.again is not None:
            # A second enqueue asked for another run while this one was under way.
            state, due, settled, failures, crashes, progress = "open", now, None, 0, 0, None
            payload, check, again = row.again, checksum(row.id, row.task, row.again), None
    return final, (
        *(state, due, lane, failures, crashes, result, _short(error)),
        *(payload, check, again, progress, settled),
    )


def _after_crash(tx: Tx, row: Held, ending: Ending, around: Around) -> tuple[State, int, int, int]:
    """A suspect runs alone from now on; the third crash alone is its own fault."""
    now, lanes = around.now, around.lanes
    name = lanes.name(tx, row.lane)
    if not _alone(tx, row, ending, lanes):
        return "open", now, lanes.number(tx, _solitary(name)), row.crashes
    crashes = row.crashes + 1
    if crashes >= POISON and not ending.immortal:
        return "failed", now, row.lane, crashes
    return (
        "open",
        now + 1000 * 2 ** min(crashes - 1, 10),
        lanes.number(tx, _solitary(name)),
        crashes,
    )


def _solitary(name: LaneName) -> LaneName:
    return msgspec.structs.replace(name, alone=1)


def _release_behind(tx: Tx, row: Held) -> None:
    """What waited for a job that is done may be claimed, or has its turn in its serial value."""
    for identifier, serial, at in _behind(tx, row):
        if serial is None:
            _release(tx, identifier, at)
        else:
            wake_serials(tx, [serial])


def _cancel_behind(tx: Tx, row: Held, around: Around) -> None:
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
            waiting = held(tx, [identifier]).get(identifier)
            # A reaction to one of the others may have ended it, or let it wait for nobody.
            if waiting is None or waiting.state != "open":
                continue
            ending = _unrun(waiting, why)
            _, state = _ended(tx, waiting, ending, around)
            if state == "cancelled":
                cancelled.append(waiting)


def _behind(tx: Tx, row: Held) -> list[tuple[Any, ...]]:
    """(job, serial value, at) of the open jobs that wait for this one; the values under lock."""
    found = tx.query(Q.waiting_for, {"job": row.id}) if row.linked else []
    # Most are locked already; not those of jobs that came meanwhile, or wait further down a chain.
    _lock_serials(tx, {serial for _, serial, _ in found if serial is not None})
    return found


def wake_serials(tx: Tx, serials: Sequence[str]) -> None:
    """Make the first parked job of each serial value claimable, if no other of it is or runs.

    The first one need not be the newest to wait: a revived job goes to its old place in the line.
    """
    for serial in serials:
        for identifier, after, due, at, worker in tx.query(Q.serial_head, {"serial": serial}):
            if worker is None and due >= FOREVER and not waits(tx, after):
                _release(tx, identifier, at)


def serial_busy(tx: Tx, serial: str) -> bool:
    """Whether a job of the serial value is claimable or held."""
    return any(due < FOREVER for _, _, due, _, _ in tx.query(Q.serial_head, {"serial": serial}))


def _release(tx: Tx, identifier: int, due: int) -> None:
    tx.query(Q.release, {"id": identifier, "due": due, "forever": FOREVER})
    # Nobody has claimed it in this transaction, perhaps, and nobody else would look for it soon.
    tx.hint("due")


def waits(tx: Tx, after: int | None) -> bool:
    """Whether the job that has to be done first may still be done."""
    if after is None:
        return False
    state = tx.query(Q.state_of, {"id": after})
    return bool(state) and state[0][0] in {"open", "failed"}


def _short(error: str | None) -> str | None:
    if error is None:
        return None
    return storable(error if len(error) <= ERROR_LIMIT else error[: ERROR_LIMIT - 1] + "…")
