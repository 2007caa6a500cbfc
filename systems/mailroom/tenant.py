"""A tenant: one durable object each, with what it has posted, whom it must not write to, and its limit.

Its methods are one transaction of its private database, so two requests with one key cannot both be the
first, and a limit of 10 lets 10 through, whoever asks where. A message is queued by the same commit that
remembers its key.
"""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime
from typing import Any

import msgspec

from duework import Conflict, DurableObject, NotFound, UsageError
from systems.mailroom.mail import Mail
from systems.mailroom.outbox import box, row_key
from systems.mailroom.part import part

DAY = 86_400_000
# Days that mail beyond the limit waits at most.
LONGEST_HOLD = 30
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
KEY = re.compile(r"[\x21-\x7e]{1,200}")


class LimitReached(Exception):
    """The tenant has posted what it may post today."""

    def __init__(self, limit: int, until: int) -> None:
        super().__init__(
            f"the daily limit of {limit} messages is reached; it starts again at 00:00 UTC"
        )
        self.until = until


class Wanted(msgspec.Struct, frozen=True):
    """A message that somebody wants to post under a key: the request's digest, and the mail it makes."""

    key: str
    digest: str
    mail: Mail
    # Not before this time, in milliseconds.
    at: int | None = None


class Rules(msgspec.Struct, frozen=True):
    """What holds for a tenant that has chosen nothing else."""

    limit: int
    # How long the key of a request is remembered.
    keep_ms: int
    # Whether what is beyond the limit waits for a day that has room.
    holds: bool = False


class Verdict(msgspec.Struct, frozen=True):
    """What was decided when the key was first seen; it stays."""

    # The key under which the message stands in the outbox: another one once it was changed.
    key: str
    blocked: str | None
    # Whether the key was known already.
    known: bool
    # It is beyond a day's limit, and waits until then.
    held_until: int | None = None


