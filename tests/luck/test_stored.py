"""Rows that this worker cannot run: unknown, damaged, hostile. Others flow, nothing is executed."""

import asyncio
import itertools
import pickle
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from duework import App, DatabaseError, InvalidArguments, JobFailed, SecretsError, UsageError
from duework.codec import checksum
from duework.kernel.facts import Fact, UnknownTask
from duework.testing import Harness
from duework.worker.worker import Worker
from tests.support.kernel import Kernel


def plant(app: App, sql: str, **values: Any) -> None:
    with app.transaction() as tx:
        tx.write(sql, **values)


def corrupt(harness: Harness, job: int, payload: str) -> None:
    """Store another payload, with a checksum that fits it."""
    [row] = harness.app.read("select task from duework_job where id = :id", id=job)
    plant(
        harness.app,
        "update duework_job set payload = :payload, checksum = :check where id = :id",
        payload=payload,
        check=checksum(job, row.task, payload),
        id=job,
    )


# --- unknown tasks


def test_jobs_of_an_unknown_task_stay_open_and_are_visible(harness: Harness) -> None:
    app, facts = harness.app, list[Fact]()
    app.on_fact(facts.append)
    done: list[str] = []

    @app.task
    async def known(name: str) -> None:
        done.append(name)

    @app.task
    async def elsewhere() -> None: ...

    stranger = elsewhere.enqueue()
    known.enqueue("ada")
    del app.wiring.registry._tasks["elsewhere"]  # noqa: SLF001 - another process knows it

    harness.drain()
    harness.advance("1h")

    row = stranger.refresh()
    assert done == ["ada"]
    assert (row.state, row.phase, row.fence, row.failures) == ("open", "ready", 0, 0)
    assert facts.count(UnknownTask("elsewhere")) == 1
    assert app.unknown_tasks() == ["elsewhere"]


def test_an_unknown_task_is_told_though_another_is_due_and_full(harness: Harness) -> None:
    app, facts = harness.app, list[Fact]()
    app.on_fact(facts.append)

    @app.task(concurrency=1)
    async def narrow() -> None:
        if not elsewhere_told():
            elsewhere.enqueue()
            await asyncio.sleep(0.05)

    @app.task
    async def elsewhere() -> None: ...

    def elsewhere_told() -> bool:
        return UnknownTask("elsewhere") in facts

    narrow.enqueue_many([() for _ in range(3)])
    del app.wiring.registry._tasks["elsewhere"]  # noqa: SLF001 - another process knows it
    told: list[bool] = []

    @narrow.settled
    def after(tx: Any, job: Any, outcome: Any) -> None:
        told.append(elsewhere_told())

    harness.drain()

    assert told[0], "while the first one ran, and two more were due"


def test_a_worker_that_knows_the_task_runs_it_later(harness: Harness) -> None:
    app = harness.app

    @app.task
    async def late() -> str:
        return "here"

    job = late.enqueue()
    definition = app.wiring.registry._tasks.pop("late")  # noqa: SLF001
    harness.drain()
    app.wiring.registry.add(definition)
    harness.crash_worker()

    harness.drain()

    assert job.refresh().result == "here"
    assert app.unknown_tasks() == []


def test_unknown_jobs_in_front_cost_the_claim_nothing(kernel: Kernel) -> None:
    kernel.enqueue(*(kernel.new(f"stranger{number % 3}", priority=9) for number in range(3000)))
    kernel.enqueue(kernel.new("greet"))
    statements: list[str] = []

    def claimed(tx: Any) -> Any:
        counting = Counting(tx, statements)
        from duework.kernel import claim as claims

        want = kernel.want("greet")
        return claims.claim(counting, want, kernel.settle_context())

    claim = kernel.run(claimed)

    assert [job.task for job in claim.jobs] == ["greet"]
    assert statements.count("claim") == 1
    assert len(statements) <= 5


