"""The views: what they say of each shape, and that views of the user's own on top outlive an upgrade."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duework import Accepted, App, Channel, End, Next, Outbox, Page, Pending
from duework.db import migrate
from duework.db.database import Database
from duework.db.migrate import KERNEL, Migration, Migrations, kernel_steps
from duework.db.urls import open_database
from duework.testing import Harness
from tests.support.postgres import Server

# What there was before there were views.
BEFORE = "views"
PHASE = """case when state <> 'open' then state
    when worker is not null then case when due > :now then 'running' else 'expired' end
    when due > :now then 'waiting' else 'ready' end"""


def test_jobs_are_seen_with_what_their_phase_is_made_of(harness: Harness) -> None:
    @harness.app.task(queue="letters", priority=3, keep="1h")
    async def greet(name: str) -> str:
        return f"hello {name}"

    done = greet.using(key="k").enqueue("ada")
    harness.drain()
    later = greet.using(delay="1h").enqueue("bob")
    ready = greet.enqueue("eve")

    rows = harness.app.read(
        f"select *, {PHASE} as phase from duework_jobs_v1 where task = 'greet' order by id",
        now=harness.now,
    )

    assert [(row.id, row.state, row.phase) for row in rows] == [
        (done.id, "done", "done"),
        (later.id, "open", "waiting"),
        (ready.id, "open", "ready"),
    ]
    assert [(row.queue, row.priority, row.due) for row in rows] == [
        ("letters", 3, None),
        ("letters", 3, harness.now + 3_600_000),
        ("letters", 3, harness.now),
    ]
    assert (rows[0].result, rows[0].settled, rows[1].payload) == (
        '"hello ada"',
        harness.now,
        '{"name":"bob"}',
    )


class Mail(Outbox[str]):
    """Accepts, and never knows more."""

    async def submit(self, message: str, key: str) -> Accepted:
        return Accepted(f"handle of {message}")

    async def poll(self, handle: str, message: str) -> Pending:
        return Pending()


def test_every_shape_has_a_view(harness: Harness) -> None:
    app = harness.app

    @app.task
    async def greet(name: str) -> None: ...

    @app.chain()
    async def pages(page: Page, athlete: int) -> Next | End:
        return Next(cursor=page.number + 1, counts={"seen": 2}) if page.number < 3 else End()

    async def send(text: str) -> None: ...

    @app.delivery(channels={"email": Channel(send)})
    def remind(user: int) -> dict[str, Any]:
        return {"email": f"hi {user}"}

    app.batch(greet, ["ada", "bob"], name="people")
    pages.start(7)
    remind.enqueue(7)
    mail = app.outbox("email", Mail())
    mail.using(lane="tenant-3").enqueue("news")
    app.schedule(greet, every="5m", args=("eve",), key="often")
    harness.drain()

    [batch] = app.read("select * from duework_batches_v1")
    [chain] = app.read("select * from duework_chains_v1")
    [message] = app.read("select * from duework_messages_v1")
    [schedule] = app.read("select * from duework_schedules_v1")
    [delivery] = app.read("select * from duework_deliveries_v1")

    assert (batch.name, batch.state, batch.total, batch.open, batch.done) == (
        "people",
        "settled",
        2,
        0,
        2,
    )
    assert (chain.task, chain.state, chain.pages, chain.counts) == (
        "pages",
        "done",
        3,
        '{"seen":4}',
    )
    assert (message.outbox, message.lane, message.state, message.handle) == (
        "email",
        "tenant-3",
        "sending",
        "handle of news",
    )
    assert (message.due, message.worker) == (harness.now + 10_000, None)
    assert (schedule.key, schedule.state, schedule.due) == ("often", "active", schedule.slot)
    assert (delivery.task, delivery.channel, delivery.state, delivery.sends) == (
        "remind",
        "email",
        "sent",
        1,
    )


@pytest.fixture
def empty(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """A database on which nothing has been migrated."""
    if kind == "sqlite":
        opened = open_database(f"sqlite:///{tmp_path / 'old.db'}")
        yield opened
        opened.close()
        return
    server: Server = request.getfixturevalue("postgres")
    opened = open_database(server.create_database("old_schema"))
    yield opened
    opened.close()
    server.drop_database("old_schema")


def write(database: Database, *texts: str) -> None:
    with database.transaction() as tx:
        for text in texts:
            tx.write(text)


def read(database: Database, text: str) -> list[tuple[Any, ...]]:
    with database.reading() as tx:
        return [tuple(row) for row in tx.read(text)]


JOB = """insert into duework_job (id, lane, task, due, at, payload, checksum)
         values (7, 1, 'greet', 5, 5, '{}', 0)"""
LANE = "insert into duework_lane (id, queue, task, priority) values (1, 'q', 'greet', 0)"


def test_a_database_of_the_previous_schema_with_views_on_top_is_upgraded(empty: Database) -> None:
    now = kernel_steps(empty.kind)
    number = next(each.number for each in now.migrations if each.name == BEFORE)
    before = Migrations(KERNEL, now.migrations[: number - 2])
    migrate.migrate(empty, [before])
    write(
        empty,
        LANE,
        JOB,
        "create view mine as select id, task, cancel_reason as why from duework_job",
        "create view letters as select id, lane from duework_outbox",
        "create view mine_of_mine as select id from mine",
    )

    migrate.migrate(empty, [now])

    assert read(empty, "select * from mine") == [(7, "greet", None)]
    assert read(empty, "select * from mine_of_mine") == [(7,)]
    assert read(empty, "select * from letters") == []
    assert read(empty, "select id, queue, due from duework_jobs_v1") == [(7, "q", 5)]


def next_version(kind: str) -> list[str]:
    """A migration as a later one is to be written: another column, and a table below that changes."""
    [made] = [each.text for each in kernel_steps(kind).migrations if each.name == BEFORE]
    jobs = made.partition("create view duework_jobs_v1")[2].partition(";")[0]
    for old, new in (("result\n)", "result, remark\n)"), ("j.result\n", "j.result, j.note\n")):
        assert jobs.count(old) == 1
        jobs = jobs.replace(old, new)
    jobs = f"create view duework_jobs_v1 {jobs.replace('j.progress', 'j.note')}"
    rename = "alter table duework_job rename column progress to note"
    if kind == "postgres":
        return [rename, jobs.replace("create view", "create or replace view")]
    return [rename, "drop view duework_jobs_v1", jobs]


def test_a_later_migration_changes_a_view_below_those_of_the_user(empty: Database) -> None:
    now = kernel_steps(empty.kind)
    migrate.migrate(empty, [now])
    write(
        empty,
        LANE,
        JOB,
        "create view mine as select id, queue, progress from duework_jobs_v1 where state = 'open'",
    )
    number = len(now.migrations) + 1
    later = Migration(number, "later", ";\n".join(next_version(empty.kind)), number)

    migrate.migrate(empty, [Migrations(KERNEL, (*now.migrations, later))])

    assert read(empty, "select * from mine") == [(7, "q", None)]
    assert read(empty, "select id, remark from duework_jobs_v1") == [(7, None)]


def test_a_view_reads_one_row_by_its_index(app: App) -> None:
    plan = {
        "sqlite": "explain query plan select * from duework_jobs_v1 where id = 7",
        "postgres": "explain select * from duework_jobs_v1 where id = 7",
    }[app.wiring.engine.database.kind]
    app.wiring.engine  # noqa: B018 - opens and migrates
    if app.wiring.engine.database.kind == "postgres":
        with app.transaction() as tx:
            tx.write("set local enable_seqscan = off")
            lines = [" ".join(map(str, row)) for row in tx.read(plan)]
    else:
        lines = [" ".join(map(str, row)) for row in app.read(plan)]

    assert not [line for line in lines if "SCAN j" in line or "Seq Scan on duework_job" in line]
