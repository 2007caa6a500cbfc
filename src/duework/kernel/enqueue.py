"""Enqueue: write jobs, one or many thousands, and answer a key that is taken with the job that has it.

Runs inside a transaction that the caller opened, takes the time as an argument and works on lists. Locks are
always taken in one order: serial values, then job rows by id, and keys in key order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, cast

import msgspec

from duework.clock import FOREVER
from duework.codec import checked, checksum
from duework.db.database import NewRow, Tx
from duework.errors import Conflict, NotFound
from duework.ids import Ids
from duework.kernel.job import Enqueued, JobId, LaneName, NewJob
from duework.kernel.labels.verbs import label, relabel
from duework.kernel.lanes import JOBS, Lanes
from duework.kernel.settle import ALIKE, wake_serials

# How many new jobs one statement writes, and about how many bytes of payloads.
PART_ROWS = 10_000
PART_BYTES = 4_000_000


def enqueue(tx: Tx, jobs: Sequence[NewJob], *, ids: Ids, lanes: Lanes, now: int) -> list[Enqueued]:
    """Write open jobs; a job whose key is taken is answered with the one that has it."""
    if len(jobs) == 1 and not is_special(jobs[0]):
        drawn = cast("JobId", ids.draw())
        tx.put(JOBS.insert_one, new_row(drawn, lanes.number(tx, jobs[0].lane), jobs[0]))
        return [Enqueued(drawn)]
    return _enqueue_many(tx, jobs, ids=ids, lanes=lanes, now=now)


def enqueue_keyed(tx: Tx, jobs: Sequence[NewJob], *, ids: Ids, lanes: Lanes) -> list[Enqueued]:
    """The same for many jobs of which each has a key of its own, and nothing else to look at: at once."""
    numbers = lanes.numbers(tx, {job.lane for job in jobs})
    drawn = cast("Sequence[JobId]", ids.draw_many(len(jobs)))
    rows = [new_row(each, numbers[job.lane], job) for each, job in zip(drawn, jobs, strict=True)]
    # In the order of keys, as every transaction that takes keys.
    rows.sort(key=lambda row: row.key or "")
    if tx.bulk(JOBS.insert_keys, rows) == len(rows):
        return [Enqueued(each) for each in drawn]
    answers: list[Enqueued] = []
    for each, job in zip(drawn, jobs, strict=True):
        [(there, _)] = tx.query(JOBS.open_by_key, {"task": job.lane.task, "key": job.key})
        answers.append(Enqueued(JobId(there), existed=there != each))
    return answers


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
    special = [place for place, job in enumerate(jobs) if is_special(job)]
    _insert_plain(tx, jobs, drawn, numbers, special)
    # Every transaction takes keys in one order, so that two such transactions cannot deadlock.
    special.sort(key=lambda place: (jobs[place].key is not None, jobs[place].key or "", place))
    for place in special:
        job = jobs[place]
        answers[place] = _enqueue_special(tx, job, numbers[job.lane], drawn[place], now)
    wake_serials(tx, serials)
    return answers


def is_special(job: NewJob) -> bool:
    """Whether other rows have to be looked at before it can be written."""
    linked = job.key is not None or job.serial is not None or job.after is not None
    return linked or job.carries


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
            rows += [new_row(drawn[place], number, jobs[place]) for place in places]
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


def new_row(drawn: int, lane: int, job: NewJob, due: int | None = None) -> NewRow:
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
    row = new_row(drawn, lane, job, _first_due(tx, job))
    if job.key is None:
        tx.put(JOBS.insert_one, row)
        label(tx, drawn, job)
        return Enqueued(drawn)
    while True:
        if tx.query(JOBS.insert_keyed, row._asdict()):
            label(tx, drawn, job)
            return Enqueued(drawn)
        if existing := tx.query(JOBS.open_by_key, {"task": task, "key": job.key}):
            break
    identifier, worker = existing[0]
    _meet_existing(tx, job, lane, identifier, held=worker is not None)
    return Enqueued(JobId(identifier), existed=True)


def _meet_existing(tx: Tx, job: NewJob, lane: int, identifier: int, *, held: bool) -> None:
    """What a job does to the open one that has its key: replace it, or ask it to run again, or nothing."""
    task = job.lane.task
    if job.once_until is not None:
        tx.query(JOBS.once_is, {"task": task, "key": job.key, "job": identifier})
    if job.replace and not held:
        values = {
            "id": identifier,
            "lane": lane,
            "payload": job.payload,
            "checksum": checksum(identifier, task, job.payload),
            "at": relabel(tx, identifier, job),
            "expires": job.expires,
            "forever": FOREVER,
        }
        tx.query(JOBS.replace, values)
    elif job.again and held:
        values = {"id": identifier, "payload": job.payload, "expires": job.expires}
        tx.query(JOBS.ask_again, values)


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
