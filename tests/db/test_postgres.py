"""PostgreSQL through `PostgresDatabase`, and the `Writer` on it while the server fails."""

# ruff: noqa: PT012 - what fails is a block with statements in it

import asyncio
import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from itertools import count
from time import monotonic
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from duework import App
from duework.clock import SystemClock, pause
from duework.db.database import Blocked, Changes, Retryable
from duework.db.migrate import kernel_steps, migrate
from duework.db.postgres import connect as postgres_connect
from duework.db.postgres import database as postgres
from duework.db.postgres import tx as postgres_tx
from duework.db.postgres.database import PostgresDatabase, PostgresTx
from duework.db.postgres.listen import Listener
from duework.db.postgres.tx import RETRYABLE
from duework.db.queries import Statement, for_psycopg, parameters
from duework.db.urls import open_database, redacted
from duework.db.writer import writer as writer_module
from duework.db.writer.blocks import block
from duework.db.writer.writer import Writer
from duework.errors import DatabaseError, Unavailable, Unknown, UsageError
from tests.support.postgres import Server, server
from tests.support.proxy import Cut, proxy

# The server is started once.
pytestmark = pytest.mark.xdist_group("postgres")
NUMBERS = count(1)


def statement(text: str) -> Statement:
    return Statement("test", text, for_psycopg(text), parameters(text))


INSERT = statement(
    "insert into thing (id, name) select * from unnest(:id::bigint[], :name::text[])"
)
INSERT_ONE = statement("insert into thing (id, name) values (:id, :name)")
COUNT = statement("select count(*), count(distinct id) from thing")
IDS = statement("select id from thing order by id")


TEMPLATE = "with_thing"


def prepare(running: Server) -> None:
    with opened(running.create_database(TEMPLATE)) as database:
        migrate(database, [kernel_steps("postgres")])
        with database.transaction() as tx:
            tx.write("create table thing (id bigint primary key, name text)")


