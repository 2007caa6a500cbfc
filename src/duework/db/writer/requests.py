"""What the writer is asked for, how requests of one transaction are run, and how those who wait are answered.

A thread is answered by an event, an event loop by a future.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, TypeVar

import msgspec

from duework.clock import monotonic
from duework.db.database import Retryable, Tx
from duework.errors import Unavailable

Item = TypeVar("Item")
Result = TypeVar("Result")
Verb = Callable[[Tx, list[Item]], Sequence[Result]]


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


class Request(Waiting, eq=False):
    """A verb with its items, and later its results or its error."""

    verb: Verb[Any, Any]
    items: list[Any]
    deadline: float | None = None
    # Work that runs already: written down even on the last of the disk.
    essential: bool = False


class AttachedRequest(Request, eq=False, kw_only=True):
    """A request that is attached to the next one that it may share a commit with."""

    beside: Callable[[Request], bool]
    # Called in the event loop; without a value it did not happen.
    then: Callable[[AttachedRequest], None]
    # Whether it was run; once is enough.
    begun: bool = False

    def resolve(self) -> None:
        self.then(self)


def requested(
    verb: Verb[Any, Any], items: list[Any], patience: float | None, *, essential: bool = False
) -> Request:
    deadline = None if patience is None else monotonic() + patience
    return Request(verb, items, deadline, essential or patience is None)


def admitted(group: list[Request], short: str) -> list[Request]:
    """On the reserve of a full disk nothing new is taken on."""
    for request in group:
        if not request.essential:
            request.error = Unavailable(short)
    return [request for request in group if request.essential]


def run_together(tx: Tx, group: Sequence[Request]) -> None:
    """Neighbouring requests of one verb as one call: bound methods of one object are equal."""
    if len(group) == 1:
        group[0].value = group[0].verb(tx, group[0].items)
        return
    for _, same in groupby(group, key=lambda request: request.verb):
        requests = list(same)
        if len(requests) == 1:
            run_together(tx, requests)
            continue
        items = [item for each in requests for item in each.items]
        results = requests[0].verb(tx, items)
        assert len(results) == len(items), "a verb answers each of its items"
        start = 0
        for request in requests:
            request.value = results[start : start + len(request.items)]
            start += len(request.items)


def run_singly(tx: Tx, group: Sequence[Request]) -> None:
    """Each in a savepoint of its own, so that an error is its caller's alone."""
    for request in group:
        try:
            with tx.savepoint():
                request.value = request.verb(tx, request.items)
        except Retryable:
            raise
        except Exception as error:  # noqa: BLE001 - it belongs to this caller alone
            request.error = error


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
