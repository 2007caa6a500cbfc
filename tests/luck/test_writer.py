"""The writer outlives what its callers do to it, and only the offender pays."""

import asyncio
import contextlib
import gc
import logging
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from duework import App, DatabaseError, Run, UsageError
from duework.db.database import Tx
from duework.db.queries import script
from duework.db.urls import open_database
from duework.db.writer import writer as writer_module
from duework.db.writer.writer import Writer
from duework.testing import Harness
from duework.worker.wake.wakeups import Wakeups
from tests.support.groups import in_one_group
from tests.support.kernel import Kernel

DEFERRED = (
    "create table parent (id integer primary key)",
    """create table child (id integer primary key,
                           parent integer references parent (id) deferrable initially deferred)""",
)


def insert_children(tx: Tx, wanted: list[int]) -> Sequence[int]:
    for number in wanted:
        tx.write("insert into child (id, parent) values (:id, :parent)", id=number, parent=number)
    return wanted


def test_a_commit_that_is_refused_fails_the_offender_alone(kernel: Kernel) -> None:
    with kernel.database.transaction() as tx:
        for statement in DEFERRED:
            tx.write(statement)
        tx.write("insert into parent (id) values (1), (3)")

    answers = in_one_group(
        kernel.writer, [(insert_children, [1]), (insert_children, [2]), (insert_children, [3])]
    )

    assert answers[0] == [1]
    assert isinstance(answers[1], DatabaseError)
    assert answers[2] == [3]
    assert [row.id for row in kernel.read("select id from child order by id")] == [1, 3]
    assert kernel.writer.call(insert_children, [], patience=1) == []


def test_what_a_verb_answers_alone_reaches_its_caller_whole(kernel: Kernel) -> None:
    def count(tx: Tx, items: list[int]) -> list[int]:
        return [len(items)]

    answers = in_one_group(kernel.writer, [(count, []), (lambda tx, items: items, [5])])

    assert answers == [[0], [5]]


def test_an_effect_that_the_commit_refuses_fails_its_own_attempt(harness: Harness) -> None:
    app = harness.app
    with app.transaction() as tx:
        for statement in DEFERRED:
            tx.write(statement)
        tx.write("insert into parent (id) values (1), (3)")

    @app.task
    async def adopt(run: Run, number: int) -> None:
        run.write("insert into child (id, parent) values (:id, :id)", id=number)

    jobs = [adopt.enqueue(number) for number in (1, 2, 3)]
    harness.drain()

    assert [job.refresh().state for job in jobs] == ["done", "failed", "done"]
    assert "onstraint" in (jobs[1].refresh().error or "") or "Foreign" in (
        jobs[1].refresh().error or ""
    )
    assert [row.id for row in app.read("select id from child order by id")] == [1, 3]


def test_something_that_fails_after_the_commit_is_logged_and_the_writer_goes_on(
    kernel: Kernel, caplog: pytest.LogCaptureFixture
) -> None:
    rung: list[int] = []

    def fragile(tx: Tx, items: list[int]) -> list[int]:
        tx.after_commit.append(lambda: rung[100])  # type: ignore[arg-type, return-value]
        tx.after_commit.append(lambda: rung.append(1))
        return items

    with caplog.at_level(logging.ERROR, "duework"):
        answers = in_one_group(kernel.writer, [(fragile, [1]), (fragile, [2])])

    assert answers == [[1], [2]]
    assert rung
    assert "IndexError" in caplog.text
    assert kernel.writer.call(fragile, [3]) == [3]