@pytest.fixture(scope="module")
def pg() -> Iterator[Server]:
    """A durable server of our own, for the tests that stop it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("TEST_PG_DSN", raising=False)
        with server() as running:
            prepare(running)
            yield running


@pytest.fixture(scope="module")
def common(postgres: Server) -> Iterator[Server]:
    """The server that all tests share, which does not wait for the disk."""
    prepare(postgres)
    yield postgres
    postgres.drop_database(TEMPLATE)


@pytest.fixture
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """A database of its own; on the server of our own in a test that takes `pg`."""
    running: Server = request.getfixturevalue("pg" if "pg" in request.fixturenames else "common")
    name = f"test{next(NUMBERS)}"
    yield running.create_database(name, template=TEMPLATE)
    running.drop_database(name)


@pytest.fixture
def db(url: str) -> Iterator[PostgresDatabase]:
    with opened(url) as database:
        yield database


@contextmanager
def opened(url: str) -> Iterator[PostgresDatabase]:
    database = PostgresDatabase(url)
    try:
        yield database
    finally:
        database.close()


@contextmanager
def writing(url: str) -> Iterator[Writer]:
    with opened(url) as database:
        writer = Writer(database)
        try:
            yield writer
        finally:
            writer.close()


def insert(tx: Any, ids: list[int]) -> list[int]:
    tx.bulk(INSERT, [(number, f"n{number}") for number in ids])
    return ids


def place(tx: Any, ids: list[int]) -> list[int]:
    for number in ids:
        tx.put(INSERT_ONE, (number, f"n{number}"))
    tx.hint("due")
    return ids


def stored(url: str) -> list[int]:
    with psycopg.connect(url) as connection:
        return [row[0] for row in connection.execute("select id from thing order by id")]


def until(condition: Callable[[], bool], seconds: float = 10) -> None:
    deadline = monotonic() + seconds
    while not condition():
        assert monotonic() < deadline, "it did not come true in time"
        pause(0.01)


# --- transactions and statements


def test_what_is_committed_stays_and_what_is_rolled_back_does_not(
    db: PostgresDatabase, url: str
) -> None:
    tx = db.begin()
    insert(tx, [1])
    db.commit(tx)
    tx = db.begin()
    insert(tx, [2])
    db.rollback()

    assert stored(url) == [1]


def test_a_transaction_without_statements_costs_nothing(db: PostgresDatabase) -> None:
    db.commit(db.begin())
    db.begin()
    db.rollback()

    assert db.begin() is not None


def test_a_transaction_that_nobody_ended_does_not_stop_the_next_one(
    db: PostgresDatabase, url: str
) -> None:
    insert(db.begin(), [1])

    tx = db.begin()
    insert(tx, [2])
    db.commit(tx)

    assert stored(url) == [2]


def test_bulk_sends_arrays_and_counts_rows(db: PostgresDatabase, url: str) -> None:
    rows = [(number, None if number % 2 else "x") for number in range(2000)]

    tx = db.begin()
    touched = tx.bulk(INSERT, rows)
    nothing = tx.bulk(INSERT, [])
    db.commit(tx)

    assert (touched, nothing) == (2000, 0)
    assert stored(url) == list(range(2000))


def test_rows_of_the_kernel_are_plain_tuples_and_whole_numbers(db: PostgresDatabase) -> None:
    tx = db.begin()

    rows = tx.query(statement("select sum(n), :a::bigint from generate_series(1, 3) n"), {"a": 5})
    none = tx.query(statement("insert into thing values (:id, '100%')"), {"id": 1})

    assert rows == [(6, 5)]
    assert (type(rows[0]), type(rows[0][0]), none) == (tuple, int, [])
    assert tx.query(statement("select name from thing"), {}) == [("100%",)]


def test_rows_of_the_user_have_names(db: PostgresDatabase) -> None:
    with db.transaction() as tx:
        tx.write("insert into thing values (:id, :name)", id=1, name="a")
        (row,) = tx.read("select id, name, 1 + 1 from thing where name = :name", name="a")

        assert (row.id, row.name, row[2], tuple(row)) == (1, "a", 2, (1, "a", 2))
        assert tx.read("select id from thing where name like '%' and id = 5") == []


def test_writes_of_the_user_are_counted(db: PostgresDatabase) -> None:
    with db.transaction() as tx:
        many = [{"id": number, "name": "x"} for number in range(3)]
        assert tx.write("insert into thing values (:id, :name)", rows=many) == Changes(inserted=3)
        assert tx.write("insert into thing values (:id, :name)", rows=[]) == Changes()
        assert tx.write("update thing set name = 'y' where id < :n", n=2) == Changes(changed=2)
        with_ = "with x as (select 9 as id) insert into thing select id, 'z' from x"
        assert tx.write(with_) == Changes(inserted=1)
        assert tx.write("delete from thing") == Changes(changed=4)


def test_a_missing_or_unused_parameter_is_named(db: PostgresDatabase) -> None:
    with db.transaction() as tx:
        with pytest.raises(UsageError, match="needs values for :id"):
            tx.read("select :id")
        with pytest.raises(UsageError, match="has no :other"):
            tx.write("delete from thing", other=1)


# --- savepoints


def test_a_part_that_fails_leaves_the_rest(db: PostgresDatabase, url: str) -> None:
    told = []
    tx = db.begin()
    insert(tx, [1])
    with pytest.raises(DatabaseError, match="UniqueViolation: duplicate key"), tx.savepoint():
        tx.after_commit.append(lambda: told.append("lost"))
        insert(tx, [2])
        insert(tx, [1])
    with tx.savepoint():
        insert(tx, [3])
        with pytest.raises(ZeroDivisionError), tx.savepoint():
            insert(tx, [4])
            raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError), tx.savepoint():
        raise ZeroDivisionError
    with tx.savepoint():
        pass
    db.commit(tx)

    assert stored(url) == [1, 3]
    assert tx.after_commit == []


def test_a_part_that_hides_its_failure_fails_alone(db: PostgresDatabase, url: str) -> None:
    tx = db.begin()
    insert(tx, [1])
    with pytest.raises(DatabaseError, match="had failed"), tx.savepoint():
        insert(tx, [2])
        with suppress(DatabaseError):
            insert(tx, [1])
    db.commit(tx)

    assert stored(url) == [1]


def test_a_transaction_that_hides_its_failure_is_not_taken_for_committed(
    db: PostgresDatabase, url: str
) -> None:
    tx = db.begin()
    insert(tx, [1])
    with suppress(DatabaseError):
        insert(tx, [1])
    with pytest.raises(DatabaseError, match="rolled back"):
        db.commit(tx)
    with pytest.raises(DatabaseError, match="rolled back"), db.transaction() as mine:
        insert(mine, [1])
        with suppress(DatabaseError):
            insert(mine, [1])

    assert stored(url) == []


@pytest.mark.parametrize("sleeps", [[5.0], [0.15] * 30], ids=["one long", "many short"])
def test_a_part_over_its_limit_is_interrupted(db: PostgresDatabase, sleeps: list[float]) -> None:
    tx = db.begin()
    insert(tx, [1])
    started = monotonic()
    with pytest.raises(DatabaseError, match=r"^interrupted after 200 ms$"), tx.savepoint(200):
        for seconds in sleeps:
            tx.read("select pg_sleep(:seconds)", seconds=seconds)
    took = monotonic() - started

    assert 0.15 < took < 4
    assert tx.read("select current_setting('statement_timeout') as t")[0].t == "30s"
    db.commit(tx)


def test_a_limit_ends_with_its_part(db: PostgresDatabase) -> None:
    timeout = "select current_setting('statement_timeout') as t"
    tx = db.begin()
    with tx.savepoint(5000):
        assert tx.read(timeout)[0].t != "30s"
        with tx.savepoint(100):
            inner = tx.read(timeout)[0].t
        assert tx.read(timeout)[0].t != inner
        with tx.savepoint():
            assert tx.read(timeout)[0].t not in {inner, "30s"}

    assert tx.read(timeout)[0].t == "30s"


def test_a_limit_is_for_the_users_own_statements(db: PostgresDatabase) -> None:
    sleep = statement("select pg_sleep(0.3), current_setting('statement_timeout') as t")
    limits = "select current_setting('statement_timeout') t, current_setting('lock_timeout') l"
    tx = db.begin()
    with tx.savepoint(200):
        assert tx.read(limits)[0].l == "1s"
        assert tx.query(sleep, {})[0][1] == "30s"
        assert tx.read(limits)[0].l == "1s"

    assert tuple(tx.read(limits)[0]) == ("30s", "10s")
    db.commit(tx)


def test_a_statement_that_waits_for_a_lock_in_vain_undoes_its_part_alone(
    db: PostgresDatabase, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_tx, "LOCK_MS", 100)
    update = "update thing set name = 'x' where id = :id"
    with psycopg.connect(url, autocommit=True) as admin, psycopg.connect(url) as holder:
        admin.execute("insert into thing values (1, ''), (2, '')")
        holder.execute("select * from thing where id = 1 for update")
        tx = db.begin()
        insert(tx, [3])
        for _ in range(2):
            with pytest.raises(Blocked, match="held a lock"), tx.savepoint(2000):
                insert(tx, [4])
                tx.write(update, id=1)
        with tx.savepoint(2000):
            tx.write(update, id=2)
            # Nobody is waited for as long once it was in vain.
            assert tx.read("select current_setting('lock_timeout') as t")[0].t == "50ms"
        db.commit(tx)

    assert stored(url) == [1, 2, 3]


def test_a_shorter_wait_for_locks_that_the_url_asks_for_is_kept(url: str) -> None:
    with opened(url + "?options=-c%20lock_timeout%3D300ms") as database:
        tx = database.begin()
        with tx.savepoint(2000):
            waits = tx.read("select current_setting('lock_timeout') as t")[0].t
        after = tx.read("select current_setting('lock_timeout') as t")[0].t

    assert (waits, after) == ("300ms", "300ms")


# --- errors


def test_retryable_failures_are_told_from_others(db: PostgresDatabase) -> None:
    for sqlstate in RETRYABLE:
        tx = db.begin()
        with pytest.raises(Retryable):
            tx.read(f"do $$ begin raise exception 'x' using errcode = '{sqlstate}'; end $$")
        db.rollback()
    tx = db.begin()
    with pytest.raises(DatabaseError, match=r"^UndefinedTable: relation") as caught:
        tx.read("select * from nothing")

    assert "\n" not in str(caught.value)
    assert isinstance(caught.value.__cause__, psycopg.Error)


def test_a_lock_that_is_not_given_in_time_is_retryable(url: str) -> None:
    with (
        opened(url + "?options=-c%20lock_timeout%3D100ms") as database,
        psycopg.connect(url) as other,
    ):
        other.execute("lock table thing")
        with pytest.raises(Retryable, match="held a lock"):
            insert(database.begin(), [1])


def test_a_deadlock_is_retryable(db: PostgresDatabase, url: str) -> None:
    with opened(url) as second, psycopg.connect(url, autocommit=True) as admin:
        admin.execute("insert into thing values (1, ''), (2, '')")
        update = statement("update thing set name = 'x' where id = :id")
        one, two = db.begin(), second.begin()
        one.query(update, {"id": 1})
        two.query(update, {"id": 2})
        caught: list[Exception] = []

        def cross(tx: Any, number: int) -> None:
            try:
                tx.query(update, {"id": number})
            except Retryable as error:
                caught.append(error)

        thread = threading.Thread(target=cross, args=(one, 2))
        thread.start()
        cross(two, 1)
        thread.join()
        db.rollback()
        second.rollback()

        assert [str(error)[:33] for error in caught] == ["the transaction was in a deadlock"]


def test_a_server_that_is_not_there_is_named_without_its_password() -> None:
    secret = "hunter2"  # noqa: S105 - made up
    with opened(f"postgresql://me:{secret}@127.0.0.1:1/x") as database:
        with pytest.raises(Retryable, match=r"PostgreSQL at 127\.0\.0\.1:1 cannot be") as caught:
            database.begin()
        with pytest.raises(Unavailable), database.reading():
            pass

        assert secret not in str(caught.value)
        assert redacted(database.url) == "postgresql://me:***@127.0.0.1:1/x"


def test_a_wrong_password_is_not_told_either(pg: Server) -> None:
    wrong = pg.dsn.replace("postgres:", "postgres:wrong", 1)
    with opened(wrong) as database, pytest.raises(Retryable) as caught:
        database.begin()

    assert "password authentication failed" in str(caught.value)
    assert ":wrong" not in str(caught.value)


# --- settings


def test_only_the_kernel_runs_with_pinned_plans(db: PostgresDatabase) -> None:
    show = "select current_setting('enable_seqscan') as scan, current_setting('jit') as jit"
    tx = db.begin()
    assert tuple(tx.read(show)[0]) == ("off", "off")
    with db.transaction() as mine, db.reading() as view, db.connect() as own:
        for scan in (
            mine.read(show)[0].scan,
            view.read(show)[0].scan,
            own.execute(show).fetchall()[0][0],
        ):
            assert scan == "on"


def test_the_url_wins(url: str) -> None:
    given = url + "?application_name=mine&connect_timeout=9&options=-c%20statement_timeout%3D7s"
    with opened(given) as database:
        tx = database.begin()
        show = "select current_setting('statement_timeout') as t, current_setting('jit') as jit"
        (row,) = tx.read(show + ", current_setting('application_name') as name")

    assert tuple(row) == ("7s", "off", "mine")
    assert postgres.arguments(given)["connect_timeout"] == "9"


def test_the_server_says_what_its_durability_rests_on(pg: Server, db: PostgresDatabase) -> None:
    settings = db.settings()

    assert settings.pop("server_version")
    assert settings == {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on"}


def test_durability_process_is_an_opt_in(url: str) -> None:
    database = PostgresDatabase(url, durability="process")
    assert database.settings()["synchronous_commit"] == "off"
    database.close()


@contextmanager
def commits_seen(url: str, default: str, durability: str) -> Iterator[PostgresDatabase]:
    """A database with a default of its own, that notes how each commit of a `thing` asks to last."""
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(f"alter database {url.rpartition('/')[2]} set synchronous_commit = {default}")
        admin.execute("create table seen (how text)")
        admin.execute("""create function see() returns trigger language plpgsql as $$ begin
            insert into seen values (current_setting('synchronous_commit')); return null; end $$""")
        admin.execute("""create constraint trigger last after insert on thing
            deferrable initially deferred for each row execute function see()""")
    with closing(PostgresDatabase(url, durability)) as database:
        yield database


def seen(database: PostgresDatabase) -> set[str]:
    with database.reading() as tx:
        return {row.how for row in tx.read("select how from seen")}


@pytest.mark.parametrize(
    ("default", "durability", "how"),
    [
        ("off", "power", "on"),
        ("local", "power", "local"),
        ("remote_apply", "power", "remote_apply"),
        ("on", "process", "off"),
    ],
)
def test_every_commit_asks_for_what_the_durability_says_and_never_for_less(
    url: str, monkeypatch: pytest.MonkeyPatch, default: str, durability: str, how: str
) -> None:
    with commits_seen(url, default, durability) as database:
        writer = Writer(database)
        monkeypatch.setattr(postgres, "AT_ONCE_SECONDS", 0.0)
        writer.call(insert, [1])
        monkeypatch.setattr(postgres, "AT_ONCE_SECONDS", 60.0)
        writer.call(place, [2])
        writer.call(place, [3])
        with database.transaction() as tx:
            insert(tx, [4])
        with database.connect() as own:
            own.execute("insert into thing values (5, '')")

        assert seen(database) == {how}
        assert database.settings()["synchronous_commit"] == how
        writer.close()
    assert stored(url) == [1, 2, 3, 4, 5]


def test_a_commit_asks_to_last_also_on_a_connection_that_a_pooler_has_changed(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with commits_seen(url, "on", "power") as database:
        writer = Writer(database)
        for number, at_once in enumerate((0.0, 60.0, 60.0)):
            monkeypatch.setattr(postgres, "AT_ONCE_SECONDS", at_once)
            # As if the next transaction were given to a session that knows nothing of ours.
            database._write_connection().execute("set synchronous_commit = off")  # noqa: SLF001
            writer.call(place, [number])

        assert seen(database) == {"on"}
        writer.close()


def test_now_is_the_servers_time(db: PostgresDatabase) -> None:
    now = db.now()

    assert now is not None
    assert abs(now - SystemClock().now()) < 5000


def test_a_backup_is_left_to_pg_dump(db: PostgresDatabase) -> None:
    with pytest.raises(UsageError, match="pg_dump") as caught:
        db.backup("x")

    assert ":***@" in str(caught.value)


def test_a_scheme_chooses_the_database(url: str) -> None:
    for each in (url, url.replace("postgresql:", "postgres:")):
        database = open_database(each)
        assert (database.kind, database.now() is None) == ("postgres", False)
        database.close()
    assert open_database("sqlite:///x.db").kind == "sqlite"
    for wrong in ("mysql://me:secret@host/x", "work.db", "postgresql+psycopg://me:secret@host/x"):
        with pytest.raises(UsageError, match="cannot read") as caught:
            open_database(wrong)
        assert "secret" not in str(caught.value)
    with pytest.raises(UsageError, match="durability"):
        open_database(url, "none")
    with pytest.raises(UsageError, match="%40") as caught:
        open_database("postgresql://me:sec@ret@host/x")
    assert "ret" not in str(caught.value).partition("***")[2].partition(":")[0]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:s3cret@host:5432/x?a=b", "postgresql://me:***@host:5432/x?a=b"),
        ("postgresql://:s3cret@host/x", "postgresql://:***@host/x"),
        ("postgresql://host/x?user=me&password=s3cret", "postgresql://host/x?user=me&password=***"),
        ("postgresql://me:s3@cr/et@host/x", "postgresql://me:***@host/x"),
        ("host=h password='s3 cret' user=me", "host=h password=*** user=me"),
        ("postgresql://me@host/x", "postgresql://me@host/x"),
        ("sqlite:///work.db", "sqlite:///work.db"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert redacted(url) == shown


# --- connections for others


def test_a_block_commits_at_its_end_and_not_on_an_error(db: PostgresDatabase, url: str) -> None:
    told = []
    with db.transaction() as tx:
        insert(tx, [1])
        tx.after_commit.append(lambda: told.append(stored(url)))
    with pytest.raises(ZeroDivisionError), db.transaction() as tx:
        insert(tx, [2])
        tx.after_commit.append(lambda: told.append([]))
        raise ZeroDivisionError

    assert stored(url) == [1]
    assert told == [[1]]


def test_a_write_of_its_own_inside_a_block_is_refused(db: PostgresDatabase) -> None:
    writer = Writer(db)
    with db.transaction(), block(db.url), pytest.raises(UsageError, match="would wait for itself"):
        writer.call(insert, [1])

    assert writer.call(insert, [1]) == [1]


def test_a_view_is_of_one_moment_and_cannot_write(db: PostgresDatabase) -> None:
    with db.reading() as view:
        assert view.query(IDS, {}) == []
        with db.transaction() as tx:
            insert(tx, [1])
        assert view.query(IDS, {}) == []
    with pytest.raises(Unavailable, match="read-only"), db.reading() as view:
        insert(view, [2])
    with db.reading() as view:
        assert view.query(IDS, {}) == [(1,)]


def test_idle_connections_are_used_again_and_dead_ones_are_not_noticed(
    db: PostgresDatabase, url: str
) -> None:
    pid = "select pg_backend_pid() as pid"
    with db.transaction() as tx:
        first = tx.read(pid)[0].pid
    with db.reading() as view:
        view.read(pid)
    with db.transaction() as tx:
        assert tx.read(pid)[0].pid == first
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )

    with db.transaction() as tx:
        assert tx.read(pid)[0].pid != first
    with db.reading() as view:
        assert view.read(pid)
    assert db.now()


def test_a_connection_that_ends_inside_a_block_is_said_so(db: PostgresDatabase, url: str) -> None:
    kill = "select pg_terminate_backend(pg_backend_pid())"
    with pytest.raises(Unavailable, match="ended the connection"), db.transaction() as tx:
        insert(tx, [1])
        tx.read(kill)
    with pytest.raises(Unavailable), db.reading() as view:
        view.read(kill)

    with db.transaction() as tx:
        insert(tx, [2])
    assert stored(url) == [2]


def test_adopting_takes_the_callers_transaction(db: PostgresDatabase, url: str) -> None:
    with psycopg.connect(url, row_factory=dict_row) as own:
        tx = db.adopt(own)
        insert(tx, [1])
        with pytest.raises(DatabaseError), tx.savepoint():
            insert(tx, [1])
        assert tx.query(COUNT, {}) == [(1, 1)]
        own.rollback()
        insert(tx, [2])
        own.commit()

    assert stored(url) == [2]


def test_adopting_looks_inside_the_wrappers_of_others(db: PostgresDatabase, url: str) -> None:
    with psycopg.connect(url) as own:

        class Session:
            def connection(self) -> Any:
                return SimpleNamespace(connection=SimpleNamespace(driver_connection=own))

        class Django:
            connection: Any = None

            def ensure_connection(self) -> None:
                self.connection = own

        for wrapper in (Session(), Session().connection(), Django(), own):
            tx = db.adopt(wrapper)
            assert isinstance(tx, PostgresTx)
            assert tx.connection is own


def test_adopting_refuses_what_cannot_work(db: PostgresDatabase, url: str) -> None:
    class AsyncSession:
        async def connection(self) -> None:
            pass

    with pytest.raises(UsageError, match=r"not builtins\.coroutine"):
        db.adopt(AsyncSession())
    with pytest.raises(UsageError, match=r"not builtins\.int"):
        db.adopt(5)
    with psycopg.connect(url, autocommit=True) as own:
        with pytest.raises(UsageError, match="open a transaction first"):
            db.adopt(own)
        with own.transaction():
            insert(db.adopt(own), [1])


def test_a_closed_database_says_so(url: str) -> None:
    database = PostgresDatabase(url)
    tx = database.begin()
    insert(tx, [1])
    database.commit(tx)
    database.close()

    for use in (database.begin, database.connect, database.now):
        with pytest.raises(UsageError, match="closed"):
            use()
    with psycopg.connect(url) as own:
        assert own.execute("select count(*) from duework_mark").fetchall() == [(0,)]


def test_a_database_opened_before_a_fork_is_refused_in_the_child(db: PostgresDatabase) -> None:
    db.now()
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()

    def child() -> None:
        try:
            db.begin()
        except UsageError as error:
            answers.put(str(error))
        finally:
            answers.put("")
            # Nothing of the parent's may be closed on the way out.
            os._exit(0)

    process = context.Process(target=child)
    process.start()
    process.join(20)

    assert "before a fork" in answers.get()
    assert db.now()


# --- the writer


def test_one_bad_request_of_three_fails_alone(db: PostgresDatabase, url: str) -> None:
    writer = Writer(db)
    writer.call(insert, [1])

    async def three() -> list[Any]:
        calls = [writer.acall(insert, [number]) for number in (2, 1, 3)]
        return await asyncio.gather(*calls, return_exceptions=True)

    first, second, third = asyncio.run(three())
    writer.close()

    assert (first, third) == ([2], [3])
    assert isinstance(second, DatabaseError)
    assert stored(url) == [1, 2, 3]


def round_trips(url: str, verb: Any) -> int:
    """How many fifty calls take."""
    with proxy(url) as between, writing(between.url) as writer:
        # The first few also prepare their statements.
        for number in range(10):
            writer.call(verb, [number])
        before = between.round_trips
        for number in range(10, 60):
            writer.call(verb, [number])
        taken = between.round_trips - before
    assert stored(url) == list(range(60))
    return taken


def test_a_group_of_one_statement_takes_two_round_trips(url: str) -> None:
    assert round_trips(url, insert) == 100


def test_a_job_starts_after_three_round_trips(url: str) -> None:
    begun: list[int] = []
    ended: list[int] = []
    running = asyncio.Event()

    with proxy(url) as between, closing(App(url)) as here, closing(App(between.url)) as there:

        @there.task(name="note")
        async def note() -> None:
            ended.append(between.round_trips)
            running.set()

        async def work() -> None:
            async with there.running():
                for _ in range(5):
                    # Let it settle what it ran, and go to sleep.
                    await asyncio.sleep(0.2)
                    begun.append(between.round_trips)
                    running.clear()
                    await ask.aenqueue()
                    await running.wait()

        ask = here.task(name="note")(lambda: None)
        asyncio.run(work())

    # The lanes, the claim, COMMIT.
    assert min(last - first for first, last in zip(begun, ended, strict=True)) == 3


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, the last answer was just now."""
    monkeypatch.setattr(postgres, "AT_ONCE_SECONDS", 60.0)


