"""What `using(…)` takes, and enqueueing in all its ways."""

from __future__ import annotations

import asyncio
import sqlite3
from datetime import UTC, datetime
from typing import Any

import pytest

from duework import (
    App,
    Conflict,
    InvalidArguments,
    NotFound,
    PayloadTooLarge,
    Snooze,
    Task,
    UsageError,
)
from duework.errors import DatabaseError
from duework.kernel.facts import Fact, JobSettled
from duework.testing import Harness


@pytest.fixture
def greet(harness: Harness) -> Task[..., str, Any]:
    @harness.app.task
    async def greet(name: str = "ada") -> str:
        return name

    return greet


def count(app: App) -> int:
    return int(app.read("select count(*) as n from duework_job")[0].n)


def test_a_second_enqueue_with_an_open_key_returns_the_first_job(
    harness: Harness, greet: Task[..., str, Any]
) -> None:
    first = greet.using(key="k").enqueue("ada")
    second = greet.using(key="k").enqueue("bob")

    assert (first.existed, second.existed, second.id) == (False, True, first.id)
    assert count(harness.app) == 1


def test_once_holds_for_its_length_and_no_longer(
    harness: Harness, greet: Task[..., str, Any]
) -> None:
    first = greet.using(key="k", once="2d").enqueue()
    harness.advance("47h")
    second = greet.using(key="k", once="2d").enqueue()
    harness.advance("1h")
    third = greet.using(key="k", once="2d").enqueue()

    assert (second.id, second.existed) == (first.id, True)
    assert not third.existed


def test_once_forever_holds_after_the_job_was_pruned(
    harness: Harness, greet: Task[..., str, Any]
) -> None:
    first = greet.using(key="k", once="forever").enqueue()
    harness.drain()
    harness.app.worker()
    harness.clock.move_to(harness.now + 8 * 86_400_000)
    harness.drain()
    with pytest.raises(NotFound):
        harness.app.job(first.id)

    second = greet.using(key="k", once="forever").enqueue()

    assert (second.id, second.existed) == (first.id, True)


def test_replace_changes_the_arguments_of_a_waiting_job(
    harness: Harness, greet: Task[..., str, Any]
) -> None:
    job = greet.using(key="k", delay="1h").enqueue("ada")

    greet.using(key="k", delay="2h", replace=True).enqueue("bob")
    harness.advance("1h")
    assert job.refresh().state == "open"
    harness.advance("1h")

    assert job.refresh().result == "bob"


def test_when_running_again_runs_once_more_with_the_new_arguments(harness: Harness) -> None:
    seen: list[int] = []

    @harness.app.task
    async def index(n: int) -> int:
        seen.append(n)
        if n < 3:
            await index.using(key="k", when_running="again").aenqueue(n + 1)
        return n

    job = index.using(key="k").enqueue(1)
    harness.drain()

    assert seen == [1, 2, 3]
    assert (job.refresh().state, job.refresh().result) == ("done", 3)


def test_a_delay_and_a_time_are_kept(harness: Harness, greet: Task[..., str, Any]) -> None:
    at = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)
    jobs = [
        greet.using(at=at).enqueue(),
        greet.using(at=at.isoformat()).enqueue(),
        greet.using(at="2026-01-01T13:30:00+01:00").enqueue(),
        greet.using(delay="12h 30m").enqueue(),
        greet.using(delay=45_000).enqueue(),
    ]

    assert {job.refresh().due_at for job in jobs} == {at}
    harness.advance("12h 29m 59s")
    assert {job.refresh().state for job in jobs} == {"open"}
    harness.advance("1s")
    assert {job.refresh().state for job in jobs} == {"done"}


def test_an_expired_job_is_cancelled_and_never_run(
    harness: Harness, greet: Task[..., str, Any]
) -> None:
    harness.app.pause()
    late = greet.using(expires="1h").enqueue()
    fresh = greet.using(delay="30m", expires="1h").enqueue()
    harness.advance("1h")
    harness.app.resume()
    harness.drain()

    assert (late.refresh().state, fresh.refresh().state) == ("cancelled", "done")
    assert "expired" in str(late.refresh().error)


