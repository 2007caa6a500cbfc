"""The invariants of a history: what must hold however workers died, paused or were cut off.

`check` returns one line for each violation, with the number of the invariant. The numbers are those of
the list in PROOF.md: I1 nothing acknowledged is lost · I2 nothing comes from nowhere · I3 one lease at a
time, fences count up · I4 no effect by somebody whose lease is over · I5 effects once · I6 no run after
the end · I7 a second run has a reason · I8 no more attempts than allowed, none too early · I10 one open
job per key · I15 limits hold · I16 first come, first served · I17 money is neither made nor lost.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import groupby

from proof.history import Change, History
from proof.tasks import ACCOUNTS, LIMIT, NARROW, RETRIES, START_BALANCE, STEP

# So many of one kind are named; the rest is counted.
SAMPLE = 3
# Tasks that leave an effect when they are done.
WITH_EFFECT = {"plain", "flaky", "dozy", "chain", "transfer", "limited"}
CHECKS = 12


def check(history: History) -> list[str]:
    """Every violation, a few of each kind."""
    checks = (
        *(_lost, _from_nowhere, _leases, _stale_effects, _effects_once, _after_the_end, _reasons),
        *(_retries, _keys, _limits, _order, _money),
    )
    return [line for each in checks for line in sampled(list(each(history)))]


def sampled(lines: list[str], sample: int = SAMPLE) -> list[str]:
    """The first violations of a kind, and how many more there are."""
    more = len(lines) - sample
    return [
        *lines[:sample],
        *([f"{lines[0].split()[0]} and {more} more like that"] if more > 0 else ()),
    ]


def _lost(h: History) -> Iterator[str]:
    for op in h.ops:
        if op.kind == "ok" and op.job not in h.jobs:
            yield f"I1 job {op.job} (n {op.n}) was acknowledged and is not there"
    for job in h.jobs.values():
        if job.state == "open":
            yield f"I1 {job.task} {job.id} (n {job.n}) did not end"


def _from_nowhere(h: History) -> Iterator[str]:
    asked = {op.n: op for op in h.ops}
    counts: Counter[int] = Counter()
    done = {job.n for job in h.jobs.values() if job.state == "done"}
    for job in h.jobs.values():
        counts[job.n] += 1
        if job.n >= STEP:
            if job.n - STEP not in done:
                yield f"I2 {job.task} {job.id} follows n {job.n - STEP}, which is not done"
        elif job.n not in asked:
            yield f"I2 {job.task} {job.id} (n {job.n}) was never asked for"
        elif asked[job.n].kind == "fail":
            yield f"I2 {job.task} {job.id} (n {job.n}) is there, and surely failed to be enqueued"
    for n, count in counts.items():
        if count > 1:
            yield f"I2 n {n} was asked for once and is there {count} times"


def _leases(h: History) -> Iterator[str]:
    for change in h.changes:
        if change.state == "effect":
            continue
        if change.is_claim:
            if change.was_worker is not None:
                yield f"I3 job {change.job} was claimed at fence {change.was_fence} while it was held"
            if change.fence != change.was_fence + 1:
                yield f"I3 the fence of {change.job} went from {change.was_fence} to {change.fence}"
        elif change.fence != change.was_fence and change.was_state:
            yield f"I3 the fence of {change.job} was changed by somebody who did not claim it"


def _stale_effects(h: History) -> Iterator[str]:
    holding: dict[int, int | None] = {}
    settled: dict[int, int | None] = {}
    for change in h.changes:
        if change.state == "effect":
            current = holding.get(change.job)
            # The row goes before its effects: it was settled by this fence, and by no other since.
            if change.fence not in {current, settled.get(change.job)}:
                yield (
                    f"I4 an effect of job {change.job} at fence {change.fence} committed while the"
                    f" fence that held was {current}"
                )
        elif change.worker is None:
            holding[change.job] = None
            settled[change.job] = change.fence
        else:
            holding[change.job] = change.fence
            settled[change.job] = None


def _effects_once(h: History) -> Iterator[str]:
    effects = Counter(change.job for change in h.changes if change.state == "effect")
    for job in h.jobs.values():
        wanted = int(job.state == "done" and job.task in WITH_EFFECT)
        if effects[job.id] != wanted:
            yield f"I5 {job.task} {job.id} is {job.state} and has {effects[job.id]} effects"
    for stranger in effects.keys() - h.jobs.keys():
        yield f"I5 there is an effect of a job {stranger} that is not there"


def _after_the_end(h: History) -> Iterator[str]:
    claims = {(c.job, c.fence) for c in h.changes if c.state != "effect" and c.is_claim}
    for change in h.changes:
        # One that is handed over is claimed as it is made.
        if change.is_claim and change.was_state not in {"open", ""}:
            yield f"I6 job {change.job} was {change.was_state} and was claimed all the same"
        if change.was_state in {"done", "failed", "cancelled"} and change.state != change.was_state:
            yield f"I6 job {change.job} went from {change.was_state} to {change.state}"
    starts = Counter((note["job"], note["fence"]) for note in h.notes if note["what"] == "start")
    for (job, fence), count in starts.items():
        if (job, fence) not in claims:
            yield f"I6 job {job} ran with fence {fence}, which nobody was given"
        if count > 1:
            yield f"I6 job {job} was started {count} times with one fence"


def _reasons(h: History) -> Iterator[str]:
    snoozed = {(n["job"], n["fence"]) for n in h.notes if n["what"] == "snooze"}
    for change in h.changes:
        if not (change.is_end and change.state == "open"):
            continue
        lease = (change.job, change.was_fence)
        outcome = h.attempts.get(lease, ("", None))[0]
        if outcome in {"retry", "failed"} or lease in snoozed:
            continue
        # Handed back, lost or crashed: only where somebody was killed, stopped or cut off.
        if not h.disturbed:
            why = outcome or "no word"
            yield f"I7 job {change.job} runs again after fence {change.was_fence} with {why}"


def _retries(h: History) -> Iterator[str]:
    failures: Counter[int] = Counter()
    alone: Counter[int] = Counter()
    for (number, _), (outcome, _) in h.attempts.items():
        failures[number] += outcome in {"retry", "failed"}
        # A charge that was taken back after the job had settled is a loss in the list only.
        alone[number] += outcome in {"crashed alone", "lost"}
    for job in h.jobs.values():
        if job.failures > RETRIES.get(job.task, 0) + 1:
            yield f"I8 {job.task} {job.id} failed {job.failures} times"
        if failures[job.id] != job.failures:
            yield f"I8 {job.task} {job.id} counts {job.failures} failures of {failures[job.id]}"
        if job.crashes > alone[job.id]:
            yield f"I8 {job.task} {job.id} counts {job.crashes} crashes of {alone[job.id]}"
    for change in h.changes:
        # The lease's end tells the time of the claim.
        if change.is_claim and change.was_due > change.due - h.lease:
            yield f"I8 job {change.job} was claimed before it was due"


def _keys(h: History) -> Iterator[str]:
    holder: dict[tuple[str | None, str], int] = {}
    for change in h.changes:
        if change.key is None:
            continue
        name = (change.task, change.key)
        if change.state == "open":
            other = holder.setdefault(name, change.job)
            if other != change.job:
                yield f"I10 jobs {other} and {change.job} are both open with key {change.key}"
        elif holder.get(name) == change.job:
            del holder[name]
    for op in h.ops:
        if op.kind == "ok" and op.key is not None and op.job in h.jobs:
            found = h.jobs[op.job].key
            if found != op.key:
                yield f"I10 who asked for key {op.key} was given job {op.job} of key {found}"


def _limits(h: History) -> Iterator[str]:
    narrow = {job.id for job in h.jobs.values() if job.queue == NARROW}
    held: set[int] = set()
    for change in h.changes:
        if change.job not in narrow or change.state == "effect":
            continue
        if change.worker is None:
            held.discard(change.job)
        else:
            held.add(change.job)
            if len(held) > LIMIT:
                yield f"I15 {len(held)} jobs of a queue for {LIMIT} were held at change {change.seq}"


def _order(h: History) -> Iterator[str]:
    """Whoever is claimed was first of its lane; where rows are skipped under lock, nobody can say."""
    if not h.ordered:
        return
    waiting: dict[int, tuple[int, int]] = {}
    heaps: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for _, group in groupby(h.changes, key=_batch):
        batch = list(group)
        first = batch[0]
        if first.state == "effect":
            continue
        for change in batch:
            waiting.pop(change.job, None)
            if change.worker is None and change.state == "open":
                waiting[change.job] = (change.lane, change.due)
                heapq.heappush(heaps[change.lane], (change.due, change.job))
        if first.is_claim:
            last = max((change.was_due, change.job) for change in batch)
            heap = heaps[first.lane]
            while heap and waiting.get(heap[0][1]) != (first.lane, heap[0][0]):
                heapq.heappop(heap)
            if heap and heap[0] < last:
                yield f"I16 job {last[1]} was claimed before {heap[0][1]}, which was due before"


def _batch(change: Change) -> tuple[object, ...]:
    """Claims of one statement: the same worker, lane and lease; everything else stands alone."""
    if change.state != "effect" and change.is_claim:
        return (change.worker, change.lane, change.due)
    return (change.seq,)


def _money(h: History) -> Iterator[str]:
    right = ACCOUNTS * START_BALANCE
    for seen in [*h.balances, h.balance]:
        if seen != right:
            yield f"I17 the accounts added up to {seen}, not {right}"
