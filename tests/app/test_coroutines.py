"""Coroutines share a few asyncio tasks; none of them may notice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any

import pytest

from duework import App
from duework.kernel.coroutines import Coroutines
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


# --- started before whoever brings it goes on


class Pool:
    """Coroutines without a worker: jobs are functions, and how they ended is kept."""

    def __init__(self) -> None:
        self.ended: list[Any] = []
        self._pool = Coroutines(_called, self._finished)
        self.submit: Any = self._pool.submit
        self.spare = self._pool.spare
        self._pool.bind(asyncio.get_running_loop())

    def _finished(self, _attempt: Any, value: Any, error: BaseException | None) -> None:
        self.ended.append(error or value)

    async def ran(self, job: Callable[[], Awaitable[Any]], then: str = "") -> Any:
        """Bring it in a callback, when a carrier is at rest; whether it began then, and how it ended."""
        await self.rest()
        attempt: Any = SimpleNamespace(job=job, stopping=None)
        begun = asyncio.get_running_loop().create_future()

        def bring() -> None:
            carriers = len(self._pool.spare)
            self.submit(attempt, at_once=True)
            begun.set_result(not self._pool.waiting and carriers > 0)
            if then == "interrupted":
                attempt.stopping = "enough"
                self._pool.interrupt(attempt)

        before = len(self.ended)
        asyncio.get_running_loop().call_soon(bring)
        assert await begun
        while len(self.ended) == before:  # noqa: ASYNC110 - one step at a time
            await asyncio.sleep(0)
        assert len({id(carrier) for carrier in self.spare}) == len(self.spare), "each of them once"
        return self.ended[-1]

    async def rest(self) -> None:
        while not any(not carrier.rest.done() for carrier in self._pool.spare):
            self.submit(SimpleNamespace(job=nothing, stopping=None))
            await asyncio.sleep(0)


def with_a_carrier_at_rest(program: Callable[[Pool], Awaitable[None]]) -> None:
    async def whole() -> None:
        pool = Pool()
        await pool.rest()
        await program(pool)

    asyncio.run(whole())


def _called(attempt: Any) -> Any:
    return attempt.job()


async def nothing() -> None:
    """As a job that only makes a carrier."""


async def at_once() -> Any:
    return "at once"


async def waits() -> Any:
    before = asyncio.current_task()
    assert before is not None
    assert tenant.get() == "nobody"
    tenant.set("waits")
    await asyncio.sleep(0.001)
    assert asyncio.current_task() is before
    return tenant.get()


async def fails() -> Any:
    raise KeyError("fails")


async def too_slow() -> Any:
    try:
        async with asyncio.timeout(0):
            await asyncio.sleep(60)
    except TimeoutError:
        return "too slow"


async def cancels_itself() -> Any:
    task = asyncio.current_task()
    assert task is not None
    task.cancel("by itself")
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError as cancelled:
        return str(cancelled)


async def cancels_itself_too_late() -> Any:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    return "too late"


async def shares() -> Any:
    """A child that starts before the carrier's task has its turn awaits the same as the job."""

    async def child() -> Any:
        return await shared

    shared = asyncio.ensure_future(asyncio.sleep(0.001, "shared"))
    children = [asyncio.create_task(child()) for _ in range(2)]
    assert await shared == "shared"
    return ", ".join(await asyncio.gather(*children))


async def yields_what_it_should_not() -> Any:
    class Odd:
        def __await__(self) -> Any:
            # Without the mark that says that it is awaited.
            yield asyncio.get_running_loop().create_future()

    await Odd()


async def waits_for_what_cannot_be() -> Any:
    class Odd:
        @property
        def _asyncio_future_blocking(self) -> bool:
            raise KeyError("odd")

        def __await__(self) -> Any:
            yield self

    await Odd()


async def has_children() -> Any:
    child = asyncio.create_task(asyncio.sleep(60))
    try:
        await child
    except asyncio.CancelledError as cancelled:
        return f"{cancelled}, {child.cancelled()}"


@pytest.mark.parametrize(
    ("job", "wanted"),
    [
        (at_once, "at once"),
        (waits, "waits"),
        (fails, KeyError),
        (too_slow, "too slow"),
        (cancels_itself, "by itself"),
        (cancels_itself_too_late, "too late"),
        (shares, "shared, shared"),
        (yields_what_it_should_not, RuntimeError),
        (waits_for_what_cannot_be, KeyError),
    ],
)
def test_a_job_that_starts_at_once_does_not_notice(
    job: Callable[[], Awaitable[Any]], wanted: Any
) -> None:
    async def program(pool: Pool) -> None:
        for _ in range(3):
            ended = await pool.ran(job)
            assert ended == wanted or type(ended) is wanted
            assert await pool.ran(at_once) == "at once"

    with_a_carrier_at_rest(program)


def test_one_carrier_is_enough_for_jobs_that_start_at_once() -> None:
    async def program(pool: Pool) -> None:
        before = len(asyncio.all_tasks())
        for job in (at_once, waits, fails, at_once):
            await pool.ran(job)
        assert len(asyncio.all_tasks()) == before

    with_a_carrier_at_rest(program)


def test_a_carrier_that_was_told_to_stop_takes_no_other_job() -> None:
    async def program(pool: Pool) -> None:

        def bring() -> None:
            for job in (cancels_itself_too_late, at_once, waits):
                pool.submit(SimpleNamespace(job=job, stopping=None), at_once=True)

        before = len(pool.ended)
        asyncio.get_running_loop().call_soon(bring)
        await asyncio.sleep(0.05)
        assert pool.ended[before:] == ["too late", "at once", "waits"]
        # The one that had to stop has ended.
        assert len(asyncio.all_tasks()) == 1 + len(pool.spare)

    with_a_carrier_at_rest(program)


def test_a_job_that_is_told_to_stop_as_it_starts_hears_of_it() -> None:
    async def program(pool: Pool) -> None:
        assert await pool.ran(has_children, "interrupted") == "enough, True"
        assert await pool.ran(waits) == "waits"

    with_a_carrier_at_rest(program)


def test_a_job_that_a_task_brings_waits_for_its_turn() -> None:
    """Two tasks cannot be the current one."""

    async def program(pool: Pool) -> None:
        attempt: Any = SimpleNamespace(job=at_once, stopping=None)
        before = len(pool.ended)
        pool.submit(attempt, at_once=True)
        assert len(pool.ended) == before
        await asyncio.sleep(0.01)
        assert pool.ended[before:] == ["at once"]

    with_a_carrier_at_rest(program)