@pytest.mark.parametrize(("keep_failed", "left"), [(None, 1), (0, 0)])
def test_a_job_that_fails_until_it_expires_is_among_the_failed(
    harness: Harness, keep_failed: Any, left: int
) -> None:
    app, facts, told = harness.app, list[Fact](), list[str]()
    app.on_fact(facts.append)

    @app.task(retries=50, backoff="1h", keep_failed=keep_failed)
    async def sync() -> None:
        raise ValueError("no")

    @sync.settled
    def after(tx: Any, job: Any, outcome: str) -> None:
        told.append(outcome)

    job = sync.using(expires="3h").enqueue()
    harness.advance("10h")

    assert told == ["failed"]
    last = [each for each in facts if isinstance(each, JobSettled) and each.job == job.id][-1]
    assert (last.kind, last.task) == ("failed", "sync")
    assert str(last.error).splitlines()[0] == "ValueError: no"
    failed = app.jobs(phase="failed")
    assert len(failed) == left
    for each in failed:
        assert (each.id, each.failures) == (job.id, 3)
        assert str(each.error).splitlines()[-1] == "it expired before its next retry"


def test_a_job_that_was_only_put_off_expires_as_cancelled(harness: Harness) -> None:
    @harness.app.task
    async def wait() -> Snooze:
        return Snooze("1h")

    job = wait.using(expires="3h").enqueue()
    harness.advance("10h")

    assert (job.refresh().state, job.refresh().failures) == ("cancelled", 0)


def test_serial_jobs_run_one_at_a_time_in_order_through_retries(harness: Harness) -> None:
    log: list[str] = []

    @harness.app.task(retries=1, backoff="1m")
    async def step(n: int) -> None:
        log.append(f"start {n}")
        await asyncio.sleep(0)
        if n == 2 and log.count("start 2") == 1:
            raise ValueError("once")
        log.append(f"end {n}")

    for n in (1, 2, 3):
        step.using(serial="user:7").enqueue(n)
    harness.advance("5m")

    assert log == ["start 1", "end 1", "start 2", "start 2", "end 2", "start 3", "end 3"]


def test_after_runs_when_that_job_is_done(harness: Harness, greet: Task[..., str, Any]) -> None:
    first = greet.using(delay="1h").enqueue("ada")
    second = greet.using(after=first).enqueue("bob")
    third = greet.using(after=second.id).enqueue("cy")

    harness.drain()
    assert second.refresh().phase == "waiting"
    harness.advance("1h")

    assert [job.refresh().state for job in (first, second, third)] == ["done"] * 3


def test_after_a_cancelled_job_nothing_can_run(
    harness: Harness, greet: Task[..., str, Any]
) -> None:
    first = greet.enqueue()
    waiting = greet.using(after=first).enqueue()

    first.cancel()

    assert waiting.refresh().state == "cancelled"
    with pytest.raises(Conflict):
        greet.using(after=first).enqueue()
    with pytest.raises(NotFound):
        greet.using(after=4711).enqueue()


def test_enqueue_many_is_one_transaction(harness: Harness, greet: Task[..., str, Any]) -> None:
    jobs = greet.enqueue_many([("ada",), (), ("bob",)])
    harness.drain()

    assert [job.refresh().result for job in jobs] == ["ada", "ada", "bob"]


def test_enqueue_many_is_all_or_nothing(harness: Harness, greet: Task[..., str, Any]) -> None:
    wrong: list[Any] = [("a", "b"), (7,), "ada", None, [], ["ada"]]
    for each in wrong:
        with pytest.raises(UsageError):
            greet.enqueue_many([("ada",), each, ("bob",)])

    assert count(harness.app) == 0


def test_a_list_that_fails_in_the_database_leaves_nothing(
    harness: Harness, greet: Task[..., str, Any]
) -> None:
    with pytest.raises(NotFound):
        greet.using(after=4711).enqueue_many([("ada",), ("bob",)])

    assert count(harness.app) == 0


