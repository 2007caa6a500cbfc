"""No hot statement walks through the job table, with a million rows in it.

A third of the rows is done and was one batch, but for some that have failed; a third is due in a far
future; a third is due now and belongs to a task that nobody here knows; one known job is due behind all
of them. What is counted is rows and pages and steps of the machine, not time. Statistics are as bad as
they get (never analysed), then as good.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest

from duework import App
from duework.clock import FOREVER
from duework.db.queries import Statement
from duework.health.doctor import DOCTOR
from duework.health.needs import NEEDS
from duework.health.why import WHY
from duework.kernel.batches.counters import BATCHES
from duework.kernel.lanes import JOBS
from duework.kernel.moves import MOVES
from duework.kernel.operate import OPERATE
from duework.kernel.pruning import PRUNING
from duework.shapes.schedules.verbs import SCHEDULES
from duework.worker.handoff.claims import HANDOFF
from tests.plans.crowd import analyse, numbers, pages_of, roomy, steps_of
from tests.support.kernel import ME, START, Kernel

# The rows are written once.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("plans")]

ROWS = 1_000_000
KNOWN, UNKNOWN, LATER = 1, 2, 3
BATCH = 9_000_000

NUMBERS = numbers(ROWS)
FILL = """
    insert into duework_job (id, lane, task, state, due, at, payload, checksum, settled, batch)
    select i, i % 3 + 1,
           case i % 3 when 0 then 'known' when 1 then 'unknown' else 'later' end,
           case when i % 30 = 0 then 'failed' when i % 3 = 0 then 'done' else 'open' end,
           case i % 3 when 0 then :kept when 1 then i else :later + i end,
           i, '[]', 0, case i % 3 when 0 then i end,
           case when i % 3 = 0 and i % 30 <> 0 then cast(:batch as bigint) end
    from {numbers}"""

# The kernel's statements, those of shapes, and those that look.
ALL: dict[str, Statement] = {**vars(JOBS), **vars(OPERATE), **vars(PRUNING), **vars(MOVES)}
ALL |= vars(HANDOFF)
ALL |= {**vars(SCHEDULES), **vars(WHY), **vars(NEEDS), **vars(DOCTOR)}
LEASE = {"id": 7, "fence": 1, "worker": ME}
ONE: dict[str, dict[str, Any]] = {
    "claim": {
        "until": START,
        "worker": ME,
        "floor": 0,
        "lane": KNOWN,
        "now": START,
        "wanted": 100,
        "head": 0,
        "head_id": 0,
    },
    "claim_made": {"id": 5, "lane": KNOWN, "now": START, "until": START, "worker": ME}
    | {"due": START, "checksum": 1, "priority": 0},
    "claimed_for": {"ids": [1, 2, 3], "worker": ME},
    "insert_claimed": {"id": 5, "lane": KNOWN, "task": "known", "key": None, "due": START}
    | {"at": START, "linked": 0, "payload": "{}", "checksum": 1, "expires": None, "serial": None}
    | {"after": None, "owner": None, "batch": None, "worker": ME, "now": START, "priority": 0},
    "lanes": {},
    "leases_over": {"now": START, "wanted": 500},
    "leases_of": {"workers": [ME], "wanted": 500},
    "next_lease_end": {},
    "signals": {"worker": ME, "leases": True},
    "running": {},
    "to_cancel": {"worker": ME},
    "held": {"ids": [1, 2, 3]},
    "held_unlocked": {"ids": [1, 2, 3]},
    "open_by_key": {"task": "known", "key": "k"},
    "key_taken": {"task": "known", "key": "k"},
    "serial_head": {"serial": "s"},
    "waiting_for": {"job": 5},
    "serials_behind": {"ids": [1, 2, 3]},
    "state_of": {"id": 5},
    "over": {"now": START, "wanted": 1000},
    "over_next": {"wanted": 100},
    "waiting_by_key": {"task": "known", "key": "k"},
    "of_lane": {"lane": KNOWN, "wanted": 1000},
    "count_failed": {"bound": 1000},
    "summary": {"now": START, "bound": 1000},
    "search_floor_failed": {"before": 500, "look": 100},
    "oldest_kept": {},
    "newest_job": {},
    "search": {
        "own": 0,
        "own_queue": "duework",
        "before": 500,
        "after": 0,
        "task": "",
        "queue": "",
        "key": "",
        "phase": "",
        "now": 1,
        "wanted": 9,
    },
    "search_floor": {"before": 500, "look": 100},
    "search_failed": {"before": 500, "after": 0, "task": "", "queue": "", "key": "", "wanted": 9},
    "search_held": {
        "before": 9,
        "after": 0,
        "task": "",
        "queue": "",
        "key": "",
        "phase": "running",
        "now": 1,
    }
    | {"own": 0, "own_queue": "duework"}
    | {"wanted": 9},
    "jobs": {"ids": [1, 2, 3]},
    "worker_gone": {"id": ME},
    "held_by_worker": {},
    "release": {"id": 5, "due": 1, "forever": FOREVER},
    "delete_jobs": {"ids": [1, 2]},
    "batch.running": {"batch": BATCH, "forever": FOREVER},
    "batch.members": {"batch": 7, "before": 2**62, "phase": "", "now": 1, "wanted": 50},
    "batch.failed_members": {"batch": 7, "before": 2**62, "wanted": 50},
    "batch.failed_in_order": {"batch": 7, "after": 500, "wanted": 1000},
    "batch.open_members": {"batch": 7, "after": 500, "wanted": 1000},
    "batch.cancel_plain": {"ids": [1, 2], "due": 1, "why": "", "now": 1},
    "batch.revive_plain": {"batch": 7, "now": 1},
    "due_fires": {"lane": KNOWN, "now": START, "wanted": 499},
    "open_among": {"ids": [1, 2, 3]},
    "job": {"id": 7},
    "behind": {"serial": "s", "after": 7},
    "ahead": {"lane": UNKNOWN, "due": ROWS, "id": ROWS, "bound": 1000},
    "ready": {"lanes": [KNOWN, UNKNOWN], "now": START, "bound": 1000},
    "failed": {"wanted": 1000},
    "failures": {"task": "known", "queue": "", "before": ROWS, "walk": 10_000, "wanted": 1000},
    "fired_lately": {"before": 2**62, "walk": 5000, "prefix": "schedule:"},
    "oldest_of": {"before": 2**62, "walk": 5000},
    "batch.states": {"batch": 7, "wanted": 2000},
    "due_later": {"lanes": [KNOWN, LATER], "now": START, "step": 60_000, "until": START + 10**9}
    | {"bound": 1000},
    "next_fires": {"lanes": [KNOWN, LATER], "now": START, "until": START + 10**9, "bound": 50},
    "settle_alike": {"ids": [1, 2, 3], "fence": 1, "worker": ME, "batch": BATCH}
    | {"due": START, "result": "null", "settled": START},
}
MANY: dict[str, dict[str, Any]] = {
    "settle_done": {**LEASE, "due": START, "result": "null", "settled": START, "batch": BATCH},
    "settle_gone": LEASE,
    "extend": {**LEASE, "until": START},
    "progress": {**LEASE, "progress": "{}"},
    "delete": {"id": 7},
    "move": {"due": START, "at": START, "id": 7},
}
# The index of leased rows is as small as what runs at this moment: it may be walked through.
LEASED = "duework_job_leased"
WALKS_LEASES = {
    "to_cancel",
    "running",
    "held_by_worker",
    "leases_of",
    "claimed_for",
    "worker_gone",
    "search_held",
    "summary",
    "next_lease_end",
    "signals",
    "batch.running",
}
# These stop at a bound, in the order of their index.
WALKS_IN_ORDER = {"count_failed": "duework_job_failed"}
WALKS_IN_ORDER |= {"failed": "duework_job_failed", "search_floor_failed": "duework_job_failed"}
WALKS_IN_ORDER |= {"oldest_kept": "duework_job_kept", "newest_job": "duework_job_pkey"}
WALKS_IN_ORDER |= {"search_failed": "duework_job_failed", "over_next": "duework_job_kept"}
# Read also on connections whose plans are not pinned.
READ = [
    "lanes",
    "next_lease_end",
    "signals",
    "to_cancel",
    "summary",
    "count_failed",
    "search",
]
READ += ["search_failed", "search_held", "jobs", "batch.running", "batch.members"]
READ += ["batch.failed_members", "batch.open_members", "job", "behind", "ahead", "ready", "failed"]
READ += ["due_later", "failures", "fired_lately", "oldest_of", "batch.states"]
READ += ["due_later", "next_fires", "search_floor", "held_by_worker"]
READ += ["search_floor_failed", "oldest_kept", "newest_job"]


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def crowded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Kernel]:
    """A kernel with a million rows, which no test changes for good."""
    with roomy(request, tmp_path_factory, "crowded") as kernel:
        if kernel.database.kind == "postgres":
            # Nobody tells the planner anything in the meantime.
            off = "alter table duework_job set (autovacuum_enabled = off)"
            kernel.run(lambda tx: tx.write(off))
            # A third of the time to fill it.
            kernel.run(lambda tx: tx.write("alter table duework_job set unlogged"))
        yield filled(kernel)


def filled(kernel: Kernel) -> Kernel:
    lanes = [
        {"id": KNOWN, "task": "known"},
        {"id": UNKNOWN, "task": "unknown"},
        {"id": LATER, "task": "later"},
    ]
    with kernel.database.transaction() as tx:
        insert = (
            "insert into duework_lane (id, queue, task, priority) values (:id, 'default', :task, 0)"
        )
        tx.write(insert, rows=lanes)
        text = FILL.format(numbers=NUMBERS[kernel.database.kind])
        tx.write(text, kept=START + 10**9, later=START + 10**9, batch=BATCH)
    kernel.ids._last = ROWS  # noqa: SLF001 - those are taken
    return kernel


def statement(name: str) -> Statement:
    first, _, rest = name.partition(".")
    found: Statement = getattr(BATCHES, rest) if rest else ALL[first]
    return found


def plan(kernel: Kernel, name: str, *, reading: bool) -> list[str]:
    """The lines of the plan, as the database words them."""
    text = statement(name)
    values = ONE.get(name) or MANY.get(name) or {}
    if kernel.database.kind == "sqlite":
        asked = replace(text, sqlite=f"explain query plan {text.sqlite}")
    else:
        asked = replace(text, postgres=f"explain (costs off) {text.postgres}")
        values = {key: [v] for key, v in values.items()} if name in MANY else values
    if reading:
        with kernel.reading() as tx:
            return [str(row[-1]) for row in tx.query(asked, values)]
    tx = kernel.database.begin()
    try:
        return [str(row[-1]) for row in tx.query(asked, values)]
    finally:
        kernel.database.rollback()


def walks(kernel: Kernel, name: str, lines: list[str]) -> list[str]:
    """Lines that go through all of the job table, or of an index that is not known to be small."""
    if kernel.database.kind == "sqlite":
        found = [line for line in lines if re.match(r"SCAN (duework_job|j|w)\b", line)]
    else:
        # An index without a condition is walked from end to end, unless something stops it.
        found = [line for line in lines if re.search(r"Seq Scan on duework_job\b", line)]
        for place, line in enumerate(lines):
            conditions = []
            for after in lines[place + 1 :]:
                if "->" in after or "Plan" in after:
                    break
                conditions.append(after)
            index = re.search(r"(?:Index|Bitmap).* Scan.* (?:using|on) (duework_job_\w+)", line)
            if index and not any("Index Cond" in each for each in conditions):
                found.append(line)
    if name in WALKS_LEASES:
        found = [line for line in found if LEASED not in line]
    if small := WALKS_IN_ORDER.get(name):
        found = [line for line in found if small not in line]
    return found


def all_walks(kernel: Kernel) -> dict[str, list[str]]:
    found = {name: walks(kernel, name, plan(kernel, name, reading=False)) for name in ONE | MANY}
    for name in READ:
        found[f"{name}, reading"] = walks(kernel, name, plan(kernel, name, reading=True))
    return {name: lines for name, lines in found.items() if lines}


def test_no_statement_walks_through_the_table_without_statistics(crowded: Kernel) -> None:
    assert all_walks(crowded) == {}


def test_no_statement_walks_through_the_table_with_statistics(crowded: Kernel) -> None:
    analyse(crowded)

    assert all_walks(crowded) == {}


def test_sqlite_plans_each_statement_once(tmp_path: Path) -> None:
    again: list[int] = []
    with closing(App(f"sqlite:///{tmp_path / 'work.db'}")) as app:
        tx: Any = app.wiring.engine.database.begin()
        tx.connection.trace_v2(
            apsw.SQLITE_TRACE_PROFILE,
            lambda event: again.append(event["stmt_status"]["SQLITE_STMTSTATUS_REPREPARE"]),
        )
        found: dict[str, list[int]] = {}
        for name, values in (ONE | MANY).items():
            # Without a comment ahead SQLite does not count it.
            each = replace(statement(name), sqlite=f"-- {name}\n{statement(name).sqlite}")
            for _ in range(3):
                tx.query(each, values)
            found[name] = again.copy()
            again.clear()
        app.wiring.engine.database.rollback()

    assert {name: counts for name, counts in found.items() if any(counts)} == {}


OF_A_BATCH = ["members", "open_members", "failed_members", "failed_in_order", "revive_plain"]


@pytest.mark.parametrize("name", [f"batch.{name}" for name in OF_A_BATCH])
def test_members_are_found_by_their_batch(crowded: Kernel, name: str) -> None:
    failed = name not in {"batch.members", "batch.open_members"}
    index = "duework_job_batch_failed" if failed else r"duework_job_batch\b"

    lines = plan(crowded, name, reading=False)

    assert any(re.search(index, line) for line in lines), lines


def test_every_statement_on_jobs_is_looked_at_or_named_here() -> None:
    """A new statement has to be put into one of the tables above, or below with its reason."""
    by_its_id = {
        "replace",
        "keep_until",
        "ask_again",
        "link",
        "rewrite",
        "ask_cancel",
        "excuse_job",
    }
    by_its_id |= {"result", "replan", "still_held", "never_expire", "wake", "hasten"}
    inserts = {"insert", "insert_one", "insert_alike", "insert_keyed", "insert_keys"}
    inserts |= {"batch.insert_follow"}
    on_jobs = {name for name, each in ALL.items() if "duework_job" in each.sqlite}
    on_jobs |= {
        f"batch.{name}" for name, each in vars(BATCHES).items() if "duework_job" in each.sqlite
    }

    assert on_jobs == set(ONE) | set(MANY) | by_its_id | inserts


# --- what a claim really touches


def test_a_claim_behind_a_full_lane_of_an_unknown_task_touches_little(crowded: Kernel) -> None:
    crowded.enqueue(*[crowded.new("known") for _ in range(3)])
    taken: list[Any] = []

    if crowded.database.kind == "sqlite":
        steps = steps_of(crowded, lambda: taken.extend(crowded.claim("known")))

        assert len(taken) == 3
        # About 40 for each lane and 150 for each job; a walk would take millions.
        assert steps < 3000
    else:
        pages = [pages_of(crowded, statement(name), ONE[name]) for name in ("lanes", "claim")]
        taken = crowded.claim("known")

        assert len(taken) == 3
        # The table has some 17,000 pages and its index of open rows 2,600.
        assert max(pages) < 150
    crowded.settle(*[crowded.done(job) for job in taken])


def test_the_progress_of_a_large_batch_touches_next_to_nothing(crowded: Kernel) -> None:
    if crowded.database.kind == "sqlite":

        def look(tx: Any) -> Any:
            return tx.query(BATCHES.running, ONE["batch.running"])

        assert steps_of(crowded, lambda: crowded.run(look)) < 500
    else:
        assert pages_of(crowded, statement("batch.running"), ONE["batch.running"]) < 50


def test_a_claim_that_finds_nothing_touches_next_to_nothing(crowded: Kernel) -> None:
    if crowded.database.kind == "sqlite":
        assert steps_of(crowded, lambda: crowded.claim("known")) < 500
    else:
        assert pages_of(crowded, statement("lanes"), ONE["lanes"]) < 50
        assert pages_of(crowded, statement("next_lease_end"), {}) < 50
        assert pages_of(crowded, statement("signals"), ONE["signals"]) < 50


def test_to_ask_why_behind_many_touches_little(crowded: Kernel) -> None:
    """The last of 333,333 ready jobs of one lane, and the need for somebody to run them."""
    if crowded.database.kind == "sqlite":
        for name in ("job", "behind", "ahead", "ready", "failed"):

            def ask(name: str = name) -> None:
                crowded.run(lambda tx: tx.query(statement(name), ONE[name]))

            # About ten for each of the thousand that are counted; a walk would take millions.
            assert steps_of(crowded, ask) < 30_000, name
    else:
        for name in ("job", "behind", "ahead", "ready", "failed"):
            assert pages_of(crowded, statement(name), ONE[name]) < 1500, name