class Counting:
    """A transaction that notes the names of its statements."""

    def __init__(self, real: Any, statements: list[str]) -> None:
        self._real = real
        self._statements = statements

    def query(self, statement: Any, values: Any) -> Any:
        self._statements.append(statement.name)
        return self._real.query(statement, values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


# --- damaged payloads

DAMAGED = {
    "not JSON": "{",
    "empty": "",
    "another shape": "[1, 2]",
    "a missing argument": "{}",
    "an argument too many": '{"name": "ada", "evil": 1}',
    "another type": '{"name": 7}',
    "too deep": '{"name": ' + "[" * 100_000 + "]" * 100_000 + "}",
    "too deep, open": "[" * 100_000,
    "a huge number": '{"name": ' + "9" * 100_000 + "}",
    "a huge exponent": '{"name": 1e999999}',
    "NaN": '{"name": NaN}',
    "a lone surrogate": '{"name": "\\ud800"}',
    "a class name": '{"name": {"_cls": "os:system", "args": ["true"]}}',
}


@pytest.mark.parametrize("payload", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_payload_that_cannot_be_run_fails_its_job_and_no_other(
    harness: Harness, payload: str
) -> None:
    app = harness.app
    greeted: list[str] = []
    reactions: list[tuple[int, str]] = []

    @app.task(retries=5)
    async def greet(name: str) -> None:
        greeted.append(name)

    @greet.settled
    def note(tx: Any, job: Any, outcome: str) -> None:
        reactions.append((job.id, outcome))

    first, bad, last = greet.enqueue("ada"), greet.enqueue("eve"), greet.enqueue("joe")
    corrupt(harness, bad.id, payload)

    harness.drain()
    harness.advance("30d")

    failed = bad.refresh()
    assert failed.state == "failed"
    assert failed.failures == 1, "it was left to other versions, and never run"
    assert failed.error
    assert len(failed.error) <= 4000
    assert sorted(greeted) == ["ada", "joe"]
    assert sorted(reactions) == [(first.id, "done"), (bad.id, "failed"), (last.id, "done")]
    assert [attempt.outcome for attempt in bad.attempts()] == ["misfit"] * 12 + ["failed"]


def test_a_flipped_bit_is_found_by_the_checksum_before_it_is_run(harness: Harness) -> None:
    app = harness.app
    paid: list[int] = []

    @app.task
    async def pay(amount: int) -> None:
        paid.append(amount)

    good, bad = pay.enqueue(100), pay.enqueue(100)
    plant(app, "update duework_job set payload = '{\"amount\":900}' where id = :id", id=bad.id)

    harness.drain()

    assert paid == [100]
    assert good.refresh().state == "done"
    assert "checksum" in (bad.refresh().error or "")


def test_a_payload_moved_to_another_job_is_found(harness: Harness) -> None:
    app = harness.app

    @app.task
    async def pay(amount: int) -> None: ...

    cheap, dear = pay.enqueue(1), pay.enqueue(1000)
    plant(
        app,
        """update duework_job set (payload, checksum) =
           (select d.payload, d.checksum from duework_job d where d.id = :dear) where id = :id""",
        dear=dear.id,
        id=cheap.id,
    )

    harness.drain()

    assert "checksum" in (cheap.refresh().error or "")
    assert dear.refresh().state == "done"


def test_a_row_that_contradicts_its_lane_fails(harness: Harness) -> None:
    app = harness.app

    @app.task
    async def greet() -> None: ...

    bad, good = greet.enqueue(), greet.enqueue()
    plant(app, "update duework_job set task = '../../etc/passwd' where id = :id", id=bad.id)

    harness.drain()

    assert "damaged" in (bad.refresh().error or "")
    assert good.refresh().state == "done"


def test_a_lease_of_a_row_whose_lane_is_gone_stops_nobody(harness: Harness) -> None:
    app = harness.app

    @app.task
    async def greet() -> None: ...

    bad, good = greet.enqueue(), greet.enqueue()
    plant(
        app,
        "update duework_job set lane = 4711, worker = 99, due = 0, linked = 1 where id = :id",
        id=bad.id,
    )

    harness.drain()

    assert good.refresh().state == "done"


# --- hostile rows


class Bomb:
    """Unpickling it leaves a file behind."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> Any:
        return (Path.touch, (self.canary,))


def texts(canary: Path, kind: str) -> Iterator[str]:
    """Things that have hurt others, each as a text."""
    touch = f"touch {canary}"
    yield pickle.dumps(Bomb(canary), protocol=0).decode("latin-1")
    yield f'{{"_cls": "os:system", "args": ["{touch}"]}}'
    yield f'{{"__reduce__": ["os.system", ["{touch}"]], "py/object": "os.system"}}'
    yield f'!!python/object/apply:os.system ["{touch}"]'
    yield f"__import__('os').system('{touch}')"
    yield "os.system"
    yield "celery.app.task:../../../../../../etc/passwd"
    yield "../../" * 20 + "etc/passwd"
    yield "'; drop table duework_job; --"
    yield '" or 1=1 --'
    yield "%(name)s :name $1 ? {0}"
    yield "[" * 100_000 + "]" * 100_000
    yield "9" * 5000
    yield "NaN"
    yield '{"a": 1, "a": 2}'
    yield '"\\ud800"'
    yield "\x1b[2J\x1b]0;owned\x07<script>alert(1)</script>\u202e\u2028"
    yield f"$({touch})`{touch}`"
    yield "x" * 100_000
    yield ""
    if kind == "sqlite":
        # PostgreSQL does not let it in.
        yield f"before\0{touch}"


def columns(app: App) -> list[tuple[str, str]]:
    """Every text column of every table of the kernel."""
    if app.wiring.engine.database.kind == "sqlite":
        sql = """select s.name as t, c.name as c from sqlite_schema s, pragma_table_info(s.name) c
                 where s.type = 'table' and s.name like 'duework%' and lower(c.type) = 'text'"""
    else:
        sql = """select c.table_name as t, c.column_name as c
                 from information_schema.columns c join information_schema.tables t
                 on t.table_schema = c.table_schema and t.table_name = c.table_name
                 where t.table_type = 'BASE TABLE' and c.table_name like 'duework%'
                 and c.data_type = 'text'"""
    return sorted((row.t, row.c) for row in app.read(sql))


def good_and_victims(harness: Harness) -> tuple[Any, list[str]]:
    app = harness.app
    seen: list[str] = []

    @app.task(retries=1)
    async def greet(name: str) -> None:
        seen.append(name)

    @greet.settled
    def note(tx: Any, job: Any, outcome: str) -> None: ...

    return greet, seen


# How to plant a row of each table, and how to find it again; the jobs' own are enqueued.
PLANTED = {
    "duework_lane": (
        "insert into duework_lane (id, queue, task, priority) values ({n}, 'q{n}', 't', 0)",
        "id = {n}",
    ),
    "duework_attempt": (
        "insert into duework_attempt (job, fence, outcome, ended) values ({n}, 1, 'lost', 0)",
        "job = {n}",
    ),
    "duework_once": (
        "insert into duework_once (task, key, job, until) values ('t', '{n}', {n}, 0)",
        "job = {n}",
    ),
    "duework_worker": (
        """insert into duework_worker (id, host, boot, space, pid, born, started)
           values ({n}, 'h', 'b', 's', 1, 1, 1)""",
        "id = {n}",
    ),
    "duework_pause": ("insert into duework_pause (queue) values ('{n}')", "queue = '{n}'"),
    "duework_meta": ("insert into duework_meta (name, value) values ('{n}', 'v')", "name = '{n}'"),
    "duework_pace": (
        "insert into duework_pace (name, kind, changed) values ('{n}', 'tick', 1)",
        "changed = 1 and name = '{n}'",
    ),
    "duework_chain": (
        """insert into duework_chain (id, task, key, payload, queue, priority, size, started, due,
                                      state, settled)
           values ({n}, 't', 'k{n}', '{{}}', 'default', 0, 1, 1, 1, 'done', 1)""",
        "id = {n}",
    ),
    "duework_page": (
        """insert into duework_page (chain, number, job, size, created)
           values ({n}, 1, {n}, 1, 1)""",
        "chain = {n}",
    ),
    "duework_batch": (
        """insert into duework_batch (id, name, key, task, total, done, due, created, settled)
           values ({n}, 'n', 'k{n}', 't', 1, 1, 1, 1, 1)""",
        "id = {n}",
    ),
    "duework_schedule": (
        """insert into duework_schedule (key, task, queue, priority, payload, kind, rule, start, tz,
                                         missed, missed_limit, overlap, state, created)
           values ('{n}', 't', 'default', 0, '{{}}', 'every', '5', {n}, 'UTC', 'once', 1, 'skip',
                   'paused', 1)""",
        "start = {n}",
    ),
    "duework_delivery": (
        """insert into duework_delivery (job, channel, key, payload, state, child, settled, due)
           values ({n}, 'c', 'k', '{{}}', 'failed', {n}, 1, 1)""",
        "job = {n}",
    ),
    "duework_outbox": (
        """insert into duework_outbox (id, outbox, key, message, state, job, queue, priority, lane,
                                       created, settled, due)
           values ({n}, 'o', 'k{n}', '{{}}', 'failed', {n}, 'default', 0, '', 1, 1, 1)""",
        "id = {n}",
    ),
    "duework_object": (
        """insert into duework_object (id, kind, key, version, pages, created, changed)
           values ({n}, 't', 'k{n}', 1, 0, 1, 1)""",
        "id = {n}",
    ),
    "duework_object_lease": (
        """insert into duework_object_lease (kind, key, holder, until)
           values ('t', 'k{n}', {n}, 1)""",
        "holder = {n}",
    ),
    "duework_secret": (
        """insert into duework_secret (name, key, sealed, updated)
           select 's{n}', key, sealed, 1 from duework_secret where name = 'seed'""",
        "name = 's{n}'",
    ),
    "duework_token": (
        """insert into duework_token (hash, kind, name, scope, created)
           values ('h{n}', 'token', 't{n}', 'read', {n})""",
        "created = {n}",
    ),
    "duework_audit": (
        """insert into duework_audit (id, at, who, what, target, why, outcome)
           values ({n}, 1, 'w', 'w', 't', '', 'done')""",
        "id = {n}",
    ),
    "duework_person": (
        """insert into duework_person (id, part, email, created)
           values ({n}, 'p', 'e{n}', 1)""",
        "id = {n}",
    ),
    "duework_pass": (
        """insert into duework_pass (hash, kind, part, email, created, expires)
           values ('h{n}', 'session', 'p', 'e', 1, {n})""",
        "expires = {n}",
    ),
    "duework_minute": (
        """insert into duework_minute (span, start, queue, task, started, done, failed, cancelled,
           retried, lag, lag_most, lag_10ms, lag_100ms, lag_1s, lag_10s, lag_1min, lag_more)
           values (1, {n}, 'q', 't', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)""",
        "start = {n}",
    ),
    "duework_blob": (
        """insert into duework_blob (name, content, size, digest, kind, about, created, due)
           values ('b{n}', {n}, 1, 'd', 'k', '{{}}', 1, 1)""",
        "content = {n}",
    ),
    "duework_budget": (
        """insert into duework_budget (name, declared, most, per, tz, period, turn, spent, reserved)
           values ('b{n}', 1, 1, 'day', 'UTC', {n}, 2, 0, 0)""",
        "period = {n}",
    ),
    "duework_spend": (
        """insert into duework_spend (id, budget, period, amount, state, note, at, until)
           values ({n}, 'b', 1, 1, 'reserved', '', 1, 1)""",
        "id = {n}",
    ),
    "duework_budget_waiter": (
        "insert into duework_budget_waiter (budget, job, period) values ('b', {n}, 1)",
        "job = {n}",
    ),
    "duework_topic": ("insert into duework_topic (name) values ('t{n}')", "name = 't{n}'"),
    "duework_subscriber": (
        """insert into duework_subscriber (name, event, queue, priority, bulk, within_ms, created)
           values ('s{n}', 'e', 'default', 0, 1, 1, {n})""",
        "created = {n}",
    ),
    "duework_event": (
        """insert into duework_event (id, name, payload, jobs, at, due)
           values ({n}, 'e', '{{}}', 0, 1, 1)""",
        "id = {n}",
    ),
    "duework_event_job": (
        """insert into duework_event_job (event, subscriber, job, at, parked)
           values ({n}, 's', {n}, 1, 0)""",
        "event = {n}",
    ),
    "duework_label": ("insert into duework_label (job, headers) values ({n}, '{{}}')", "job = {n}"),
    "duework_tag": ("insert into duework_tag (job, tag) values ({n}, 't')", "job = {n}"),
    "duework_metric": (
        """insert into duework_metric (span, name, start, labels, kind, count, total, most)
           values (1, 'm', {n}, '{{}}', 'counter', 1, 1, 1)""",
        "start = {n}",
    ),
    "duework_workflow": (
        """insert into duework_workflow (job, task, call, state, started, due)
           values ({n}, 't', 1, 'running', 1, 1)""",
        "job = {n}",
    ),
    "duework_step": (
        """insert into duework_step (job, place, name, kind, state, fence, failures, started, ended)
           values ({n}, 1, 's', 'step', 'done', 1, 0, 1, 1)""",
        "job = {n}",
    ),
    "duework_signal": (
        """insert into duework_signal (id, event, key, payload, at)
           values ({n}, 'e', 'k', '{{}}', 1)""",
        "id = {n}",
    ),
    "duework_signalled": (
        "insert into duework_signalled (event, key, changed) values ('e', 'k{n}', {n})",
        "changed = {n}",
    ),
    "duework_heard": (
        "insert into duework_heard (job, event, key, signal) values ({n}, 'e', 'k', 1)",
        "job = {n}",
    ),
    "duework_sweep": (
        """insert into duework_sweep (name, state, queue, priority, created)
           values ('s{n}', 'stopped', 'default', 0, {n})""",
        "created = {n}",
    ),
    "duework_sweep_item": (
        """insert into duework_sweep_item (sweep, key, failures, next_try, changed)
           values ('s', 'k{n}', 1, 1, {n})""",
        "changed = {n}",
    ),
    "duework_migration": (
        """insert into duework_migration (part, number, name, compatible)
           values ('{n}', 1, 'n', 1)""",
        "part = '{n}'",
    ),
}


def infest(harness: Harness, greet: Any, hostile: list[str]) -> set[tuple[str, str]]:
    """Write each text into each column; which columns took at least one."""
    number, taken, found = 10_000, set(), columns(harness.app)
    with harness.app.transaction() as tx:
        tx.seal("seed", "planted")
        for (table, column), text in itertools.product(found, hostile):
            number += 1
            if table == "duework_job":
                job = tx.enqueue(greet.using(key=f"k{number}"), f"victim {number}")
                where = f"id = {job.id}"
            else:
                insert, where = (part.format(n=number) for part in PLANTED[table])
                tx.write(insert)
            # A constraint, or an index that takes no text of such a length.
            with suppress(DatabaseError), tx._tx.savepoint():  # noqa: SLF001 - there is no public one
                tx.write(f"update {table} set {column} = :x where {where}", x=text)
                taken.add((table, column))
    return taken


def test_hostile_texts_in_every_column_do_nothing(
    harness: Harness, kind: str, tmp_path: Path
) -> None:
    app, canary = harness.app, tmp_path / "canary"
    greet, seen = good_and_victims(harness)
    taken = infest(harness, greet, list(texts(canary, kind)))
    greet.using(priority=9).enqueue("good, first")
    greet.enqueue("good, last")

    harness.drain()
    harness.advance("2d")

    assert not canary.exists()
    assert {"good, first", "good, last"} <= set(seen)
    assert {table for table, _ in taken} == {"duework_job", *PLANTED}
    states = ("job", "chain", "page", "schedule", "delivery", "outbox")
    closed = {(f"duework_{each}", "state") for each in states}
    closed |= {("duework_schedule", each) for each in ("kind", "missed", "overlap")}
    closed |= {("duework_token", each) for each in ("kind", "scope")}
    closed.add(("duework_pass", "kind"))
    assert set(columns(app)) - taken == closed
    left = app.read(
        "select count(*) as n from duework_job where state = 'open' and due <= :now",
        now=harness.now,
    )
    assert left[0].n == 0
    for job in app.jobs(limit=1000):
        for name in ("phase", "result", "failure", "arguments", "progress", "due_at"):
            with suppress(InvalidArguments, JobFailed):
                getattr(job, name)
    assert app.batches(limit=5)
    assert app.schedules()
    for each in app.secrets.names():
        with suppress(SecretsError, UsageError):
            assert app.secrets.open(each) == "planted"
    for chain in app.chains(limit=1000):
        for name in ("cursor", "counts", "arguments", "percent"):
            with suppress(InvalidArguments):
                getattr(chain, name)


def test_hostile_texts_as_payloads_with_a_valid_checksum_only_fail_their_jobs(
    harness: Harness, kind: str, tmp_path: Path
) -> None:
    canary = tmp_path / "canary"
    greet, seen = good_and_victims(harness)
    victims = []
    for text in texts(canary, kind):
        job = greet.enqueue("victim")
        corrupt(harness, job.id, text)
        victims.append(job)
    greet.enqueue("good")

    harness.advance("2h")

    assert not canary.exists()
    assert seen == ["good"]
    assert {job.refresh().state for job in victims} == {"failed"}


def test_a_text_that_is_not_utf8_fails_its_job_and_no_other(harness: Harness, kind: str) -> None:
    app = harness.app
    greet, seen = good_and_victims(harness)
    bad, task, good = (greet.enqueue(name) for name in ("bad", "task", "good"))
    if kind == "postgres":
        with pytest.raises(DatabaseError):
            plant(app, "update duework_job set payload = convert_from('\\xff', 'UTF8')")
    else:
        spoil = "update duework_job set {} = cast(x'7bff7d' as text) where id = :id"
        plant(app, spoil.format("payload"), id=bad.id)
        plant(app, spoil.format("task"), id=task.id)

    harness.drain()

    assert "good" in seen
    if kind == "sqlite":
        assert seen == ["good"]
        assert "checksum" in (bad.refresh().error or "")
        assert task.refresh().state == "failed"
        assert good.refresh().state == "done"


def test_a_value_of_another_type_does_not_get_into_a_column(harness: Harness, kind: str) -> None:
    app = harness.app
    greet, _ = good_and_victims(harness)
    job = greet.enqueue("ada")
    wrong = {"due": "'soon'", "fence": "'x'", "worker": "'me'", "lane": "'default'"}

    for column, value in wrong.items():
        with pytest.raises(DatabaseError):
            plant(app, f"update duework_job set {column} = {value} where id = :id", id=job.id)
    if kind == "sqlite":
        # STRICT tables: elsewhere SQLite would keep the blob and the fraction as they are.
        for column, value in {"payload": "x'00'", "due": "1.5", "checksum": "x'01'"}.items():
            with pytest.raises(DatabaseError):
                plant(app, f"update duework_job set {column} = {value} where id = :id", id=job.id)
    with pytest.raises(DatabaseError):
        plant(app, "update duework_job set state = 'exploded' where id = :id", id=job.id)

    harness.drain()

    assert job.refresh().state == "done"


def test_an_unsettleable_ending_is_set_aside_and_others_flow(harness: Harness, kind: str) -> None:
    """A trigger of somebody else's refuses one row: its neighbours are settled all the same."""
    app = harness.app

    @app.task
    async def greet(name: str) -> None:
        """Nobody reacts to it: all of them are settled by one statement."""

    bad = greet.enqueue("bad")
    others = [greet.enqueue(f"other {number}") for number in range(3)]
    if kind == "sqlite":
        with app.transaction() as tx:
            tx._tx.connection.execute(  # type: ignore[attr-defined]  # noqa: SLF001
                f"""create trigger no before update of state on duework_job
                    when new.id = {bad.id} and new.state = 'done'
                    begin select raise(abort, 'not this one'); end"""
            )
    else:
        plant(
            app,
            f"""create function no() returns trigger language plpgsql as $$ begin
                  if new.id = {bad.id} and new.state = 'done' then raise 'not this one'; end if;
                  return new;
                end $$""",
        )
        plant(
            app,
            "create trigger no before update on duework_job for each row execute function no()",
        )

    harness.drain()

    assert {job.refresh().state for job in others} == {"done"}
    assert "not this one" in (bad.refresh().error or "")
    assert isinstance(harness._worker, Worker)  # noqa: SLF001 - it is the same one still
