"""Clocks that are set, and processes that stand still.

A wall clock that jumps, or a process that wakes up after a pause, makes every lease of others look
over. For one lease length after that none of them is written off, while their holders, who go by the
same time, extend them. Where a server has the time, it is asked again after a jump.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from duework.clock import Clock
from duework.errors import Error

STEP_MS = 2000
_LONG_AGO = -(2**62)


class Steps:
    """Notices that the wall clock was set: against boot time, which nobody can set."""

    def __init__(
        self, clock: Clock, follow: Callable[[], None], tell: Callable[[int], None]
    ) -> None:
        self._clock = clock
        self._follow = follow
        self._tell = tell
        self._offset = clock.now() - clock.boot()
        self._lock = threading.Lock()
        # When, in boot time, the last step was noticed.
        self.last = _LONG_AGO

    def begin(self) -> None:
        """Ask for the time when the database is opened; that is no step."""
        self._follow()
        self._offset = self._clock.now() - self._clock.boot()

    def steady(self) -> int:
        """The time, after making sure that it is right; cheap unless the clock was set.

        Called before anything is enqueued, leased or extended, from any thread: what a clock that
        is an hour slow has extended would be over for everybody else.
        """
        now = self._clock.now()
        step = now - self._clock.boot() - self._offset
        if -STEP_MS <= step <= STEP_MS:
            self._offset += step
        else:
            self._stepped()
            now = self._clock.now()
        return now

    def _stepped(self) -> None:
        with self._lock:
            step = self._step()
            if abs(step) <= STEP_MS:
                return
            self.last = self._clock.boot()
            try:
                self._follow()
            except Error:
                # Nothing can be written now anyway; the next call tries again.
                return
            self._offset += self._step()
            self._tell(step)

    def _step(self) -> int:
        return self._clock.now() - self._clock.boot() - self._offset


class Hold:
    """Whether leases of others that look over may be written off by this worker."""

    def __init__(self, clock: Clock, steps: Steps, lease_ms: int) -> None:
        self._clock = clock
        self._steps = steps
        self._lease_ms = lease_ms
        self._seen_awake = clock.boot()
        self._woke = _LONG_AGO

    def awake(self) -> None:
        """Called several times per lease; if it was not, the process has stood still."""
        boot = self._clock.boot()
        if boot - self._seen_awake > self._lease_ms:
            self._woke = boot
        self._seen_awake = boot

    def ends_in(self) -> int:
        """Milliseconds until leases may be written off; 0 if they may."""
        self.awake()
        since = max(self._woke, self._steps.last)
        return max(0, since + self._lease_ms - self._clock.boot())
