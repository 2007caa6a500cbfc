"""The harness: virtual time, crashes at will, and an App that is as it was afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from duework import App, Cancel, Run
from duework.testing import Harness, WorkerCrashed, doomed


@pytest.fixture
def server(kind: str, request: pytest.FixtureRequest) -> str | None:
    return request.getfixturevalue("postgres").dsn if kind == "postgres" else None


def test_the_app_is_as_it_was_afterwards(server: str | None, url: str) -> None:
    app = App(url)

    @app.task
    async def greet() -> None: ...

    real = greet.enqueue()
    with Harness(app, url=server) as h:
        greet.enqueue()
        h.drain()
        assert [job.id for job in app.jobs()] == [1]
        assert app.now() == h.now

    assert [job.id for job in app.jobs()] == [real.id]
    assert real.refresh().state == "open"
    assert abs(app.now() - real.seen_at) < 60_000
    app.close()


def test_the_app_is_as_it_was_also_when_setting_up_fails(url: str, server: str | None) -> None:
    app = App(url)

    def broken() -> None:
        raise LookupError("no tables")

    with pytest.raises(LookupError), Harness(app, setup=broken, url=server):
        pass

    assert app.url == App(url).url
    assert app.jobs() == []
    app.close()


def test_setup_may_take_the_app_or_nothing(server: str | None) -> None:
    app = App("sqlite:///never-opened.db")
    called: list[str] = []

    def with_app(given: App) -> None:
        with given.transaction() as tx:
            tx.write("create table note (n integer)")

    with Harness(app, setup=with_app, url=server):
        assert app.read("select * from note") == []
    with Harness(app, setup=lambda: called.append("called"), url=server):
        assert called == ["called"]


def test_time_begins_where_it_is_told_and_stands_still(harness: Harness) -> None:
    app = App("sqlite:///never-opened.db")
    with Harness(app, now="2026-03-29T00:59:00+01:00") as h:
        assert h.now == app.now() == 1_774_742_340_000
        h.advance("1h 30m")
        assert h.now == app.now() == 1_774_742_340_000 + 5_400_000


def test_everything_on_the_way_runs_at_its_time_in_order(harness: Harness) -> None:
    begin, seen = harness.now, []

    @harness.app.task
    async def note(run: Run, n: int) -> None:
        seen.append((n, run.now - begin))
        if n == 1:
            run.enqueue(note.using(delay="30s"), 4)

    for n, delay in ((3, "3m"), (1, "1m"), (2, "2m")):
        note.using(delay=delay).enqueue(n)
    harness.advance("1h")

    assert seen == [(1, 60_000), (4, 90_000), (2, 120_000), (3, 180_000)]


def test_it_works_inside_async_tests(harness: Harness) -> None:
    @harness.app.task
    async def greet() -> str:
        return "hello"

    async def test() -> str:
        job = await greet.aenqueue()
        harness.drain()
        return str((await job.await_()).result)

    assert asyncio.run(test()) == "hello"


def test_what_was_enqueued_can_be_asserted(harness: Harness) -> None:
    @harness.app.task
    async def greet(name: str, loud: bool = False) -> None: ...

    with pytest.raises(AssertionError, match="none at all"):
        harness.assert_enqueued(greet, "ada")
    harness.refute_enqueued(greet)
    job = greet.enqueue("ada", loud=True)

    assert harness.assert_enqueued(greet, "ada", loud=True).id == job.id
    with pytest.raises(AssertionError, match=r'\{"name":"ada","loud":true\}'):
        harness.assert_enqueued(greet, "bob")


def test_what_was_not_enqueued_can_be_asserted(harness: Harness) -> None:
    @harness.app.task
    async def greet(name: str) -> None: ...

    greet.enqueue("ada")

    harness.refute_enqueued(greet, "bob")
    with pytest.raises(AssertionError, match="ada"):
        harness.refute_enqueued(greet, "ada")
    with pytest.raises(AssertionError, match="ada"):
        harness.refute_enqueued(greet)


def test_a_crashed_worker_leaves_its_jobs_to_the_next_one(harness: Harness) -> None:
    runs: list[int] = []

    @harness.app.task
    async def work(run: Run) -> None:
        runs.append(run.job.fence)

    @harness.app.task
    async def greet() -> None: ...

    greet.enqueue()
    harness.drain()
    job = work.enqueue()
    harness.crash_worker()
    harness.drain()

    assert runs == [1]
    assert job.refresh().state == "done"


def test_a_chain_survives_a_crash_between_any_two_statements() -> None:
    """Effects happen once and the chain never breaks; a sample of the points, for speed."""
    crashes = 0
    for at in range(1, 200, 3):
        with _chain() as (h, start):
            start()
            if not h.crash_worker(at=at):
                break
            crashes += 1
            h.advance("1h")
            rows = h.app.read("select n from note order by n")
            assert [row.n for row in rows] == [1, 2, 3]
            assert {job.state for job in h.app.jobs()} == {"done"}
            assert {job.failures for job in h.app.jobs()} == {0}

    assert crashes > 7


def _chain() -> AbstractContextManager[tuple[Harness, object]]:
    app = App("sqlite:///never-opened.db")

    @app.task
    async def link(run: Run, n: int) -> None:
        run.write("insert into note (n) values (:n)", n=n)
        if n < 3:
            run.enqueue(link, n + 1)

    def tables() -> None:
        with app.transaction() as tx:
            tx.write("create table note (n integer primary key)")

    @contextmanager
    def made() -> Iterator[tuple[Harness, object]]:
        with Harness(app, setup=tables) as h:
            yield h, lambda: link.enqueue(1)

    return made()  # type: ignore[return-value]


def test_a_worker_that_was_not_reached_by_the_crash_goes_on(harness: Harness) -> None:
    @harness.app.task
    async def greet() -> None: ...

    job = greet.enqueue()

    assert not harness.crash_worker(at=10_000)
    assert 0 < harness.statements < 100
    assert job.refresh().state == "done"


def test_cancelling_reaches_a_running_handler(harness: Harness) -> None:
    ended: list[str] = []

    @harness.app.task(retries=5)
    async def endless(run: Run) -> None:
        harness.app.cancel(run.job.id, "enough")
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            ended.append("stopped")
            raise

    job = endless.enqueue()
    harness.drain()

    assert ended == ["stopped"]
    assert (job.refresh().state, job.refresh().error) == ("cancelled", "enough")


def test_outcomes_of_the_library_are_not_swallowed(harness: Harness) -> None:
    @harness.app.task
    async def work() -> None:
        try:
            raise Cancel("no")
        except Exception as error:
            raise RuntimeError("wrapped") from error

    job = work.enqueue()
    harness.drain()

    assert job.refresh().state == "failed"


def test_a_caller_that_waits_for_the_writer_is_lost_with_its_process(harness: Harness) -> None:
    engine = harness.app.wiring.engine

    with doomed(engine, 2), pytest.raises(WorkerCrashed):
        engine.writer.call_within(engine.pause, ["mail"], 60)

    assert harness.app.paused() == []


def test_schedules_of_decorators_may_be_muted() -> None:
    app, ran = App(), list[str]()

    @app.task(cron="* * * * *")
    def minutely() -> None:
        ran.append("minutely")

    @app.task
    def remind() -> None:
        ran.append("remind")

    with Harness(app, schedules=False) as h:
        remind.using(delay="7d").enqueue()
        app.schedule(remind, every="10d", key="by hand")
        before = h.statements
        h.advance("30d")

        assert ran == ["remind"] * 4
        assert h.statements - before < 2000
        assert app.schedules()[0].key == "by hand"
