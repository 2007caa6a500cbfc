"""What happens when a reminder is due: one delivery, by all of its channels at once.

The engine keeps the article's rules: full success and partial success go on to the next regular time, a
full failure is tried again after one, five and thirty minutes, a channel that was sent is never sent
again, and a send of which nobody knows is repeated with the same key. Here is what each of them means
for the rows: a one-shot that went out is gone, one that failed stays and is listed, a recurring one
skips to its next time with the failed fire on record.
"""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime
from typing import Any

from duework import Cancel, Channel, Conflict, Job, NotFound, Rate, Run, Snooze, Transaction
from duework.durations import milliseconds
from systems.reminders.channels import email, webhook
from systems.reminders.links import done_link
from systems.reminders.part import part, settings
from systems.reminders.recipients import WITH_RECIPIENT, held_until
from systems.reminders.rules import key_of, webhook_id

# Beyond what the requests themselves are given, so that they end first.
OUTER_TIMEOUT = "15s"


@part.delivery(
    channels={
        "email": Channel(
            email,
            timeout=OUTER_TIMEOUT,
            pace=Rate(f"{settings().resend_rate}/1s", name="reminders-resend"),
            # SMTP knows no key: what may have arrived is left alone and shown.
            unsure=settings().unsure,
        ),
        "webhook": Channel(webhook, timeout=OUTER_TIMEOUT),
    },
    partial=settings().partial,
    retries=settings().retries,
    backoff=settings().backoff,
    queue="reminders",
)
async def fire(run: Run, reminder: str, repeats: int | None = None) -> Any:
    """Choose the channels, and write down that it has fired; in the order in which they are due.

    `repeats`: it says once more what fired at that slot, since nobody has called it done.
    """
    rows = run.read(WITH_RECIPIENT, id=reminder)
    if not rows:
        return Cancel("the reminder was deleted")
    row, now = rows[0], run.now
    if repeats is not None and _is_past(run, row, repeats):
        run.write(WAITS_NO_MORE, job=run.job.id, id=reminder)
        return Cancel("it is done, or its next time has come")
    if (until := held_until(row, now)) is not None:
        run.write(WAITS, job=run.job.id, until=until, id=reminder)
        return Snooze((until - now) / 1000)
    if run.read(COVERED, id=reminder, slot=run.slot):
        run.write(WAITS_NO_MORE, job=run.job.id, id=reminder)
        return Cancel("the one that waited for the end of the quiet hours went out at this time")
    channels: list[str] = json.loads(row.channels)
    body = _body(run, row, channels) if "webhook" in channels else None
    facts = {"job": run.job.id, "reminder": reminder, "title": row.title, "key": run.key}
    waited = int(row.quiet_until is not None)
    more = {"channels": row.channels, "slot": run.slot, "body": body, "waited": waited}
    run.write(BEGUN, **facts, **more, now=now)
    again = row.nags + 1 if repeats is not None else 0
    slot = None if row.nag_ms is None else run.slot if repeats is None else repeats
    run.write(FIRED, job=run.job.id, now=now, id=reminder, open=slot, nags=again)
    payloads = {
        "email": {"to": row.email, "subject": row.title, "text": _text(run, row)},
        "webhook": {"endpoint": row.endpoint, "body": body},
    }
    return {name: payloads.get(name, {}) for name in channels}


def _is_past(run: Run, row: Any, repeats: int) -> bool:
    """Whether there is nothing to repeat any more: done, or a regular time has come since."""
    if row.open_slot != repeats:
        return True
    return bool(run.read(COME, key=key_of(row.id), slot=repeats, now=run.now))


def _text(run: Run, row: Any) -> str:
    """What a mail says, with the link that ends it."""
    text, link = row.body or row.title, done_link(run.job.id)
    return text if link is None else f"{text}\n\nDone: {link}\n"


def _body(run: Run, row: Any, channels: list[str]) -> str:
    """What a receiver gets; stored, so that every try sends the same."""
    facts = {
        "id": webhook_id(f"{run.key}:webhook"),
        "reminder": row.id,
        "title": row.title,
        "text": row.body,
        "channels": channels,
        "slot": _iso(run.slot),
        "firedAt": _iso(run.now),
    }
    return json.dumps(facts)


def _iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")


@fire.settled
def concluded(tx: Transaction, job: Job[Any], outcome: str) -> None:
    """In the settle's own commit: the history, and what becomes of the reminder."""
    reminder = job.arguments["reminder"]
    now = part.app.now()
    found: dict[str, Any] = (job.result if outcome == "done" else None) or {}
    result = found.get("outcome") or outcome
    values: dict[str, Any] = {"outcome": result, "sent": json.dumps(found.get("sent", []))}
    values |= {"failed": json.dumps(found.get("failed", {}))}
    values |= {"unsure": json.dumps(found.get("unsure", {}))}
    values |= {"error": job.error, "now": now, "job": job.id}
    if tx.write(CONCLUDED, **values).changed == 0 and outcome == "failed":
        _never_began(tx, job, reminder, values)
    if outcome == "failed":
        tx.write(FAILED, error=job.error, now=now, id=reminder)
    elif outcome == "done":
        _advance(tx, job.id, reminder, found, now)


