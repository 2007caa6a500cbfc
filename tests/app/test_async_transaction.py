"""`async with app.transaction()`: the same block for async code, which waits without stopping the loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from duework import App, Task, Unavailable, UsageError
from duework.db.database import Tx
from duework.db.writer import blocks

INSERT = "insert into invoice (id, total) values (:id, 0)"


@pytest.fixture
def greet(app: App) -> Task[..., str, Any]:
    with app.transaction() as tx:
        tx.write("create table invoice (id bigint primary key, total bigint)")

    @app.task
    async def greet(name: str) -> str:
        return name

    return greet


def invoices(app: App) -> list[int]:
    return [row.id for row in app.read("select id from invoice order by id")]


@contextmanager
def open_elsewhere(app: App) -> Iterator[None]:
    """A block that another thread has open."""
    entered, over = threading.Event(), threading.Event()

    def hold() -> None:
        with app.transaction():
            entered.set()
            over.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    entered.wait(10)
    try:
        yield
    finally:
        over.set()
        thread.join(10)


class Open:
    """A block of another task, which is open until it is told to end."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._entered, self._over = asyncio.Event(), asyncio.Event()

    async def __aenter__(self) -> None:
        self._task = asyncio.create_task(self._hold())
        await self._entered.wait()

    async def __aexit__(self, *_: object) -> None:
        self._over.set()
        await self._task

    async def _hold(self) -> None:
        async with self._app.transaction() as tx:
            tx.write(INSERT, id=1000)
            self._entered.set()
            await self._over.wait()


def test_rows_and_jobs_of_an_async_block_commit_together(
    app: App, greet: Task[..., str, Any]
) -> None:
    async def program() -> int:
        async with app.transaction() as tx:
            tx.write(INSERT, id=7)
            await asyncio.sleep(0)
            assert [row.id for row in tx.read("select id from invoice")] == [7]
            assert invoices(app) == []
            return tx.enqueue(greet, "ada").id

    made = asyncio.run(program())

    assert invoices(app) == [7]
    assert app.job(made).payload == '{"name":"ada"}'


def test_an_exception_in_an_async_block_leaves_nothing(
    app: App, greet: Task[..., str, Any]
) -> None:
    async def program() -> None:
        async with app.transaction() as tx:
            tx.write(INSERT, id=7)
            tx.enqueue(greet, "ada")
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        asyncio.run(program())

    assert invoices(app) == []
    assert app.jobs() == []


def test_many_requests_that_await_inside_their_blocks_all_commit(
    app: App, greet: Task[..., str, Any]
) -> None:
    async def request(number: int) -> None:
        async with app.transaction() as tx:
            tx.write(INSERT, id=number)
            await asyncio.sleep(0.001)
            tx.enqueue(greet, str(number))

    async def program() -> None:
        async with app.running():
            await asyncio.gather(*(request(number) for number in range(30)))

    asyncio.run(program())

    assert invoices(app) == list(range(30))
    assert len(app.jobs(task="greet", limit=100)) == 30


def test_blocks_that_change_the_same_row_take_turns(app: App, greet: Task[..., str, Any]) -> None:
    async def add(number: int) -> None:
        async with app.transaction() as tx:
            [row] = tx.read("select total from invoice where id = 1")
            await asyncio.sleep(0.001)
            tx.write("update invoice set total = :total where id = 1", total=row.total + number)
            await asyncio.sleep(0.001)

    async def program() -> None:
        async with app.transaction() as tx:
            tx.write(INSERT, id=1)
        await asyncio.gather(*(add(number) for number in range(1, 6)))

    asyncio.run(program())

    assert app.read("select total from invoice")[0].total == 15


def test_the_loop_goes_on_while_a_block_waits_for_another_thread(
    app: App, greet: Task[..., str, Any]
) -> None:
    async def block() -> None:
        async with app.transaction() as tx:
            tx.write(INSERT, id=1)

    async def program() -> None:
        with open_elsewhere(app):
            waiting = asyncio.create_task(block())
            # With the loop stopped, these would never be through.
            for _ in range(20):
                await asyncio.sleep(0.001)
        await waiting

    asyncio.run(program())

    assert invoices(app) == [1]


