"""Two Apps in one process: on two databases, and on one."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from duework import App, NotFound, Rate, facts
from duework.ids import Ids, drawn_at
from duework.testing import Harness
from tests.support.processes import until


def test_two_apps_on_two_databases_do_not_know_of_each_other(url: str, tmp_path: Path) -> None:
    one, two = App(url), App(f"sqlite:///{tmp_path / 'other.db'}")

    @one.task(name="greet")
    async def greet_one(name: str) -> str:
        return f"one {name}"

    @two.task(name="greet")
    async def greet_two(name: str) -> str:
        return f"two {name}"

    async def program() -> list[str]:
        async with one.running(), two.running():
            jobs = await greet_one.aenqueue("ada"), await greet_two.aenqueue("ada")
            return [(await job.await_("10s")).result for job in jobs]

    assert asyncio.run(program()) == ["one ada", "two ada"]
    assert len(one.jobs(task="greet")) == len(two.jobs(task="greet")) == 1
    one.close()
    two.close()


def test_two_apps_on_one_database_share_its_jobs(url: str) -> None:
    web, worker = App(url), App(url)

    @web.task(name="greet")
    async def stub(name: str) -> str:
        raise AssertionError("this App does not work")

    @worker.task(name="greet")
    async def greet(name: str) -> str:
        return f"hello {name}"

    async def program() -> str:
        async with worker.running():
            job = await stub.aenqueue("ada")
            return str((await job.await_("10s")).result)

    assert asyncio.run(program()) == "hello ada"
    web.close()
    worker.close()


def test_two_harnesses_at_once(harness: Harness) -> None:
    other = App("sqlite:///never-opened.db")

    @other.task
    async def greet() -> None: ...

    with Harness(other) as second:
        job = greet.enqueue()
        second.advance("1h")
        assert second.now == harness.now + 3_600_000
        assert job.refresh().state == "done"
        try:
            harness.app.job(job.id)
        except NotFound:
            pass
        else:
            raise AssertionError("the job is in both databases")


def test_ids_that_two_processes_drew_both_are_drawn_again(app: App) -> None:
    @app.task(name="quiet")
    async def quiet(number: int) -> None: ...

    theirs = quiet.enqueue_many([(number,) for number in range(1000)])
    ours = Ids(lambda: drawn_at(theirs[0].id))
    for count in (1, 50):
        # As if we had come to the same place in the same millisecond.
        ours._last = theirs[300].id  # noqa: SLF001 - chance would take long
        app.wiring.engine.ids = ours

        made = quiet.enqueue_many([(number,) for number in range(count)])

        assert {job.id for job in made}.isdisjoint(job.id for job in theirs)
    assert len(app.read("select id from duework_job where task = 'quiet'")) == 1051


def test_limits_that_differ_between_workers_are_told(url: str) -> None:
    def made(concurrency: int, rate: str) -> App:
        app = App(url)

        @app.task(concurrency=concurrency, pace=Rate(rate))
        async def greet() -> None: ...

        app.queue("mail", concurrency=3)
        return app

    first, second, told = made(1, "20/1s"), made(4, "60/1s"), list[facts.LimitsDiffer]()

    async def program() -> None:
        loop, last = asyncio.get_running_loop(), asyncio.Event()

        def see(fact: facts.Fact) -> None:
            if isinstance(fact, facts.LimitsDiffer):
                told.append(fact)
                if fact.name.startswith("pace"):
                    loop.call_soon_threadsafe(last.set)

        second.on_fact(see)
        async with first.running():
            await asyncio.to_thread(until, lambda: first.read("select id from duework_worker"))
            async with second.running():
                await asyncio.wait_for(last.wait(), 10)

    asyncio.run(program())
    first.close()
    second.close()

    assert [(each.name, each.ours, each.theirs) for each in told][:1] == [
        ("task greet", "concurrency 4", "concurrency 1")
    ]
    assert [each.name for each in told] == ["task greet", "pace greet:rate"]
    assert {each.pid for each in told} == {os.getpid()}
