"""What a batch is made from: its name, its members and its follow-up; times are given."""

from __future__ import annotations

import msgspec

from duework.clock import FOREVER
from duework.kernel.job import KEEP, LaneName, NewJob


class Follow(msgspec.Struct, frozen=True):
    """The job that follows a batch. `takes` names the argument that is the batch's id."""

    lane: LaneName
    takes: str | None = None
    delay: int = 0
    expires: int | None = None


class MemberTerms(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the members of a batch are made; stored with it, so that more may be added later."""

    queue: str
    priority: int = 0
    delay: int = 0
    # Instead of a delay.
    at: int | None = None
    # Milliseconds after that.
    expires: int | None = None
    serial: str | None = None
    after: int | None = None
    # With the names of arguments in braces.
    key: str | None = None
    # How long a key is remembered, in milliseconds.
    once: int | None = None
    tags: tuple[str, ...] = ()
    # As JSON.
    headers: str | None = None

    def job(self, task: str, now: int) -> NewJob:
        """What members that are made now have in common."""
        at = now + self.delay if self.at is None else self.at
        once = None if self.once is None else min(now + self.once, FOREVER)
        return NewJob(
            LaneName(self.queue, task, self.priority),
            "",
            at,
            once_until=once,
            expires=None if self.expires is None else at + self.expires,
            serial=self.serial,
            after=self.after,
            tags=self.tags,
            headers=self.headers,
        )


class NewMembers(msgspec.Struct, frozen=True):
    """Jobs of one kind that are counted together, one for each payload."""

    # What they have in common, also their batch, if that is there already.
    member: NewJob
    payloads: list[str]
    # A key for each, or for none.
    keys: list[str] | None = None


class NewBatch(msgspec.Struct, frozen=True):
    """A batch, and its members."""

    name: str
    # What the members have in common.
    member: NewJob
    payloads: list[str]
    key: str | None = None
    then: Follow | None = None
    # How long it is kept once settled: None is for ever.
    keep: int | None = KEEP
    # A key for each member, or for none.
    keys: list[str] | None = None
    terms: MemberTerms | None = None
