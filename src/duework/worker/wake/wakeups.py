"""What wakes a sleeping worker from outside its process.

On SQLite: the doorbell. For a writer that does not ring: inotify on the WAL, then `PRAGMA data_version`;
checked each second, and more often where there is no inotify. On PostgreSQL: LISTEN. Both: the
death of another worker on this host. Everything is a hint; the truth is in the rows.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable
from typing import Any

from duework.db.sqlite.inotify import Notices
from duework.errors import Error, Gone
from duework.kernel.changes import ASKS
from duework.kernel.engine import Engine, OtherWorkers
from duework.kernel.machine import processes
from duework.kernel.machine.processes import Process
from duework.worker.wake.doorbell import MESSAGE_LIMIT, RING

TICK_SECONDS = 0.05
# Where inotify reports writes: the first look after one, how many more, and how long without any.
SOON_SECONDS = 0.01
EAGER_TICKS = 10
SLOW_TICK_SECONDS = 1.0
# How often a worker looks whether its server still notifies it.
LISTENING_SECONDS = 0.5


class Wakeups:
    """Listens for one worker, in its event loop."""

    def __init__(
        self,
        engine: Engine,
        worker: int,
        ring: Callable[[], None],
        on_death: Callable[[int], None],
        on_gone: Callable[[Gone], None],
        on_handed: Callable[[bytes], None],
        on_notified: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._worker = worker
        self._ring = ring
        # Called with what another process hands over.
        self._on_handed = on_handed
        # Called in the thread that listens to a server.
        self._on_notified = on_notified
        self._on_death = on_death
        self._on_gone = on_gone
        self._loop = asyncio.get_running_loop()
        self._watched: dict[int, int | None] = {}
        self._socket: socket.socket | None = None
        self._doorbell: OtherWorkers | None = None
        self._notices: Notices | None = None
        # Whether it waits for inotify, and how often it still looks without one.
        self._watching = False
        self._eager = EAGER_TICKS
        self._timer: asyncio.TimerHandle | None = None
        self._listener: Any = None
        self._healthy = False
        self._pulse: int | None = -1
        self._closed = False

    def start(self) -> None:
        if self._engine.database.kind == "sqlite":
            self._doorbell = self._engine.doorbell
            if self._doorbell is not None:
                self._socket = self._doorbell.listen(self._worker)
            if self._socket is not None:
                self._loop.add_reader(self._socket, self._rung)
            self._notices = Notices.of(self._engine.database)
            self._tick()
        else:
            from duework.db.postgres.listen import Listener

            url = self._engine.database.url
            self._listener = Listener(url, self._notified, greeting=ASKS)
            self._slow_tick()

    def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._socket is not None:
            self._loop.remove_reader(self._socket)
            self._socket.close()
        if self._notices is not None:
            self._unwatch()
            self._notices.close()
        if self._doorbell is not None:
            self._doorbell.leave(self._worker)
        if self._listener is not None:
            self._listener.close()
        for descriptor in self._watched.values():
            if descriptor is not None:
                self._loop.remove_reader(descriptor)
                os.close(descriptor)

    def watch(self, process: Process) -> None:
        """Report the death of a process on this host, at once."""
        if process.id in self._watched or self._closed:
            return
        descriptor = processes.watch(process)
        self._watched[process.id] = descriptor
        if descriptor is not None:
            self._loop.add_reader(descriptor, self._died, process.id)

    def _died(self, worker: int) -> None:
        descriptor = self._watched.pop(worker, None)
        if descriptor is not None:
            self._loop.remove_reader(descriptor)
            os.close(descriptor)
        self._on_death(worker)

    def _rung(self) -> None:
        assert self._socket is not None, "it listens"
        rung, message = False, RING
        with contextlib.suppress(BlockingIOError):
            while (message := self._socket.recv(MESSAGE_LIMIT)) == RING:
                rung = True
        try:
            if message != RING:
                # What comes after it is read by the next call.
                self._on_handed(message)
        finally:
            if rung:
                self._ring()

    def _notified(self, payload: str) -> None:
        # Any word is a reason to look, but those between listeners of `app.changes()`.
        if self._engine.feed.heard(payload):
            self._on_notified()

    def _tick(self) -> None:
        """Ring if another connection has committed since the last look. No query, no lock."""
        again = True
        try:
            try:
                pulse = self._engine.database.pulse()
            except Gone as error:
                again = False
                self._on_gone(error)
                return
            except Error:
                pulse = None
            if pulse != self._pulse:
                self._pulse = pulse
                self._ring()
        finally:
            # Whatever went wrong: a worker that looks no more would sleep on without a word.
            if again and not self._closed:
                self._timer = self._loop.call_later(self._until_tick(), self._tick)

    def _until_tick(self) -> float:
        """How long to rest; until the log is written to, if inotify reports that."""
        if self._notices is not None and not self._watching:
            # Whatever it is that fails, it is no reason to look no more.
            with contextlib.suppress(OSError):
                self._watch_wal(self._notices)
        return SLOW_TICK_SECONDS if self._watching else TICK_SECONDS

    def _watch_wal(self, notices: Notices) -> None:
        """Wait for inotify, once nothing was written for a while."""
        # A write is reported before it is committed, which may take a while.
        self._eager = EAGER_TICKS if notices.clear() else self._eager - 1
        if self._eager <= 0 and notices.renew():
            self._loop.add_reader(notices.descriptor, self._written)
            self._watching = True

    def _written(self) -> None:
        """The WAL was written to; perhaps by this process."""
        self._unwatch()
        self._eager = EAGER_TICKS
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(SOON_SECONDS, self._tick)

    def _unwatch(self) -> None:
        if self._notices is not None and self._watching:
            self._watching = False
            self._loop.remove_reader(self._notices.descriptor)

    def _slow_tick(self) -> None:
        # Also once after it has begun to listen: what was enqueued just before notified nothing.
        was_healthy, self._healthy = self._healthy, self._listener.healthy
        if not (was_healthy and self._healthy):
            self._ring()
        self._timer = self._loop.call_later(LISTENING_SECONDS, self._slow_tick)
