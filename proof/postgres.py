"""PostgreSQL is stopped at once and started again, in a loop, under load.

Workers and enqueuers live on. A COMMIT whose answer is lost with the server may or may not have happened;
the engine looks for the mark that the transaction left. How often that was needed, and what was found, the
programs note.
"""

from __future__ import annotations

import time
from collections import Counter

from duework import App
from proof import tasks
from proof.plants import PLANTS
from proof.section import Result, Scale, Section
from proof.storms import BACKLOG, Storm, counted, storm
from tests.support.postgres import Server, server
from tests.support.proxy import proxy

PLANT = "a lost answer of the server is taken for a failed commit"
ROUNDS = {"short": 2, "full": 150}
DRAINED_WITHIN = 90.0


def _restart(this: Storm, own: Server) -> None:
    this.look()
    own.stop("immediate")
    this.faults["immediate stops"] += 1
    time.sleep(this.rng.uniform(0, 0.5))
    own.start()


def _one(result: Result, own: Server, name: str, rounds: int, **env: str) -> list[str]:
    """The violations; the rest goes into the result."""
    with storm(own.create_database(name), result.seed, **env) as this:
        workers = [this.start() for _ in range(2)]
        for _ in range(3):
            this.load(0.02)
        this.begun()
        for _ in range(rounds):
            time.sleep(this.rng.uniform(0.2, 1.5))
            _restart(this, own)
        this.quiet()
        violations = []
        if not this.drained(DRAINED_WITHIN):
            violations.append(f"{this.open_jobs()} jobs did not end")
        if any(worker.poll() is not None for worker in workers):
            violations.append("a worker gave up")
        history, more = this.judge()
        decided = Counter(n["found"] for n in history.notes if n["what"] == "decided")
        result.counts |= counted(history, this.faults)
        result.counts |= {
            "commits without an answer": sum(decided.values()),
            "of these found to have happened": decided["happened"],
            "of these found not to": decided["did not happen"],
            "of these left unknown": decided["unknown"],
        }
    return [*violations, *more]


def _jobs_after_a_cut(url: str) -> int:
    """How many jobs there are after one was enqueued, and the answer to its COMMIT was lost."""
    with proxy(url) as between:
        app = App(between.url)
        try:
            plain = tasks.define(app)["plain"]
            app.paused()
            between.cut_at("after commit")
            plain.enqueue(1, 0.0)
            assert between.cuts == 1, "it was cut"
            return len(app.jobs(task="plain"))
        finally:
            app.close()


def restarts(scale: Scale, seed: int) -> Result:
    """Restart under load; then the same with a bug."""
    result = Result(seed)
    with server() as own:
        result.violations += _one(
            result, own, "restarts", ROUNDS[scale], PROOF_BACKLOG=BACKLOG[scale]
        )
        counts = dict(result.counts)
        if _jobs_after_a_cut(own.create_database("cut")) != 1:
            result.violations.append("a job is there twice after the answer to its COMMIT was lost")
        with PLANTS[PLANT]():
            result.planted[PLANT] = _jobs_after_a_cut(own.create_database("planted")) != 1
        if scale == "full":
            # Only an enqueue shows it, and few of the commits that are lost are one.
            tries = (_one(result, own, f"planted{n}", 40, PROOF_PLANT=PLANT) for n in range(6))
            result.planted[f"{PLANT}, under load"] = any(tries)
            result.counts = counts
    full = scale == "full"
    result.floors = {
        "jobs acknowledged": 500 if full else 10,
        "jobs done": 300 if full else 3,
        "immediate stops": ROUNDS[scale],
        **({"commits without an answer": 5} if full else {}),
    }
    return result


SECTION = Section(
    "postgres",
    "PostgreSQL stopped at once and restarted under load",
    "No acknowledged job is lost and no effect happens twice when the server is stopped with"
    " `immediate` and recovers, also where the answer to a COMMIT was lost; workers need no restart.",
    restarts,
)
