"""The claim that a sleeping worker leaves with whoever makes work.

Whoever enqueues something commits it anyway. The claim goes along in the same transaction: a job
that an idle worker can take costs one fsync instead of two, and starts in half the time. In the worker's own
process it is an errand of the writer, in others an offer.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context

from duework.db.requests import Errand, Request
from duework.errors import Error
from duework.kernel.claim import Claim, Want
from duework.kernel.engine import Engine
from duework.kernel.job import Claimed
from duework.kernel.offers import Offer
from duework.kernel.turns import Turns

# How long a worker waits to look for what it is owed, and when it tries again.
FIND_SECONDS, AGAIN_SECONDS = 5.0, 0.5


class Standby:
    """One errand and one offer at a time: left, and then taken back or answered."""

    def __init__(
        self,
        engine: Engine,
        turns: Turns,
        leases: Mapping[int, int],
        began: Callable[[Sequence[Claim]], None],
        prepare: Callable[[Claimed], None],
    ) -> None:
        self._engine = engine
        self._turns = turns
        # What the worker holds: by job, the fence.
        self._leases = leases
        # Called in the loop when somebody was at it, whether or not that took anything.
        self._began = began
        # Called with what may have to start soon.
        self._prepare = prepare
        self._want: Want | None = None
        self._offer: Offer | None = None
        self._errand: Errand | None = None
        # Resolved when there is an answer.
        self._answer: asyncio.Future[None] | None = None
        # What went wrong when something was begun.
        self._failed: Exception | None = None
        # Nothing more is to be claimed, and what was is handed back.
        self.closed = False

    @property
    def begun(self) -> bool:
        """Whether somebody is at it, so that the worker will hear of it."""
        errand = self._errand
        return errand is not None and errand.begun

    def open(self, worker: int) -> None:
        """From now on there may be offers to other processes."""
        if self._engine.bell is not None:
            self._offer = self._engine.bell.offer(worker)

    def leave(self, want: Want) -> None:
        """Let whoever makes work claim it for us, from now on."""
        self._want = want
        if self._offer is not None and self._may_show(self._offer):
            self._offer.show(want)
        loop = asyncio.get_running_loop()
        self._answer = loop.create_future()
        # Not in the context of whoever answers: what starts then keeps it.
        context = copy_context()
        self._errand = Errand(
            *(self._turns.grab, [want]),
            loop=loop,
            beside=self._goes_along,
            then=lambda errand: context.run(self._answered, errand),
        )
        self._engine.writer.errands.leave(self._errand)

    def take_back(self) -> None:
        """Let nobody begin with it any more."""
        if self._offer is not None:
            self._offer.withdraw()
        if self._errand is not None and self._engine.writer.errands.take_back(self._errand):
            self._errand = self._answer = None

    def handed(self, message: bytes | bytearray) -> bool:
        """Another process claims something for us; whether the commit of that is still to come."""
        offer = self._offer
        if offer is None or (received := offer.receive(message)) is None:
            # Nobody waits for it any more: it is looked for, if it is not known already.
            self._begin([])
            return False
        job, number = received
        if number is None:
            # Whoever commits it goes first, if he waits for the same processor.
            os.sched_yield()
            self._prepare(job)
            return True
        self._begin([job])
        # Not before: what a signal's handler keeps from it is looked for.
        offer.answer([number])
        return False

    async def answered(self) -> Exception | None:
        """If somebody has begun with it, wait until that is over; what then went wrong here."""
        if self._answer is not None and not self._answer.done():
            await asyncio.wait([self._answer])
        self._answer = None
        if self._offer is not None and self._want is not None and self._offer.owed():
            await self._find(self._want, self._offer)
        failed, self._failed = self._failed, None
        return failed

    def close(self) -> None:
        """Let nobody claim for us any more; what was, and is not known, is handed back with the rest."""
        self.closed = True
        if self._offer is not None:
            self._offer.close()
            self._offer = None

    async def _find(self, want: Want, offer: Offer) -> None:
        """Whoever has claimed something for us may have died before he could hand it over."""
        acall, search = self._engine.writer.acall, [(want, offer)]
        try:
            # First, as all that is about work which is there already, also on a full disk.
            found = await acall(self._turns.find, search, patience=FIND_SECONDS, first=True)
        except Error:
            # It is still owed.
            await asyncio.sleep(AGAIN_SECONDS)
            self._begin([])
        else:
            owed, jobs = found[0]
            self._begin([job for job in jobs if self._leases.get(job.id) != job.fence])
            offer.answer(owed)

    def _begin(self, jobs: list[Claimed]) -> None:
        """With what one process has claimed for another; the worker looks around afterwards."""
        self._try([Claim(jobs, self._engine.clock.now(), frozenset(), handed=True)])

    def _try(self, claims: Sequence[Claim]) -> None:
        try:
            self._began(claims)
        except Exception as error:  # noqa: BLE001 - raised again, where it ends the worker
            self._failed = error

    def _may_show(self, offer: Offer) -> bool:
        """One that runs something may be kept from its loop by that; and others have to know of us."""
        if self._leases or not self._turns.known or offer.owed():
            return False
        return self._engine.database.short() is None

    def _goes_along(self, request: Request) -> bool:
        if request.verb is not self._engine.enqueue_alone or self.closed or not self._asleep():
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
        self._try(errand.value or ())
        self._answer.set_result(None)
