"""What does a claim cost when a million jobs that cannot run now lie in front?"""

from __future__ import annotations

import time
from collections.abc import Sequence
from time import perf_counter
from typing import Any, Literal

from bench import fill
from bench.bed import Bed, worker_env
from bench.figures import Figure, at_most, percentile
from duework.clock import FOREVER
from duework.db.database import Tx
from duework.kernel.claim import ClaimRequest, claim

QUESTION = "What does a claim cost behind 1 M due jobs of a task that is unknown, paused or full?"
Reason = Literal["unknown", "paused", "full"]
REASONS: tuple[Reason, ...] = ("unknown", "paused", "full")
FIGURES = tuple(
    figure
    for reason in REASONS
    for figure in (
        Figure(f"head_{reason}_p99", f"claim behind 1 M {reason} jobs: p99", "ms", (at_most(2),)),
        Figure(f"head_{reason}_commit_p99", "the same with its commit: p99", "ms"),
    )
)

TAKE = 10
SET_LANE = "update duework_lane set due = :due where task = :task"
HOLD = """
update duework_job set worker = 1, fence = fence + 1, due = :until
where id = (select min(id) from duework_job where task = 'bench.other' and state = 'open'
            and worker is null)
"""
LET_GO = "update duework_job set worker = null, due = at where worker = 1"


def sample(bed: Bed) -> dict[str, float]:
    rows, claims = bed.scaled(1_000_000, 100_000), bed.scaled(500, 50)
    url = bed.once("head", lambda: _filled(bed, rows))
    told: dict[str, float] = {}
    for reason in REASONS:
        fill.ready(bed, url, claims * TAKE)
        taken = bed.child(measure, env=worker_env(url), reason=reason, claims=claims)
        told[f"head_{reason}_p99"] = percentile(taken["claim"], 0.99)
        told[f"head_{reason}_commit_p99"] = percentile(taken["commit"], 0.99)
    return told


def _filled(bed: Bed, rows: int) -> str:
    url = bed.sqlite()
    fill.lying(bed, url, rows, "head")
    return url


def measure(reason: Reason, claims: int) -> dict[str, list[float]]:
    """Claim ten at a time, as a worker with a few free slots does; what is claimed stays leased."""
    from bench.tasks import app, noop

    engine = app.wiring.engine
    inside: list[float] = []
    pools = {noop.name: "async"} | ({"bench.other": "async"} if reason != "unknown" else {})
    want = ClaimRequest(
        *(2, 3_600_000, pools, {"async": TAKE}),
        task_limits={"bench.other": 1} if reason == "full" else {},
    )

    def one(tx: Tx, items: list[Any]) -> Sequence[int]:
        begun = perf_counter()
        found = claim(
            *(tx, want),
            now=time.time_ns() // 1_000_000,
            lanes=engine.lanes,
            react=engine.react,
        )
        inside.append((perf_counter() - begun) * 1000)
        return [len(found.jobs) for _ in items]

    with app.transaction() as tx:
        tx.write(LET_GO)
        tx.write(SET_LANE, due=FOREVER if reason == "paused" else 0, task="bench.other")
        if reason == "full":
            tx.write(HOLD, until=time.time_ns() // 1_000_000 + 3_600_000)
    whole: list[float] = []
    for _ in range(claims):
        begun = perf_counter()
        [found] = engine.writer.call(one, [None])
        whole.append((perf_counter() - begun) * 1000)
        assert found == TAKE, f"{found} jobs claimed, not {TAKE}"
    with app.transaction() as tx:
        tx.write("delete from duework_job where worker = 2")
    app.close()
    return {"claim": inside, "commit": whole}
