"""What a PostgreSQL server can do to us: typed errors or parked, one line that says what to do."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from duework import App, DatabaseError, Error, Run, Unavailable
from duework.db.postgres import tx as postgres_tx
from duework.db.postgres.database import AT_ONCE_SECONDS
from duework.kernel.facts import JobBlocked, JobSettled, LeaseWasLost, Parked, Resumed
from tests.support.postgres import Server
from tests.support.proxy import proxy
from tests.support.working import eventually, working


@pytest.fixture
def kind() -> str:
    return "postgres"


@pytest.fixture
def name(url: str) -> str:
    return url.partition("?")[0].rpartition("/")[2]


@pytest.fixture
def admin(postgres: Server) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        yield connection


def define(app: App) -> Any:
    @app.task
    async def greet(who: str = "ada") -> str:
        return who

    return greet


def one_line(raised: pytest.ExceptionInfo[Error]) -> str:
    assert "\n" not in str(raised.value)
    return str(raised.value)


def end_others(admin: psycopg.Connection[Any], name: str) -> None:
    """Cut all connections to a database, so that new settings take hold."""
    admin.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", [name]
    )


def test_a_read_only_database_is_a_typed_error_and_parks_the_worker(
    url: str, name: str, admin: psycopg.Connection[Any]
) -> None:
    app = App(url)
    greet = define(app)
    with working(app) as running:
        greet.enqueue().wait("10s")
        admin.execute(f'alter database "{name}" set default_transaction_read_only = on')
        end_others(admin, name)

        with pytest.raises(Unavailable, match="read-only") as raised:
            greet.enqueue()
        eventually(lambda: running.told(Parked))
        admin.execute(f'alter database "{name}" reset default_transaction_read_only')
        end_others(admin, name)
        job = greet.enqueue("later").wait("10s")
        eventually(lambda: running.told(Resumed))

    assert "standby" in one_line(raised)
    assert job.result == "later"
    assert running.error is None
    assert len(app.jobs(task="greet")) == 2
    app.close()


@pytest.mark.parametrize("style", ["German", "SQL, DMY", "Postgres"])
def test_a_role_that_writes_dates_in_its_own_way_is_understood(
    url: str, name: str, admin: psycopg.Connection[Any], style: str
) -> None:
    admin.execute(f"alter database \"{name}\" set datestyle = '{style}'")
    app = App(url)
    greet = define(app)

    with working(app) as running:
        assert greet.enqueue("later").wait("10s").result == "later"
        [row] = app.read("select timestamptz '2026-11-18 12:00+00' as at, date '2026-02-01' as day")
        with app.transaction() as tx:
            again = tx.read("select timestamptz '2026-11-18 12:00+00' as at")[0]

    assert (row.at.day, row.day.month, again.at) == (18, 2, row.at)
    assert running.error is None
    app.close()


def test_a_date_that_cannot_be_read_is_a_typed_error(url: str) -> None:
    own_wish = App(f"{url}{'&' if '?' in url else '?'}options=-c%20datestyle%3DGerman")
    plain = App(url)

    for app, query in (
        (own_wish, "select now()"),
        (plain, "select 'infinity'::timestamptz"),
        (plain, "select '12026-01-01'::date"),
    ):
        with pytest.raises(DatabaseError):
            app.read(query)

    assert define(own_wish).enqueue().id
    own_wish.close()
    plain.close()


def test_a_wrong_password_is_said_without_the_password(url: str) -> None:
    secret = url.partition("//")[2].partition("@")[0].partition(":")[2]
    wrong = url.replace(secret, "hunter2")

    with pytest.raises(Unavailable, match="check the user and the password") as raised:
        App(wrong).jobs()

    assert "hunter2" not in one_line(raised)
    assert "hunter2" not in repr(raised.value.__cause__)


def test_a_database_that_is_not_there_is_named(url: str, name: str) -> None:
    with pytest.raises(Unavailable, match="create it, or correct the URL") as raised:
        App(url.replace(name, "nowhere")).jobs()

    assert '"nowhere" does not exist' in one_line(raised)


def test_no_connection_to_spare_is_said_so_and_passes(
    url: str, name: str, admin: psycopg.Connection[Any]
) -> None:
    admin.execute("drop role if exists limited")
    admin.execute("create role limited login password 'x' connection limit 0")
    admin.execute(f'grant all on database "{name}" to limited')
    host = url.partition("@")[2]
    limited = f"postgresql://limited:x@{host}"

    with pytest.raises(Unavailable, match="raise the limit") as raised:
        App(limited).jobs()

    assert one_line(raised)
    admin.execute(f'revoke all on database "{name}" from limited')
    admin.execute("drop role limited")


def test_a_statement_that_an_administrator_cancels_is_run_again(
    url: str, name: str, admin: psycopg.Connection[Any]
) -> None:
    app = App(url)
    greet = define(app)
    greet.enqueue()
    calls: list[int] = []

    def slow(tx: Any, items: list[int]) -> list[int]:
        calls.append(1)
        if len(calls) == 1:
            tx.read("select pg_sleep(20)")
        return items

    answers: list[Any] = []
    thread = threading.Thread(
        target=lambda: answers.append(app.wiring.engine.writer.call(slow, [7]))
    )
    thread.start()
    eventually(lambda: _cancel(admin, name))
    thread.join(10)

    assert answers == [[7]]
    assert greet.enqueue("after")
    app.close()


def _cancel(admin: psycopg.Connection[Any], name: str) -> bool:
    found = admin.execute(
        """select pg_cancel_backend(pid) from pg_stat_activity
           where datname = %s and query like '%%pg_sleep(20)%%' and state = 'active'
             and pid <> pg_backend_pid()""",
        [name],
    ).fetchall()
    return bool(found)


def test_a_lock_that_somebody_keeps_is_a_typed_error(
    url: str, name: str, admin: psycopg.Connection[Any]
) -> None:
    app = App(f"{url}{'&' if '?' in url else '?'}options=-clock_timeout%3D500ms")
    greet = define(app)
    greet.enqueue()
    with psycopg.connect(url) as holder:
        holder.execute("lock table duework_job in access exclusive mode")

        with pytest.raises(Unavailable, match="held a lock for too long") as raised:
            greet.enqueue()

        holder.rollback()
    assert one_line(raised)
    assert greet.enqueue("after")
    assert len(app.jobs(task="greet")) == 2
    app.close()


@pytest.fixture
def counted(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[App, Any, list[int]]]:
    """A task with no retries that adds to a row of the user's own, and which rows it was run for."""
    monkeypatch.setattr(postgres_tx, "LOCK_MS", 200)
    app, ran = App(url), list[int]()
    with app.transaction() as tx:
        tx.write("create table counter (id bigint primary key, n bigint not null)")
        tx.write("insert into counter values (1, 0), (2, 0)")

    @app.task
    async def add(run: Run, row: int) -> None:
        ran.append(row)
        run.write("update counter set n = n + 1 where id = :row", row=row)

    yield app, add, ran
    app.close()


