"""Clocks that are set, and processes that stand still.

Where a server has the time, every clock follows it, and setting a host's clock moves nothing.
But that is also how a machine that was stopped gets its time back, so the server is asked again then,
and now and then besides, since clocks drift; no caller waits for the answer. Only a claim
meanwhile asks by itself, in the transaction that has to reach the server anyway. Where the wall clock rules,
one that jumps, or a process that wakes up after a pause, makes every lease of others look over. For one
lease length after that none of them is written off, while their holders, which go by the same time,
extend them.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import NamedTuple

from duework.clock import Clock, SystemClock
from duework.db.database import Tx
from duework.errors import Error

STEP_MS = 2000
# How often a server is asked for the time: a bad clock is off by 60 ms after that.
ASK_MS = 600_000
# How soon again if it did not answer.
RETRY_MS = 30_000
_LONG_AGO = -(2**62)


class Reading(NamedTuple):
    """At that boot time a server's clock showed so much, more or less."""

    now: int
    boot: int
    within: int


def reading(clock: Clock, server: Callable[[], int | None]) -> Reading | None:
    """Ask a server for the time; None if there is none."""
    before = clock.boot()
    if (now := server()) is None:
        return None
    took = clock.boot() - before
    return Reading(now, before + took // 2, took - took // 2)


def _in_a_thread(function: Callable[[], None]) -> None:
    # An interpreter that is about to end starts none.
    with contextlib.suppress(RuntimeError):
        threading.Thread(target=function, name="duework-clock", daemon=True).start()


class ClockWatch:
    """Notices that the wall clock was set: against boot time, which cannot be set."""

    def __init__(
        self, clock: Clock, look: Callable[[], Reading | None], emit: Callable[[int], None]
    ) -> None:
        self._clock = clock
        # Asks a server for the time; None if there is none.
        self._look = look
        # Called when the time that rules here may have jumped.
        self._emit = emit
        self._lock = threading.Lock()
        # How far the wall clock is ahead of boot time.
        self._ahead = clock.wall() - clock.boot()
        # When, in boot time, the server is to be asked again, if there is one, and whether a thread does so.
        self._ask_at: int | None = None
        self._asking = False
        # Steps that a server is to be asked about, and how many of them it has answered.
        self._doubts = self._cleared = 0
        # When, in boot time, the last step was noticed.
        self.last = _LONG_AGO
        # How often the time that rules here was seen to be set back.
        self.backs = 0
        # Where the server is asked.
        self.elsewhere: Callable[[Callable[[], None]], None] = _in_a_thread

    def begin(self) -> None:
        """Ask for the time when the database is opened; that is no step."""
        self._ahead = self._clock.wall() - self._clock.boot()
        if (first := self._look()) is not None:
            self._follow(first)

    @property
    def served(self) -> bool:
        """Whether a server has the time."""
        return self._ask_at is not None

    def checked_now(self) -> int:
        """The time, after making sure that it is right; cheap, and never waits for a server.

        Called before anything is enqueued or put off, from any thread. What it answers was read before
        the clock could be set again.
        """
        clock = self._clock
        if clock.speed != 1:
            # It is made of boot time alone; what passes between two readings of it looks like a step.
            return clock.now()
        wall, boot = clock.wall(), clock.boot()
        # By one it differs as they are rounded.
        if not -1 <= wall - boot - self._ahead <= 1:
            self._notice(wall - boot)
        if (ask_at := self._ask_at) is not None and boot >= ask_at:
            self._ask_soon(boot)
        return clock.at(wall, boot)

    def checked_now_within(self, tx: Tx) -> int:
        """The same for leases, which others judge: if a server has not answered yet, it is asked here."""
        now = self.checked_now()
        while self._doubts != self._cleared:
            doubts = self._doubts
            if (found := reading(self._clock, tx.now)) is None:
                break
            self._heard(found, doubts)
            now = self._clock.now()
        return now

    def _notice(self, ahead: int) -> None:
        step = ahead - self._ahead
        if not -STEP_MS <= step <= STEP_MS:
            self._stepped()
        elif step and not self.served:
            self._ahead = ahead

    def _stepped(self) -> None:
        with self._lock:
            boot = self._clock.boot()
            step = self._clock.wall() - boot - self._ahead
            if abs(step) <= STEP_MS:
                return
            # First: a thread that finds nothing to notice any more has to see it.
            self.last = boot
            if self.served:
                self._doubts += 1
                self._ask_at = _LONG_AGO
            elif step < 0:
                self.backs += 1
            self._ahead += step
        self._emit(step)

    def _ask_soon(self, boot: int) -> None:
        """Unless a thread is at it already."""
        with self._lock:
            if self._asking or self._ask_at is None or boot < self._ask_at:
                return
            self._asking = True
        self.elsewhere(self._ask)

    def _ask(self) -> None:
        """If it does not answer, the time goes on as before."""
        self._ask_at = self._clock.boot() + RETRY_MS
        try:
            with contextlib.suppress(Error):
                doubts = self._doubts
                while (found := self._look()) is not None and not self._heard(found, doubts):
                    doubts = self._doubts
        finally:
            self._asking = False

    def _heard(self, found: Reading, doubts: int) -> bool:
        """Go by what a server has answered; False if that may be from before a step."""
        self._notice(self._clock.wall() - self._clock.boot())
        with self._lock:
            if doubts != self._doubts:
                return False
            before = self._clock.now() - self._clock.boot()
            self._follow(found)
            boot = self._clock.boot()
            moved = self._clock.now() - boot - before
            if abs(moved) > STEP_MS:
                # Its own clock was set, or this machine stood still.
                self.last = boot
                self.backs += moved < 0
            self._cleared = doubts
        if abs(moved) > STEP_MS:
            self._emit(moved)
        return True

    def _follow(self, found: Reading) -> None:
        assert isinstance(self._clock, SystemClock), "no other goes by a server"
        self._clock.follow(*found)
        self._ask_at = self._clock.boot() + ASK_MS


class TakeoverPause:
    """Whether leases of others that look over may be written off by this worker."""

    def __init__(self, clock: Clock, steps: ClockWatch, lease_ms: int) -> None:
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
        """There was no look for a while: of that time, only a suspend shows as a standstill."""
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
