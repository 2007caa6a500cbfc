"""The n-th write, sync or truncate fails, with EIO or ENOSPC, once or from then on.

A child process opens a database, enqueues, works and checkpoints while the n-th of its calls fails, for
n = 1, 2, 3, … until none is left to fail. The operating system itself makes the error (see
`kernelfaults.py` for why, and for how that needs no second language). Callers must get typed errors and
nothing else. Then the disk is mended: the same process must go on without a restart. At last it is killed,
and the next process must find every answer true: what was acknowledged is there, what was refused is not,
what is unknown is there once or not at all, and effects happened once.
"""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import socket
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import apsw

from duework.db.database import Retryable
from duework.db.sqlite import reserve
from duework.db.sqlite.database import SqliteDatabase
from duework.db.writer.writer import Writer
from duework.errors import Error, Unavailable, Unknown
from proof.kernelfaults import Impossible, Supervisor, surrender
from proof.section import Result, Scale, Section, tell
from proof.shards import spread
from proof.shop import LINKS, LONG, Hand, Shop, copy_database, folder

ERRORS = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC}
NAME = "work.db"
# Seconds that a caller waits here for a disk that fails; 5 by default.
PATIENCE = 0.02
CHECKPOINT_PAGES = 12
# Points of each kind that the short form tries.
SHORT = 9
STEP = 25
ENOUGH = 5
Plant = Callable[[], None]
Say = Callable[..., None]


@dataclass(frozen=True)
class Order:
    """One child and its fault."""

    home: str
    at: int
    error: str
    sticky: bool
    planted: str = ""

    def __str__(self) -> str:
        often = "from then on" if self.sticky else "once"
        return f"{self.error} at call {self.at}, {often}"


@dataclass
class Trial:
    """What came of it."""

    hits: list[tuple[str, str]] = field(default_factory=list)
    said: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


# --- the process whose disk fails


def _hasten() -> None:
    """The same engine with less patience, a smaller reserve and more checkpoints."""
    for call in (Writer.call, Writer.acall):
        assert call.__kwdefaults__ is not None
        call.__kwdefaults__["patience"] = PATIENCE
    reserve.BALLAST_BYTES = 65_536
    reserve.REFILL_SECONDS = 0.01
    real = SqliteDatabase._configure

    def configure(self: SqliteDatabase, connection: apsw.Connection) -> None:
        real(self, connection)
        connection.pragma("wal_autocheckpoint", CHECKPOINT_PAGES)

    setattr(SqliteDatabase, "_configure", configure)  # noqa: B010 - a method is replaced


def _enqueue_all(shop: Shop, attempt: Callable[..., None]) -> None:
    def invoice() -> None:
        with shop.app.transaction() as tx:
            tx.write("insert into invoice (id) values (7)")
            tx.enqueue(shop.note, "invoice")

    many = [f"many {each}" for each in range(3)]
    attempt(["plain"], lambda: shop.note.enqueue("plain"))
    attempt(["long"], lambda: shop.note.enqueue("long", LONG))
    attempt(["keyed"], lambda: shop.note.using(key="k").enqueue("keyed"))
    attempt(many, lambda: shop.note.enqueue_many([(what,) for what in many]))
    attempt(["invoice"], invoice)
    attempt(["chain 1"], lambda: shop.link.enqueue(1, "chain"))
    attempt(["flaky"], lambda: shop.flaky.enqueue("flaky"))


def _live(shop: Shop, say: Say, mend: Callable[[], None]) -> None:
    def attempt(labels: list[str], call: Callable[[], Any]) -> None:
        try:
            call()
        except Unknown:
            say("unknown", *labels)
        except Error:
            say("refused", *labels)
        else:
            say("enqueued", *labels)

    _enqueue_all(shop, attempt)
    hand: Hand | None = None
    for _ in range(3):
        try:
            if hand is None:
                shop.app.wiring.engine.database.reserve()
                hand = shop.hand()
                hand.patience = PATIENCE
            hand.work()
            break
        except Error as error:
            say("parked", error.code)
    mend()
    _go_on(shop, hand, say)


