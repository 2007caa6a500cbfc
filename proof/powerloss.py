"""The plug is pulled after every single request to the disk, under five models of what it had kept.

The engine's own work (migrate, enqueue, claim, settle with effects, retry, prune, checkpoints) is
recorded once. Then, for every position in that trace, images of the files are rebuilt (see `disk.py`) and
opened. Each is recovered by SQLite, checked by `integrity_check`, and its rows are compared with what had
been answered up to then. There are far fewer states of the rows than images: each state that comes up
is opened by the engine, verified, drained and verified again, once.

With `synchronous=FULL` nothing that was answered may be lost; a claim may, but then the next one of that
job has another fence. With `durability="process"` the last
answers may be, in their order; nothing else. SQLite's checkpoint is made to come after 20 pages instead
of 1,000, so that a small trace has many.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import apsw

from duework.db.sqlite import wal
from duework.db.sqlite.database import SqliteDatabase
from duework.kernel.job import DAY
from duework.kernel.pruning import prune_round
from proof.disk import CERTAIN, MODELS, Disk, Event, record
from proof.killplants import effect_after_the_commit
from proof.section import Result, Scale, Section, tell
from proof.shards import spread
from proof.shop import LINKS, LONG, Ack, Hand, Shop, folder

CHECKPOINT_PAGES = 20
NAME = "work.db"
ENOUGH = 5
Plant = Callable[[Shop], None]


@dataclass(frozen=True)
class Size:
    """How much is recorded, and how much of it is tried."""

    rounds: int
    cuts: int | None
    tries: int


SIZES = {"short": Size(2, 45, 1), "full": Size(12, None, 4)}


# --- what is recorded


def work(path: Path, durability: str, rounds: int, plant: Plant | None, acked: Ack) -> None:
    """Some of everything, one caller, so that answers have an order."""
    _checkpoint_often()
    # The log is looked at, and given room, more often as well.
    wal.LOOK_EVERY, wal.PIECE = 4, 16 * 1024
    shop = Shop(path, durability=durability)
    if plant is not None:
        plant(shop)
    with shop.app.transaction() as tx:
        tx.write("create table effect (what text, job integer, fence integer)")
        tx.write("create table invoice (id integer primary key)")
    for number in range(rounds):
        _round(shop, number, acked)
    shop.close()


def _round(shop: Shop, number: int, acked: Ack) -> None:
    def enqueued(*labels: str) -> None:
        acked("enqueued", *labels)

    hand = Hand(shop)
    hand.started = lambda job, fence: acked("started", job, fence)
    shop.note.enqueue(f"plain {number}")
    enqueued(f"plain {number}")
    shop.note.using(key="k").enqueue(f"long {number}", LONG)
    enqueued(f"long {number}")
    many = [f"many {number} {each}" for each in range(4)]
    shop.note.enqueue_many([(what,) for what in many])
    enqueued(*many)
    hand.turn(claim=False)
    with shop.app.transaction() as tx:
        tx.write("insert into invoice (id) values (:id)", id=number)
        tx.enqueue(shop.note, f"invoice {number}")
    enqueued(f"invoice {number}")
    shop.link.enqueue(1, f"chain {number}")
    enqueued(f"chain {number} 1")
    shop.flaky.enqueue(f"flaky {number}")
    enqueued(f"flaky {number}")
    hand.work(acked)
    hand.close()
    shop.clock.move_to(shop.clock.now() + 3 * DAY)
    prune_round(shop.app.wiring.engine, 5)


def _checkpoint_often() -> None:
    real = SqliteDatabase._configure

    def configure(self: SqliteDatabase, connection: apsw.Connection) -> None:
        real(self, connection)
        connection.pragma("wal_autocheckpoint", CHECKPOINT_PAGES)

    setattr(SqliteDatabase, "_configure", configure)  # noqa: B010 - a method is replaced


def _synchronous(level: str, _shop: Shop) -> None:
    real = SqliteDatabase._configure

    def configure(self: SqliteDatabase, connection: apsw.Connection) -> None:
        real(self, connection)
        connection.pragma("synchronous", level)

    setattr(SqliteDatabase, "_configure", configure)  # noqa: B010 - a method is replaced


def _late_effects(shop: Shop) -> None:
    effect_after_the_commit(shop, lambda *_: None)


PLANTS: dict[str, Plant] = {
    "synchronous is OFF where FULL was asked for": partial(_synchronous, "off"),
    "synchronous is NORMAL where FULL was asked for": partial(_synchronous, "normal"),
    "an effect is written after the commit": _late_effects,
}


SAME_BOOT = "a fence that was lost with its claim is given again"


# --- what an image holds


@dataclass(frozen=True)
class Seen:
    """The state of the rows: which answers they bear out, and what is wrong with them."""

    facts: frozenset[Any]
    problems: tuple[str, ...] = ()
    # The fence of each job as it was found, and those under which jobs started after that.
    fences: frozenset[tuple[int, int]] = frozenset()
    again: frozenset[tuple[int, int]] = frozenset()


TABLES = "select name, type, sql from sqlite_schema where sql is not null order by name"


class Examiner:
    """Opens images; remembers what it has seen."""

    def __init__(self, home: Path, boot: str) -> None:
        self._home = home
        self._path = home / NAME
        self._boot = boot
        self._seen: dict[bytes, Seen] = {}

    @property
    def states(self) -> int:
        return len(self._seen)

    def look(self, image: dict[str, bytes]) -> Seen:
        self._write(image)
        try:
            digest = self._digest()
        except apsw.Error as error:
            return Seen(frozenset(), (f"corrupt: {error}",))
        if digest not in self._seen:
            self._seen[digest] = self._examined()
        return self._seen[digest]

    def _write(self, image: dict[str, bytes]) -> None:
        for old in self._home.iterdir():
            if old.name.startswith(NAME):
                old.unlink()
        for name, data in image.items():
            if not name.endswith("-shm"):
                (self._home / name).write_bytes(data)

    def _digest(self) -> bytes:
        """Recover the image, let SQLite check it, and sum up its rows."""
        state = hashlib.blake2b(digest_size=16)
        connection = apsw.Connection(str(self._path))
        try:
            checked = connection.execute("pragma integrity_check").fetchall()
            if checked != [("ok",)]:
                raise apsw.CorruptError(str(checked[:2]))
            for table, kind, sql in connection.execute(TABLES).fetchall():
                state.update(str(sql).encode())
                if kind == "table":
                    rows = connection.execute(f'select * from "{table}"').fetchall()
                    state.update(repr(rows).encode())
        finally:
            connection.close()
        return state.digest()

    def _examined(self) -> Seen:
        shop = Shop(self._path)
        shop.boot = self._boot
        try:
            shop.open()
            with shop.app.transaction() as tx:
                tx.write("create table if not exists invoice (id integer primary key)")
            facts, torn = _state(shop)
            problems = [*torn, *shop.findings()]
            fences = frozenset((row.id, row.fence) for row in shop.rows())
            hand, again = shop.hand(), set[tuple[int, int]]()
            hand.started = lambda job, fence: again.add((job, fence))
            hand.work()
            hand.close()
            labels = [fact for fact in facts if isinstance(fact, str)]
            problems += _after_work(shop, labels) + shop.findings()
            return Seen(facts, tuple(problems), fences, frozenset(again))
        except Exception as error:  # noqa: BLE001 - whatever it is, the promise is broken
            return Seen(frozenset(), (f"the engine failed: {type(error).__name__}: {error}",))
        finally:
            shop.close()


def _label(row: Any) -> str:
    given = json.loads(row.payload)
    return f"{given['name']} {given['number']}" if row.task == "link" else str(given["what"])


def _state(shop: Shop) -> tuple[frozenset[Any], list[str]]:
    """Labels of jobs that are there or have left an effect, attempts that are done; what is torn."""
    rows = shop.rows()
    effects = shop.app.read("select what, job, fence from effect")
    own = [each for each in effects if not each.what.startswith("reaction")]
    labels = {_label(row) for row in rows} | {each.what for each in own}
    done = {(each.job, each.fence) for each in own}
    torn = [
        f"job {row.id} is done without its effect"
        for row in rows
        if row.state == "done" and (row.id, row.fence) not in done
    ]
    states = {row.id: row.state for row in rows}
    torn += [f"an effect of open job {job}" for job, _ in done if states.get(job) == "open"]
    reacted = [each.job for each in effects if each.what.startswith("reaction")]
    linked = [each.job for each in own if each.what.startswith("chain")]
    if sorted(reacted) != sorted(linked):
        torn.append("a reaction came apart from its job")
    for each in own:
        name, _, number = each.what.rpartition(" ")
        if name.startswith("chain") and int(number) < LINKS:
            follows = f"{name} {int(number) + 1}"
            torn += [] if follows in labels else [f"{each.what} is done and {follows} is missing"]
    invoices = {f"invoice {row.id}" for row in shop.app.read("select id from invoice")}
    if invoices != {label for label in labels if label.startswith("invoice")}:
        torn.append("the caller's rows and their jobs came apart")
    return frozenset(labels | done), torn


def _after_work(shop: Shop, labels: list[str]) -> list[str]:
    effects = shop.effects()
    return [
        f"{label} happened {effects[label]} times" for label in labels if effects[label] != 1
    ] + [f"job {row.id} is {row.state}" for row in shop.rows() if row.state != "done"]


# --- every cut


def _facts(event: Event) -> list[Any]:
    """What an answer promised."""
    if event[1] == "enqueued":
        return list(event[2:])
    if event[1] == "started":
        return []
    _, _, job, fence, kind = event
    return [(job, fence)] if kind == "done" else []


@dataclass
class Tally:
    """What a part of the cuts showed."""

    images: int = 0
    undone: int = 0
    states: int = 0
    short: int = 0
    most_lost: int = 0
    problems: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.images += other.images
        self.undone += other.undone
        self.states = max(self.states, other.states)
        self.short += other.short
        self.most_lost = max(self.most_lost, other.most_lost)
        self.problems = (self.problems + other.problems)[: ENOUGH * 3]


@dataclass(frozen=True)
class Share:
    """The cuts that one core tries; the trace itself it inherits."""

    home: str
    cuts: tuple[int, ...]
    tries: int
    seed: int
    may_lose: bool
    # The machine boots anew, unless that is the bug.
    boot: str


_trace: list[Event] = []


def pull(share: Share) -> Tally:
    """Pull the plug at each of these places."""
    home = Path(share.home, str(os.getpid()))
    home.mkdir(exist_ok=True)
    examiner, disk, tally = Examiner(home, share.boot), Disk(), Tally()
    promised: list[Any] = []
    started: set[tuple[int, int]] = set()
    wanted = set(share.cuts)
    for place, event in enumerate(_trace):
        disk.feed(event)
        if event[0] == "ack":
            promised += _facts(event)
            if event[1] == "started":
                started.add(event[2:])
        if place in wanted:
            for what, image in _images(disk, place, share):
                tally.images += 1
                seen = examiner.look(image)
                _judge(tally, what, seen, promised, started, may_lose=share.may_lose)
    tally.states = examiner.states
    return tally


def _images(disk: Disk, place: int, share: Share) -> Iterator[tuple[str, dict[str, bytes]]]:
    for model in MODELS:
        for each in range(1 if model in CERTAIN else share.tries):
            what = f"{share.seed}:{place}:{model}:{each}"
            # Seeded by its own name, so that each image can be made again alone.
            yield what, disk.image(model, random.Random(what))


def _judge(
    tally: Tally,
    what: str,
    seen: Seen,
    promised: list[Any],
    started: set[tuple[int, int]],
    *,
    may_lose: bool,
) -> None:
    problems = list(seen.problems)
    found = dict(seen.fences)
    tally.undone += any(found.get(job, fence) < fence for job, fence in started)
    if twice := started & seen.again:
        problems.append(f"a fence was given twice: {min(twice)}")
    there = [fact in seen.facts for fact in promised]
    lost = there.count(False)
    if lost:
        tally.short += 1
        tally.most_lost = max(tally.most_lost, lost)
        if not may_lose:
            problems.append(f"{lost} of {len(there)} answers lost")
        elif any(there[there.index(False) :]):
            problems.append("an answer is lost, and a later one is there")
    if problems and len(tally.problems) < ENOUGH:
        tally.problems.append(f"image {what}: {'; '.join(problems[:3])}")


def _pull_everywhere(
    home: Path,
    trace: list[Event],
    size: Size,
    seed: int,
    *,
    may_lose: bool,
    what: str,
    boot: str = "second",
) -> Tally:
    _trace[:] = trace
    step = 1 if size.cuts is None else max(1, len(trace) // size.cuts)
    cuts = list(range(seed % step, len(trace), step))
    parts = 1 if size.cuts else 32
    shares = [
        Share(str(home), tuple(cuts[part::parts]), size.tries, seed, may_lose, boot)
        for part in range(parts)
    ]
    tally = Tally()
    for done, part in enumerate(spread(pull, shares, chunk=1)):
        tally.add(part)
        tell(what, done + 1, len(shares))
    return tally


def _recorded(home: Path, durability: str, rounds: int, plant: Plant | None = None) -> list[Event]:
    where = home / "recorded"
    where.mkdir(exist_ok=True)
    for old in where.iterdir():
        old.unlink()
    return record(home, lambda ack: work(where / NAME, durability, rounds, plant, ack))


def run(scale: Scale, seed: int) -> Result:
    result, size = Result(seed=seed), SIZES[scale]
    with folder() as home:
        trace = _recorded(home, "power", size.rounds)
        sure = _pull_everywhere(home, trace, size, seed, may_lose=False, what="FULL")
        result.counts |= {
            "requests to the disk": len(trace),
            "of them syncs": sum(event[0] == "sync" for event in trace),
            "answers in them": sum(event[0] == "ack" for event in trace),
            "images, FULL": sure.images,
            "of them with an answer lost": sure.short,
        }
        result.violations += [f"FULL, {problem}" for problem in sure.problems]
        trace = _recorded(home, "process", size.rounds)
        tail = _pull_everywhere(home, trace, size, seed, may_lose=True, what="process")
        result.counts |= {
            'images, durability="process"': tail.images,
            "of them that lost the tail": tail.short,
            "of them with a claim undone, and given another fence": tail.undone,
            "answers in the longest lost tail": tail.most_lost,
        }
        result.violations += [f"process, {problem}" for problem in tail.problems]
        small = Size(2, 120, 1)
        for name, plant in PLANTS.items():
            trace = _recorded(home, "power", small.rounds, plant)
            found = _pull_everywhere(home, trace, small, seed, may_lose=False, what=name)
            result.planted[name] = bool(found.problems)
        trace = _recorded(home, "process", small.rounds)
        found = _pull_everywhere(
            *(home, trace, small, seed), may_lose=True, what=SAME_BOOT, boot="first"
        )
        result.planted[SAME_BOOT] = any("given twice" in each for each in found.problems)
    _remark(result, scale, tail)
    return result


def _remark(result: Result, scale: Scale, tail: Tally) -> None:
    least = 10_000 if scale == "full" else 200
    result.floors = {
        "images, FULL": least,
        'images, durability="process"': least,
        "of them that lost the tail": least // 20,
        "of them with a claim undone, and given another fence": least // 50,
    }
    share = 100 * tail.short / max(1, tail.images)
    result.notes.append(
        f'`durability="process"` lost its last answers in {tail.short:,} of {tail.images:,} images'
        f" ({share:.0f} %), at most {tail.most_lost} of them, always in order; nothing else was wrong."
    )
    result.not_promised.append(
        '`durability="process"` may lose its last answers when the power fails, not when a process is killed.'
    )


SECTION = Section(
    "powerloss",
    "Power lost at every request to the disk",
    "With the default, every answer that was given is there, nothing is torn, no fence is given twice and"
    ' `duework verify` finds nothing. With `durability="process"` only the last answers may be missing.',
    run,
)
