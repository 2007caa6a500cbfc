"""What a receiver of mails has chosen: quiet hours on their own wall, and a time before which nothing comes.

It holds for every reminder to that address; quiet hours of the reminder itself go before it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from duework import NotFound, Transaction, UsageError
from duework.durations import milliseconds
from systems.reminders.part import part
from systems.reminders.quiet import quiet_hours, waits_until
from systems.reminders.rules import check_address, known_zone

LONGEST_MUTE_MS = 90 * 86_400_000


class Choices(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """What may be chosen; `mute` is how long from now nothing is sent."""

    zone: str = "UTC"
    quiet: str | None = None
    mute: str | None = None


class Recipient(msgspec.Struct, kw_only=True, frozen=True):
    address: str
    zone: str
    quiet: str | None
    muted_until: int | None


def choose(address: str, asked: Choices) -> Recipient:
    """Set all of it; what is left out is taken away."""
    now = part.app.now()
    muted = None if asked.mute is None else now + milliseconds(asked.mute)
    if muted is not None and not now < muted <= now + LONGEST_MUTE_MS:
        raise UsageError("mute for a second to ninety days, such as 2d")
    found = Recipient(
        address=check_address(address).lower(),
        zone=known_zone(asked.zone),
        quiet=quiet_hours(asked.quiet),
        muted_until=muted,
    )
    with part.app.transaction() as tx:
        tx.write(CHOOSE, **msgspec.structs.asdict(found), now=now)
        _look_again(tx, found.address)
        tx.touch("reminders")
    return found


def find(address: str) -> Recipient:
    rows = part.app.read(
        "select * from reminders_recipient where address = :address", address=address.lower()
    )
    if not rows:
        raise NotFound(f"{address!r:.80} has chosen nothing")
    names = Recipient.__struct_fields__
    return Recipient(**{name: getattr(rows[0], name) for name in names})


def forget(address: str) -> None:
    with part.app.transaction() as tx:
        gone = tx.write(
            "delete from reminders_recipient where address = :address", address=address.lower()
        )
        if not gone.changed:
            raise NotFound(f"{address!r:.80} has chosen nothing")
        _look_again(tx, address.lower())
        tx.touch("reminders")


def _look_again(tx: Transaction, address: str) -> None:
    """What waits for the end of what was chosen before looks again."""
    from systems.reminders.fire import look_again

    for row in tx.read(WAITING, address=address):
        tx.enqueue(look_again, row.last_job)


def held_until(row: Any, now: int) -> int | None:
    """Until when this moment is none to send at, by the reminder's own hours, else by its receiver's."""
    times = [waits_until(row.quiet, row.zone, now)]
    if row.quiet is None and row.their_quiet is not None:
        times.append(waits_until(row.their_quiet, row.their_zone, now))
    if row.muted_until is not None and row.muted_until > now:
        times.append(row.muted_until)
    return max((each for each in times if each is not None), default=None)


CHOOSE = """
insert into reminders_recipient (address, zone, quiet, muted_until, updated_at)
values (:address, :zone, :quiet, :muted_until, :now)
on conflict (address) do update set zone = excluded.zone, quiet = excluded.quiet,
    muted_until = excluded.muted_until, updated_at = excluded.updated_at
"""
WAITING = """
select last_job from reminders_reminder
where lower(email) = :address and quiet_until is not null and last_job is not null
"""
# A reminder with what its receiver has chosen.
WITH_RECIPIENT = """
select r.*, p.quiet as their_quiet, p.zone as their_zone, p.muted_until as muted_until
from reminders_reminder r left join reminders_recipient p on p.address = lower(r.email)
where r.id = :id
"""
