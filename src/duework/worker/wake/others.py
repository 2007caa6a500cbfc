"""Commits of other processes, for those who listen to changes.

On SQLite a thread waits for inotify to report a write to the WAL, then compares `PRAGMA data_version`; it
looks each second besides, and more often where there is no inotify. On PostgreSQL a thread listens for
notifications. Neither runs a query while nothing happens.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable

from duework.db.database import Retryable
from duework.db.sqlite.inotify import Notices
from duework.errors import Error, Gone, Unavailable, UsageError
from duework.kernel.changes import Closing, Feed
from duework.kernel.engine import Engine
from duework.worker.wake.wakeups import EAGER_TICKS, SLOW_TICK_SECONDS, SOON_SECONDS, TICK_SECONDS

# How long to wait for a moment in which this process writes nothing.
BETWEEN_SECONDS = 0.05


def watch_others(engine: Engine) -> Closing:
    """Publish what other processes commit, until closed."""
    database = engine.database
    if database.kind == "sqlite":
        return FileWatch(engine)
    return ServerWatch(database.url, engine.feed)


class ServerWatch:
    """Notifications of a PostgreSQL server."""

    def __init__(self, url: str, feed: Feed) -> None:
        from duework.db.postgres.listen import Listener

        self._feed = feed
        self._begun = False
        self._listener = Listener(url, self._told, greeting=feed.here)

    def _told(self, word: str) -> str | None:
        if not self._begun and word == self._feed.here:
            # Our own word: it hears from now on, and what was committed before it did not.
            self._begun = True
            self._feed.publish(None)
            return None
        return self._feed.told(word)

    def close(self) -> None:
        """Not waited for: a server that does not answer would hold up the event loop."""
        threading.Thread(target=self._listener.close, name="duework-leave", daemon=True).start()


class FileWatch:
    """The WAL of a SQLite file."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._feed = engine.feed
        # What is there by now, listeners have seen.
        self._pulse = engine.database.pulse()
        engine.writer.between_commits(self._others, BETWEEN_SECONDS)
        # Guards the pipe: its numbers may belong to another file once it is closed.
        self._lock, self._left = threading.Lock(), False
        self._wake, self._waker = os.pipe()
        self._notices = Notices.of(engine.database)
        self._thread = threading.Thread(target=self._serve, name="duework-changes", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Return when its thread has ended: the database may be closed next."""
        if self._thread is threading.current_thread():
            return
        with self._lock:
            if not self._left:
                os.write(self._waker, b"x")
        self._thread.join(timeout=1)

    def _serve(self) -> None:
        try:
            eager = EAGER_TICKS
            while not self._rested(eager):
                if self._notices is not None and self._notices.clear():
                    # A write is reported before it is committed, which may take a while.
                    eager = EAGER_TICKS
                eager = max(0, eager - 1)
                self._look()
        except (Gone, UsageError, OSError):
            # The file is gone, or the App is closed: nothing more will change.
            return
        finally:
            self._leave()

    def _rested(self, eager: int) -> bool:
        """Wait until there may be something; whether it is over."""
        notices, descriptors = self._notices, [self._wake]
        seconds = SOON_SECONDS if eager >= EAGER_TICKS - 1 else TICK_SECONDS
        if eager == 0 and notices is not None and notices.renew():
            descriptors.append(notices.descriptor)
            seconds = SLOW_TICK_SECONDS
        return self._wake in select.select(descriptors, [], [], seconds)[0]

    def _look(self) -> None:
        try:
            pulse = self._engine.database.pulse()
        except (Gone, UsageError):
            raise
        except Error:
            return
        if pulse == self._pulse:
            return
        foreign = self._engine.writer.between_commits(self._others, BETWEEN_SECONDS)
        if foreign is None:
            # This process writes without a pause; the next look finds out.
            return
        self._pulse = pulse
        if foreign:
            self._feed.publish(None)

    def _others(self) -> bool:
        """Whether others have written, as far as can be told: if not, they may have."""
        look: Callable[[], bool] = getattr(self._engine.database, "foreign")  # noqa: B009 - of files only
        try:
            return look()
        except (Retryable, Unavailable):
            return True

    def _leave(self) -> None:
        with self._lock:
            self._left = True
            for descriptor in (self._wake, self._waker):
                os.close(descriptor)
        if self._notices is not None:
            self._notices.close()
