"""A worker that is told to stop while its database cannot be written."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from duework import App, Unavailable
from tests.support.working import Working, eventually, working


@contextmanager
def unwritable(url: str) -> Iterator[None]:
    """Somebody else has the file, or all tables that matter."""
    if url.startswith("sqlite"):
        other = App(url)
        holder = other.connect()
        holder.execute("begin immediate")
        try:
            yield
        finally:
            holder.close()
            other.close()
        return
    name = url.partition("?")[0].rpartition("/")[2]
    with psycopg.connect(url, dbname="postgres", autocommit=True) as admin:
        end = f"select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'"
        admin.execute(f'alter database "{name}" set default_transaction_read_only = on')
        admin.execute(end)
        try:
            yield
        finally:
            admin.execute(f'alter database "{name}" reset default_transaction_read_only')
            admin.execute(end)


def parked(app: App) -> bool:
    return app.wiring.engine.writer.parked is not None


def stopped(running: Working, grace_ms: int | None = None) -> None:
    running.worker.stop(grace_ms)
    running.thread.join(60)
    assert not running.thread.is_alive(), "it waits for the database"


def test_a_worker_that_holds_nothing_stops_though_nothing_can_be_written(url: str) -> None:
    app = App(url)

    @app.task
    async def greet() -> None:
        pass

    with working(app) as running:
        greet.enqueue().wait("10s")
        greet.using(delay="1s").enqueue()
        with unwritable(url):
            # When it falls due, it cannot be claimed.
            eventually(lambda: parked(app))
            stopped(running)
    assert running.error is None
    app.close()


def test_a_worker_that_stops_says_that_what_has_ended_is_not_stored_and_it_runs_again(
    url: str,
) -> None:
    go_on, ran = threading.Event(), list[int]()

    def counting(app: App) -> Any:
        @app.task
        def count() -> int:
            ran.append(1)
            go_on.wait(10)
            return len(ran)

        return count

    app = App(url, lease="3s")
    count = counting(app)
    with working(app) as running:
        job = count.enqueue()
        eventually(lambda: ran)
        with unwritable(url):
            go_on.set()
            eventually(lambda: parked(app))
            stopped(running, grace_ms=0)
            app.close()
    assert isinstance(running.error, Unavailable)
    assert "what became of 1 job is not stored" in str(running.error)

    again = App(url)
    counting(again)
    with working(again):
        assert again.job(job.id).wait("60s").result == 2
    again.close()
