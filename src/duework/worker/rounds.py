"""A worker's dealings with the database: one transaction for all that ended and all that is wanted.

Everything here runs inside a transaction and is repeatable; nothing here knows how jobs are run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from duework.clock import FOREVER
from duework.codec import decode, encode
from duework.db.database import Tx
from duework.errors import DatabaseError
from duework.kernel.claim import Claim, ClaimRequest, admissible, claim
from duework.kernel.engine import Engine
from duework.kernel.error_text import describe
from duework.kernel.facts import LimitsDiffer
from duework.kernel.job import Claimed, Ending, Lease
from duework.kernel.lanes import JOBS, Lane
from duework.kernel.machine import processes
from duework.kernel.machine.clock_watch import TakeoverPause
from duework.kernel.machine.processes import Process
from duework.kernel.paces.admission import AddressedReport, PaceRules, bring_back
from duework.kernel.recover import Verdict, recover, release_all, to_cancel, uncharge_crash
from duework.kernel.settle import settle
from duework.worker.started import started, unsent

# Of a worker on another host nothing else is known.
_WORKING = {"alive", "elsewhere"}

# (job, fence, reason) of what is to be cancelled while it runs.
CancelOrder = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class Round:
    """One round with the database: what ended, what is wanted, which workers are known to be dead."""

    endings: list[Ending]
    want: ClaimRequest | None = None
    dead: tuple[int, ...] = ()
    uncharged: Sequence[Lease] = ()
    progress: Sequence[tuple[Any, ...]] = ()


@dataclass(frozen=True, slots=True)
class RoundResult:
    """What came of it, after the commit."""

    settled: Sequence[Ending | None]
    claim: Claim | None
    recovered: Sequence[Ending] = ()
    cancels: Sequence[CancelOrder] = ()
    workers: Sequence[Process] = ()


@dataclass(frozen=True, slots=True)
class Signals:
    """What a worker should know besides its lanes."""

    workers: list[Process]
    cancels: list[CancelOrder]
    # None also where it was not asked for.
    lease_end: int | None


@dataclass(frozen=True, slots=True)
class Look:
    """What can be seen without taking a lock."""

    lanes: list[Lane]
    # None if there is something to claim, which finds out by itself.
    signals: Signals | None = None


class Rounds:
    """The verbs of one worker's process."""

    def __init__(
        self,
        engine: Engine,
        process: Process,
        takeover_pause: TakeoverPause,
        hold_leases: Callable[[Sequence[Claimed]], None],
    ) -> None:
        self._engine = engine
        self._process = process
        self._takeover_pause = takeover_pause
        # Called with what was claimed, after the commit and before a caller is answered.
        self.hold_leases = hold_leases
        # Whether others can read in the database which process holds our leases: from the first claim on.
        self.known = False
        # Whether it is listed for people.
        self._listed = False
        # For how many steps back of the clock paces were corrected; -1: for none, not even before the start.
        self._brought_back = -1

    async def announce(self) -> None:
        """Be listed from the start on; if that cannot be written now, the first claim does."""
        with suppress(DatabaseError):
            await self._engine.writer.acall(self.announced, [None])

    def announced(self, tx: Tx, items: list[None]) -> Sequence[None]:
        """Write which process this is, and say where its limits are not those of another."""
        ours = self._engine.registry.limits()
        self._write_row(tx, ours)
        tx.after_commit.append(self._now_listed)
        for *row, limits in tx.query(JOBS.limits_of_others, {"id": self._process.id}):
            theirs, process = decode(limits), Process(*row)
            differ = [name for name in ours if theirs.get(name, ours[name]) != ours[name]]
            if differ and processes.verdict(process, near=self._engine.near) in _WORKING:
                emit = partial(self._differ, process, ours, theirs, differ)
                tx.after_commit.append(emit)
        return items

    def _write_row(self, tx: Tx, limits: dict[str, str]) -> None:
        tx.query(JOBS.worker_is, {**asdict(self._process), "limits": encode(limits)})

    def _differ(
        self, other: Process, ours: dict[str, str], theirs: dict[str, str], names: list[str]
    ) -> None:
        for each in names:
            fact = LimitsDiffer(each, ours[each], theirs[each], other.pid, other.host)
            self._engine.emit(fact)

    async def ask(self, round_: Round) -> RoundResult:
        """Have the writer take it."""
        return (await self._engine.writer.acall(self.settle_and_claim, [round_], patience=None))[0]

    def request(
        self, lease_ms: int, free: dict[str, int], queues: frozenset[str] | None, *, alone: int
    ) -> ClaimRequest:
        """What to ask for, with the limits and paces of this process's registry."""
        registry = self._engine.registry
        return ClaimRequest(
            self._process.id,
            lease_ms,
            registry.pools(),
            free,
            queues=queues,
            alone=alone,
            queue_limits=registry.queue_limits,
            task_limits=registry.task_limits(),
            renamed=registry.renamed,
            admission=PaceRules(registry.task_paces, registry.queue_paces),
            floor=self._engine.floor or 0,
            keep_failed=registry.keep_failed,
        )

    def look(self, want: ClaimRequest) -> Look:
        """Read whether there is something to claim, which is the quickest to see, and if not the rest."""
        engine = self._engine
        lanes = engine.lanes.seen(engine.database)
        if self._behind() or admissible(lanes, want, engine.clock.now()):
            return Look(lanes)
        with engine.database.reading() as tx:
            return Look(engine.lanes.all(tx), _signals(tx, self._process.id, leases=True))

    def cancels(self) -> list[CancelOrder]:
        """What this worker runs and is to be cancelled."""
        with self._engine.database.reading() as tx:
            return to_cancel(tx, self._process.id)

    def repair(self, tx: Tx, items: list[None]) -> Sequence[int]:
        """A text that cannot be read stops every claim: make it readable; its checksum then differs."""
        return [self._engine.database.repair(tx) for _ in items]

    def frees_others(self, settled: Sequence[Ending | None]) -> bool:
        """Whether what ended may have made something claimable, here or elsewhere."""
        limits = self._engine.registry
        if settled and (limits.queue_limits or limits.task_limits()):
            return True
        return any(
            ending is not None and (ending.linked or ending.kind not in {"done", "blocked"})
            for ending in settled
        )

    def settle_and_claim(self, tx: Tx, rounds: list[Round]) -> Sequence[RoundResult]:
        """Settle what ended and claim what is due, in one transaction."""
        return [self._settle_and_claim_one(tx, round_) for round_ in rounds]

    def _settle_and_claim_one(self, tx: Tx, round_: Round) -> RoundResult:
        engine = self._engine
        # Here, since it may have waited for this: no lease may be given, or written off, by a clock
        # that was set meanwhile.
        now = engine.clock_watch.checked_now_within(tx)
        take_over = not self._takeover_pause.ends_in()
        context = engine.settle_context(now)
        settled = settle(tx, round_.endings, context)
        if round_.endings:
            engine.minutes.ended(tx, settled, now)
        if engine.pruning.bring_forward(tx, settled, now):
            engine.ring_after(tx)
        if round_.uncharged:
            uncharge_crash(tx, round_.uncharged)
        if round_.progress:
            tx.bulk(JOBS.progress, round_.progress)
        if self.frees_others(settled):
            tx.hint("due")
        if round_.want is None:
            self._engine.apply_reports(tx, self.reports(tx, settled))
            return RoundResult(settled, None)
        # With endings it is likely that there is more to come, and leases are looked for by themselves.
        signals = _signals(tx, self._process.id, leases=not round_.endings)
        lease_end = None if round_.endings else signals.lease_end or FOREVER
        recovered = recover(
            tx,
            context,
            crashed=_verdicts(signals.workers, self._process.id, round_.dead, near=engine.near),
            immortal=engine.registry.immortal,
            dead=round_.dead,
            take_over=take_over and (lease_end is None or lease_end <= now),
        )
        self._forget_starts(tx, _unsent(recovered, signals.workers, near=engine.near))
        # Applied in the claim, which locks paces anyway: all of them at once, in one order.
        reports = self.reports(tx, settled)
        if self._behind() and self._bring_back(tx, now):
            # Not in the same transaction: it has lanes under lock, and paces come before them.
            engine.apply_reports(tx, reports)
            taken = Claim([], now, frozenset(), earlier=True)
        else:
            taken = claim(
                tx,
                round_.want,
                context,
                reports=reports,
                lease_end=None if recovered else lease_end,
            )
        if not taken.jobs:
            # Perhaps another worker was quicker: which one, and how to see it die, is known only now.
            signals = _signals(tx, self._process.id, leases=False)
        late = [ending for _, ending in taken.expired]
        if recovered or late:
            engine.minutes.written_off(tx, [*recovered, *late], now)
        self.after_claim(tx, taken, now)
        return RoundResult(settled, taken, recovered, signals.cancels, signals.workers)

    def _forget_starts(self, tx: Tx, jobs: list[int]) -> None:
        for forget_starts in self._engine.registry.forget_starts.values() if jobs else ():
            forget_starts(tx, jobs)

    def _behind(self) -> bool:
        """Whether a clock that was ahead, and was set back unseen, may have put off what paces admit."""
        engine = self._engine
        return bool(engine.registry.paces) and self._brought_back != engine.clock_watch.backs

    def _bring_back(self, tx: Tx, now: int) -> bool:
        backs = self._engine.clock_watch.backs
        stepped = backs > max(0, self._brought_back)
        tx.after_commit.append(partial(setattr, self, "_brought_back", backs))
        lanes, registry = self._engine.lanes.all(tx), self._engine.registry
        paces = (registry.task_paces, registry.queue_paces)
        return bring_back(tx, lanes, paces, stepped=stepped, now=now)

    def after_claim(self, tx: Tx, taken: Claim, now: int) -> None:
        """What is to be done once it has committed: keep the leases, be known, ring."""
        if taken.earlier:
            self._engine.ring_after(tx)
        if not taken.jobs:
            return
        self._engine.minutes.claimed(tx, taken.jobs, now)
        tx.after_commit.append(partial(self.hold_leases, taken.jobs))
        if not self.known:
            self._write_row(tx, self._engine.registry.limits())
            tx.after_commit.append(self._now_known)

    def reports(self, tx: Tx, settled: Sequence[Ending | None]) -> list[AddressedReport]:
        """For paces: how their jobs went, and what else was reported to them in this process."""
        registry = self._engine.registry
        if not registry.paces:
            return []
        report = [
            ending.report for ending in settled if ending is not None and ending.report is not None
        ]
        reports = [
            AddressedReport(row, pace, one.word, one.value)
            for one in report
            for row, pace in one.rows
        ]
        reports += [
            AddressedReport(name, registry.paces[name], "spent", spent)
            for ending in settled
            if ending is not None
            for name, *spent in ending.spent
        ]
        if said := list(registry.reports):
            # Kept until the commit: this may be undone and run again.
            tx.after_commit.append(lambda: registry.drop_reports(len(said)))
        return [*reports, *said]

    def farewell(self, tx: Tx, rounds: list[Round]) -> Sequence[None]:
        """The last round: settle what ended, and leave no trace of this process."""
        engine = self._engine
        for round_ in rounds:
            self._settle_and_claim_one(tx, round_)
            if self.known or self._listed:
                if release_all(tx, self._process.id, engine.settle_context()):
                    engine.ring_after(tx)
                tx.query(JOBS.worker_gone, {"id": self._process.id})
        return [None for _ in rounds]

    def _now_known(self) -> None:
        self.known = True

    def _now_listed(self) -> None:
        self._listed = True


