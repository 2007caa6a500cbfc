"""Keeps a worker's leases: a thread that a blocked event loop cannot stop.

It moves the lease ends of everything the process holds, in one statement, three times per lease. When
it has not got through for most of a lease, it says that all is lost, before another process can take
over. And it watches the event loop, to name the task that blocks it.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from duework.clock import monotonic
from duework.db.database import Tx
from duework.errors import Error
from duework.kernel.engine import Engine
from duework.kernel.facts import LoopBlocked
from duework.kernel.job import Lease
from duework.kernel.recover import extend

LAG_SECONDS = 1.0
# How often it looks while anything is held, and else.
BUSY_SECONDS, IDLE_SECONDS = 0.25, 1.0
# Of a lease: without an extension for so long, everything is given up.
GIVE_UP = 0.8


@dataclass(frozen=True, slots=True)
class LoopWatch:
    """The event loop of a worker, as seen from the keeper's thread."""

    # Calls something in the loop, soon; `RuntimeError` if the loop has ended.
    poke: Callable[[Callable[[], None]], object]
    # The task that the loop is in.
    current: Callable[[], str | None]
    # Called several times per lease: the process does not stand still.
    awake: Callable[[], None]


class LeaseKeeper:
    """Extends leases and watches the loop of one worker."""

    def __init__(
        self,
        engine: Engine,
        worker: int,
        lease_ms: int,
        leases: Callable[[], list[Lease]],
        lost: Callable[[list[Lease]], None],
        watch: LoopWatch,
    ) -> None:
        self._engine = engine
        self._worker = worker
        self._lease_ms = lease_ms
        self._leases = leases
        self._lost = lost
        # In real seconds, as the lease is meant.
        self._seconds = lease_ms / 1000 / engine.clock.speed
        self._every = self._seconds / 3
        self._last_success = self._next_extend = 0.0
        self._stop = threading.Event()
        self._extend: Callable[[Tx, list[list[Lease]]], Sequence[list[Lease]]] = self._extend_verb
        self._thread = threading.Thread(target=self._serve, name="duework-keeper", daemon=True)
        self._watch = watch
        # Whether the loop is there, and whether it has answered.
        self._looping = True
        self._loop_thread = threading.get_ident()
        self._poked = 0.0
        self._answered = True
        self._told = False

    def start(self) -> None:
        self._loop_thread = threading.get_ident()
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=2)

    def _extend_verb(self, tx: Tx, groups: list[list[Lease]]) -> Sequence[list[Lease]]:
        # Here, since it may have waited for this: what a clock that is an hour slow has extended would
        # be over for every other worker.
        until = self._engine.clock_watch.checked_now_within(tx) + self._lease_ms
        return [extend(tx, leases, worker=self._worker, until=until) for leases in groups]

    def _serve(self) -> None:
        self._last_success = monotonic()
        self._next_extend = monotonic() + self._every
        while not self._stop.wait(
            min(BUSY_SECONDS if self._leases() else IDLE_SECONDS, self._every / 2)
        ):
            self._extend_if_due()

    def _extend_if_due(self) -> None:
        """What it does several times per lease, whatever thread that is done in."""
        self._watch.awake()
        self._watch_loop()
        leases = self._leases()
        if not leases:
            self._last_success = monotonic()
        if monotonic() < self._next_extend:
            return
        self._next_extend = monotonic() + self._every
        # A lease counts from before the call, and no call waits beyond the time to give up.
        asked = monotonic()
        give_up_at = self._last_success + GIVE_UP * self._seconds
        if leases and self._try_extend(leases, max(0.0, min(self._every, give_up_at - asked))):
            self._last_success = asked
        if monotonic() >= give_up_at and self._last_success < asked:
            self._lost(self._leases())
            self._last_success = monotonic()

    def _try_extend(self, leases: list[Lease], seconds: float) -> bool:
        try:
            gone = self._engine.writer.call_within(self._extend, [leases], seconds)[0]
        except Error:
            return False
        if gone:
            self._lost(gone)
        return True

    def _watch_loop(self) -> None:
        if not self._looping:
            return
        if self._answered:
            self._answered, self._told, self._poked = False, False, monotonic()
            try:
                self._watch.poke(self._answer)
            except RuntimeError:
                self._looping = False
            return
        lag = monotonic() - self._poked
        if lag > LAG_SECONDS and not self._told:
            self._told = True
            task = self._watch.current() or "something outside any task"
            self._engine.emit(LoopBlocked(task, round(lag, 1), self._where()))

    def _answer(self) -> None:
        self._answered = True

    def _where(self) -> str:
        frame: Any = sys._current_frames().get(self._loop_thread)  # noqa: SLF001 - the only way to look
        if frame is None:
            return ""
        last = traceback.extract_stack(frame, limit=None)[-1]
        return f"{last.filename}:{last.lineno} in {last.name}"
