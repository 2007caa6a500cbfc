"""Bits that flip in the database and its log, and payloads that were written to do harm.

A bit is flipped somewhere in the file or in its log, or in the bytes of a payload; a real worker opens
what there is, drains it and verifies it. The process must live, every error must be one of ours, and no
task may be given anything but what was enqueued: payloads carry a checksum. The other columns do not, and
SQLite has no checksums of pages: what a flip there does is counted and said, not promised away.

Hostile payloads are rows with a valid checksum, as somebody with write access would make them: the corpus
of what has hurt others, and mutations of it. They may fail their own job and do nothing else.
"""

from __future__ import annotations

import os
import random
import re
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from duework.errors import Error, NotFound
from duework.worker import runner
from proof import hostile
from proof.section import Result, Scale, Section, tell
from proof.shards import spread
from proof.shop import folder
from proof.stall import Report, Say, Stall, in_a_child

NAME = "work.db"
DONE, OPEN, LOGGED = 8, 40, 8
ENOUGH = 5
REGIONS = ("file", "log", "payload")


@dataclass(frozen=True)
class Truth:
    """What was enqueued, and what came of it, before anything was damaged."""

    # Job to what its task must be given, and job to its result.
    waiting: dict[int, str]
    results: dict[int, str]


@dataclass(frozen=True)
class Order:
    home: str
    region: str
    number: int
    seed: int
    planted: str = ""

    def __str__(self) -> str:
        return f"flip {self.seed}:{self.region}:{self.number}"


@dataclass
class Outcome:
    """How one flip ended: what it did, in a word, and what must not have happened."""

    kind: str
    problems: list[str]
    failed: int = 0
    verified: bool = False


@dataclass(frozen=True)
class Base:
    """A database before anything was damaged."""

    files: dict[str, bytes]
    truth: Truth


# One that was closed, and one with more in its log; made once, inherited by every core.
_bases: dict[str, Base] = {}


def _prepare(home: Path) -> None:
    path = home / NAME

    def work(say: Say) -> None:
        def enqueue(count: int) -> None:
            for _ in range(count):
                what = f"what {random.randbytes(40).hex()}"
                say("enqueued", stall.task.enqueue(what).id, what)

        stall = Stall(path, lambda *_: None)
        enqueue(DONE)
        stall.drain()
        enqueue(OPEN)
        stall.app.close()
        closed.write_bytes(path.read_bytes())
        # What follows stays in the log.
        stall = Stall(path, lambda *_: None)
        enqueue(LOGGED)
        os.kill(os.getpid(), signal.SIGKILL)

    closed = home / "closed.db"
    said = [(job, what) for job, what in in_a_child(work).of("enqueued")]
    assert len(said) == DONE + OPEN + LOGGED, "all were enqueued"
    results = {job: f"{what} 0" for job, what in said[:DONE]}
    _bases["closed"] = Base(
        {"": closed.read_bytes()}, Truth(dict(said[DONE : DONE + OPEN]), results)
    )
    files = {rest: Path(f"{path}{rest}").read_bytes() for rest in ("", "-wal")}
    _bases["killed"] = Base(files, Truth(dict(said[DONE:]), results))


def _flipped(order: Order, path: Path) -> Truth:
    """Write the files with one bit changed."""
    chance = random.Random(str(order))
    name = {"log": "killed", "payload": "closed"}.get(order.region)
    base = _bases[name or chance.choice(sorted(_bases))]
    images = {rest: bytearray(data) for rest, data in base.files.items()}
    rest = "-wal" if order.region == "log" else ""
    image, mask = images[rest], 1 << chance.randrange(8)
    places = [chance.randrange(len(image))]
    if order.region == "payload":
        what = chance.choice(list(base.truth.waiting.values())).encode()
        inside = chance.randrange(len(what))
        # A page that was split leaves an old copy behind; only one of them is read.
        places = [found.start() + inside for found in re.finditer(re.escape(what), image)]
    for place in places:
        image[place] ^= mask
    for old in ("-wal", "-shm", "-journal", "-ballast"):
        Path(f"{path}{old}").unlink(missing_ok=True)
    for each, data in images.items():
        Path(f"{path}{each}").write_bytes(data)
    return base.truth


def carry_out(order: Order) -> tuple[Order, Outcome]:
    home = Path(order.home, str(os.getpid()))
    home.mkdir(exist_ok=True)
    path = home / NAME
    truth = _flipped(order, path)

    def work(say: Say) -> None:
        if order.planted:
            PLANTS[order.planted]()
        stall = Stall(path, say)
        for job in truth.results:
            _tell_result(stall, job, say)
        stall.drain()
        for job in truth.waiting:
            _tell_state(stall, job, say)
        stall.verify()

    return order, _judged(in_a_child(work), truth)


def _tell_result(stall: Stall, job: int, say: Say) -> None:
    try:
        say("result", job, stall.app.job(job).result)
    except NotFound:
        say("missing", job)
    except Error as error:
        say("unreadable", job, error.code)


