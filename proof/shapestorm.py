"""Storms over shapes: schedules, batches, chains, deliveries, outboxes, paces and objects under fire."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from proof import shapecheck, shapehistory, shapework
from proof.section import Result, Scale, Section, tell
from proof.shapehistory import Shapes
from proof.shapeplants import PLANTS, STALE, found, spoiled
from proof.shapework import RATE
from proof.storm import disturb
from proof.storms import Storm, lines, storm_of, until
from tests.support.postgres import server

LEAST = {"short": 20, "full": 300}
SECONDS = {"short": 2.0, "full": 60.0}
BACKLOG = {"short": "30", "full": "120"}
DRAINED_WITHIN = 90.0
# What must have happened, in each storm: with less it proves nothing.
FLOORS = {
    "short": {"slots fired": 6, "members done": 3, "pages done": 3, "messages sent": 3}
    | {"paced starts": 5, "calls of objects": 5, "alarms rung": 1, "kill -9": 1},
    "full": {"slots fired": 90, "members done": 40, "pages done": 30, "messages sent": 40}
    | {"paced starts": 150, "calls of objects": 40, "alarms rung": 8, "kill -9": 10}
    | {
        "stopped for longer than a lease": 4,
        "enqueuer killed": 2,
        "periods at 80 % of the rate": 1,
    },
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


def _one(result: Result, url: str | None, label: str, scale: Scale) -> None:
    tell(f"a storm on {label}")
    with storm_of(ShapeStorm, url, result.seed, PROOF_BACKLOG=BACKLOG[scale]) as this:
        disturb(this, 2 if scale == "short" else 3, SECONDS[scale], LEAST[scale])
        this.still()
        if not this.drained(DRAINED_WITHIN):
            result.violations.append(f"{label}: {this.open_jobs()} jobs did not end")
        this.end()
        seen = this.seen()
        violations = [*shapecheck.check(seen), *this.verified()]
        result.violations += [f"{label}: {each}" for each in violations]
        result.counts |= {f"{label}: {k}": v for k, v in counted(this, seen).items()}
    result.floors |= {f"{label}: {k}": v for k, v in FLOORS[scale].items()}
    if not violations:
        spoils = spoiled(seen)
        result.planted |= {f"{label}, in its history: {k}": v for k, v in spoils.items()}


def _planted(result: Result, url: str | None, label: str) -> None:
    """Bugs in the engine: all that show by themselves in one storm, and those of the stale apart."""
    for names in (PLANTS.keys() - STALE.keys(), *({name} for name in STALE)):
        tell(f"planted bugs on {label}")
        env = {"PROOF_PLANT": ";".join(sorted(names)), "PROOF_BACKLOG": BACKLOG["short"]}
        with storm_of(ShapeStorm, url, result.seed, **env) as this:
            disturb(this, 2, 12.0, LEAST["short"])
            this.still()
            this.drained(10)
            this.end()
            violations = shapecheck.check(this.seen())
        for name in names:
            result.planted[f"{label}: {name}"] = found(PLANTS[name], violations)


def rage(scale: Scale, seed: int) -> Result:
    """A storm on each database, and bugs that it must find."""
    result = Result(seed)
    with server() as own:
        for label, url in (("SQLite", None), ("PostgreSQL", own.create_database("shapes"))):
            _one(result, url, label, scale)
        if scale == "full":
            _planted(result, None, "SQLite")
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
