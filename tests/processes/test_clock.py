"""Clocks that are set while jobs run: no lease is lost, nothing runs twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from time import sleep
from types import SimpleNamespace
from typing import Any, cast

import pytest

from duework import App, Run
from duework.clock import SystemClock
from duework.db.urls import open_database
from duework.kernel.facts import ClockStepped, Fact, LeaseRecovered, LeaseWasLost
from duework.kernel.machine import clock_watch
from duework.worker.isolation import parent as isolate
from tests.support.clocks import clock_of
from tests.support.working import eventually

pytestmark = pytest.mark.slow

HOUR = 3_600_000
# Longer than a busy disk keeps a commit waiting; jobs run for longer than that after a step.
LEASE, LONG = "3s", 4.5


class Host:
    """An App of its own on the same database, with a clock that can be set."""

    def __init__(self, url: str, started: Counter[int]) -> None:
        self.app = App(url, lease=LEASE)
        self.clock = clock_of(self.app)
        self.facts: list[Fact] = []
        self.app.on_fact(self.facts.append)

        @self.app.task
        async def slow(run: Run, seconds: float) -> int:
            started[run.job.id] += 1
            await asyncio.sleep(seconds)
            return run.job.fence

        self.slow = slow

    def told(self, *kinds: type) -> list[Fact]:
        return [fact for fact in self.facts if isinstance(fact, kinds)]


async def _step(url: str, by: int, which: slice) -> None:
    """Run jobs for more than a lease on two hosts, and set the clocks of some meanwhile."""
    started: Counter[int] = Counter()
    hosts = [Host(url, started), Host(url, started)]
    try:
        async with AsyncExitStack() as stack:
            for host in hosts:
                await stack.enter_async_context(host.app.running())
            jobs = [await host.slow.aenqueue(LONG) for host in hosts for _ in range(4)]
            await asyncio.to_thread(eventually, lambda: len(started) == 8)

            for host in hosts[which]:
                host.clock.wrong += by
            fresh = [await host.slow.aenqueue(0) for host in hosts]

            for job in fresh:
                assert (await job.await_("4s")).state == "done", "what nobody held flows on"
            for job in jobs:
                assert (await job.await_("10s")).result == 1, "the first lease held to the end"
        assert set(started.values()) == {1}, [h.facts for h in hosts]
        for host in hosts:
            assert host.told(LeaseRecovered, LeaseWasLost) == []
        for host in hosts[which]:
            assert host.told(ClockStepped)
    finally:
        for host in hosts:
            await asyncio.to_thread(host.app.close)


@pytest.mark.parametrize("by", [HOUR, -HOUR])
def test_when_the_clock_of_the_host_is_set_no_lease_is_lost(url: str, by: int) -> None:
    asyncio.run(_step(url, by, slice(None)))


@pytest.mark.parametrize("by", [HOUR, -HOUR])
@pytest.mark.parametrize("kind", ["postgres"])
def test_when_one_of_two_hosts_has_its_clock_set_no_lease_is_lost(url: str, by: int) -> None:
    """Hosts share a server, whose time both follow; a file has one host."""
    asyncio.run(_step(url, by, slice(1)))


@pytest.mark.parametrize("since", [2 * HOUR, 0])
def test_a_machine_that_was_stopped_starts_what_is_due_and_leases_by_the_right_time(
    url: str, since: int
) -> None:
    """Its boot time knows nothing of that, and a server takes a while to answer."""
    stopped, other = App(url), App(url)
    clock = clock_of(stopped)

    async def leased(run: Run) -> int:
        [row] = run.read("select due from duework_job where id = :id", id=run.job.id)
        due: int = row.due
        return due

    stopped.task(leased)
    elsewhere = other.task(leased)

    async def main() -> None:
        ask = stopped.wiring.engine.database.now

        def slowly() -> int | None:
            sleep(0.5)
            return ask()

        stopped.wiring.engine.database.now = slowly  # type: ignore[method-assign]
        async with stopped.running():
            clock.stopped = HOUR
            now = SystemClock().now()
            at = datetime.fromtimestamp((now - since) / 1000, UTC)
            job = await elsewhere.using(at=at).aenqueue()
            assert (await job.await_("10s")).result > now, "others would have taken it over"

    asyncio.run(main())
    for app in (stopped, other):
        app.close()


def test_a_host_whose_clock_is_wrong_from_the_start_goes_by_the_time_of_the_server(
    app: App, url: str
) -> None:
    clock = clock_of(app)
    database = open_database(url)
    right = database.now()
    clock.wrong += HOUR

    facts: list[Fact] = []
    app.on_fact(facts.append)
    app.paused()

    expected = HOUR if right is None else 0
    assert abs(app.now() - SystemClock().now() - expected) < 1000
    assert facts == [], "that is no step"
    database.close()


def test_a_worker_follows_a_server_from_which_its_clock_has_drifted(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = clock_of(app)
    monkeypatch.setattr(clock_watch, "ASK_MS", 0)

    @app.task
    async def nothing() -> None: ...

    async def main() -> None:
        async with app.running():
            if app.wiring.engine.database.kind == "postgres":
                clock.follow(clock.now() + 1500, clock.boot())
            await nothing.aenqueue()
            right = SystemClock().now
            await asyncio.to_thread(eventually, lambda: abs(clock.now() - right()) < 1000)

    asyncio.run(main())


def test_the_first_job_of_a_host_whose_clock_is_wrong_is_due_by_the_time_of_the_server(
    app: App,
) -> None:
    clock_of(app).wrong = HOUR

    @app.task
    async def nothing() -> None: ...

    job = nothing.enqueue()

    server = app.wiring.engine.database.now()
    right = SystemClock().now() + HOUR if server is None else server
    assert abs(job.at - right) < 5000


def test_what_a_clock_puts_off_that_was_just_set_is_put_off_by_the_right_time(app: App) -> None:
    """Before the worker's next turn, which would have noticed: a retry, and a job that follows."""
    clock = clock_of(app)

    @app.task
    async def follows() -> None: ...

    @app.task(retries=1, backoff="1m")
    async def fails(run: Run) -> None:
        clock.wrong += HOUR if run.attempt == 1 else 0
        raise ValueError

    @app.task
    async def goes_on(run: Run) -> None:
        clock.wrong += HOUR
        run.enqueue(follows.using(delay="1m"))

    def put_off(task: str) -> float:
        rows = app.read(
            "select due from duework_job where task = :task and state = 'open' and worker is null"
            " order by id desc",
            task=task,
        )
        return (rows[0].due - app.now()) / 1000 if rows else 0

    async def main() -> None:
        async with app.running():
            await fails.aenqueue()
            await asyncio.to_thread(eventually, lambda: put_off("fails") > 1)
            assert 40 < put_off("fails") <= 61
            await goes_on.aenqueue()
            await asyncio.to_thread(eventually, lambda: put_off("follows") > 1)
            assert 40 < put_off("follows") <= 61

    asyncio.run(main())

    with app.transaction() as tx:
        clock.wrong += HOUR
        tx.enqueue(follows.using(delay="1m"))
    assert 40 < put_off("follows") <= 61


@pytest.mark.parametrize("served", [True, False])
def test_a_process_of_its_own_goes_by_the_clock_that_its_worker_goes_by(
    monkeypatch: pytest.MonkeyPatch, *, served: bool
) -> None:
    wall = SystemClock.wall
    now = SystemClock().now() + 5 * HOUR
    spec = SimpleNamespace(now=now, served=served, speed=1.0, arounds=())
    child = isolate._Pipe(cast("Any", None), cast("Any", spec))  # noqa: SLF001 - without a process

    monkeypatch.setattr(SystemClock, "wall", lambda clock: wall(clock) - HOUR)

    assert abs(child.now() - now + (0 if served else HOUR)) < 5000