def counts(app: App) -> list[int]:
    return [row.n for row in app.read("select n from counter order by id")]


def test_a_job_that_writes_to_a_locked_row_is_settled_once_it_is_free_and_holds_up_no_other(
    url: str, counted: tuple[App, Any, list[int]]
) -> None:
    app, add, ran = counted
    with psycopg.connect(url) as holder, working(app) as running:
        holder.execute("select * from counter where id = 1 for update")
        waits = add.enqueue(1)
        eventually(lambda: running.told(JobBlocked))
        others = [add.enqueue(2) for _ in range(3)]
        eventually(lambda: all(each.refresh().state == "done" for each in others))
        assert waits.refresh().phase == "running"

        holder.rollback()

        eventually(lambda: waits.refresh().state == "done")
        assert [fact.job for fact in running.told(JobBlocked)] == [waits.id]
    assert (counts(app), ran) == ([1, 3], [1, 2, 2, 2])


def test_a_worker_that_stops_hands_back_what_it_could_not_settle(
    url: str, counted: tuple[App, Any, list[int]]
) -> None:
    app, add, ran = counted
    with psycopg.connect(url) as holder:
        holder.execute("select * from counter where id = 1 for update")
        with working(app) as running:
            job = add.enqueue(1)
            eventually(lambda: running.told(JobBlocked))
        found = job.refresh()
        assert (found.phase, found.failures) == ("ready", 0)
    with working(app):
        eventually(lambda: job.refresh().state == "done")

    assert (counts(app), ran) == ([1, 0], [1, 1])


@pytest.mark.parametrize("trouble", ["partition", "freeze"])
def test_handlers_are_told_before_their_lease_can_be_taken_elsewhere(
    url: str, trouble: str
) -> None:
    """A partition cuts off; a frozen server or proxy still acknowledges and never answers."""
    lease = 6.0
    with proxy(url) as between:
        app = App(between.url, lease=f"{lease}s")
        told: list[float] = []

        @app.task
        def watch(run: Run) -> None:
            while not run.cancelled:
                time.sleep(0.01)
            told.append(time.monotonic())

        with working(app) as running:
            job = watch.enqueue()
            eventually(lambda: app.jobs(phase="running"))
            time.sleep(0.1)

            getattr(between, trouble)()
            # The last extension may be this old when the trouble begins: at worst just now.
            began = time.monotonic()
            eventually(lambda: told, lease + 5)
            eventually(lambda: running.told(LeaseWasLost))
            if trouble == "partition":
                eventually(lambda: running.told(Parked), 10)
            between.heal() if trouble == "partition" else between.thaw()

            assert told[0] - began < lease, "somebody else may run it by now"
            eventually(lambda: app.job(job.id).fence > 1 or len(told) > 1, 40)
    app.close()


def test_a_partition_is_noticed_and_survived_without_a_restart(url: str) -> None:
    with proxy(url) as between:
        app = App(between.url)
        greet = define(app)
        with working(app) as running:
            greet.enqueue().wait("10s")
            # Right after an answer it is written and committed in one go, and then looked for.
            time.sleep(10 * AT_ONCE_SECONDS)
            between.partition()
            began = time.monotonic()

            with pytest.raises(Unavailable) as raised:
                greet.enqueue("lost")
            noticed = time.monotonic() - began
            between.heal()
            job = greet.enqueue("after").wait("20s")

        assert noticed < 12
        assert one_line(raised)
        assert job.result == "after"
        assert running.error is None
        assert len(running.told(JobSettled)) == 2
        app.close()
