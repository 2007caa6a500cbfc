"""Functions of the user's that hold threads for long: a worker, and other work, go on without those."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from duework import App, Run
from tests.support.working import eventually, working

# As many threads as event loops share.
SHARED = min(32, (os.cpu_count() or 1) + 4)


@contextmanager
def holding(app: App, hold: Callable[[Run, Callable[[], Any]], Any]) -> Iterator[None]:
    """A worker that runs so many tasks which hold a thread each, until it has been stopped."""
    begun, over = threading.Semaphore(0), threading.Event()

    def wait() -> None:
        begun.release()
        over.wait(60)

    @app.task
    async def holds(run: Run) -> None:
        await hold(run, wait)

    for _ in range(SHARED):
        holds.enqueue()
    try:
        with working(app):
            assert all(begun.acquire(timeout=20) for _ in range(SHARED))
            yield
            over.set()
    finally:
        over.set()


def test_steps_that_hang_keep_no_other_workflow_from_its_steps(url: str) -> None:
    with closing(App(url)) as app:

        @app.task
        async def quick(run: Run) -> int:
            return await run.step("seven", lambda: 7)

        with holding(app, lambda run, wait: run.step("hang", wait)):
            assert quick.enqueue().wait(timeout="20s").result == 7


def test_a_worker_claims_on_while_tasks_hold_all_threads_that_they_share(url: str) -> None:
    with closing(App(url)) as app:

        @app.task
        async def quick() -> int:
            return 7

        with holding(app, lambda _, wait: asyncio.to_thread(wait)):
            assert quick.enqueue().wait(timeout="20s").result == 7


def test_a_worker_stops_while_a_step_hangs(url: str) -> None:
    begun, over = threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        over.wait(60)

    with closing(App(url)) as app:

        @app.task
        async def hangs(run: Run) -> None:
            await run.step("hang", hang)

        hangs.enqueue()
        with working(app) as running:
            eventually(begun.is_set)
        assert running.error is None
    over.set()
