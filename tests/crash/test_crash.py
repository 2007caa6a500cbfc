"""Every scenario, with the process lost before each of its statements in turn.

The process is lost at the k-th begin, statement, commit, or just after a commit, for k = 1, 2, … until a
run gets through. After each loss a new worker drains what is left, and what was promised must hold:
acknowledged work is there, effects happened once, nothing is held, nobody was charged twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from duework import DurableObject, Run
from duework.codec import checksum
from duework.db import migrate
from duework.db.database import Database, Tx
from duework.db.urls import open_database
from duework.kernel.lanes import Lanes
from duework.kernel.pruning import prune_round
from duework.testing import Fuse, FusedTx, Harness, WorkerCrashed, doomed
from tests.support.checks import is_sound
from tests.support.kernel import schema_steps

EFFECT = "create table effect (place bigint, job bigint, what text)"
WRITE = """insert into effect (place, job, what)
           select count(*), cast(:job as bigint), cast(:what as text) from effect"""
# More than any scenario has: a run that never gets through is a failure of the test.
MOST = 400


@pytest.fixture
def h(harness: Harness) -> Harness:
    with harness.app.transaction() as tx:
        tx.write(EFFECT)
    return harness


def forget(h: Harness) -> None:
    """Empty the database, and what the process remembers of it."""
    with h.app.transaction() as tx:
        kernel = ("job", "attempt", "once", "worker", "lane", "pause", "batch")
        for table in (*kernel, "object", "object_page", "object_lease"):
            tx.write(f"delete from duework_{table}")
        tx.write("delete from effect")
    h.app.wiring.engine.lanes = Lanes()


def settle_down(h: Harness) -> None:
    """Until nothing is left that time would bring; also the short wait after a crash alone."""
    h.advance("20s")


def at_every_point(
    h: Harness, begin: Callable[[], Any], check: Callable[[Any], None], *, floor: int
) -> None:
    """Begin, lose the worker before statement k of its drain, settle down, check; for all k."""
    for k in range(1, MOST):
        forget(h)
        given = begin()
        crashed = h.crash_worker(at=k)
        settle_down(h)
        nothing_is_held(h)
        check(given)
        if not crashed:
            assert k > floor, f"only {k - 1} points: is the fuse in its place?"
            return
    pytest.fail("it never got through")


def in_every_call(
    h: Harness,
    begin: Callable[[], Any],
    act: Callable[[Any], None],
    check: Callable[[Any], None],
    *,
    floor: int,
) -> None:
    """The same for what a process asks of the database outside of a worker."""
    for k in range(1, MOST):
        forget(h)
        given = begin()
        with doomed(h.app.wiring.engine, k) as fuse, suppress(WorkerCrashed):
            act(given)
        check(given)
        if not fuse.blown:
            assert k > floor, f"only {k - 1} points: is the fuse in its place?"
            return
    pytest.fail("it never got through")


def held(h: Harness) -> int:
    return len(h.app.read("select id from duework_job where worker is not null"))


def nothing_is_held(h: Harness) -> None:
    assert held(h) == 0


def rows(h: Harness) -> dict[int, Any]:
    return {row.id: row for row in h.app.read("select * from duework_job")}


def effects(h: Harness) -> list[str]:
    return [row.what for row in h.app.read("select what from effect order by place, what")]


def all_done(h: Harness, count: int, *, claims: int = 1) -> None:
    """So many jobs, each done, none claimed more than once more than it should be."""
    found = rows(h)
    assert [row.state for row in found.values()] == ["done"] * count
    assert all(row.fence <= claims + 1 for row in found.values())
    assert all(row.crashes == 0 for row in found.values())


def test_what_an_enqueue_has_answered_is_there_whenever_the_process_is_lost(h: Harness) -> None:
    @h.app.task
    async def note(run: Run, what: str) -> None:
        run.write(WRITE, job=run.job.id, what=what)

    def act(answered: list[str]) -> None:
        note.enqueue("plain")
        answered.append("plain")
        note.using(key="k").enqueue("keyed")
        answered.append("keyed")
        note.using(key="k").enqueue("keyed")
        note.using(key="o", once="forever").enqueue("once")
        answered.append("once")
        note.enqueue_many([("many",), ("many",), ("many",)])
        answered.append("many")

    def check(answered: list[str]) -> None:
        settle_down(h)
        found = effects(h)
        assert set(answered) <= set(found)
        assert all(found.count(what) in {0, 1} for what in ("plain", "keyed", "once"))
        assert found.count("many") in {0, 3}
        again = note.using(key="o", once="forever").enqueue("once")
        assert again.existed == ("once" in found)

    in_every_call(h, list, act, check, floor=18)


def test_a_misfit_is_put_off_and_nothing_is_charged_to_it_wherever_the_process_is_lost(
    h: Harness,
) -> None:
    @h.app.task
    async def take(value: int) -> None:
        raise AssertionError("it does not fit")

    def begin() -> int:
        job = take.enqueue(7)
        payload = '{"value":"seven"}'
        check = checksum(job.id, "take", payload)
        with h.app.transaction() as tx:
            change = "update duework_job set payload = :payload, checksum = :check where id = :id"
            tx.write(change, payload=payload, check=check, id=job.id)
        return job.id

    def check(job: int) -> None:
        row = rows(h)[job]
        assert (row.state, row.failures, row.crashes) == ("open", 0, 0)
        assert row.due > h.now
        outcomes = [each.outcome for each in h.app.attempts(job)]
        # At 0, 5 and 15 seconds; what the lost process held is in the history too.
        assert outcomes.count("misfit") == 3
        assert set(outcomes) <= {"misfit", "lost", "crashed"}

    at_every_point(h, begin, check, floor=5)


def test_a_task_that_enqueues_itself_under_its_own_key_goes_on_wherever_the_process_is_lost(
    h: Harness,
) -> None:
    @h.app.task
    async def pump(run: Run, number: int) -> None:
        run.write(WRITE, job=run.job.id, what=f"{number}")
        if number < 3:
            run.enqueue(pump.using(key="pump"), number + 1)

    def check(_: Any) -> None:
        all_done(h, 3)
        assert effects(h) == ["1", "2", "3"]

    at_every_point(h, lambda: pump.using(key="pump").enqueue(1), check, floor=12)


def test_a_chain_is_completed_and_each_effect_happens_once(h: Harness) -> None:
    @h.app.task
    async def link(run: Run, number: int) -> None:
        run.write(WRITE, job=run.job.id, what=str(number))
        if number < 3:
            run.enqueue(link, number + 1)

    def check(_: Any) -> None:
        all_done(h, 3)
        assert effects(h) == ["1", "2", "3"]
        jobs = [row.job for row in h.app.read("select job from effect order by place")]
        assert len(set(jobs)) == 3

    at_every_point(h, lambda: link.enqueue(1), check, floor=25)


def test_a_retry_counts_one_failure_and_then_succeeds(h: Harness) -> None:
    @h.app.task(retries=1, backoff=("0s",))
    async def flaky(run: Run) -> None:
        run.write(WRITE, job=run.job.id, what=f"attempt {run.attempt}")
        if run.attempt == 1:
            raise ValueError("not yet")

    def check(_: Any) -> None:
        all_done(h, 1, claims=2)
        assert effects(h) == ["attempt 2"]
        outcomes = [row.outcome for row in h.app.read("select outcome from duework_attempt")]
        assert outcomes.count("retry") == 1
        assert outcomes.count("crashed") <= 1
        assert [row.failures for row in rows(h).values()] == [1]

    at_every_point(h, flaky.enqueue, check, floor=16)


def test_an_effect_that_fails_takes_none_of_its_neighbours_with_it(h: Harness) -> None:
    told: list[int] = []

    @h.app.task
    async def write(run: Run, what: str) -> None:
        run.write(WRITE, job=run.job.id, what=what)
        if what == "bad":
            run.write("insert into nowhere values (1)")

    @write.settled
    def note(tx: Any, job: Any, outcome: str) -> None:
        tx.write(WRITE, job=job.id, what=outcome)
        told.append(job.id)

    def check(_: Any) -> None:
        states = sorted(row.state for row in rows(h).values())
        assert states == ["done", "done", "failed"]
        # The reaction to the failure is not run again where it might be what failed.
        assert sorted(effects(h)) in (
            ["done", "done", "good 1", "good 2"],
            ["done", "done", "failed", "good 1", "good 2"],
        )
        assert all(row.fence <= 2 for row in rows(h).values())

    at_every_point(
        h, lambda: write.enqueue_many([("good 1",), ("bad",), ("good 2",)]), check, floor=20
    )


def test_a_waiting_job_is_cancelled_with_all_that_wait_for_it_or_not_at_all(h: Harness) -> None:
    @h.app.task
    async def note(run: Run, what: str) -> None:
        run.write(WRITE, job=run.job.id, what=what)

    @note.settled
    def reaction(tx: Any, job: Any, outcome: str) -> None:
        tx.write(WRITE, job=job.id, what=outcome)

    def begin() -> list[Any]:
        first = note.using(delay="5s").enqueue("first")
        return [first.id, note.using(after=first).enqueue("second").id, False]

    def act(given: list[Any]) -> None:
        h.app.cancel(given[0])
        given[2] = True

    def check(given: list[Any]) -> None:
        first, second, answered = given
        settle_down(h)
        states = [rows(h)[first].state, rows(h)[second].state]
        assert states in (["cancelled", "cancelled"], ["done", "done"])
        assert not answered or states[0] == "cancelled"
        if states[0] == "cancelled":
            assert sorted(effects(h)) == ["cancelled", "cancelled"]
        else:
            assert sorted(effects(h)) == ["done", "done", "first", "second"]

    in_every_call(h, begin, act, check, floor=10)


def test_a_running_job_that_is_cancelled_ends_so_and_leaves_nothing(h: Harness) -> None:
    @h.app.task
    async def stop_me(run: Run) -> None:
        run.write(WRITE, job=run.job.id, what="never")
        await asyncio.to_thread(h.app.cancel, run.job.id, "enough")
        await asyncio.sleep(3600)

    def check(_: Any) -> None:
        (row,) = rows(h).values()
        assert (row.state, row.error) == ("cancelled", "enough")
        assert row.fence <= 2
        assert effects(h) == []

    at_every_point(h, stop_me.enqueue, check, floor=16)


def test_serial_jobs_keep_their_order_and_followers_come_after(h: Harness) -> None:
    @h.app.task
    async def note(run: Run, what: str) -> None:
        run.write(WRITE, job=run.job.id, what=what)

    def begin() -> None:
        jobs = [note.using(serial="s").enqueue(f"serial {n}") for n in range(3)]
        note.using(after=jobs[1]).enqueue("after 1")
        note.using(after=jobs[0], serial="s").enqueue("serial 3")

    def check(_: Any) -> None:
        all_done(h, 5)
        found = effects(h)
        assert [what for what in found if what != "after 1"] == [f"serial {n}" for n in range(4)]
        assert found.index("after 1") > found.index("serial 1")
        assert len(found) == 5

    at_every_point(h, begin, check, floor=40)


def test_a_second_run_that_was_asked_for_happens_once(h: Harness) -> None:
    @h.app.task
    async def twice(run: Run, number: int) -> None:
        run.write(WRITE, job=run.job.id, what=str(number))
        if number == 1:
            again = twice.using(key="k", when_running="again")
            assert (await again.aenqueue(2)).existed

    def check(_: Any) -> None:
        all_done(h, 1, claims=2)
        assert effects(h) == ["1", "2"]

    at_every_point(h, lambda: twice.using(key="k").enqueue(1), check, floor=20)


def test_pruning_leaves_whole_jobs_or_none(h: Harness) -> None:
    @h.app.task(retries=1, backoff=("0s",))
    async def flaky(run: Run) -> None:
        if run.attempt == 1:
            raise ValueError("not yet")

    @h.app.task
    async def fail() -> None:
        raise ValueError("never")

    def begin() -> list[int]:
        flaky.enqueue_many([()] * 3)
        kept = [fail.enqueue().id]
        h.drain()
        h.advance("8d")
        kept.append(flaky.using(delay="30d").enqueue().id)
        return kept

    def check(kept: list[int]) -> None:
        stray = "select job from duework_attempt where job not in (select id from duework_job)"
        assert h.app.read(stray) == []
        done = [row for row in rows(h).values() if row.state == "done"]
        assert len(done) in {0, 3}
        for row in done:
            assert len(h.app.attempts(row.id)) == 1
        prune_round(h.app.wiring.engine, 5)
        assert sorted(rows(h)) == sorted(kept)

    in_every_call(
        h, begin, lambda _: [prune_round(h.app.wiring.engine, 5) for _ in range(2)], check, floor=6
    )


def test_a_crash_while_a_crash_is_charged_charges_nobody_twice(h: Harness) -> None:
    @h.app.task
    async def note(run: Run, what: str) -> None:
        run.write(WRITE, job=run.job.id, what=what)

    def begin_at(k: int) -> None:
        # Always by a new worker, so that the statements are the same each time.
        settle_down(h)
        h.crash_worker()
        note.enqueue_many([("a",), ("b",)])
        assert h.crash_worker(at=k)

    begin_at(first := 1)
    while not held(h):
        settle_down(h)
        forget(h)
        begin_at(first := first + 1)

    def check(_: Any) -> None:
        assert [row.state for row in rows(h).values()] == ["done", "done"]
        assert sorted(effects(h)) == ["a", "b"]
        for row in rows(h).values():
            charged = [each.outcome for each in h.app.attempts(row.id)]
            assert charged in (["crashed"], ["crashed", "crashed"])
            assert row.crashes == 0
            assert row.fence == len(charged) + 1

    at_every_point(h, lambda: begin_at(first), check, floor=25)


def test_a_crash_while_a_suspect_is_charged_charges_nobody_twice(h: Harness) -> None:
    @h.app.task
    async def note(run: Run, what: str) -> None:
        run.write(WRITE, job=run.job.id, what=what)

    def charges() -> int:
        return len(h.app.read("select job from duework_attempt"))

    # Before which statements workers are lost: one that has claimed both, and three of which each has
    # charged its forerunner's crash and claimed what it could.
    places: list[int] = []

    def begin() -> None:
        # Always by a new worker, so that the statements are the same each time.
        settle_down(h)
        h.crash_worker()
        forget(h)
        note.enqueue_many([("a",), ("b",)])
        for place in places:
            assert h.crash_worker(at=place)

    for wanted in (0, 2, 4, 6):
        places.append(0)
        while not (held(h) and charges() == wanted):
            places[-1] += 1
            begin()

    def check(_: Any) -> None:
        assert [row.state for row in rows(h).values()] == ["done", "done"]
        assert sorted(effects(h)) == ["a", "b"]
        alone = []
        for row in rows(h).values():
            charged = [each.outcome for each in h.app.attempts(row.id)]
            assert charged[:3] == ["crashed"] * 3
            assert charged[3:] in ([], ["crashed alone"])
            assert row.crashes == len(charged) - 3
            assert row.fence == len(charged) + 1
            alone.append(row.crashes)
        assert 1 in alone

    at_every_point(h, begin, check, floor=25)


# --- objects


class Till(DurableObject):
    """Takes sales one by one, and closes by an alarm, which opens it again once."""

    note: Any = None

    def open(self) -> None:
        self.sql("create table if not exists sale (id integer primary key, what text)")

    def sell(self, what: str) -> int:
        self.sql("insert into sale (what) values (:what)", what=what)
        self.set_alarm("1s")
        self.enqueue(type(self).note, what)
        return len(self.sold())

    def close(self) -> None:
        sold = self.sold()
        if f"close {len(sold)}" not in sold:
            self.sql("insert into sale (what) values (:what)", what=f"close {len(sold)}")
        if len(sold) == 1:
            self.set_alarm("1s")

    def sold(self) -> list[str]:
        return [row.what for row in self.sql("select what from sale order by id")]

    async def alarm(self) -> None:
        await self.run(self.close)


def test_an_object_its_alarm_and_its_jobs_agree_whenever_the_process_is_lost(h: Harness) -> None:
    @h.app.task
    async def note(run: Run, what: str) -> None:
        run.write(WRITE, job=run.job.id, what=what)

    Till.note = note

    def act(answered: list[str]) -> None:
        for what in ("apple", "pear"):
            h.app.object(Till, "x").sell(what).result()
            answered.append(what)

    def check(answered: list[str]) -> None:
        is_sound(h)
        sold = h.app.object(Till, "x").sold().result()
        # What was answered is there; of what was not, all or nothing.
        assert sold[: len(answered)] == answered
        assert len(sold) - len(answered) in {0, 1}
        alarms = h.app.read("select id from duework_job where task = 'Till.alarm'")
        assert len(alarms) == (1 if sold else 0)
        h.drain()
        assert effects(h) == sold

    in_every_call(h, list, act, check, floor=18)


def test_an_alarm_is_rung_to_its_end_whenever_its_worker_is_lost(h: Harness) -> None:
    @h.app.task
    async def note(run: Run, what: str) -> None:
        run.write(WRITE, job=run.job.id, what=what)

    Till.note = note

    def begin() -> None:
        h.app.object(Till, "x").sell("apple").result()
        h.drain()
        h.clock.move_to(h.now + 1000)

    def check(_: Any) -> None:
        is_sound(h)
        sold = h.app.object(Till, "x").sold().result()
        # Rung at least once for each time it was set; at most once more for a lost process.
        assert sold in (
            ["apple", "close 1", "close 2"],
            ["apple", "close 1", "close 2", "close 3"],
        )
        assert h.app.object(Till, "x").info().alarm is None
        assert effects(h) == ["apple"]

    at_every_point(h, begin, check, floor=20)


# --- migrations


class FusedDatabase(Fuse):
    """The fuse also for transactions of their own, which is what migrations run in."""

    @contextmanager
    def transaction(self) -> Iterator[Tx]:
        self.step()
        with self._real.transaction() as tx:
            yield FusedTx(tx, self)
            self.step()
        self.step()


def schema(database: Database) -> set[tuple[Any, ...]]:
    with database.reading() as tx:
        if database.kind == "sqlite":
            found = tx.read("select type, name, sql from sqlite_schema")
        else:
            found = tx.read("""
                select 'column', c.relname || '.' || a.attname,
                       format_type(a.atttypid, a.atttypmod) || a.attnotnull::text
                from pg_class c join pg_attribute a on a.attrelid = c.oid
                where c.relnamespace = 'public'::regnamespace and a.attnum > 0
                union all select 'index', indexname, indexdef from pg_indexes
                where schemaname = 'public'""")
        applied: list[Any] = []
        if found:
            applied = tx.read(
                "select part, number, name, compatible, checksum from duework_migration"
            )
    return {tuple(row) for row in [*found, *applied]}


def one_after_another(steps: list[migrate.Migrations]) -> Iterator[list[migrate.Migrations]]:
    """The same with one migration, with two, and so on."""
    for place, each in enumerate(steps):
        for count in range(1, len(each.migrations) + 1):
            yield [*steps[:place], migrate.Migrations(each.part, each.migrations[:count])]


def empty(url: str) -> None:
    if url.startswith("sqlite"):
        for path in Path(url.removeprefix("sqlite:///")).parent.glob("work.db*"):
            path.unlink()
        return
    database = open_database(url, "process")
    with database.transaction() as tx:
        tx.write("drop schema public cascade")
        tx.write("create schema public")
    database.close()


def test_a_migration_is_applied_whole_or_not_at_all(url: str, tmp_path: Path) -> None:
    """Lost before each statement of each migration, on what the ones before it have left."""
    tables = tmp_path / "tables"
    tables.mkdir()
    (tables / "0001_streak.sql").write_text(
        "create table streak (id bigint primary key); create index streak_i on streak (id);"
    )
    (tables / "0002_more.sql").write_text("alter table streak add column days bigint;")
    empty(url)
    database = open_database(url, "process")
    kind = database.kind
    steps = [migrate.kernel_steps(kind), migrate.part_steps("streaks", tables, kind)]
    whole = [schema(database)]
    for each in one_after_another(steps):
        migrate.migrate(database, each)
        whole.append(schema(database))
    database.close()

    empty(url)
    database = open_database(url, "process")
    applied, points, k = 0, 0, 1
    while applied < len(whole) - 1:
        assert k < MOST, "it never got through"
        fuse = FusedDatabase(database, k)
        with suppress(WorkerCrashed):
            migrate.migrate(fuse, steps)  # type: ignore[arg-type]
        assert fuse.blown
        points, k = points + 1, k + 1
        if (found := schema(database)) != whole[applied]:
            applied, k = applied + 1, 1
            assert found == whole[applied]

    assert points > 5 * applied, f"only {points} points: is the fuse in its place?"
    assert migrate.migrate(database, steps) == []
    assert schema(database) == whole[-1]
    database.close()


def test_checksums_are_kept_of_all_that_was_applied_or_of_nothing(url: str) -> None:
    database = open_database(url, "process")
    steps = schema_steps(database.kind)
    migrate.migrate(database, steps)

    def told(what: str) -> list[Any]:
        with database.reading() as tx:
            found = tx.read(
                f"select number, {what} as it from duework_migration order by part, number"
            )
        return [row.it for row in found]

    compatible, checksums = told("compatible"), told("checksum")
    for k in range(1, MOST):
        with database.transaction() as tx:
            tx.write("alter table duework_migration drop column checksum")
            tx.write("update duework_migration set compatible = 1")
        fuse = FusedDatabase(database, k)
        with suppress(WorkerCrashed):
            migrate.migrate(fuse, steps)  # type: ignore[arg-type]
        assert told("compatible") in ([1] * len(checksums), compatible)
        migrate.migrate(database, steps)

        assert (told("compatible"), told("checksum")) == (compatible, checksums)
        if not fuse.blown:
            database.close()
            assert k > 10, f"only {k - 1} points: is the fuse in its place?"
            return
    pytest.fail("it never got through")