def _go_on(shop: Shop, hand: Hand | None, say: Say) -> None:
    """The disk is well again: everything must work, within moments, in the same process."""
    deadline = monotonic() + 5
    while True:
        try:
            shop.note.enqueue("late")
            break
        except Unknown:
            say("unknown", "late")
            return
        except Unavailable:
            if monotonic() > deadline:
                raise
            sleep(0.01)
    say("enqueued", "late")
    hand = hand or shop.hand()
    hand.patience = 5.0
    hand.work()
    say("resumed")


def _be_child(path: Path, wire: socket.socket, plant: Plant | None) -> None:
    """Never returns: it is killed at the end, with its log as it is."""

    def say(*words: Any) -> None:
        wire.send(json.dumps(words).encode())

    def mend() -> None:
        say("mend")
        wire.recv(1)

    try:
        _hasten()
        if plant is not None:
            plant()
        surrender(wire)
        _live(Shop(path), say, mend)
    except BaseException as error:  # noqa: BLE001 - the parent reports it
        say("error", f"{type(error).__name__}: {error}")
    finally:
        os.kill(os.getpid(), signal.SIGKILL)


# --- the one that watches it


def carry_out(order: Order) -> tuple[Order, Trial]:
    home = Path(order.home, str(os.getpid()))
    home.mkdir(exist_ok=True)
    path, template = home / NAME, home / "template.db"
    if not template.exists():
        shop = Shop(template)
        shop.open()
        with shop.app.transaction() as tx:
            tx.write("create table invoice (id integer primary key)")
        shop.close()
    copy_database(template, path)
    Path(f"{path}-ballast").unlink(missing_ok=True)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    child = os.fork()
    if child == 0:
        ours.close()
        _be_child(path, theirs, PLANTS[order.planted] if order.planted else None)
    theirs.close()
    with ours:
        trial, lines = _watched(order, ours, str(path))
    os.waitpid(child, 0)
    trial.problems += _checked(path, lines)
    return order, trial


def _watched(order: Order, wire: socket.socket, path: str) -> tuple[Trial, list[Any]]:
    lines: list[Any] = []
    first, handles, _, _ = socket.recv_fds(wire, 1 << 16, 1)
    if not handles:
        raise Impossible(first.decode())
    supervisor = Supervisor(
        lambda name: name.startswith(path), order.at, ERRORS[order.error], order.sticky
    )

    def hear(said: bytes) -> None:
        lines.append(json.loads(said))
        if lines[-1][0] == "mend":
            supervisor.mended = True
            wire.send(b"g")

    try:
        supervisor.serve(handles[0], wire, hear)
    finally:
        os.close(handles[0])
    trial = Trial([(kind, name.removeprefix(path)) for kind, name in supervisor.hits])
    trial.said = Counter(line[0] for line in lines)
    trial.problems = [f"not a typed error: {line[1]}" for line in lines if line[0] == "error"]
    if not trial.problems and not trial.said["resumed"] and not trial.said["unknown"]:
        trial.problems.append("it did not go on after the disk was mended")
    return trial, lines


def _checked(path: Path, lines: list[Any]) -> list[str]:
    """What the next process finds."""
    answers = {label: line[0] for line in lines for label in line[1:] if line[0] != "parked"}
    shop = Shop(path)
    try:
        shop.open()
        problems = shop.findings()
        shop.work()
        problems += shop.findings()
        effects = shop.effects()
        for label, answer in answers.items():
            wanted = {"enqueued": {1}, "refused": {0}, "unknown": {0, 1}}.get(answer)
            if wanted is not None and effects[label] not in wanted:
                problems.append(f"{label} was {answer} and happened {effects[label]} times")
        follows = [effects[f"chain {number}"] for number in range(1, LINKS + 1)]
        if len(set(follows)) > 1:
            problems.append(f"the links of the chain happened {follows} times")
        if len(shop.app.read("select id from invoice")) != effects["invoice"]:
            problems.append("the caller's row and its job came apart")
        problems += [f"job {row.id} is {row.state}" for row in shop.rows() if row.state != "done"]
    except Exception as error:  # noqa: BLE001 - whatever it is, the promise is broken
        problems = [f"the next process failed: {type(error).__name__}: {error}"]
    finally:
        shop.close()
    return problems


# --- bugs put in on purpose


