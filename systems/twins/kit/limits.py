"""Limits: so many calls in a window of time, with what the reply says about them.

A window starts with its first call, or, if it is aligned, at a natural border such as a quarter of
an hour. A caller that is refused once was told to wait; a second refusal in the same window is a
caller that does not listen, and the log says so.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable


class Window:
    def __init__(self, limit: int, length: int, *, aligned: bool = False) -> None:
        self.limit = limit
        self.length = length
        self._aligned = aligned
        self._start: int | None = None
        self.used = 0
        self.told = False

    def roll(self, now: int) -> None:
        """Begin a new window if the old one is over."""
        if self._start is not None and now < self._start + self.length:
            return
        self._start = now - now % self.length if self._aligned else None
        self.used, self.told = 0, False

    def full(self, now: int, cost: int = 1) -> bool:
        self.roll(now)
        return self.used + cost > self.limit

    def use(self, now: int, cost: int = 1) -> None:
        self.roll(now)
        if self._start is None:
            self._start = now
        self.used += cost

    def refuse(self) -> str:
        """How the log calls this refusal."""
        kind = "ignored" if self.told else "reached"
        self.told = True
        return kind

    def remaining(self, now: int) -> int:
        self.roll(now)
        return max(0, self.limit - self.used)

    def reset_at(self, now: int) -> int:
        self.roll(now)
        return now + self.length if self._start is None else self._start + self.length

    def wait(self, now: int) -> float:
        """Seconds until the window ends."""
        return max(0, self.reset_at(now) - now) / 1000


class Windows:
    """A window for each caller, bucket or chat, made when it is first needed."""

    def __init__(self, make: Callable[[], Window]) -> None:
        self._make = make
        self._windows: dict[Hashable, Window] = {}

    def __getitem__(self, key: Hashable) -> Window:
        if key not in self._windows:
            self._windows[key] = self._make()
        return self._windows[key]


def whole_seconds(seconds: float) -> int:
    """For headers that hold whole seconds: never too early, and at least one."""
    return max(1, -int(-seconds // 1))
