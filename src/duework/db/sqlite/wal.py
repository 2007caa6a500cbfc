"""Room ahead in SQLite's log.

A sync of blocks that a file has already waits for the data alone; one after which the file is larger waits
for the file system's journal as well, half as long again. SQLite starts its log anew after those thousand
pages and leaves the file as large as it was, but until then, in every new file, each commit makes it
larger. So where it is seen to grow, it is given a piece of zeros at once. To SQLite they are the end of
the log: no frame begins with zeros.
"""

from __future__ import annotations

import contextlib
import os

import apsw

# Every how many groups its size is looked at, and how much it is given.
LOOK_EVERY = 16
PIECE = 512 * 1024


class Log:
    """The log of one database file, as the write connection of this process uses it."""

    def __init__(self, synchronous: str) -> None:
        self.synchronous = synchronous
        self._name = ""
        self._groups = 0
        # Which file it was when it was last looked at, and how large.
        self._seen = (0, 0)

    def opened(self, connection: apsw.Connection) -> None:
        """A new connection."""
        self._name = connection.filename_wal

    def lengthen(self) -> None:
        """Called right after getting the write lock: no other process writes to the log then."""
        if self.synchronous != "full":
            return
        self._groups += 1
        if self._groups % LOOK_EVERY:
            return
        # What cannot be had is done without.
        with contextlib.suppress(OSError):
            before, self._seen = self._seen, _looked(os.stat(self._name))
            # What grows by more than a piece each time gains nothing by one.
            if before[0] == self._seen[0] and before[1] < self._seen[1] < before[1] + PIECE:
                self._append()

    def _append(self) -> None:
        handle = os.open(self._name, os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0))
        try:
            # Another file may have been put in its place.
            if _looked(os.fstat(handle)) == self._seen:
                inode, end = self._seen
                self._seen = inode, end + os.pwrite(handle, bytes(PIECE), end)
        finally:
            # Closing it drops no lock: SQLite's are on the two other files.
            os.close(handle)


def _looked(found: os.stat_result) -> tuple[int, int]:
    return found.st_ino, found.st_size
