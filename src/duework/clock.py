"""Where time comes from: the only module that reads a clock.

`now` decides what is due. It is what the `wall` clock shows, or what a database server's clock does.
`boot` counts from the machine's start, through suspends, and no step of the wall clock moves it;
comparing the two is how a step is noticed. All are integer milliseconds. `monotonic` is in seconds and
measures durations.
"""

from __future__ import annotations

import os
import re
import time
from datetime import UTC, datetime
from typing import Protocol

# No job is ever due at this time: the year 9999, in milliseconds.
FOREVER = 253_370_764_800_000

# The quickest that a clock may run, an hour in a second; leases of 15 s are then 15 virtual hours.
FASTEST = 3600
VARIABLE = "DUEWORK_CLOCK"
_SCALED = re.compile(r"(\d+(?:\.\d+)?)(?:@(\d+)/(\d+))?")

_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    @property
    def speed(self) -> float:
        """How many seconds of it pass in a real one."""
        ...

    def now(self) -> int: ...

    def wall(self) -> int: ...

    def boot(self) -> int: ...

    def at(self, wall: int, boot: int) -> int:
        """What `now` was when these were read."""
        ...

    def monotonic(self) -> float: ...


class SystemClock:
    """The machine's own clocks.

    Where others have the time, it was theirs once and goes on with boot time from there:
    setting the wall clock of this host does not move it.
    """

    speed = 1.0

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
        return _boot()

    def monotonic(self) -> float:
        return time.monotonic()


class VirtualClock:
    """A clock that stands still until it is told otherwise."""

    speed = 1.0

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


class Scaled:
    """Quick motion: `speed` seconds in a real one, counted from an origin that processes can share.

    Delays, back-off, schedules, paces and retention follow it. A lease, a task's timeout and a network
    timeout last as long as ever. It goes by boot time, so that setting the machine's clock does not
    move it, and knows no server's clock: all who share it are on one machine.
    """

    def __init__(self, speed: float, *, now: int | None = None, boot: int | None = None) -> None:
        if not 1 <= speed <= FASTEST:
            raise ValueError(f"the speed of a clock is between 1 and {FASTEST}, not {speed:g}")
        self.speed = float(speed)
        self._now = time.time_ns() // 1_000_000 if now is None else now
        self._boot = _boot() if boot is None else boot
        self._monotonic = time.monotonic() - (_boot() - self._boot) / 1000

    @classmethod
    def parse(cls, text: str) -> Scaled:
        """From a text as `DUEWORK_CLOCK` has it: `60@<virtual ms>/<boot ms>`, or `60` from now on."""
        found = _SCALED.fullmatch(text.strip())
        if found is None or not 1 <= float(found[1]) <= FASTEST:
            raise ValueError(
                f"{VARIABLE} is {text!r}; it should be a speed from 1 to {FASTEST}, as 60,"
                " or one with its origin, as 60@<virtual ms>/<boot ms>"
            )
        now, boot = (int(each) if each else None for each in (found[2], found[3]))
        return cls(float(found[1]), now=now, boot=boot)

    def now(self) -> int:
        """The virtual time, in milliseconds."""
        return self._now + self.boot()

    def wall(self) -> int:
        """The same: nobody sets it."""
        return self.now()

    def at(self, wall: int, boot: int) -> int:  # noqa: ARG002 - they are one
        """What `now` was when these were read."""
        return wall

    def boot(self) -> int:
        """Virtual milliseconds since the origin."""
        return int((_boot() - self._boot) * self.speed)

    def monotonic(self) -> float:
        """The same in seconds, without suspends."""
        return (time.monotonic() - self._monotonic) * self.speed

    def __str__(self) -> str:
        """As `DUEWORK_CLOCK` has it."""
        return f"{self.speed:g}@{self._now}/{self._boot}"


def _boot() -> int:
    return time.clock_gettime_ns(_BOOT) // 1_000_000


def clock_from_environment() -> Clock:
    """The clock that `DUEWORK_CLOCK` describes, or the system's.

    A bare speed is written back with its origin: the processes that this one starts agree with it.
    """
    if not (text := os.environ.get(VARIABLE, "").strip()):
        return SystemClock()
    clock = Scaled.parse(text)
    os.environ[VARIABLE] = str(clock)
    return clock


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
