"""Jobs that another process makes while a worker has nothing to do.

Another App on the same database is as good as another process: it has its own writer and connection, and
rings as one.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from duework import App, Quota, Rate
from duework.db.database import Tx
from tests.app.test_standby import Crowd, at_rest, sleeping, until


class Begun:
    """How the transactions of an App's writer began, and in which thread."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._database: Any = app.engine.database
        self._begin, self._commit = self._database.begin, self._database.commit
        self._database.begin, self._database.commit = self.begin, self.commit
        self.last: tuple[bool, bool, str] = (False, False, "")
        # Of those that were committed: unsynced, at once, and the thread.
        self.all: list[tuple[bool, bool, str]] = []
        # How much paces had admitted after each of them.
        self.used: list[int] = []

    def begin(self, *, unsynced: bool = False, at_once: bool = False) -> Tx:
        self.last = (unsynced, at_once, threading.current_thread().name)
        tx: Tx = self._begin(unsynced=unsynced, at_once=at_once)
        return tx

    def commit(self, tx: Tx) -> None:
        self._commit(tx)
        self.all.append(self.last)
        rows = self._app.read("select coalesce(sum(used), 0) as used from duework_pace")
        self.used.append(int(rows[0].used))


@pytest.fixture
def others(url: str) -> Iterator[App]:
    made = App(url)
    yield made
    made.close()


def define(app: App, others: App, crowd: Crowd, **options: Any) -> Any:
    """The same task in both of them; the others' is enqueued."""
    app.task(name="note", **options)(crowd.note)
    return others.task(name="note", **options)(crowd.note)


def test_a_job_is_claimed_in_the_loop_and_settled_on_the_disk(
    app: App, others: App, kind: str
) -> None:
    crowd = Crowd()
    note = define(app, others, crowd)
    found: list[tuple[bool, bool, str]] = []

    async def program() -> None:
        async with sleeping(app) as worker:
            begun = Begun(app)
            await asyncio.to_thread(note.enqueue, 1)
            await until(lambda: crowd.over == 1)
            await at_rest(worker)
            found.extend(begun.all)

    asyncio.run(program())
    if kind == "sqlite":
        assert found == [(True, True, "MainThread"), (False, False, "duework-writer")]
    else:
        # A server may crash under workers that live on: what it is told has to last.
        assert not any(unsynced for unsynced, _, _ in found)
    assert {(job.state, job.fence) for job in app.jobs(task="note")} == {("done", 1)}


def test_what_a_pace_admits_is_on_the_disk(app: App, others: App) -> None:
    crowd = Crowd()
    note = define(app, others, crowd, pace=Quota("upstream", windows={"1h": 2}))
    unsynced: list[bool] = []

    async def program() -> None:
        async with sleeping(app) as worker:
            begun = Begun(app)
            for number in range(3):
                await asyncio.to_thread(note.enqueue, number)
                await asyncio.sleep(0.03)
            await until(lambda: crowd.over == 2)
            await at_rest(worker)
            before = 0
            for how, used in zip(begun.all, begun.used, strict=True):
                if used > before:
                    unsynced.append(how[0])
                before = used

    asyncio.run(program())
    assert unsynced
    assert not any(unsynced)
    assert crowd.over == 2


def test_no_more_are_claimed_than_there_are_slots(url: str, others: App) -> None:
    app = App(url, concurrency=2)
    crowd = Crowd()
    note = define(app, others, crowd)

    async def program() -> None:
        async with sleeping(app):
            for number in range(12):
                await asyncio.to_thread(note.enqueue, number)
                await asyncio.sleep(0.004)
            await until(lambda: crowd.over == 12)

    asyncio.run(program())
    assert crowd.most == 2
    assert {(job.state, job.fence) for job in app.jobs(task="note")} == {("done", 1)}
    app.close()


def test_a_limit_holds(app: App, others: App) -> None:
    crowd = Crowd()
    note = define(app, others, crowd, concurrency=1)

    async def program() -> None:
        async with sleeping(app):
            for number in range(5):
                await asyncio.to_thread(note.enqueue, number)
            await until(lambda: crowd.over == 5)

    asyncio.run(program())
    assert crowd.most == 1


