"""`kill -9` before every bytecode and around every call of the file system.

For k = 1, 2, 3, … a child process does the work of a scenario on a real file and kills itself at the k-th
boundary, until one gets through. After each of them the parent is the next process: it opens the
database, checks what had been acknowledged, drains what is left and lets `duework verify` look at it.
Files that are the same as after an earlier kill, byte for byte, with the same answers given, are looked at
only once (see `sameness.py`). Nothing is sampled at full scale; the short form takes every n-th boundary,
from a place the seed chooses.
"""

from __future__ import annotations

import gc
import json
import os
import random
import signal
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from proof import killwork
from proof.boundaries import Boundaries, Mode
from proof.killplants import PLANTS, Plant
from proof.killwork import BY_NAME, SCENARIOS, Acks, Scenario
from proof.sameness import fingerprint, without_chance
from proof.section import Result, Scale, Section, tell
from proof.shards import spread
from proof.shop import Shop, copy_database, folder

# Boundaries of each kind and scenario that the short form tries.
SHORT = {"bytecode": 15, "file system": 10}
MODES: tuple[Mode, ...] = ("bytecode", "file system")
NAMES = {
    "bytecode": "kills at a bytecode",
    "file system": "kills around a file-system call",
}
ANSWERS = "answers that killed processes had given"
NOWHERE = 1 << 60
# How many more boundaries are tried at a time, since others may pass more than the first child did.
MARGIN = 100
# No scenario has so many: it does not end.
LAST = 1_000_000
# A scenario that breaks one promise breaks it at many boundaries.
ENOUGH = 5


@dataclass(frozen=True)
class Trial:
    """One child: whether it was killed, how many boundaries it passed, and what was wrong after it."""

    killed: bool
    passed: int
    acknowledged: int
    problems: list[str]


class Bench:
    """Runs children of one scenario, each on a fresh copy of its database."""

    def __init__(self, scenario: Scenario, home: Path) -> None:
        self._scenario = scenario
        self._template = home / f"{scenario.name}.db"
        self._path = home / "work.db"
        # Made once: defining tasks takes longer than killing a process that runs them.
        self._shop = Shop(self._template)
        if scenario.prepare is not None:
            self._shop.open()
            scenario.prepare(self._shop)
            self._shop.close()
        # Whatever is there now will stay; without this each child copies its pages to count references.
        gc.collect()
        gc.freeze()
        # What was found wrong with files that are the same, byte for byte, and the same answers.
        self._known: dict[bytes, list[str]] = {}

    def trial(self, mode: Mode, at: int, plant: Plant | None = None) -> Trial:
        copy_database(self._template, self._path)
        self._shop.again(self._path, self._scenario.now)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            _be_child(self._scenario, self._shop, Boundaries(mode, at), writing, plant)
        os.close(writing)
        with open(reading) as wire:
            lines = [json.loads(line) for line in wire]
        _, status = os.waitpid(child, 0)
        ends = [line[1] for line in lines if line[0] == "end"]
        acks: Acks = [tuple(line) for line in lines if line[0] not in {"end", "error"}]
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        problems = [f"the child failed: {line[1]}" for line in lines if line[0] == "error"]
        if not killed and not ends and not problems:
            problems.append(f"the child ended by itself with status {status}")
        beside = list(Path(os.environ["XDG_RUNTIME_DIR"]).rglob("*.started"))
        left = fingerprint(self._path, beside, acks)
        if left not in self._known:
            self._shop.again(self._path, self._scenario.now + 1000)
            self._known[left] = _checked(self._scenario, self._shop, acks)
        for each in beside:
            each.unlink(missing_ok=True)
        problems += self._known[left]
        return Trial(killed, ends[0] if ends else 0, len(acks), problems)


def _be_child(
    scenario: Scenario, shop: Shop, boundaries: Boundaries, wire: int, plant: Plant | None
) -> None:
    """The process that is killed; never returns."""

    def say(*words: Any) -> None:
        os.write(wire, (json.dumps(words) + "\n").encode())

    try:
        gc.disable()
        without_chance()
        if plant is not None:
            plant(shop, say)
        if scenario.prepare is not None:
            _ = shop.app.wiring.engine
        boundaries.arm()
        scenario.act(shop, say)
        shop.close()
        boundaries.disarm()
        say("end", boundaries.count)
    except BaseException as error:  # noqa: BLE001 - the parent reports it
        boundaries.disarm()
        say("error", f"{type(error).__name__}: {error}")
    finally:
        os._exit(0)


