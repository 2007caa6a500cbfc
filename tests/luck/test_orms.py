"""What people give to `using(connection=…)`: async engines, what commits by itself, what is none at all."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from duework import App, UsageError

INSERT = text("insert into orders (id) values (7)")
only_postgres = pytest.mark.parametrize("kind", ["postgres"])
only_sqlite = pytest.mark.parametrize("kind", ["sqlite"])


def define(app: App) -> Any:
    @app.task
    async def greet(name: str) -> str:
        return name

    return greet


def table(url: str) -> None:
    own = App(url)
    with own.transaction() as tx:
        tx.write("create table orders (id integer primary key)")
    own.close()


def found(app: App) -> tuple[int, int]:
    """How many rows and how many jobs there are."""
    [row] = app.read("select count(*) as n from orders")
    return row.n, len(app.jobs(task="greet"))


@asynccontextmanager
async def async_engine(url: str) -> AsyncIterator[AsyncEngine]:
    engine = create_async_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    try:
        yield engine
    finally:
        await engine.dispose()


async def by_session(engine: AsyncEngine, greet: Any) -> None:
    async with AsyncSession(engine) as session, session.begin():
        await session.execute(INSERT)
        await greet.using(connection=session).aenqueue("ada")


async def by_run_sync(engine: AsyncEngine, greet: Any) -> None:
    async with AsyncSession(engine) as session, session.begin():
        # The job comes first, so it begins the transaction.
        await session.run_sync(lambda inner: greet.using(connection=inner).enqueue("ada"))
        await session.execute(INSERT)


async def by_connection(engine: AsyncEngine, greet: Any) -> None:
    async with engine.begin() as connection:
        await greet.using(connection=connection).aenqueue("ada")
        await connection.execute(INSERT)


WAYS = [by_session, by_run_sync, by_connection]


@only_postgres
@pytest.mark.parametrize("way", WAYS)
def test_rows_of_an_async_engine_and_their_job_are_one_commit(
    app: App, url: str, way: Callable[[AsyncEngine, Any], Awaitable[None]]
) -> None:
    table(url)
    greet = define(app)

    async def main() -> None:
        async with async_engine(url) as engine:
            await way(engine, greet)
            # The second order of this number: its row is refused, and so its job is not there.
            with pytest.raises(Exception, match="orders_pkey"):
                await way(engine, greet)

    asyncio.run(main())
    assert found(app) == (1, 1)


@only_postgres
def test_an_async_connection_of_psycopg_keeps_its_settings_and_its_notices(
    app: App, url: str, recwarn: pytest.WarningsRecorder
) -> None:
    table(url)
    greet, notices = define(app), []

    async def main() -> str:
        own = await psycopg.AsyncConnection.connect(url)
        own.add_notice_handler(lambda notice: notices.append(notice.message_primary))
        await own.set_isolation_level(psycopg.IsolationLevel.SERIALIZABLE)
        await greet.using(connection=own).aenqueue("ada")
        cursor = await own.execute("show transaction_isolation")
        [level] = await cursor.fetchone() or [""]
        await own.execute("do $$ begin raise notice 'heard'; end $$")
        await own.execute("insert into orders (id) values (7)")
        await own.rollback()
        await greet.using(connection=own).aenqueue("eve")
        await own.commit()
        await own.close()
        return str(level)

    assert asyncio.run(main()) == "serializable"
    assert notices == ["heard"]
    assert found(app) == (0, 1)
    assert not [each for each in recwarn if issubclass(each.category, ResourceWarning)]


@only_postgres
def test_an_async_connection_that_is_busy_is_refused(app: App, url: str) -> None:
    greet = define(app)

    async def main() -> None:
        async with await psycopg.AsyncConnection.connect(url) as own, own.lock:
            with pytest.raises(UsageError, match="busy"):
                await greet.using(connection=own).aenqueue("ada")

    asyncio.run(main())
    assert app.jobs(task="greet") == []


# SQLAlchemy leaves the coroutine that it could not await.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@only_postgres
def test_an_async_session_that_has_not_connected_says_what_to_await(app: App, url: str) -> None:
    greet = define(app)

    async def main() -> None:
        async with async_engine(url) as engine, AsyncSession(engine) as session:
            with pytest.raises(UsageError, match=r"await session.connection\(\)"):
                await greet.using(connection=session).aenqueue("ada")
            await session.connection()
            await greet.using(connection=session).aenqueue("ada")
            await session.commit()
            with pytest.raises(UsageError, match="not started"):
                await greet.using(connection=engine.connect()).aenqueue("ada")

    asyncio.run(main())
    assert len(app.jobs(task="greet")) == 1


def test_a_connection_that_commits_by_itself_is_refused(app: App, url: str, kind: str) -> None:
    greet = define(app)
    assert app.jobs() == []
    own: Any = app.connect()
    if kind == "postgres":
        own.autocommit = True

    with pytest.raises(UsageError, match=r"transaction\.atomic"):
        greet.using(connection=own).enqueue("ada")

    own.close()
    assert app.jobs(task="greet") == []


@only_sqlite
def test_so_is_one_of_the_other_library(app: App, url: str) -> None:
    greet = define(app)
    _migrate(url)
    own = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)

    with pytest.raises(UsageError, match=r"transaction\.atomic"):
        greet.using(connection=own).enqueue("ada")
    own.execute("begin")
    greet.using(connection=own).enqueue("ada")
    own.execute("commit")

    own.close()
    assert len(app.jobs(task="greet")) == 1


@only_sqlite
def test_a_job_that_comes_first_begins_the_transaction_of_the_other_library(
    app: App, url: str
) -> None:
    greet = define(app)
    _migrate(url)
    own = sqlite3.connect(url.removeprefix("sqlite:///"))

    greet.using(connection=own).enqueue("ada")
    assert own.in_transaction
    own.rollback()

    own.close()
    assert app.jobs(task="greet") == []


@only_sqlite
def test_what_is_no_connection_is_named_also_beside_an_orm_that_has_the_file_open(
    app: App, url: str
) -> None:
    greet = define(app)
    _migrate(url)
    engine = create_engine(url)
    with Session(engine) as session:
        session.execute(text("select 1 from duework_job"))

        for given in (engine, "text"):
            with pytest.raises(UsageError, match="takes an apsw or sqlite3 connection"):
                greet.using(connection=given).enqueue("ada")

    engine.dispose()
    assert app.jobs(task="greet") == []


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg2", "aiosqlite"])
def test_a_driver_that_cannot_be_lent_gets_a_hint(app: App, driver: str) -> None:
    theirs = type("Connection", (), {"__module__": f"{driver}.connection"})

    with pytest.raises(UsageError, match=r"psycopg://|create_engine"):
        define(app).using(connection=theirs()).enqueue("ada")


def _migrate(url: str) -> None:
    made = App(url)
    made.jobs()
    made.close()
