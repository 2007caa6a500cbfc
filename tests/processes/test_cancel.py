"""Cancelling what runs, from another process."""

from __future__ import annotations

import time

import pytest

from tests.support.processes import Bench, Worker, alive, until

Shared = tuple[Bench, Worker]

# The shared worker is started once.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("processes/cancel")]


@pytest.mark.parametrize(
    ("task", "seen"), [("long", "raised-CancelledError"), ("long_thread", "raised-RuntimeError")]
)
def test_a_handler_is_told_soon(shared: Shared, task: str, seen: str) -> None:
    bench, _ = shared
    job = getattr(bench.tasks, task).enqueue(30)
    bench.started(job)
    asked = time.monotonic()

    assert job.cancel("changed my mind") == "cancelling"

    until(lambda: bench.notes(seen, job))
    assert bench.notes(seen, job)[0].at - asked < 20
    end = job.wait("20s")
    assert (end.state, end.error, end.failures) == ("cancelled", "changed my mind", 0)
    assert bench.effects(job) == []


def test_a_process_is_killed_soon(shared: Shared) -> None:
    bench, worker = shared
    job = bench.tasks.long_isolated.enqueue(30)
    child = bench.started(job).pid
    asked = time.monotonic()

    job.cancel("changed my mind")

    until(lambda: not alive(child))
    assert time.monotonic() - asked < 20
    end = job.wait("20s")
    assert (end.state, end.error, end.crashes) == ("cancelled", "changed my mind", 0)
    assert bench.effects(job) == []
    assert worker.process.poll() is None


def test_a_handler_that_still_returns_is_done(shared: Shared) -> None:
    bench, _ = shared
    job = bench.tasks.finishes_anyway.enqueue()
    bench.started(job)

    job.cancel()

    end = job.wait("20s")
    assert (end.state, end.result) == ("done", "done all the same")
    assert bench.notes("told", job)


def test_a_worker_without_a_free_slot_hears_of_it(desk: Bench) -> None:
    desk.start(concurrency=1, threads=1, processes=1)
    jobs = [
        desk.tasks.long.enqueue(30),
        desk.tasks.long_thread.enqueue(30),
        desk.tasks.long_isolated.enqueue(30),
    ]
    for job in jobs:
        desk.started(job)
    waiting = desk.tasks.quick.enqueue("next")
    asked = time.monotonic()

    for job in jobs:
        job.cancel("changed my mind")

    ended = desk.settled(jobs)
    assert time.monotonic() - asked < 20
    assert [job.state for job in ended] == ["cancelled"] * 3
    assert waiting.wait("20s").state == "done"


def test_a_stopping_worker_hears_of_it(desk: Bench) -> None:
    worker = desk.start(grace="20s")
    job = desk.tasks.long.enqueue(30)
    desk.started(job)
    worker.process.terminate()
    time.sleep(0.2)

    job.cancel("changed my mind")

    assert job.wait("20s").state == "cancelled"
    assert worker.process.wait(20) == 0


def test_a_marked_job_whose_worker_dies_is_cancelled_and_not_run_again(desk: Bench) -> None:
    first = desk.start(lease="60s")
    job = desk.tasks.blocks_the_loop.enqueue(30)
    desk.started(job)

    job.cancel("changed my mind")
    first.kill()
    desk.start(lease="60s")

    end = job.wait("20s")
    assert (end.state, end.error) == ("cancelled", "changed my mind")
    assert len(desk.notes("start", job)) == 1