def refused(ending: Ending, error: Exception) -> Ending:
    """What becomes of an attempt whose ending the database will not take."""
    if ending.fallback is not None:
        return ending.fallback(error).but(effects=(), watched=False)
    why = f"it could not be settled: {describe(error)}"
    return ending.but(kind="failed", result=None, error=why, effects=(), watched=False)


def _signals(tx: Tx, worker: int, *, leases: bool) -> Signals:
    workers: list[Process] = []
    cancels: list[CancelOrder] = []
    lease_end: int | None = None
    for what, number, text, *more in tx.query(JOBS.signals, {"worker": worker, "leases": leases}):
        if what == "worker":
            workers.append(Process(number, text, *more))
        elif what == "cancel":
            cancels.append((number, more[2], text))
        else:
            lease_end = number
    return Signals(workers, cancels, lease_end)


def _unsent(recovered: Sequence[Ending], workers: Sequence[Process], *, near: bool) -> list[int]:
    """Of leases that were written off, those whose send had begun and of which nothing had left.

    What a machine has noted is worth nothing after its end: only of a process that died alone.
    """
    died = {each.id for each in workers if processes.verdict(each, near=near) == "dead"}
    known = {worker: unsent(worker) for worker in died & {each.worker for each in recovered}}
    return sorted(each.id for each in recovered if each.id in known.get(each.worker, ()))


def _verdicts(workers: Sequence[Process], me: int, dead: Sequence[int], *, near: bool) -> Verdict:
    """Whether an attempt's process crashed under it, as far as is known here."""
    known = {process.id: process for process in workers}
    starts: dict[int, frozenset[int] | None] = {}

    def crashed(worker: int, job: int) -> bool:
        if worker == me:
            return False
        process = known.get(worker)
        fate = "dead" if process is None else processes.verdict(process, near=near)
        if fate == "rebooted":
            # That killed everything on the machine: no job's fault.
            return False
        if fate == "dead" or worker in dead:
            if worker not in starts:
                starts[worker] = started(worker)
            running = starts[worker]
            return running is None or job in running
        return fate == "elsewhere"

    return crashed
