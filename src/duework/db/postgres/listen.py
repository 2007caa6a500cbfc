"""Notifications from PostgreSQL, as a hint that there is something to look at.

A thread of its own listens on a connection of its own. Notifications that were sent while it was
not connected are lost, so after a reconnect it says `reconnected`, and the worker looks for
itself. Nothing may depend on a notification: it only makes a look come sooner.
"""

from __future__ import annotations

import os
import random
import selectors
import threading
from collections.abc import Callable

import psycopg
from psycopg import sql

from duework.db.postgres.connect import arguments

CHANNEL = "duework"
RECONNECTED = "reconnected"
LONGEST_BACKOFF = 5.0


class Listener:
    """Calls `callback(payload)` for every notification, from its own thread, until closed.

    It sends `greeting` whenever it begins to listen, and what the callback returns.
    """

    def __init__(
        self,
        url: str,
        callback: Callable[[str], str | None],
        channel: str = CHANNEL,
        greeting: str | None = None,
    ) -> None:
        self._arguments = arguments(url)
        self._callback = callback
        self._channel = channel
        self._greeting = greeting
        self._listen = sql.SQL("listen {}").format(sql.Identifier(channel))
        self._stop = threading.Event()
        # A byte in this pipe ends the wait for the socket; the thread needs no timeout to notice.
        self._wake, self._waker = os.pipe()
        self._listening = False
        self._thread = threading.Thread(target=self._serve, name="duework-listener", daemon=True)
        self._thread.start()

    @property
    def healthy(self) -> bool:
        """Whether a notification sent now would arrive."""
        return self._listening and self._thread.is_alive()

    def close(self) -> None:
        """Stop listening; returns when the thread has ended, or after some seconds."""
        if self._stop.is_set():
            return
        self._stop.set()
        os.write(self._waker, b"x")
        if self._thread is not threading.current_thread():
            self._thread.join(timeout=LONGEST_BACKOFF + 5)
        if not self._thread.is_alive():
            os.close(self._wake)
            os.close(self._waker)

    def _serve(self) -> None:
        failures, connected_before = 0, False
        while not self._stop.is_set():
            try:
                with psycopg.connect(**self._arguments, autocommit=True) as connection:
                    connection.execute(self._listen)
                    failures, self._listening = 0, True
                    if connected_before:
                        self._callback(RECONNECTED)
                    self._send(connection, self._greeting)
                    connected_before = True
                    self._follow(connection)
            except (psycopg.Error, OSError):
                failures += 1
            finally:
                self._listening = False
            backoff = min(0.05 * 2.0 ** min(failures, 10), LONGEST_BACKOFF)
            self._stop.wait(backoff * (0.5 + random.random() / 2))  # noqa: S311 - jitter

    def _follow(self, connection: psycopg.Connection) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(connection.fileno(), selectors.EVENT_READ)
            selector.register(self._wake, selectors.EVENT_READ)
            while not self._stop.is_set():
                # What came along with the answer to LISTEN is already off the socket.
                found = connection.notifies(timeout=0)
                answers = [self._callback(each.payload) for each in found]
                for word in {word for word in answers if word is not None}:
                    self._send(connection, word)
                # The same holds for what came along with an answer to us.
                if not any(answers):
                    selector.select()

    def _send(self, connection: psycopg.Connection, word: str | None) -> None:
        if word is not None:
            connection.execute("select pg_notify(%s, %s)", [self._channel, word])
