"""What is killed: one scenario for each thing that the engine writes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from duework import Part
from duework.kernel.job import DAY
from duework.kernel.pruning import prune_round
from proof.shop import LINKS, START, Ack, Shop

# What the killed process had told its callers, in order.
Acks = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Scenario:
    """Something that writes, and what must hold after it was killed and another process went on."""

    name: str
    # Makes the database that every child finds; None if there is none yet.
    prepare: Callable[[Shop], None] | None
    act: Callable[[Shop, Ack], None]
    check: Callable[[Shop, Acks], list[str]]
    now: int = START


def nothing_held(shop: Shop) -> list[str]:
    return [f"job {row.id} is still held" for row in shop.rows() if row.worker is not None]


def _once(shop: Shop, wanted: list[str]) -> list[str]:
    """Each of these effects is there exactly once, and no other."""
    found = shop.effects()
    wrong = [f"effect {what!r}: {found[what]} times" for what in wanted if found[what] != 1]
    extra = [what for what in found if what not in wanted and not what.startswith("reaction")]
    return wrong + [f"effect {what!r} from nowhere" for what in extra]


def _all_done(shop: Shop, count: int, *, failures: int = 0) -> list[str]:
    rows = shop.rows()
    wrong = [f"job {row.id} is {row.state}: {row.error}" for row in rows if row.state != "done"]
    wrong += [
        f"job {row.id} was charged" for row in rows if row.crashes or row.failures != failures
    ]
    wrong += [
        f"job {row.id} was claimed {row.fence} times" for row in rows if row.fence > 2 + failures
    ]
    return wrong if len(rows) == count else [*wrong, f"{len(rows)} jobs instead of {count}"]


def _settled_stay(shop: Shop, acks: Acks) -> list[str]:
    """What was acknowledged as done was not run again."""
    fences = {row.id: row.fence for row in shop.rows()}
    done = [ack for ack in acks if ack[0] == "settled" and ack[3] == "done"]
    return [
        f"job {job} was done at fence {fence} and run again"
        for _, job, fence, _ in done
        if fences.get(job) != fence
    ]


# --- enqueue

MANY = ["many 1", "many 2", "many 3"]


def _prepare_enqueue(shop: Shop) -> None:
    with shop.app.transaction() as tx:
        tx.write("create table invoice (id integer primary key)")


def _enqueue(shop: Shop, acked: Ack) -> None:
    shop.note.enqueue("plain")
    acked("enqueued", "plain")
    shop.note.using(key="k").enqueue("keyed")
    acked("enqueued", "keyed")
    shop.note.using(key="k").enqueue("keyed")
    shop.note.using(key="o", once="forever").enqueue("once")
    acked("enqueued", "once")
    shop.note.enqueue_many([(what,) for what in MANY])
    acked("enqueued", *MANY)
    with shop.app.transaction() as tx:
        tx.write("insert into invoice (id) values (7)")
        tx.enqueue(shop.note, "invoice")
    acked("enqueued", "invoice")


def _check_enqueue(shop: Shop, acks: Acks) -> list[str]:
    found = shop.effects()
    answered = [what for ack in acks for what in ack[1:]]
    problems = [f"{what!r} was answered and is lost" for what in answered if found[what] != 1]
    problems += [f"{what!r} is there {count} times" for what, count in found.items() if count > 1]
    if len({found[what] for what in MANY}) > 1:
        problems.append("a list was enqueued in part")
    invoices = len(shop.app.read("select id from invoice"))
    if invoices != found["invoice"]:
        problems.append("the caller's row and its job came apart")
    again = shop.note.using(key="o", once="forever").enqueue("once")
    if again.existed != bool(found["once"]):
        problems.append("a key with `once` forgot its job")
    return problems


# --- enqueue beside a worker that sleeps

BESIDE = ["beside 1", "beside 2"]
WORKED = "before"


def _beside(shop: Shop, acked: Ack) -> None:
    hand = shop.hand()
    for what in BESIDE:
        taken = hand.enqueue_beside(shop.note, what)
        acked("enqueued", what)
        acked("claimed", len(taken))
        hand.carry_on(taken, acked)
    hand.close()


def _handed(shop: Shop, acked: Ack) -> None:
    """The same beside a worker of another process, which has worked before."""
    hand = shop.hand()
    shop.note.enqueue(WORKED)
    acked("enqueued", WORKED)
    hand.work(acked)
    for what in BESIDE:
        taken = hand.enqueue_handed(shop.note, what)
        acked("enqueued", what)
        acked("claimed", len(taken))
        hand.carry_on(taken, acked)
    hand.close()


def _check_beside(shop: Shop, acks: Acks) -> list[str]:
    found = shop.effects()
    answered = [ack[1] for ack in acks if ack[0] == "enqueued"]
    problems = [f"{what!r} was answered and is lost" for what in answered if found[what] != 1]
    problems += [f"{what!r} is there {count} times" for what, count in found.items() if count > 1]
    problems += ["nothing was claimed by the way" for ack in acks if ack == ("claimed", 0)]
    return problems + _all_done(shop, len(found)) + _settled_stay(shop, acks)


# --- claim, settle, retry

NOTES = [f"note {number}" for number in range(6)]


def _prepare_claim(shop: Shop) -> None:
    shop.note.enqueue_many([(what,) for what in NOTES])


def _claim(shop: Shop, acked: Ack) -> None:
    result = shop.hand().turn()
    acked("claimed", len(result.claim.jobs if result.claim else ()))


def _check_claim(shop: Shop, _acks: Acks) -> list[str]:
    return _once(shop, NOTES) + _all_done(shop, len(NOTES))


BEHIND = ["serial 1", "serial 2", "after"]
CHAIN = [f"link {number}" for number in range(1, LINKS + 1)]


def _prepare_settle(shop: Shop) -> None:
    first = shop.link.enqueue(1)
    shop.note.using(serial="s").enqueue("serial 1")
    shop.note.using(serial="s").enqueue("serial 2")
    shop.note.using(after=first).enqueue("after")


def _work(shop: Shop, acked: Ack) -> None:
    shop.work(acked)


def _check_settle(shop: Shop, acks: Acks) -> list[str]:
    reactions = [count for what, count in shop.effects().items() if what.startswith("reaction")]
    problems = [] if reactions == [1] * LINKS else [f"reactions ran {reactions} times"]
    problems += _once(shop, CHAIN + BEHIND) + _all_done(shop, LINKS + len(BEHIND))
    return problems + _settled_stay(shop, acks)


FLAKY = ["flaky"]


def _prepare_retry(shop: Shop) -> None:
    shop.flaky.enqueue_many([(what,) for what in FLAKY])


def _check_retry(shop: Shop, acks: Acks) -> list[str]:
    problems = _once(shop, FLAKY) + _all_done(shop, len(FLAKY), failures=1)
    failed = shop.app.read("select job from duework_attempt where outcome = 'retry'")
    if len(failed) != len(FLAKY):
        problems.append(f"{len(failed)} failures are on record instead of {len(FLAKY)}")
    return problems + _settled_stay(shop, acks)


# --- prune

OVER = 8 * DAY


def _prepare_prune(shop: Shop) -> None:
    _prepare_claim(shop)
    _prepare_retry(shop)
    shop.note.using(key="o", once="2d").enqueue("once")
    shop.work()
    shop.clock.move_to(START + OVER - DAY // 2)
    shop.note.enqueue("fresh")
    shop.work()


def _prune(shop: Shop, acked: Ack) -> None:
    prune_round(shop.app.wiring.engine, 10)
    acked("pruned")


def _check_prune(shop: Shop, acks: Acks) -> list[str]:
    left = len(shop.rows())
    attempts = len(shop.app.read("select job from duework_attempt"))
    over = len(NOTES) + len(FLAKY) + 1
    problems = [] if left in {1, 1 + over} else [f"{left - 1} of {over} old jobs are left"]
    if bool(attempts) != (left > 1):
        problems.append(f"{attempts} attempts are left of {left - 1} old jobs")
    if acks and left > 1:
        problems.append("it was pruned, and is there again")
    prune_round(shop.app.wiring.engine, 10)
    rest = [json.loads(row.payload)["what"] for row in shop.rows()]
    if rest != ["fresh"]:
        problems.append(f"{rest} are left after the next round")
    if shop.app.read("select key from duework_once"):
        problems.append("a key that was over is still taken")
    return problems


# --- migrate

FIRST = (
    "create table old (id integer primary key, words text);\ninsert into old values (1, 'a b');\n"
)
_CREATES = re.compile(r"create (?:unique )?(?:table|index|view) (\w+)")
SECOND = (
    "create table fresh (id integer primary key, word text);\n"
    "insert into fresh select id * 10, words from old;\ndrop table old;\n"
    "create index fresh_word on fresh (word);\n"
)


def _with_part(shop: Shop) -> None:
    """Tables of a part, whose second migration moves what the first one made."""
    tables = Path(shop.path.parent, "tables")
    if not tables.exists():
        tables.mkdir()
        (tables / "0001_old.sql").write_text(FIRST)
        (tables / "0002_fresh.sql").write_text(SECOND)
    shop.app.include(Part("shelf", tables=str(tables)))


def _migrate(shop: Shop, acked: Ack) -> None:
    shop.open()
    acked("migrated")
    _with_part(shop)
    acked("migrated the part")
    shop.note.enqueue("first")
    acked("enqueued", "first")


def _check_migrate(shop: Shop, acks: Acks) -> list[str]:
    problems = []
    if ("enqueued", "first") in acks and shop.effects()["first"] != 1:
        problems.append("the first job is lost")
    _with_part(shop)
    if shop.app.read("select id, word from fresh") != [(10, "a b")]:
        problems.append("the part's rows were not moved once")
    steps = shop.app.wiring.schema_steps("sqlite")
    ours = " ".join(m.text for step in steps if step.part != "shelf" for m in step.migrations)
    wanted = {"effect", "duework_migration"} | set(_CREATES.findall(ours + SECOND))
    there = {
        row.name for row in shop.app.read("select name from sqlite_schema where sql is not null")
    }
    if there != wanted:
        problems.append(f"the schema differs in {sorted(there ^ wanted)}")
    return problems


SCENARIOS = (
    Scenario("enqueue", _prepare_enqueue, _enqueue, _check_enqueue),
    Scenario("beside", _prepare_enqueue, _beside, _check_beside),
    Scenario("handed", _prepare_enqueue, _handed, _check_beside),
    Scenario("claim", _prepare_claim, _claim, _check_claim),
    Scenario("settle", _prepare_settle, _work, _check_settle),
    Scenario("retry", _prepare_retry, _work, _check_retry),
    Scenario("prune", _prepare_prune, _prune, _check_prune, now=START + OVER),
    Scenario("migrate", None, _migrate, _check_migrate),
)
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