def test_a_second_sync_block_of_the_same_loop_is_refused_at_once(
    app: App, greet: Task[..., str, Any]
) -> None:
    async def request(number: int) -> str:
        try:
            with app.transaction() as tx:
                tx.write(INSERT, id=number)
                await asyncio.sleep(0.01)
        except UsageError as error:
            return str(error)
        return "stored"

    async def program() -> list[str]:
        return await asyncio.gather(request(1), request(2))

    first, second = asyncio.run(program())

    assert first == "stored"
    assert "async with app.transaction()" in second
    assert invoices(app) == [1]


def test_a_sync_block_beside_an_async_one_of_the_same_loop_is_refused_at_once(
    app: App, greet: Task[..., str, Any]
) -> None:
    async def program() -> None:
        async with Open(app):
            with pytest.raises(UsageError, match="async with"), app.transaction():
                pass
        with app.transaction() as tx:
            tx.write(INSERT, id=2)

    asyncio.run(program())

    assert invoices(app) == [2, 1000]


def test_a_sync_block_while_an_async_one_is_about_to_begin_is_refused(
    app: App, greet: Task[..., str, Any]
) -> None:
    """It could get the lock just before this thread starts to wait for it."""

    async def block() -> None:
        async with app.transaction() as tx:
            tx.write(INSERT, id=1)

    async def program() -> None:
        beginning = asyncio.create_task(block())
        await asyncio.sleep(0)
        with pytest.raises(UsageError, match="async with"), app.transaction():
            pass
        await beginning

    asyncio.run(program())

    assert invoices(app) == [1]


def test_an_async_block_waits_for_a_sync_one_of_the_same_loop(
    app: App, greet: Task[..., str, Any]
) -> None:
    async def program() -> None:
        entered = asyncio.Event()

        async def later() -> None:
            await entered.wait()
            async with app.transaction() as tx:
                tx.write(INSERT, id=2)

        waiting = asyncio.create_task(later())
        with app.transaction() as tx:
            tx.write(INSERT, id=1)
            entered.set()
            await asyncio.sleep(0.02)
        await waiting

    asyncio.run(program())

    assert invoices(app) == [1, 2]


def test_a_block_inside_a_block_is_refused_at_once(app: App, greet: Task[..., str, Any]) -> None:
    def in_thread() -> None:
        with app.transaction():
            pass

    async def program() -> None:
        async with app.transaction() as tx:
            with pytest.raises(UsageError, match="open already"):
                async with app.transaction():
                    pass
            with pytest.raises(UsageError, match="open already"):
                in_thread()
            with pytest.raises(UsageError, match="open already"):
                await asyncio.to_thread(in_thread)
            tx.write(INSERT, id=1)

    asyncio.run(program())
    with app.transaction() as tx:
        with pytest.raises(UsageError, match="open already"):
            in_thread()
        tx.write(INSERT, id=2)

    assert invoices(app) == [1, 2]


def test_a_block_inside_a_verb_is_refused_at_once(app: App) -> None:
    def verb(_: Tx, items: list[int]) -> list[int]:
        with app.transaction():
            return items

    app.jobs()
    with pytest.raises(UsageError, match="open already"):
        app.wiring.engine.writer.call(verb, [1])


def test_blocks_of_two_databases_do_not_wait_for_each_other(
    app: App, greet: Task[..., str, Any], tmp_path: Any
) -> None:
    other = App(f"sqlite:///{tmp_path / 'other.db'}")
    with app.transaction() as tx, other.transaction() as there:
        there.write("create table copied (id integer)")
        tx.write(INSERT, id=1)
    found = other.read("select count(*) as n from copied")[0].n
    other.close()

    assert found == 0
    assert invoices(app) == [1]


