"""What a sleeping worker does about its next claim, and where hand-offs come in if they are there.

`worker/handoff/` lets the next enqueue claim for a sleeping worker. It is optional: without that folder a
worker is rung and claims for itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from importlib.util import find_spec

from duework.kernel.claim import Claim, ClaimRequest
from duework.kernel.engine import Engine
from duework.kernel.job import Lease
from duework.worker.rounds import Rounds
from duework.worker.wake.doorbell import Doorbell

HANDOFF = "duework.worker.handoff"


class Resting:
    """Nothing: a worker that was woken claims for itself."""

    # Nothing more is to be claimed, and what was is handed back.
    closed = False

    @property
    def begun(self) -> bool:
        """Whether an enqueue claims for this worker right now: its answer wakes the worker."""
        return False

    def open(self, worker: int) -> None:
        """The worker listens from now on."""

    def leave(self, want: ClaimRequest) -> None:
        """The worker goes to sleep, and would claim this."""

    def take_back(self) -> None:
        """The worker is awake."""

    def handed(self, message: bytes) -> None:
        """Another process has sent something that is no ring."""

    def claim_now(self) -> bool:
        """A thread has heard of something due: claim what was left; False if nothing was."""
        return False

    async def answered(self) -> Exception | None:
        """Wait for a claim that has begun; what went wrong here when its jobs were started."""
        return None

    def close(self) -> None:
        """The worker stops."""
        self.closed = True


def asleep(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether an event loop waits: one that is busy, for however long, starts nothing."""
    # Without a task it may still be in a callback, which is seen only from there.
    here = loop is asyncio._get_running_loop()  # noqa: SLF001 - the other one raises
    return loop.is_running() and not here and asyncio.current_task(loop) is None


def rest_of(
    engine: Engine,
    rounds: Rounds,
    leases: Collection[Lease],
    began: Callable[[Sequence[Claim]], None],
) -> Resting:
    """How a worker rests: with hand-offs, if they are installed."""
    if find_spec(HANDOFF) is None:
        return Resting()
    if not engine.near:
        from duework.worker.handoff.called import CalledClaim

        return CalledClaim(engine, rounds, leases, began)
    from duework.worker.handoff.handoff import Handoff

    return Handoff(engine, rounds, leases, began)


def reach_others(engine: Engine, inode: tuple[int, int]) -> None:
    """Let this process ring the workers of others that share its file, and claim for them if it can."""
    engine.doorbell = doorbell = Doorbell(inode)
    if find_spec(HANDOFF) is not None:
        from duework.worker.handoff.board import OfferBoard

        engine.offers = OfferBoard(engine, doorbell)