def test_the_same_holds_for_a_block_of_the_users_own(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = App(url)

    with caplog.at_level(logging.ERROR, "duework"), app.transaction() as tx:
        tx._tx.after_commit.append(lambda: {}["no"])  # type: ignore[arg-type]  # noqa: SLF001

    assert "KeyError" in caplog.text
    app.close()


def test_a_verb_that_breaks_the_writers_own_code_is_answered(kernel: Kernel) -> None:
    def odd(tx: Tx, items: list[int]) -> Any:
        raise RuntimeError("odd")

    def fine(tx: Tx, items: list[int]) -> list[int]:
        return items

    with pytest.raises(RuntimeError, match="odd"):
        kernel.writer.call(odd, [1])

    assert kernel.writer.call(fine, [2]) == [2]


def test_an_effect_that_raises_an_exit_does_not_end_the_writer(harness: Harness) -> None:
    app = harness.app

    def leave(tx: Any) -> None:
        raise SystemExit(3)

    @app.task
    async def effect(run: Run) -> None:
        run.commit(leave)

    @app.task
    async def react() -> None: ...

    @react.settled
    def interrupt(tx: Any, job: Any, outcome: str) -> None:
        raise KeyboardInterrupt

    jobs = [effect.enqueue(), react.enqueue()]
    harness.drain()

    assert [job.refresh().state for job in jobs] == ["failed", "failed"]
    assert "SystemExit" in (jobs[0].refresh().error or "")
    assert "KeyboardInterrupt" in (jobs[1].refresh().error or "")


def test_migrations_look_for_their_table_by_the_search_path(
    postgres: Any, url: str, kind: str
) -> None:
    from duework.db import migrate

    if kind == "sqlite":
        database = open_database(url)
        migrate.migrate(database, [migrate.kernel_steps(kind)])
        assert migrate.pending(database, [migrate.kernel_steps(kind)]) == []
        database.close()
        return
    plain = open_database(url)
    with plain.transaction() as tx:
        tx.write("create schema tenant")
    plain.close()

    tenant = open_database(f"{url}?options=-csearch_path%3Dtenant")
    applied = migrate.migrate(tenant, [migrate.kernel_steps(kind)])

    with tenant.reading() as tx:
        found = tx.read("select to_regclass('tenant.duework_job') is not null as there")
    assert applied
    assert found[0].there
    assert migrate.pending(tenant, [migrate.kernel_steps(kind)]) == []
    tenant.close()


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("create table a (x); create table b (x)", 2),
        (
            """create trigger t after insert on a begin
                 update a set x = case when x > 1 then 1 else 2 end;
                 delete from b;
               end;
               create table c (x)""",
            2,
        ),
        ("CREATE TEMP TRIGGER t AFTER DELETE ON a BEGIN SELECT 1; SELECT 2; END", 1),
        ("create trigger if not exists t after insert on a begin select ';'; end; select 1", 2),
        ("create trigger t after insert on a execute function f(); select 1", 2),
        ("create function f() returns int language sql begin atomic; select 1; end; select 2", 2),
        ("create or replace function f() returns int as $$ begin; end $$ language plpgsql; x", 2),
        ("create table begin_end (a int); select case when 1 then 2 end; select 3", 3),
    ],
)
def test_a_script_is_split_at_the_ends_of_its_statements(text: str, count: int) -> None:
    assert len(script(text)) == count


def test_a_part_may_bring_a_trigger(url: str, kind: str, tmp_path: Any) -> None:
    from duework import Part

    folder = tmp_path / "tables"
    (folder / "sqlite").mkdir(parents=True)
    (folder / "postgres").mkdir()
    (folder / "sqlite" / "0001_log.sql").write_text(
        """create table entry (x integer); create table log (x integer);
           create trigger entry_log after insert on entry begin
             insert into log values (new.x); insert into log values (new.x + 1);
           end;"""
    )
    (folder / "postgres" / "0001_log.sql").write_text(
        """create table entry (x integer); create table log (x integer);
           create function entry_log() returns trigger language plpgsql as $$ begin
             insert into log values (new.x); insert into log values (new.x + 1); return new;
           end $$;
           create trigger entry_log after insert on entry for each row execute function entry_log();"""
    )
    app = App(url)
    app.include(Part("journal", tables=folder))

    with app.transaction() as tx:
        tx.write("insert into entry (x) values (1)")

    assert [row.x for row in app.read("select x from log order by x")] == [1, 2]
    app.close()


def enqueue_for_ever(task: Any, started: threading.Event, ended: list[BaseException]) -> None:
    try:
        while True:
            task.enqueue()
            started.set()
    except BaseException as error:  # noqa: BLE001 - which one it is, is the point
        ended.append(error)


