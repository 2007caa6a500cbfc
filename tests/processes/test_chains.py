"""Chains over several processes: a worker killed in a page, and many starts of one key at once."""

from __future__ import annotations

import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from duework import App, Conflict
from duework.health.verify import verify
from duework.shapes.chains.tasks import ChainVerbs
from tests.support.checks import EVERY
from tests.support.processes import Bench, until

pytestmark = pytest.mark.slow


def test_a_page_whose_worker_was_killed_is_done_once_and_its_chain_goes_on(desk: Bench) -> None:
    first = desk.start(lease="60s")
    chain = desk.tasks.walk.start(4)
    page = until(lambda: chain.pages()[1:])[0]
    until(lambda: desk.notes("start", page.job))

    first.kill()
    second = desk.start(lease="60s")
    ended = chain.wait("20s")

    assert (ended.state, ended.counts) == ("done", {"items": 40}), ended.error
    assert [row.note for row in desk.effects()] == [f"page {n}" for n in range(1, 5)]
    assert desk.notes("start", page.job)[1].pid == second.pid
    assert [each.phase for each in chain.pages()] == ["done"] * 4


def test_of_many_starts_of_one_key_at_once_one_starts_a_chain(desk: Bench) -> None:
    apps = [App(desk.url) for _ in range(4)]
    starting = desk.tasks.walk.using(key="one")

    def start(number: int) -> tuple[int, bool]:
        # As other processes would: by a writer of their own.
        app = apps[number % 4]
        new = starting.as_chain((2,), {}, app.now())
        made = app.wiring.engine.writer.call(app.wiring.find(ChainVerbs).chains.start_all, [new])[0]
        return made.id, made.existed

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(start, range(24)))
    for app in apps:
        app.close()

    assert len({identifier for identifier, _ in answers}) == 1
    assert sorted(existed for _, existed in answers) == [False] + [True] * 23
    assert len(desk.app.jobs(task="walk")) == 1


def test_cancels_and_resumes_at_any_moment_leave_no_gap_and_no_page_twice(desk: Bench) -> None:
    apps = [App(desk.url) for _ in range(2)]
    chains = [desk.tasks.stroll.start(40) for _ in range(3)]
    desk.start()
    desk.start()
    deadline = time.monotonic() + 3

    def meddle(number: int) -> int:
        chance, done = random.Random(number), 0  # noqa: S311 - repeatable
        while time.monotonic() < deadline:
            chain = apps[number % 2].get_chain(chance.choice(chains).id)
            chain.cancel()
            time.sleep(chance.random() / 100)
            try:
                chain.resume()
            except Conflict:
                assert chain.refresh().state == "done"
            done += 1
        return done

    with ThreadPoolExecutor(4) as pool:
        meddled = sum(pool.map(meddle, range(4)))
    ended = [chain.resume() if chain.refresh().state != "done" else chain for chain in chains]
    ended = [chain.wait("30s") for chain in ended]
    for app in apps:
        app.close()

    assert meddled > 20
    assert [(c.state, c.counts) for c in ended] == [("done", {"items": 40})] * 3, ended
    notes = Counter(row.note for row in desk.effects())
    assert notes == Counter({f"{c.id}:{n}": 1 for c in chains for n in range(1, 41)})
    with desk.app.wiring.engine.database.reading() as tx:
        assert [each for each in verify(tx, EVERY) if each.violations] == []
