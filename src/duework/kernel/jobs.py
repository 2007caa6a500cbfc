"""Verbs on jobs: enqueue, cancel, revive, search, prune. Claim and settle have files of their own.

Every function here runs inside a transaction that the caller opened, takes the time as an argument
and works on lists. Locks are always taken in one order: serial values, then job rows by id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple, cast

import msgspec

from duework.clock import FOREVER
from duework.codec import checked, checksum
from duework.db.database import NewRow, Tx
from duework.errors import Conflict, NotFound
from duework.ids import Ids
from duework.kernel.batches.counters import BATCHES, SettleContext, Tally
from duework.kernel.claim import new_claim, start_by
from duework.kernel.error_text import storable
from duework.kernel.job import (
    DAY,
    OWN_QUEUE,
    Claimed,
    Enqueued,
    JobId,
    LaneName,
    NewJob,
    Reaction,
)
from duework.kernel.lanes import JOBS, Lanes
from duework.kernel.settle import (
    ALIKE,
    cancel_waiting,
    lock_jobs,
    lock_jobs_in_order,
    serial_busy,
    waits,
    wake_serials,
)

# The most rows that one transaction of an operator's verb touches.
CHUNK = 1000
# How many new jobs one statement writes, and about how many bytes of payloads.
PART_ROWS = 10_000
# Phases of jobs that a worker has: few, with an index of their own.
HELD = frozenset({"running", "expired"})
PART_BYTES = 4_000_000


def enqueue(tx: Tx, jobs: Sequence[NewJob], *, ids: Ids, lanes: Lanes, now: int) -> list[Enqueued]:
    """Write open jobs; a job whose key is taken is answered with the one that has it."""
    if len(jobs) == 1 and not _is_special(jobs[0]):
        drawn = cast("JobId", ids.draw())
        tx.put(JOBS.insert_one, _row(drawn, lanes.number(tx, jobs[0].lane), jobs[0]))
        return [Enqueued(drawn)]
    return _enqueue_many(tx, jobs, ids=ids, lanes=lanes, now=now)


def enqueue_claimed(
    tx: Tx, job: NewJob, worker: int, *, lease_ms: int, ids: Ids, lanes: Lanes, now: int
) -> Claimed | None:
    """Write a job that a worker holds from the start, if it may start now and nothing due goes first."""
    if _is_special(job) or job.at > now or (job.expires is not None and job.expires <= now):
        return None
    row = _row(ids.draw(), lanes.number(tx, job.lane), job, now + lease_ms)
    if not tx.put_if(JOBS.insert_claimed, row, (worker, now, job.lane.priority)):
        return None
    # By its own words: a caller's may be of a type that only looks like a text.
    return new_claim(row, lanes.name(tx, row.lane), start_by(now, lease_ms))


def _enqueue_many(
    tx: Tx, jobs: Sequence[NewJob], *, ids: Ids, lanes: Lanes, now: int
) -> list[Enqueued]:
    numbers = lanes.numbers(tx, {job.lane for job in jobs})
    serials = sorted({job.serial for job in jobs if job.serial is not None})
    if serials:
        tx.query(JOBS.lock_serials, {"serials": serials})
    # In the order of the list, since that is the order in which they are to run.
    drawn = cast("Sequence[JobId]", ids.draw_many(len(jobs)))
    answers = [Enqueued(identifier) for identifier in drawn]
    special = [place for place, job in enumerate(jobs) if _is_special(job)]
    _insert_plain(tx, jobs, drawn, numbers, special)
    # Every transaction takes keys in one order, so that two such transactions cannot deadlock.
    special.sort(key=lambda place: (jobs[place].key is not None, jobs[place].key or "", place))
    for place in special:
        job = jobs[place]
        answers[place] = _enqueue_special(tx, job, numbers[job.lane], drawn[place], now)
    wake_serials(tx, serials)
    return answers


def _is_special(job: NewJob) -> bool:
    """Whether other rows have to be looked at before it can be written."""
    return job.key is not None or job.serial is not None or job.after is not None


def _insert_plain(
    tx: Tx,
    jobs: Sequence[NewJob],
    drawn: Sequence[JobId],
    numbers: Mapping[LaneName, int],
    special: Sequence[int],
) -> None:
    """The others: many in a row that are alike by one step of one statement, the rest one by one."""
    apart = set(special)

    def kind(place: int) -> object:
        job = jobs[place]
        return place in apart or (job.lane, job.at, job.expires, job.batch, job.owner)

    rows: list[tuple[Any, ...]] = []
    for like, run in groupby(range(len(jobs)), kind):
        if like is True:
            continue
        places = list(run)
        first = jobs[places[0]]
        number = numbers[first.lane]
        if len(places) < ALIKE or first.owner is not None:
            rows += [_row(drawn[place], number, jobs[place]) for place in places]
        else:
            payloads = [jobs[place].payload for place in places]
            insert_alike(tx, first, payloads, drawn[places[0]], number)
    if rows:
        tx.bulk(JOBS.insert, rows)


def insert_alike(tx: Tx, job: NewJob, payloads: Sequence[str], first: int, lane: int) -> None:
    """Jobs that differ in nothing but their payloads, with ids from `first` on: many thousands at once."""
    task, common = job.lane.task, {"at": job.at, "expires": job.expires, "batch": job.batch}
    texts = list(checked(first, task, payloads))
    start = size = 0
    # A part at a time, so that a server does not wait for long while the next one is put together.
    for place, text in enumerate(texts, 1):
        size += len(text)
        if place == len(texts) or place - start == PART_ROWS or size > PART_BYTES:
            rows = msgspec.json.encode(texts[start:place]).decode()
            values = {**common, "task": task, "lane": lane, "first": first + start, "rows": rows}
            tx.query(JOBS.insert_alike, values)
            start, size = place, 0


def _row(drawn: int, lane: int, job: NewJob, due: int | None = None) -> NewRow:
    linked = int(job.serial is not None or job.owner is not None)
    task = job.lane.task
    check = checksum(drawn, task, job.payload)
    due = job.at if due is None else due
    return NewRow(
        drawn,
        lane,
        task,
        job.key,
        due,
        job.at,
        linked,
        job.payload,
        check,
        job.expires,
        serial=job.serial,
        after=job.after,
        owner=job.owner,
        batch=job.batch,
    )


def _enqueue_special(tx: Tx, job: NewJob, lane: int, drawn: JobId, now: int) -> Enqueued:
    """One job with a key, a serial value or a predecessor."""
    task = job.lane.task
    if job.key is not None and job.once_until is not None:
        values = {"task": task, "key": job.key, "job": drawn, "until": job.once_until, "now": now}
        if not tx.query(JOBS.once, values):
            first = tx.query(JOBS.once_job, {"task": task, "key": job.key})
            return Enqueued(JobId(first[0][0]), existed=True)
    row = _row(drawn, lane, job, _first_due(tx, job))
    if job.key is None:
        tx.put(JOBS.insert_one, row)
        return Enqueued(drawn)
    while True:
        if tx.query(JOBS.insert_keyed, row._asdict()):
            return Enqueued(drawn)
        if existing := tx.query(JOBS.open_by_key, {"task": task, "key": job.key}):
            break
    identifier, worker = existing[0]
    if job.once_until is not None:
        tx.query(JOBS.once_is, {"task": task, "key": job.key, "job": identifier})
    if worker is None and job.replace:
        values = {
            "id": identifier,
            "lane": lane,
            "payload": job.payload,
            "checksum": checksum(identifier, task, job.payload),
            "at": job.at,
            "expires": job.expires,
            "forever": FOREVER,
        }
        tx.query(JOBS.replace, values)
    elif worker is not None and job.again:
        values = {"id": identifier, "payload": job.payload, "expires": job.expires}
        tx.query(JOBS.ask_again, values)
    return Enqueued(JobId(identifier), existed=True)


def _first_due(tx: Tx, job: NewJob) -> int:
    """When it may be claimed: never, while another job may have to end first."""
    if job.after is not None:
        state = tx.query(JOBS.state_of, {"id": job.after})
        if not state:
            raise NotFound(f"there is no job {job.after} to run after")
        if state[0][0] == "cancelled":
            raise Conflict(f"job {job.after} was cancelled; nothing can run after it")
        if state[0][0] != "done":
            tx.query(JOBS.link, {"id": job.after})
            return FOREVER
    # The first of its serial value is released once all of the list is there.
    return job.at if job.serial is None else FOREVER


def cancel(
    tx: Tx, wanted: Sequence[int], *, why: str, now: int, lanes: Lanes, react: Reaction
) -> list[str]:
    """End open jobs. What runs gets a cancel reason, and its worker stops it; what has ended stays as it is.

    Returns for each job 'cancelled', 'cancelling', or the state it had already.
    """
    rows = lock_jobs_in_order(tx, list(wanted))
    around = SettleContext(now, lanes, react)
    answers: list[str] = []
    spread = False
    for identifier in wanted:
        # One that was cancelled before may have taken this one with it.
        row = lock_jobs(tx, [identifier]).get(identifier) if spread else rows.get(identifier)
        if row is None:
            raise NotFound(f"there is no job {identifier}")
        if row.state != "open":
            answers.append(row.state)
        elif row.worker is not None:
            tx.query(JOBS.ask_cancel, {"id": row.id, "why": storable(why)})
            answers.append("cancelling")
        else:
            cancel_waiting(tx, row, why, around)
            answers.append("cancelled")
            row.state = "cancelled"
            spread = spread or bool(row.linked)
    if "cancelling" in answers:
        tx.hint("cancel")
    around.tally.write(tx, now=now)
    return answers


def revive(tx: Tx, wanted: Sequence[int], *, now: int) -> list[str]:
    """Open settled jobs again, due at once, with no failures; for operators.

    A job that is open stays as it is. Reviving onto a key that another open job holds is a Conflict.
    """
    rows = lock_jobs_in_order(tx, list(wanted))
    tally = Tally()
    answers: list[str] = []
    for identifier in wanted:
        row = rows.get(identifier)
        if row is None:
            raise NotFound(f"there is no job {identifier}")
        if row.state == "open":
            answers.append("open")
            continue
        if row.key is not None and (
            taken := tx.query(JOBS.key_taken, {"task": row.task, "key": row.key})
        ):
            message = f"job {identifier} cannot be revived: its key {row.key!r} is held by job {taken[0][0]}"
            raise Conflict(message)
        due = now
        if waits(tx, row.after):
            tx.query(JOBS.link, {"id": row.after})
            due = FOREVER
        elif row.serial is not None and serial_busy(tx, row.serial):
            due = FOREVER
        values = (
            *("open", due, row.lane, 0, 0, None, row.error),
            *(row.payload, row.checksum, None, None, None, row.id),
        )
        tx.bulk(JOBS.rewrite, [values])
        # It was done when they were enqueued; now they wait for it once more.
        if not row.linked and tx.query(JOBS.waiting_for, {"job": row.id}):
            tx.query(JOBS.link, {"id": row.id})
        tally.reopened(row.batch, row.state)
        row.state = "open"
        answers.append("revived")
    tally.write(tx, now=now)
    return answers


@dataclass(frozen=True, slots=True)
class Filter:
    """What to search for; empty texts match everything."""

    phase: str = ""
    task: str = ""
    queue: str = ""
    key: str = ""
    before: int = 2**62
    limit: int = 50
    # Also the engine's own jobs; who names a task, a queue or a key gets them, and so do all that failed.
    own: bool = False


class Found(NamedTuple):
    """Rows of jobs, and the `before` with which a search goes on; None where it has seen everything."""

    rows: list[tuple[Any, ...]]
    before: int | None


def search(tx: Tx, wanted: Filter, *, now: int, most: int | None = None) -> Found:
    """One page of jobs, newest first; with `most`, of the next so many rows whatever they are.

    A filter that few jobs fit would else walk through the whole table.
    """
    floor = 0 if most is None else _floor(tx, wanted, most)
    limit = min(wanted.limit, CHUNK)
    ids = _searched(tx, wanted, limit=limit, floor=floor, now=now)
    before = ids[-1] if ids and len(ids) == limit else floor or None
    return Found(tx.query(JOBS.jobs, {"ids": ids}), before)


def _floor(tx: Tx, wanted: Filter, most: int) -> int:
    """The lowest id that a look reaches; 0 if it reaches the end."""
    if wanted.phase in HELD:
        return 0
    statement = JOBS.floor_failed if wanted.phase == "failed" else JOBS.floor
    rows = tx.query(statement, {"before": wanted.before, "skipped": most - 1})
    return rows[0][0] if rows else 0


def _searched(tx: Tx, wanted: Filter, *, limit: int, floor: int, now: int) -> list[int]:
    values: dict[str, Any] = {
        "before": wanted.before,
        "task": wanted.task,
        "queue": wanted.queue,
        "key": wanted.key,
        "wanted": limit,
    }
    own = wanted.own or bool(wanted.task or wanted.queue or wanted.key)
    more = {"phase": wanted.phase, "now": now, "own": int(own), "own_queue": OWN_QUEUE}
    if wanted.phase == "failed":
        found = tx.query(JOBS.search_failed, {**values, "floor": floor})
    elif wanted.phase in HELD:
        found = tx.query(JOBS.search_held, {**values, **more})
    else:
        found = tx.query(JOBS.search, {**values, **more, "floor": floor})
    return [row[0] for row in found]


def purge(tx: Tx, wanted: Sequence[int], *, now: int, lanes: Lanes, react: Reaction) -> int:
    """Delete settled jobs for good; what waits for one of them is cancelled."""
    rows = lock_jobs_in_order(tx, list(wanted))
    gone = [row for row in rows.values() if row.state != "open"]
    for row in gone:
        # What came after a done job has been released, and what came after a cancelled one cancelled.
        behind = tx.query(JOBS.waiting_for, {"job": row.id}) if row.state == "failed" else []
        for waiting, *_ in behind:
            why = f"job {row.id}, which it waited for, was purged"
            cancel(tx, [waiting], why=why, now=now, lanes=lanes, react=react)
    _delete(tx, {row.id: row.batch for row in gone}, now=now)
    return len(gone)


def purge_queue(tx: Tx, queue: str, *, now: int, lanes: Lanes, react: Reaction) -> int:
    """Cancel a chunk of a queue's jobs that do not run; call again until it returns 0."""
    found: list[int] = []
    for [lane] in tx.query(JOBS.lanes_of, {"queue": queue}):
        left = CHUNK - len(found)
        found += [row[0] for row in tx.query(JOBS.of_lane, {"lane": lane, "wanted": left})]
    if found:
        cancel(tx, found, why="the queue was purged", now=now, lanes=lanes, react=react)
    return len(found)


