"""app.transaction and app.read: the caller's rows and the jobs they need, in one commit."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from duework import Task, UsageError
from duework.db.database import Changes
from duework.testing import Harness


@pytest.fixture
def greet(harness: Harness) -> Task[..., str, Any]:
    with harness.app.transaction() as tx:
        tx.write("create table invoice (id bigint primary key, total bigint)")

    @harness.app.task
    async def greet(name: str) -> str:
        return name

    return greet


def test_rows_and_jobs_commit_together(harness: Harness, greet: Task[..., str, Any]) -> None:
    with harness.app.transaction() as tx:
        tx.write("insert into invoice (id, total) values (:id, :total)", id=7, total=12)
        made = tx.enqueue(greet, "ada")
        assert [row.total for row in tx.read("select total from invoice")] == [12]
        assert harness.app.read("select * from invoice") == []
    harness.drain()

    assert harness.app.job(made.id).result == "ada"
    assert harness.app.read("select total from invoice")[0].total == 12


def test_an_exception_leaves_nothing(harness: Harness, greet: Task[..., str, Any]) -> None:
    def fail() -> None:
        with harness.app.transaction() as tx:
            tx.write("insert into invoice (id, total) values (7, 12)")
            tx.enqueue(greet.using(key="k", once="forever"), "ada")
            raise LookupError

    with pytest.raises(LookupError):
        fail()

    assert harness.app.read("select * from invoice") == []
    assert harness.app.jobs() == []
    assert not greet.using(key="k", once="forever").enqueue("ada").existed


def test_a_write_says_what_it_did(harness: Harness, greet: Task[..., str, Any]) -> None:
    insert = "insert into invoice (id, total) values (:id, :total)"
    with harness.app.transaction() as tx:
        assert tx.write(insert, id=1, total=1) == Changes(inserted=1)
        rows = [{"id": n, "total": n} for n in range(2, 5)]
        assert tx.write(insert, rows=rows) == Changes(inserted=3)
        assert tx.write(insert, rows=[]) == Changes()
        assert tx.write("update invoice set total = 0 where id > :n", n=2) == Changes(changed=2)
        assert tx.write("delete from invoice") == Changes(changed=4)
        assert tx.write(f"{insert} on conflict do nothing", id=1, total=1) == Changes(inserted=1)
        assert tx.write(f"{insert} on conflict do nothing", id=1, total=1) == Changes()


def test_rows_have_names_and_places(harness: Harness, greet: Task[..., str, Any]) -> None:
    [row] = harness.app.read("select 7 as id, 'x' as name, :n as n", n="12")

    assert (row.id, row.name, row.n) == (7, "x", "12")
    assert (row[0], row[1], tuple(row)) == (7, "x", (7, "x", "12"))


def test_parameters_are_named_and_checked(harness: Harness, greet: Task[..., str, Any]) -> None:
    for sql, values in [
        ("select :a as a", {}),
        ("select 1 as a", {"b": 1}),
        ("select :a as a, ':b' as b", {"a": "1", "b": "2"}),
    ]:
        with pytest.raises(UsageError):
            harness.app.read(sql, **values)
    assert harness.app.read("select ':b' as b -- :c")[0].b == ":b"
    assert harness.app.read("select '50%' as b where :a = :a", a="x")[0].b == "50%"


def test_an_enqueue_inside_takes_options(harness: Harness, greet: Task[..., str, Any]) -> None:
    with harness.app.transaction() as tx:
        first = tx.enqueue(greet.using(key="k", delay="1h", priority=4), "ada")
        second = tx.enqueue(greet.using(key="k"), "bob")

    assert (second.id, second.existed) == (first.id, True)
    job = harness.app.job(first.id)
    assert (job.priority, job.due) == (4, harness.now + 3_600_000)


def test_a_plain_enqueue_inside_is_a_clear_error_at_once(
    harness: Harness, greet: Task[..., str, Any]
) -> None:
    with harness.app.transaction() as tx:
        with pytest.raises(UsageError, match=r"tx\.enqueue"):
            greet.enqueue("ada")
        tx.write("insert into invoice (id, total) values (1, 1)")

    assert len(harness.app.read("select * from invoice")) == 1
    assert harness.app.jobs() == []


def test_another_thread_may_enqueue_meanwhile(harness: Harness, greet: Task[..., str, Any]) -> None:
    done: list[int] = []

    def other() -> None:
        done.append(greet.enqueue("ada").id)

    thread = threading.Thread(target=other)
    with harness.app.transaction() as tx:
        tx.read("select 1 as one")
        thread.start()
    thread.join()

    assert len(done) == 1


def test_after_a_transaction_plain_enqueues_work_again(
    harness: Harness, greet: Task[..., str, Any]
) -> None:
    with pytest.raises(LookupError), harness.app.transaction():
        raise LookupError

    assert greet.enqueue("ada").id


def test_reads_are_refused_to_write(harness: Harness, greet: Task[..., str, Any]) -> None:
    from duework import DatabaseError

    with pytest.raises(DatabaseError):
        harness.app.read("insert into invoice (id, total) values (1, 1) returning id")

    assert harness.app.read("select * from invoice") == []
