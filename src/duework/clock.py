"""Where time comes from: the only module that reads a clock.

`now` decides what is due. It is what the `wall` clock shows, or what a database server's clock does.
`boot` counts from the machine's start, through suspends, and no step of the wall clock moves it;
comparing the two is how a step is noticed. All are integer milliseconds. `monotonic` is in seconds and
measures durations.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol

# No job is ever due at this time: the year 9999, in milliseconds.
FOREVER = 253_370_764_800_000

_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    def now(self) -> int: ...

    def wall(self) -> int: ...

    def boot(self) -> int: ...

    def at(self, wall: int, boot: int) -> int:
        """What `now` was when these were read."""
        ...

    def monotonic(self) -> float: ...


class SystemClock:
    """The machine's own clocks.

    Where others have the time, it was theirs once and goes on with boot time from there: whoever
    sets the wall clock of this host does not move it.
    """

    def __init__(self) -> None:
        # How far the time of others is ahead of boot time, if it rules.
        self._ahead: int | None = None

    def now(self) -> int:
        ahead = self._ahead
        return self.wall() if ahead is None else self.boot() + ahead

    def wall(self) -> int:
        return time.time_ns() // 1_000_000

    def at(self, wall: int, boot: int) -> int:
        return wall if self._ahead is None else boot + self._ahead

    def follow(self, now: int, boot: int, within: int = 0) -> None:
        """At that boot time it was `now`, more or less; what is known better than that is kept."""
        ahead = now - boot
        if self._ahead is None or abs(ahead - self._ahead) > within:
            self._ahead = ahead

    def boot(self) -> int:
        return time.clock_gettime_ns(_BOOT) // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


class VirtualClock:
    """A clock that stands still until it is told otherwise."""

    def __init__(self, now: int) -> None:
        self._now = now
        self._start = now

    def now(self) -> int:
        return self._now

    def wall(self) -> int:
        return self._now

    def at(self, wall: int, boot: int) -> int:  # noqa: ARG002 - both stand still
        return wall

    def boot(self) -> int:
        return self._now - self._start

    def monotonic(self) -> float:
        return (self._now - self._start) / 1000

    def move_to(self, now: int) -> None:
        self._now = max(self._now, now)


def as_datetime(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def as_ms(when: datetime) -> int:
    """Milliseconds of an aware datetime, exactly; a naive one is a mistake."""
    if when.tzinfo is None:
        message = "a time needs a time zone: use datetime.now(UTC) or an ISO text with an offset"
        raise ValueError(message)
    delta = when - datetime(1970, 1, 1, tzinfo=UTC)
    return delta.days * 86_400_000 + delta.seconds * 1000 + delta.microseconds // 1000


# Real seconds for waits and deadlines, also where work itself runs in virtual time.
monotonic = time.monotonic


def pause(seconds: float) -> None:
    """Really wait; for back-off between tries at the database only."""
    time.sleep(seconds)