@pytest.mark.usefixtures("at_once")
def test_a_row_for_which_nobody_waits_takes_one_round_trip_with_its_hint(url: str) -> None:
    assert round_trips(url, place) == 50


def test_long_after_the_last_answer_a_row_is_not_written_at_once(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "AT_ONCE_SECONDS", 0.0)

    assert round_trips(url, place) >= 100


@pytest.mark.usefixtures("at_once")
def test_what_follows_a_row_that_was_put_follows_it(url: str) -> None:
    def thrice(tx: Any, ids: list[int]) -> list[int]:
        place(tx, [ids[0]])
        place(tx, [ids[1]])
        found = tx.read("select id from thing order by id")
        with tx.savepoint():
            place(tx, [ids[2]])
        return [row.id for row in found]

    with writing(url) as writer:
        writer.call(place, [0])

        assert writer.call(thrice, [1, 2, 3]) == [0, 1, 2]
    assert stored(url) == [0, 1, 2, 3]


@pytest.mark.usefixtures("at_once")
def test_a_row_that_is_refused_at_the_commit_gets_its_second_run(url: str) -> None:
    with writing(url) as writer:
        numbers = iter([7, 7, 8])

        def another(tx: Any, items: list[None]) -> list[int]:
            return [place(tx, [next(numbers)])[0] for _ in items]

        assert writer.call(another, [None]) == [7]
        assert writer.call(another, [None]) == [8]
        with pytest.raises(DatabaseError, match="UniqueViolation"):
            writer.call(place, [7])
        assert writer.call(place, [9]) == [9]
    assert stored(url) == [7, 8, 9]


