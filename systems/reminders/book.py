"""The reminders themselves: create, look, edit, snooze, send now, delete.

A reminder is a row of ours and a schedule of the engine's, made and changed in one commit. When it fires
next is read from the schedule, or from the job that is being retried: nothing is written down twice.
"""

from __future__ import annotations

import contextlib
import json
import secrets as randomness
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec

from duework import Conflict, NotFound, Transaction, UsageError
from duework.durations import Duration, milliseconds
from duework.shapes.schedules.cron_words import cron_words
from systems.reminders import endpoints, log
from systems.reminders.fire import WITHDRAWN, fire, forget, look_again, stop
from systems.reminders.part import part
from systems.reminders.quiet import audible, quiet_hours
from systems.reminders.recipients import WITH_RECIPIENT, held_until
from systems.reminders.rules import (
    Change,
    NewReminder,
    chosen_channels,
    in_zone,
    key_of,
    listed,
    one_line,
    repeat_ms,
    rule_of,
    timing,
)

State = Literal["active", "retrying", "sending", "waiting", "failed", "ended"]
LONGEST_SNOOZE_MS = 30 * 86_400_000
MOST = 1000


class Reminder(msgspec.Struct, frozen=True, kw_only=True):
    """A reminder as it was when it was looked at; times are in milliseconds."""

    id: str
    title: str
    text: str
    channels: list[str]
    email: str | None
    endpoint: str | None
    recurrence_rule: str | None
    zone: str
    state: State
    # Hours in which nothing is sent; how long until it is said again; whether it waits for its "done".
    quiet: str | None
    repeat_ms: int | None
    waits_for_done: bool
    # The next regular time, or that of the next attempt; null: none will come by itself.
    next_fire_at: int | None
    last_fired_at: int | None
    # Full failures of the fire that is being tried.
    error_count: int
    last_error: str | None
    created_at: int
    updated_at: int

    @property
    def repeats(self) -> str:
        """How often, in a few words."""
        rule = self.recurrence_rule or "once"
        kind, _, fields = rule.partition(" ")
        return cron_words(fields) if kind == "cron" else rule


def create(new: NewReminder, *, id_: str | None = None) -> Reminder:
    """A row and its schedule in one commit; what cannot be understood changes nothing."""
    return find(create_all([(id_, new, "")])[0])


def create_all(wanted: Sequence[tuple[str | None, NewReminder, str]]) -> list[str]:
    """All of them in one commit, or none; errors say where it stood, if that has a name. Their ids."""
    now = part.app.now()
    prepared = []
    for id_, new, where in wanted:
        with _located(where):
            prepared.append((_values(id_, new, now), timing(new, new.zone, now) or {}, where))
    with part.app.transaction() as tx:
        for values, options, where in prepared:
            with _located(where):
                if values["endpoint"] is not None:
                    endpoints.require(tx, values["endpoint"])
                tx.write(INSERT, **values)
                _schedule(tx, values["id"], options)
        tx.touch("reminders")
    return [values["id"] for values, *_ in prepared]


@contextlib.contextmanager
def _located(where: str) -> Iterator[None]:
    """A mistake says where it stood."""
    try:
        yield
    except UsageError as error:
        raise (UsageError(f"{where}: {error}") if where else error) from None


def _values(id_: str | None, new: NewReminder, now: int) -> dict[str, Any]:
    return {
        "id": id_ or f"rem_{randomness.token_hex(6)}",
        "title": one_line(new.title),
        "body": new.text,
        "channels": json.dumps(chosen_channels(new.channels, new.email, new.endpoint)),
        "email": new.email,
        "endpoint": new.endpoint,
        "rule": rule_of(timing(new, new.zone, now) or {}),
        "zone": new.zone,
        "quiet": quiet_hours(new.quiet),
        "nag": repeat_ms(new.repeat),
        "now": now,
    }


def exists(reminder: str) -> bool:
    return bool(part.app.read("select 1 from reminders_reminder where id = :id", id=reminder))


def _schedule(tx: Transaction, reminder: str, options: dict[str, Any]) -> None:
    tx.schedule(fire, args=(reminder,), key=key_of(reminder), **options)


def find(reminder: str) -> Reminder:
    """One reminder; `NotFound` if there is none."""
    rows = part.app.read(f"{SELECT} where r.id = :id", id=reminder)
    if not rows:
        raise NotFound(f"there is no reminder {reminder!r:.80}")
    return _reminder(rows[0])


def coming(
    *, until: int | None = None, limit: int = 100, after: tuple[int, str] = (-1, "")
) -> list[Reminder]:
    """What fires next, soonest first; go on with `after=` the last one's time and id."""
    rows = part.app.read(
        f"{SELECT} where s.due <= :until and (s.due > :since or (s.due = :since and r.id > :last))"
        " order by s.due, r.id limit :wanted",
        until=2**62 if until is None else until,
        since=after[0],
        last=after[1],
        wanted=_bounded(limit),
    )
    return [_reminder(row) for row in rows]


