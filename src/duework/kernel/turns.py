"""A worker's dealings with the database: one transaction for all that ended and all that is wanted.

Everything here runs inside a transaction and is repeatable; nothing here knows how jobs are run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from duework.clock import FOREVER
from duework.db.database import Tx
from duework.kernel import liveness
from duework.kernel.admission import Note
from duework.kernel.claim import (
    Claim,
    Verdict,
    Want,
    admissible,
    claim,
    claim_made,
    claimed_for,
    excuse,
    let_go,
    marked,
    recover,
)
from duework.kernel.engine import Engine
from duework.kernel.job import Claimed, Ending
from duework.kernel.lanes import Lane, Q
from duework.kernel.ledger import started
from duework.kernel.liveness import Process
from duework.kernel.offers import Offer
from duework.kernel.report import describe
from duework.kernel.settle import settle
from duework.kernel.steps import Hold

# (job, fence, reason) of what is to be cancelled while it runs.
Mark = tuple[int, int, str]
# What a worker takes, and what it offers to others.
Search = tuple[Want, Offer]
# Which offers were taken, and what came of that.
Found = tuple[Sequence[int], list[Claimed]]


@dataclass(frozen=True, slots=True)
class Turn:
    """One round with the database: what ended, what is wanted, who is known to be dead."""

    endings: list[Ending]
    want: Want | None = None
    dead: tuple[int, ...] = ()
    excused: Sequence[tuple[int, int]] = ()
    progress: Sequence[tuple[Any, ...]] = ()


@dataclass(frozen=True, slots=True)
class TurnResult:
    """What came of it, after the commit."""

    settled: Sequence[Ending | None]
    claim: Claim | None
    recovered: Sequence[Ending] = ()
    marks: Sequence[Mark] = ()
    workers: Sequence[Process] = ()


@dataclass(frozen=True, slots=True)
class Beside:
    """What a worker should know besides its lanes."""

    workers: list[Process]
    marks: list[Mark]
    # None also where it was not asked for.
    lease_end: int | None


@dataclass(frozen=True, slots=True)
class Look:
    """What can be seen without taking a lock."""

    lanes: list[Lane]
    # None if there is something to claim, which finds out by itself.
    beside: Beside | None = None


class Turns:
    """The verbs of one worker's process."""

    def __init__(self, engine: Engine, process: Process, hold: Hold) -> None:
        self._engine = engine
        self._process = process
        self._hold = hold
        # Whether others can read in the database who holds our leases.
        self.known = False
        # One object each, so that the writer can tell requests of the same verb.
        self.take: Callable[[Tx, list[Turn]], Sequence[TurnResult]] = self._take
        self.grab: Callable[[Tx, list[Want]], Sequence[Claim]] = self._grab
        self.farewell: Callable[[Tx, list[Turn]], Sequence[None]] = self._farewell
        self.find: Callable[[Tx, list[Search]], Sequence[Found]] = self._find

    async def ask(self, turn: Turn) -> TurnResult:
        """Have the writer take it."""
        return (await self._engine.writer.acall(self.take, [turn], patience=None))[0]

    def look(self, want: Want) -> Look:
        """Read whether there is something to claim, which is the quickest to tell, and if not the rest."""
        engine = self._engine
        lanes = engine.lanes.seen(engine.database)
        if admissible(lanes, want, engine.clock.now()):
            return Look(lanes)
        with engine.database.reading() as tx:
            return Look(engine.lanes.all(tx), _beside(tx, self._process.id, leases=True))

    def marks(self) -> list[Mark]:
        """What this worker runs and somebody wants cancelled."""
        with self._engine.database.reading() as tx:
            return marked(tx, self._process.id)

    def mend(self, tx: Tx, items: list[None]) -> Sequence[int]:
        """A text that cannot be read stops every claim: make it readable, its checksum will tell."""
        return [self._engine.database.mend(tx) for _ in items]

    def frees_others(self, settled: Sequence[Ending | None]) -> bool:
        """Whether what ended may have made something claimable, here or elsewhere."""
        limits = self._engine.registry
        if settled and (limits.queue_limits or limits.task_limits()):
            return True
        return any(
            ending is not None and (ending.linked or ending.kind != "done") for ending in settled
        )

    def _take(self, tx: Tx, turns: list[Turn]) -> Sequence[TurnResult]:
        return [self._take_one(tx, turn) for turn in turns]

    def _take_one(self, tx: Tx, turn: Turn) -> TurnResult:
        engine = self._engine
        # Here, since it may have waited for this: no lease may be given, or written off, by a clock
        # that was set meanwhile.
        now = engine.steps.steady_within(tx)
        take_over = not self._hold.ends_in()
        settled = settle(tx, turn.endings, now=now, lanes=engine.lanes, react=engine.react)
        if turn.excused:
            excuse(tx, turn.excused)
        if turn.progress:
            tx.bulk(Q.progress, turn.progress)
        if self.frees_others(settled):
            tx.hint("due")
        if turn.want is None:
            self._engine.hear(tx, self._notes(tx, settled))
            return TurnResult(settled, None)
        # With endings it is likely that there is more to come, and leases are looked for by themselves.
        beside = _beside(tx, self._process.id, leases=not turn.endings)
        lease_end = None if turn.endings else beside.lease_end or FOREVER
        recovered = recover(
            tx,
            now=now,
            lanes=engine.lanes,
            react=engine.react,
            crashed=_verdicts(beside.workers, self._process.id, turn.dead),
            immortal=engine.registry.immortal,
            dead=turn.dead,
            take_over=take_over and (lease_end is None or lease_end <= now),
        )
        # Heard in the claim, which locks paces anyway: all of them at once, in one order.
        notes = self._notes(tx, settled)
        taken = claim(
            *(tx, turn.want),
            now=now,
            lanes=engine.lanes,
            react=engine.react,
            notes=notes,
            lease_end=None if recovered else lease_end,
        )
        if not taken.jobs:
            # Perhaps somebody was quicker: who that is, and how to see it die, is known only now.
            beside = _beside(tx, self._process.id, leases=False)
        self._after_claim(tx, taken)
        return TurnResult(settled, taken, recovered, beside.marks, beside.workers)

    def _grab(self, tx: Tx, wanted: list[Want]) -> Sequence[Claim]:
        """Claim and no more: what else there is to know, whoever wanted it looks up afterwards."""
        now = self._engine.steps.steady_within(tx)
        claims: list[Claim] = []
        for want in wanted:
            taken = self._grab_made(tx, want, now) or self._grab_any(tx, want, now)
            self._after_claim(tx, taken)
            claims.append(taken)
        return claims

    def _grab_made(self, tx: Tx, want: Want, now: int) -> Claim | None:
        """The job that the transaction has made; by far the quickest way to it."""
        if tx.made is None:
            return None
        lane = self._engine.lanes.name(tx, tx.made.lane)
        job = claim_made(tx, want, tx.made, lane, now=now)
        return None if job is None else Claim([job], now, frozenset())

    def _find(self, tx: Tx, searches: list[Search]) -> Sequence[Found]:
        """What others have claimed for this worker and could not hand over."""
        found: list[Found] = []
        for want, offer in searches:
            owed = offer.owed()
            jobs = claimed_for(tx, want, list(owed.values()), self._engine.lanes)
            found.append((list(owed), jobs))
        return found

    def _grab_any(self, tx: Tx, want: Want, now: int) -> Claim:
        lanes, react = self._engine.lanes, self._engine.react
        # What a pace was told before, it has to know.
        notes = self._notes(tx, ())
        return claim(tx, want, now=now, lanes=lanes, react=react, notes=notes, along=True)

    def _after_claim(self, tx: Tx, taken: Claim) -> None:
        if taken.earlier:
            self._engine.ring_after(tx)
        if taken.jobs and not self.known:
            tx.query(Q.worker_is, asdict(self._process))
            tx.after_commit.append(self._now_known)

    def _notes(self, tx: Tx, settled: Sequence[Ending | None]) -> list[Note]:
        """For paces: how their jobs went, and what else they were told in this process."""
        registry = self._engine.registry
        if not registry.paces:
            return []
        told = [ending.told for ending in settled if ending is not None and ending.told is not None]
        notes = [Note(row, pace, one.word, one.value) for one in told for row, pace in one.rows]
        if said := list(registry.notes):
            # Kept until the commit: this may be undone and run again.
            tx.after_commit.append(lambda: registry.drop_notes(len(said)))
        return [*notes, *said]

    def _farewell(self, tx: Tx, turns: list[Turn]) -> Sequence[None]:
        """The last turn: settle what ended, and leave no trace of this process."""
        engine = self._engine
        for turn in turns:
            self._take_one(tx, turn)
            if self.known:
                now, mine = engine.clock.now(), self._process.id
                if let_go(tx, mine, now=now, lanes=engine.lanes, react=engine.react):
                    engine.ring_after(tx)
                tx.query(Q.worker_gone, {"id": self._process.id})
        return [None for _ in turns]

    def _now_known(self) -> None:
        self.known = True


