"""The writer outlives what its callers do to it, and only the offender pays."""

import logging
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from duework import App, DatabaseError, Run
from duework.db.database import Tx
from duework.db.queries import script
from duework.db.urls import open_database
from duework.db.writer import Writer
from duework.testing import Harness
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


def in_one_group(writer: Writer, requests: Sequence[tuple[Any, list[Any]]]) -> list[Any]:
    """Answers, or errors, of requests that the writer finds waiting together."""
    answers: list[Any] = [None] * len(requests)
    waiting, go = threading.Event(), threading.Event()

    def hold(tx: Tx, items: list[Any]) -> list[Any]:
        waiting.set()
        go.wait(10)
        return items

    def ask(place: int, verb: Any, items: list[Any]) -> None:
        try:
            answers[place] = writer.call(verb, items)
        except DatabaseError as error:
            answers[place] = error

    first = threading.Thread(target=writer.call, args=(hold, [None]))
    first.start()
    assert waiting.wait(10)
    rest = [
        threading.Thread(target=ask, args=(place, *request))
        for place, request in enumerate(requests)
    ]
    for thread in rest:
        thread.start()
    while len(writer._waiting) < len(requests):  # noqa: SLF001 - that they do wait is the point
        threading.Event().wait(0.001)
    go.set()
    for thread in [first, *rest]:
        thread.join(20)
    return answers


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
