"""A wall clock that can be set, on a machine whose own is left alone."""

from __future__ import annotations

from duework import App
from duework.clock import SystemClock


class WallClock(SystemClock):
    """The machine's clocks, as if somebody had set one, or all had gone on while nothing ran."""

    def __init__(self) -> None:
        super().__init__()
        self.wrong = 0
        self.stood_still = 0

    def wall(self) -> int:
        return super().wall() + self.wrong + self.stood_still

    def boot(self) -> int:
        return super().boot() + self.stood_still


def clock_of(app: App) -> WallClock:
    """Give an App that has not opened its database yet a clock that can be set."""
    clock = WallClock()
    app._clock = clock  # noqa: SLF001 - as if the host had another
    return clock
