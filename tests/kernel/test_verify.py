"""Every invariant of `verify` holds on a healthy database and is missed when a row breaks it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from duework.clock import FOREVER
from duework.codec import checksum
from duework.health.verify import Finding, verify
from duework.shapes.objects import SHAPE
from tests.support.checks import EVERY
from tests.support.kernel import ME, Kernel

HELD, DONE, RETRYING, KEYED, HEAD, PARKED, BEFORE, AFTER = range(1, 9)
BATCH, MEMBER = 9, 11
FIRE, SLOT, MESSAGE = 13, 14, 15


def chain(state: str, number: int, completed: int, key: str = "a") -> str:
    """A statement that makes chain 50 + `number` of task `greet`."""
    settled = "null" if state == "active" else "1"
    return f"""insert into duework_chain (id, task, key, state, payload, queue, priority, size,
                                          number, completed, started, settled, due)
               values ({50 + number}, 'greet', '{key}', '{state}', '{{}}', 'default', 0, 9,
                       {number}, {completed}, 1, {settled}, 1)"""


def pages(of: int, **states: str) -> str:
    """A statement that makes pages of such a chain; `p2="done"` is the second one."""
    rows = ", ".join(
        f"({50 + of}, {name[1:]}, {100 * of + int(name[1:])}, '{state}', 9, 1)"
        for name, state in states.items()
    )
    return f"insert into duework_page (chain, number, job, state, size, created) values {rows}"


# For each invariant, statements that break it in the rows that `healthy` makes.
STEP = "insert into duework_step (job, place, name, kind, state, fence, failures, started, ended) values"
EVENT_JOB = "insert into duework_event_job (event, subscriber, job, at, parked) values"
PLANTED: dict[str, Sequence[str]] = {
    "step_never_changes": [
        f"{STEP} ({DONE}, 1, 'a', 'step', 'done', 2, 0, 1, 1)",
        f"{STEP} ({DONE}, 2, 'b', 'step', 'done', 1, 0, 1, 1)",
    ],
    "step_without_gap": [f"{STEP} ({DONE}, 2, 'b', 'step', 'done', 0, 0, 1, 1)"],
    "step_has_ended": [f"{STEP} ({DONE}, 1, 'a', 'step', 'done', 0, 0, 1, null)"],
    "step_was_held": [f"{STEP} ({DONE}, 1, 'a', 'step', 'done', 99, 0, 1, 1)"],
    "child_is_there": [
        f"{STEP} ({KEYED}, 1, 'a', 'child', 'waiting', 0, 0, 1, null)",
        "update duework_step set child = 999",
    ],
    "signal_is_heard": [
        f"{STEP} ({KEYED}, 1, 'a', 'wait', 'waiting', 0, 0, 1, null)",
        f"""update duework_step set event = 'paid', key = '7',
            due = (select due from duework_job where id = {KEYED})""",
        "insert into duework_signal (id, event, key, payload, at) values (1, 'paid', '7', '{}', 2)",
    ],
    "budget_equals_ledger": [
        """insert into duework_budget (name, declared, most, per, tz, period, turn, spent, reserved)
           values ('llm', 9, 9, 'day', 'UTC', 1, 2, 5, 0)"""
    ],
    "spend_has_ended": [
        """insert into duework_spend (id, budget, period, amount, state, note, at, until, ended)
           values (1, 'llm', 1, 5, 'settled', '', 1, 2, null)"""
    ],
    "event_reached_all": [
        "insert into duework_event (id, name, payload, jobs, at, due) values (1, 'e', '{}', 1, 1, 2)"
    ],
    "event_job_is_its_own": [f"{EVENT_JOB} (1, 'somebody', {DONE}, 1, 0)"],
    "event_job_is_one": [
        f"update duework_job set task = 'x', owner = 'event:1' where id in ({DONE}, {RETRYING})"
    ],
    "parked_event_is_open": [f"{EVENT_JOB} (1, 'somebody', 999, 1, 1)"],
    "bulk_has_job": [
        """insert into duework_subscriber (name, event, queue, priority, bulk, within_ms, job, created)
           values ('s', 'e', 'default', 0, 10, 1, 999, 1)"""
    ],
    "sweep_has_sweeper": [
        """insert into duework_sweep (name, state, job, queue, priority, created)
           values ('s', 'running', 999, 'default', 0, 1)"""
    ],
    "blob_content_stays": [
        f"insert into duework_blob values ('b', 7, 0, '{'0' * 64}', '', '{{}}', 1, 2)",
        "insert into duework_blob_trash values (7, 1, 0)",
    ],
    "blob_is_whole": ["insert into duework_blob values ('b', 7, 0, '', '', '{}', 1, 2)"],
    "label_bounds_its_job": [
        (
            "insert into duework_label (job, latest)"
            " select id, at - 1 from duework_job where state = 'open' and worker is null"
            " and failures = 0 order by id limit 1"
        )
    ],
    "tag_has_a_label": ["insert into duework_tag values (7, 'x')"],
    "metric_begins_with_its_span": ["insert into duework_metric values (1,'m',7,'{}','x',1,1,1)"],
    "state_is_known": [f"update duework_job set state = 'lost', settled = 1 where id = {KEYED}"],
    "settled_has_time": [f"update duework_job set settled = null where id = {DONE}"],
    "worker_only_on_open": [f"update duework_job set worker = {ME} where id = {DONE}"],
    "key_is_open_once": [
        "drop index duework_job_key",
        f"update duework_job set task = 'greet', key = 'ada' where id = {HEAD}",
    ],
    "fence_counts_up": [f"update duework_job set fence = 0 where id = {HELD}"],
    "lease_ends": [f"update duework_job set due = {FOREVER} where id = {HELD}"],
    "held_is_not_over": [f"update duework_attempt set job = {HELD} where job = {RETRYING}"],
    "failures_are_recorded": [f"update duework_job set failures = 2 where id = {RETRYING}"],
    "settled_asks_nothing": [f"update duework_job set again = '[]' where id = {DONE}"],
    "attempt_of_job": [f"update duework_attempt set job = 999 where job = {RETRYING}"],
    "attempt_fence": [f"update duework_attempt set fence = 7 where job = {RETRYING}"],
    "attempt_outcome": [f"update duework_attempt set outcome = 'odd' where job = {RETRYING}"],
    "lane_exists": [f"update duework_job set lane = 999 where id = {KEYED}"],
    "lane_closed_by_pause": ["delete from duework_pause"],
    "linked_is_set": [f"update duework_job set linked = 0 where id = {BEFORE}"],
    "parked_has_reason": [f"update duework_job set after = null where id = {AFTER}"],
    "serial_is_single": [f"update duework_job set due = 0 where id = {PARKED}"],
    "serial_moves": [f"update duework_job set due = {FOREVER} where id = {HEAD}"],
    "once_is_single": [
        "drop table duework_once",
        "create table duework_once (task text, key text, job integer, until integer)",
        "insert into duework_once values ('greet', 'ada', 1, 2), ('greet', 'ada', 3, 4)",
    ],
    "lease_has_worker": ["delete from duework_worker"],
    "batch_counts": [f"update duework_job set state = 'done', settled = 1 where id = {MEMBER}"],
    "batch_settles": [f"update duework_batch set due = 0 where id = {BATCH}"],
    "batch_exists": [f"update duework_job set batch = 999 where id = {MEMBER}"],
    "chain_key_is_active_once": [
        "drop index duework_chain_key",
        chain("active", 1, 0),
        chain("active", 2, 1),
    ],
    "chain_pages_are_gapless": [chain("failed", 3, 2), pages(3, p1="done", p3="failed")],
    "chain_completed_is_a_recount": [chain("failed", 2, 1), pages(2, p1="failed", p2="done")],
    "chain_goes_on": [chain("active", 2, 1), pages(2, p1="done", p2="open")],
    "chain_has_one_open_job": [
        f"update duework_job set owner = 'chain:1', linked = 1 where id in ({KEYED}, {BEFORE})"
    ],
    "chain_done_is_complete": [chain("done", 2, 1), pages(2, p1="done", p2="cancelled")],
    "page_of_chain": [pages(2, p1="done")],
    "schedule_is_armed": [f"update duework_job set due = due + 1 where id = {FIRE}"],
    "schedule_rests": ["update duework_schedule set due = slot - 1"],
    "fire_has_schedule": ["delete from duework_schedule"],
    "slot_is_fired_once": [
        f"""insert into duework_job (id, lane, task, key, due, at, payload, checksum, state, settled)
            select 999, lane, task, key, due, at, payload, {checksum(999, "tick", "{}")}, 'done', 1
            from duework_job where id = {SLOT}"""
    ],
    # Its delivery is still open, and would look after it only much later.
    "delivery_moves": ["update duework_delivery set child = 0 where state = 'sending'"],
    "delivery_was_started": [
        "update duework_delivery set send_started = null where state = 'sent'"
    ],
    "message_moves": ["update duework_outbox set job = 0 where state = 'queued'"],
    "message_was_submitted": ["update duework_outbox set submits = 0 where state = 'sent'"],
    "message_has_handle": [
        "update duework_outbox set state = 'sending', settled = null where state = 'sent'",
    ],
    "pace_within_limit": ["update duework_pace set used = 16"],
    "lane_waits_for_pace": ["update duework_lane set pace = 'nobody' where id = 99"],
    "slot_is_promised": [f"update duework_job set slot = 5, slot_fence = 9 where id = {HELD}"],
    "payload_checksum": [f"update duework_job set payload = '[1]' where id = {KEYED}"],
}


@pytest.fixture
def kernel(url: str) -> Iterator[Kernel]:
    """On a database of its own, since its schema is broken here."""
    with Kernel(url) as verbs:
        yield verbs


@pytest.fixture
def healthy(kernel: Kernel) -> Kernel:
    """One row of each kind that an invariant speaks of."""
    kernel.enqueue(kernel.new("held"))
    kernel.enqueue(kernel.new("plain"), kernel.new("failing"))
    kernel.claim("held")
    [plain] = kernel.claim("plain")
    [failing] = kernel.claim("failing")
    kernel.settle(kernel.done(plain))
    kernel.settle(kernel.ending(failing, "retry", due=kernel.now + 1, error="no"))
    kernel.enqueue(kernel.new("greet", key="ada", once_until=FOREVER))
    kernel.enqueue(kernel.new("serial", serial="s"), kernel.new("serial", serial="s"))
    kernel.enqueue(kernel.new("first"))
    kernel.enqueue(kernel.new("second", after=BEFORE))
    kernel.batch("member", 2, then="report")
    kernel.enqueue(kernel.new("fire", owner="schedule:s", at=7))
    kernel.enqueue(kernel.new("tick", key="schedule:s@5", at=5))
    kernel.enqueue(kernel.new("mail.submit"))
    with kernel.database.transaction() as tx:
        tx.write(
            "insert into duework_worker (id, host, boot, space, pid, born, started)"
            " values (:id, 'h', '', '', 1, 1, 1)",
            id=ME,
        )
        tx.write(
            "insert into duework_schedule (key, task, queue, priority, payload, kind, rule, start, tz,"
            " missed, missed_limit, overlap, slot, due, job, created)"
            " values ('s', 'tick', 'default', 0, '{}', 'every', '5', 0, 'UTC', 'once', 1, 'skip',"
            " 7, 7, :job, 0)",
            job=FIRE,
        )
        tx.write(
            "insert into duework_pace (name, kind, used, most, changed)"
            " values ('mail', 'tick', 15, 15, 1)"
        )
        tx.write("update duework_lane set pace = 'mail' where id = 1")
        tx.write("insert into duework_pause (queue) values ('quiet')")
        tx.write(
            "insert into duework_lane (id, queue, task, priority, due)"
            " values (99, 'quiet', 'quiet', 0, :forever)",
            forever=FOREVER,
        )
        tx.write(
            "insert into duework_delivery"
            " (job, channel, key, payload, state, child, sends, send_started, settled, due)"
            " values (:job, :channel, 'k', '{}', :state, :child, 1, 1, :settled, 0)",
            rows=[
                {"job": HELD, "channel": "a", "state": "sending", "child": KEYED, "settled": None},
                {"job": HELD, "channel": "b", "state": "sent", "child": DONE, "settled": 1},
            ],
        )
        tx.write(
            "insert into duework_outbox (id, outbox, key, message, state, job, queue, priority,"
            " lane, submits, created, settled, due)"
            " values (:id, 'mail', :key, '{}', :state, :job, 'q', 0, '', :submits, 1, :settled, 9)",
            rows=[
                {
                    "id": 1,
                    "key": "a",
                    "state": "queued",
                    "job": MESSAGE,
                    "submits": 0,
                    "settled": None,
                },
                {"id": 2, "key": "b", "state": "sent", "job": 0, "submits": 1, "settled": 1},
            ],
        )
    return kernel


def found(kernel: Kernel, *, full: bool = False) -> dict[str, Finding]:
    with kernel.reading() as tx:
        return {each.name: each for each in verify(tx, EVERY, full=full)}


def plant(kernel: Kernel, statements: Sequence[str]) -> None:
    """Write what the kernel never would; the schema's own checks are taken out of the way."""
    connection = kernel.database.connect()
    if kernel.database.kind == "sqlite":
        connection.execute("pragma ignore_check_constraints = on")
    else:
        named = "select conname from pg_constraint where contype = 'c' and conrelid = "
        for (name,) in connection.execute(f"{named} 'duework_job'::regclass").fetchall():
            connection.execute(f'alter table duework_job drop constraint "{name}"')
    for statement in statements:
        connection.execute(statement)
    if kernel.database.kind == "postgres":
        connection.commit()
    connection.close()


