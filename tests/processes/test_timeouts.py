"""Timeouts, handlers that do not stop, and handlers that stop everybody else."""

from __future__ import annotations

import time

import pytest

from tests.support.processes import Bench, until

pytestmark = pytest.mark.slow


def test_a_handler_that_ignores_its_cancellation_is_given_up(desk: Bench) -> None:
    worker = desk.start(patience=400, concurrency=1)

    job = desk.tasks.deaf.enqueue()
    desk.started(job)
    other = desk.tasks.quick.enqueue("other")

    end = job.wait("20s")
    assert (end.state, end.error) == ("failed", "it ran longer than its timeout of 300ms")
    assert worker.wait_for("JobStuck")["job"] == job.id
    assert other.wait("20s").state == "done", "its slot is free again"


def test_a_stuck_thread_blocks_nobody_and_its_late_result_is_dropped(desk: Bench) -> None:
    worker = desk.start(patience=400, threads=1)
    job = desk.tasks.stuck.enqueue(4)
    desk.started(job)
    others = [desk.tasks.quick.enqueue("async"), desk.tasks.long_thread.enqueue(0)]

    ended = desk.settled(others)

    assert [other.state for other in ended] == ["done", "done"]
    assert not desk.notes("end", job), "the stuck one is still at it"
    assert job.refresh().error == "it ran longer than its timeout of 300ms"
    until(lambda: desk.notes("end", job))
    time.sleep(0.2)
    end = job.refresh()
    assert (end.state, end.error, end.failures) == (
        "failed",
        "it ran longer than its timeout of 300ms",
        1,
    )
    assert desk.effects(job) == []
    assert worker.terminate() == 0
    assert worker.facts("Bye")[0]["recycle"] is True


def test_a_task_that_blocks_the_loop_is_named_and_keeps_its_lease(desk: Bench) -> None:
    workers = [desk.start(lease="3s"), desk.start(lease="3s")]

    job = desk.tasks.blocks_the_loop.enqueue(4)

    end = job.wait("12s")
    holder = desk.started(job).pid
    first, second = sorted(workers, key=lambda worker: worker.pid != holder)
    told = first.facts("LoopBlocked")
    assert [fact["task"] for fact in told] == ["blocks_the_loop"]
    assert "programs.py" in told[0]["where"]
    assert 1 <= told[0]["seconds"] < 8
    assert second.facts("LeaseRecovered") == []
    assert (end.state, end.fence) == ("done", 1)
    assert len(desk.effects(job)) == 1
