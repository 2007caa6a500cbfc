"""Two workers on one database, and a server that goes away under them."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

from tests.support.postgres import server
from tests.support.processes import Bench, bench, until

pytestmark = pytest.mark.slow


def test_two_workers_drain_a_queue_and_run_each_job_once(desk: Bench) -> None:
    # Long leases: on a busy machine a short one may end under a worker that waits for its turn.
    workers = [desk.start(lease="30s"), desk.start(lease="30s")]
    done = []

    for _ in range(4):
        done += desk.tasks.quick.enqueue_many([("",)] * 500)

    assert {job.state for job in desk.settled(done, within=90)} == {"done"}
    starts = Counter(note.job for note in desk.notes("start"))
    assert len(starts) == 2000
    assert set(starts.values()) == {1}
    assert len(desk.effects()) == 2000
    assert {note.pid for note in desk.notes("start")} == {worker.pid for worker in workers}


def test_a_limit_of_a_queue_holds_over_all_workers(desk: Bench) -> None:
    workers = [desk.start(), desk.start()]

    jobs = desk.tasks.limited.enqueue_many([()] * 100)

    assert {job.state for job in desk.settled(jobs, within=30)} == {"done"}
    moments = sorted(
        (note.at, 1 if note.what == "start" else -1) for note in desk.notes() if note.what != "told"
    )
    running, most = 0, 0
    for _, change in moments:
        running += change
        most = max(most, running)
    assert most == 3
    assert {note.pid for note in desk.notes("start")} == {worker.pid for worker in workers}
    assert len(desk.effects()) == 100


def test_a_server_that_is_restarted_under_load_loses_and_doubles_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("TEST_PG_DSN", raising=False)
    with server() as own, bench(own.create_database("restarted"), tmp_path) as desk:
        with desk.app.transaction() as tx:
            tx.write("create unique index effect_job on effect (job)")
        workers = [desk.start(concurrency=8), desk.start(concurrency=8)]
        jobs = desk.tasks.long.enqueue_many([(0.05,)] * 400)
        until(lambda: len(desk.notes("end")) > 50)

        own.stop("immediate")
        time.sleep(0.7)
        own.start()

        settled = desk.settled(jobs, within=30)
        assert Counter((job.state, job.failures) for job in settled) == {("done", 0): 400}
        assert len(desk.effects()) == 400
        assert [worker.process.poll() for worker in workers] == [None, None]
        late = desk.tasks.quick.enqueue("after all that")
        assert late.wait("20s").state == "done"
