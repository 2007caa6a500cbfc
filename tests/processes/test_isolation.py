"""A fresh process for one job: what comes back from it, what does not, and what it may not know."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import Bench, Worker, alive, until

Shared = tuple[Bench, Worker]

# The shared worker is started once.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("processes/isolation")]


def test_a_result_and_its_effects_come_back_once(shared: Shared) -> None:
    bench, worker = shared

    job = bench.tasks.describes_itself.enqueue("ada").wait("10s")

    assert job.state == "done", job.error
    assert job.result["name"] == "ada"
    assert job.result["pid"] != worker.pid
    assert [row.note for row in bench.effects(job)] == ["ada"]
    follow_ups = [each for each in bench.app.jobs(task="quick") if "after ada" in each.payload]
    assert len(follow_ups) == 1
    [batch] = bench.app.batches(name="ada")
    assert batch.wait("10s").done == 2


def test_a_child_knows_no_database(shared: Shared) -> None:
    bench, worker = shared

    job = bench.tasks.describes_itself.enqueue("spy").wait("10s")

    assert job.state == "done", job.error
    assert "DUEWORK_URL" not in job.result["environ"]
    assert bench.url not in job.result["values"]
    assert job.result["database"].startswith("NeedsWorker: a task with a process of its own")
    database = bench.url.removeprefix("sqlite:///")
    assert not [path for path in job.result["files"] if path.startswith(database)]
    sockets = [path for path in job.result["files"] if path.startswith("socket:")]
    assert len(sockets) == 1, "the pipe to its parent, and no connection to a server"
    assert worker.process.poll() is None


def test_an_async_task_may_have_a_process_of_its_own(shared: Shared) -> None:
    bench, _ = shared

    job = bench.tasks.isolated_async.enqueue("bob").wait("10s")

    assert (job.state, job.result) == ("done", "bob")
    assert len(bench.effects(job)) == 1


def test_a_delivery_is_chosen_in_a_process_of_its_own_and_sent_by_the_worker(
    shared: Shared,
) -> None:
    bench, _ = shared

    job = bench.tasks.chosen_apart.enqueue("ada", 77).wait("20s")

    assert job.state == "done", job.error
    assert (job.result["outcome"], job.failures) == ("success", 1)
    assert [row.note for row in bench.effects(job)] == ["chose 1"]
    sent = bench.app.read("select note from effect where job = 77 order by note")
    assert [row.note for row in sent] == ["once True ada", "twice True ada"]
    assert len(bench.notes("start", job)) == 1


def test_an_isolated_body_that_chooses_nothing_is_done_and_a_wrong_choice_fails(
    shared: Shared,
) -> None:
    bench, _ = shared

    nobody = bench.tasks.chosen_apart.enqueue("nobody", 0).wait("20s")
    wrong = bench.tasks.chosen_apart.enqueue("wrong", 0).wait("20s")

    assert (nobody.state, nobody.result["outcome"]) == ("done", "nothing")
    assert [row.note for row in bench.effects(nobody)] == ["chose 1"]
    assert wrong.state == "failed"
    assert wrong.error == "there is no channel third; there are: first, second"
    assert bench.effects(wrong) == []


def test_an_isolated_task_is_told_to_leave_objects_to_another(shared: Shared) -> None:
    bench, _ = shared

    job = bench.tasks.calls_an_object.enqueue().wait("10s")

    assert job.state == "failed"
    assert "run.enqueue a task for that" in (job.error or "")


def test_reads_and_progress_go_over_the_pipe(shared: Shared) -> None:
    bench, _ = shared
    with bench.app.transaction() as tx:
        tx.write(bench.tasks.INSERT, job=0, note="seed")

    job = bench.tasks.reads_over_the_pipe.enqueue()

    progress = until(lambda: job.refresh().progress)
    assert (progress["done"], progress["total"], progress["note"]) == (3, 10, "a third")
    assert job.wait("10s").result == ["seed"]


def test_threads_that_talk_until_the_end_do_not_spoil_the_result(shared: Shared) -> None:
    bench, _ = shared

    jobs = [bench.tasks.talks_while_it_ends.enqueue() for _ in range(3)]

    for job in jobs:
        ended = job.wait("20s")
        assert (ended.state, ended.error) == ("done", None)
        assert len(ended.result) == 900_000


@pytest.mark.parametrize("sizes", [[10], [10, 1_000_000]], ids=["waiting", "sending"])
def test_an_answer_that_nobody_waits_for_any_more_is_nobody_elses(
    shared: Shared, sizes: list[int]
) -> None:
    bench, _ = shared

    job = bench.tasks.is_torn_away.enqueue(sizes).wait("20s")

    assert (job.state, job.error) == ("done", None)
    assert job.result == "the last one"


def test_a_signals_handler_that_asks_in_between_gets_its_own_answer(shared: Shared) -> None:
    bench, _ = shared

    job = bench.tasks.asks_while_it_asks.enqueue().wait("20s")

    assert (job.state, job.error) == ("done", None)
    assert job.result == ["handler", "task"]


def test_an_alarm_that_a_task_leaves_behind_does_not_spoil_its_result(shared: Shared) -> None:
    bench, _ = shared

    job = bench.tasks.leaves_an_alarm.enqueue().wait("20s")

    assert (job.state, job.error) == ("done", None)
    assert job.result == "through"
    assert job.attempts() == []


def test_a_fork_of_a_tasks_process_is_not_answered(shared: Shared) -> None:
    bench, _ = shared

    job = bench.tasks.asks_in_a_fork.enqueue().wait("20s")

    assert job.result == "a fork of a task's process cannot use its run", job.error


def test_an_error_of_a_read_is_raised_in_the_child(shared: Shared) -> None:
    bench, _ = shared

    job = bench.tasks.reads_nonsense.enqueue().wait("10s")

    assert job.state == "failed"
    assert "nowhere" in job.error


def test_an_outcome_and_a_retry_are_as_elsewhere(shared: Shared) -> None:
    bench, _ = shared

    failed = bench.tasks.gives_up.enqueue()
    retried = bench.tasks.fails_once.enqueue()

    assert failed.wait("10s").error == "no use"
    assert retried.wait("10s").result == 2
    assert [attempt.outcome for attempt in retried.attempts()] == ["retry"]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("exits_at_once", "exited with code 0 and gave no result"),
        ("leaves_a_fork", "exited with code 7"),
        ("segfaults", "SIGSEGV"),
    ],
)
def test_a_process_that_ends_without_a_result_has_crashed(
    shared: Shared, name: str, why: str
) -> None:
    bench, worker = shared

    job = getattr(bench.tasks, name).enqueue()

    attempts = until(job.attempts)
    assert attempts[0].outcome == "crashed alone"
    assert why in attempts[0].error
    assert job.refresh().state == "open"
    assert job.refresh().failures == 0
    assert worker.process.poll() is None
    assert bench.effects(job) == []
    bench.app.cancel(job.id)


def test_sys_exit_is_a_failure_whatever_its_code(shared: Shared) -> None:
    bench, _ = shared

    job = bench.tasks.leaves_politely.enqueue().wait("10s")

    assert job.state == "failed"
    assert "SystemExit" in job.error
    assert bench.effects(job) == []


def test_memory_over_the_budget_is_a_failure(shared: Shared) -> None:
    bench, _ = shared

    job = bench.tasks.eats_memory.enqueue().wait("10s")

    assert job.state == "failed"
    assert "MemoryError" in job.error


def test_processor_time_over_the_budget_is_a_failure_with_a_reason(shared: Shared) -> None:
    bench, _ = shared

    job = bench.tasks.burns.enqueue().wait("10s")

    assert job.state == "failed"
    assert job.error == "it used more than its 1 s of CPU"


def test_at_its_timeout_a_process_is_killed_with_all_it_started(shared: Shared) -> None:
    bench, worker = shared
    bench.tasks.tiny.enqueue(1).wait("10s")

    job = bench.tasks.runs_over.enqueue().wait("10s")

    assert (job.state, job.error) == ("failed", "it ran longer than its timeout of 500ms")
    child = bench.notes("start", job)[0].pid
    grandchild = int(bench.notes("grandchild", job)[0].what.partition("-")[2])
    until(lambda: not alive(child))
    until(lambda: not alive(grandchild))
    assert not [fact for fact in worker.facts("JobStuck") if fact["job"] == job.id]


def test_chains_messages_and_schedules_leave_the_process_with_its_result(shared: Shared) -> None:
    bench, _ = shared
    app, tasks = bench.app, bench.tasks

    failed = tasks.asks_for_all_shapes.enqueue("nothing", fails=True).wait("10s")
    job = tasks.asks_for_all_shapes.enqueue("grace").wait("10s")

    assert (job.state, job.error) == ("done", None)
    assert len(app.chains(key="grace")) == 1
    until(lambda: app.chains(key="grace")[0].state == "done")
    assert app.chains(key="grace")[0].counts == {"items": 2}
    [message] = until(lambda: tasks.silent.messages("sent"))
    assert (message.key, message.message) == ("grace", "from grace")
    schedule = app.get_schedule("grace")
    assert (schedule.task, schedule.kind, schedule.rule) == ("quick", "every", "3600000")
    assert failed.state == "failed"
    assert app.chains(key="nothing") == []
    assert app.schedules(prefix="nothing") == []


def test_a_function_cannot_leave_the_process(shared: Shared) -> None:
    bench, _ = shared

    job = bench.tasks.commits_a_function.enqueue().wait("10s")

    assert job.state == "failed"
    assert "cannot leave a process of its own: use run.write" in " ".join(job.error.split())


def test_a_task_that_cannot_be_imported_is_refused_with_a_reason(shared: Shared) -> None:
    bench, _ = shared

    job = bench.tasks.hidden.enqueue().wait("10s")

    assert job.state == "failed"
    assert "at the top of an importable module" in job.error


def test_many_processes_in_a_row_leave_nothing_behind(shared: Shared) -> None:
    bench, worker = shared
    bench.settled([bench.tasks.tiny.enqueue(n) for n in range(4)])
    handles, threads = _handles(worker), _threads(worker)
    family = worker.family()

    jobs = bench.tasks.tiny.enqueue_many([(n,) for n in range(40)])

    results = [job.result for job in bench.settled(jobs)]
    assert results == list(range(40))
    assert until(lambda: _handles(worker) <= handles + 2)
    assert _threads(worker) <= threads + 1
    assert until(lambda: len(worker.family()) <= len(family))


def _handles(worker: Worker) -> int:
    return len(os.listdir(f"/proc/{worker.pid}/fd"))


def _threads(worker: Worker) -> int:
    return len(os.listdir(f"/proc/{worker.pid}/task"))


def test_a_child_that_outlives_its_worker_for_a_moment_says_nothing(desk: Bench) -> None:
    worker = desk.start()
    job = desk.tasks.long_isolated.enqueue(1.0)
    child = desk.started(job).pid
    server = parent(child)
    # It would take its children with it as soon as it notices that the worker is gone.
    os.kill(server, signal.SIGSTOP)

    try:
        worker.kill()
        until(lambda: not alive(child))
    finally:
        os.kill(server, signal.SIGKILL)

    assert desk.notes("end", job)
    assert "Traceback" not in worker.log()


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_what_a_task_has_started_ends_with_its_worker(desk: Bench) -> None:
    worker = desk.start()
    job = desk.tasks.starts_another.enqueue()
    child = desk.started(job).pid
    grandchild = int(until(lambda: desk.notes("grandchild", job))[0].what.partition("-")[2])

    worker.kill()

    until(lambda: not alive(child))
    until(lambda: not alive(grandchild))


NO_GUARD = """
import asyncio
from duework import App

app = App("sqlite:///own.db")


@app.task(isolation="process")
def compute(number: int) -> int:
    return number


async def main() -> None:
    async with app.running():
        job = await (await compute.aenqueue(7)).await_("60s")
        print(job.state)


asyncio.run(main())
"""


def test_a_program_without_a_guard_is_told_so(tmp_path: Path) -> None:
    program = tmp_path / "own.py"
    program.write_text(NO_GUARD)

    ran = subprocess.run(
        [sys.executable, program], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert 'below `if __name__ == "__main__":`' in ran.stderr
    assert ran.stdout == "failed\n"
