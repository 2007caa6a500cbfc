"""Clocks that are set, and processes that stand still.

Where a server has the time, everybody's clock follows it, and setting a host's clock moves nothing.
But that is also how a machine that was stopped gets its time back, so the server is asked again then,
and now and then besides, since clocks drift; nobody waits for the answer. Where the wall clock rules,
one that jumps, or a process that wakes up after a pause, makes every lease of others look over. For one
lease length after that none of them is written off, while their holders, who go by the same time,
extend them.
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
# How soon again if it did not answer.
RETRY_MS = 30_000
_LONG_AGO = -(2**62)


def _in_a_thread(function: Callable[[], None]) -> None:
    # An interpreter that is about to end starts none.
    with contextlib.suppress(RuntimeError):
        threading.Thread(target=function, name="duework-clock", daemon=True).start()


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
        # When, in boot time, the server is to be asked again, if there is one.
        self._ask_at: int | None = None
        # When, in boot time, the last step was noticed.
        self.last = _LONG_AGO
        # Where the server is asked.
        self.elsewhere: Callable[[Callable[[], None]], None] = _in_a_thread

    def begin(self) -> None:
        """Ask for the time when the database is opened; that is no step."""
        self._ahead = self._clock.wall() - self._clock.boot()
        self._ask_at = self._clock.boot() + ASK_MS if self._follow() else None

    @property
    def served(self) -> bool:
        """Whether a server has the time."""
        return self._ask_at is not None

    def steady(self) -> int:
        """The time, after making sure that it is right; cheap, and never waits for a server.

        Called before anything is enqueued, leased or extended, from any thread. What it answers was
        read before the clock could be set again.
        """
        clock = self._clock
        wall, boot = clock.wall(), clock.boot()
        step = wall - boot - self._ahead
        if not -STEP_MS <= step <= STEP_MS:
            self._stepped()
        elif step and not self.served:
            self._ahead = wall - boot
        if (ask_at := self._ask_at) is not None and boot >= ask_at:
            self._ask_soon(boot)
        return clock.at(wall, boot)

    def _stepped(self) -> None:
        with self._lock:
            boot = self._clock.boot()
            step = self._clock.wall() - boot - self._ahead
            if abs(step) <= STEP_MS:
                return
            # First: whoever finds nothing to notice any more has to see it.
            self.last = boot
            self._ahead += step
            if self.served:
                self._ask_at = _LONG_AGO
        self._tell(step)

    def _ask_soon(self, boot: int) -> None:
        """Unless somebody is at it already."""
        with self._lock:
            if self._ask_at is None or boot < self._ask_at:
                return
            self._ask_at = self._clock.boot() + RETRY_MS
        self.elsewhere(self._ask)

    def _ask(self) -> None:
        clock = self._clock
        before = clock.now() - clock.boot()
        # If it does not answer, the time goes on as before.
        with contextlib.suppress(Error):
            self._follow()
            boot = clock.boot()
            self._ask_at = boot + ASK_MS
            if abs(moved := clock.now() - boot - before) > STEP_MS:
                # Its own clock was set, or this machine stood still.
                self.last = boot
                self._tell(moved)


class Hold:
    """Whether leases of others that look over may be written off by this worker."""

    def __init__(self, clock: Clock, steps: Steps, lease_ms: int) -> None:
        self._clock = clock
        self._steps = steps
        self._lease_ms = lease_ms
        self._woke = _LONG_AGO
        self._seen_awake, self._suspended = self._look()

    def _look(self) -> tuple[int, int]:
        """Boot time, and how much of it the machine was suspended."""
        boot = self._clock.boot()
        return boot, boot - int(self._clock.monotonic() * 1000)

    def begin(self) -> None:
        """Nobody has looked for a while: of that time, only a suspend shows as a standstill."""
        boot, suspended = self._look()
        self._seen_awake = boot - (suspended - self._suspended)
        self.awake()

    def awake(self) -> None:
        """Called several times per lease; if it was not, the process has stood still."""
        boot, suspended = self._look()
        if boot - self._seen_awake > self._lease_ms:
            self._woke = boot
        self._seen_awake, self._suspended = boot, suspended

    def ends_in(self) -> int:
        """Milliseconds until leases may be written off; 0 if they may."""
        self.awake()
        since = max(self._woke, self._steps.last)
        return max(0, since + self._lease_ms - self._clock.boot())
