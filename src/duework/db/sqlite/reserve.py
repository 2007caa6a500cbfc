"""Room that is kept for a full disk.

A file of nothing lies beside the database. It is given up when the disk is full, so that what runs
can still be settled; from then on new work is refused, until the file could be made again.
"""

from __future__ import annotations

from pathlib import Path

from duework.clock import monotonic
from duework.db.sqlite import files

BALLAST_BYTES = 16 * 1024 * 1024
REFILL_SECONDS = 1.0
FULL = "the disk is full: free some space"


class Reserve:
    """The ballast beside one database file; until `fill` there is none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._has_reserve = False
        # When to try to get the reserve back; None while it is there.
        self._refill_at: float | None = None

    def fill(self) -> None:
        """Keep a reserve from now on. A small disk does without."""
        self._has_reserve = files.fill_ballast(self._path, BALLAST_BYTES)

    def short(self) -> str | None:
        """Why new work is refused; tries now and then to get the reserve back."""
        if self._refill_at is None:
            return None
        if monotonic() >= self._refill_at:
            self._refill_at = monotonic() + REFILL_SECONDS
            if files.fill_ballast(self._path, BALLAST_BYTES):
                self._refill_at = None
                return None
        return FULL

    def use(self) -> None:
        """Give the ballast up, so that what runs can still be settled."""
        if self._has_reserve:
            self._refill_at = monotonic() + REFILL_SECONDS
            files.ballast(self._path).unlink(missing_ok=True)
