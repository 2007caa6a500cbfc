"""Pruning: what one run of the engine's own job deletes, and when it is due again.

It is due when the first retention ends. The settle of a job that is kept for less than an hour brings it
forward, unless it is due before that already; and the run itself looks at the rows that end next. It does not
run for each of them: a row may stay for a sixtieth of its retention longer, for a second at least and an hour
at most. Where nothing ends it runs once an hour, so that an idle engine stays idle.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from duework.db.database import Tx
from duework.db.queries import load
from duework.kernel import operate
from duework.kernel.counters import SettleContext
from duework.kernel.job import DAY, Ending
from duework.kernel.lanes import JOBS
from duework.kernel.operate import CHUNK

if TYPE_CHECKING:
    from duework.kernel.engine import Engine

PRUNING = load("duework.kernel", "pruning")

PRUNE_TASK = "duework.prune"
PRUNE_KEY = "prune"
PRUNE_EVERY_MS = 3_600_000
# Between two runs, at least; and what a row may stay for longer, as a part of its retention.
LEAST_MS = 1000
SLACK = 60
# Of so many rows that end next, a run looks how soon they want the next one.
SAMPLE = 100


class Pruning:
    """When the job that prunes is due at the latest, as far as this process knows."""

    def __init__(self) -> None:
        self._due = 0

    def bring_forward(self, tx: Tx, settled: Sequence[Ending | None], now: int) -> bool:
        """Let it be due when the first of these retentions ends; whether it had to be moved."""
        ends = [now + max(_short(ending), LEAST_MS) for ending in settled if _short(ending)]
        # What was known of it is over as soon as it may have run.
        if not ends or now < self._due <= min(ends):
            return False
        # One that runs, or that others have under lock, looks by itself: then with the next settle.
        for identifier, due in tx.query(
            PRUNING.waiting_by_key, {"task": PRUNE_TASK, "key": PRUNE_KEY}
        ):
            known = min(due, *ends)
            tx.after_commit.append(partial(setattr, self, "_due", known))
            if known < due:
                tx.query(PRUNING.keep_until, {"id": identifier, "due": known})
                return True
        return False


def _short(ending: Ending | None) -> int:
    """How long it is kept, if the hourly run would come late for it; else 0."""
    if ending is None or ending.kind not in {"done", "failed", "cancelled"}:
        return 0
    keep = ending.keep or 0
    return keep if keep < PRUNE_EVERY_MS else 0


def prune(tx: Tx, context: SettleContext, *, chunk: int = CHUNK) -> int:
    """Delete a chunk of settled rows whose retention has ended; returns the most of one kind."""
    now = context.now
    found: dict[int, int | None] = {}
    for identifier, state, batch in tx.query(PRUNING.over, {"now": now, "wanted": chunk}):
        if state == "failed" and tx.query(JOBS.waiting_for, {"job": identifier}):
            # It may be revived and done yet; without it, what waits would do so for ever.
            tx.query(PRUNING.keep_until, {"id": identifier, "due": now + DAY})
        else:
            found[identifier] = batch
    if found:
        operate.delete_settled(tx, found, context)
    once = tx.query(PRUNING.delete_once, {"now": now, "wanted": chunk})
    return max(len(found), len(once))


def prune_round(engine: Engine, chunks: int) -> int:
    """Delete settled rows whose retention is over, a small transaction each; the chunks it took."""

    def chunk(tx: Tx, items: list[None]) -> Sequence[int]:
        context = engine.settle_context()
        # Jobs first: a batch is forgotten once the last of its members is.
        most = prune(tx, context)
        for forget in engine.forgets:
            most = max(most, forget(tx, now=context.now, chunk=CHUNK))
        return [most for _ in items]

    for done in range(1, chunks + 1):
        if engine.writer.call(chunk, [None], patience=None)[0] < CHUNK:
            return done
    return chunks


def wait_ms(engine: Engine) -> int:
    """How long until there is enough to prune again."""
    rows = engine.database.ask(PRUNING.over_next, {"wanted": SAMPLE})
    now = engine.clock.now()
    times: list[int] = [max(due - now, _spacing(due - settled)) for due, settled in rows]
    return min([PRUNE_EVERY_MS, *times])


def _spacing(keep: int) -> int:
    return max(keep // SLACK, LEAST_MS)
