"""Jobs by HTTP: enqueue, look, cancel, retry, and why one waits."""

from __future__ import annotations

from typing import Any

import msgspec

from duework.byname import call_of, task_by_name, task_names
from duework.db.database import Tx
from duework.errors import UsageError
from duework.handles import Job
from duework.health.why import Why
from duework.kernel.error_text import redact
from duework.kernel.job import Enqueued, NewJob
from duework.kernel.settle import lock_jobs
from duework.web.api.once import once
from duework.web.api.operation import (
    BASE,
    FIRST_ID,
    LONGEST,
    Answer,
    Ask,
    KeyReused,
    Operation,
    acts,
    audited,
    cursor_of,
    id_of,
    place_of,
    reads,
    text_of,
)
from duework.web.api.types import (
    Acted,
    AttemptLine,
    Because,
    Enqueue,
    JobDetail,
    JobLine,
    JobQuery,
    Listed,
    Made,
    Nothing,
    Reasons,
    TaskName,
)

# How long an Idempotency-Key is remembered, unless the body says so.
REMEMBERED_MS = 24 * 3_600_000


def tasks(ask: Ask) -> Listed[TaskName]:
    """The tasks that can be enqueued here."""
    found = [ask.app.wiring.registry.find(name) for name in task_names(ask.app)]
    lines = [
        TaskName(each.name, each.policy.queue, each.policy.priority, list(each.arguments.names))
        for each in found
    ]
    return Listed(lines, None)


def enqueue(ask: Ask) -> Answer:
    """Make a job; with an Idempotency-Key the same request makes one job, however often it is sent."""
    wanted: Enqueue = ask.body
    if ask.key is not None and wanted.key not in {None, ask.key}:
        raise UsageError("the header Idempotency-Key and `key` are the same thing: give one")
    task = task_by_name(ask.app, wanted.task)
    args, kwargs = call_of(task.definition.arguments, wanted.arguments)
    new = task.using(**_options(ask, wanted)).as_job(args, kwargs, ask.app.now())
    engine = ask.app.wiring.engine
    made = (
        engine.writer.call(engine.enqueue_alone, [new])[0]
        if ask.key is None
        else _made_once(ask, new)
    )
    status = 200 if made.existed else 201
    return Answer(Made(str(made.id), made.existed), status, f"{BASE}/jobs/{made.id}")


def _options(ask: Ask, wanted: Enqueue) -> dict[str, Any]:
    names = ("queue", "priority", "delay", "at", "expires", "once", "serial")
    options = {name: getattr(wanted, name) for name in names}
    options |= {"key": ask.key or wanted.key, "replace": wanted.replace}
    if ask.key is not None and wanted.once is None:
        options["once"] = REMEMBERED_MS / 1000
    if wanted.after is not None:
        options["after"] = id_of(wanted.after)
    return options


def _made_once(ask: Ask, new: NewJob) -> Enqueued:
    """The job of a request with a key."""
    engine, until = ask.app.wiring.engine, new.once_until
    assert until is not None

    def make(tx: Tx, is_first: bool) -> Enqueued:  # noqa: FBT001 - as `once` says
        made = engine.enqueue(tx, [new])[0]
        if is_first and made.existed:
            # Somebody else has a job with this key, which no request has made.
            found = lock_jobs(tx, [made.id]).get(made.id)
            if found is None or found.payload != new.payload:
                raise KeyReused(f"job {made.id} has the key {ask.key!r} and other arguments")
        return made

    return once(ask, "job", until, make)


# --- looking


def jobs(ask: Ask) -> Listed[JobLine]:
    """Jobs, newest first. A page may be empty and not the last: each looks at a bounded number of rows."""
    wanted: JobQuery = ask.query
    found = ask.app.search_jobs(
        phase=wanted.phase,
        task=wanted.task,
        queue=wanted.queue,
        key=wanted.key,
        before=place_of(wanted.cursor, int, FIRST_ID),
        limit=wanted.limit,
    )
    following = None if found.before is None else cursor_of(found.before)
    return Listed([job_line(job) for job in found.jobs], following)


def job(ask: Ask) -> JobDetail:
    """One job as it is now."""
    found = ask.app.job(ask.id())
    line = msgspec.structs.asdict(job_line(found))
    return JobDetail(
        **{**line, "error": found.error},
        crashes=found.crashes,
        fence=found.fence,
        worker=text_of(found.worker),
        serial=found.serial,
        after=text_of(found.after),
        owner=found.owner,
        expires=found.expires,
        cancelling=found.cancelling,
        progress=plain(found.stored_progress),
        arguments=plain(found.payload) if ask.payloads else None,
        result=plain(found.stored_result) if ask.payloads else None,
    )


def job_line(found: Job[Any]) -> JobLine:
    return JobLine(
        id=str(found.id),
        task=found.task,
        queue=found.queue,
        priority=found.priority,
        phase=found.phase,
        key=found.key,
        at=found.at,
        due=found.due,
        settled=found.settled,
        failures=found.failures,
        batch=text_of(found.batch),
        error=None if found.error is None else found.error.partition("\n")[0][:LONGEST],
    )


def plain(text: str | None) -> Any:
    """Stored JSON as data; what cannot be read, as it is."""
    if text is None:
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return text


def attempts(ask: Ask) -> Listed[AttemptLine]:
    """The attempts of a job that did not end well, oldest first."""
    found = ask.app.job(ask.id()).attempts()
    lines = [
        AttemptLine(
            each.number, each.outcome, text_of(each.worker), each.started, each.ended, each.error
        )
        for each in found
    ]
    return Listed(lines, None)


def why(ask: Ask) -> Reasons:
    """Why a job waits, runs or has ended: the first reason that holds, then the others."""
    return _reasons(ask.app.why(ask.id()))


def _reasons(why: Why) -> Reasons:
    others = [_reasons(each) for each in why.others]
    return Reasons(why.kind, why.sentence, why.until, text_of(why.job), why.pace, why.queue, others)


# --- acting


def cancel(ask: Ask) -> Acted:
    """End a job; one that runs is told to stop by its worker, one that has ended stays so."""
    identifier, engine = ask.id(), ask.app.wiring.engine
    words = redact(ask.body.why) or f"cancelled by {ask.who.name}"
    outcome = audited(
        ask,
        "cancel",
        f"job {identifier}",
        lambda tx: engine.cancel(tx, [(identifier, words)])[0],
    )
    return Acted(str(identifier), outcome)


def retry(ask: Ask) -> Acted:
    """Open a settled job again, due at once; one that is open stays as it is."""
    identifier, engine = ask.id(), ask.app.wiring.engine
    outcome = audited(
        ask, "retry", f"job {identifier}", lambda tx: engine.revive(tx, [identifier])[0]
    )
    return Acted(str(identifier), outcome)


OPERATIONS = (
    reads("/tasks", tasks, Listed[TaskName]),
    reads("/jobs", jobs, Listed[JobLine], JobQuery),
    Operation(
        "POST", "/jobs", "operate", enqueue, Made, body=Enqueue, statuses=(201, 200), keyed=True
    ),
    reads("/jobs/{id}", job, JobDetail),
    reads("/jobs/{id}/why", why, Reasons),
    reads("/jobs/{id}/attempts", attempts, Listed[AttemptLine]),
    acts("/jobs/{id}/cancel", cancel, Acted, Because),
    acts("/jobs/{id}/retry", retry, Acted, Nothing),
)