@pytest.mark.usefixtures("at_once")
def test_a_row_whose_answer_was_lost_is_looked_for_and_written_once(url: str) -> None:
    assert runs_when_cut(url, place, "before commit", b"returning (") == 2
    assert runs_when_cut(url, place, "after commit", b"INSERT 0 1") == 1


@pytest.mark.usefixtures("at_once")
def test_a_statement_that_comes_late_behind_a_pooler_finds_its_place_taken(url: str) -> None:
    """There the server process that we know by its number is not the one that has our statement."""
    with proxy(url) as between, opened(between.url) as database:
        writer = Writer(database)
        writer.call(place, [0])
        numbers = iter([1, 2])

        def another(tx: Any, items: list[None]) -> list[int]:
            return [place(tx, [next(numbers)])[0] for _ in items]

        with psycopg.connect(url) as locking:
            locking.execute("lock table thing in share mode")
            database._backend = {"pid": 0, "start": None}  # noqa: SLF001 - as behind a pooler
            between.cut_at("asked", b"returning")
            with ThreadPoolExecutor() as pool:
                answer = pool.submit(writer.call, another, [None])
                waiting = "select count(*) from pg_locks where relation = 'thing'::regclass and not granted"
                until(lambda: locking.execute(waiting).fetchone() == (2,))
                locking.rollback()

                assert answer.result(20) == [2]
        writer.close()
    assert stored(url) == [0, 2]


