"""What wakes a sleeping worker from outside its process.

On SQLite: the doorbell, and for whoever does not ring a look at `PRAGMA data_version` when the system says
that the log was written to, or now and then where it does not say so. On PostgreSQL: LISTEN. Both: the
death of another worker on this host. Everything is a hint; the truth is in the rows.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
from collections.abc import Callable
from typing import Any

from duework.db.notices import Notices
from duework.errors import Error, Gone
from duework.kernel import liveness
from duework.kernel.bell import RING, Bell
from duework.kernel.engine import Engine
from duework.kernel.liveness import Process
from duework.kernel.offers import MESSAGE_LIMIT

TICK_SECONDS = 0.05
# Where the system tells of writes: the first look after one, how many more, and how long without any.
SOON_SECONDS = 0.01
EAGER_TICKS = 10
SLOW_TICK_SECONDS = 1.0
# How long a worker that has got ready for a job waits for its commit alone; it had nothing else to do.
COMMIT_MS = 2
# How often a worker looks whether it is still told by its server.
LISTENING_SECONDS = 0.5


class Alarm:
    """Listens for one worker, in its event loop."""

    def __init__(
        self,
        engine: Engine,
        worker: int,
        ring: Callable[[], None],
        on_death: Callable[[int], None],
        on_gone: Callable[[Gone], None],
    ) -> None:
        self._engine = engine
        self._worker = worker
        self._ring = ring
        # Called with what another process hands over; whether its commit is still to come.
        self.on_handed: Callable[[bytearray], bool] = lambda _: False
        self._on_death = on_death
        self._on_gone = on_gone
        self._loop = asyncio.get_running_loop()
        self._watched: dict[int, int | None] = {}
        self._socket: socket.socket | None = None
        self._letter = bytearray(MESSAGE_LIMIT)
        self._poll = select.poll()
        self._bell: Bell | None = None
        self._notices: Notices | None = None
        # Whether it waits for the system's word, and how often it still looks without one.
        self._hearing = False
        self._eager = EAGER_TICKS
        self._timer: asyncio.TimerHandle | None = None
        self._listener: Any = None
        self._healthy = False
        self._pulse: int | None = -1
        self._closed = False

    def start(self) -> None:
        if self._engine.database.kind == "sqlite":
            self._bell = self._engine.bell
            if self._bell is not None:
                self._socket = self._bell.listen(self._worker)
            if self._socket is not None:
                self._poll.register(self._socket, select.POLLIN)
                self._loop.add_reader(self._socket, self._rung)
            self._notices = Notices.of(self._engine.database)
            self._tick()
        else:
            from duework.db.listen import Listener

            self._listener = Listener(self._engine.database.url, self._notified)
            self._slow_tick()

    def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._socket is not None:
            self._loop.remove_reader(self._socket)
            self._socket.close()
        if self._notices is not None:
            self._unhear()
            self._notices.close()
        if self._bell is not None:
            self._bell.leave(self._worker)
        if self._listener is not None:
            self._listener.close()
        for descriptor in self._watched.values():
            if descriptor is not None:
                self._loop.remove_reader(descriptor)
                os.close(descriptor)

    def watch(self, process: Process) -> None:
        """Tell of the death of a process on this host, at once."""
        if process.id in self._watched or self._closed:
            return
        descriptor = liveness.watch(process)
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
        rung, more = False, True
        try:
            while more:
                length = self._socket.recv_into(self._letter)
                if length == len(RING):
                    rung = True
                else:
                    to_come = self.on_handed(self._letter[:length])
                    # Anything else is read by the next call.
                    more = to_come and bool(self._poll.poll(COMMIT_MS))
        except BlockingIOError:
            pass
        finally:
            if rung:
                self._ring()

    def _notified(self, payload: str) -> None:  # noqa: ARG002 - any word is a reason to look
        self._ring()

    def _tick(self) -> None:
        """Has anybody committed since the last look? No query, no lock."""
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
        """How long to rest; until the log is written to, if the system tells of that."""
        if self._notices is not None and not self._hearing:
            # Whatever it is that fails, it is no reason to look no more.
            with contextlib.suppress(OSError):
                self._hear(self._notices)
        return SLOW_TICK_SECONDS if self._hearing else TICK_SECONDS

    def _hear(self, notices: Notices) -> None:
        """Wait for the system's word, once nothing was written for a while."""
        # A write is told before it is committed, which may take a while.
        self._eager = EAGER_TICKS if notices.clear() else self._eager - 1
        if self._eager <= 0 and notices.renew():
            self._loop.add_reader(notices.descriptor, self._written)
            self._hearing = True

    def _written(self) -> None:
        """Somebody writes to the log; perhaps ourselves."""
        self._unhear()
        self._eager = EAGER_TICKS
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(SOON_SECONDS, self._tick)

    def _unhear(self) -> None:
        if self._notices is not None and self._hearing:
            self._hearing = False
            self._loop.remove_reader(self._notices.descriptor)

    def _slow_tick(self) -> None:
        # Also once after it has begun to listen: what was enqueued just before was told to nobody.
        was_healthy, self._healthy = self._healthy, self._listener.healthy
        if not (was_healthy and self._healthy):
            self._ring()
        self._timer = self._loop.call_later(LISTENING_SECONDS, self._slow_tick)
