"""Who is due: every quarter of an hour, those whose own hour has come, as one batch.

When a person is due is stored as a time, made from hour and zone: zones of half and quarter hours and
turns of the clock are right by construction, and a look costs one index.
"""

from __future__ import annotations

import logging
from typing import Any

from duework import Run, Transaction
from systems.streaks.channels import TOPIC
from systems.streaks.check import ONCE, check
from systems.streaks.part import part
from systems.streaks.streak import DAY, has_come, local_day, next_time, zones

log = logging.getLogger("duework.streaks")
DUE = "active = 1 and has_token = 1 and problem is null and next_at <= :now"

# As after a move to a machine with older zones; it is shown on the page.
UNREADABLE = """
update streaks_person set active = 0, last_error = 'its zone is not known here'
where id = :id
"""
CHOSEN = "select id, zone, hour, second_hour from streaks_person where chosen_by = :job"


def nobody_due(run: Run) -> bool:
    """One look at an index."""
    return not run.read(f"select 1 as found from streaks_person where {DUE} limit 1", now=run.now)  # noqa: S608 - constants


@part.task(
    cron="*/15 * * * *",
    idle=nobody_due,
    owner="streaks",
    why="people have an hour and a zone; no zone is off by less than a quarter of an hour",
)
def choose(run: Run) -> None:
    """Make a batch of everybody who is due, and plan the next time of each, in one commit."""
    job, now = run.job.id, run.now
    run.commit(lambda tx: take_due(tx, job, now))


def take_due(tx: Transaction, job: int, now: int) -> int:
    """How many are checked now."""
    # The update locks what it takes: of two that choose at once, the second finds nobody left.
    tx.write(f"update streaks_person set chosen_by = :job where {DUE}", job=job, now=now)  # noqa: S608 - constants
    due = tx.read(f"{CHOSEN} and {DUE} order by id", job=job, now=now)
    due = [one for one in due if _readable(tx, one)]
    plan = [{"id": one.id, "next": next_time(now, one.zone, one.hour)} for one in due]
    if plan:
        tx.write("update streaks_person set next_at = :next where id = :id", rows=plan)
    items = [item for one in due if (item := _item(one, now)) is not None]
    if not items:
        log.info("No active users to process")
        return 0
    # Somebody whose check of that day is still being tried gets no second one.
    made = tx.batch(check, items, name="streaks", member_key="{person}:{day}", then=report)
    for one in due:
        _plan_last_call(tx, one, now)
    tx.touch(TOPIC)
    log.info("batch %s of %s people", made.id, len(items))
    return len(items)


def _readable(tx: Transaction, person: Any) -> bool:
    """Whether this row's clock can be read; one that cannot is set aside, and holds up nobody."""
    if person.zone in zones():
        return True
    log.error("the clock of %s cannot be read: %s", person.id, person.zone)
    tx.write(UNREADABLE, id=person.id)
    return False


def _item(person: Any, now: int) -> tuple[str, str, str] | None:
    """What to check; nothing if the day is over and the hour of today has not come.

    That is so after a night without workers: a day that is over is not told any more.
    """
    if not has_come(now, person.zone, person.hour):
        log.warning("nobody was there to check %s in time", person.id)
        return None
    return person.id, local_day(now, person.zone).isoformat(), part.settings.github_url


def _plan_last_call(tx: Transaction, person: Any, now: int) -> None:
    """Another check at the later hour of the same day, whatever becomes of this one."""
    if person.second_hour is None or not has_come(now, person.zone, person.hour):
        return
    today = local_day(now, person.zone)
    at = next_time(now, person.zone, person.second_hour)
    if local_day(at, person.zone) == today:
        day = today.isoformat()
        planned = check.using(key=f"{person.id}:{day}:last", once=ONCE, at=at)
        tx.enqueue(planned, person.id, day, part.settings.github_url, last=True)


@part.task
def report(batch: int) -> str:
    """Say how a batch ended."""
    found = part.app.get_batch(batch)
    text = f"All {found.total} users dispatched for batch {batch}: {found.done} done, {found.failed} failed"
    log.info(text)
    return text


@part.task(cron="30 3 * * *", owner="streaks", why="days and messages are kept for keep_days")
def tidy(run: Run) -> None:
    """Delete days, and messages that have an outcome, once they are older than what is kept."""
    last = (local_day(run.now, "UTC") - part.settings.keep_days * DAY).isoformat()
    run.write("delete from streaks_day where day < :last", last=last)
    run.write("delete from streaks_message where day < :last and settled is not null", last=last)