def _failed_commit_is_done() -> None:
    def after_failed_commit(self: SqliteDatabase, *_: Any) -> None:
        self._drop_connections()

    setattr(SqliteDatabase, "_after_failed_commit", after_failed_commit)  # noqa: B010 - replaced


def _failed_commit_is_repeated() -> None:
    def after_failed_commit(self: SqliteDatabase, *_: Any) -> None:
        self._drop_connections()
        raise Retryable("the commit failed")

    setattr(SqliteDatabase, "_after_failed_commit", after_failed_commit)  # noqa: B010 - replaced


def _drivers_errors_escape() -> None:
    real = SqliteDatabase.begin

    def begin(self: SqliteDatabase) -> Any:
        try:
            return real(self)
        except Retryable as error:
            raise error.__cause__ or error from None

    setattr(SqliteDatabase, "begin", begin)  # noqa: B010 - a method is replaced


PLANTS: dict[str, Plant] = {
    "a commit that failed is taken for done": _failed_commit_is_done,
    "a commit that failed is repeated without a look": _failed_commit_is_repeated,
    "the driver's own errors reach the caller": _drivers_errors_escape,
}


# --- all of them


def run(scale: Scale, seed: int) -> Result:
    result = Result(seed=seed)
    with folder() as home:
        try:
            for error in ERRORS:
                for sticky in (False, True):
                    _enumerate(result, Order(str(home), 1, error, sticky), scale)
            for name in PLANTS:
                tell(f"planted: {name}")
                first = Order(str(home), 1, "EIO", sticky=True, planted=name)
                result.planted[name] = _is_found(first, seed)
        except Impossible as error:
            result.violations.append(f"the faults could not be made here: {error}")
    full = scale == "full"
    result.floors = {
        "faulty runs": 400 if full else 3 * SHORT,
        "failed writes": 500 if full else 30,
        "failed syncs": 100 if full else 5,
    }
    result.not_promised.append(
        "After a failed sync the system may have dropped the pages. The engine closes the file, opens it"
        " again and looks; a power cut right after such an error is not tried."
    )
    return result


def _enumerate(result: Result, first: Order, scale: Scale) -> None:
    """Each point in turn until there is none; or some of them, which the seed chooses."""
    _, whole = carry_out(replace(first, at=1 << 60))
    result.violations += [f"no fault: {problem}" for problem in whole.problems]
    if scale == "full":
        at, bad, more = 1, 0, True
        while more:
            orders = [replace(first, at=each) for each in range(at, at + STEP)]
            tell(str(orders[-1]), at)
            trials = list(spread(carry_out, orders, chunk=1))
            bad = _note(result, trials, bad)
            at, more = at + STEP, all(trial.hits for _, trial in trials)
        return
    orders = [replace(first, at=1 + (result.seed + 7 * each) % 90) for each in range(SHORT)]
    _note(result, list(spread(carry_out, orders, chunk=1)), 0)


def _note(result: Result, trials: list[tuple[Order, Trial]], bad: int) -> int:
    for order, trial in trials:
        if not trial.hits and not trial.problems:
            continue
        result.count("faulty runs")
        for kind in ("write", "sync", "truncate"):
            hits = sum(hit[0] == kind for hit in trial.hits)
            result.count(f"failed {kind}s", hits)
        for answer in ("enqueued", "refused", "unknown", "parked", "resumed"):
            result.count(f"times {answer}", trial.said[answer])
        if trial.problems and bad < ENOUGH:
            bad += 1
            where = trial.hits[0] if trial.hits else "none"
            result.violations += [f"{order} ({where}): {each}" for each in trial.problems[:3]]
    return bad


def _is_found(first: Order, seed: int) -> bool:
    orders = [
        replace(first, at=at, sticky=sticky) for at in range(1, 120) for sticky in (False, True)
    ]
    random.Random(seed).shuffle(orders)
    return any(trial.problems for _, trial in spread(carry_out, orders, chunk=1))


SECTION = Section(
    "diskerrors",
    "A disk that fails or is full",
    "Callers get typed errors; what was acknowledged is kept, what was refused never happens, what is"
    " unknown happens at most once; the process goes on by itself when the disk does.",
    run,
)
