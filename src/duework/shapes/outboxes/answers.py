"""What the other side of an outbox may say."""

from __future__ import annotations

from dataclasses import dataclass

from duework.durations import Duration


@dataclass(frozen=True, slots=True)
class Accepted:
    """It has the message and will send it; `handle` is how to ask, `after` when to ask first."""

    handle: str
    after: Duration | None = None


@dataclass(frozen=True, slots=True)
class Pending:
    """It does not know yet; `after` is when to ask again."""

    after: Duration | None = None


@dataclass(frozen=True, slots=True)
class Sent:
    """The message was sent."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """It will never be sent."""

    why: str = "delivery failed"