@pytest.mark.usefixtures("at_once")
def test_a_read_only_server_says_that_nothing_happened(url: str) -> None:
    with writing(url) as writer:
        writer.call(place, [0])
        writer.call(lambda tx, items: [tx.write("set default_transaction_read_only = on")], [None])
        began = monotonic()
        with pytest.raises(Unavailable, match="read-only") as raised:
            writer.call(place, [1], patience=0.0)

    assert not isinstance(raised.value, Unknown)
    assert monotonic() - began < postgres.DECIDE_SECONDS / 2


def test_a_commit_that_was_sealed_is_not_taken_for_one_that_happened(url: str) -> None:
    """Also where the answer to the seal's own commit was lost, and it is asked again."""
    with opened(url) as database:
        insert(database.begin(), [1])
        database.rollback()
        with psycopg.connect(url, autocommit=True) as another:
            assert database._seal(another, database._backend) is False  # noqa: SLF001 - as it is asked
            assert database._seal(another, database._backend) is False  # noqa: SLF001 - and again


@pytest.mark.usefixtures("at_once")
def test_what_only_hints_is_told_too_and_a_hidden_failure_is_said_as_such(url: str) -> None:
    def failing(tx: Any, ids: list[int]) -> list[int]:
        tx.hint("due")
        with suppress(DatabaseError):
            tx.read("select 1 / 0")
        return ids

    with psycopg.connect(url, autocommit=True) as listener, writing(url) as writer:
        listener.execute("listen duework")
        writer.call(lambda tx, items: [tx.hint("due") for _ in items], [None])
        told = [each.payload for each in listener.notifies(timeout=5, stop_after=1)]

        assert told == ["due"]
        with pytest.raises(DatabaseError, match="had failed, so all of it was rolled back"):
            writer.call(failing, [1])


