"""`app.changes()`: topics of this process's commits, word of those of others; free if nobody listens."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from weakref import WeakSet

import pytest

from duework import App, Change, Gone, Run, UsageError
from duework.changes import ChangeStream
from duework.worker.wake.others import FileWatch
from tests.support.working import working


async def read_until(
    changes: ChangeStream, enough: Callable[[set[str]], bool], within: float = 20
) -> set[str]:
    """Every topic that was told until it is enough; `*` stands for None."""
    found: set[str] = set()
    async with asyncio.timeout(within):
        while not enough(found):
            change = await anext(changes)
            found |= {"*"} if change.topics is None else change.topics
    return found


async def listening(app: App) -> ChangeStream:
    """A stream that hears: on PostgreSQL it says so by a first None, which stands for what it missed."""
    changes = app.changes(coalesce="0s")
    if app.wiring.engine.database.kind == "postgres" and app not in _hearing:
        async with asyncio.timeout(20):
            # What this process commits by itself, such as the row of its worker, may be told before.
            while (await anext(changes)).topics is not None:
                pass
        _hearing.add(app)
    return changes


_hearing: WeakSet[App] = WeakSet()


async def quiet(changes: ChangeStream, seconds: float = 0.3) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await anext(changes)
    except TimeoutError:
        return True
    return False


def test_a_commit_of_this_process_names_what_it_wrote(app: App) -> None:
    @app.task
    async def greet() -> None: ...

    async def watch() -> None:
        changes = await listening(app)
        greet.enqueue()
        assert await read_until(changes, lambda found: "jobs" in found) == {"jobs"}
        app.batch(greet, [() for _ in range(2)])
        assert "batches" in await read_until(changes, lambda found: "batches" in found)
        app.schedule(greet, every="1h", key="hourly")
        assert "schedules" in await read_until(changes, lambda found: "schedules" in found)

    asyncio.run(watch())


def test_a_worker_of_this_process_tells_of_starts_and_ends_and_what_was_touched(app: App) -> None:
    @app.task
    async def visit(run: Run) -> None:
        run.touch("user:7", "users")

    async def watch() -> None:
        async with app.running():
            changes = await listening(app)
            await (await visit.aenqueue()).await_(timeout="20s")
            found = await read_until(changes, lambda found: "user:7" in found)
            assert {"jobs", "users"} <= found

    asyncio.run(watch())


def test_what_was_touched_in_vain_is_not_told(app: App) -> None:
    @app.task(retries=0)
    async def raises(run: Run) -> None:
        run.touch("user:1")
        raise ValueError

    @app.task(retries=0)
    async def fails_when_settled(run: Run) -> None:
        run.touch("user:2")
        run.write("insert into no_such_table (a) values (1)")

    async def watch() -> None:
        async with app.running():
            changes = await listening(app)
            await (await raises.aenqueue()).await_(timeout="20s")
            await (await fails_when_settled.aenqueue()).await_(timeout="20s")
        with contextlib.suppress(ZeroDivisionError):
            async with app.transaction() as tx:
                tx.touch("user:3")
                raise ZeroDivisionError
        async with app.transaction() as tx:
            tx.touch("user:4")
        found = await read_until(changes, lambda found: "user:4" in found)
        assert not {"user:1", "user:2", "user:3"} & found

    asyncio.run(watch())


def test_a_block_tells_after_its_commit(app: App) -> None:
    @app.task
    async def greet() -> None: ...

    async def watch() -> None:
        changes = await listening(app)
        async with app.transaction() as tx:
            tx.enqueue(greet)
            tx.touch("user:7")
            assert await quiet(changes)
        found = await read_until(changes, lambda found: {"jobs", "user:7"} <= found)
        assert found - {"*"} == {"jobs", "user:7"}

    asyncio.run(watch())


def test_a_commit_of_another_process_is_told(app: App, url: str) -> None:
    """Twice, since the second one finds a watch that rests; after a write of our own, which hides nothing."""

    @app.task
    async def greet() -> None: ...

    program = "import sys; from duework import App; App(sys.argv[1]).pause(sys.argv[2])"

    async def watch() -> None:
        app.status()
        changes = await listening(app)
        for queue in ("one", "two"):
            greet.enqueue()
            await read_until(changes, lambda found: "jobs" in found)
            await quiet(changes, 1)
            await asyncio.to_thread(
                subprocess.run, [sys.executable, "-c", program, url, queue], check=True, timeout=60
            )
            await read_until(changes, lambda found: bool(found & {"*", "jobs"}))

    asyncio.run(watch())


def test_own_commits_are_not_taken_for_those_of_others(app: App, kind: str) -> None:
    @app.task
    async def greet() -> None: ...

    async def watch() -> None:
        greet.enqueue()
        changes = await listening(app)
        for _ in range(20):
            await greet.aenqueue()
            await asyncio.sleep(0.01)
        found: set[str] = set()
        while not await quiet_then_add(changes, found):
            continue
        assert found == {"jobs"}, kind

    async def quiet_then_add(changes: ChangeStream, found: set[str]) -> bool:
        try:
            async with asyncio.timeout(0.5):
                change = await anext(changes)
        except TimeoutError:
            return True
        found |= {"*"} if change.topics is None else change.topics
        return False

    asyncio.run(watch())


def test_topics_of_another_process_are_told_where_notifications_carry_them(
    app: App, url: str, kind: str
) -> None:
    other = App(url)

    @other.task
    async def visit(run: Run) -> None:
        run.touch("user:7")

    async def watch() -> None:
        changes = await listening(app)
        with working(other):
            await asyncio.sleep(1)
            visit.enqueue()
            wanted = {"user:7"} if kind == "postgres" else {"*"}
            await read_until(changes, lambda found: wanted <= found)

    asyncio.run(watch())
    other.close()


def test_changes_are_gathered(app: App) -> None:
    @app.task
    async def greet() -> None: ...

    async def watch() -> list[Change]:
        await listening(app)
        changes = app.changes(coalesce="300ms")
        greet.enqueue()
        found = [await anext(changes)]
        for number in range(50):
            async with app.transaction() as tx:
                tx.touch(f"user:{number}")
        while not await quiet(changes, 1.0):
            found.append(Change(None))
        return found

    assert len(asyncio.run(watch())) <= 6


def test_several_listen_and_each_hears_all(app: App) -> None:
    @app.task
    async def greet() -> None: ...

    async def watch() -> None:
        listeners = [await listening(app) for _ in range(3)]
        elsewhere: list[Any] = []

        async def one() -> None:
            changes = await listening(app)
            ready.set()
            elsewhere.append(await read_until(changes, lambda found: "user:7" in found))

        ready = threading.Event()
        thread = threading.Thread(target=lambda: asyncio.run(one()))
        thread.start()
        await asyncio.to_thread(ready.wait)
        async with app.transaction() as tx:
            tx.touch("user:7")
        for changes in listeners:
            await read_until(changes, lambda found: "user:7" in found)
        await asyncio.to_thread(thread.join)
        assert elsewhere

    asyncio.run(watch())


def test_nobody_listening_costs_nothing(app: App) -> None:
    """No transaction is looked at, and no thread is left."""

    @app.task
    async def greet() -> None: ...

    async def some() -> None:
        async for _ in app.changes(coalesce="0s"):
            break

    async def forever() -> None:
        async for _ in app.changes(coalesce="0s"):
            continue

    async def watch() -> None:
        task = asyncio.create_task(some())
        await asyncio.sleep(0)
        assert app.wiring.engine.writer.watch is not None
        greet.enqueue()
        await asyncio.wait_for(task, 20)
        cancelled = asyncio.create_task(forever())
        await asyncio.sleep(0.05)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        del task, cancelled

    assert app.wiring.engine.writer.watch is None
    asyncio.run(watch())
    gc.collect()
    greet.enqueue()
    assert app.wiring.engine.writer.watch is None
    for thread in threading.enumerate():
        if thread.name in {"duework-changes", "duework-listener", "duework-leave"}:
            thread.join(10)
            assert not thread.is_alive()


def test_a_listener_ends_with_the_app(url: str) -> None:
    app = App(url)

    async def watch() -> list[Change]:
        changes = app.changes()
        asyncio.get_running_loop().call_later(0.1, app.close)
        return [change async for change in changes]

    assert [each for each in asyncio.run(asyncio.wait_for(watch(), 20)) if each.topics] == []


def test_an_idle_listener_runs_no_statement(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    from duework.db.postgres.tx import PostgresTx
    from duework.db.sqlite.tx import SqliteTx

    seen: list[Any] = []

    async def watch() -> None:
        changes = await listening(app)
        await asyncio.sleep(0.5)
        for tx in (SqliteTx, PostgresTx):
            monkeypatch.setattr(tx, "__init__", lambda *_, **__: seen.append("opened"))
        assert await quiet(changes, 2.5)

    asyncio.run(watch())
    monkeypatch.undo()
    assert not seen


@pytest.mark.parametrize("topic", ["", "two words", "a\nb", "x" * 201, 7, None])
def test_a_topic_is_a_word(app: App, topic: Any) -> None:
    with pytest.raises(UsageError, match="a topic is a word"), app.transaction() as tx:
        tx.touch(topic)


def test_a_task_with_a_process_of_its_own_touches_too(url: str) -> None:
    App(url).admin.migrate(create=True)
    program = "from tests.support.touching import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "TOUCHING_URL": url},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert "user:7" in found
    assert "user:8" not in found


def test_what_the_watch_of_others_tells_as_it_begins_is_heard(app: App) -> None:
    feed, heard = app.wiring.engine.feed, []

    class Watch:
        def close(self) -> None:
            """Nothing was begun."""

    def watch_others() -> Watch:
        feed.publish(None)
        return Watch()

    feed.watch_others = watch_others
    feed.leave(feed.listen(heard.append, lambda: None))

    assert heard == [None]


def test_a_listener_whose_watch_cannot_begin_hears_nothing(app: App) -> None:
    feed, heard = app.wiring.engine.feed, list[Any]()

    def watch_others() -> Any:
        raise OSError("too many open files")

    feed.watch_others = watch_others
    with pytest.raises(OSError, match="too many"):
        feed.listen(heard.append, lambda: None)
    feed.publish(frozenset({"jobs"}))

    assert heard == []


def test_a_watch_that_has_ended_by_itself_writes_to_no_file_that_came_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.closing(App(f"sqlite:///{tmp_path / 'work.db'}")) as app:
        app.jobs()
        engine, looked = app.wiring.engine, threading.Event()
        watch = FileWatch(engine)

        def gone() -> None:
            looked.set()
            raise Gone("the file is gone")

        monkeypatch.setattr(engine.database, "pulse", gone)
        assert looked.wait(10)
        for thread in threading.enumerate():
            if thread.name == "duework-changes":
                thread.join(10)
        files = [open(tmp_path / f"{number}", "wb") for number in range(10)]  # noqa: SIM115 - closed below
        watch.close()
        for file in files:
            file.close()

        assert [(tmp_path / f"{number}").read_bytes() for number in range(10)] == [b""] * 10
