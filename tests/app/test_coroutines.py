"""Coroutines share a few asyncio tasks; none of them may notice."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

from duework import App
from duework.testing import Harness
from tests.support.working import eventually, working

tenant: ContextVar[str] = ContextVar("tenant", default="nobody")


def test_what_one_job_sets_in_its_context_the_next_does_not_see(harness: Harness) -> None:
    seen: list[str] = []

    @harness.app.task
    async def visit(name: str) -> None:
        seen.append(tenant.get())
        tenant.set(name)
        await asyncio.sleep(0)
        seen.append(tenant.get())

    visit.enqueue_many([("ada",), ("bob",), ("eve",)])
    harness.drain()

    assert seen.count("nobody") == 3
    assert sorted(name for name in seen if name != "nobody") == ["ada", "bob", "eve"]


def test_a_job_that_waits_keeps_none_from_starting(harness: Harness) -> None:
    here: set[int] = set()
    all_here = asyncio.Event()

    @harness.app.task
    async def meet(number: int) -> None:
        here.add(number)
        if len(here) == 50:
            all_here.set()
        await all_here.wait()

    meet.enqueue_many([(number,) for number in range(50)])
    harness.drain()

    assert [job.state for job in harness.app.jobs(limit=100)] == ["done"] * 50


def test_a_job_that_cancels_itself_harms_no_other(harness: Harness) -> None:
    done: list[int] = []

    @harness.app.task
    async def odd(number: int) -> None:
        task = asyncio.current_task()
        assert task is not None
        if number % 2:
            # Told to stop, but it ends before it waits again.
            task.cancel()
            return
        await asyncio.sleep(0)
        done.append(number)

    jobs = odd.enqueue_many([(number,) for number in range(10)])
    harness.drain()

    assert sorted(done) == [0, 2, 4, 6, 8]
    assert {harness.app.job(job.id).state for job in jobs} == {"done"}


def test_a_timeout_of_asyncio_inside_a_job_is_its_own_affair(harness: Harness) -> None:
    @harness.app.task
    async def slow() -> str:
        try:
            async with asyncio.timeout(0.01):
                await asyncio.sleep(60)
        except TimeoutError:
            return "late"
        return "in time"

    @harness.app.task
    async def plain() -> str:
        await asyncio.sleep(0)
        return "fine"

    late = [slow.enqueue() for _ in range(3)]
    fine = [plain.enqueue() for _ in range(3)]
    harness.drain()

    assert [harness.app.job(job.id).result for job in late] == ["late"] * 3
    assert [harness.app.job(job.id).result for job in fine] == ["fine"] * 3


def test_a_job_that_stops_waiting_and_waits_again_gets_what_it_waits_for(harness: Harness) -> None:
    @harness.app.task
    async def sums() -> int:
        async def give(number: int) -> int:
            await asyncio.sleep(0)
            return number

        async with asyncio.TaskGroup() as group:
            parts = [group.create_task(give(number)) for number in range(4)]
        try:
            await asyncio.wait_for(asyncio.sleep(60), 0.01)
        except TimeoutError:
            return sum(part.result() for part in parts)
        return -1

    job = sums.enqueue()
    harness.drain()

    assert harness.app.job(job.id).result == 6


def test_many_jobs_that_never_wait_leave_the_loop_to_others(app: App) -> None:
    """What the loop has to do besides, such as a timer, comes between them."""
    beats: list[int] = []
    ran: list[int] = []

    @app.task
    async def busy(number: int) -> None:
        if not ran:
            asyncio.get_running_loop().call_soon(lambda: beats.append(len(ran)))
        for _ in range(20_000):
            pass
        ran.append(number)

    with working(app):
        busy.enqueue_many([(number,) for number in range(100)])
        eventually(lambda: len(ran) == 100)

    assert beats[0] < 100
