"""Notifications from PostgreSQL, as a hint that there is something to look at.

A thread of its own listens on a connection of its own. Notifications that were sent while it was
not connected are lost, so after a reconnect it says `reconnected`, and the worker looks for
itself. Nothing may depend on a notification: it only makes a look come sooner.
"""

from __future__ import annotations

import logging
import os
import random
import secrets
import selectors
import threading
from collections.abc import Callable

import psycopg
from psycopg import sql

from duework.db.postgres.connect import arguments, pooled, settled_in

logger = logging.getLogger("duework")

CHANNEL = "duework"
RECONNECTED = "reconnected"
# Begins as the words between listeners do, so that no worker is rung by it.
ECHO = "feed echo"
LONGEST_BACKOFF = 5.0
# How long a word of one's own takes at most, and how soon a pooler is tried again.
ECHO_SECONDS = 2.0
WITHOUT_SECONDS = 60.0


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
        self._listening = self._told = False
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
                    settled_in(connection).execute(self._listen)
                    if pooled(connection) and not self._heard(connection):
                        self._do_without()
                        continue
                    failures, self._listening = 0, True
                    # What came before the echo was not told.
                    if connected_before or pooled(connection):
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

    def _heard(self, connection: psycopg.Connection) -> bool:
        """Whether words of another connection come through a pooler: in its transaction mode they do not."""
        word = f"{ECHO} {secrets.token_hex(8)}"
        with psycopg.connect(**self._arguments, autocommit=True) as other:
            self._send(settled_in(other), word)
        return any(each.payload == word for each in connection.notifies(timeout=ECHO_SECONDS))

    def _do_without(self) -> None:
        if not self._told:
            self._told = True
            logger.warning(
                "notifications do not come through the pooler in between (PgBouncer in transaction mode?):"
                " workers look for themselves, twice a second; for quicker starts give them the server's URL"
            )
        self._stop.wait(WITHOUT_SECONDS)

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
