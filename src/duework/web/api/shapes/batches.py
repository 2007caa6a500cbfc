"""Batches by HTTP: make one, look how far it is, cancel it, retry what failed."""

from __future__ import annotations

from typing import Any

from duework.byname import args_of, task_by_name
from duework.db.database import Tx
from duework.errors import InvalidArguments
from duework.kernel.batches.new import NewBatch
from duework.kernel.job import Enqueued
from duework.shapes.batches.handle import Batch
from duework.web.api.jobs import job_line
from duework.web.api.once import once
from duework.web.api.operation import (
    BASE,
    FIRST_ID,
    Answer,
    Ask,
    KeyReused,
    Operation,
    acts,
    noted,
    page_of,
    place_of,
    reads,
    text_of,
)
from duework.web.api.shape_types import (
    BatchDetail,
    BatchLine,
    BatchQuery,
    Count,
    MembersQuery,
    ProgressDetail,
    StartBatch,
)
from duework.web.api.types import Because, JobLine, Listed, Made, Nothing

# Longer than most batches are kept, and their keys with them.
REMEMBERED_MS = 90 * 86_400_000


def start(ask: Ask) -> Answer:
    """One job for each item, in one commit; a key that is known is answered with its batch."""
    wanted: StartBatch = ask.body
    task = task_by_name(ask.app, wanted.task)
    items = [_item(task.definition, place, each) for place, each in enumerate(wanted.items)]
    then = None if wanted.then is None else task_by_name(ask.app, wanted.then)
    using = task.using(queue=wanted.queue, priority=wanted.priority)
    key = ask.key or wanted.key
    new = using.as_batch(items, ask.app.now(), name=wanted.name, then=then, key=key)
    engine = ask.app.wiring.engine
    made = _made_once(ask, new) if ask.key else engine.writer.call(engine.batch, [new])[0]
    status = 200 if made.existed else 201
    return Answer(Made(str(made.id), made.existed), status, f"{BASE}/batches/{made.id}")


def _made_once(ask: Ask, new: NewBatch) -> Enqueued:
    """The batch of a request with a key."""
    engine = ask.app.wiring.engine

    def make(tx: Tx, is_first: bool) -> Enqueued:  # noqa: FBT001 - as `once` says
        made = engine.batch(tx, [new])[0]
        if is_first and made.existed:
            raise KeyReused(f"batch {made.id} has the key {ask.key!r}, and no request has made it")
        return made

    return once(ask, "batch", engine.clock.now() + REMEMBERED_MS, make)


def _item(definition: Any, place: int, given: Any) -> tuple[Any, ...]:
    """The arguments of one member, as its task takes them."""
    call = given if isinstance(given, (dict, list)) else [given]
    try:
        return args_of(definition.arguments, call)
    except InvalidArguments as error:
        raise InvalidArguments(f"item {place}: {error}") from None


def batches(ask: Ask) -> Listed[BatchLine]:
    """Batches, newest first."""
    wanted: BatchQuery = ask.query
    before = place_of(wanted.cursor, int, FIRST_ID)
    found = ask.app.batches(name=wanted.name, before=before, limit=wanted.limit)
    return page_of(
        found, wanted.limit, lambda each: BatchLine(**_fields(each)), lambda each: each.id
    )


def batch(ask: Ask) -> BatchDetail:
    """One batch, and how far it is."""
    found = ask.app.get_batch(ask.id())
    seen = found.progress()
    progress = ProgressDetail(
        *(seen.waiting, seen.running, seen.done, seen.failed, seen.cancelled),
        *(seen.total, seen.percent),
    )
    return BatchDetail(**_fields(found), progress=progress)


def _fields(found: Batch) -> dict[str, Any]:
    names = ("name", "key", "task", "total", "done", "failed", "cancelled", "created", "settled")
    fields = {name: getattr(found, name) for name in (*names, "then")}
    return {
        "id": str(found.id),
        "then_job": text_of(found.then_id if found.fired else None),
        **fields,
    }


def members(ask: Ask) -> Listed[JobLine]:
    """The jobs of a batch, newest first."""
    wanted: MembersQuery = ask.query
    before = place_of(wanted.cursor, int, FIRST_ID)
    found = ask.app.get_batch(ask.id()).jobs(phase=wanted.phase, before=before, limit=wanted.limit)
    return page_of(found, wanted.limit, job_line, lambda each: each.id)


def cancel(ask: Ask) -> Count:
    """End every member that has not ended; how many."""
    found = ask.app.get_batch(ask.id())
    words = ask.body.why or f"its batch was cancelled by {ask.who.name}"
    return Count(noted(ask, "cancel", f"batch {found.id}", lambda: found.cancel(words)))


def retry(ask: Ask) -> Count:
    """Open the failed members again; how many."""
    found = ask.app.get_batch(ask.id())
    return Count(noted(ask, "retry", f"batch {found.id}", found.retry))


OPERATIONS = (
    reads("/batches", batches, Listed[BatchLine], BatchQuery),
    Operation(
        "POST", "/batches", "operate", start, Made, body=StartBatch, statuses=(201, 200), keyed=True
    ),
    reads("/batches/{id}", batch, BatchDetail),
    reads("/batches/{id}/jobs", members, Listed[JobLine], MembersQuery),
    acts("/batches/{id}/cancel", cancel, Count, Because),
    acts("/batches/{id}/retry", retry, Count, Nothing),
)