def test_enqueueing_from_async_code(harness: Harness, greet: Task[..., str, Any]) -> None:
    async def program() -> list[str]:
        one = await greet.aenqueue("ada")
        many = await greet.using(delay="1m").aenqueue_many([("bob",), ("cy",)])
        return [job.arguments["name"] for job in (one, *many)]

    assert asyncio.run(program()) == ["ada", "bob", "cy"]
    assert count(harness.app) == 3


def test_using_can_be_narrowed_step_by_step(harness: Harness, greet: Task[..., str, Any]) -> None:
    job = greet.using(queue="mail").using(priority=4).using(delay="1m").enqueue()

    seen = job.refresh()
    assert (seen.queue, seen.priority, seen.due) == ("mail", 4, harness.now + 60_000)


NONSENSE: list[tuple[dict[str, Any], str]] = [
    ({"dealy": "1m"}, "dealy"),
    ({"delay": "1m", "at": 5}, "not both"),
    ({"once": "2d"}, "key"),
    ({"replace": True}, "key"),
    ({"when_running": "again"}, "key"),
    ({"key": "k", "when_running": "never"}, "again"),
    ({"priority": 10}, "priority"),
    ({"priority": "high"}, "priority"),
    ({"queue": "no spaces"}, "queue"),
    ({"key": ""}, "key"),
    ({"key": 7}, "key"),
    ({"key": "x" * 501}, "key"),
    ({"key": "a\0b"}, "key"),
    ({"key": "\ud800"}, "key"),
    ({"serial": "a\0b"}, "serial"),
    ({"delay": "soon"}, "soon"),
    ({"delay": -1}, "negative"),
    ({"delay": float("nan")}, "nan"),
    ({"delay": float("inf")}, "inf"),
    ({"delay": "9" * 400 + "w"}, "at most 100 characters"),
    ({"delay": True}, "duration"),
    ({"at": "tomorrow"}, "tomorrow"),
    ({"at": datetime(2026, 1, 1)}, "time zone"),  # noqa: DTZ001 - naive on purpose
    ({"at": 1.5}, "1.5"),
    ({"at": 10**30}, "time"),
    ({"expires": "later"}, "later"),
    ({"key": "k", "once": "always"}, "always"),
]


def test_options_that_make_no_sense_are_named_and_nothing_is_written(
    harness: Harness, greet: Task[..., str, Any]
) -> None:
    for options, named in NONSENSE:
        with pytest.raises(UsageError, match=named):
            greet.using(**options).enqueue()

    assert count(harness.app) == 0


def test_the_payload_may_be_as_large_as_the_limit_and_not_a_byte_more(harness: Harness) -> None:
    @harness.app.task
    async def store(text: str) -> int:
        return len(text)

    frame = len('{"text":""}')
    fits = store.enqueue("x" * (1024 * 1024 - frame))
    with pytest.raises(PayloadTooLarge, match="1,048,577"):
        store.enqueue("x" * (1024 * 1024 - frame + 1))
    harness.drain()

    assert fits.refresh().result == 1024 * 1024 - frame
    assert count(harness.app) == 1


def test_the_limit_counts_bytes_and_can_be_chosen(harness: Harness) -> None:
    @harness.app.task(payload_limit=20)
    async def store(text: str) -> None: ...

    store.enqueue("x" * 9)
    store.enqueue("éééé")
    for text in ("x" * 10, "ééééé"):
        with pytest.raises(PayloadTooLarge):
            store.enqueue(text)

    assert count(harness.app) == 2


def test_a_wrong_argument_is_named_and_nothing_is_written(harness: Harness) -> None:
    @harness.app.task
    async def pay(user: int, amount: float = 1.0) -> None: ...

    bad: list[tuple[str, Any]] = [
        ("user", lambda: pay.enqueue("seven")),  # type: ignore[arg-type]
        ("amount", lambda: pay.enqueue(7, amount="much")),  # type: ignore[arg-type]
        ("user", pay.enqueue),
        ("sum", lambda: pay.enqueue(7, sum=3)),  # type: ignore[call-arg]
        ("too many", lambda: pay.enqueue(7, 1.0, 3)),  # type: ignore[call-arg]
    ]
    for named, call in bad:
        with pytest.raises(InvalidArguments, match=named):
            call()

    assert count(harness.app) == 0


