"""When a failed attempt is tried again: pure functions, no clock, no database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from duework.durations import Duration, milliseconds
from duework.errors import UsageError


@dataclass(frozen=True, slots=True)
class Exponential:
    """Delays that grow by a factor up to a cap, spread by a share of jitter either way."""

    first: Duration = "2s"
    factor: float = 2.0
    cap: Duration = "1h"
    jitter: float = 0.2

    def __post_init__(self) -> None:
        if self.factor < 1 or not 0 <= self.jitter <= 1:
            raise UsageError("backoff: the factor is at least 1 and the jitter between 0 and 1")
        milliseconds(self.first)
        milliseconds(self.cap)


Backoff = Exponential | Sequence[Duration] | Duration
_LARGEST_POWER = 60


def delays(backoff: Backoff) -> Callable[[int, float], int]:
    """The delay in ms before the n-th retry (from 1), given a random number below 1."""
    if isinstance(backoff, Exponential):
        return _exponential(backoff)
    if isinstance(backoff, Sequence) and not isinstance(backoff, str):
        fixed = [milliseconds(each) for each in backoff]
    else:
        fixed = [milliseconds(backoff)]
    if not fixed:
        raise UsageError("backoff: a list of delays has at least one")
    return lambda retry, _: fixed[min(retry, len(fixed)) - 1]


def _exponential(backoff: Exponential) -> Callable[[int, float], int]:
    first, cap = milliseconds(backoff.first), milliseconds(backoff.cap)

    def delay(retry: int, chance: float) -> int:
        grown = min(first * backoff.factor ** min(retry - 1, _LARGEST_POWER), cap)
        spread = 1 + backoff.jitter * (2 * chance - 1)
        return round(min(grown * spread, cap))

    return delay
