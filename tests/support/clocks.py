"""A wall clock that can be set, on a machine whose own is left alone."""

from __future__ import annotations

from duework import App
from duework.clock import SystemClock, VirtualClock


class WallClock(SystemClock):
    """The machine's clocks, with a wall clock that was set, after time that is not waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.wrong = 0
        # Of the time that has gone by since: with the machine suspended, and awake.
        self.suspended = self.idle = 0
        # And time that only the wall clock knows of, which something has set right.
        self.stopped = 0

    def wall(self) -> int:
        return super().wall() + self.wrong + self.suspended + self.idle

    def boot(self) -> int:
        return super().boot() + self.suspended + self.idle - self.stopped

    def follow(self, now: int, boot: int, within: int = 0) -> None:
        # It has gone by for a server as well.
        super().follow(now + self.suspended + self.idle, boot, within)

    def monotonic(self) -> float:
        return super().monotonic() + (self.idle - self.stopped) / 1000


class SetClock(VirtualClock):
    """A virtual clock that is `wrong` by so much; boot time goes on."""

    wrong = 0

    def now(self) -> int:
        return super().now() + self.wrong

    def wall(self) -> int:
        return self.now()

    def move_to(self, now: int) -> None:
        super().move_to(now - self.wrong)


def clock_of(app: App) -> WallClock:
    """Give an App that has not opened its database yet a clock that can be set."""
    clock = WallClock()
    app.wiring.bound.clock = clock
    return clock