# --- inside the caller's own transaction


def own_table(app: App) -> None:
    with app.transaction() as tx:
        tx.write("create table invoice (id bigint primary key)")


def test_a_job_enqueued_on_the_callers_connection_commits_with_it(
    harness: Harness, greet: Task[..., str, Any]
) -> None:
    own_table(harness.app)
    connection = harness.app.connect()
    try:
        connection.execute("begin")
        connection.execute("insert into invoice (id) values (7)")
        job = greet.using(connection=connection).enqueue("ada")
        assert count(harness.app) == 0
        connection.execute("commit")
    finally:
        connection.close()
    harness.drain()

    assert job.refresh().result == "ada"


def test_a_job_enqueued_on_the_callers_connection_is_rolled_back_with_it(
    harness: Harness, greet: Task[..., str, Any]
) -> None:
    own_table(harness.app)
    connection = harness.app.connect()
    try:
        connection.execute("begin")
        connection.execute("insert into invoice (id) values (7)")
        jobs = greet.using(connection=connection, key="k").enqueue_many([("ada",), ("bob",)])
        assert (jobs[0].existed, jobs[1].existed) == (False, True)
        connection.execute("rollback")
    finally:
        connection.close()

    assert count(harness.app) == 0
    assert harness.app.read("select * from invoice") == []
    assert not greet.using(key="k").enqueue().existed


def test_aenqueue_takes_the_callers_connection_too(
    harness: Harness, greet: Task[..., str, Any]
) -> None:
    connection = harness.app.connect()
    try:
        connection.execute("begin")
        asyncio.run(greet.using(connection=connection).aenqueue("ada"))
        connection.execute("commit")
    finally:
        connection.close()

    assert count(harness.app) == 1


def test_a_connection_of_another_kind_is_refused(
    harness: Harness, greet: Task[..., str, Any]
) -> None:
    with pytest.raises(UsageError, match="connection"):
        greet.using(connection=object()).enqueue()


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_stdlib_connection_serves_where_this_process_has_not_opened_the_file(
    tmp_path: Any, end: str
) -> None:
    url = f"sqlite:///{tmp_path / 'work.db'}"
    _migrate_elsewhere(url)
    app = App(url)

    @app.task
    async def greet(name: str) -> str:
        return name

    connection = sqlite3.connect(tmp_path / "work.db")
    try:
        connection.execute("create table invoice (id integer primary key)")
        connection.execute("begin")
        connection.execute("insert into invoice values (7)")
        greet.using(connection=connection, key="k").enqueue("ada")
        again = greet.using(connection=connection, key="k").enqueue("ada")
        getattr(connection, end)()
        jobs = connection.execute("select count(*) from duework_job").fetchone()[0]
        rows = connection.execute("select count(*) from invoice").fetchone()[0]
    finally:
        connection.close()

    assert again.existed
    assert (jobs, rows) == ((1, 1) if end == "commit" else (0, 0))


def test_a_stdlib_connection_beside_ours_is_refused(tmp_path: Any) -> None:
    path = tmp_path / "work.db"
    app = App(f"sqlite:///{path}")

    @app.task
    async def greet(name: str) -> str:
        return name

    greet.enqueue("ada")
    try:
        with pytest.raises(UsageError, match=r"app\.connect"):
            sqlite3.connect(path)
    finally:
        app.close()


def _migrate_elsewhere(url: str) -> None:
    """Make the database in a process of its own, as a worker would have."""
    import subprocess
    import sys

    program = "import sys; from duework import App; app = App(sys.argv[1]); app.wiring.engine; app.close()"
    subprocess.run([sys.executable, "-c", program, url], check=True)


def test_errors_of_the_driver_do_not_leave_the_database_layer(harness: Harness) -> None:
    with pytest.raises(DatabaseError):
        harness.app.read("select * from nowhere")
