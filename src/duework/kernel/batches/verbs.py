"""Verbs on batches: create, cancel, retry, look.

A batch is a row that counts its members; the verbs that end them count, in `counters.py`.
Every function here runs inside a transaction that the caller opened and takes the time as an argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from duework.clock import FOREVER
from duework.codec import encode
from duework.db.database import Tx
from duework.errors import Conflict, NotFound, UsageError
from duework.ids import Ids
from duework.kernel import enqueue, operate
from duework.kernel.batches.counters import BATCHES, Tally
from duework.kernel.batches.new import MemberTerms, NewBatch, NewMembers
from duework.kernel.counters import SettleContext
from duework.kernel.error_text import storable
from duework.kernel.job import DAY, KEEP, Enqueued, JobId
from duework.kernel.lanes import JOBS, Lanes


def create(tx: Tx, new: Sequence[NewBatch], *, ids: Ids, lanes: Lanes, now: int) -> list[Enqueued]:
    """Write batches and their members; one whose key is taken is answered with the batch that has it."""
    # Every transaction takes keys in one order, so that two such transactions cannot deadlock.
    order = sorted(range(len(new)), key=lambda place: (new[place].key or "", place))
    answers = {place: _create(tx, new[place], ids=ids, lanes=lanes, now=now) for place in order}
    return [answers[place] for place in range(len(new))]


def _create(tx: Tx, new: NewBatch, *, ids: Ids, lanes: Lanes, now: int) -> Enqueued:
    batch = ids.draw()
    values = {
        "id": batch,
        "name": new.name,
        "key": new.key,
        "task": new.member.lane.task,
        "total": 0 if new.keys is not None else len(new.payloads),
        "keep": new.keep,
        "due": FOREVER,
        "created": now,
        "member": None if new.terms is None else encode(new.terms),
        **_follow(tx, new, batch, ids, lanes),
    }
    while not tx.query(BATCHES.insert, values):
        if existing := tx.query(BATCHES.by_key, {"key": new.key}):
            return Enqueued(JobId(existing[0][0]), existed=True)
    members = NewMembers(new.member.but(batch=batch), new.payloads, new.keys)
    count = _insert(tx, members, ids=ids, lanes=lanes, now=now)
    if new.keys is not None:
        tx.query(BATCHES.grow, {"id": batch, "count": count})
    if not count:
        tally = Tally()
        tally.touch(batch)
        tally.write(tx, now=now)
    return Enqueued(JobId(batch))


def _insert(tx: Tx, new: NewMembers, *, ids: Ids, lanes: Lanes, now: int) -> int:
    """Write members; how many. An open or remembered job with the key of one is none of this batch."""
    common, payloads = new.member, new.payloads
    if not payloads:
        return 0
    plain = common.serial is None and common.after is None and not common.carries
    if new.keys is None and plain:
        first = ids.draw_many(len(payloads))[0]
        enqueue.insert_alike(tx, common, payloads, first, lanes.number(tx, common.lane))
        return len(payloads)
    keys: Sequence[str | None] = new.keys or [None] * len(payloads)
    both = zip(payloads, keys, strict=True)
    members = [common.but(payload=payload, key=key) for payload, key in both]
    answers = enqueue.enqueue(tx, members, ids=ids, lanes=lanes, now=now)
    return sum(not answer.existed for answer in answers)


def add(tx: Tx, new: NewMembers, *, ids: Ids, lanes: Lanes, now: int) -> int:
    """Write more members of a batch that is open; how many. `Conflict` if it is over."""
    batch = new.member.batch
    assert batch is not None, "given"
    count = _insert(tx, new, ids=ids, lanes=lanes, now=now)
    # Last, as everywhere: whether its last member has ended meanwhile is known under this row's lock.
    if not tx.query(BATCHES.grow, {"id": batch, "count": count}):
        find(tx, batch)
        raise _is_over(batch)
    return count


def terms(tx: Tx, batch: int) -> MemberTerms | None:
    """How members of an open batch are made; None if that was not stored."""
    find(tx, batch)
    [(text, settled)] = tx.query(BATCHES.terms, {"id": batch})
    if settled is not None:
        raise _is_over(batch)
    return None if text is None else msgspec.json.decode(text, type=MemberTerms)


def _is_over(batch: int) -> Conflict:
    return Conflict(f"batch {batch} is over: its last member has ended; make another batch")


def _follow(tx: Tx, new: NewBatch, batch: int, ids: Ids, lanes: Lanes) -> dict[str, Any]:
    """The columns of the follow-up."""
    names = ("job", "lane", "task", "payload", "delay", "expires")
    then = new.then
    if then is None:
        return dict.fromkeys((f"then_{name}" for name in names), None)
    payload = encode({} if then.takes is None else {then.takes: batch})
    lane = lanes.number(tx, then.lane)
    row = (ids.draw(), lane, then.lane.task, payload, then.delay, then.expires)
    return {f"then_{name}": value for name, value in zip(names, row, strict=True)}


def open_members(tx: Tx, batch: int, after: int) -> list[int]:
    """A chunk of members that have not ended, from the oldest on; go on after the last one."""
    values = {"batch": batch, "after": after, "wanted": operate.CHUNK}
    return [row[0] for row in tx.query(BATCHES.open_members, values)]


def cancel(
    tx: Tx, members: Sequence[int], context: SettleContext, *, why: str, watched: bool
) -> list[str]:
    """As the verb on jobs, for many; if they are not watched, what nothing hangs on ends all at once."""
    if watched:
        return operate.cancel(tx, members, context, why=why)
    now = context.now
    values = {"ids": list(members), "due": now + KEEP, "why": storable(why), "now": now}
    tally = Tally()
    ended = tx.query(BATCHES.cancel_plain, values)
    for _, batch in ended:
        tally.ended(batch, "cancelled")
    tally.write(tx, now=now)
    left = sorted(set(members).difference(row[0] for row in ended))
    there = [row[0] for row in tx.query(JOBS.held_unlocked, {"ids": left})]
    rest = operate.cancel(tx, there, replace(context, react=_nobody), why=why) if there else []
    return ["cancelled"] * len(ended) + rest


def _nobody(*_: object) -> None:
    """There are no reactions."""


def retry(tx: Tx, batch: int, context: SettleContext, *, then: bool, ids: Ids) -> int:
    """Open the failed members again, all at once; with `then` the follow-up is due once more."""
    row, now = find(tx, batch), context.now
    if then and row[11] is None:
        raise UsageError(f"batch {batch} has no follow-up; retry it without then=True")
    revived = len(tx.query(BATCHES.revive_plain, {"batch": batch, "now": now}))
    tally = Tally()
    tally.reopened(batch, "failed", revived)
    tally.write(tx, now=now)
    wanted, last = {"batch": batch, "wanted": operate.CHUNK}, 0
    while rest := tx.query(BATCHES.failed_in_order, {**wanted, "after": last}):
        last = rest[-1][0]
        revived += len(operate.revive(tx, [job for job, _, key in rest if key is None], context))
        for job, task, key in rest:
            # What another open job with that key has taken over is not wanted twice.
            if key is not None and not tx.query(JOBS.key_taken, {"task": task, "key": key}):
                revived += len(operate.revive(tx, [job], context))
    if then and revived:
        tx.query(BATCHES.rearm, {"id": batch, "job": ids.draw()})
    return revived


def find(tx: Tx, batch: int) -> tuple[Any, ...]:
    """The row of a batch, in the order of the `row` statement."""
    rows = tx.query(BATCHES.row, {"id": batch})
    if not rows:
        raise NotFound(f"there is no batch {batch}, or it is not kept any more")
    return rows[0]


def page(tx: Tx, *, name: str, before: int, limit: int) -> list[tuple[Any, ...]]:
    """Rows of batches, newest first."""
    values = {"before": before, "wanted": min(limit, operate.CHUNK)}
    if name:
        return tx.query(BATCHES.list_named, {**values, "name": name})
    return tx.query(BATCHES.list, values)


def running(tx: Tx, batch: int) -> int:
    """How many members are held at this moment."""
    return int(tx.query(BATCHES.running, {"batch": batch, "forever": FOREVER})[0][0])


def members(
    tx: Tx, batch: int, *, phase: str, before: int, limit: int, now: int
) -> list[tuple[Any, ...]]:
    """One page of a batch's jobs, newest first."""
    values = {"batch": batch, "before": before, "wanted": min(limit, operate.CHUNK)}
    if phase == "failed":
        found = tx.query(BATCHES.failed_members, values)
    else:
        found = tx.query(BATCHES.members, {**values, "phase": phase, "now": now})
    return tx.query(JOBS.jobs, {"ids": [row[0] for row in found]})


def forget(tx: Tx, *, now: int, chunk: int) -> int:
    """Delete a chunk of batches whose retention is over, and of which no member's row is left."""
    rows = tx.query(BATCHES.over, {"now": now, "wanted": chunk})
    # Some of their members are kept for longer: failed ones for ever.
    if staying := sorted(batch for batch, left in rows if left):
        tx.query(BATCHES.keep_until, {"ids": staying, "due": now + DAY})
    if over := sorted(batch for batch, left in rows if not left):
        tx.query(BATCHES.delete, {"ids": over})
    return len(rows)