def every(*, limit: int = 100, after: str = "") -> list[Reminder]:
    """All of them by id; go on with `after=` the last one."""
    rows = part.app.read(
        f"{SELECT} where r.id > :after order by r.id limit :wanted",
        after=after,
        wanted=_bounded(limit),
    )
    return [_reminder(row) for row in rows]


def count() -> int:
    """How many there are."""
    return int(part.app.read("select count(*) as n from reminders_reminder")[0].n)


def edit(reminder: str, change: Change) -> Reminder:
    """Change what is given; other times take the place of the old ones, in the same commit."""
    now = part.app.now()
    with part.app.transaction() as tx:
        rows = tx.read("select * from reminders_reminder where id = :id", id=reminder)
        if not rows:
            raise NotFound(f"there is no reminder {reminder!r:.80}")
        row = rows[0]
        zone = change.zone or row.zone
        options = timing(change, zone, now)
        if options is None and change.zone is not None:
            raise UsageError("another zone needs the times in it: one of at, cron, rrule and every")
        values = _edited(tx, row, change)
        rule = row.recurrence_rule if options is None else rule_of(options)
        values |= {"id": reminder, "seen": row.revision, "now": now, "rule": rule, "zone": zone}
        values |= {"state": row.state, "last_job": row.last_job}
        values |= {"open": row.open_slot, "quiet_until": row.quiet_until}
        if options is not None:
            values |= {"state": "active", "last_job": None, "open": None, "quiet_until": None}
            _schedule(tx, reminder, options)
            if row.last_job is not None:
                tx.enqueue(stop, row.last_job)
            if row.recurrence_rule is None:
                tx.write(WITHDRAWN, id=reminder, why="the reminder was given another time")
        elif row.quiet_until is not None:
            # It waits for the end of hours that may be others now.
            tx.enqueue(look_again, row.last_job)
        tx.touch("reminders")
        if tx.write(UPDATE, **values).changed == 0:
            raise Conflict("the reminder was changed by somebody else meanwhile: look again")
    return find(reminder)


def _edited(tx: Transaction, row: Any, change: Change) -> dict[str, Any]:
    """The new values of what may be changed without another time."""

    def new(name: str, old: Any) -> Any:
        value = getattr(change, name)
        return old if value is msgspec.UNSET else value

    email, endpoint = new("email", row.email), new("endpoint", row.endpoint)
    if endpoint is not None:
        endpoints.require(tx, endpoint)
    chosen = new("channels", None)
    if chosen is None and change.email is change.endpoint is msgspec.UNSET:
        chosen = tuple(json.loads(row.channels))
    return {
        "title": one_line(new("title", row.title)),
        "body": new("text", row.body),
        "channels": json.dumps(chosen_channels(chosen, email, endpoint)),
        "email": email,
        "endpoint": endpoint,
        "quiet": row.quiet if change.quiet is msgspec.UNSET else quiet_hours(change.quiet),
        "nag": row.nag_ms if change.repeat is msgspec.UNSET else repeat_ms(change.repeat),
    }


def delete(reminder: str) -> None:
    """Gone with this commit; its schedule follows, and a fire of it that finds it gone sends nothing."""
    with part.app.transaction() as tx:
        rows = tx.read("select last_job from reminders_reminder where id = :id", id=reminder)
        if not rows:
            raise NotFound(f"there is no reminder {reminder!r:.80}")
        tx.write("delete from reminders_reminder where id = :id", id=reminder)
        tx.write(WITHDRAWN, id=reminder, why=log.DELETED)
        tx.enqueue(forget, reminder, rows[0].last_job)
        tx.touch("reminders")


def snooze(reminder: str, length: Duration = "10m") -> Reminder:
    """Fire the next time that much later; the times after it stay as they are."""
    found, wait = find(reminder), milliseconds(length)
    if not 1000 <= wait <= LONGEST_SNOOZE_MS:  # noqa: PLR2004 - a second
        raise UsageError("snooze for a second to thirty days, such as 10m")
    if found.state in {"failed", "ended"}:
        raise Conflict(f"the reminder has {found.state}: there is nothing to put off")
    part.app.get_schedule(key_of(reminder)).postpone(length)
    return find(reminder)


def send_now(reminder: str) -> int:
    """Fire at once, beside the plan; one that is due once is over with it. The job's id."""
    find(reminder)
    return part.app.get_schedule(key_of(reminder)).fire_now().id