@part.durable
class Tenant(DurableObject):
    """`app.object(Tenant, "acme")`."""

    def open(self) -> None:
        self.sql(
            "create table if not exists suppressed (address text primary key, why text, at int)"
        )
        self.sql("create table if not exists day (day int primary key, posted int not null)")
        self.sql("create table if not exists choice (name text primary key, value int not null)")
        self.sql(
            "create table if not exists accepted (key text primary key, digest text not null,"
            " sender text not null, blocked text, at int not null)"
        )
        self.sql("create index if not exists accepted_at on accepted (at)")
        self._open_changes()

    def _open_changes(self) -> None:
        """What came with changes of messages; an older object gets it when it is next opened."""
        names = {row.name for row in self.sql("select name from pragma_table_info('accepted')")}
        if "current" not in names:
            self.sql("alter table accepted add column current text")
            self.sql("alter table accepted add column held int")
        self.sql(
            "create table if not exists change (old int primary key, key text not null,"
            " new_key text not null, mail text not null, at int)"
        )

    def accept(self, wanted: list[Wanted], rules: Rules, now: int) -> list[Verdict]:
        """Decide about messages, all of them or none: a known key gets what it got before."""
        self.forget_before(now - rules.keep_ms)
        return [self._accept(each, rules, now) for each in wanted]

    def _accept(self, wanted: Wanted, rules: Rules, now: int) -> Verdict:
        for row in self.sql("select * from accepted where key = :key", key=wanted.key):
            if row.digest != wanted.digest:
                raise Conflict(
                    f"the key {wanted.key!r} was used with another body: take another key,"
                    " or post what was posted"
                )
            return _seen(row)
        held = self._count(rules, now)
        blocked = self._blocked(wanted.mail.to)
        if not self.sql("select 1 from accepted union all select 1 from change limit 1"):
            # From the first on, old ones are looked for once a day; a change has its own alarm.
            self.set_alarm("1d")
        self.sql(
            "insert into accepted (key, digest, sender, blocked, at, held)"
            " values (:key, :digest, :sender, :blocked, :at, :held)",
            key=wanted.key,
            digest=wanted.digest,
            sender=wanted.mail.sender,
            blocked=blocked,
            at=now,
            held=held,
        )
        mail = msgspec.structs.replace(wanted.mail, blocked=blocked)
        times = [each for each in (wanted.at, held) if each is not None]
        self._queue(wanted.key, mail, max(times, default=None))
        return Verdict(wanted.key, blocked, known=False, held_until=held)

    def _queue(self, key: str, mail: Mail, at: int | None) -> None:
        """In the outbox with this commit, or not at all."""
        when = None if at is None else datetime.fromtimestamp(at / 1000, UTC)
        self.submit(box.using(key=row_key(self.key, key), lane=self.key, at=when), mail)

    def _count(self, rules: Rules, now: int) -> int | None:
        """Count it on the first day that has room: today, or, if held mail is wanted, a later one."""
        day, most = now // DAY, self.limit(rules.limit)
        found = day
        while self._posted_on(found) >= most:
            if not rules.holds or most == 0 or found - day > LONGEST_HOLD:
                raise LimitReached(most, (day + 1) * DAY)
            found += 1
        self.sql(
            "insert into day values (:day, 1) on conflict (day) do update set posted = posted + 1",
            day=found,
        )
        return None if found == day else found * DAY

    def _posted_on(self, day: int) -> int:
        rows = self.sql("select posted from day where day = :day", day=day)
        return int(rows[0].posted) if rows else 0

    def _blocked(self, recipients: tuple[str, ...]) -> str | None:
        for each in recipients:
            found = self.sql("select why from suppressed where address = :to", to=each.lower())
            if found:
                return f"suppressed: {found[0].why}"
        return None

    def known(self, wanted: list[tuple[str, str]]) -> list[Verdict | None]:
        """What was decided about these keys and digests, if they were seen."""
        found: list[Verdict | None] = []
        for key, digest in wanted:
            rows = self.sql("select * from accepted where key = :key", key=key)
            same = [row for row in rows if row.digest == digest]
            found += [_seen(row) for row in same[:1]] or [None]
        return found

    def posted(self, now: int) -> int:
        """Messages posted today, by UTC."""
        return self._posted_on(now // DAY)

    def limit(self, usual: int) -> int:
        """Messages a day: its own limit, else the usual one."""
        rows = self.sql("select value from choice where name = 'daily_limit'")
        return int(rows[0].value) if rows else usual

    def set_limit(self, limit: int) -> None:
        if limit < 0:
            raise UsageError("a daily limit is a number from 0 upward")
        self.sql("insert or replace into choice values ('daily_limit', :limit)", limit=limit)

    def suppress(self, address: str, why: str, now: int) -> None:
        """From now on nothing that is posted goes to this address."""
        self.sql(
            "insert or replace into suppressed values (:to, :why, :at)",
            to=address.lower(),
            why=why or "asked for",
            at=now,
        )

    def allow(self, address: str) -> bool:
        """Take an address off the list; whether it was on it."""
        gone = self.sql(
            "delete from suppressed where address = :to returning 1", to=address.lower()
        )
        return bool(gone)

    def suppressed(self, limit: int = 500) -> list[dict[str, Any]]:
        rows = self.sql("select * from suppressed order by at desc limit :limit", limit=limit)
        return [{"address": row.address, "why": row.why, "at": row.at} for row in rows]

    def figures(self, usual: int, now: int) -> dict[str, int]:
        """What a page shows of it."""
        held = self.sql("select count(*) as n from suppressed")[0].n
        return {"posted": self.posted(now), "limit": self.limit(usual), "suppressed": int(held)}

    def forget_before(self, at: int) -> None:
        """Forget keys and days that are older."""
        self.sql("delete from accepted where at < :at", at=at)
        self.sql("delete from day where day < :day", day=at // DAY)

    # --- a change of a message that waits: the old one is cancelled, then the new one is queued.

    def plan_change(self, old: int, key: str, mail: Mail, at: int | None) -> str:
        """Remember what is to stand in the place of a message; the new one's key."""
        if self.sql("select 1 from change where old = :old", old=old):
            raise Conflict("the message is being changed by somebody else: look again")
        # Keys of requests have no spaces.
        first, _, count = key.partition(" #")
        new = f"{first} #{int(count or 0) + 1}"
        # Whom it may go to, and on which day it was counted, holds for what it is changed to.
        mail = msgspec.structs.replace(mail, blocked=self._blocked(mail.to))
        held = [
            row.held for row in self.sql("select held from accepted where key = :key", key=first)
        ]
        at = max((each for each in (at, *held) if each is not None), default=None)
        stored = msgspec.json.encode(mail).decode()
        self.sql(
            "insert into change values (:old, :key, :new, :mail, :at)",
            old=old,
            key=first,
            new=new,
            mail=stored,
            at=at,
        )
        # Whoever began it may die: the alarm brings it to its end.
        self.set_alarm("30s")
        return new

    def apply_change(self, old: int) -> None:
        """The old one is cancelled: queue the new one, once."""
        for row in self.sql("delete from change where old = :old returning *", old=old):
            self._queue(row.new_key, msgspec.json.decode(row.mail, type=Mail), row.at)
            self.sql(
                "update accepted set current = :new where key = :key", new=row.new_key, key=row.key
            )

    def drop_change(self, old: int) -> None:
        """It is too late: the old one goes out as it was."""
        self.sql("delete from change where old = :old", old=old)

    def changes(self) -> list[int]:
        return [int(row.old) for row in self.sql("select old from change")]

    def tidy(self, at: int) -> None:
        """What the alarm does."""
        self.forget_before(at)
        if self.sql("select 1 from accepted limit 1"):
            self.set_alarm("1d")

    async def alarm(self) -> None:
        for old in await self.run(self.changes):
            state = await asyncio.to_thread(cancelled, old)
            await self.run(self.apply_change if state == "cancelled" else self.drop_change, old)
        await self.run(self.tidy, part.app.now() - rules().keep_ms)


def _seen(row: Any) -> Verdict:
    return Verdict(row.current or row.key, row.blocked, known=True, held_until=row.held)


def cancelled(message: int, why: str = "changed") -> str:
    """Cancel a message that is still queued; the state it is in then."""
    try:
        return box.cancel(message, why)
    except Conflict:
        return str(box.get_message(message).state)
    except NotFound:
        return "gone"


def rules() -> Rules:
    """As the settings say."""
    chosen = part.settings
    holds = chosen.over_limit == "hold"
    return Rules(chosen.daily_limit, chosen.keep_days * DAY, holds)


def check_tenant(name: str) -> str:
    """A name of a tenant, or a `UsageError` that says what is one."""
    if not NAME.fullmatch(name):
        raise UsageError(
            "a tenant's name has small letters, digits and -, at most 63, and begins with a letter"
            f" or a digit: not {name!r:.80}"
        )
    return name


def check_key(key: str) -> str:
    """A key of a request, or a `UsageError`."""
    if not KEY.fullmatch(key):
        raise UsageError(
            "give an Idempotency-Key: 1 to 200 visible ASCII characters without spaces, the same on"
            " every try"
        )
    return key
