"""A tenant: one durable object each, with what it has posted, whom it must not write to, and its limit.

Its methods are one transaction of its private database, so two requests with one key cannot both be the
first, and a limit of 10 lets 10 through, whoever asks where.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from duework import Conflict, DurableObject, UsageError
from systems.mailroom.mail import NewMessage
from systems.mailroom.part import part

DAY = 86_400_000
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
    """A message that somebody wants to post under a key."""

    key: str
    new: NewMessage


class Rules(msgspec.Struct, frozen=True):
    """What holds for a tenant that has chosen nothing else."""

    sender: str
    limit: int
    # How long the key of a request is remembered.
    keep_ms: int


class Verdict(msgspec.Struct, frozen=True):
    """What was decided when the key was first seen; it stays."""

    key: str
    sender: str
    blocked: str | None
    # Whether the key was known already.
    known: bool


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

    def accept(self, wanted: list[Wanted], rules: Rules, now: int) -> list[Verdict]:
        """Decide about messages, all of them or none: a known key gets what it got before."""
        self.forget_before(now - rules.keep_ms)
        return [self._accept(each, rules, now) for each in wanted]

    def _accept(self, wanted: Wanted, rules: Rules, now: int) -> Verdict:
        digest = wanted.new.digest
        for row in self.sql("select * from accepted where key = :key", key=wanted.key):
            if row.digest != digest:
                raise Conflict(
                    f"the key {wanted.key!r} was used with another body: take another key,"
                    " or post what was posted"
                )
            return Verdict(wanted.key, row.sender, row.blocked, known=True)
        self._count(rules.limit, now)
        blocked = self._blocked(wanted.new.recipients)
        chosen = wanted.new.sender or rules.sender
        values = {"key": wanted.key, "digest": digest, "sender": chosen, "blocked": blocked}
        if not self.sql("select 1 from accepted limit 1"):
            # From the first on, old ones are looked for once a day.
            self.set_alarm("1d")
        self.sql(
            "insert into accepted values (:key, :digest, :sender, :blocked, :at)", **values, at=now
        )
        return Verdict(wanted.key, chosen, blocked, known=False)

    def _count(self, limit: int, now: int) -> None:
        day, most = now // DAY, self.limit(limit)
        if self.posted(now) >= most:
            raise LimitReached(most, (day + 1) * DAY)
        self.sql(
            "insert into day values (:day, 1) on conflict (day) do update set posted = posted + 1",
            day=day,
        )

    def _blocked(self, recipients: tuple[str, ...]) -> str | None:
        for each in recipients:
            found = self.sql("select why from suppressed where address = :to", to=each.lower())
            if found:
                return f"suppressed: {found[0].why}"
        return None

    def posted(self, now: int) -> int:
        """Messages posted today, by UTC."""
        rows = self.sql("select posted from day where day = :day", day=now // DAY)
        return int(rows[0].posted) if rows else 0

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

    def tidy(self, at: int) -> None:
        """What the alarm does."""
        self.forget_before(at)
        if self.sql("select 1 from accepted limit 1"):
            self.set_alarm("1d")

    async def alarm(self) -> None:
        await self.run(self.tidy, part.app.now() - rules().keep_ms)


def rules() -> Rules:
    """As the settings say."""
    chosen = part.settings
    return Rules(chosen.sender, chosen.daily_limit, chosen.keep_days * DAY)


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
