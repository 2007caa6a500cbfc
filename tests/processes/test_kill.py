"""kill -9: what a dead worker held is run again by others at once, and nobody is blamed for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from duework import App
from tests.support.processes import ROOT, Bench, alive, until

pytestmark = pytest.mark.slow

# A lease so long that no test could wait for its end.
LONG = {"lease": "60s"}
# Far less than the lease, also on a machine with other things to do; `make bench` says how soon it really is.
SOON = 20
KILLS = int(os.environ.get("KILLS", "3"))


def test_another_worker_takes_over_at_once_and_effects_happen_once(desk: Bench) -> None:
    first = desk.start(**LONG)
    jobs = desk.tasks.nap.enqueue_many([(60,)] * 3)
    second = desk.start(ready=False, **LONG)
    for job in jobs:
        desk.started(job)
    second.wait_for("WorkerStarted")

    killed = first.kill()

    settled = desk.settled(jobs)
    again = [desk.started(job, times=2) for job in jobs]
    assert min(note.at for note in again) - killed < SOON
    assert [job.state for job in settled] == ["done"] * 3
    assert [(job.failures, job.crashes) for job in settled] == [(0, 0)] * 3
    assert sorted(row.job for row in desk.effects()) == sorted(job.id for job in jobs)
    for job in jobs:
        assert [attempt.outcome for attempt in job.attempts()] == ["crashed"]


def test_a_job_that_is_made_for_a_worker_that_was_just_killed_runs_at_once(desk: Bench) -> None:
    for _ in range(KILLS):
        first = desk.start(**LONG)
        # It is known now, and offers to take more.
        known = desk.tasks.nap.enqueue(0.05)
        desk.settled([known])
        second = desk.start(**LONG)
        desk.settled([desk.tasks.nap.enqueue(0.05)])

        first.kill()
        job = desk.tasks.nap.enqueue(0.05)

        assert desk.settled([job])[0].state == "done"
        assert len(desk.effects(job)) == 1
        second.kill()


def test_after_one_kill_all_jobs_run_again_at_once_in_the_next_worker(desk: Bench) -> None:
    first = desk.start(**LONG)
    jobs = [
        *desk.tasks.nap.enqueue_many([(60, 2)] * 5),
        *desk.tasks.long_thread.enqueue_many([(60,)] * 2),
    ]
    for job in jobs:
        desk.started(job)

    first.kill()
    second = desk.start(**LONG)

    assert {desk.started(job, times=2).pid for job in jobs} == {second.pid}
    assert {(job.refresh().phase, job.refresh().alone) for job in jobs} == {("running", False)}
    assert second.family() == set()


def test_after_three_kills_jobs_run_one_at_a_time_in_the_worker(desk: Bench) -> None:
    jobs = desk.tasks.nap.enqueue_many([(60, 4)] * 3)
    for times in (1, 2, 3):
        worker = desk.start(**LONG)
        for job in jobs:
            desk.started(job, times=times)
        worker.kill()

    last = desk.start(**LONG)
    until(lambda: [note for note in desk.notes("start") if note.pid == last.pid])
    # It looks for work again, and has slots for all.
    other = desk.tasks.quick.enqueue().wait("10s")

    assert other.state == "done"
    assert sorted(job.refresh().phase for job in jobs) == ["ready", "ready", "running"]
    assert [(job.failures, job.crashes) for job in jobs] == [(0, 0)] * 3


def test_a_new_worker_takes_over_as_it_starts(desk: Bench) -> None:
    first = desk.start(**LONG)
    job = desk.tasks.nap.enqueue(60)
    desk.started(job)
    first.kill()

    second = desk.start(**LONG)

    ready = second.facts("WorkerStarted")[0]["at"]
    assert desk.started(job, times=2).at - ready < SOON
    assert job.wait("30s").state == "done"
    assert len(desk.effects(job)) == 1


def test_one_killer_does_not_take_the_innocent_with_it(desk: Bench) -> None:
    worker = desk.start(**LONG)
    innocents = desk.tasks.nap.enqueue_many([(60, 2)] * 20)
    for job in innocents:
        desk.started(job)
    killer = desk.tasks.killer.enqueue()

    deaths = 0
    while killer.refresh().state == "open":
        assert worker.process.wait(20) == -signal.SIGKILL
        deaths += 1
        worker = desk.start(ready=False, **LONG)
        until(lambda now=worker: now.process.poll() is not None or killer.refresh().state != "open")

    assert [job.state for job in desk.settled(innocents, within=20)] == ["done"] * 20
    end = killer.refresh()
    assert (end.state, end.failures, end.crashes) == ("failed", 0, 3)
    charged = ["crashed"] * 3 + ["crashed alone"] * 3
    assert [attempt.outcome for attempt in killer.attempts()] == charged
    assert deaths == 6
    assert worker.process.poll() is None
    assert len(desk.effects()) == 20


def test_a_process_of_its_own_dies_with_its_worker(desk: Bench) -> None:
    first = desk.start(**LONG)
    job = desk.tasks.long_isolated.enqueue(60)
    child = desk.started(job).pid
    family = first.family()
    assert child in family

    first.kill()

    until(lambda: not any(alive(pid) for pid in family))


def test_recovery_is_quick_every_time(desk: Bench, record_property: pytest.RecordProperty) -> None:
    workers = [desk.start(**LONG), desk.start(**LONG)]
    times = []
    for _ in range(KILLS):
        job = desk.tasks.nap.enqueue(60)
        holder = next(w for w in workers if w.pid == desk.started(job).pid)
        workers.remove(holder)
        workers.append(desk.start(**LONG))
        killed = holder.kill()
        times.append(desk.started(job, times=2).at - killed)
        assert job.wait("30s").state == "done"

    times.sort()
    record_property("recovery", [round(each, 3) for each in times])
    print(f"recovery p50 {times[len(times) // 2]:.3f} s, max {times[-1]:.3f} s")  # noqa: T201 - a measurement
    assert times[-1] < SOON


def test_a_lease_of_a_worker_on_another_host_ends_by_itself(desk: Bench) -> None:
    first = desk.start(lease="1500ms")
    job = desk.tasks.nap.enqueue(60)
    desk.started(job)
    with desk.app.transaction() as tx:
        tx.write("update duework_worker set host = 'elsewhere', boot = 'another'")
    desk.start(lease="1500ms")

    killed = first.kill()

    waited = desk.started(job, times=2).at - killed
    assert 0.5 < waited < SOON
    assert job.wait("30s").state == "done"
    assert [attempt.outcome for attempt in job.attempts()] == ["crashed"]


def test_a_stopped_process_is_not_a_crash_and_changes_nothing_when_it_wakes(desk: Bench) -> None:
    first = desk.start(lease="1s")
    job = desk.tasks.nap.enqueue(60)
    desk.started(job)
    second = desk.start(lease="1s")

    desk.freeze(first)
    desk.started(job, times=2)
    assert job.wait("30s").state == "done"
    first.signal(signal.SIGCONT)

    until(lambda: desk.notes("raised-CancelledError", job))
    assert [fact["job"] for fact in first.facts("LeaseWasLost")] == [job.id]
    assert desk.notes("start", job)[1].pid == second.pid, "no suspect: it runs like any other"
    assert [attempt.outcome for attempt in job.attempts()] == ["lost"]
    assert (job.refresh().failures, job.refresh().crashes) == (0, 0)
    assert [row.note for row in desk.effects(job)] == ["fence 2"]


def test_a_result_that_comes_after_the_lease_is_fenced_off(desk: Bench) -> None:
    workers = [desk.start(lease="1s"), desk.start(lease="1s")]
    job = desk.tasks.nap.enqueue(1)
    holder = desk.started(job).pid
    first, second = sorted(workers, key=lambda worker: worker.pid != holder)

    # It ends while its process stands still; on waking up it would settle at once.
    desk.freeze(first)
    assert job.wait("30s").state == "done"
    first.signal(signal.SIGCONT)

    until(lambda: first.facts("LeaseWasLost"))
    time.sleep(0.3)
    assert [row.note for row in desk.effects(job)] == ["fence 2"]
    assert job.refresh().fence == 2
    assert not [fact for fact in first.facts("JobSettled") if fact["job"] == job.id]
    assert [fact["kind"] for fact in second.facts("JobSettled")] == ["done"]


def test_a_pause_that_was_taken_for_a_crash_is_excused(desk: Bench) -> None:
    first = desk.start(lease="1s")
    job = desk.tasks.nap.enqueue(60)
    desk.started(job)
    with desk.app.transaction() as tx:
        tx.write("update duework_worker set host = 'elsewhere', boot = 'another'")
    desk.start(lease="1s")

    # Seen from another host, a process that stands still looks like one that died.
    desk.freeze(first)
    until(job.attempts)
    assert [attempt.outcome for attempt in job.attempts()] == ["crashed"]
    first.signal(signal.SIGCONT)

    until(lambda: [attempt.outcome for attempt in job.attempts()] == ["lost"])
    assert job.wait("20s").crashes == 0
    assert len(desk.effects(job)) == 1


# As people write them: its address in the environment, state made as it starts, no guard around that.
UNGUARDED = """
import asyncio
import os

