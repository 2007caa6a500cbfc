"""A chain, with the process lost before each of its statements in turn: no gap, no page twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from duework import App, Chain, End, Next, Page
from duework.testing import Harness
from tests.crash.test_crash import (
    EFFECT,
    WRITE,
    at_every_point,
    effects,
    in_every_call,
    settle_down,
)
from tests.support.checks import is_sound

PAGES = 3


@pytest.fixture
def h(harness: Harness) -> Harness:
    with harness.app.transaction() as tx:
        tx.write(EFFECT)
    return harness


class Sync:
    """A chain of three pages, each of which writes its number, and its end."""

    def __init__(self, h: Harness, **options: Any) -> None:
        self.h = h
        self.before: Any = None

        @h.app.chain(key="one", **{"retries": 1, "backoff": "0s", **options})
        async def sync(page: Page) -> Next | End:
            page.run.write(WRITE, job=page.run.job.id, what=f"page {page.number}")
            if self.before is not None:
                await self.before(page)
            counts = {"n": page.number}
            return End(counts) if page.number == PAGES else Next(page.number, counts)

        @sync.finished
        def reconcile(tx: Any, chain: Chain) -> dict[str, int]:
            tx.write(WRITE, job=0, what="end")
            return {"ends": 1}

        self.chain = sync

    def begin(self) -> Chain:
        with self.h.app.transaction() as tx:
            tx.write("delete from duework_page")
            tx.write("delete from duework_chain")
        return self.chain.start()

    def is_whole(self, chain: Chain) -> None:
        """Each page once, in order, and the end once; nothing that `verify` would find."""
        seen = chain.refresh()
        assert (seen.state, seen.completed, seen.counts) == ("done", PAGES, {"n": 6, "ends": 1})
        assert effects(self.h) == [*(f"page {n}" for n in range(1, PAGES + 1)), "end"]
        assert [(page.number, page.phase) for page in chain.pages()] == [
            (n, "done") for n in range(1, PAGES + 1)
        ]
        is_sound(self.h)


def test_a_chain_has_no_gap_and_no_page_twice_also_if_one_fails_at_first(h: Harness) -> None:
    sync = Sync(h)

    async def before(page: Page) -> None:
        if page.number == 2 and page.run.attempt == 1:
            raise ConnectionError("upstream")

    sync.before = before

    at_every_point(h, sync.begin, sync.is_whole, floor=50)


def test_a_cancel_while_a_page_runs_holds_and_a_resume_goes_on_after_it(
    h: Harness, emptied: str
) -> None:
    sync, other = Sync(h), App(emptied)
    cancelled: list[int] = []

    async def before(page: Page) -> None:
        if page.number == 2:
            # By another process: not through the writer that is about to be lost.
            await asyncio.to_thread(other.get_chain(page.chain).cancel, "enough")
            cancelled.append(page.chain)

    def check(chain: Chain) -> None:
        stopped = chain.refresh()
        assert chain.id in cancelled
        assert stopped.state == "cancelled"
        # Whether the page that ran was counted depends on where the process was lost.
        done = stopped.completed
        assert done in {1, 2}
        assert effects(h) == [f"page {n}" for n in range(1, done + 1)]
        is_sound(sync.h)
        sync.before = None
        chain.resume()
        settle_down(h)
        sync.is_whole(chain)
        sync.before = before

    sync.before = before

    at_every_point(h, sync.begin, check, floor=20)
    other.close()


def test_starting_cancelling_and_resuming_happen_whole_or_not_at_all(h: Harness) -> None:
    sync = Sync(h)

    def begin() -> list[str]:
        sync.begin().cancel()
        return []

    def act(answered: list[str]) -> None:
        (old,) = h.app.chains()
        old.resume()
        answered.append("resumed")
        old.cancel()
        answered.append("cancelled")
        sync.chain.start()
        answered.append("started")

    def check(answered: list[str]) -> None:
        is_sound(sync.h)
        new, old = [*h.app.chains(), None][:2]
        if old is None:
            new, old = None, new
        assert ("started" not in answered) or new is not None
        assert "cancelled" not in answered or old.state == "cancelled"
        if answered == ["resumed"]:
            assert old.state in {"active", "cancelled"}
        settle_down(h)
        if new is not None:
            sync.is_whole(new)
        elif old.state == "active":
            sync.is_whole(old)

    in_every_call(h, begin, act, check, floor=40)


def test_a_retry_by_hand_happens_whole_or_not_at_all(h: Harness) -> None:
    sync = Sync(h, retries=0)

    async def before(page: Page) -> None:
        if page.number == 2:
            raise ConnectionError("upstream")

    def begin() -> Chain:
        sync.before = before
        chain = sync.begin()
        h.drain()
        sync.before = None
        return chain

    def check(chain: Chain) -> None:
        is_sound(sync.h)
        if chain.refresh().state == "failed":
            chain.retry()
        settle_down(h)
        sync.is_whole(chain)

    in_every_call(h, begin, lambda chain: chain.retry(), check, floor=8)
