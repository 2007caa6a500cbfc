"""The offers of this host's workers: a process shows its own, and takes one of another process.

An offer lies beside the socket on which its worker listens. An enqueue that finds one writes the job as a
job of that worker, and sends it after the commit.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from duework.db.database import Tx
from duework.kernel.engine import Engine
from duework.kernel.job import JobId, LaneName, NewJob
from duework.worker.handoff.claims import enqueue_claimed
from duework.worker.handoff.offer import PAYLOAD_LIMIT, SUFFIX, ForeignOffer, Offer, Terms
from duework.worker.wake.doorbell import Doorbell


class OfferBoard:
    """What the workers of one database file offer, as one process sees it."""

    def __init__(self, engine: Engine, doorbell: Doorbell) -> None:
        self._engine = engine
        self._doorbell = doorbell
        doorbell.on_clear_up = _take_down
        # The doorbell's list of others, by identity: it makes a new one whenever it reads the folder.
        self._listed: Sequence[str] = ()
        self._seen: dict[str, ForeignOffer] = {}

    def own(self, worker: int) -> Offer | None:
        """An offer for a worker of this process that listens; None if there can be none."""
        if (address := self._doorbell.address(worker)) is not None:
            with contextlib.suppress(OSError):
                return Offer(Path(address + SUFFIX))
        return None

    def hand_over(self, tx: Tx, new: NewJob) -> JobId | None:
        """Enqueue a job for a worker of another process that starts it at once; None without an offer."""
        if len(new.payload) > PAYLOAD_LIMIT or (offered := self.offered(new.lane)) is None:
            return None
        seen, number, terms = offered
        engine = self._engine
        job = enqueue_claimed(
            tx,
            new,
            terms.worker,
            lease_ms=terms.lease_ms,
            ids=engine.ids,
            lanes=engine.lanes,
            now=engine.clock_watch.checked_now_within(tx),
        )
        if job is None:
            return None
        tx.after_commit.append(partial(self.deliver, seen, seen.take(number, job)))
        return job.id

    def offered(self, lane: LaneName) -> tuple[ForeignOffer, int, Terms] | None:
        """The offer of another worker to start such a job at once; under the database's write lock."""
        for seen in self._look().values():
            if (found := seen.offered(lane)) is not None and self._doorbell.listens(seen.address):
                return seen, *found
        return None

    def deliver(self, taken: ForeignOffer, message: bytes) -> None:
        """Send a worker the job that was claimed for it; one that is not reached looks when it is rung."""
        if not self._doorbell.send(taken.address, message):
            self._doorbell.ring()

    def _look(self) -> dict[str, ForeignOffer]:
        """The offers of others; those seen before stay as they are: another thread may use them."""
        if (listed := self._doorbell.others()) is not self._listed:
            seen = {address: self._seen[address] for address in listed if address in self._seen}
            for address in listed:
                # A worker may have none, or one that is still empty: seen with the next list.
                if address not in seen:
                    with contextlib.suppress(OSError, ValueError):
                        seen[address] = ForeignOffer(address + SUFFIX)
            self._listed, self._seen = listed, seen
        return self._seen


def _take_down(address: str) -> None:
    """No process claims for a dead worker any more."""
    with contextlib.suppress(OSError, ValueError):
        ForeignOffer(address + SUFFIX).take_down()
