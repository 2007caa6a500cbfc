"""A pooler between us and PostgreSQL that changes the session after each transaction."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from duework import App, Run
from duework.db.postgres.listen import Listener
from tests.support.pooler import Pooler, pooler
from tests.support.working import eventually, working


@pytest.fixture
def kind() -> str:
    return "postgres"


@pytest.fixture
def between(url: str) -> Iterator[Pooler]:
    with pooler(url) as made:
        yield made


def define(app: App) -> Any:
    with app.transaction() as tx:
        tx.write("create table if not exists effect (job bigint)")

    @app.task(retries=2)
    async def count(run: Run, number: int) -> int:
        run.write("insert into effect (job) values (:job)", job=run.job.id)
        return number

    return count


def test_jobs_run_once_through_a_pooler_in_transaction_mode(between: Pooler, url: str) -> None:
    app, direct = App(between.url), App(url)
    count = define(app)

    with working(app) as running:
        for number in range(15):
            count.enqueue(number)
        count.enqueue_many([(number,) for number in range(60)])
        count.using(key="k", delay="100ms").enqueue(7)
        eventually(lambda: len(direct.jobs(task="count", phase="done", limit=100)) == 76, 30)

    [row] = direct.read("select count(*) as runs, count(distinct job) as jobs from effect")
    assert (row.runs, row.jobs) == (76, 76)
    assert not any(finding.violations for finding in direct.admin.verify())
    assert running.error is None
    direct.close()
    app.close()


def test_a_pooler_is_given_no_prepared_statements_and_no_lasting_settings(
    between: Pooler, url: str
) -> None:
    app = App(between.url)
    count = define(app)

    for number in range(20):
        count.enqueue(number)
        app.jobs()

    for _ in range(6):
        with psycopg.connect(between.url, autocommit=True) as session:
            assert session.execute("select name from pg_prepared_statements").fetchall() == []
            assert session.execute("show enable_seqscan").fetchall() == [("on",)]
            assert session.execute("show statement_timeout").fetchall() == [("0",)]
    app.close()


def test_a_worker_behind_a_pooler_looks_for_itself_and_says_so_once(
    between: Pooler, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    direct = Listener(url, lambda _: None)
    behind = Listener(between.url, lambda _: None)

    with caplog.at_level(logging.WARNING, "duework"):
        eventually(lambda: direct.healthy)
        eventually(lambda: "the pooler in between" in caplog.text)

    assert not behind.healthy
    assert caplog.text.count("the pooler in between") == 1
    direct.close()
    behind.close()


def test_a_block_and_a_connection_of_ones_own_work_through_a_pooler(between: Pooler) -> None:
    app = App(between.url)
    count = define(app)

    with app.transaction() as tx:
        tx.write("insert into effect (job) values (1)")
        tx.enqueue(count, 1)
    own = app.connect()
    count.using(connection=own).enqueue(2)
    own.commit()
    own.close()

    assert len(app.jobs()) == 2
    assert app.now() > 0
    app.close()