@pytest.mark.usefixtures("at_once")
def test_a_hint_comes_with_the_commit_and_not_without(url: str) -> None:
    def undone(tx: Any, ids: list[int]) -> list[int]:
        place(tx, ids)
        raise ValueError

    def twice(tx: Any, ids: list[int]) -> list[int]:
        tx.hint("cancel")
        return place(tx, ids)

    with psycopg.connect(url, autocommit=True) as listener, writing(url) as writer:
        listener.execute("listen duework")
        for verb, number in ((place, 1), (place, 2), (undone, 3), (twice, 4)):
            with suppress(ValueError):
                writer.call(verb, [number])
        told = [each.payload for each in listener.notifies(timeout=5, stop_after=4)]

    assert told == ["due", "due", "cancel", "due"]


def test_savepoints_take_no_round_trips_of_their_own(url: str) -> None:
    with proxy(url) as between, opened(between.url) as database:
        tx = database.begin()
        before = between.round_trips
        for number in range(10):
            with tx.savepoint(2000):
                insert(tx, [number])
        database.commit(tx)

        assert between.round_trips - before == 11
    assert stored(url) == list(range(10))


def test_marks_do_not_pile_up(db: PostgresDatabase, url: str) -> None:
    writer = Writer(db)
    for number in range(20):
        writer.call(insert, [number])
        with suppress(DatabaseError):
            writer.call(insert, [number])

    with psycopg.connect(url) as own:
        assert own.execute("select count(*) from duework_mark").fetchall() == [(1,)]