def _checked(scenario: Scenario, shop: Shop, acks: Acks) -> list[str]:
    """What the next process finds, before and after it has done what was left."""
    try:
        if scenario.prepare is None:
            shop.open()
        problems = shop.findings()
        shop.work()
        problems += [*scenario.check(shop, acks), *shop.findings(), *killwork.nothing_held(shop)]
    except Exception as error:  # noqa: BLE001 - whatever it is, the promise is broken
        problems = [f"the next process failed: {type(error).__name__}: {error}"]
    finally:
        shop.close()
    return problems


@dataclass(frozen=True)
class Order:
    """One child to be killed, as another core is told of it."""

    home: str
    scenario: str
    mode: Mode
    at: int
    planted: str = ""


# By folder and scenario; each process makes its own, and forks of it must not share them.
_benches: dict[tuple[Path, str], Bench] = {}


def carry_out(order: Order) -> tuple[Order, Trial]:
    where = Path(order.home, str(os.getpid()))
    where.mkdir(exist_ok=True)
    # The ledgers of workers: of this core's children only.
    os.environ["XDG_RUNTIME_DIR"] = str(where)
    bench = _benches.get((where, order.scenario))
    if bench is None:
        bench = Bench(BY_NAME[order.scenario], where)
        _benches[where, order.scenario] = bench
    plant = PLANTS[order.planted][1] if order.planted else None
    return order, bench.trial(order.mode, order.at, plant)


def run(scale: Scale, seed: int) -> Result:
    result = Result(seed=seed)
    with folder() as home:
        for scenario in SCENARIOS:
            for mode in MODES:
                _enumerate(result, Order(str(home), scenario.name, mode, NOWHERE), scale)
        for place, (name, (scenario, _)) in enumerate(PLANTS.items()):
            tell(f"planted: {name}", place, len(PLANTS))
            order = Order(str(home), scenario.name, "file system", NOWHERE, name)
            result.planted[name] = _is_found(order, seed)
    full = scale == "full"
    result.floors = {
        NAMES["bytecode"]: 40_000 if full else len(SCENARIOS) * SHORT["bytecode"],
        NAMES["file system"]: 1500 if full else len(SCENARIOS) * SHORT["file system"],
        ANSWERS: 50_000 if full else 80,
    }
    if not full:
        result.notes.append("Short form: every n-th boundary only.")
    return result


def _enumerate(result: Result, whole: Order, scale: Scale) -> None:
    """Kill a child at every boundary of a scenario, or at every n-th."""
    _, first = carry_out(whole)
    result.violations += [f"{whole.scenario}, not killed: {each}" for each in first.problems]
    stride = 1 if scale == "full" else max(1, first.passed // SHORT[whole.mode])
    start, end = 1 + result.seed % stride, first.passed + 1
    bad, killed = 0, True
    # The number varies with what a process has in its caches: go on until all get through.
    while killed and start < LAST:
        killed = False
        orders = [replace(whole, at=at) for at in range(start, end, stride)]
        for done, (order, trial) in enumerate(spread(carry_out, orders)):
            if done % 50 == 0:
                tell(f"{whole.scenario}, {whole.mode}", done, len(orders))
            if trial.problems and bad < ENOUGH:
                bad += 1
                where = f"{order.scenario}, killed at {order.mode} {order.at}"
                result.violations += [f"{where}: {each}" for each in trial.problems[:3]]
            result.count(NAMES[order.mode], int(trial.killed))
            result.count(ANSWERS, trial.acknowledged if trial.killed else 0)
            killed = killed or trial.killed
        if scale == "short":
            return
        start, end = end, end + MARGIN
    if killed:
        result.violations.append(f"{whole.scenario}: no child came to the end of it")


def _is_found(whole: Order, seed: int) -> bool:
    """Whether the bug breaks a promise at some call of the file system."""
    _, first = carry_out(whole)
    orders = [replace(whole, at=at) for at in range(1, first.passed)]
    # In any order: whatever it breaks, it breaks over some length.
    random.Random(seed).shuffle(orders)
    return any(trial.problems for _, trial in spread(carry_out, orders, chunk=1))


SECTION = Section(
    "killpoints",
    "Killed at every instruction",
    "Whatever was acknowledged is there; whatever was not is there whole or not at all; effects and what"
    " follows a job happen exactly once; nothing is held by the dead; `duework verify` finds nothing.",
    run,
)
