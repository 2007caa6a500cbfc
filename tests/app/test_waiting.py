"""Waiting for a job to settle, and looking for jobs that are not there."""

from __future__ import annotations

import asyncio
import threading

import pytest

from duework import App, NotFound, UsageError, WaitTimeout
from duework.testing import Harness


def test_a_settled_job_is_waited_for_at_once(harness: Harness) -> None:
    @harness.app.task
    async def greet(name: str) -> str:
        return name

    job = greet.enqueue("ada")
    harness.drain()

    assert job.wait(timeout="5s").result == "ada"
    assert asyncio.run(job.await_(timeout="5s")).result == "ada"


def test_a_failed_job_is_settled_too(harness: Harness) -> None:
    @harness.app.task
    async def greet() -> str:
        raise ValueError("no")

    job = greet.enqueue()
    harness.drain()

    assert job.wait(timeout="5s").state == "failed"


def test_waiting_ends_with_its_timeout_and_the_job_goes_on(harness: Harness) -> None:
    @harness.app.task
    async def greet() -> None: ...

    job = greet.using(delay="1h").enqueue()

    with pytest.raises(WaitTimeout):
        job.wait(timeout="20ms")
    with pytest.raises(TimeoutError):
        asyncio.run(job.await_(timeout="20ms"))
    assert job.refresh().state == "open"


def test_a_job_that_settles_meanwhile_ends_the_waiting(harness: Harness) -> None:
    @harness.app.task
    async def greet() -> str:
        return "hello"

    job = greet.enqueue()
    thread = threading.Timer(0.05, harness.drain)
    thread.start()

    assert job.wait(timeout="10s").result == "hello"
    thread.join()


def test_a_job_that_is_not_there_is_not_found(harness: Harness) -> None:
    with pytest.raises(NotFound, match="4711"):
        harness.app.job(4711)
    for verb in (harness.app.cancel, harness.app.revive):
        with pytest.raises(NotFound, match="4711"):
            verb(4711)


def test_waiting_for_a_job_that_is_not_kept_says_so(harness: Harness) -> None:
    @harness.app.task(keep=0)
    async def greet() -> None: ...

    job = greet.enqueue()
    harness.drain()

    with pytest.raises(NotFound, match="not kept"):
        job.wait(timeout="5s")


def test_jobs_are_listed_newest_first_page_by_page(harness: Harness) -> None:
    @harness.app.task
    async def greet(n: int) -> None: ...

    greet.enqueue_many([(n,) for n in range(5)])
    first = harness.app.jobs(limit=2)
    second = harness.app.jobs(limit=2, before=first[-1].id)

    assert [job.arguments["n"] for job in first + second] == [4, 3, 2, 1]
    assert harness.app.jobs(phase="done") == []
    harness.drain()
    assert len(harness.app.jobs(phase="done", task="greet", queue="default")) == 5


def test_the_engines_own_jobs_are_listed_only_when_asked_for(app: App) -> None:
    @app.task
    async def greet() -> None: ...

    @app.task(cron="0 3 * * *")
    async def nightly() -> None: ...

    app.worker()
    job = greet.enqueue()

    assert [each.id for each in app.jobs()] == [each.id for each in app.jobs(limit=1)] == [job.id]
    assert app.jobs(phase="waiting") == app.jobs(phase="running") == []
    own = [each for each in app.jobs(own=True) if each.id != job.id]
    assert sorted(each.task for each in own) == ["duework.fire", "duework.prune"]
    assert {each.id for each in app.jobs(queue="duework")} == {each.id for each in own}
    assert [each.task for each in app.jobs(task="duework.prune")] == ["duework.prune"]


def test_cancelling_all_that_is_listed_leaves_schedules_alone(app: App) -> None:
    @app.task(cron="0 3 * * *")
    async def nightly() -> None: ...

    app.worker()

    for job in app.jobs(limit=1000):
        job.cancel()
    with pytest.raises(UsageError, match="engine's own"):
        app.queue("duework").purge()
    assert [each.state for each in app.schedules()] == ["active"]
    assert len(app.jobs(own=True, phase="waiting")) == 2


def test_a_closed_app_stays_closed(app: App) -> None:
    @app.task
    async def greet() -> None: ...

    greet.enqueue()
    app.close()

    with pytest.raises(UsageError, match="closed"):
        greet.enqueue()
