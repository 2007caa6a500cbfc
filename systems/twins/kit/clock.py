"""The time that a twin believes in: a function that returns milliseconds since 1970.

A twin takes any clock: the Harness's standing one, a scaled one that several processes share, or the
machine's. Windows of limits, life times of tokens and tolerances of signatures follow it; a delay or
a slow body of a fault plan lasts real seconds, since the client's time-outs are real too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Protocol

from duework import Scaled

Now = Callable[[], int]

_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    def now(self) -> int: ...


def as_now(clock: Now | Clock | None) -> Now:
    """The function behind whatever was given: a function, something with a `now`, or nothing."""
    if clock is None:
        return wall
    return clock if callable(clock) else clock.now


def wall() -> int:
    return time.time_ns() // 1_000_000


def boot() -> int:
    return time.clock_gettime_ns(_BOOT) // 1_000_000


def scaled(text: str) -> Now:
    """The clock that DUEWORK_CLOCK describes: `60@<virtual ms>/<boot ms>`, or `60` from now on."""
    return Scaled.parse(text).now


def as_datetime(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def as_iso(ms: int) -> str:
    return as_datetime(ms).strftime("%Y-%m-%dT%H:%M:%SZ")


def as_http_date(ms: int) -> str:
    return format_datetime(as_datetime(ms), usegmt=True)