def runs_when_cut(url: str, verb: Any, where: Cut, word: bytes | None = None) -> int:
    """How often a verb ran whose commit was cut off; it has happened once, and so has the next."""
    runs = []

    def counted(tx: Any, ids: list[int]) -> list[int]:
        runs.append(ids)
        answer: list[int] = verb(tx, ids)
        return answer

    with proxy(url) as between, writing(between.url) as writer:
        first = len(stored(url))
        writer.call(verb, [first])
        between.cut_at(where, word)

        assert writer.call(counted, [first + 1]) == [first + 1]
        assert writer.call(verb, [first + 2]) == [first + 2]
        assert between.cuts == 1

    assert stored(url) == list(range(first + 3))
    return len(runs)


def test_a_lost_commit_is_decided_and_happens_once(url: str) -> None:
    # What was not committed ran again; what was, did not.
    assert runs_when_cut(url, insert, "before commit") == 2
    assert runs_when_cut(url, insert, "after commit") == 1


def test_a_group_that_outlasts_the_close_is_not_answered_as_committed(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "PATIENCE", 0.1)
    database = PostgresDatabase(url)
    writer = Writer(database)
    writer.call(insert, [0])

    def slow(tx: Any, ids: list[int]) -> list[int]:
        insert(tx, ids)
        tx.read("select pg_sleep(0.6)")
        return ids

    with ThreadPoolExecutor() as pool:
        answer = pool.submit(writer.call, slow, [1])
        until(writer._busy.locked)  # noqa: SLF001 - it is at work
        pause(0.2)
        writer.close()
        database.close()
        with suppress(DatabaseError, UsageError):
            answer.result(20)
            assert stored(url) == [0, 1], "it was said to have happened"


@pytest.mark.usefixtures("at_once")
def test_a_connection_with_a_pipeline_left_behind_is_not_used_again(url: str) -> None:
    with opened(url) as database:
        writer = Writer(database)
        writer.call(place, [0])
        left = database._writer  # noqa: SLF001 - as an interrupt leaves it
        assert left is not None
        left._pipeline = psycopg.Pipeline(left)  # noqa: SLF001

        assert writer.call(place, [1]) == [1]
        assert database._writer is not left  # noqa: SLF001
        writer.close()
    assert stored(url) == [0, 1]


def test_a_commit_that_cannot_be_looked_for_is_unknown(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "DECIDE_SECONDS", 0.5)
    with proxy(url) as between, writing(between.url) as writer:
        writer.call(insert, [0])

        def and_gone(tx: Any, ids: list[int]) -> list[int]:
            insert(tx, ids)
            between.close()
            return ids

        with pytest.raises(Unknown, match="cannot be looked for"):
            writer.call(and_gone, [1])


def test_a_lost_commit_of_a_block_is_unknown(url: str) -> None:
    with proxy(url) as between, opened(between.url) as database:
        between.cut_at("after commit")
        with pytest.raises(Unknown, match="during the commit"), database.transaction() as tx:
            insert(tx, [1])

    assert stored(url) == [1]


def test_the_number_of_a_lost_transaction_can_be_another_ones_after_a_crash(
    pg: Server, url: str
) -> None:
    """Why a mark decides a lost COMMIT, and not `pg_xact_status`."""
    lost = psycopg.connect(url)
    number = lost.execute("select pg_current_xact_id()::text").fetchall()[0][0]
    pg.stop("immediate")
    pg.start()
    with psycopg.connect(url, autocommit=True) as other:
        for other_number in range(1, 10):
            other.execute("insert into thing values (%s, 'another one')", [other_number])
        answer = other.execute("select pg_xact_status(%s::xid8)", [number]).fetchall()[0][0]
    lost.close()

    assert answer == "committed"


