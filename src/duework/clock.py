"""Where time comes from: the only module that reads a clock.

`now` is wall time and decides what is due. `boot` counts from the machine's start, through
suspends, and no step of the wall clock moves it; comparing the two is how a step is noticed.
Both are integer milliseconds. `monotonic` is in seconds and measures durations.
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

    def boot(self) -> int: ...

    def monotonic(self) -> float: ...


class SystemClock:
    """The machine's own clocks, with an offset where a database server's time rules."""

    def __init__(self) -> None:
        self.offset = 0

    def now(self) -> int:
        return time.time_ns() // 1_000_000 + self.offset

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
