"""Deterministic simulation: the real engine under a loop, a clock and a store that a seed decides.

`nodes.py` says what of it is real. Each seed is a little world of one to three workers and one or two
clients; in one of ten nothing goes wrong, so that what is normal is known too. Half of the worlds have one
host with one clock, as a file has; the others have hosts with clocks of their own and a server's time to
follow. A failing seed is run again by `python -m proof.simulation SEED`, and gives the same trace.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from duework.db.database import Tx
from duework.db.writer.attached import AttachedRequests
from duework.kernel.claim import Claim
from duework.worker.rounds import Rounds
from proof.plants import PLANTS, Plant
from proof.section import Result, Scale, Section
from proof.world import PATIENTLY, Folder, Outcome, run

SEEDS = {"short": 15, "full": 4000}
# How many seeds a planted bug may hide from.
HIDING = 200


# Planted in other sections: there is no server here, and everybody knows every task.
ELSEWHERE = {
    "a lost answer of the server is taken for a failed commit",
    "a worker takes what it does not know",
}


@contextlib.contextmanager
def _begun_all_the_same() -> Iterator[None]:
    """Its answer stays, and its lease was held before the commit."""
    after_claim = Rounds.after_claim

    def too_soon(self: Rounds, tx: Tx, taken: Claim, now: int) -> None:
        self.hold_leases(taken.jobs)
        after_claim(self, tx, taken, now)

    with (
        mock.patch.object(AttachedRequests, "undo"),
        mock.patch.object(Rounds, "after_claim", too_soon),
    ):
        yield


# Planted here only: a storm's commits do not fail in the processes of its workers.
OWN: dict[str, Plant] = {
    "what went along with a failed commit is begun all the same": _begun_all_the_same
}


def _seeds(result: Result, folder: Folder, first: int, count: int) -> None:
    totals: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    for seed in range(first, first + count):
        outcome = run(seed, folder)
        if outcome.unfinished:
            # A long line of jobs that run one at a time, perhaps.
            outcome = run(seed, folder, PATIENTLY)
        result.violations += [f"seed {seed}: {each}" for each in outcome.violations]
        totals.update(
            {
                "virtual seconds": int(outcome.seconds),
                "scheduled steps": outcome.steps,
                "jobs": outcome.jobs,
                "claims": outcome.claims,
                "enqueues that failed or are unknown": outcome.infos,
                "leases lost or handed over by a crash": outcome.lost,
                "claims that went along with an enqueue": outcome.along,
                "jobs handed over to another node": outcome.handed,
            }
        )
        faults.update(outcome.faults)
    result.counts |= {"seeds": count, **totals}
    result.counts["faults"] = sum(faults.values())
    result.counts |= {f"fault: {kind}": faults[kind] for kind in sorted(faults)}
    result.floors = {"seeds": count, "jobs": 10 * count, "claims": 12 * count, "faults": 5 * count}
    result.floors["claims that went along with an enqueue"] = 2 * count
    result.floors["jobs handed over to another node"] = count // 4
    commits = [kind for kind in faults if kind.startswith("commit failed")]
    if len(commits) < 4:
        result.violations.append(f"not every kind of failed commit was met: {sorted(commits)}")


def _replay(result: Result, outcome: Outcome) -> None:
    """The same seed in two other processes, whose sets and dictionaries are hashed differently."""
    here = Path(__file__).resolve().parents[1]
    traces = {outcome.trace}
    for hashing in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-m", "proof.simulation", str(outcome.seed)],
            cwd=here,
            env={**os.environ, "PYTHONHASHSEED": hashing, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        traces.add((done.stdout or done.stderr).split()[0])
    result.counts["replayed seed"] = outcome.seed
    result.counts["its trace"] = outcome.trace
    if len(traces) > 1:
        result.violations.append(f"seed {outcome.seed} gave {len(traces)} traces: {traces}")


def _plants(result: Result, folder: Folder, seeds: range) -> None:
    for name, plant in {**PLANTS, **OWN}.items():
        if name in ELSEWHERE:
            continue
        found = next((seed for seed in seeds if _shows(plant, seed, folder)), None)
        result.planted[name] = found is not None
        if found is not None:
            with plant():
                why = run(found, folder).violations[0]
            result.notes.append(f"{name}: found by seed {found} ({why.split()[0]})")


def _shows(plant: Plant, seed: int, folder: Folder) -> bool:
    """Whether a seed is clean without the bug, and not with it."""
    with plant():
        found = run(seed, folder).violations
    return bool(found) and not run(seed, folder).violations


def simulate(scale: Scale, seed: int) -> Result:
    """Run seeds, replay one, plant bugs."""
    result = Result(seed)
    folder = Folder()
    try:
        _seeds(result, folder, seed, SEEDS[scale])
        _replay(result, run(seed, folder))
        _plants(result, folder, range(seed, seed + HIDING))
    finally:
        folder.close()
    result.notes.append(
        "A small world: at most three workers and thirty jobs. Threads, processes, sockets and"
        " PostgreSQL are not simulated; the storms have them."
    )
    return result


SECTION = Section(
    "simulation",
    "Deterministic simulation",
    "Under crashes, pauses longer than a lease, partitions, clock steps and commits that fail before"
    " and after they happened, nothing that was acknowledged is lost and no effect happens twice;"
    " when the faults end, all work ends. A seed always gives the same trace.",
    simulate,
)


def main() -> None:
    """Print the trace of one seed, and with `-v` what happened."""
    folder = Folder()
    try:
        outcome = run(int(sys.argv[1]), folder)
    finally:
        folder.close()
    lines = [outcome.trace, *outcome.violations]
    if "-v" in sys.argv:
        lines += outcome.log
    sys.stdout.write("\n".join(lines) + "\n")
    asyncio.set_event_loop(None)


if __name__ == "__main__":
    main()