def test_an_app_may_be_closed_while_threads_enqueue(tmp_path: Path) -> None:
    for number in range(10):
        app = App(f"sqlite:///{tmp_path}/{number}.db")
        started = threading.Event()
        ended: list[BaseException] = []

        @app.task
        def idle() -> None: ...

        threads = [
            threading.Thread(target=enqueue_for_ever, args=(idle, started, ended), daemon=True)
            for _ in range(1 + number % 2)
        ]
        for thread in threads:
            thread.start()
        assert started.wait(10)

        app.close()

        for thread in threads:
            thread.join(10)
        assert [type(error) for error in ended] == [UsageError] * len(threads), ended
        # The file is nobody's any more: another library may have it.
        with closing(sqlite3.connect(tmp_path / f"{number}.db")) as other:
            assert other.execute("pragma integrity_check").fetchone() == ("ok",)


def test_closing_waits_for_a_caller_who_commits_in_its_own_thread(kernel: Kernel) -> None:
    writer = Writer(kernel.database)
    inside, go, answers = threading.Event(), threading.Event(), []

    def hold(tx: Tx, items: list[int]) -> list[int]:
        inside.set()
        go.wait(10)
        return items

    caller = threading.Thread(target=lambda: answers.extend(writer.call(hold, [1])))
    caller.start()
    assert inside.wait(10)
    closer = threading.Thread(target=writer.close)
    closer.start()
    closer.join(0.1)
    waited = closer.is_alive()
    go.set()
    closer.join(10)
    caller.join(10)

    assert waited
    assert answers == [1]
    with pytest.raises(UsageError, match="closed"):
        writer.call_within(hold, [2], 1)


def test_what_a_closed_writer_left_waiting_is_answered(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "PATIENCE", 0.1)
    writer = Writer(kernel.database)
    inside, go, errors = threading.Event(), threading.Event(), []

    def hold(tx: Tx, items: list[int]) -> list[int]:
        inside.set()
        go.wait(10)
        return items

    def wait() -> None:
        try:
            writer.call(hold, [2])
        except UsageError as error:
            errors.append(str(error))

    caller = threading.Thread(target=writer.call, args=(hold, [1]))
    caller.start()
    assert inside.wait(10)
    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    while not writer._waiting:  # noqa: SLF001 - that it does wait is the point
        threading.Event().wait(0.001)

    writer.close()
    waiting.join(5)

    assert errors == ["this App is closed"]
    go.set()
    caller.join(10)


def test_the_look_at_the_file_goes_on_after_an_error_nobody_expected() -> None:
    looks: list[int] = []

    class Breaks:
        kind = "sqlite"

        def pulse(self) -> int:
            looks.append(len(looks))
            if len(looks) == 2:
                raise AttributeError("pragma")
            return len(looks)

    told: list[Any] = []
    rung = asyncio.Event()
    engine: Any = SimpleNamespace(database=Breaks(), doorbell=None)

    def ring() -> None:
        if len(looks) > 2:
            rung.set()

    async def listen() -> None:
        asyncio.get_running_loop().set_exception_handler(
            lambda _loop, context: told.append(context["exception"])
        )
        alarm = Wakeups(engine, 1, ring, *[lambda _: None] * 3, lambda: None)
        alarm.start()
        await asyncio.wait_for(rung.wait(), 10)
        alarm.close()

    asyncio.run(listen())

    assert [type(error) for error in told] == [AttributeError]


# A connection that was being made is left to the collector.
interrupted = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)


@pytest.fixture
def alarm_after() -> Iterator[Callable[[float], object]]:
    """After so many seconds this thread is interrupted, wherever it is, as by Ctrl-C; 0 is never."""
    armed = False

    def interrupt(*_: object) -> None:
        if armed:
            raise KeyboardInterrupt

    def arm(seconds: float) -> None:
        nonlocal armed
        armed = seconds > 0
        signal.setitimer(signal.ITIMER_REAL, seconds)

    before = signal.signal(signal.SIGALRM, interrupt)
    yield arm
    arm(0)
    signal.signal(signal.SIGALRM, before)


