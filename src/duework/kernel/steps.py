"""Clocks that are set, and processes that stand still.

Where a server has the time, everybody's clock follows it, and setting a host's clock moves nothing.
But that is also how a machine that was stopped gets its time back, so the server is asked again then,
and now and then besides, since clocks drift. Where the wall clock rules, one that jumps, or a process
that wakes up after a pause, makes every lease of others look over. For one lease length after that
none of them is written off, while their holders, who go by the same time, extend them.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from duework.clock import Clock
from duework.errors import Error

STEP_MS = 2000
# How often a server is asked for the time: a bad clock is off by 60 ms after that.
ASK_MS = 600_000
_LONG_AGO = -(2**62)


class Steps:
    """Notices that the wall clock was set: against boot time, which nobody can set."""

    def __init__(
        self, clock: Clock, follow: Callable[[], bool], tell: Callable[[int], None]
    ) -> None:
        self._clock = clock
        # Takes the time from a server; False if there is none.
        self._follow = follow
        self._tell = tell
        self._lock = threading.Lock()
        # How far the wall clock is ahead of boot time.
        self._ahead = clock.wall() - clock.boot()
        self._served = False
        self._asked = clock.boot()
        # When, in boot time, the last step was noticed.
        self.last = _LONG_AGO

    def begin(self) -> None:
        """Ask for the time when the database is opened; that is no step."""
        self._asked = self._clock.boot()
        self._ahead = self._clock.wall() - self._asked
        self._served = self._follow()

    def steady(self) -> int:
        """The time, after making sure that it is right; cheap unless the clock was set.

        Called before anything is enqueued, leased or extended, from any thread. What it answers was
        read before the clock could be set again.
        """
        clock = self._clock
        wall, boot = clock.wall(), clock.boot()
        step = wall - boot - self._ahead
        if not -STEP_MS <= step <= STEP_MS:
            self._stepped()
            wall, boot = clock.wall(), clock.boot()
        elif step and not self._served:
            self._ahead = wall - boot
        return clock.at(wall, boot)

    def long_ago(self, lease_ms: int) -> bool:
        """Whether leases that are still held were extended since the last step."""
        return self._clock.boot() - self.last >= lease_ms

    def _stepped(self) -> None:
        with self._lock:
            boot = self._clock.boot()
            step = self._clock.wall() - boot - self._ahead
            if abs(step) <= STEP_MS:
                return
            self.last = boot
            try:
                self._follow()
            except Error:
                # Until then the time goes on as before; the next call tries again.
                return
            self._asked = boot
            self._ahead += step
            self._tell(step)

    @property
    def stale(self) -> bool:
        """Whether a server's clock and ours may have drifted apart since it was asked."""
        return self._served and self._clock.boot() - self._asked >= ASK_MS

    def ask_again(self) -> None:
        """Follow the server; where one that does not answer is waited for, and nothing else is."""
        with self._lock, contextlib.suppress(Error):
            self._asked = self._clock.boot()
            self._follow()


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
