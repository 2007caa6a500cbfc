"""Identifiers made in the process: 63-bit integers that sort by the time they were drawn.

41 bits of milliseconds since 2025, then 22 bits that start at a random place in each millisecond
and count up. Two processes that draw in the same millisecond may meet, the more likely the more they
draw; the primary key notices and the writer draws again.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from functools import partial
from random import Random

_EPOCH = 1_735_689_600_000
_BITS = 22
# Leaves room to count up within the millisecond before the next one is touched.
_START = (1 << _BITS) - (1 << 16)


class Ids:
    """Draws ids in rising order; `random(n)` gives an integer below n."""

    def __init__(self, now: Callable[[], int], random: Callable[[int], int] | None = None) -> None:
        self._now = now
        # Not a secret, but another sequence in every process: asking the system each time is slow.
        self._random = random or partial(_below, Random(secrets.randbits(128)).random)  # noqa: S311
        self._last = 0
        self._lock = threading.Lock()

    def draw(self, count: int = 1) -> int:
        """The first of so many that follow each other."""
        with self._lock:
            fresh = (self._now() - _EPOCH) << _BITS
            later = fresh >> _BITS > self._last >> _BITS
            first = fresh + self._random(_START) if later else self._last + 1
            self._last = first + count - 1
        return first

    def draw_many(self, count: int) -> range:
        first = self.draw(count)
        return range(first, first + count)

    def scatter(self) -> None:
        """Go on at another place: what was drawn last may have met what others drew."""
        with self._lock:
            self._last = (((self._last >> _BITS) + 1) << _BITS) + self._random(_START)


def _below(random: Callable[[], float], limit: int) -> int:
    """Several times as quick as `randrange`, and as even as is needed here."""
    return int(random() * limit)


def drawn_at(identifier: int) -> int:
    """The millisecond in which the id was drawn."""
    return (identifier >> _BITS) + _EPOCH
