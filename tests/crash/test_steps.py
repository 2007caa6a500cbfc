"""A workflow, with the process lost before each of its statements in turn: every step's effect once."""

from __future__ import annotations

from typing import Any

import pytest

from duework import Job, Run
from duework.testing import Harness
from tests.crash.test_crash import (
    EFFECT,
    WRITE,
    at_every_point,
    effects,
    in_every_call,
    settle_down,
)
from tests.support.checks import is_sound


@pytest.fixture
def h(harness: Harness) -> Harness:
    with harness.app.transaction() as tx:
        tx.write(EFFECT)
    return harness


def forget_steps(h: Harness) -> None:
    with h.app.transaction() as tx:
        for table in ("workflow", "step", "signal", "topic"):
            tx.write(f"delete from duework_{table}")


def test_every_steps_effect_is_there_once_wherever_the_process_is_lost(h: Harness) -> None:
    @h.app.task
    async def double(number: int) -> int:
        return 2 * number

    @h.app.task
    async def flow(run: Run) -> int:
        async def noted(what: str) -> str:
            run.write(WRITE, job=run.job.id, what=what)
            return what

        await run.step("one", noted, "one")
        await run.sleep("0s")
        value: int = await run.child("double", double, 4)
        heard: int = await run.wait_for("go")
        await run.step("two", noted, "two")
        run.write(WRITE, job=run.job.id, what="end")
        return value + heard

    def begin() -> Job[Any]:
        forget_steps(h)
        job = flow.enqueue()
        h.app.signal("go", 34)
        return job

    def check(job: Job[Any]) -> None:
        assert h.app.job(job.id).result == 42
        assert effects(h) == ["one", "two", "end"]
        names = [(step.name, step.state) for step in h.app.get_workflow(job.id).steps()]
        assert names == [(n, "done") for n in ("one", "sleep", "double", "go", "two")]
        assert len(h.app.jobs(task="double")) == 1
        is_sound(h)

    at_every_point(h, begin, check, floor=40)


def test_a_step_that_is_retried_happens_once_in_the_end(h: Harness) -> None:
    calls: list[int] = []

    @h.app.task
    async def flow(run: Run) -> None:
        async def flaky() -> None:
            calls.append(1)
            run.write(WRITE, job=run.job.id, what="flaky")
            if len(calls) < 3:
                raise ConnectionError("upstream")

        await run.step("flaky", flaky, retries=2, backoff="0s")

    def begin() -> Job[Any]:
        forget_steps(h)
        calls.clear()
        return flow.enqueue()

    def check(job: Job[Any]) -> None:
        assert h.app.job(job.id).state == "done"
        assert effects(h) == ["flaky"]
        is_sound(h)

    at_every_point(h, begin, check, floor=20)


def test_a_signal_a_fork_and_a_cancel_happen_whole_or_not_at_all(h: Harness) -> None:
    @h.app.task
    async def flow(run: Run) -> int:
        await run.step("one", lambda: run.write(WRITE, job=run.job.id, what="one"))
        heard: int = await run.wait_for("go", key="a")
        await run.step("two", lambda: run.write(WRITE, job=run.job.id, what="two"))
        return heard

    def begin() -> tuple[int, list[str]]:
        forget_steps(h)
        job = flow.enqueue()
        h.drain()
        return job.id, []

    def act(given: tuple[int, list[str]]) -> None:
        job, answered = given
        h.app.get_workflow(job).fork("go:a")
        answered.append("forked")
        h.app.signal("go", 7, key="a")
        answered.append("told")

    def check(given: tuple[int, list[str]]) -> None:
        job, answered = given
        is_sound(h)
        settle_down(h)
        others = [each for each in h.app.jobs(task="flow") if each.id != job]
        assert len(others) == 1 if "forked" in answered else len(others) <= 1
        told = h.app.job(job).state == "done"
        assert told or "told" not in answered
        assert effects(h) == (["one"] + ["two"] * (1 + len(others)) if told else ["one"])
        is_sound(h)

    in_every_call(h, begin, act, check, floor=10)
