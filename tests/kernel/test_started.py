"""The ledger: which attempts were running when a process died, and which were only claimed."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from duework.kernel.machine import processes
from duework.kernel.machine.processes import Process
from duework.testing import Harness
from duework.worker.rounds import _verdicts
from duework.worker.started import StartedJobs, forget, runtime_folder, started

ME = 7


@pytest.fixture(autouse=True)
def private_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


@pytest.fixture
def worker() -> int:
    return secrets.randbits(62)


@pytest.fixture
def ledger(worker: int) -> Iterator[StartedJobs]:
    made = StartedJobs(slots=3)
    made.open(worker)
    yield made
    made.close()


def test_what_has_started_and_not_ended_can_be_read_by_others(
    ledger: StartedJobs, worker: int
) -> None:
    first = ledger.start(11)
    ledger.start(12)
    ledger.finish(first)
    ledger.start(13)

    assert started(worker) == {12, 13}


def test_it_is_read_by_others_after_a_kill(worker: int) -> None:
    program = (
        "import os, signal; from duework.worker.started import StartedJobs; made = StartedJobs(3);"
        f"made.open({worker}); made.start(21); os.kill(os.getpid(), signal.SIGKILL)"
    )

    subprocess.run([sys.executable, "-c", program], check=False)

    assert started(worker) == {21}


def test_two_attempts_of_one_job_are_two(ledger: StartedJobs, worker: int) -> None:
    first, second = ledger.start(11), ledger.start(11)
    ledger.finish(first)

    assert started(worker) == {11}
    ledger.finish(second)
    assert started(worker) == frozenset()


def test_places_are_used_again(ledger: StartedJobs, worker: int) -> None:
    for job in range(1, 100):
        ledger.finish(ledger.start(job))

    assert started(worker) == frozenset()


def test_one_that_overflowed_says_that_it_cannot_tell(ledger: StartedJobs, worker: int) -> None:
    for job in range(1, 5):
        ledger.start(job)

    assert started(worker) is None


def test_one_that_is_not_there_cannot_tell_either(worker: int) -> None:
    assert started(worker) is None


def test_only_its_owner_can_read_it_and_it_goes_with_its_worker(
    ledger: StartedJobs, worker: int, tmp_path: Path
) -> None:
    [file] = tmp_path.rglob("*.started")
    assert file.stat().st_mode & 0o777 == 0o600

    ledger.close()

    assert not file.exists()
    forget(worker)


def dead(worker: int) -> Process:
    """A process of this host that was, and is no more."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    here = processes.this_process(worker, started=0)
    born = int(Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19])
    child.communicate(b"\n")
    return Process(worker, here.host, here.boot, here.space, child.pid, born, 0)


def test_a_crash_is_charged_to_what_ran_and_not_to_what_was_only_claimed(
    ledger: StartedJobs, worker: int
) -> None:
    ledger.start(11)

    crashed = _verdicts([dead(worker)], ME, [worker], near=True)

    assert [crashed(worker, job) for job in (11, 12)] == [True, False]


def test_without_a_ledger_everything_that_was_held_is_suspect(worker: int) -> None:
    crashed = _verdicts([dead(worker)], ME, [worker], near=True)

    assert crashed(worker, 11)


def test_a_worker_that_lives_and_one_of_a_machine_that_was_restarted_did_not_crash(
    worker: int,
) -> None:
    alive = processes.this_process(worker, started=0)
    rebooted = Process(worker + 1, alive.host, "another boot", alive.space, alive.pid, 1, 0)
    elsewhere = Process(worker + 2, "another host", "another boot", alive.space, alive.pid, 1, 0)

    crashed = _verdicts([alive, rebooted, elsewhere], ME, [], near=True)

    assert not crashed(worker, 11)
    assert not crashed(worker + 1, 11)
    assert crashed(worker + 2, 11), "until it comes back and is excused"
    assert not crashed(ME, 11)


def test_another_boot_under_the_same_name_is_another_machine_unless_the_database_is_a_file(
    worker: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = processes.this_process(worker, started=0)
    other = Process(worker, here.host, "another boot", here.space, here.pid, here.born, 0)

    assert processes.verdict(other, near=True) == "rebooted"
    assert processes.verdict(other, near=False) == "elsewhere"
    monkeypatch.setattr(processes, "boot", lambda: "")
    assert processes.verdict(other, near=True) == "elsewhere", "nobody can compare"


def test_a_machine_of_the_same_name_keeps_its_leases_until_they_end(
    harness: Harness, worker: int
) -> None:
    ran: list[int] = []
    task = harness.app.task(name="slow")(lambda: ran.append(harness.now))
    job = task.enqueue()
    here = processes.this_process(worker, started=0)
    other = Process(worker, here.host, "another boot", here.space, here.pid, here.born, 0)
    began, lease = harness.now, 10_000
    with harness.app.transaction() as tx:
        tx.write(
            """insert into duework_worker (id, host, boot, space, pid, born, started)
               values (:id, :host, :boot, :space, :pid, :born, :started)""",
            **asdict(other),
        )
        held = "update duework_job set worker = :worker, fence = 1, due = :due where id = :id"
        tx.write(held, worker=worker, due=began + lease, id=job.id)

    harness.advance("30s")

    # A file is on this machine, which was restarted; a server may have any number of machines.
    assert ran == [began if harness.app.wiring.engine.near else began + lease]
    assert job.refresh().state == "done"


def test_a_process_that_is_hidden_from_us_is_not_taken_for_dead(
    worker: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    alive = processes.this_process(worker, started=0)

    def hidden(*_: object) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", hidden)

    assert processes.verdict(alive, near=True) == "elsewhere"


def test_the_folder_is_judged_by_one_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = runtime_folder()
    folder.rmdir()
    folder.symlink_to(tmp_path)
    with pytest.raises(OSError, match="no folder"):
        runtime_folder()
    folder.unlink()
    looks: list[str] = []
    real = Path.lstat

    def look(path: Path) -> os.stat_result:
        looks.append(path.name)
        return real(path)

    monkeypatch.setattr(Path, "lstat", look)
    monkeypatch.setattr(Path, "is_symlink", lambda path: pytest.fail(f"a second look at {path}"))

    runtime_folder()

    assert looks == [folder.name]
