"""A real worker in a thread of its own, for tests of what happens to it in real time."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from duework import App
from duework.kernel.facts import Fact
from duework.worker.worker import Worker

F = TypeVar("F")


class Working:
    """What the worker has told so far, and how it ended."""

    def __init__(self, app: App) -> None:
        self.facts: list[Fact] = []
        self.error: BaseException | None = None
        app.on_fact(self.facts.append)
        self.worker: Worker = app.worker()
        self.thread = threading.Thread(target=self._run, name="working", daemon=True)

    def _run(self) -> None:
        try:
            asyncio.run(self.worker.run())
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.error = error

    def told(self, kind: type[F]) -> list[F]:
        return [fact for fact in self.facts if isinstance(fact, kind)]


def eventually(condition: Callable[[], Any], seconds: float = 20.0) -> Any:
    """Wait until the condition holds; an AssertionError if it does not in time."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.01)
    return found


@contextmanager
def working(app: App) -> Iterator[Working]:
    running = Working(app)
    running.thread.start()
    try:
        yield running
    finally:
        running.worker.stop(grace_ms=0)
        running.thread.join(20)
        assert not running.thread.is_alive(), "the worker did not stop"
