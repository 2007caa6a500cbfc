"""Storms over shapes: schedules, batches, chains, deliveries, outboxes, paces and objects under fire."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from proof import shapecheck, shapehistory, shapework
from proof.section import Result, Scale, Section, tell
from proof.shapehistory import Shapes
from proof.shapeplants import PLANTS, SPOILS, STALE, found, spoiled
from proof.shapework import RATE
from proof.storm import disturb
from proof.storms import LEASE_MS, Storm, lines, storm_of, until
from tests.support.postgres import server

# How long a storm is, and what it acknowledges at least; the short one has each fault once.
SECONDS, LEAST, LEAST_SHORT = 45.0, 60, 26
BACKLOG = {"short": "30", "full": "120"}
DRAINED_WITHIN = 90.0
# Storms with planted bugs, until each of them has shown.
TRIES = 3
# What must have happened, in each storm: with less it proves nothing. In the short one, and in the full one.
FLOORS = {
    "slots fired": (6, 90),
    "members done": (1, 20),
    "pages done": (3, 20),
    "messages sent": (3, 20),
    "paced starts": (5, 100),
    "calls of objects": (5, 25),
    "alarms rung": (1, 5),
    "kill -9": (1, 5),
    "stopped for longer than a lease": (1, 3),
    "enqueuer killed": (1, 1),
    "kinds of bugs put into its history": (18, len(SPOILS)),
}


class ShapeStorm(Storm):
    """A storm whose workers run shapes."""

    program = "proof.shapeprogram:app"
    client = "proof.shapeclient"

    def __init__(self, url: str, folder: Path, seed: int, **env: str) -> None:
        self.upstream = folder / "upstream"
        super().__init__(url, folder, seed, UPSTREAM=str(self.upstream), **env)

    def prepare(self) -> None:
        super().prepare()
        shapework.define(self.app)
        shapehistory.record(self.app)
        shapework.set_up(self.app)
        self.upstream.mkdir()

    def look(self) -> None:
        """Let a client stand still, now and then: it may be in the middle of an async method."""
        running = [each for each in self.enqueuers if each.poll() is None]
        if running and self.rng.random() < 0.05:
            seconds = self.rng.uniform(0.1, 2.5 * LEASE_MS / 1000)
            self.stop(self.rng.choice(running), seconds, "enqueuer stopped")

    def still(self) -> None:
        """No more is asked for; the slots up to now are fired, and no others."""
        self.quiet()
        now = self.app.now()

        def fired() -> bool:
            self._alive()
            return all((each.last_slot or 0) >= now for each in self._schedules())

        until(fired, 60)
        for schedule in self._schedules():
            schedule.pause()

    def _alive(self) -> None:
        while sum(worker.poll() is None for worker in self.workers) < 2:
            self.start()

    def _schedules(self) -> list[Any]:
        return self.app.schedules("tick:")

    def seen(self) -> Shapes:
        ops, notes = lines(self.ops), lines(self.runs)
        return shapehistory.gather(self.app, ops, notes, self.upstream, self.woken)


def counted(this: ShapeStorm, seen: Shapes) -> dict[str, int]:
    """What a storm has done, for the table."""
    periods = shapecheck.periods(seen)
    logs = [each for log in seen.logs.values() for each in log or []]
    states = Counter([row.state for row in seen.channels] + [row.state for row in seen.posts])
    return {
        "requests acknowledged": sum(op["kind"] == "ok" for op in seen.ops),
        "slots fired": len(seen.fired),
        "batches": len(seen.batches),
        "members done": sum(state == "done" for _, _, state in seen.members),
        "chains": len(seen.walks),
        "chains cancelled": sum(state == "cancelled" for _, _, state in seen.turns),
        "pages done": len(seen.page_traces),
        "messages sent": states["sent"],
        "messages failed": states["failed"],
        "messages unsure": states["unsure"],
        "sends repeated with their key": sum(
            [what for what, _ in told].count("took") > 1 for told in seen.upstream.values()
        ),
        "paced starts": len(seen.starts),
        "starts that were late": len(shapecheck.late(seen)),
        "periods at 80 % of the rate": sum(count >= 0.8 * RATE for count in periods.values()),
        "calls of objects": sum(what == "add" for what, _ in logs),
        "async methods": sum(what == "leave" for what, _ in logs),
        "async methods cut short": sum(what == "enter" for what, _ in logs)
        - sum(what == "leave" for what, _ in logs),
        "alarms rung": sum(what == "leave" and "alarm" in value for what, value in logs),
        **{kind: this.faults[kind] for kind in sorted(this.faults)},
    }


def _each_fault_once(this: ShapeStorm) -> None:
    """A little of everything, in a few seconds."""
    killed, stopped = this.start(), this.start()
    client, _ = this.load(0.02), this.load(0.02)
    this.begun()
    until(lambda: this.at_work(killed) and this.at_work(stopped), 30)
    until(lambda: this.acknowledged() > LEAST_SHORT // 2, 20)
    this.kill(killed)
    another = this.start()
    until(lambda: this.acknowledged() > LEAST_SHORT, 20)
    # One that stands still may have locked a file, so that nobody gets on.
    this.stop(stopped, 1.2 * LEASE_MS / 1000)
    this.kill(client, "enqueuer killed")
    time.sleep(1.2 * LEASE_MS / 1000)
    this.wake(everybody=True)
    this.terminate(another)


def _one(result: Result, url: str | None, label: str, scale: Scale) -> None:
    tell(f"a storm on {label}")
    with storm_of(ShapeStorm, url, result.seed, PROOF_BACKLOG=BACKLOG[scale]) as this:
        if scale == "short":
            _each_fault_once(this)
        else:
            disturb(this, 3, SECONDS, LEAST)
        this.still()
        if not this.drained(DRAINED_WITHIN):
            result.violations.append(f"{label}: {this.open_jobs()} jobs did not end")
        this.end()
        seen = this.seen()
        violations = [*shapecheck.check(seen), *this.verified()]
        result.violations += [f"{label}: {each}" for each in violations]
        result.counts |= {f"{label}: {k}": v for k, v in counted(this, seen).items()}
    result.floors |= {f"{label}: {k}": v[scale == "full"] for k, v in FLOORS.items()}
    if not violations:
        spoils = spoiled(seen)
        result.counts[f"{label}: kinds of bugs put into its history"] = len(spoils)
        result.planted |= {f"{label}, in its history: {k}": v for k, v in spoils.items()}


def _judged(this: ShapeStorm) -> list[str]:
    """The violations of a storm with a bug in it, whether or not all work ends."""
    this.still()
    this.drained(5)
    this.end()
    return shapecheck.check(this.seen(), sample=10_000)


def _planted(result: Result, urls: Sequence[str | None], label: str) -> None:
    """Bugs that show in most storms, all of them in one; once more those that had no chance to."""
    missing = list(PLANTS)
    for number, url in enumerate(urls):
        tell(f"planted bugs on {label}")
        plants = {"PROOF_PLANT": ";".join(missing), "PROOF_BACKLOG": BACKLOG["short"]}
        if number:
            plants["PROOF_SHAPES"] = ",".join(PLANTS[name].shapes for name in missing)
        with storm_of(ShapeStorm, url, result.seed + number, **plants) as this:
            disturb(this, 2, 10.0, LEAST_SHORT)
            violations = _judged(this)
        answers = {name: found(PLANTS[name], violations) for name in missing}
        result.planted |= {f"{label}: {name}": answer for name, answer in answers.items()}
        missing = [name for name, answer in answers.items() if not answer]
        if not missing:
            return


def _stale(seed: int, name: str) -> bool:
    """A bug of those who go on after they were given up: one of two stands still, for long."""
    tell("a planted bug on SQLite")
    plants = {"PROOF_PLANT": name, "PROOF_SHAPES": STALE[name].shapes}
    with storm_of(ShapeStorm, None, seed, **plants) as this:
        client, _ = this.load(0.02), this.load(0.02)
        first, _ = this.start(), this.start()
        this.begun()
        until(lambda: this.at_work(first), 60)
        for _ in range(6):
            for process in (first, client):
                this.stop(process, 2 * LEASE_MS / 1000)
            time.sleep(2.1 * LEASE_MS / 1000)
            this.wake(everybody=True)
            time.sleep(0.5)
            if found(STALE[name], shapecheck.in_the_middle(this.seen())):
                return True
        return found(STALE[name], _judged(this))


def rage(scale: Scale, seed: int) -> Result:
    """A storm on each database, and bugs that it must find."""
    result = Result(seed)
    with server() as own:
        for label, url in (("SQLite", None), ("PostgreSQL", own.create_database("shapes"))):
            _one(result, url, label, scale)
        if scale == "full":
            _planted(result, [None] * TRIES, "SQLite")
            own_ones = [own.create_database(f"planted{number}") for number in range(TRIES)]
            _planted(result, own_ones, "PostgreSQL")
            for name in STALE:
                tries = (_stale(seed + number, name) for number in range(TRIES))
                result.planted[f"SQLite: {name}"] = any(tries)
    return result


SECTION = Section(
    "shapestorm",
    "Storms over shapes",
    "However workers and clients are killed, stopped and terminated: a slot of a schedule is fired"
    " once and none is left out; the counters of a batch equal a recount, and it is followed up once;"
    " a chain has no gap and no page twice; a message is sent under one key, once where that is"
    " honoured, and has an outcome; a rate is not exceeded; calls of an object are serial, none is"
    " lost, and its alarm rings.",
    rage,
)