def test_a_partition_is_noticed_in_seconds(url: str) -> None:
    with proxy(url) as between, opened(between.url) as database:
        insert(tx := database.begin(), [1])
        database.commit(tx)
        tx = database.begin()
        between.partition()
        started = monotonic()
        with pytest.raises(Retryable, match="was lost"):
            insert(tx, [2])
        took = monotonic() - started
        database.rollback()
        between.heal()
        tx = database.begin()
        insert(tx, [3])
        database.commit(tx)

    assert 3 < took < 20
    assert stored(url) == [1, 3]


def test_a_frozen_server_is_noticed(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "ANSWER_SECONDS", 0.5)
    with proxy(url) as between, writing(between.url) as writer:
        writer.call(insert, [1])
        between.freeze()
        started = monotonic()
        timer = threading.Timer(1, between.thaw)
        timer.start()

        assert writer.call(insert, [2], patience=30) == [2]
        assert monotonic() - started < 25
        timer.join()

    assert stored(url) == [1, 2]


def test_a_read_from_a_frozen_server_ends(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "ANSWER_SECONDS", 0.5)
    monkeypatch.setattr(postgres, "TRIFLE_SECONDS", 0.3)
    monkeypatch.setitem(postgres_connect.CONNECTING, "connect_timeout", 2)
    with proxy(url) as between:
        app = App(between.url)
        with app.wiring.engine.database.reading(), app.wiring.engine.database.reading():
            """Two idle connections: one wait does for both."""
        between.freeze()
        began = monotonic()
        with pytest.raises(Unavailable):
            app.read("select 1 as one")
        took = monotonic() - began
        with pytest.raises(Unavailable):
            app.wiring.engine.database.now()
        between.thaw()

        [row] = app.read("select 1 as one")

        app.close()
    assert took < 9
    assert row.one == 1


def test_a_server_that_freezes_within_a_read_ends_it(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "ANSWER_SECONDS", 0.5)
    with proxy(url) as between, opened(between.url) as database:
        began = monotonic()
        with pytest.raises(Unavailable, match="no answer"), database.reading() as view:
            between.freeze()
            view.read("select 1 as one")
        took = monotonic() - began
        between.thaw()

        with database.reading() as view:
            [row] = view.read("select 1 as one")

    assert took < 20
    assert row.one == 1


def test_calls_survive_crashes_of_the_server_and_happen_once(pg: Server, url: str) -> None:
    """Two writers, so that one may be given the transaction number that the other one lost."""
    numbers, stop = count(), threading.Event()
    answered: list[int] = []
    problems: list[BaseException] = []

    def work(writer: Writer) -> None:
        while not stop.is_set():
            number = next(numbers)
            try:
                answered.extend(writer.call(insert, [number], patience=60))
            except BaseException as error:  # noqa: BLE001 - shown below
                problems.append(error)
                return

    def more(some: int) -> None:
        enough = len(answered) + some
        until(lambda: len(answered) > enough or bool(problems), 60)

    with writing(url) as first, writing(url) as second:
        threads = [threading.Thread(target=work, args=(w,)) for w in (first, second) * 2]
        for thread in threads:
            thread.start()
        for _ in range(4):
            more(100)
            pg.stop("immediate")
            pg.start()
        more(50)
        stop.set()
        for thread in threads:
            thread.join(60)

    assert problems == []
    assert stored(url) == sorted(answered)


# --- notifications


def test_notifications_are_heard_and_a_reconnect_is_told(pg: Server, url: str) -> None:
    heard: list[str] = []
    listener = Listener(url, heard.append)
    try:
        until(lambda: listener.healthy)
        with psycopg.connect(url, autocommit=True) as own:
            own.execute("select pg_notify('duework', 'a'), pg_notify('other', 'b')")
            own.execute("select pg_notify('duework', 'c')")
        until(lambda: len(heard) == 2)
        pg.stop("immediate")
        until(lambda: not listener.healthy)
        pg.start()
        until(lambda: "reconnected" in heard)

        assert listener.healthy
        assert heard == ["a", "c", "reconnected"]
    finally:
        started = monotonic()
        listener.close()
    assert monotonic() - started < 8
    assert not listener.healthy


def test_a_listener_can_be_closed_while_there_is_no_server() -> None:
    listener = Listener("postgresql://me@127.0.0.1:1/x", lambda _: None)
    assert not listener.healthy

    listener.close()
    listener.close()


def test_importing_does_not_load_a_driver() -> None:
    code = "import sys, duework, duework.db.urls; print('psycopg' in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert result.stdout.strip() == "False"


def test_the_server_notices_that_a_client_was_cut_off_whatever_it_was_doing(
    db: PostgresDatabase,
) -> None:
    names = ["tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count"]
    show = "select " + ", ".join(f"current_setting('{name}')::int as {name}" for name in names)
    idle = "select current_setting('idle_in_transaction_session_timeout') as t"

    with db.reading() as tx:
        reader, limit = tx.read(show)[0], tx.read(idle)[0].t
    with db.transaction() as tx:
        user = tx.read(show)[0]
    with db.connect() as connection:
        own = connection.execute(show.encode()).fetchone()

    assert limit == "1min"
    for first, between, times in (reader, user, own):
        assert first + between * times < 15
