"""Where `async def` tasks run: carriers, asyncio tasks that live on and take one coroutine after another.

A carrier drives its coroutine itself, each in a context of its own. A job that never waits is over
before anything had to be made for it; at the first wait another carrier takes what is still to be
started. So there is an asyncio task for each job that waits at the same time, and none is made per job.
"""

from __future__ import annotations

import asyncio
import types
from collections import deque
from collections.abc import Callable, Generator
from contextvars import copy_context
from typing import Any

from duework.clock import monotonic
from duework.worker.runner import RunningAttempt

Call = Callable[[RunningAttempt], Any]
Finished = Callable[[RunningAttempt, Any, BaseException | None], None]

# How long jobs that never wait may follow each other before the loop sees to other things.
STRETCH_SECONDS = 0.005
# How many carriers without work are kept.
SPARE = 64


class Coroutines:
    """The carriers of one worker. All of it happens in the loop's thread, but for `current`."""

    def __init__(self, call: Call, finished: Finished) -> None:
        self.call = call
        self.finished = finished
        self.waiting: deque[RunningAttempt] = deque()
        # The carrier that is awake and looks at what waits.
        self.taker: Carrier | None = None
        self.spare: list[Carrier] = []
        self._carriers: dict[asyncio.Task[None], Carrier] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def submit(self, attempt: RunningAttempt) -> None:
        self.waiting.append(attempt)
        if self.taker is None:
            self.wake_one()

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
        """The carrier waits with its job; another one has to look at what waits to start."""
        if self.taker is carrier:
            self.taker = None
            if self.waiting:
                self.wake_one()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.hand_over(self._carriers.pop(task))

    def interrupt(self, attempt: RunningAttempt) -> None:
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
        self.attempt: RunningAttempt | None = None
        # Resolved when there is something to do again.
        self.rest: asyncio.Future[None] = loop.create_future()
        self.task = loop.create_task(self._serve(), name="duework-carrier")

    async def _serve(self) -> None:
        pool = self._pool
        while await self._take():
            if pool.taker is self:
                pool.taker = None
            if len(pool.spare) >= SPARE:
                return
            self.rest = asyncio.get_running_loop().create_future()
            pool.spare.append(self)
            await self.rest

    async def _take(self) -> bool:
        """Run what waits, until there is no more or another carrier does; False if it should end."""
        pool = self._pool
        stretch = monotonic() + STRETCH_SECONDS
        while pool.waiting:
            attempt = self.attempt = pool.waiting.popleft()
            value, error = None, None
            try:
                if attempt.stopping is not None:
                    raise asyncio.CancelledError(attempt.stopping)
                value = await self._drive(attempt)
            except BaseException as raised:  # noqa: BLE001 - whatever a task raises is its outcome
                error = raised
            self.attempt = None
            pool.finished(attempt, value, error)
            if self.task.cancelling() or isinstance(error, GeneratorExit):
                # It may be asked to stop once more at any wait, which would not be meant for the next.
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

    @types.coroutine
    def _drive(self, attempt: RunningAttempt) -> Generator[Any, Any, Any]:
        """Run the coroutine in its own context, step by step, as an asyncio task would."""
        context = copy_context()
        coroutine = context.run(self._pool.call, attempt)
        try:
            waits_for = context.run(coroutine.send, None)
        except StopIteration as ended:
            return ended.value
        self._pool.hand_over(self)
        while True:
            try:
                sent = yield waits_for
            except GeneratorExit:
                coroutine.close()
                raise
            except BaseException as error:  # noqa: BLE001 - for the coroutine to catch
                step, given = coroutine.throw, error
            else:
                step, given = coroutine.send, sent
            try:
                waits_for = context.run(step, given)
            except StopIteration as ended:
                return ended.value
