"""What `duework.testing.Harness` promises to the tests of others."""

from __future__ import annotations

import threading

import pytest

from duework import App, Cancel, Fail, Retry, Run, Snooze, UsageError
from duework.testing import Harness
from tests.support.kernel import Kernel


def test_a_drain_runs_what_a_job_enqueued(harness: Harness) -> None:
    @harness.app.task
    def last(number: int) -> int:
        return number

    @harness.app.task
    def first(run: Run, number: int) -> None:
        run.enqueue(last, number + 1)

    first.enqueue(1)

    harness.drain()

    assert harness.assert_enqueued(last, 2).state == "done"


def test_a_worker_can_be_lost_before_every_statement(harness: Harness) -> None:
    @harness.app.task
    def count(run: Run) -> None:
        run.write("update tally set n = n + 1")

    with harness.app.transaction() as tx:
        tx.write("create table tally (n integer)")
        tx.write("insert into tally (n) values (0)")
    rounds = 0

    while True:
        rounds += 1
        job = count.enqueue()
        crashed = harness.crash_worker(at=rounds)
        harness.advance("1m")
        assert job.refresh().state == "done"
        if not crashed:
            break

    assert rounds > 5
    assert harness.app.read("select n from tally")[0].n == rounds


def test_refuting_what_is_there_fails_as_an_assertion(harness: Harness) -> None:
    @harness.app.task
    def greet(name: str) -> str:
        return name

    greet.enqueue("ada")

    harness.refute_enqueued(greet, "bob")
    with pytest.raises(AssertionError, match="ada"):
        harness.refute_enqueued(greet, "ada")
    with pytest.raises(AssertionError, match="ada"):
        harness.refute_enqueued(greet)


def test_no_thread_outlives_a_harness() -> None:
    app = App("sqlite:///never-opened.db")

    @app.task
    def work() -> None: ...

    before = set(threading.enumerate())
    with Harness(app) as h:
        work.enqueue_many([()] * 20)
        h.drain()
        h.crash_worker()
        work.enqueue()
        h.drain()
    for thread in set(threading.enumerate()) - before:
        thread.join(timeout=5)

    assert set(threading.enumerate()) <= before


def test_a_task_may_say_which_outcomes_it_returns(harness: Harness) -> None:
    @harness.app.task
    def answer(word: str) -> str | Snooze | Retry | Fail | Cancel | None:
        return Cancel("no") if word == "no" else word

    yes, no = answer.enqueue_many([("yes",), ("no",)])
    harness.drain()

    assert yes.refresh().result == "yes"
    assert no.refresh().state == "cancelled"


def test_a_result_that_cannot_be_stored_is_refused_at_once(harness: Harness) -> None:
    class One: ...

    class Two: ...

    def work() -> One | Two:
        return One()

    work.__annotations__["return"] = One | Two

    with pytest.raises(UsageError, match="cannot be stored"):
        harness.app.task(work)


def test_ctrl_c_before_a_commit_does_not_stop_the_next_one(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = kernel.database.commit

    def interrupted(tx: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(kernel.database, "commit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        kernel.enqueue(kernel.new())
    monkeypatch.setattr(kernel.database, "commit", real)

    kernel.enqueue(kernel.new())

    assert len(kernel.rows()) == 1