def _tell_state(stall: Stall, job: int, say: Say) -> None:
    try:
        row = stall.app.job(job)
        say("state", job, row.state, row.error)
    except NotFound:
        say("missing", job)
    except Error as error:
        say("unreadable", job, error.code)


def _judged(report: Report, truth: Truth) -> Outcome:
    ran = [what for (what,) in report.of("ran")]
    problems = [f"not a typed error: {error}" for (error,) in report.of("error")]
    if report.signal:
        problems.append(f"the process ended by signal {report.signal}")
    wanted = set(truth.waiting.values())
    # A settled job that was opened again by a flip is given what it was given before.
    known = wanted | {result.removesuffix(" 0") for result in truth.results.values()}
    problems += [f"a task was given {what!r}" for what in ran if what not in known]
    failed = [job for job, state, _ in report.of("state") if state == "failed"]
    named = any(names for names in report.of("verified"))
    wrong = [job for job, result in report.of("result") if result != truth.results[job]]
    if report.of("refused") or report.of("parked"):
        kind = "stopped with a typed error"
    elif failed:
        kind = "failed its own job, with the reason"
    elif report.of("unreadable"):
        kind = "made a job unreadable, with a typed error"
    elif wrong:
        kind = "changed a stored result unseen"
    elif len(ran) > len(set(ran)) or any(what not in wanted for what in ran):
        kind = "ran a job again"
    elif set(ran) != wanted or report.of("missing"):
        kind = "lost or put off a job unseen"
    else:
        kind = "changed nothing that was asked for"
    return Outcome(kind, problems, len(failed), named)


# --- bugs put in on purpose


class _Anything:
    """Equal to every checksum."""

    def __ne__(self, _: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, _: object) -> bool:
        return True


def _no_checksum() -> None:
    setattr(runner, "checksum", lambda *_: _Anything())  # noqa: B010 - replaced


def _raw_errors() -> None:
    from duework.db.sqlite import database as sqlite

    setattr(sqlite, "unopened", lambda _, error: error)  # noqa: B010 - replaced


PLANTS: dict[str, Callable[[], None]] = {
    "checksums of payloads are not compared": _no_checksum,
    "the driver's own errors reach the caller": _raw_errors,
}
WHERE = {
    "checksums of payloads are not compared": "payload",
    "the driver's own errors reach the caller": "file",
}


# --- all of them


def run(scale: Scale, seed: int) -> Result:
    result = Result(seed=seed)
    flips = (
        {"file": 5000, "log": 2000, "payload": 3000}
        if scale == "full"
        else dict.fromkeys(REGIONS, 40)
    )
    with folder() as home:
        random.seed(seed)
        _prepare(home)
        silent = seen_by_verify = 0
        for region, count in flips.items():
            for done, (order, outcome) in enumerate(_all(home, region, count, seed)):
                if done % 50 == 0:
                    tell(f"flips in the {region}", done, count)
                result.count(f"flips in the {region}")
                result.count(f"flips in the {region} that {outcome.kind}")
                if len(result.violations) < ENOUGH:
                    result.violations += [f"{order}: {each}" for each in outcome.problems[:2]]
                if "unseen" in outcome.kind or "again" in outcome.kind:
                    silent += 1
                    seen_by_verify += outcome.verified
        for name in PLANTS:
            tell(f"planted: {name}")
            orders = [Order(str(home), WHERE[name], each, seed, name) for each in range(400)]
            result.planted[name] = any(
                outcome.problems for _, outcome in spread(carry_out, orders, chunk=1)
            )
        hostile.run(result, home, scale, seed)
    _remark(result, silent, seen_by_verify, scale)
    return result


def _all(home: Path, region: str, count: int, seed: int) -> Any:
    first = Order(str(home), region, 0, seed)
    return spread(carry_out, [replace(first, number=number) for number in range(count)])


def _remark(result: Result, silent: int, seen: int, scale: Scale) -> None:
    full = scale == "full"
    result.floors |= {
        "flips in the file": 5000 if full else 40,
        "flips in the log": 2000 if full else 40,
        "flips in the payload": 3000 if full else 40,
        "hostile payloads drained": 2000 if full else 100,
    }
    detected = "flips in the payload that failed its own job, with the reason"
    if result.counts.get(detected) != result.counts["flips in the payload"]:
        result.violations.append("a flip in a payload did not fail its job")
    result.notes.append(
        f"{silent} flips changed a column without a checksum unseen (a result, a due time, a state) or took"
        f" the end off the log; `duework verify --full` then found {seen} of them."
    )
    result.not_promised.append(
        "A flipped bit outside a payload may go unnoticed: SQLite keeps no checksums of pages, and stored"
        " results, due times and states have none. In the log it drops what comes after it."
    )


SECTION = Section(
    "flips",
    "Flipped bits and hostile payloads",
    "The process lives, every error is a typed one, and no task is ever given anything but what was"
    " enqueued. A payload that was made to do harm fails its own job and no other.",
    run,
)
