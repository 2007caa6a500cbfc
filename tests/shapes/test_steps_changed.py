"""Workflows under rough treatment: steps side by side, outcomes, other versions of their code, runs again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from duework import App, Fail, Run, Snooze, StepFailed
from duework.testing import Harness
from tests.shapes.test_steps import WRITE, effects, h
from tests.support.checks import is_sound
from tests.support.harness import HarnessOn

__all__ = ["h"]


@pytest.mark.parametrize("beside", ["step", "sleep", "wait", "child"])
def test_two_steps_at_the_same_time_are_refused_from_the_first_on(h: Harness, beside: str) -> None:
    @h.app.task
    async def other() -> int:
        return 1

    @h.app.task(retries=0)
    async def order(run: Run) -> None:
        async def one() -> None:
            run.write(WRITE, job=1, what="one")
            await asyncio.sleep(0)

        second = {
            "step": lambda: run.step("second", one),
            "sleep": lambda: run.sleep("1s"),
            "wait": lambda: run.wait_for("paid", timeout="1s"),
            "child": lambda: run.child("second", other),
        }[beside]
        await asyncio.gather(run.step("first", one), second())

    job = order.enqueue()
    h.advance("1m")

    assert h.app.job(job.id).state == "failed"
    assert "steps follow one another" in str(h.app.job(job.id).error)
    is_sound(h)


def test_a_workflow_that_has_ended_cannot_be_cancelled_any_more(harness: Harness) -> None:
    @harness.app.task
    async def order(run: Run) -> int:
        return await run.step("seven", lambda: 7)

    job = order.enqueue()
    harness.drain()
    harness.app.get_workflow(job.id).cancel()

    assert harness.app.get_workflow(job.id).state == "ended"
    assert harness.app.job(job.id).state == "done"


def test_a_wait_beside_a_step_is_refused_too(h: Harness) -> None:
    @h.app.task(retries=0)
    async def order(run: Run) -> None:
        async def one() -> None: ...

        await asyncio.gather(run.wait_for("paid"), run.step("first", one))

    job = order.enqueue()
    h.advance("1m")

    assert "steps follow one another" in str(h.app.job(job.id).error)
    is_sound(h)


def test_a_failure_that_was_caught_stays_one_if_the_task_then_returns_a_snooze(h: Harness) -> None:
    calls: list[str] = []

    @h.app.task
    async def order(run: Run) -> Any:
        def flaky() -> str:
            calls.append("flaky")
            if len(calls) == 1:
                raise ValueError("once")
            return "with"

        try:
            answer = await run.step("flaky", flaky)
        except StepFailed:
            answer = "without"
        run.write(WRITE, job=1, what=answer)
        return Snooze("1h") if len(effects(h)) == 0 else answer

    job = order.enqueue()
    h.advance("2h")

    assert (h.app.job(job.id).result, calls) == ("without", ["flaky"])
    assert effects(h) == ["without", "without"]


def test_a_workflow_whose_job_has_failed_or_was_cancelled_is_not_shown_as_running(
    h: Harness,
) -> None:
    @h.app.task(retries=0)
    async def order(run: Run, ends: str) -> Any:
        await run.step("first", lambda: 1)
        if ends == "fails":
            raise ValueError("no")
        if ends == "waits":
            await run.sleep("1h")
        return Fail("no")

    fails, waits, says = (order.enqueue(ends).id for ends in ("fails", "waits", "says"))
    h.drain()
    h.app.cancel(waits)

    assert {each.job: each.state for each in h.app.workflows()} == {
        fails: "failed",
        waits: "cancelled",
        says: "failed",
    }
    assert h.app.workflows("running") == []
    assert [each.job for each in h.app.workflows("failed")] == [says, fails]
    assert h.app.get_workflow(fails).state == "failed"


def test_a_child_that_is_done_answers_although_its_arguments_are_others_by_now(
    h: Harness, emptied: str
) -> None:
    def old_child(app: App) -> Any:
        @app.task(name="child")
        async def child(amount: int) -> int:
            return amount

        return child

    def new_child(app: App) -> Any:
        @app.task(name="child")
        async def child(amount: int, currency: str) -> int:
            return amount

        return child

    def order_of(app: App, child: Any) -> Any:
        @app.task(name="order")
        async def order(run: Run) -> int:
            got: int = await run.child("pay", child, 7)
            await run.sleep("1h")
            return got

        return order

    job = order_of(h.app, old_child(h.app)).enqueue()
    h.advance("1m")
    later = App("sqlite:///never-opened.db")
    order_of(later, new_child(later))

    with HarnessOn(later, emptied, now=h.now) as next_version:
        next_version.advance("2h")
        assert later.job(job.id).result == 7


def test_a_child_by_name_gives_its_result_although_its_code_is_elsewhere(
    h: Harness, emptied: str
) -> None:
    @h.app.task
    async def order(run: Run) -> Any:
        return await run.child("pay", h.app.named("pay"), amount=7)

    job = order.enqueue()
    h.drain()
    later = App("sqlite:///never-opened.db")

    @later.task
    async def pay(amount: int) -> dict[str, int]:
        return {"paid": amount}

    with HarnessOn(later, emptied, now=h.now) as elsewhere:
        elsewhere.drain()
    h.drain()

    assert h.app.job(job.id).result == {"paid": 7}


def test_a_signal_that_one_run_of_a_job_has_taken_is_not_taken_by_the_next_run(h: Harness) -> None:
    heard: list[Any] = []

    @h.app.task
    async def order(run: Run) -> Any:
        heard.append(await run.wait_for("approved", timeout="1h"))

    job = order.enqueue()
    h.app.signal("approved", 1)
    h.drain()
    assert heard == [1]
    h.app.revive(job.id)
    h.drain()
    assert heard == [1]
    h.app.signal("approved", 2)
    h.drain()

    assert heard == [1, 2]
    is_sound(h)


def test_a_wait_for_another_event_needs_attention_although_its_name_reads_the_same(
    h: Harness,
) -> None:
    waits = [("paid:7", ""), ("paid", "7" * 250)]

    @h.app.task
    async def order(run: Run, number: int) -> Any:
        event, key = waits[number]
        return await run.wait_for(event, key=key)

    jobs = [order.enqueue(number) for number in range(2)]
    h.drain()
    waits[:] = [("paid", "7"), ("paid", "7" * 249 + "8")]
    for job in jobs:
        h.app.job(job.id).run_now()
    h.drain()

    found = {each.job: each for each in h.app.workflows("attention")}
    assert found.keys() == {job.id for job in jobs}
    waits[0] = ("paid:7", "")
    found[jobs[0].id].resume()
    h.drain()
    h.app.signal("paid:7", "yes")
    h.drain()
    assert jobs[0].refresh().result == "yes"


def test_a_step_that_its_task_does_not_await_fails_the_attempt_and_commits_nothing(
    h: Harness,
) -> None:
    left: list[Any] = []

    @h.app.task(retries=0)
    async def order(run: Run) -> None:
        began = asyncio.Event()

        async def long() -> None:
            run.write(WRITE, job=1, what="inside")
            began.set()
            await asyncio.Event().wait()

        run.write(WRITE, job=1, what="outside")
        left.append(asyncio.create_task(run.step("long", long)))
        await began.wait()

    job = order.enqueue()
    h.drain()

    assert "has not ended, and its task has: await it" in str(h.app.job(job.id).error)
    assert effects(h) == []
