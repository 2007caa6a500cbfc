"""A number that changes when another connection has committed to a file, from a connection of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable

from duework.db.database import Retryable
from duework.db.sqlite.tx import Connection, close, translated
from duework.errors import Unavailable


class Pulse:
    """SQLite's `data_version`, which is only comparable on one connection."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._connection: Connection | None = None
        self._lock = threading.Lock()
        self._stale = False
        self._count = 0
        # There is no more to come: what is open is closed after its last use.
        self.over = False

    def ask(self) -> int:
        with self._lock:
            if self._stale:
                self._close()
            connection = self._connection
            if connection is None:
                connection = self._connection = self._connect()
                # What happened in between, this one cannot know.
                self._count += 1
            try:
                with translated():
                    version = int(connection.pragma("data_version"))
                connection.beside.check()
            except Retryable as error:
                raise Unavailable(str(error)) from error.__cause__
            finally:
                if self.over:
                    self._close()
            return (self._count << 32) + version

    def drop(self) -> None:
        """It is asked in another thread: while that has it, it is left to it."""
        self._stale = True
        if self._lock.acquire(timeout=1):
            try:
                self._close()
            finally:
                self._lock.release()

    def _close(self) -> None:
        connection, self._connection, self._stale = self._connection, None, False
        if connection is not None:
            close(connection)
