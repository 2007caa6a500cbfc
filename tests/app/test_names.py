"""Tasks by names: former ones, and those that another process has."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from duework import App, InvalidArguments, Part, Rate, UsageError
from duework.testing import Harness
from tests.support.harness import HarnessOn


def test_a_renamed_task_runs_the_jobs_that_wait_under_its_former_names(emptied: str) -> None:
    ran: list[Any] = []
    before = App(emptied)

    @before.task(name="mail.send")
    async def old(to: str) -> None: ...

    after = App("sqlite:///never-opened.db")

    @after.task(name="post", aliases=("mail.send", "mail"), pace=Rate("1/1s", burst=1))
    async def post(to: str) -> None:
        ran.append((h.now - start, to))

    old.using(at=1_700_000_000_000).enqueue_many([("ada",), ("bob",)])
    before.close()
    with HarnessOn(after, emptied) as h:
        start = h.now
        h.advance("5s")
        post.enqueue("cyd")
        h.drain()

        assert [to for _, to in ran] == ["ada", "bob", "cyd"]
        assert ran[1][0] >= 1000
        assert after.unknown_tasks() == []
        assert [each for each in after.admin.verify() if each.violations] == []


def test_a_renamed_task_runs_no_more_at_once_than_it_may_under_all_its_names(emptied: str) -> None:
    running = [0]
    before = App(emptied)

    @before.task(name="mail.send")
    async def old() -> None: ...

    after = App("sqlite:///never-opened.db")

    @after.task(name="post", aliases=("mail.send",), concurrency=2)
    async def post() -> None:
        running.append(running[-1] + 1)
        for _ in range(20):
            await asyncio.sleep(0)
        running.append(running[-1] - 1)

    old.using(at=1_700_000_000_000).enqueue_many([()] * 5)
    before.close()
    with HarnessOn(after, emptied) as h:
        post.enqueue_many([()] * 5)
        h.advance("5s")

        assert len(running) == 21
        assert max(running) == 2


def test_a_former_name_that_another_task_has_is_refused(harness: Harness) -> None:
    @harness.app.task
    async def taken() -> None: ...

    with pytest.raises(UsageError, match="another task has now"):

        @harness.app.task(aliases=("taken",))
        async def new() -> None: ...

    with pytest.raises(UsageError, match="aliases= is a list"):

        @harness.app.task(aliases="taken")
        async def other() -> None: ...


def test_a_task_of_this_process_is_found_by_its_name_and_checked(harness: Harness) -> None:
    ran: list[str] = []

    @harness.app.task(name="mail.send", queue="mail")
    async def send(to: str) -> None:
        ran.append(to)

    job = harness.app.named("mail.send").using(key="k").enqueue(to="ada")
    with pytest.raises(InvalidArguments):
        harness.app.named("mail.send").enqueue(whom="ada")
    harness.drain()

    assert ran == ["ada"]
    assert (job.queue, job.key) == ("mail", "k")


def test_a_task_of_another_process_is_enqueued_by_name_and_checked_there(harness: Harness) -> None:
    ran: list[str] = []
    job = harness.app.named("mail.send").using(queue="mail").enqueue(to="ada")
    wrong = harness.app.named("mail.send").enqueue(whom="ada")
    with harness.app.transaction() as tx:
        tx.enqueue(harness.app.named("mail.send"), to="bob")
    with pytest.raises(InvalidArguments, match="by name"):
        harness.app.named("mail.send").enqueue("ada")
    with pytest.raises(UsageError, match="task's name"):
        harness.app.named("no task")
    harness.drain()
    assert harness.app.unknown_tasks() == ["mail.send"]
    part = Part("mail")
    harness.app.include(part)

    @part.task
    async def send(to: str) -> None:
        ran.append(to)

    harness.advance("1h")

    assert sorted(ran) == ["ada", "bob"]
    assert harness.app.job(job.id).state == "done"
    assert harness.app.job(wrong.id).state != "done"
