"""A plain enqueue while its own caller holds a write transaction: an error or a wait, no deadlock."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from duework import App, Unavailable, UsageError
from tests.support.working import eventually, working


def define(app: App) -> Any:
    @app.task
    async def greet(name: str) -> str:
        return name

    return greet


@contextmanager
def held(app: App) -> Iterator[None]:
    """A write transaction on a connection of the user's own."""
    connection = app.connect()
    if app.wiring.engine.database.kind == "sqlite":
        connection.execute("begin immediate")
        connection.execute("create table mine (x)")
    else:
        connection.execute("create table mine (x integer)")
    try:
        yield
    finally:
        connection.execute("rollback")
        connection.close()


def test_the_callers_own_transaction_makes_a_typed_error_or_nothing(app: App, kind: str) -> None:
    greet = define(app)
    greet.enqueue("first")

    with working(app) as running:
        eventually(lambda: app.jobs(phase="done"))
        with held(app):
            started = time.monotonic()
            if kind == "sqlite":
                with pytest.raises(Unavailable) as raised:
                    greet.enqueue("ada")
                assert "using(connection=" in str(raised.value)
            else:
                # Others may write beside it there.
                greet.enqueue("ada")
            took = time.monotonic() - started
        later = greet.enqueue("eve").wait("10s")

    assert took < 20
    assert later.state == "done"
    assert running.error is None
    assert len(app.jobs(task="greet")) == (2 if kind == "sqlite" else 3)


def test_inside_a_block_of_the_app_it_is_refused_at_once(app: App) -> None:
    greet = define(app)
    app.jobs()

    started = time.monotonic()
    with app.transaction() as tx:
        tx.enqueue(greet, "inside")
        with pytest.raises(UsageError, match=r"tx\.enqueue"):
            greet.enqueue("ada")
        with pytest.raises(UsageError, match=r"tx\.enqueue"):
            app.cancel(1)

    assert time.monotonic() - started < 4
    assert [job.payload for job in app.jobs()] == ['{"name":"inside"}']
    greet.enqueue("after the block")


def test_inside_a_block_async_code_is_refused_at_once(app: App) -> None:
    greet = define(app)
    app.jobs()

    async def program() -> None:
        with app.transaction() as tx:
            tx.enqueue(greet, "inside")
            with pytest.raises(UsageError, match=r"tx\.enqueue"):
                await greet.aenqueue("ada")
        await greet.aenqueue("after the block")

    started = time.monotonic()
    asyncio.run(program())

    assert time.monotonic() - started < 4
    assert len(app.jobs()) == 2


def test_another_thread_waits_and_succeeds_when_the_block_ends(app: App) -> None:
    greet = define(app)
    greet.enqueue("so that its lane is there")
    answers: list[Any] = []
    other = threading.Thread(target=lambda: answers.append(greet.enqueue("other")))

    with app.transaction() as tx:
        tx.enqueue(greet, "inside")
        other.start()
        other.join(0.5)
        waited = other.is_alive()
    other.join(10)

    assert waited == (app.wiring.engine.database.kind == "sqlite")
    assert len(answers) == 1
    assert len(app.jobs()) == 3


def test_another_task_of_the_same_loop_is_not_taken_for_the_block(app: App, kind: str) -> None:
    """The mark of the block is the task's own, not the thread's."""
    greet = define(app)
    app.jobs()

    async def outside(inside: asyncio.Event) -> Any:
        await inside.wait()
        return await greet.aenqueue("outside")

    async def program() -> Any:
        inside = asyncio.Event()
        task = asyncio.create_task(outside(inside))
        with app.transaction() as tx:
            tx.enqueue(greet, "inside")
            inside.set()
            await asyncio.sleep(0.1)
        return await task

    asyncio.run(program())

    assert len(app.jobs()) == 2


def test_a_prune_that_cannot_write_keeps_nobody_longer_than_their_patience(
    app: App, kind: str
) -> None:
    """It waits without end in a thread of its own; those behind it have a patience of their own."""
    greet = define(app)
    app.jobs()
    writer = app.wiring.engine.writer
    if kind == "postgres":
        assert writer.call(app.wiring.engine.enqueue, [], patience=0.1) == []
        return
    with held(app):
        endless = threading.Thread(
            target=lambda: writer.call(lambda tx, items: items, [1], patience=None), daemon=True
        )
        endless.start()
        eventually(lambda: writer.parked)
        started = time.monotonic()
        with pytest.raises(Unavailable):
            writer.call(app.wiring.engine.enqueue, [], patience=0.5)
        took = time.monotonic() - started
    endless.join(10)

    assert took < 10
    assert not endless.is_alive()
    assert greet.enqueue("ada")
