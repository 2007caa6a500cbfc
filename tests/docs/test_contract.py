"""The first example of the public contract runs as it is written."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from duework import App, NotFound, Task


@pytest.fixture
def greet(app: App) -> Task[..., str, Any]:
    @app.task(retries=3, backoff=("1m", "5m", "30m"), timeout="10s")
    async def greet(name: str) -> str:
        return f"hello {name}"

    return greet


def test_the_names_of_the_contract_come_from_the_package_itself() -> None:
    from duework import App, Cancel, Fail, Run, Snooze, Throttled

    assert all((App, Run, Snooze, Fail, Cancel, Throttled))


def test_without_an_address_the_environment_names_the_database_or_a_file_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DUEWORK_URL", raising=False)
    assert App().url == "sqlite:///duework.db"

    monkeypatch.setenv("DUEWORK_URL", "postgresql://ada:secret@db/work")
    assert "secret" not in App().url
    assert App().url.startswith("postgresql://ada:")


def test_the_first_example_runs_as_written(app: App, greet: Task[..., str, Any]) -> None:
    assert asyncio.run(greet("ada")) == "hello ada"
    job = greet.enqueue("ada")
    greet.using(delay="10m", key="greet:ada", priority=5).enqueue("ada")
    greet.using(key="welcome:ada", once="forever").enqueue("ada")
    greet.enqueue_many([("ada",), ("bob",)])
    conn = app.connect()
    conn.execute("begin")
    greet.using(connection=conn).enqueue("ada")
    conn.execute("commit")
    conn.close()
    greet.using(
        at="2026-01-01T00:00:00+00:00", expires="1h", serial="user:7", after=job, queue="mail"
    )
    assert app.job(job.id).state == "open"
    assert app.job(job.id).phase == "ready"
    assert app.job(job.id).result is None
    with pytest.raises(NotFound):
        app.job(1)
    with app.transaction() as tx:
        tx.write("create table invoice (id bigint primary key, total bigint)")

    with app.transaction() as tx:
        changes = tx.write("insert into invoice(id, total) values (:id, :total)", id=7, total=12)
        tx.enqueue(greet, "ada")
    [row] = app.read("select * from invoice where id = :id", id=7)

    assert (changes.inserted, changes.changed) == (1, 0)
    assert (row.total, row[1]) == (12, 12)

    async def work() -> str:
        async with app.running():
            return str((await job.await_(timeout="5s")).result)

    assert asyncio.run(work()) == "hello ada"
    assert job.wait(timeout="5s").result == "hello ada"
    assert len(app.jobs()) == 7


def test_the_example_of_the_harness_runs_as_written(kind: str, request: Any) -> None:
    from duework.testing import Harness

    app = App("sqlite:///never-opened.db")

    @app.task
    async def greet(name: str) -> str:
        return f"hello {name}"

    def make_tables() -> None:
        with app.transaction() as tx:
            tx.write("create table invoice (id bigint primary key)")

    url = request.getfixturevalue("postgres").dsn if kind == "postgres" else None
    now = "2026-03-29T00:59:00+01:00"
    with Harness(app, now=now, setup=make_tables, url=url) as h:
        greet.enqueue("ada")
        h.drain()
        h.advance("31d")
        h.assert_enqueued(greet, "ada")
        h.crash_worker()
