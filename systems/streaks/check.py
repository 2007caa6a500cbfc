"""The check of one person, in a process of its own: ask GitHub, store the day, promise the messages.

Whatever it hangs on or dies of touches nobody else. The process has no database and no settings of its
own: what it needs comes as arguments and from its run.
"""

from __future__ import annotations

import json
import os
import signal
from datetime import date
from typing import Any

from duework import Cancel, Fail, Job, Run, Transaction
from systems.streaks import github
from systems.streaks.channels import BACKOFF, PERSON, TOPIC, addresses, notify, secret_of
from systems.streaks.part import part
from systems.streaks.rest import rest_of
from systems.streaks.streak import (
    DAY,
    Standing,
    last_call,
    local_day,
    message,
    minutes_left,
    standing,
    told_on,
)

# A second check of the same day finds the message that the first one promised; its row does so for ever.
ONCE = "2d"
SHOWN = 371
WANTED = (
    f"""{PERSON} and active = 1 and has_token = 1 and problem is null and second_hour is not null"""
)
PROBLEM = "update streaks_person set problem = :problem where id = :id"
FAILED = "update streaks_person set last_error = :error where id = :id"
CLEARED = "update streaks_person set last_error = null where id = :id and last_error is not null"
# Nothing is stored of somebody who was deleted while GitHub was asked.
STORE_DAY = """
insert into streaks_day (person, day, contributions, streak, message, checked, weekly, at_risk)
select id, :day, cast(:contributions as bigint), cast(:streak as bigint), :message,
cast(:now as bigint), cast(:weekly as bigint), cast(:at_risk as bigint)
from streaks_person where id = :person
on conflict (person, day) do update set contributions = excluded.contributions,
streak = excluded.streak, message = excluded.message, checked = excluded.checked,
weekly = excluded.weekly, at_risk = excluded.at_risk
"""
STORE_CALENDAR = """
insert into streaks_calendar (person, first, counts, longest)
select id, :first, :counts, cast(:longest as bigint) from streaks_person where id = :person
on conflict (person) do update set first = excluded.first, counts = excluded.counts,
longest = case when streaks_calendar.longest > excluded.longest
then streaks_calendar.longest else excluded.longest end
"""


@part.task(
    queue="streaks",
    isolation="process",
    timeout=part.settings.budget,
    retries=len(BACKOFF),
    backoff=BACKOFF,
)
async def check(
    run: Run, person: str, day: str, github_url: str, *, last: bool = False
) -> dict[str, Any] | Fail:
    """Look how a person's day stands, and promise a message; `day` is a date in the person's zone.

    The `last` one of a day calls louder, and only if nothing was done since the first.
    """
    if last and (why := _needless(run, person, day)):
        raise Cancel(why)
    who, today = _find(run, person), date.fromisoformat(day)
    if local_day(run.now, who.zone) > today:
        raise Cancel(f"{day} is over in {who.zone}")
    practise(who.drill)
    rest = rest_of(run, who)
    token = run.secret(secret_of("github", person))
    try:
        counts = await github.calendar(
            *(github_url, token, who.login),
            today=today,
            zone=who.zone,
            now=run.now,
            rest=rest,
            weekly=bool(who.weekly),
        )
    except github.Refusal as refusal:
        # Returned, so that what is written stays; nobody asks again until the person has changed it.
        run.write(PROBLEM, id=person, problem=str(refusal))
        return Fail(str(refusal))
    found = standing(counts, today, rest, weekly=bool(who.weekly))
    result = _store(run, who, today, found, counts)
    if addresses(who) and told_on(today, rest, weekly=found.weekly):
        (_call if last else _tell)(run, who, today, found)
    return result


@check.settled
def note(tx: Transaction, job: Job[Any], outcome: str) -> None:
    """Write down why a check failed, for the person's page; the next one that is done clears it."""
    if outcome == "failed":
        error = (job.error or "").partition("\n")[0] or "Unknown error"
        tx.write(FAILED, id=job.arguments["person"], error=error)
    elif outcome == "done":
        tx.write(CLEARED, id=job.arguments["person"])
    tx.touch(TOPIC)


def _find(run: Run, person: str) -> Any:
    rows = run.read(f"{PERSON} and active = 1", id=person)
    if not rows:
        raise Fail(f"User {person} not found or inactive")
    if not rows[0].has_token:
        raise Fail(f"User {rows[0].login} has no GitHub PAT configured")
    return rows[0]


def _needless(run: Run, person: str, day: str) -> str | None:
    """Why nobody need be called again, if that is so."""
    if not run.read(WANTED, id=person):
        return "a last call is not wanted any more"
    safe = "select 1 as found from streaks_day where person = :id and day = :day and at_risk = 0"
    return "the streak is safe" if run.read(safe, id=person, day=day) else None


def practise(drill: str | None) -> None:
    """An exercise, for those who want to see that a hang or a crash stays alone."""
    if drill == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    while drill == "hang":
        signal.pause()


def _store(
    run: Run, who: Any, today: date, found: Standing, counts: dict[date, int]
) -> dict[str, Any]:
    day = today.isoformat()
    text = message(who.login, today, found)
    run.write(
        STORE_DAY,
        person=who.id,
        day=day,
        contributions=found.today,
        streak=found.streak,
        message=text,
        now=run.now,
        weekly=int(found.weekly),
        at_risk=int(found.at_risk),
    )
    first = today - (SHOWN - 1) * DAY
    shown = json.dumps([counts.get(first + n * DAY, 0) for n in range(SHOWN)])
    run.write(
        STORE_CALENDAR,
        person=who.id,
        first=first.isoformat(),
        counts=shown,
        longest=found.longest,
    )
    if who.problem:
        run.write(PROBLEM, id=who.id, problem=None)
    return {
        "username": who.login,
        "currentStreak": found.streak,
        "contributionsToday": found.today,
        "message": text,
    }


def _tell(run: Run, who: Any, today: date, found: Standing) -> None:
    """The message of the day; a soft one, if a louder one may follow."""
    if found.at_risk or not who.only_at_risk:
        soft = found.at_risk and who.second_hour is not None
        text = message(who.login, today, found)
        _promise(run, who, today.isoformat(), text, "soft" if soft else "")


def _call(run: Run, who: Any, today: date, found: Standing) -> None:
    """The last call of the day: a promise of its own, for a streak that can be lost."""
    if found.at_risk and found.streak:
        text = last_call(who.login, today, found, minutes_left(run.now, who.zone))
        _promise(run, who, f"{today.isoformat()} last call", text, "loud")


def _promise(run: Run, who: Any, day: str, text: str, tone: str) -> None:
    once = notify.using(key=f"{who.id}:{day}", once=ONCE)
    run.enqueue(once, who.id, day, text, tone)
