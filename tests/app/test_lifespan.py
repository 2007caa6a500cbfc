"""Work inside other programs: app.running() and the lifespan of a web application."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from duework import App, Run


def test_jobs_run_inside_an_async_program(app: App) -> None:
    @app.task
    async def greet(name: str) -> str:
        return f"hello {name}"

    @app.task
    def square(n: int) -> int:
        assert threading.current_thread() is not threading.main_thread()
        return n * n

    async def program() -> tuple[object, object]:
        async with app.running() as same:
            assert same is app
            hello, nine = await greet.aenqueue("ada"), await square.aenqueue(3)
            return (await hello.await_("10s")).result, (await nine.await_("10s")).result

    assert asyncio.run(program()) == ("hello ada", 9)


def test_leaving_the_block_stops_the_worker_and_what_waits_stays(app: App) -> None:
    @app.task
    async def greet() -> None: ...

    async def program() -> None:
        async with app.running():
            pass

    asyncio.run(program())
    job = greet.enqueue()

    assert job.refresh().state == "open"
    assert app.read("select * from duework_worker") == []


@pytest.mark.parametrize("inside", ["running", "lifespan"])
def test_a_copy_of_the_file_alone_has_all_that_was_done_inside_the_block(
    tmp_path: Path, inside: str
) -> None:
    app = App(f"sqlite:///{tmp_path / 'work.db'}")

    @app.task
    async def greet() -> str:
        return "hello"

    async def program() -> None:
        async with getattr(app, inside)():
            await (await greet.aenqueue()).await_("10s")

    asyncio.run(program())
    # Read elsewhere: a handle that is closed here would take our locks along.
    subprocess.run(["cp", tmp_path / "work.db", tmp_path / "copy.db"], check=True)

    copy = App(f"sqlite:///{tmp_path / 'copy.db'}")
    assert [job.result for job in copy.jobs(task="greet")] == ["hello"]
    assert not any(finding.violations for finding in copy.admin.verify())
    copy.close()
    app.close()


def test_the_end_of_the_block_does_not_wait_for_another_that_writes(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path / 'work.db'}")

    async def program() -> None:
        async with app.running():
            own.execute("begin immediate")

    app.jobs()
    own = app.connect()
    own.set_busy_timeout(0)
    try:
        asyncio.run(asyncio.wait_for(program(), 60))
    finally:
        own.execute("rollback")
        own.close()
        app.close()


def test_an_error_inside_the_block_leaves_it(app: App) -> None:
    async def program() -> None:
        async with app.running():
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        asyncio.run(program())


def test_what_still_runs_at_the_end_of_the_grace_is_handed_back(url: str) -> None:
    app = App(url, grace="50ms")
    started = asyncio.Event()

    @app.task
    async def endless(run: Run) -> None:
        started.set()
        await asyncio.sleep(3600)

    async def program() -> None:
        async with app.running():
            await endless.aenqueue()
            await started.wait()

    asyncio.run(program())

    [job] = app.jobs(task="endless")
    assert (job.phase, job.failures, job.crashes) == ("ready", 0, 0)
    app.close()


def test_chained_jobs_start_as_soon_as_they_may(app: App) -> None:
    order: list[int] = []

    @app.task
    async def step(n: int) -> None:
        order.append(n)

    async def program() -> None:
        first = await step.using(delay="50ms").aenqueue(0)
        second = await step.using(after=first).aenqueue(1)
        last = await step.using(after=second).aenqueue(2)
        for n in (3, 4):
            await step.using(serial="s", after=last).aenqueue(n)
        async with app.running():
            for job in app.jobs(task="step"):
                await job.await_("5s")

    asyncio.run(program())

    assert order == [0, 1, 2, 3, 4]


def test_a_web_application_works_while_it_serves(app: App) -> None:
    @app.task
    async def greet(name: str) -> str:
        return f"hello {name}"

    async def hello(request: Request) -> JSONResponse:
        job = await greet.aenqueue(request.path_params["name"])
        return JSONResponse({"said": (await job.await_("10s")).result})

    web = Starlette(routes=[Route("/hello/{name}", hello)], lifespan=app.lifespan)

    with TestClient(web) as client:
        assert client.get("/hello/ada").json() == {"said": "hello ada"}
