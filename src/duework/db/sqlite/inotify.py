"""The system's word that a file was written to: inotify, on Linux.

A worker that sleeps over a SQLite file would else have to look at it many times a second. It is a hint
like any other: where there is no such word, or a write goes unnoticed, a worker looks now and then.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from typing import Any

from duework.db.database import Database

_MODIFY, _DELETED = 0x2, 0x400
_FLAGS = os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0)


class Notices:
    """A descriptor that is readable once the log of a database was written to."""

    def __init__(self, descriptor: int, path: str, library: Any) -> None:
        self.descriptor = descriptor
        self._path = os.fsencode(path)
        self._library = library

    @classmethod
    def of(cls, database: Database) -> Notices | None:
        """For the log of this database; None where the system does not say."""
        path = getattr(database, "path", None)
        if path is None or not sys.platform.startswith("linux"):
            return None
        with contextlib.suppress(OSError, AttributeError):
            library = ctypes.CDLL(None)
            descriptor = library.inotify_init1(_FLAGS)
            if descriptor >= 0:
                return cls(descriptor, f"{path}-wal", library)
        return None

    def renew(self) -> bool:
        """Watch the log that is there now, which may be another file than before; False if none is."""
        watch: int = self._library.inotify_add_watch(
            self.descriptor, self._path, _MODIFY | _DELETED
        )
        return watch >= 0

    def clear(self) -> bool:
        """Forget what was said so far; whether anything was."""
        said = False
        with contextlib.suppress(BlockingIOError):
            while os.read(self.descriptor, 4096):
                said = True
        return said

    def close(self) -> None:
        os.close(self.descriptor)
