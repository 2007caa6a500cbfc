"""Where `async def` tasks run: carriers, asyncio tasks that live on and take one coroutine after another.

A carrier drives its coroutine itself, each in a context of its own. A job that never waits is over
before anything had to be made for it; at the first wait another carrier takes what is still to be
started. So there is an asyncio task for each job that waits at the same time, and none is made per job.
"""

from __future__ import annotations

import asyncio
import types
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, copy_context
from typing import Any

from duework.clock import monotonic
from duework.kernel.runner import Attempt

Call = Callable[[Attempt], Any]
Finished = Callable[[Attempt, Any, BaseException | None], None]
# A coroutine, its context, and what it waits for.
Begun = tuple[Coroutine[Any, Any, Any], Context, Any]

# How long jobs that never wait may follow each other before the loop sees to other things.
STRETCH_SECONDS = 0.005
# How many carriers without work are kept.
SPARE = 64


class Coroutines:
    """The carriers of one worker. All of it happens in the loop's thread, but for `current`."""

    def __init__(self, call: Call, finished: Finished) -> None:
        self.call = call
        self.finished = finished
        self.waiting: deque[Attempt] = deque()
        # The carrier that is awake and looks at what waits.
        self.taker: Carrier | None = None
        self.spare: list[Carrier] = []
        self._carriers: dict[asyncio.Task[None], Carrier] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def submit(self, attempt: Attempt, *, at_once: bool = False) -> None:
        """Let a carrier run it; `at_once` before this returns, if that is possible."""
        if at_once and (carrier := self._free_now()) is not None:
            carrier.start(attempt)
            return
        self.waiting.append(attempt)
        if self.taker is None:
            self.wake_one()

    def _free_now(self) -> Carrier | None:
        """A carrier that rests, where nobody else is before it and no asyncio task runs."""
        if self.waiting or self.taker or not self.spare or asyncio.current_task(self._loop):
            return None
        carrier = self.spare.pop()
        return None if carrier.rest.done() else carrier

    def wake_one(self) -> None:
        """Let a carrier look at what waits: one that has nothing to do, or a new one."""
        while self.spare:
            carrier = self.spare.pop()
            if not carrier.rest.done():
                self.taker = carrier
                carrier.rest.set_result(None)
                return
        assert self._loop is not None, "bound"
        self.taker = Carrier(self, self._loop)
        self._carriers[self.taker.task] = self.taker
        self.taker.task.add_done_callback(self._ended)

    def hand_over(self, carrier: Carrier) -> None:
        """The carrier waits with its job; somebody else has to look at what waits to start."""
        if self.taker is carrier:
            self.taker = None
            if self.waiting:
                self.wake_one()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.hand_over(self._carriers.pop(task))

    def interrupt(self, attempt: Attempt) -> None:
        """Cancel what the attempt waits for; one that has not started will not."""
        for carrier in self._carriers.values():
            if carrier.attempt is attempt:
                carrier.task.cancel(attempt.stopping)
                return

    def current(self) -> str | None:
        """The task that the event loop is in at this moment, from any thread."""
        task = asyncio.current_task(self._loop) if self._loop is not None else None
        carrier = None if task is None else self._carriers.get(task)
        attempt = None if carrier is None else carrier.attempt
        return None if attempt is None else attempt.job.task

    def cancel_all(self) -> None:
        self.waiting.clear()
        for task in list(self._carriers):
            task.cancel()