def test_a_sync_enqueue_that_would_wait_for_a_block_of_its_own_loop_is_refused(
    app: App, greet: Task[..., str, Any], kind: str
) -> None:
    async def program() -> None:
        async with Open(app):
            if kind == "sqlite":
                with pytest.raises(UsageError, match="aenqueue"):
                    greet.enqueue("sync")
            else:
                # Others may write beside it there.
                greet.enqueue("sync")
            waiting = asyncio.create_task(greet.aenqueue("async"))
            await asyncio.sleep(0.01)
        await waiting

    greet.enqueue("so that its lane is there")
    asyncio.run(program())

    assert len(app.jobs()) == (2 if kind == "sqlite" else 3)


def test_a_task_that_was_started_inside_a_block_may_enqueue_once_that_is_over(
    app: App, greet: Task[..., str, Any]
) -> None:
    async def program() -> None:
        over = asyncio.Event()

        async def follow_up() -> None:
            with pytest.raises(UsageError, match=r"tx\.enqueue"):
                await greet.aenqueue("too early")
            await over.wait()
            await greet.aenqueue("ada")
            async with app.transaction() as tx:
                tx.write(INSERT, id=2)

        async with app.transaction() as tx:
            tx.write(INSERT, id=1)
            following = asyncio.create_task(follow_up())
            await asyncio.sleep(0)
        over.set()
        await following

    asyncio.run(program())

    assert invoices(app) == [1, 2]
    assert len(app.jobs()) == 1


def test_a_request_that_is_cancelled_while_it_waits_holds_nothing(
    app: App, greet: Task[..., str, Any]
) -> None:
    async def block(number: int) -> None:
        async with app.transaction() as tx:
            tx.write(INSERT, id=number)
            await asyncio.sleep(30)

    async def cancelled(task: asyncio.Task[None]) -> bool:
        task.cancel()
        return isinstance((await asyncio.gather(task, return_exceptions=True))[0], BaseException)

    async def program() -> None:
        with open_elsewhere(app):
            first, second = (asyncio.create_task(block(number)) for number in (1, 2))
            await asyncio.sleep(0.02)
            # One that waits for its turn, and on SQLite one that waits for the lock in a thread.
            assert await cancelled(second)
            assert await cancelled(first)
        inside = asyncio.create_task(block(3))
        await asyncio.sleep(0.05)
        assert await cancelled(inside)
        async with app.transaction() as tx:
            tx.write(INSERT, id=4)

    asyncio.run(program())
    with app.transaction() as tx:
        tx.write(INSERT, id=5)

    assert invoices(app) == [4, 5]


def test_a_block_can_end_while_every_thread_of_the_loop_waits_for_it(
    app: App, greet: Task[..., str, Any]
) -> None:
    """Verbs of async code wait in the loop's own threads; the commit must not queue up behind them."""
    made = greet.enqueue("ada")

    async def program() -> str:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        async with Open(app):
            cancelling = asyncio.create_task(app.acancel(made.id))
            await asyncio.sleep(0.01)
        return await cancelling

    assert asyncio.run(program()) == "cancelled"
    assert invoices(app) == [1000]


def test_who_has_waited_long_enough_for_its_turn_is_told(
    app: App, greet: Task[..., str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK_SECONDS", 0.01)

    async def program() -> None:
        async with Open(app):
            with pytest.raises(Unavailable, match="has been open"):
                async with app.transaction():
                    pass

    asyncio.run(program())

    assert invoices(app) == [1000]


def test_turns_leave_nothing_behind(app: App, greet: Task[..., str, Any]) -> None:
    async def program() -> None:
        for number in range(3):
            async with app.transaction() as tx:
                tx.write(INSERT, id=number)

    asyncio.run(program())

    assert blocks._turns == {}  # noqa: SLF001 - nothing else shows it
    assert blocks._blocks == set()  # noqa: SLF001 - nothing else shows it
