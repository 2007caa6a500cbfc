"""SIGTERM: finish within the grace, or hand back as if nothing had happened."""

from __future__ import annotations

import signal
import time

import pytest

from tests.support.processes import Bench, alive, until

pytestmark = pytest.mark.slow


def test_within_the_grace_jobs_finish_and_no_more_are_claimed(desk: Bench) -> None:
    worker = desk.start(grace="10s")
    running = [task.enqueue(0.6) for task in (desk.tasks.long, desk.tasks.long_thread)]
    for job in running:
        desk.started(job)

    worker.signal(signal.SIGTERM)
    time.sleep(0.1)
    late = desk.tasks.quick.enqueue("late")

    assert worker.process.wait(20) == 0
    assert [job.refresh().result for job in running] == ["slept", "slept"]
    assert late.refresh().phase == "ready"
    assert len(desk.effects()) == 2
    assert desk.app.read("select id from duework_worker") == []


def test_past_the_grace_jobs_are_handed_back_without_a_failure(desk: Bench) -> None:
    worker = desk.start(grace="300ms")
    tasks = (desk.tasks.long, desk.tasks.long_thread, desk.tasks.long_isolated)
    jobs = [task.enqueue(30) for task in tasks]
    for job in jobs:
        desk.started(job)
    family = worker.family()
    asked = time.monotonic()

    code = worker.terminate()

    assert code == 0, worker.log()
    assert time.monotonic() - asked < 20
    for job in (job.refresh() for job in jobs):
        assert (job.phase, job.failures, job.crashes, job.worker) == ("ready", 0, 0, None)
        assert job.attempts() == []
    assert desk.effects() == []
    assert family
    until(lambda: not any(alive(pid) for pid in family))
    assert worker.facts("WorkerStopped")[0]["released"] == 3


def test_what_was_handed_back_is_run_by_another_at_once(desk: Bench) -> None:
    first = desk.start(grace="0s", lease="60s")
    job = desk.tasks.nap.enqueue(30)
    desk.started(job)
    second = desk.start(lease="60s")

    asked = time.monotonic()
    first.signal(signal.SIGTERM)

    again = desk.started(job, times=2)
    assert again.pid == second.pid, "no suspect: it runs like any other"
    assert again.at - asked < 20
    assert job.wait("20s").state == "done"
    assert len(desk.effects(job)) == 1
    assert first.process.wait(20) == 0