def prune(tx: Tx, *, now: int, chunk: int = CHUNK) -> int:
    """Delete a chunk of settled rows whose retention has ended; returns the most of one kind."""
    found: dict[int, int | None] = {}
    for identifier, state, batch in tx.query(JOBS.over, {"now": now, "wanted": chunk}):
        if state == "failed" and tx.query(JOBS.waiting_for, {"job": identifier}):
            # It may be revived and done yet; without it, what waits would do so for ever.
            tx.query(JOBS.keep_until, {"id": identifier, "due": now + DAY})
        else:
            found[identifier] = batch
    if found:
        _delete(tx, found, now=now)
    once = tx.query(JOBS.delete_once, {"now": now, "wanted": chunk})
    return max(len(found), len(once), _prune_batches(tx, now=now, chunk=chunk))


def _prune_batches(tx: Tx, *, now: int, chunk: int) -> int:
    """The same for batches, of which no member's row is left."""
    rows = tx.query(BATCHES.over, {"now": now, "wanted": chunk})
    # Some of their members are kept for longer: failed ones for ever.
    if staying := sorted(batch for batch, left in rows if left):
        tx.query(BATCHES.keep_until, {"ids": staying, "due": now + DAY})
    if over := sorted(batch for batch, left in rows if not left):
        tx.query(BATCHES.delete, {"ids": over})
    return len(rows)


def _delete(tx: Tx, found: Mapping[int, int | None], *, now: int) -> None:
    """Delete settled jobs, given with their batches."""
    tx.query(JOBS.delete_attempts, {"ids": list(found)})
    tx.query(JOBS.delete_jobs, {"ids": list(found)})
    tally = Tally()
    for batch in found.values():
        tally.gone(batch)
    tally.write(tx, now=now)


__all__ = [
    "Filter",
    "cancel",
    "enqueue",
    "prune",
    "purge",
    "purge_queue",
    "revive",
    "search",
    "wake_serials",
]
