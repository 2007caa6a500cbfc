"""Isolated tasks inside context managers, with resources; `main()` runs them and prints what came of it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from duework import App, Part, Run

app = App(os.environ.get("SURROUNDED_URL"), processes=1)
part = Part("inner")
said: ContextVar[tuple[str, ...]] = ContextVar("said", default=())


@app.around
@contextmanager
def outer(run: Run) -> Iterator[None]:
    said.set((*said.get(), f"outer {run.job.task}"))
    run.write("insert into log values (:word)", word=f"entered by {os.getpid() != MAIN}")
    try:
        yield
    finally:
        run.write("insert into log values (:word)", word="left")


@part.around
@contextmanager
def inner(run: Run) -> Iterator[None]:
    said.set((*said.get(), "inner"))
    yield


@app.resource
async def client() -> AsyncIterator[str]:
    yield "a client"
    print("the client is closed", flush=True)  # noqa: T201 - the test reads it


@app.resource
def pool() -> Iterator[str]:
    yield "a pool"
    print("the pool is closed", flush=True)  # noqa: T201 - the test reads it


@part.task(isolation="process")
def plain(run: Run) -> list[str]:
    return [*said.get(), run.resource(pool)]


@part.task(isolation="process")
async def coroutine(run: Run) -> list[str]:
    return [*said.get(), await run.resource(client), run.resource(pool)]


app.include(part)
MAIN = int(os.environ.get("SURROUNDED_MAIN", "0"))


async def main() -> None:
    os.environ["SURROUNDED_MAIN"] = str(os.getpid())
    with app.transaction() as tx:
        tx.write("create table log (word text)")
    async with app.running():
        for task in (plain, coroutine):
            job = await task.aenqueue()
            print((await job.await_("20s")).result, flush=True)  # noqa: T201 - the test reads it
    print([row.word for row in app.read("select word from log")])  # noqa: T201 - the test reads it
