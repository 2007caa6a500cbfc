"""Verbs on batches: create, cancel, retry, look.

A batch is a row that counts its members; the verbs that end them count, in `counters.py`.
Every function here runs inside a transaction that the caller opened and takes the time as an argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from duework.clock import FOREVER
from duework.codec import encode
from duework.db.database import Tx
from duework.errors import NotFound, UsageError
from duework.ids import Ids
from duework.kernel import jobs
from duework.kernel.batches.counters import BATCHES, Tally
from duework.kernel.error_text import storable
from duework.kernel.job import KEEP, Enqueued, JobId, NewBatch, Reaction
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
        "total": len(new.payloads),
        "keep": new.keep,
        "due": FOREVER,
        "created": now,
        **_follow(tx, new, batch, ids, lanes),
    }
    while not tx.query(BATCHES.insert, values):
        if existing := tx.query(BATCHES.by_key, {"key": new.key}):
            return Enqueued(JobId(existing[0][0]), existed=True)
    if not new.payloads:
        tally = Tally()
        tally.touch(batch)
        tally.write(tx, now=now)
    elif new.member.serial is None and new.member.after is None:
        first = ids.draw_many(len(new.payloads))[0]
        lane = lanes.number(tx, new.member.lane)
        jobs.insert_alike(tx, new.member.but(batch=batch), new.payloads, first, lane)
    else:
        members = [new.member.but(payload=payload, batch=batch) for payload in new.payloads]
        jobs.enqueue(tx, members, ids=ids, lanes=lanes, now=now)
    return Enqueued(JobId(batch))


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
    values = {"batch": batch, "after": after, "wanted": jobs.CHUNK}
    return [row[0] for row in tx.query(BATCHES.open_members, values)]


def cancel(
    tx: Tx,
    members: Sequence[int],
    *,
    why: str,
    now: int,
    lanes: Lanes,
    react: Reaction | None,
) -> list[str]:
    """As the verb on jobs, for many; without `react` those that nothing hangs on end all at once."""
    if react is not None:
        return jobs.cancel(tx, members, why=why, now=now, lanes=lanes, react=react)
    values = {"ids": list(members), "due": now + KEEP, "why": storable(why), "now": now}
    tally = Tally()
    ended = tx.query(BATCHES.cancel_plain, values)
    for _, batch in ended:
        tally.ended(batch, "cancelled")
    tally.write(tx, now=now)
    left = sorted(set(members).difference(row[0] for row in ended))
    there = [row[0] for row in tx.query(JOBS.held_unlocked, {"ids": left})]
    rest = jobs.cancel(tx, there, why=why, now=now, lanes=lanes, react=_nobody) if there else []
    return ["cancelled"] * len(ended) + rest


def _nobody(*_: object) -> None:
    """There are no reactions."""


def retry(tx: Tx, batch: int, *, then: bool, ids: Ids, now: int) -> int:
    """Open the failed members again, all at once; with `then` the follow-up is due once more."""
    row = find(tx, batch)
    if then and row[11] is None:
        raise UsageError(f"batch {batch} has no follow-up; retry it without then=True")
    revived = len(tx.query(BATCHES.revive_plain, {"batch": batch, "now": now}))
    tally = Tally()
    tally.reopened(batch, "failed", revived)
    tally.write(tx, now=now)
    wanted = {"batch": batch, "wanted": jobs.CHUNK}
    while rest := tx.query(BATCHES.failed_in_order, wanted):
        revived += len(jobs.revive(tx, [row[0] for row in rest], now=now))
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
    values = {"before": before, "wanted": min(limit, jobs.CHUNK)}
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
    values = {"batch": batch, "before": before, "wanted": min(limit, jobs.CHUNK)}
    if phase == "failed":
        found = tx.query(BATCHES.failed_members, values)
    else:
        found = tx.query(BATCHES.members, {**values, "phase": phase, "now": now})
    return tx.query(JOBS.jobs, {"ids": [row[0] for row in found]})
