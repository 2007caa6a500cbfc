"""How a caller that waits is answered: a thread by an event, an event loop by a future."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import msgspec


class Waiting(msgspec.Struct, eq=False, kw_only=True):
    """Something asked for, and what waits for it. One of `done` and `future` is set, or neither."""

    value: Any = None
    error: BaseException | None = None
    done: threading.Event | None = None
    loop: asyncio.AbstractEventLoop | None = None
    future: asyncio.Future[Any] | None = None

    def in_loop(self) -> asyncio.Future[Any]:
        """Let the running event loop wait."""
        self.loop = asyncio.get_running_loop()
        self.future = self.loop.create_future()
        return self.future

    def answer(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value

    def resolve(self) -> None:
        """Called in the event loop that waits."""
        future = self.future
        if future is None or future.done():
            return
        if self.error is not None:
            future.set_exception(self.error)
        else:
            future.set_result(self.value)


def answer_all(answered: Sequence[Waiting]) -> None:
    """Wake all that wait; each event loop once for all that it waits for."""
    loops: dict[asyncio.AbstractEventLoop, list[Waiting]] = {}
    for each in answered:
        if each.done is not None:
            each.done.set()
        elif each.loop is not None:
            loops.setdefault(each.loop, []).append(each)
    for loop, waiting in loops.items():
        try:
            loop.call_soon_threadsafe(_resolve, waiting)
        except RuntimeError:
            # The caller's loop has ended; what it asked for is committed all the same.
            continue


def _resolve(waiting: Sequence[Waiting]) -> None:
    for each in waiting:
        each.resolve()
