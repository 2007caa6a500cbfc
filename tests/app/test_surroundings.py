"""What surrounds attempts: context managers around each of them, and resources that they share."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

from duework import App, Part, Run, Snooze, UsageError
from duework.testing import Harness

ROOT = Path(__file__).parents[2]
RUNS = """if __name__ == "__main__":
    import asyncio
    from tests.support import surrounded
    asyncio.run(surrounded.main())
"""


# --- resources


def test_attempts_of_one_loop_share_an_async_resource_that_is_opened_at_its_first_use(
    harness: Harness,
) -> None:
    log: list[str] = []

    @harness.app.resource
    async def client() -> AsyncIterator[object]:
        log.append("opened")
        await asyncio.sleep(0)
        yield object()
        log.append("closed")

    @harness.app.task
    async def ask(run: Run, number: int) -> None:
        values.add(id(await run.resource(client)))

    values: set[int] = set()
    harness.drain()
    assert log == []

    ask.enqueue_many([(number,) for number in range(20)])
    harness.drain()

    assert (log, len(values)) == (["opened"], 1)


def test_threads_share_a_plain_resource(harness: Harness) -> None:
    opened = []
    together, another = threading.Barrier(5), threading.Event()

    @harness.app.resource
    def pool() -> Iterator[list[int]]:
        opened.append(1)
        # Long enough for another one to begin, if it could.
        another.wait(0.1) if len(opened) == 1 else another.set()
        yield []

    @harness.app.task
    def ask(run: Run, number: int) -> None:
        together.wait(10)
        run.resource(pool).append(number)
        values.append(run.resource(pool))

    values: list[list[int]] = []
    ask.enqueue_many([(number,) for number in range(5)])
    harness.drain()

    assert len(opened) == 1
    assert sorted(values[0]) == list(range(5))
    assert all(each is values[0] for each in values)


def test_an_opening_that_fails_fails_the_attempt_and_the_next_one_opens_anew(
    harness: Harness,
) -> None:
    tried: list[str] = []

    @harness.app.resource
    async def client() -> AsyncIterator[str]:
        tried.append("async")
        if tried.count("async") == 1:
            raise ConnectionError("no route")
        yield "client"

    @harness.app.resource
    def pool() -> Iterator[str]:
        tried.append("plain")
        if tried.count("plain") == 1:
            raise ConnectionError("no route")
        yield "pool"

    @harness.app.task(retries=1, backoff="1s")
    async def ask(run: Run) -> str:
        return await run.resource(client)

    @harness.app.task(retries=1, backoff="1s")
    def ask_plainly(run: Run) -> str:
        return run.resource(pool)

    jobs = [ask.enqueue(), ask_plainly.enqueue()]
    harness.drain()
    assert ["no route" in (job.refresh().error or "") for job in jobs] == [True, True]
    harness.advance("2s")

    assert [job.refresh().result for job in jobs] == ["client", "pool"]
    assert tried.count("async") == tried.count("plain") == 2


def test_an_opening_that_hangs_ends_with_the_last_attempt_that_waits_for_it(app: App) -> None:
    log: list[str] = []

    @app.resource
    async def client() -> AsyncIterator[str]:
        log.append("opening")
        try:
            if log.count("opening") == 1:
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            log.append("stopped")
            raise
        yield "client"

    @app.task(timeout="200ms", retries=1, backoff=0)
    async def ask(run: Run) -> str:
        return await run.resource(client)

    async def main() -> Any:
        async with app.running():
            job = await ask.aenqueue()
            return await job.await_("10s")

    job = asyncio.run(main())

    assert (job.state, job.result) == ("done", "client")
    assert log == ["opening", "stopped", "opening"]


def test_a_worker_closes_resources_at_its_end_the_newest_first_in_the_task_that_opened_them(
    app: App,
) -> None:
    log: list[tuple[str, Any]] = []

    def resource(name: str) -> Any:
        @app.resource
        async def made() -> AsyncIterator[str]:
            log.append((f"{name} opened", asyncio.current_task()))
            async with asyncio.timeout(60):
                yield name
            log.append((f"{name} closed", asyncio.current_task()))

        return made

    @app.resource
    def plain() -> Iterator[str]:
        yield "plain"
        log.append(("plain closed", None))

    first, second = resource("first"), resource("second")

    @app.task
    async def ask(run: Run) -> list[str]:
        return [await run.resource(first), await run.resource(second), run.resource(plain)]

    async def main() -> None:
        async with app.running():
            await (await ask.aenqueue()).await_("10s")
            assert len(log) == 2

    asyncio.run(main())

    assert [word for word, _ in log] == [
        "first opened",
        "second opened",
        "second closed",
        "first closed",
        "plain closed",
    ]
    owners = [task for _, task in log]
    assert owners[0] is owners[3]
    assert owners[1] is owners[2]


def test_a_resource_that_cannot_be_closed_is_logged_and_the_others_are_closed(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    closed = []

    @harness.app.resource
    def good() -> Iterator[int]:
        yield 1
        closed.append("good")

    @harness.app.resource
    def bad() -> Iterator[int]:
        yield 2
        raise OSError("it is stuck")

    @harness.app.resource
    async def twice() -> AsyncIterator[int]:
        yield 3
        yield 4

    @harness.app.task
    async def ask(run: Run) -> int:
        return run.resource(good) + run.resource(bad) + await run.resource(twice)

    job = ask.enqueue()
    harness.drain()
    harness.crash_worker()

    assert job.refresh().result == 6
    assert closed == ["good"]
    assert "it is stuck" in caplog.text
    assert "yields more than once" in caplog.text


def test_an_async_resource_in_a_plain_task_is_an_error_that_says_what_to_do(
    harness: Harness,
) -> None:
    @harness.app.resource
    async def client() -> AsyncIterator[str]:
        yield "client"

    @harness.app.task
    def ask(run: Run) -> None:
        run.resource(client)

    job = ask.enqueue()
    harness.drain()

    assert "write the task with async def" in (job.refresh().error or "")


@pytest.mark.parametrize("word", ["function", "argument", "manager"])
def test_what_is_no_resource_is_refused_where_it_is_declared(word: str) -> None:
    def function() -> int:
        return 1

    def argument(url: str) -> Iterator[str]:
        yield url

    @contextmanager
    def manager() -> Iterator[str]:
        yield ""

    with pytest.raises(UsageError, match="resource"):
        Part("p").resource(locals()[word])


# --- arounds


def test_context_managers_go_around_each_attempt_in_the_order_of_their_registration(
    harness: Harness,
) -> None:
    log: list[str] = []
    app, part = harness.app, Part("inner")

    def noting(name: str) -> Any:
        @contextmanager
        def made(run: Run) -> Iterator[None]:
            log.append(f"+{name}{run.attempt}")
            yield
            log.append(f"-{name}")

        return made

    part.around(noting("p"))
    app.around(noting("a"))

    @app.task
    def mine() -> None:
        log.append("mine")

    @part.task
    async def parts() -> None:
        log.append("parts")

    app.include(part)
    app.around(noting("b"))
    part.around(noting("q"))

    mine.enqueue()
    harness.drain()
    assert log == ["+a1", "+b1", "mine", "-b", "-a"]
    log.clear()
    parts.enqueue()
    harness.drain()

    assert log == ["+a1", "+b1", "+p1", "+q1", "parts", "-q", "-p", "-b", "-a"]


def test_an_around_is_in_the_thread_and_the_context_of_the_function(harness: Harness) -> None:
    tenant: ContextVar[str] = ContextVar("tenant")
    here = threading.local()

    @harness.app.around
    @contextmanager
    def within(run: Run) -> Iterator[None]:
        token = tenant.set(f"t{run.job.id}")
        here.job = run.job.id
        yield
        tenant.reset(token)

    @harness.app.task
    def plain(run: Run) -> list[Any]:
        return [tenant.get(), here.job]

    @harness.app.task
    async def coroutine(run: Run) -> str:
        await asyncio.sleep(0)
        return tenant.get()

    plain_jobs = plain.enqueue_many([()] * 5)
    jobs = coroutine.enqueue_many([()] * 5)
    harness.drain()

    assert [job.refresh().result for job in plain_jobs] == [[f"t{j.id}", j.id] for j in plain_jobs]
    assert [job.refresh().result for job in jobs] == [f"t{job.id}" for job in jobs]


def test_what_the_function_raises_passes_through_and_stays_the_outcome(harness: Harness) -> None:
    seen: list[str] = []

    @harness.app.around
    @contextmanager
    def swallows(run: Run) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001 - what is tested
            seen.append(type(error).__name__)

    @harness.app.task
    def fails() -> None:
        raise KeyError("plain")

    @harness.app.task
    async def afails() -> None:
        raise KeyError("async")

    @harness.app.task
    async def snoozes(run: Run) -> str:
        if not seen:
            raise Snooze("1s")
        return "later"

    snoozed = snoozes.enqueue()
    harness.drain()
    jobs = [fails.enqueue(), afails.enqueue()]
    harness.advance("2s")

    assert [job.refresh().state for job in jobs] == ["failed", "failed"]
    assert ["KeyError" in (job.refresh().error or "") for job in jobs] == [True, True]
    assert snoozed.refresh().result == "later"
    assert sorted(seen) == ["KeyError", "KeyError", "Snooze"]


def test_an_around_that_raises_fails_the_attempt_with_its_own_error_and_writes_nothing(
    harness: Harness,
) -> None:
    with harness.app.transaction() as tx:
        tx.write("create table written (id integer)")

    @harness.app.around
    @contextmanager
    def refuses(run: Run) -> Iterator[None]:
        if run.attempt == 1:
            raise PermissionError("closed today")
        yield
        if run.attempt == 2:
            raise PermissionError("too late")

    @harness.app.task(retries=2, backoff="1s")
    async def writes(run: Run) -> None:
        run.write("insert into written values (:id)", id=run.attempt)

    job = writes.enqueue()
    harness.advance("10s")

    errors = [each.error or "" for each in job.attempts()]
    assert job.refresh().state == "done"
    assert ["closed today" in errors[0], "too late" in errors[1]] == [True, True]
    assert [row.id for row in harness.app.read("select id from written")] == [3]
    with harness.app.transaction() as tx:
        tx.write("drop table written")


def test_async_arounds_wrap_async_tasks(harness: Harness) -> None:
    log: list[str] = []

    @harness.app.around
    @asynccontextmanager
    async def timed(run: Run) -> AsyncIterator[None]:
        await asyncio.sleep(0)
        log.append("in")
        yield
        await asyncio.sleep(0)
        log.append("out")

    @harness.app.task
    async def work() -> None:
        log.append("work")

    work.enqueue()
    harness.drain()

    assert log == ["in", "work", "out"]


def _async_around(owner: Any) -> None:
    @owner.around
    async def timed(run: Run) -> AsyncIterator[None]:
        yield


def _plain_task(owner: Any) -> None:
    @owner.task
    def plain() -> None: ...


def test_an_async_around_and_a_plain_task_are_an_error_in_whatever_order() -> None:
    for first, second in ((_async_around, _plain_task), (_plain_task, _async_around)):
        for owner in (App("sqlite:///never.db"), Part("p")):
            first(owner)
            with pytest.raises(UsageError, match=r"wraps async tasks only.*plain"):
                second(owner)

    app, part = App("sqlite:///never.db"), Part("p")
    _async_around(app)
    _plain_task(part)
    with pytest.raises(UsageError, match=r"wraps async tasks only, and p\.plain"):
        app.include(part)


def test_what_is_no_context_manager_is_refused_where_it_is_declared() -> None:
    def plain(run: Run) -> None: ...

    with pytest.raises(UsageError, match="one yield"):
        App("sqlite:///never.db").around(plain)


def test_an_around_that_a_fresh_process_cannot_find_is_an_error_that_says_so(
    harness: Harness,
) -> None:
    from tests.support import surrounded

    @contextmanager
    def hidden(run: Run) -> Iterator[None]:
        yield

    task = surrounded.plain.definition
    before, task.arounds = task.arounds, ()
    harness.app.wiring.registry.add(task)
    harness.app.around(hidden)
    try:
        with harness.app.transaction() as tx:
            job = tx.enqueue(surrounded.plain)
        harness.drain()
        assert "a fresh process must find it" in (harness.app.job(job.id).error or "")
    finally:
        task.arounds = before


@pytest.mark.slow
def test_a_process_of_its_own_has_the_same_around_it_and_closes_what_it_opened(url: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", RUNS],
        cwd=ROOT,
        env={**os.environ, "SURROUNDED_URL": url},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == [
        "the pool is closed",
        "['outer inner.plain', 'inner', 'a pool']",
        "the client is closed",
        "the pool is closed",
        "['outer inner.coroutine', 'inner', 'a client', 'a pool']",
        "['entered by True', 'left', 'entered by True', 'left']",
    ]
