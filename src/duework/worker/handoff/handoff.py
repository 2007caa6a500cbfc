"""The claim that a sleeping worker leaves with the next enqueue.

An enqueue commits anyway. The claim goes along in the same transaction: a job
that an idle worker can take costs one fsync instead of two, and starts in half the time. In the worker's own
process it is an attached request of the writer, in others an offer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextvars import copy_context

from duework.db.database import Tx
from duework.db.writer.requests import AttachedRequest, Request
from duework.errors import Error
from duework.kernel.claim import Claim, ClaimRequest
from duework.kernel.engine import Engine
from duework.kernel.job import Claimed, Lease
from duework.worker.handoff.board import OfferBoard
from duework.worker.handoff.claims import Grabs, claimed_for
from duework.worker.handoff.offer import Offer
from duework.worker.resting import Resting, asleep
from duework.worker.rounds import Rounds

# How long a worker waits to look for what it is owed, and when it tries again.
FIND_SECONDS, AGAIN_SECONDS = 5.0, 0.5

# What a worker claims, and the offer of which something may be owed.
Search = tuple[ClaimRequest, Offer]
# Which offers were taken, and what was claimed by that.
Found = tuple[Sequence[int], list[Claimed]]


class Handoff(Resting):
    """One attached request and one offer at a time: left, and then taken back or answered."""

    def __init__(
        self,
        engine: Engine,
        rounds: Rounds,
        leases: Collection[Lease],
        began: Callable[[Sequence[Claim]], None],
    ) -> None:
        self._engine = engine
        self._rounds = rounds
        self._grabs = Grabs(engine, rounds)
        # What the worker holds.
        self._leases = leases
        # Called in the loop when an enqueue has claimed, whether or not that took anything.
        self._began = began
        self._want: ClaimRequest | None = None
        self._offer: Offer | None = None
        self._attached: AttachedRequest | None = None
        # Resolved when there is an answer.
        self._answer: asyncio.Future[None] | None = None
        # What went wrong when something was begun.
        self._failed: Exception | None = None
        # Nothing more is to be claimed, and what was is handed back.
        self.closed = False

    @property
    def begun(self) -> bool:
        """Whether an enqueue claims for this worker right now: its answer wakes the worker."""
        request = self._attached
        return request is not None and request.begun

    def open(self, worker: int) -> None:
        """From now on there may be offers to other processes."""
        if isinstance(self._engine.offers, OfferBoard):
            self._offer = self._engine.offers.own(worker)

    def leave(self, want: ClaimRequest) -> None:
        """From now on an enqueue may claim this for the worker."""
        self._want = want
        if self._offer is not None and self._may_show(self._offer):
            self._offer.show(want)
        loop = asyncio.get_running_loop()
        self._answer = loop.create_future()
        # Not in the context of the thread that answers: what starts then keeps it.
        context = copy_context()
        self._attached = AttachedRequest(
            self._grabs.grab,
            [want],
            loop=loop,
            beside=self._goes_along,
            then=lambda request: context.run(self._answered, request),
        )
        self._engine.writer.attached.leave(self._attached)

    def take_back(self) -> None:
        """No enqueue begins with it any more."""
        if self._offer is not None:
            self._offer.withdraw()
        if self._attached is not None and self._engine.writer.attached.take_back(self._attached):
            self._attached = self._answer = None

    def handed(self, message: bytes) -> None:
        """Another process has claimed something for us."""
        offer = self._offer
        if offer is not None and (handed := offer.receive(message)) is not None:
            self._begin([handed.job])
            # Not before: what a signal's handler keeps from it is looked for.
            offer.answer([handed.number])
        else:
            # The offer does not stand any more: the job is looked for, if it is not known already.
            self._begin([])

    async def answered(self) -> Exception | None:
        """If an enqueue has begun with it, wait until that is over; what then went wrong here."""
        if self._answer is not None and not self._answer.done():
            await asyncio.wait([self._answer])
        self._answer = None
        if self._offer is not None and self._want is not None and self._offer.owed():
            await self._find(self._want, self._offer)
        failed, self._failed = self._failed, None
        return failed

    def close(self) -> None:
        """No process claims for this worker any more; what is not known yet is handed back with the rest."""
        self.closed = True
        if self._offer is not None:
            self._offer.close()
            self._offer = None

    def _claimed_for_us(self, tx: Tx, searches: list[Search]) -> Sequence[Found]:
        """What others have claimed for this worker and could not hand over."""
        found: list[Found] = []
        for want, offer in searches:
            owed = offer.owed()
            jobs = claimed_for(tx, want, list(owed.values()), self._engine.lanes)
            found.append((list(owed), jobs))
        return found

    async def _find(self, want: ClaimRequest, offer: Offer) -> None:
        """The process that claimed something for this worker may have died before it could hand it over."""
        acall, search = self._engine.writer.acall, [(want, offer)]
        try:
            # First, as all that is about work which is there already, also on a full disk.
            found = await acall(self._claimed_for_us, search, patience=FIND_SECONDS, first=True)
        except Error:
            # It is still owed.
            await asyncio.sleep(AGAIN_SECONDS)
            self._begin([])
        else:
            owed, jobs = found[0]
            self._begin([job for job in jobs if (job.id, job.fence) not in self._leases])
            offer.answer(owed)

    def _begin(self, jobs: list[Claimed]) -> None:
        """With what one process has claimed for another; the worker looks around afterwards."""
        now = self._engine.clock.now()
        self._rounds.hold_leases(jobs)
        self._engine.minutes.handed(jobs, now)
        self._try([Claim(jobs, now, frozenset())])

    def _try(self, claims: Sequence[Claim]) -> None:
        try:
            self._began(claims)
        except Exception as error:  # noqa: BLE001 - raised again, where it ends the worker
            self._failed = error

    def _may_show(self, offer: Offer) -> bool:
        """One that runs something may be kept from its loop by that; and others have to know of us."""
        if self._leases or not self._rounds.known or offer.owed():
            return False
        return self._engine.database.disk_full_reason() is None

    def _goes_along(self, request: Request) -> bool:
        answer = self._answer
        if request.verb != self._engine.enqueue_alone or self.closed or answer is None:
            return False
        if not asleep(answer.get_loop()):
            return False
        now = self._engine.clock.now()
        return any(job.at <= now for job in request.items)

    def _answered(self, request: AttachedRequest) -> None:
        if request is not self._attached:
            return
        self._attached = None
        assert self._answer is not None, "it was left"
        self._try(request.value or ())
        self._answer.set_result(None)
