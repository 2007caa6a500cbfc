"""Where `def` tasks run: threads that can be given up on.

A thread cannot be killed. One whose attempt would not stop is abandoned with it: a new thread takes
its place, and whatever the old one gives back is dropped.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from duework.worker.runner import RunningAttempt

Call = Callable[[RunningAttempt], Any]
Finished = Callable[[RunningAttempt, Any, BaseException | None], None]


class Threads:
    """A bounded set of daemon threads; `wake` is called when there are results to collect."""

    def __init__(self, name: str, call: Call, wake: Callable[[], None]) -> None:
        self._name = name
        self._call = call
        self._wake = wake
        self._inbox: SimpleQueue[RunningAttempt | None] = SimpleQueue()
        self._outbox: deque[tuple[RunningAttempt, Any, BaseException | None]] = deque()
        self._threads = 0
        self._idle = 0
        self._lock = threading.Lock()

    def submit(self, attempt: RunningAttempt) -> None:
        with self._lock:
            if self._idle > 0:
                self._idle -= 1
            else:
                self._spawn()
        self._inbox.put(attempt)

    def collect(self, finished: Finished) -> None:
        """Hand over what has finished; called in the worker's own thread."""
        while self._outbox:
            finished(*self._outbox.popleft())

    def close(self) -> None:
        for _ in range(self._threads):
            self._inbox.put(None)

    def _spawn(self) -> None:
        self._threads += 1
        name = f"duework-{self._name}-{self._threads}"
        threading.Thread(target=self._serve, name=name, daemon=True).start()

    def _serve(self) -> None:
        while (attempt := self._inbox.get()) is not None:
            value, error = None, None
            try:
                value = self._call(attempt)
            except BaseException as raised:  # noqa: BLE001 - whatever a task raises is its outcome
                error = raised
            given_up = attempt.over
            if not given_up:
                with self._lock:
                    self._idle += 1
            self._outbox.append((attempt, value, error))
            self._wake()
            if given_up:
                # Another thread has taken its place.
                return
