"""The claim that a sleeping worker leaves with the thread that listens to its PostgreSQL server.

A notification says that something may be due. The thread that hears it claims at once, instead of waking
the worker's loop to look and then to claim: three round trips instead of six, and fewer hand-overs.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Collection, Sequence
from contextvars import copy_context

from duework.kernel.claim import Claim, ClaimRequest
from duework.kernel.engine import Engine
from duework.kernel.job import Lease
from duework.worker.handoff.claims import Grabs
from duework.worker.resting import Resting, asleep
from duework.worker.rounds import Rounds


class CalledClaim(Resting):
    """One request at a time: left, and then taken back or answered."""

    def __init__(
        self,
        engine: Engine,
        rounds: Rounds,
        leases: Collection[Lease],
        began: Callable[[Sequence[Claim]], None],
    ) -> None:
        self._engine = engine
        self._grabs = Grabs(engine, rounds)
        # What the worker holds.
        self._leases = leases
        # Called in the loop with what was claimed, whether or not that is anything.
        self._began = began
        # Guards what is below: a request is taken by the loop or by the thread that listens, never by both.
        self._lock = threading.Lock()
        self._want: ClaimRequest | None = None
        self._begun = False
        self._context = copy_context()
        # Resolved when there is an answer.
        self._answer: asyncio.Future[None] | None = None
        # What went wrong when something was begun.
        self._failed: Exception | None = None

    @property
    def begun(self) -> bool:
        """Whether a claim is on its way: its answer wakes the worker."""
        return self._begun

    def leave(self, want: ClaimRequest) -> None:
        """From now on a notification may claim this; not while jobs run, which may keep the loop busy."""
        if not self._leases:
            with self._lock:
                self._want, self._answer = want, asyncio.get_running_loop().create_future()
                # Not in the context of the thread that listens: what starts then keeps it.
                self._context = copy_context()

    def take_back(self) -> None:
        """No notification begins with it any more."""
        with self._lock:
            if not self._begun:
                self._want = self._answer = None

    def claim_now(self) -> bool:
        """Claim what was left, in the thread that listens; False if nothing was, or the loop is busy."""
        with self._lock:
            want, answer, self._want = self._want, self._answer, None
            if want is None or answer is None or self.closed:
                return False
            loop = answer.get_loop()
            if not asleep(loop):
                return False
            self._begun = True
        claims = self._claimed(want)
        # A loop that is closed has no worker any more.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(self._answered, answer, claims, context=self._context)
        return True

    async def answered(self) -> Exception | None:
        """If a claim has begun, wait until it is over; what then went wrong here."""
        if self._answer is not None:
            await asyncio.wait([self._answer])
        self._answer = None
        failed, self._failed = self._failed, None
        return failed

    def _claimed(self, want: ClaimRequest) -> Sequence[Claim]:
        try:
            return self._engine.writer.call(self._grabs.grab, [want])
        except Exception:  # noqa: BLE001 - the worker then looks for itself, and reports what is wrong
            return ()

    def _answered(self, answer: asyncio.Future[None], claims: Sequence[Claim]) -> None:
        # Before the worker looks around: from here on a ring wakes it again.
        self._begun = False
        try:
            self._began(claims)
        except Exception as error:  # noqa: BLE001 - raised again, where it ends the worker
            self._failed = error
        answer.set_result(None)