from duework import App, Run

with open("programs", "a") as file:
    file.write("started\\n")

app = App(os.environ["DUEWORK_URL"], lease="60s")
made = {}


@app.task
async def work(run: Run, kills: int) -> str:
    with open("attempts", "a") as file:
        file.write("started\\n")
    if run.job.fence <= kills:
        await asyncio.sleep(60)
    return made["word"]


async def main() -> None:
    made["word"] = "hello"
    async with app.running():
        await asyncio.Event().wait()


asyncio.run(main())
"""


@pytest.mark.parametrize("kills", [1, 2, 5])
def test_a_job_that_needs_what_its_program_has_made_survives_kills(
    url: str, tmp_path: Path, kills: int
) -> None:
    """Nothing but the program itself runs it again, and nobody runs the program again."""
    (tmp_path / "program.py").write_text(UNGUARDED)
    app = App(url)

    @app.task
    async def work(kills: int) -> str:
        raise NotImplementedError

    job = work.enqueue(kills)

    for attempt in range(1, kills + 2):
        with program(url, tmp_path):
            until(lambda n=attempt: lines(tmp_path / "attempts") == n)
            if attempt > kills:
                job.wait("10s")

    end, crashes = job.refresh(), job.attempts()
    app.close()
    assert (end.state, end.result, end.error) == ("done", "hello", None)
    assert (end.failures, len(crashes)) == (0, kills)
    assert lines(tmp_path / "programs") == kills + 1


@contextmanager
def program(url: str, folder: Path) -> Iterator[None]:
    """The program above, until it is killed."""
    command = [sys.executable, "program.py"]
    environment = {**os.environ, "DUEWORK_URL": url, "PYTHONPATH": str(ROOT / "src")}
    process = subprocess.Popen(command, cwd=folder, env=environment)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def lines(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0
