"""Storms: real workers that are killed, stopped and terminated at random while others enqueue."""

from __future__ import annotations

import time

from proof.section import Result, Scale, Section
from proof.storms import BACKLOG, LEASE_MS, Storm, counted, storm
from tests.support.postgres import server

SECONDS = {"short": 3.0, "full": 240.0}
# The planted ones are met on purpose: a storm of one kind, in which it must show.
PLANTED = {
    "short": ("a settle does not look at the fence",),
    "full": (
        "a settle does not look at the fence",
        "a limit counts only this process",
        "leases are not extended",
    ),
}
LEAST = {"short": 10, "full": 500}
DRAINED_WITHIN = 90.0


def disturb(this: Storm, workers: int, seconds: float, least: int) -> None:
    """Something happens to somebody a few times in a second, until enough has happened."""
    rng = this.rng
    running = [this.start() for _ in range(workers)]
    loads = [this.load(0.05) for _ in range(2)]
    this.begun()
    end = time.monotonic() + seconds
    while time.monotonic() < end or not _enough(this, least):
        if time.monotonic() > end + 90:
            break
        time.sleep(rng.uniform(0.05, 0.8))
        this.wake()
        this.look()
        worker = rng.choice(running)
        ready = this.at_work(worker)
        match rng.choice(["kill", "kill", "stop", "stop", "terminate", "load"]):
            case "kill" if ready:
                this.kill(worker)
            case "stop" if ready:
                this.stop(worker, rng.uniform(0.1, 2.5 * LEASE_MS / 1000))
            case "terminate" if ready:
                this.terminate(worker)
            case "load" if this.acknowledged() > least:
                load = rng.randrange(len(loads))
                this.kill(loads[load], "enqueuer killed")
                loads[load] = this.load(0.05)
        for number, worker in enumerate(running):
            if worker.poll() is not None:
                running[number] = this.start()


def _enough(this: Storm, least: int) -> bool:
    met = {"kill -9", "stopped for longer than a lease"} <= set(this.faults)
    return met and this.acknowledged() >= least


def _one(result: Result, url: str | None, label: str, scale: Scale) -> None:
    with storm(url, result.seed, PROOF_BACKLOG=BACKLOG[scale]) as this:
        disturb(this, 2 if scale == "short" else 3, SECONDS[scale], LEAST[scale])
        this.quiet()
        if not this.drained(DRAINED_WITHIN):
            result.violations.append(f"{label}: {this.open_jobs()} jobs did not end")
        history, violations = this.judge()
        result.violations += [f"{label}: {each}" for each in violations]
        result.counts |= {f"{label}: {k}": v for k, v in counted(history, this.faults).items()}
    least = LEAST[scale]
    result.floors |= {
        f"{label}: jobs acknowledged": least,
        f"{label}: claims": least,
        f"{label}: kill -9": 1 if scale == "short" else 50,
        f"{label}: stopped for longer than a lease": 1 if scale == "short" else 20,
    }


def _planted(result: Result, name: str, url: str | None) -> bool:
    """Two workers, one of which stands still until the other has taken over."""
    with storm(url, result.seed, PROOF_PLANT=name) as this:
        this.load(0.02)
        first, _ = this.start(), this.start()
        this.begun()
        # Whether it has something in hand whenever it is stopped is a matter of luck.
        for _ in range(12):
            this.stop(first, 2.5 * LEASE_MS / 1000)
            time.sleep(2.6 * LEASE_MS / 1000)
            this.wake(everybody=True)
            time.sleep(0.5)
            if this.seen_wrong():
                return True
        this.quiet()
        this.drained(20)
        return bool(this.judge()[1])


def rage(scale: Scale, seed: int) -> Result:
    """A storm on each database, and bugs that it must find."""
    result = Result(seed)
    with server() as own:
        for label, url in (("SQLite", None), ("PostgreSQL", own.create_database("storm"))):
            _one(result, url, label, scale)
        for number, name in enumerate(PLANTED[scale]):
            result.planted[f"SQLite: {name}"] = _planted(result, name, None)
            if scale == "full":
                url = own.create_database(f"planted{number}")
                result.planted[f"PostgreSQL: {name}"] = _planted(result, name, url)
    return result


SECTION = Section(
    "storm",
    "Storms with real workers",
    "However workers are killed (SIGKILL), stopped for longer than a lease (SIGSTOP) and terminated"
    " (SIGTERM), and enqueuers killed: no acknowledged job is lost, effects happen once, and when it"
    " is over all work ends.",
    rage,
)
