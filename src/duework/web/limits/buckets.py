"""A number a minute for each key: one integer a key, and no more keys than fit."""

from __future__ import annotations

import math
from collections import OrderedDict

MINUTE_MS = 60_000
# Keys that are remembered; the one that was used least recently goes first.
MOST_KEYS = 10_000


class Buckets:
    """A bucket for each key holds what may be used in a minute, and fills up evenly."""

    def __init__(self, per_minute: int, most_keys: int = MOST_KEYS) -> None:
        self._per_minute = per_minute
        self._most_keys = most_keys
        # When the bucket will be full again; a key that is not here has a full one.
        self._full: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._full)

    def take(self, key: str, now: int) -> int:
        """Use one up; else the milliseconds until there is one again."""
        if wait := self.wait(key, now):
            return wait
        if self._per_minute:
            self._full[key] = self._full_at(key, now) + MINUTE_MS / self._per_minute
            self._full.move_to_end(key)
            while len(self._full) > self._most_keys:
                self._full.popitem(last=False)
        return 0

    def wait(self, key: str, now: int) -> int:
        """The milliseconds until one may be used; 0 if there is one."""
        if not self._per_minute:
            return 0
        missing = self._full_at(key, now) + MINUTE_MS / self._per_minute - now - MINUTE_MS
        # A thousandth of a millisecond is an error of adding up.
        return max(0, math.ceil(missing - 1e-3))

    def _full_at(self, key: str, now: int) -> float:
        """Never further away than a whole minute, though a clock has gone back."""
        return min(max(self._full.get(key, 0.0), float(now)), float(now + MINUTE_MS))