def test_a_healthy_database_has_no_violations(healthy: Kernel) -> None:
    findings = found(healthy, full=True)

    assert [each for each in findings.values() if each.violations] == []
    assert findings["settled_has_time"].checked == 13
    assert findings["batch_counts"].checked == 1
    assert findings["batch_exists"].checked == 2
    assert findings["parked_has_reason"].checked == 2
    assert findings["attempt_fence"].checked == 1


def test_every_invariant_has_a_violation_planted() -> None:
    ours = {each.name for each in EVERY if each.name not in OF_OBJECTS}

    assert ours | {"payload_checksum"} == PLANTED.keys()


# Planted in the tests of objects.
OF_OBJECTS = {each.name for each in SHAPE.checks()}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_violation_is_found(healthy: Kernel, name: str) -> None:
    plant(healthy, PLANTED[name])

    finding = found(healthy)[name]

    assert finding.violations == 1
    assert finding.sample


def test_only_the_newest_payloads_are_compared_unless_all_are_asked_for(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duework.health.verify.SAMPLED_PAYLOADS", 2)
    monkeypatch.setattr("duework.health.verify.BOUND", 2)
    kernel.enqueue(*(kernel.new() for _ in range(5)))
    plant(kernel, ["update duework_job set payload = '[1]' where id = 1"])

    sampled = found(kernel)["payload_checksum"]
    full = found(kernel, full=True)["payload_checksum"]

    assert (sampled.checked, sampled.violations) == (2, 0)
    assert (full.checked, full.violations) == (5, 1)


def test_verify_changes_nothing(healthy: Kernel) -> None:
    before = healthy.rows()

    found(healthy, full=True)

    assert healthy.rows() == before


def test_the_database_checks_itself_when_asked(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("full") / "work.db"
    with Kernel(f"sqlite:///{path}") as kernel:
        kernel.enqueue(kernel.new())
        plant(
            kernel,
            [
                "pragma foreign_keys = off",
                "create table parent (id integer primary key)",
                "create table child (parent integer references parent (id))",
                "insert into child values (7)",
                "update duework_job set state = 'odd'",
            ],
        )

        findings = found(kernel, full=True)

    assert findings["foreign_keys"].violations == 1
    assert "CHECK" in findings["integrity"].sample[0]