@interrupted
def test_a_signal_that_raises_inside_an_enqueue_costs_nobody_else_anything(
    url: str, alarm_after: Callable[[float], object]
) -> None:
    app = App(url)

    @app.task
    def note(number: int) -> None: ...

    note.enqueue(0)
    answered, cut_short = {0}, 0
    began = time.perf_counter()
    for number in range(1, 20):
        note.enqueue(-number)
    usual = (time.perf_counter() - began) / 19
    for number in range(1, 400):
        try:
            alarm_after(usual * number / 300)
            note.enqueue(number)
            answered.add(number)
            alarm_after(0)
        except (KeyboardInterrupt, DatabaseError):
            cut_short += 1
            alarm_after(0)
    note.enqueue(400)
    stored = [row.number for row in app.read(NUMBERS[app.wiring.engine.database.kind])]
    app.close()

    assert cut_short > 40, "else nothing was shown"
    assert len(stored) == len(set(stored))
    assert answered | {400} <= set(stored)


NUMBERS = {
    "sqlite": "select payload ->> 'number' as number from duework_job",
    "postgres": "select (payload::json ->> 'number')::bigint as number from duework_job",
}


@interrupted
def test_a_signal_that_raises_inside_an_enqueue_costs_a_sleeping_worker_nothing(
    url: str, alarm_after: Callable[[float], object]
) -> None:
    app = App(url)

    @app.task
    async def note(number: int) -> None: ...

    worker = app.worker()
    working = threading.Thread(target=lambda: asyncio.run(worker.run()), daemon=True)
    working.start()
    for number in range(1, 60):
        # Time for the worker to go to sleep.
        time.sleep(0.005)
        # RuntimeError: raised within `threading.Event` itself, which then gives back a lock twice.
        with contextlib.suppress(KeyboardInterrupt, DatabaseError, RuntimeError):
            alarm_after(0.00002 * number)
            note.enqueue(number)
            alarm_after(0)
        alarm_after(0)
    last = note.enqueue(0)
    last.wait("10s")
    deadline = time.monotonic() + 5
    while app.jobs(task="note", phase="running") and time.monotonic() < deadline:
        time.sleep(0.01)
    worker.stop(0)
    working.join(10)

    assert not working.is_alive()
    assert {(job.state, job.fence) for job in app.jobs(task="note", limit=100)} == {("done", 1)}
    app.close()


def test_a_process_that_ended_leaves_no_mark_behind(url: str) -> None:
    for number in range(3):
        with closing(App(url)) as app:
            app.task(name="note")(lambda: None).enqueue_many([(), ()])
            marks = app.read("select count(*) from duework_mark")[0][0]

        assert marks == 1, f"after {number} others"


@interrupted
def test_a_signal_that_raises_around_a_block_leaves_nothing_held(
    url: str, alarm_after: Callable[[float], object]
) -> None:
    with closing(App(url)) as app:
        note = app.task(name="note")(lambda: None)
        note.enqueue()
        began = time.perf_counter()
        for _ in range(20):
            with app.transaction() as tx:
                tx.enqueue(note)
        usual = (time.perf_counter() - began) / 20
        for number in range(200):
            try:
                alarm_after(usual * number / 150)
                with app.transaction() as tx:
                    tx.enqueue(note)
                alarm_after(0)
            except (KeyboardInterrupt, DatabaseError):
                alarm_after(0)
            note.enqueue()


@interrupted
def test_an_error_at_any_step_into_or_out_of_a_block_leaves_nothing_held(url: str) -> None:
    """As a signal's handler raises it: when a function begins, or when one of C's has returned."""

    class Interrupted(BaseException): ...

    def at(step: int) -> Callable[[FrameType, str, object], None]:
        left = step

        def profile(frame: FrameType, event: str, _: object) -> None:
            nonlocal left
            file = frame.f_code.co_filename.rsplit("/", 1)[-1]
            if event in {"call", "c_return"} and file in {
                "blocks.py",
                "transaction.py",
                "contextlib.py",
            }:
                left -= 1
                if left < 0:
                    sys.setprofile(None)
                    raise Interrupted

        return profile

    gc.disable()
    with closing(App(url)) as app:
        note = app.task(name="note")(lambda: None)
        note.enqueue()
        ends = []
        while len(ends) < 200 and "to the end" not in ends:
            try:
                sys.setprofile(at(len(ends)))
                with app.transaction() as tx:
                    tx.enqueue(note)
                ends.append("to the end")
            except Interrupted:
                ends.append("interrupted")
            finally:
                sys.setprofile(None)
            note.enqueue()
    gc.enable()

    assert len(ends) > 40
    assert ends[-1] == "to the end"