class Carrier:
    """One asyncio task, and the attempt that it is at."""

    def __init__(self, pool: Coroutines, loop: asyncio.AbstractEventLoop) -> None:
        self._pool = pool
        self.attempt: Attempt | None = None
        # Of an attempt that was started before its task had its turn, and whether it awaits a future.
        self._begun: Begun | None = None
        self._awaits = False
        # Resolved when there is something to do again.
        self.rest: asyncio.Future[None] = loop.create_future()
        self.task = loop.create_task(self._serve(), name="duework-carrier")

    def start(self, attempt: Attempt) -> None:
        """Run it here and now, as this carrier's task would; if it waits, that goes on with it."""
        loop = self.task.get_loop()
        asyncio._enter_task(loop, self.task)  # noqa: SLF001 - documented, for tasks of other makes
        try:
            begun = self._begin(attempt)
            self._awaits = _mark(begun[2], awaited=False)
            # Last: what fails before is over.
            self._begun = begun
        except StopIteration as ended:
            self._end(attempt, ended.value, None)
        except BaseException as error:  # noqa: BLE001 - whatever a task raises is its outcome
            self._end(attempt, None, error)
        finally:
            asyncio._leave_task(loop, self.task)  # noqa: SLF001 - see above
        if self._begun is None:
            self._pool.spare.append(self)
        elif not self.rest.done():
            # Else it was cancelled, by itself, and wakes for that.
            self.rest.set_result(None)

    async def _serve(self) -> None:
        pool = self._pool
        while await self._take():
            if pool.taker is self:
                pool.taker = None
            if len(pool.spare) >= SPARE:
                return
            self.rest = asyncio.get_running_loop().create_future()
            pool.spare.append(self)
            try:
                await self.rest
            except asyncio.CancelledError as cancelled:
                if self._begun is None:
                    raise
                # It is meant for what was begun, which waits for something else.
                self.task.uncancel()
                self.task.cancel(*cancelled.args)

    async def _take(self) -> bool:
        """Run what waits, until there is no more or somebody else does; False if it should end."""
        pool = self._pool
        stretch = monotonic() + STRETCH_SECONDS
        begun, self._begun = self._begun, None
        if begun is not None and self._awaits:
            _mark(begun[2], awaited=True)
        while begun is not None or pool.waiting:
            attempt = self.attempt or pool.waiting.popleft()
            value, error = None, None
            try:
                value = await _go_on(*(begun or self._begin(attempt)))
            except StopIteration as ended:
                # It never waited.
                value = ended.value
            except BaseException as raised:  # noqa: BLE001 - whatever a task raises is its outcome
                error = raised
            begun = None
            self._end(attempt, value, error)
            if self.task.cancelling() or isinstance(error, GeneratorExit):
                # It may be told to stop once more at any wait, which would not be meant for the next.
                return False
            error = None
            if pool.taker is None:
                pool.taker = self
            elif pool.taker is not self:
                break
            if monotonic() > stretch:
                await asyncio.sleep(0)
                stretch = monotonic() + STRETCH_SECONDS
        return True

    def _begin(self, attempt: Attempt) -> Begun:
        """Run it in a context of its own up to its first wait; `StopIteration` if it has none."""
        self.attempt = attempt
        if attempt.stopping is not None:
            raise asyncio.CancelledError(attempt.stopping)
        context = copy_context()
        coroutine = context.run(self._pool.call, attempt)
        begun = coroutine, context, context.run(coroutine.send, None)
        self._pool.hand_over(self)
        return begun

    def _end(self, attempt: Attempt, value: Any, error: BaseException | None) -> None:
        self.attempt = None
        self._pool.finished(attempt, value, error)


def _mark(waits_for: Any, *, awaited: bool) -> bool:
    """Whether it was marked as awaited.

    A task that waits takes the mark off at once; as long as it is on, nobody else can await the same future.
    """
    marked: bool = getattr(waits_for, "_asyncio_future_blocking", None) is True
    if marked or awaited:
        waits_for._asyncio_future_blocking = awaited  # noqa: SLF001 - what tasks of all makes go by
    return marked


@types.coroutine
def _go_on(
    coroutine: Coroutine[Any, Any, Any], context: Context, waits_for: Any
) -> Generator[Any, Any, Any]:
    """The rest of what was begun, step by step, as an asyncio task would."""
    while True:
        try:
            sent = yield waits_for
        except GeneratorExit:
            coroutine.close()
            raise
        except BaseException as error:  # noqa: BLE001 - for the coroutine to catch
            step: Callable[[Any], Any] = coroutine.throw
            given: Any = error
        else:
            step, given = coroutine.send, sent
        try:
            waits_for = context.run(step, given)
        except StopIteration as ended:
            return ended.value
