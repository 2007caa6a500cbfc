"""What was sent, what failed and why, and how to send it again.

The history is ours; whether a fire is still tried, or was given up, is asked of its job.
"""

from __future__ import annotations

import json
from typing import Any, Literal

import msgspec

from duework import Conflict, NotFound
from systems.reminders.part import part, settings
from systems.reminders.rules import listed

Outcome = Literal["sending", "success", "partial", "failed", "cancelled"]


class Fire(msgspec.Struct, frozen=True, kw_only=True):
    """One fire of a reminder; times are in milliseconds."""

    job: int
    reminder: str
    title: str
    key: str
    channels: list[str]
    slot: int
    fired_at: int
    settled_at: int | None
    outcome: Outcome
    sent: list[str]
    failed: dict[str, str]
    unsure: dict[str, str]
    error: str | None
    # What its webhook says, to be replayed; and when somebody said that it is done.
    body: str | None
    done_at: int | None
    # Of its job: how many attempts have failed, and when the next one is due.
    attempts: int
    again_at: int | None

    @property
    def late_by(self) -> int:
        """From the planned time to the fire."""
        return max(0, self.fired_at - self.slot)

    def state_of(self, channel: str) -> str:
        """sent, failed, unsure or sending."""
        if channel in self.sent:
            return "sent"
        if channel in self.unsure:
            return "unsure"
        over = channel in self.failed or self.outcome == "failed"
        return "failed" if over else "cancelled" if self.outcome == "cancelled" else "sending"


def recent(*, reminder: str = "", limit: int = 50) -> list[Fire]:
    """The newest fires first, of one reminder or of all."""
    mine = " where h.reminder = :reminder" if reminder else ""
    rows = part.app.read(
        f"{SELECT}{mine} order by h.fired_at desc, h.job desc limit :wanted",
        wanted=min(limit, 1000),
        **({"reminder": reminder} if reminder else {}),
    )
    return [fire_of(row) for row in rows]


def find(job: int) -> Fire:
    """One fire; `NotFound` if there is none."""
    rows = part.app.read(f"{SELECT} where h.job = :job", job=job)
    if not rows:
        raise NotFound(f"there is no fire {job}")
    return fire_of(rows[0])


def endpoint_of(fire: Fire) -> str:
    """Where its webhook went: as it was stored with the send, else where the reminder goes today."""
    rows = part.app.read(
        "select payload from duework_deliveries_v1 where job = :job and channel = 'webhook'",
        job=fire.job,
    )
    if rows:
        found: str = json.loads(rows[0].payload)["endpoint"]
        return found
    rows = part.app.read(
        "select endpoint from reminders_reminder where id = :id and endpoint is not null",
        id=fire.reminder,
    )
    if not rows:
        raise Conflict(f"it is no longer known where fire {fire.job} went")
    return str(rows[0].endpoint)


def failed(*, limit: int = 100) -> list[Fire]:
    """Fires that were given up, with the reason, newest first; they wait for `redrive`."""
    return _where(GIVEN_UP, limit)


def retrying(*, limit: int = 100) -> list[Fire]:
    """Fires that have failed and are tried again, with the time."""
    return _where("j.state = 'open' and j.failures > 0", limit)


def partial(*, limit: int = 100) -> list[Fire]:
    """Fires of which a channel failed: they are over, and `redrive` sends that channel alone."""
    return _where("h.outcome = 'partial' and j.state = 'done'", limit)


def _where(what: str, limit: int, **values: int) -> list[Fire]:
    text = f"{SELECT} where {what} order by h.job desc limit :n"
    rows = part.app.read(text, n=min(limit, 1000), **values)
    return [fire_of(row) for row in rows]


def redrive(job: int) -> str:
    """Send again what has failed of a fire, and only that; the job's state before."""
    fire, found = find(job), part.app.job(job)
    if fire.outcome == "cancelled" and fire.error == DELETED:
        raise Conflict(f"fire {job} is not wanted any more: {fire.error}")
    if found.state not in {"failed", "done"}:
        raise Conflict(f"fire {job} is {found.phase}: only what has failed is sent again")
    if found.state == "done" and not fire.failed:
        raise Conflict(f"fire {job} has no failed channel")
    found.retry()
    return found.state


def redrive_all() -> list[int]:
    """Every fire that was given up; the jobs."""
    # Each once, the newest first: what fails again at once does not come up a second time.
    done: list[int] = []
    while found := _where(f"{GIVEN_UP} and h.job < :before", 100, before=(done or [2**62])[-1]):
        for each in found:
            redrive(each.job)
            done.append(each.job)
    return done


def fire_of(row: Any) -> Fire:
    tried = row.job_state == "open" and row.failures > 0
    return Fire(
        job=row.job,
        reminder=row.reminder,
        title=row.title,
        key=row.key,
        channels=listed(row.channels),
        slot=row.slot,
        fired_at=row.fired_at,
        settled_at=row.settled_at,
        outcome=row.outcome if row.job_state != "open" else "sending",
        sent=json.loads(row.sent),
        failed=json.loads(row.failed),
        unsure=json.loads(row.unsure),
        error=row.job_error if tried else row.error,
        body=row.body,
        done_at=row.done_at,
        attempts=row.failures or 0,
        again_at=row.job_due if tried else None,
    )


def attempts_in_all() -> int:
    return settings().retries + 1


DELETED = "the reminder was deleted"
GIVEN_UP = "j.state = 'failed' and h.outcome <> 'cancelled'"
SELECT = """
select h.*, j.state as job_state, j.failures as failures, j.error as job_error, j.due as job_due
from reminders_history h left join duework_jobs_v1 j on j.id = h.job
"""
