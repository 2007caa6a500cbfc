"""Claims that the thread makes which listens to a PostgreSQL server, for a worker that sleeps."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import pytest

from duework import App
from duework.db.database import Tx
from duework.errors import Unavailable
from duework.kernel.claim import Claim, ClaimRequest
from duework.worker.handoff.called import CalledClaim
from duework.worker.handoff.claims import Grabs
from tests.app.test_handoff import at_rest, sleeping, until
from tests.support.postgres import Server

LISTENS = "duework-listener"


class Watched:
    """Which threads have claimed, and what is done before the next claim of that kind."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.threads: list[str] = []
        self.before: Any = lambda: None
        grab = Grabs.grab

        def watched(grabs: Grabs, tx: Tx, wanted: list[ClaimRequest]) -> Sequence[Claim]:
            self.threads.append(threading.current_thread().name)
            self.before()
            return grab(grabs, tx, wanted)

        patch.setattr(Grabs, "grab", watched)


@pytest.fixture
def apps(postgres: Server, postgres_template: str) -> Iterator[tuple[App, App]]:
    """The App of a worker, and one of another process."""
    url = postgres.create_database("called", template=postgres_template)
    with closing(App(url)) as works, closing(App(url)) as asks:
        yield works, asks
    postgres.drop_database("called")


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch)


def test_the_thread_that_hears_of_a_job_claims_it(apps: tuple[App, App], watched: Watched) -> None:
    works, asks = apps
    ran: list[int] = []

    @works.task(name="note")
    async def note(number: int) -> None:
        ran.append(number)

    async def program() -> None:
        async with sleeping(works) as worker:
            for number in range(5):
                await at_rest(worker)
                await asks.named("note").aenqueue(number=number)
                await until(lambda: len(ran) > number)  # noqa: B023 - awaited here

    asyncio.run(program())
    assert ran == list(range(5))
    assert set(watched.threads) == {LISTENS}


def test_a_claim_that_fails_there_is_made_by_the_worker(
    apps: tuple[App, App], watched: Watched
) -> None:
    works, asks = apps
    ran: list[int] = []

    @works.task(name="note")
    async def note() -> None:
        ran.append(1)

    def fail() -> None:
        raise Unavailable("planted")

    watched.before = fail

    async def program() -> None:
        async with sleeping(works):
            await asks.named("note").aenqueue()
            await until(lambda: ran)

    asyncio.run(program())
    assert ran == [1]
    assert watched.threads[0] == LISTENS


def test_what_was_claimed_for_a_worker_that_stops_meanwhile_is_handed_back(
    apps: tuple[App, App], watched: Watched
) -> None:
    works, asks = apps
    ran: list[int] = []

    @works.task(name="note")
    async def note() -> None:
        ran.append(1)

    async def program() -> None:
        async with sleeping(works) as worker:
            watched.before = worker.stop
            job = await asks.named("note").aenqueue()
            await until(lambda: watched.threads)
        assert ran == []
        # At once: a lease that is left behind would have to end first.
        async with sleeping(works):
            found = await job.await_(timeout="5s")
        assert (found.state, found.failures, found.crashes) == ("done", 0, 0)

    asyncio.run(program())
    assert ran == [1]


def test_a_worker_that_runs_something_is_woken_and_claims_for_itself(
    apps: tuple[App, App], watched: Watched
) -> None:
    works, asks = apps
    held, ran = asyncio.Event(), []

    @works.task(name="note")
    async def note(*, hold: bool = False) -> None:
        ran.append(hold)
        if hold:
            await held.wait()

    async def program() -> None:
        async with sleeping(works) as worker:
            await asks.named("note").aenqueue(hold=True)
            await until(lambda: ran)
            await at_rest(worker)
            watched.threads.clear()
            await asks.named("note").aenqueue()
            await until(lambda: len(ran) > 1)
            held.set()

    asyncio.run(program())
    assert ran == [True, False]
    assert watched.threads == []


def test_nothing_is_claimed_for_a_worker_whose_loop_is_busy_with_something_else(
    apps: tuple[App, App], watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    works, asks = apps
    ran: list[int] = []
    heard, claim_now = threading.Event(), CalledClaim.claim_now

    def hear(called: CalledClaim) -> bool:
        claims = claim_now(called)
        heard.set()
        return claims

    @works.task(name="note")
    async def note() -> None:
        ran.append(1)

    async def program() -> None:
        async with sleeping(works) as worker:
            await at_rest(worker)
            monkeypatch.setattr(CalledClaim, "claim_now", hear)
            asks.named("note").enqueue()
            # It keeps the loop meanwhile: what is due is for a worker whose loop waits.
            assert heard.wait(10)
            assert watched.threads == []
            await until(lambda: ran)

    asyncio.run(program())
    assert ran == [1]