def test_a_database_that_is_locked_just_then_costs_no_job(app: App, others: App, kind: str) -> None:
    crowd = Crowd()
    note = define(app, others, crowd)

    async def program() -> None:
        async with sleeping(app):
            await asyncio.to_thread(note.enqueue, 1)
            connection = app.connect()
            connection.execute("begin immediate" if kind == "sqlite" else "begin")
            # The loop hears of it only now, and cannot write.
            await asyncio.sleep(0.05)
            connection.execute("rollback")
            await until(lambda: crowd.over == 1)
            connection.close()

    asyncio.run(program())
    assert {(job.state, job.fence) for job in app.jobs(task="note")} == {("done", 1)}


def test_a_job_that_expired_before_the_ring_was_heard_is_cancelled_on_the_disk(
    app: App, others: App
) -> None:
    crowd = Crowd()
    unsynced: list[bool] = []
    note = define(app, others, crowd)
    begun = Begun(app)
    app.registry.find("note").reactions.append(lambda *_: unsynced.append(begun.last[0]))

    async def program() -> None:
        async with sleeping(app):
            late = note.using(expires="1ms").enqueue(1)
            # Nothing is heard meanwhile.
            time.sleep(0.05)  # noqa: ASYNC251 - the loop is kept from its work
            await until(lambda: app.job(late.id).state != "open")
            await asyncio.to_thread(note.enqueue, 2)
            await until(lambda: crowd.over == 1)

    asyncio.run(program())
    assert sorted(job.state for job in app.jobs(task="note")) == ["cancelled", "done"]
    assert unsynced == [False, False]


def test_a_worker_that_was_told_to_stop_claims_nothing_more(app: App, others: App) -> None:
    crowd = Crowd()
    note = define(app, others, crowd)

    async def program() -> None:
        async with sleeping(app) as worker:
            note.enqueue(1)
            worker.stop()

    asyncio.run(program())
    assert {(job.phase, job.fence) for job in app.jobs(task="note")} == {("ready", 0)}
    assert crowd.over == 0


def test_a_handler_of_signals_that_raises_leaves_a_worker_that_works(
    app: App, others: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    crowd = Crowd()
    note = define(app, others, crowd)
    writer = app.engine.writer
    at_once, raised = writer.take_at_once, []

    def interrupted(*asked: Any) -> Any:
        if raised:
            return at_once(*asked)
        raised.append(1)
        raise RuntimeError("a handler of signals")

    async def program() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        async with sleeping(app):
            monkeypatch.setattr(writer, "take_at_once", interrupted)
            await asyncio.to_thread(note.enqueue, 1)
            await until(lambda: crowd.over == 1)

    asyncio.run(program())
    assert {(job.state, job.fence) for job in app.jobs(task="note")} == {("done", 1)}


@pytest.mark.parametrize("why", ["a limit", "no slot"])
def test_a_worker_that_can_take_no_more_takes_no_turns(url: str, others: App, why: str) -> None:
    app = App(url, concurrency=5 if why == "a limit" else 1)
    gate = asyncio.Event()
    options = {"concurrency": 1} if why == "a limit" else {}

    async def wait(number: int) -> None:
        await gate.wait()

    app.task(name="note", **options)(wait)
    note = others.task(name="note", **options)(wait)
    turns: list[int] = []

    async def program() -> None:
        async with sleeping(app):
            for number in range(3):
                await asyncio.to_thread(note.enqueue, number)
            await until(lambda: any(job.phase == "running" for job in app.jobs(task="note")))
            await asyncio.sleep(0.05)
            database: Any = app.engine.database
            begin = database.begin
            database.begin = lambda **how: turns.append(1) or begin(**how)
            await asyncio.sleep(0.3)
            database.begin = begin
            gate.set()
            await until(lambda: all(job.state == "done" for job in app.jobs(task="note")))

    asyncio.run(program())
    assert len(turns) < 5
    app.close()


def test_what_has_a_pace_keeps_its_priority(url: str, others: App) -> None:
    app = App(url, concurrency=1)
    ran: list[str] = []

    async def note(what: str) -> None:
        ran.append(what)

    tasks: list[Any] = []
    for each in (app, others):
        low = each.task(name="low")(note)
        high = each.task(name="high", priority=9, pace=Rate("1000/1s"))(note)
        tasks = [low, high]

    async def program() -> None:
        async with sleeping(app):
            with others.transaction() as tx:
                tx.enqueue(tasks[0], "low")
                tx.enqueue(tasks[1], "high")
            await until(lambda: len(ran) == 2)

    asyncio.run(program())
    assert ran == ["high", "low"]
    app.close()
