"""Jobs that are made beside a worker of the same process that has nothing to do."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from functools import partial
from typing import Any

import pytest

from duework import App, Quota
from duework.db.database import Tx
from duework.worker.attempts import Attempts
from duework.worker.worker import Worker


class Commits:
    """Counts the commits of an App, and can make one wait."""

    def __init__(self, app: App) -> None:
        self._database: Any = app.wiring.engine.database
        self._commit = self._database.commit
        self._database.commit = self
        self.count = 0
        self.reached, self.go = threading.Event(), threading.Event()
        self.go.set()

    def __call__(self, tx: Tx) -> None:
        self.count += 1
        self.reached.set()
        self.go.wait(10)
        self._commit(tx)


async def at_rest(worker: Worker) -> None:
    """Until the worker sleeps."""
    for _ in range(3):
        while worker._rung or worker._wake.is_set():  # noqa: SLF001, ASYNC110 - that it sleeps is the point
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.02)


async def started(app: App, queues: set[str] | None = None) -> tuple[Worker, asyncio.Task[None]]:
    worker = await asyncio.to_thread(app.worker, queues)
    running = asyncio.create_task(worker.run())
    await at_rest(worker)
    return worker, running


@contextlib.asynccontextmanager
async def sleeping(app: App, queues: set[str] | None = None) -> AsyncIterator[Worker]:
    """A worker with nothing to do, which is stopped at the end."""
    worker, running = await started(app, queues)
    yield worker
    worker.stop()
    await running


async def until(there: Callable[[], object]) -> None:
    while not there():  # noqa: ASYNC110 - what is waited for tells nobody
        await asyncio.sleep(0.01)


class Crowd:
    """Jobs that take a while, and how many of them ran at once."""

    def __init__(self) -> None:
        self.now = self.most = self.over = 0

    async def note(self, number: int) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.02)
        self.now -= 1
        self.over += 1


def test_a_job_is_claimed_by_the_transaction_that_makes_it(app: App, kind: str) -> None:
    begun = asyncio.Event()
    # How much had been committed when each of them started.
    counts: list[int] = []
    commits = Commits(app)

    @app.task
    async def note() -> None:
        counts.append(commits.count)
        begun.set()

    async def program() -> None:
        async with sleeping(app) as worker:
            for _ in range(2):
                await at_rest(worker)
                commits.count = 0
                begun.clear()
                await note.aenqueue()
                await asyncio.wait_for(begun.wait(), 10)

    asyncio.run(program())
    # Through a server the caller would wait for too many round trips.
    assert counts == ([1, 1] if kind == "sqlite" else [2, 2])
    assert {job.state for job in app.jobs(task="note")} == {"done"}


@pytest.mark.parametrize("way", ["enqueue", "aenqueue"])
def test_it_starts_only_once_it_is_durable(app: App, way: str) -> None:
    begun = asyncio.Event()

    @app.task
    async def note() -> None:
        begun.set()

    async def program() -> None:
        async with sleeping(app):
            commits = Commits(app)
            commits.go.clear()
            call = note.aenqueue() if way == "aenqueue" else asyncio.to_thread(note.enqueue)
            asking = asyncio.ensure_future(call)
            assert await asyncio.to_thread(commits.reached.wait, 10)
            await asyncio.sleep(0.05)
            assert not begun.is_set()
            assert not asking.done()
            commits.go.set()
            await asyncio.wait_for(begun.wait(), 10)
            await asking

    asyncio.run(program())


def test_no_more_are_claimed_than_there_are_slots(url: str) -> None:
    app = App(url, concurrency=2)
    crowd = Crowd()
    note = app.task(name="note")(crowd.note)

    async def program() -> None:
        async with sleeping(app):
            for number in range(12):
                await note.aenqueue(number)
                await asyncio.sleep(0.004)
            await until(lambda: crowd.over == 12)

    asyncio.run(program())
    assert crowd.most == 2
    assert {(job.state, job.fence) for job in app.jobs(task="note")} == {("done", 1)}
    app.close()


def test_a_paused_queue_a_later_job_and_an_unknown_queue_are_left_alone(app: App) -> None:
    ran: list[str] = []

    @app.task
    async def note(what: str) -> None:
        ran.append(what)

    async def program() -> None:
        async with sleeping(app, {"default", "paused"}) as worker:
            await asyncio.to_thread(app.pause, "paused")
            for what, options in (
                ("paused", {"queue": "paused"}),
                ("later", {"delay": "1h"}),
                ("elsewhere", {"queue": "elsewhere"}),
                ("now", {}),
            ):
                await at_rest(worker)
                await note.using(**options).aenqueue(what)
            await until(lambda: ran)
            await at_rest(worker)

    asyncio.run(program())
    assert ran == ["now"]


def test_a_limit_counts_what_was_claimed_by_the_way(app: App) -> None:
    crowd = Crowd()
    note = app.task(name="note", concurrency=1)(crowd.note)

    async def program() -> None:
        async with sleeping(app):
            for number in range(5):
                await note.aenqueue(number)
            await until(lambda: crowd.over == 5)

    asyncio.run(program())
    assert crowd.most == 1


@pytest.mark.parametrize("plain", [True, False], ids=["function", "coroutine"])
def test_what_is_claimed_while_the_worker_is_ended_is_handed_back(app: App, plain: bool) -> None:
    ran: list[int] = []

    async def coroutine() -> None:
        ran.append(1)

    def function() -> None:
        ran.append(1)

    note = app.task(name="note")(function if plain else coroutine)

    async def program() -> None:
        _, running = await started(app)
        commits = Commits(app)
        commits.go.clear()
        asking = asyncio.create_task(note.aenqueue())
        assert await asyncio.to_thread(commits.reached.wait, 10)
        running.cancel()
        await asyncio.sleep(0.05)
        commits.go.set()
        await asking
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(program())
    [job] = app.jobs(task="note")
    assert (job.phase, job.failures, job.crashes) == ("ready", 0, 0)
    assert ran == []


def test_one_that_was_told_to_stop_claims_no_more(app: App) -> None:
    ran: list[int] = []

    @app.task
    async def note() -> None:
        ran.append(1)

    async def program() -> None:
        worker, running = await started(app)

        def stop_and_ask() -> None:
            worker.stop()
            note.enqueue()

        await asyncio.to_thread(stop_and_ask)
        await running

    asyncio.run(program())
    [job] = app.jobs(task="note")
    assert (job.phase, job.fence, ran) == ("ready", 0, [])


def test_nothing_is_claimed_for_an_event_loop_that_stands_still(app: App) -> None:
    found: list[str] = []

    @app.task
    async def note() -> None: ...

    async def program() -> None:
        async with sleeping(app) as worker:

            def ask() -> None:
                job = note.enqueue()
                found.append(job.refresh().phase)

            asking = threading.Thread(target=ask)
            # Neither may the loop go on before: it would hear of the job and claim it itself.
            asking.start()
            asking.join()
            await at_rest(worker)

    asyncio.run(program())
    assert found == ["ready"]
    assert [job.state for job in app.jobs(task="note")] == ["done"]


def test_what_a_pace_was_told_counts_for_what_is_enqueued_next(app: App) -> None:
    ran: list[int] = []
    quota = Quota("upstream", windows={"1h": 100})

    @app.task(pace=quota)
    async def note(number: int) -> None:
        ran.append(number)

    async def program() -> None:
        async with sleeping(app) as worker:
            # The worker is not woken for it: else it may have written it down before.
            app.wiring.registry.on_report = lambda: None

            def tell_and_ask() -> None:
                quota.blocked("1h")
                note.enqueue(1)

            await asyncio.to_thread(tell_and_ask)
            await at_rest(worker)

    asyncio.run(program())
    assert ran == []


def test_a_worker_that_cannot_start_what_it_was_given_ends_loudly(
    app: App, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.task
    async def note() -> None: ...

    def no_threads(self: Attempts, jobs: object) -> None:
        if jobs:
            raise RuntimeError("can't start new thread")

    async def program() -> None:
        _, running = await started(app)
        monkeypatch.setattr(Attempts, "start", no_threads)
        await note.aenqueue()
        with pytest.raises(RuntimeError, match="can't start"):
            await asyncio.wait_for(running, 10)

    asyncio.run(program())


def test_jobs_keep_the_context_of_their_worker(app: App) -> None:
    whose: ContextVar[str] = ContextVar("whose", default="nobody's")
    seen: list[str] = []

    @app.task
    async def note() -> None:
        seen.append(whose.get())

    async def program() -> None:
        whose.set("the worker's")
        async with sleeping(app) as worker:
            whose.set("the caller's")
            for count in range(1, 4):
                await at_rest(worker)
                await note.aenqueue()
                await until(partial(lambda wanted: len(seen) == wanted, count))

    asyncio.run(program())
    assert seen == ["the worker's"] * 3


def test_nothing_is_claimed_for_a_loop_whose_callback_asks(app: App) -> None:
    found: list[str] = []

    @app.task
    async def note() -> None: ...

    async def program() -> None:
        async with sleeping(app) as worker:
            asyncio.get_running_loop().call_soon(
                lambda: found.append(note.enqueue().refresh().phase)
            )
            await asyncio.sleep(0.05)
            await at_rest(worker)

    asyncio.run(program())
    assert found == ["ready"]
    assert [job.state for job in app.jobs(task="note")] == ["done"]


@pytest.mark.parametrize("way", ["connection", "resume", "group"])
def test_urgent_work_that_is_due_goes_before_what_is_made(url: str, way: str) -> None:
    app = App(url, concurrency=1)
    ran: list[str] = []

    @app.task
    async def note(word: str) -> None:
        ran.append(word)
        await asyncio.sleep(0.05)

    urgent = note.using(priority=9, queue="fast")

    async def both(worker: Worker) -> None:
        if way == "connection":
            connection = app.connect()
            connection.execute("begin")
            urgent.using(connection=connection).enqueue("urgent")
            connection.execute("commit")
            await note.aenqueue("low")
            connection.close()
        elif way == "resume":
            app.pause("fast")
            await urgent.aenqueue("urgent")
            await at_rest(worker)
            # As somebody on another machine would: nobody here is told of it yet.
            connection = app.connect()
            connection.execute("update duework_lane set due = 0")
            connection.execute("commit") if app.wiring.engine.database.kind == "postgres" else None
            await note.aenqueue("low")
            connection.close()
        else:
            done = await note.aenqueue("first")
            await until(lambda: app.job(done.id).state == "done")
            await at_rest(worker)
            await asyncio.gather(urgent.aenqueue("urgent"), note.using(after=done).aenqueue("low"))

    async def program() -> None:
        async with sleeping(app) as worker:
            await both(worker)
            await until(lambda: "low" in ran and "urgent" in ran)

    asyncio.run(program())
    assert ran[-2:] == ["urgent", "low"]
    app.close()


def test_what_is_made_by_one_call_keeps_its_order(url: str) -> None:
    app = App(url, concurrency=1)
    ran: list[int] = []

    @app.task
    async def note(number: int) -> None:
        ran.append(number)
        await asyncio.sleep(0.01)

    async def program() -> None:
        async with sleeping(app) as worker:
            done = await note.aenqueue(0)
            await until(lambda: app.job(done.id).state == "done")
            await at_rest(worker)
            await note.using(after=done).aenqueue_many([(1,), (2,), (3,)])
            await until(lambda: len(ran) == 4)

    asyncio.run(program())
    assert ran == [0, 1, 2, 3]
    app.close()


def test_a_worker_that_is_cancelled_settles_what_it_has_done_before_it_lets_go(app: App) -> None:
    gate, ran = asyncio.Event(), list[int]()

    @app.task
    async def note(number: int) -> None:
        ran.append(number)
        await gate.wait()

    def slow(_: Tx, items: list[int]) -> list[int]:
        time.sleep(0.5)
        return items

    async def program() -> None:
        worker, running = await started(app)
        await asyncio.to_thread(note.enqueue, 1)
        await until(lambda: ran)
        await at_rest(worker)
        busy = asyncio.create_task(asyncio.to_thread(app.wiring.engine.writer.call, slow, [1]))
        await asyncio.sleep(0.1)
        gate.set()
        # It is done, and its turn waits for the writer.
        await asyncio.sleep(0.1)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        await busy

    asyncio.run(program())
    assert {(job.state, job.fence) for job in app.jobs(task="note")} == {("done", 1)}
    assert app.read("select count(*) as n from duework_worker")[0].n == 0