def _never_began(tx: Transaction, job: Job[Any], reminder: str, values: dict[str, Any]) -> None:
    """It failed before it had chosen anything: that is on record, too."""
    rows = tx.read("select title, channels from reminders_reminder where id = :id", id=reminder)
    title, channels = (rows[0].title, rows[0].channels) if rows else ("", "[]")
    facts: dict[str, Any] = {"reminder": reminder, "title": title, "key": job.key or str(job.id)}
    more = {"channels": channels, "slot": job.at, "now": values["now"], "body": None, "waited": 0}
    tx.write(BEGUN, job=job.id, **facts, **more)
    tx.write(CONCLUDED, **values)


def _advance(tx: Transaction, job: int, reminder: str, found: dict[str, Any], now: int) -> None:
    """Success or partial success: what was due once is gone, the others note what did not arrive.

    Only by its newest fire: an older one that is redriven says nothing about what came after it.
    """
    if tx.write(ONCE_GONE, id=reminder, job=job).changed:
        tx.write(WITHDRAWN, id=reminder, why="the reminder was sent by another fire")
        tx.enqueue(forget, reminder)
        return
    _repeat(tx, reminder, job)
    missing = sorted([*found.get("failed", {}), *found.get("unsure", {})])
    error = f"partial: {', '.join(missing)}" if missing else None
    tx.write(ADVANCED, error=error, now=now, id=reminder, job=job)


def _repeat(tx: Transaction, reminder: str, job: int) -> None:
    """Say it again after a while, unless it is called done until then."""
    rows = tx.read(
        "select nag_ms, nags, open_slot from reminders_reminder where id = :id and last_job = :job",
        id=reminder,
        job=job,
    )
    if not rows or rows[0].nag_ms is None or rows[0].open_slot is None:
        return
    if rows[0].nags < settings().most_repeats:
        later = fire.using(delay=rows[0].nag_ms / 1000)
        tx.enqueue(later, reminder, rows[0].open_slot)


@part.task(retries=5, backoff=("1m", "5m", "30m"), keep="1d", queue="reminders")
async def tell(run: Run, to: str, subject: str, text: str) -> None:
    """One mail of ours: an endpoint is about to be switched off, or was."""
    await email(to, subject, text, run.key)


@part.task(retries=10, backoff=("1s", "1m", "10m"), keep=0, queue="reminders")
def forget(reminder: str, job: int | None = None) -> None:
    """Take away the schedule of a reminder that is gone, and a fire of it that is still tried."""
    if job is not None:
        stop(job)
    with contextlib.suppress(NotFound):
        part.app.get_schedule(key_of(reminder)).delete()


@part.task(retries=10, backoff=("1s", "1m", "10m"), keep=0, queue="reminders")
def stop(job: int) -> None:
    """Try a fire no more: its reminder is gone, or was given another time."""
    with contextlib.suppress(NotFound):
        part.app.cancel(job, "the reminder was changed or deleted")


@part.task(retries=10, backoff=("1s", "1m", "10m"), keep=0, queue="reminders")
def look_again(job: int) -> None:
    """Let a fire that waits for the end of quiet hours look whether they are still those."""
    with contextlib.suppress(NotFound, Conflict):
        part.app.job(job).run_now()


@part.task(
    cron="23 3 * * *", keep=0, queue="reminders", why="history and ended reminders have an end"
)
def prune(run: Run) -> None:
    """Delete the history of what went well, once it is old enough."""
    before = run.now - milliseconds(settings().keep)
    run.write(
        "delete from reminders_history where settled_at < :before and outcome <> 'failed'",
        before=before,
    )
    run.write("delete from reminders_attempt where at < :before", before=before)


BEGUN = """
insert into reminders_history
    (job, reminder, title, key, channels, slot, fired_at, outcome, sent, failed, unsure, body,
    waited)
values (:job, :reminder, :title, :key, :channels, :slot, :now, 'sending', '[]', '{}', '{}', :body,
    :waited)
on conflict (job) do nothing
"""
WAITS = "update reminders_reminder set quiet_until = :until, last_job = :job where id = :id"
WAITS_NO_MORE = (
    "update reminders_reminder set quiet_until = null where id = :id and last_job = :job"
)
FIRED = """
update reminders_reminder set last_fired_at = :now, last_job = :job, updated_at = :now,
    quiet_until = null, open_slot = :open, nags = :nags
where id = :id
"""
# A regular time of the plan behind that one.
COME = """
select key from duework_schedules_v1
where key = :key and (last_slot > :slot or (state = 'active' and slot <= :now))
"""
# An earlier slot that was sent when this one had come: it waited for the end of the quiet hours.
COVERED = """
select job from reminders_history
where reminder = :id and slot < :slot and fired_at >= :slot and waited = 1
    and outcome <> 'cancelled' limit 1
"""
CONCLUDED = """
update reminders_history set settled_at = :now, outcome = :outcome, sent = :sent, failed = :failed,
    unsure = :unsure, error = :error
where job = :job
"""
# What was given up is not sent again: nobody wants it any more.
WITHDRAWN = """
update reminders_history set outcome = 'cancelled', error = :why
where reminder = :id and outcome = 'failed'
"""
ONCE_GONE = """
delete from reminders_reminder
where id = :id and last_job = :job and recurrence_rule is null and nag_ms is null
"""
ADVANCED = """
update reminders_reminder set last_error = :error, updated_at = :now where id = :id and last_job = :job
"""
FAILED = """
update reminders_reminder set last_error = :error, updated_at = :now,
    state = case when recurrence_rule is null then 'failed' else state end
where id = :id
"""
