"""Reports when a worker can store nothing or take nothing on, and when it can again."""

from __future__ import annotations

from duework.kernel.engine import Engine
from duework.kernel.facts import Parked, Resumed

# A database that is merely busy for a moment is not reported.
PARK_SECONDS = 1.0


class Parking:
    """Whether that was reported, and why the worker's last round failed, if it did."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._parked = False
        self.failing: str | None = None

    def look(self) -> bool:
        """Report what has changed; whether all goes on again."""
        engine, writer = self._engine, self._engine.writer
        why = self.failing or writer.stuck(PARK_SECONDS) or engine.database.disk_full_reason()
        if why is not None and not self._parked:
            self._parked = True
            engine.emit(Parked(why))
        elif why is None and self._parked and writer.parked is None:
            self._parked = False
            engine.emit(Resumed())
            return True
        return False
