"""The claim that a sleeping worker leaves with the writer of its process.

Whoever enqueues something here commits it anyway. The claim goes along in the same transaction: a job
that an idle worker can take costs one fsync instead of two, and starts in half the time.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import replace

from duework.db.database import Tx
from duework.db.requests import Errand, Request
from duework.errors import Error
from duework.kernel.claim import Claim, NotHere, Want, admissible
from duework.kernel.engine import Engine

Grab = Callable[[Tx, list[Want]], Sequence[Claim]]


class Standby:
    """One errand at a time: left, and then taken back or answered."""

    def __init__(
        self, engine: Engine, grab: Grab, began: Callable[[Sequence[Claim]], None]
    ) -> None:
        self._engine = engine
        self._grab = grab
        # Called in the loop when somebody was at it, whether or not that took anything.
        self._began = began
        self._errand: Errand | None = None
        # Resolved when there is an answer.
        self._answer: asyncio.Future[None] | None = None
        # Nothing more is to be claimed, and what was is handed back.
        self.closed = False

    @property
    def begun(self) -> bool:
        """Whether somebody is at it, so that the worker will hear of it."""
        errand = self._errand
        return errand is not None and errand.begun

    def leave(self, want: Want) -> None:
        """Let whoever makes work claim it for us, from now on."""
        loop = asyncio.get_running_loop()
        self._answer = loop.create_future()
        # Not in the context of whoever answers: what starts then keeps it.
        context = copy_context()
        self._errand = Errand(
            *(self._grab, [want]),
            loop=loop,
            beside=self._goes_along,
            then=lambda errand: context.run(self._answered, errand),
        )
        self._engine.writer.errands.leave(self._errand)

    def take_back(self) -> None:
        """Let nobody begin with it any more."""
        if self._errand is not None and self._engine.writer.errands.take_back(self._errand):
            self._errand = self._answer = None

    def claim(self) -> bool:
        """Claim at once, in the loop, after another process has rung; False if the worker should look.

        Such a claim need not last and waits for no disk, and where it would have to wait for others it is
        left to the look that follows.
        """
        errand, engine = self._errand, self._engine
        if errand is None or self.closed or engine.floor is None:
            return False
        want = replace(errand.items[0], unsynced=True)
        try:
            lanes = engine.lanes.seen(engine.database)
        except Error:
            return False
        if not admissible(lanes, want, engine.clock.now()):
            return False
        errands, ours = engine.writer.errands, False
        try:
            if ours := errands.take_back(errand):
                errand.items, errand.unsynced, errand.begun = [want], True, True
                # What has expired is left to the look, too.
                with contextlib.suppress(NotHere):
                    engine.writer.take_at_once(errand)
        finally:
            # Wherever a signal's handler raises: what is in nobody's hands, the worker waits for.
            if ours or not (errand.begun or errand in errands.left):
                errand.resolve()
        return ours

    async def answered(self) -> BaseException | None:
        """If somebody has begun with it, wait until that is over; what then went wrong here."""
        if self._answer is None:
            return None
        if not self._answer.done():
            await asyncio.wait([self._answer])
        answer, self._answer = self._answer, None
        return answer.exception()

    def _goes_along(self, request: Request) -> bool:
        if request.verb is not self._engine.enqueue or self.closed or not self._asleep():
            return False
        now = self._engine.clock.now()
        return any(job.at <= now for job in request.items)

    def _asleep(self) -> bool:
        """Whether the loop waits: one that is busy, for who knows how long, starts nothing."""
        answer = self._answer
        if answer is None:
            return False
        loop = answer.get_loop()
        # Without a task it may still be in a callback, which is seen only if that is who asks.
        here = loop is asyncio._get_running_loop()  # noqa: SLF001 - the other one raises
        return loop.is_running() and not here and asyncio.current_task(loop) is None

    def _answered(self, errand: Errand) -> None:
        if errand is not self._errand:
            return
        self._errand = None
        assert self._answer is not None, "it was left"
        try:
            self._began(errand.value or ())
        except Exception as error:  # noqa: BLE001 - raised again, where it ends the worker
            self._answer.set_exception(error)
        else:
            self._answer.set_result(None)
