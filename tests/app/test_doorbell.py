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
from duework.kernel.facts import LeaseRecovered
from tests.app.test_handoff import Crowd, at_rest, sleeping, until


@pytest.fixture
def others(app: App) -> Iterator[App]:
    """On the same database."""
    made = App(app.wiring.bound.url)
    yield made
    made.close()


def define(app: App, others: App, crowd: Crowd, **options: Any) -> Any:
    """The same task in both of them; the others' is enqueued."""
    app.task(name="note", **options)(crowd.note)
    return others.task(name="note", **options)(crowd.note)


def test_what_a_pace_admits_is_no_more_than_it_may(app: App, others: App) -> None:
    crowd = Crowd()
    note = define(app, others, crowd, pace=Quota("upstream", windows={"1h": 2}))

    async def program() -> None:
        async with sleeping(app) as worker:
            for number in range(3):
                await asyncio.to_thread(note.enqueue, number)
                await asyncio.sleep(0.03)
            await until(lambda: crowd.over == 2)
            await at_rest(worker)

    asyncio.run(program())
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
            if kind == "sqlite":
                connection.set_busy_timeout(10_000)
            connection.execute("begin immediate" if kind == "sqlite" else "begin")
            # The loop hears of it only now, and cannot write.
            await asyncio.sleep(0.05)
            connection.execute("rollback")
            await until(lambda: crowd.over == 1)
            connection.close()

    asyncio.run(program())
    assert {(job.state, job.fence) for job in app.jobs(task="note")} == {("done", 1)}


def test_a_job_that_expired_before_the_ring_was_heard_is_cancelled(app: App, others: App) -> None:
    crowd = Crowd()
    note = define(app, others, crowd)

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


def test_a_worker_that_was_told_to_stop_starts_nothing_more(
    app: App, others: App, kind: str
) -> None:
    crowd = Crowd()
    note = define(app, others, crowd)

    async def program() -> None:
        async with sleeping(app) as worker:
            note.enqueue(1)
            worker.stop()

    asyncio.run(program())
    [job] = app.jobs(task="note")
    # What was claimed as it was told is handed back; through a server that may come between.
    assert (job.phase, job.failures, job.crashes) == ("ready", 0, 0)
    assert job.fence == 0 or kind == "postgres"
    assert crowd.over == 0


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
            database: Any = app.wiring.engine.database
            begin = database.begin
            database.begin = lambda: turns.append(1) or begin()
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


@pytest.mark.parametrize("why", ["a limit", "no slot"])
def test_what_has_a_pace_is_claimed_behind_what_cannot_be(url: str, others: App, why: str) -> None:
    app = App(url, concurrency=5 if why == "a limit" else 1)
    limit = {"concurrency": 1} if why == "a limit" else {}
    gate, ran = asyncio.Event(), threading.Event()

    async def hold(number: int) -> None:
        await gate.wait()

    def note(number: int) -> None:
        ran.set()

    tasks: list[Any] = []
    for each in (app, others):
        full = each.task(name="full", priority=5, **limit)(hold)
        tasks = [full, each.task(name="paced", pace=Rate("1000/1s"))(note)]

    async def program() -> None:
        async with sleeping(app):
            for number in range(2):
                await asyncio.to_thread(tasks[0].enqueue, number)
            await until(lambda: any(job.phase == "running" for job in app.jobs(task="full")))
            await asyncio.to_thread(tasks[1].enqueue, 1)
            assert await asyncio.to_thread(ran.wait, 10)
            gate.set()
            await until(lambda: all(job.state == "done" for job in app.jobs(task="full")))

    asyncio.run(program())
    app.close()


def test_a_lease_that_is_over_does_not_hold_its_limit_for_ever(app: App, others: App) -> None:
    crowd = Crowd()
    note = define(app, others, crowd, concurrency=1)
    held = note.enqueue(1)
    note.enqueue(2)
    now = app.now()
    with others.transaction() as tx:
        # Of somebody whose death cannot be seen from here.
        tx.write(
            "insert into duework_worker (id, host, boot, space, pid, born, started)"
            " values (99, 'elsewhere', '', '', 5, 5, :now)",
            now=now,
        )
        lease = {"id": held.id, "due": now + 300}
        tx.write(
            "update duework_job set worker = 99, fence = 1, due = :due where id = :id", **lease
        )

    recovered: list[int] = []
    app.on_fact(lambda fact: recovered.append(1) if type(fact) is LeaseRecovered else None)

    async def program() -> None:
        async with sleeping(app):
            await asyncio.wait_for(until(lambda: crowd.over >= 1), 10)

    asyncio.run(program())
    assert recovered == [1]