def done(reminder: str, slot: int | None = None) -> bool:
    """Somebody has done it: it is not said again, and one that was due once is over. Whether it waited.

    `slot`: only if that is the one it waits for; a link in an old mail says nothing about a later one.
    """
    now = part.app.now()
    with part.app.transaction() as tx:
        rows = tx.read("select * from reminders_reminder where id = :id", id=reminder)
        if not rows or rows[0].open_slot is None or slot not in (None, rows[0].open_slot):
            return False
        tx.write(DONE, id=reminder, now=now)
        tx.write(DONE_FIRES, id=reminder, slot=rows[0].open_slot, now=now)
        if rows[0].recurrence_rule is None:
            tx.write("delete from reminders_reminder where id = :id", id=reminder)
            tx.enqueue(forget, reminder, rows[0].last_job)
        tx.touch("reminders")
    return True


def done_by_link(job: int) -> log.Fire:
    """What a link in a mail does; said again, it changes nothing."""
    fire_ = log.find(job)
    rows = part.app.read(
        "select open_slot from reminders_reminder where id = :id", id=fire_.reminder
    )
    waits = rows[0].open_slot if rows else None
    if waits is not None and fire_.slot >= waits:
        done(fire_.reminder, waits)
    with part.app.transaction() as tx:
        tx.write(DONE_FIRE, job=job, now=part.app.now())
        tx.touch("reminders")
    return log.find(job)


def preview(reminder: str, count: int = 5) -> list[str]:
    """The next times in its own zone, as they will be sent: what falls into quiet hours at their end."""
    found, count = find(reminder), min(count, 50)
    schedule = part.app.get_schedule(key_of(reminder))
    rows = part.app.read(WITH_RECIPIENT, id=reminder)
    if not rows or (found.quiet is rows[0].their_quiet is rows[0].muted_until is None):
        return [each.isoformat() for each in schedule.next(count)]
    times = [round(each.timestamp() * 1000) for each in schedule.next(count * 24)]
    heard = audible(times, lambda at: held_until(rows[0], at))
    return in_zone(heard[:count], found.zone)


def _bounded(limit: int) -> int:
    if not 1 <= limit <= MOST:
        raise UsageError(f"a limit is 1 to {MOST}")
    return limit


def _reminder(row: Any) -> Reminder:
    retrying = row.job_state == "open" and row.failures > 0
    times = [row.planned, row.quiet_until, row.job_due if retrying else None]
    known = [each for each in times if each is not None]
    return Reminder(
        id=row.id,
        title=row.title,
        text=row.body,
        channels=listed(row.channels),
        email=row.email,
        endpoint=row.endpoint,
        recurrence_rule=row.recurrence_rule,
        zone=row.zone,
        quiet=row.quiet,
        repeat_ms=row.nag_ms,
        waits_for_done=row.open_slot is not None,
        state=_state(row, retrying=retrying),
        next_fire_at=min(known) if known else None,
        last_fired_at=row.last_fired_at,
        error_count=row.failures if retrying else 0,
        last_error=row.error if retrying else row.last_error,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def _state(row: Any, *, retrying: bool) -> State:
    if retrying:
        return "retrying"
    if row.quiet_until is not None:
        return "active"
    if row.job_state == "open" and row.planned is None:
        return "sending"
    if row.state == "failed" and row.planned is None:
        return "failed"
    if row.open_slot is not None and row.planned is None:
        return "waiting"
    return "active" if row.planned is not None else "ended"


INSERT = """
insert into reminders_reminder (id, title, body, channels, email, endpoint, recurrence_rule, zone,
    quiet, nag_ms, state, revision, created_at, updated_at)
values (:id, :title, :body, :channels, :email, :endpoint, :rule, :zone, :quiet, :nag, 'active', 0,
    :now, :now)
"""
UPDATE = """
update reminders_reminder set title = :title, body = :body, channels = :channels, email = :email,
    endpoint = :endpoint, recurrence_rule = :rule, zone = :zone, state = :state,
    last_job = :last_job, quiet = :quiet, nag_ms = :nag,
    open_slot = :open, quiet_until = :quiet_until,
    revision = revision + 1, updated_at = :now
where id = :id and revision = :seen
"""
DONE = """
update reminders_reminder set open_slot = null, nags = 0, updated_at = :now where id = :id
"""
DONE_FIRES = """
update reminders_history set done_at = :now
where reminder = :id and slot >= :slot and done_at is null
"""
DONE_FIRE = "update reminders_history set done_at = :now where job = :job and done_at is null"
# The engine's rows are read and never written: `due` of an active schedule, and the job of the newest fire.
SELECT = """
select r.*, s.due as planned, j.state as job_state, j.due as job_due,
    coalesce(j.failures, 0) as failures, j.error as error
from reminders_reminder r
left join duework_schedules_v1 s on s.key = 'reminders:' || r.id and s.state = 'active'
left join duework_jobs_v1 j on j.id = r.last_job
"""