def refused(ending: Ending, error: Exception) -> Ending:
    """What becomes of an attempt whose ending the database will not take."""
    if ending.fallback is not None:
        return ending.fallback(error).but(effects=(), watched=False)
    why = f"it could not be settled: {describe(error)}"
    return ending.but(kind="failed", result=None, error=why, effects=(), watched=False)


def _beside(tx: Tx, worker: int, *, leases: bool) -> Beside:
    workers: list[Process] = []
    marks: list[Mark] = []
    lease_end: int | None = None
    for what, number, text, *more in tx.query(Q.beside, {"worker": worker, "leases": leases}):
        if what == "worker":
            workers.append(Process(number, text, *more))
        elif what == "mark":
            marks.append((number, more[2], text))
        else:
            lease_end = number
    return Beside(workers, marks, lease_end)


def _verdicts(workers: Sequence[Process], me: int, dead: Sequence[int]) -> Verdict:
    """Whether an attempt's process crashed under it, as far as can be told from here."""
    known = {process.id: process for process in workers}
    ledgers: dict[int, frozenset[int] | None] = {}

    def crashed(worker: int, job: int) -> bool:
        if worker == me:
            return False
        process = known.get(worker)
        fate = "dead" if process is None else liveness.verdict(process)
        if fate == "rebooted":
            # That killed everything on the machine: nobody's fault.
            return False
        if fate == "dead" or worker in dead:
            if worker not in ledgers:
                ledgers[worker] = started(worker)
            running = ledgers[worker]
            return running is None or job in running
        return fate == "elsewhere"

    return crashed
