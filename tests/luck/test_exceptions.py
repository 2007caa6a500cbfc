"""Whatever a handler raises is its own failure: bounded text, and the worker lives on."""

import asyncio
from typing import Any

import pytest

from duework import App, Cancel, Fail, Retry
from duework.testing import Harness


class HostileText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text for you")

    __repr__ = __str__


class ExitingText(Exception):
    def __str__(self) -> str:
        raise SystemExit(9)


class NoText(Exception):
    def __str__(self) -> str:
        return 7  # type: ignore[return-value]  # noqa: PLE0307 - on purpose


class StubbornText(str):
    __slots__ = ()

    def __len__(self) -> int:
        raise RuntimeError("endless")

    def __format__(self, spec: str) -> str:
        raise RuntimeError("shapeless")


class Stubborn(Exception):
    def __str__(self) -> str:
        return StubbornText("stubborn")


class Faceless(Exception):
    """Asking for its class fails, as `isinstance` does."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise RuntimeError("no class either")


class NamelessMeta(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise RuntimeError("no name")


class Nameless(Exception, metaclass=NamelessMeta):
    pass


def deep(depth: int = 0) -> int:
    return deep(depth + 1)


def recursion() -> None:
    deep()


def chained() -> None:
    error = ValueError("first")
    error.__cause__ = error
    error.__context__ = error
    raise error


def raising(error: BaseException) -> Any:
    def function() -> None:
        raise error

    return function


ODD = {
    "KeyboardInterrupt": raising(KeyboardInterrupt()),
    "SystemExit": raising(SystemExit(0)),
    "GeneratorExit": raising(GeneratorExit()),
    "MemoryError": raising(MemoryError("no more")),
    "RecursionError": recursion,
    "CancelledError": raising(asyncio.CancelledError("not by us")),
    "StopIteration": raising(StopIteration(1)),
    "StopAsyncIteration": raising(StopAsyncIteration()),
    "BaseException": raising(BaseException("base")),
    "BaseExceptionGroup": raising(BaseExceptionGroup("several", [KeyboardInterrupt()])),
    "AssertionError": raising(AssertionError()),
    "ValueError": chained,
    "HostileText": raising(HostileText()),
    "ExitingText": raising(ExitingText()),
    "NoText": raising(NoText()),
    "Stubborn": raising(Stubborn()),
    "Faceless": raising(Faceless()),
    "Nameless": raising(Nameless()),
    "huge": raising(ValueError("x" * 10_000_000)),
    "NUL and surrogates": raising(ValueError("a\0b\ud800c\x1b[31m<b>")),
    "a Fail without a text": raising(Fail(object())),  # type: ignore[arg-type]
    "a hostile Fail": raising(Fail(HostileText())),  # type: ignore[arg-type]
    "a Fail with NUL": raising(Fail("a\0b\ud800c" * 10_000)),
}


def two_tasks(app: App, call: Any) -> tuple[Any, Any]:
    @app.task
    async def on_the_loop() -> None:
        call()

    @app.task
    def in_a_thread() -> None:
        call()

    return on_the_loop, in_a_thread


@pytest.mark.parametrize("call", ODD.values(), ids=ODD.keys())
def test_an_odd_exception_fails_its_attempt_and_the_worker_lives(
    harness: Harness, call: Any
) -> None:
    app = harness.app

    @app.task
    async def good() -> str:
        return "fine"

    bad = [task.enqueue() for task in two_tasks(app, call)]
    before = good.enqueue()
    harness.drain()
    after = good.enqueue()
    harness.drain()

    assert [job.refresh().state for job in bad] == ["failed", "failed"]
    for job in bad:
        error = job.refresh().error
        assert error
        assert len(error) <= 4000
        assert "\0" not in error
    assert before.refresh().result == after.refresh().result == "fine"
    assert app.jobs(phase="running") == []


def test_a_cancel_and_a_retry_with_odd_reasons_are_stored(harness: Harness) -> None:
    app = harness.app

    @app.task
    async def cancel() -> Cancel:
        return Cancel("a\0b\ud800")

    @app.task(retries=1, backoff="1s")
    async def retry() -> Retry:
        return Retry("1s", "a\0b" * 10_000)

    first, second = cancel.enqueue(), retry.enqueue()
    harness.drain()
    harness.advance("1m")

    assert (first.refresh().state, second.refresh().state) == ("cancelled", "failed")
    assert len(second.refresh().error or "") <= 4000


def test_a_cancellation_from_inside_is_a_failure_and_is_retried_with_delay(
    harness: Harness,
) -> None:
    app = harness.app
    calls: list[int] = []

    @app.task(retries=2, backoff="10s")
    async def waits_for_a_cancelled_task() -> str:
        calls.append(harness.now)
        if len(calls) < 3:
            inner = asyncio.create_task(asyncio.sleep(60))
            inner.cancel()
            await inner
        return "at last"

    job = waits_for_a_cancelled_task.enqueue()
    harness.drain()
    assert len(calls) == 1, "it must not spin"
    harness.advance("1m")

    assert job.refresh().result == "at last"
    assert job.refresh().failures == 2
    assert [later - calls[0] for later in calls] == [0, 10_000, 20_000]


def test_a_task_that_cancels_itself_does_not_spin(harness: Harness) -> None:
    app = harness.app
    calls: list[int] = []

    @app.task
    async def ends_itself() -> None:
        calls.append(1)
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(60)

    job = ends_itself.enqueue()
    harness.drain()

    assert len(calls) == 1
    assert job.refresh().state == "failed"


def test_a_program_that_ends_hands_back_what_it_runs_without_a_failure(url: str) -> None:
    app = App(url)

    @app.task
    async def sleeps() -> None:
        started.set()
        await asyncio.sleep(60)

    job = sleeps.enqueue()

    async def program() -> None:
        nonlocal started
        started = asyncio.Event()
        asyncio.create_task(app.worker().run())  # noqa: RUF006 - left running on purpose
        await started.wait()

    started = asyncio.Event()
    asyncio.run(program())

    row = job.refresh()
    assert (row.state, row.worker, row.failures) == ("open", None, 0)
    app.close()


def test_errors_hide_what_looks_like_a_secret(harness: Harness) -> None:
    @harness.app.task
    async def leak() -> None:
        raise ValueError("postgresql://ada:hunter2@db/x api_key=abc123 Bearer abcdefghij")

    job = leak.enqueue()
    harness.drain()

    error = job.refresh().error or ""
    assert "ValueError" in error
    for secret in ("hunter2", "abc123", "abcdefghij"):
        assert secret not in error
