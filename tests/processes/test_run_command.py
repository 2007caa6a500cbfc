"""`duework run` as a real program: it works, stops on signals, and replaces what dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from duework import App
from duework.cli.run import _brisk

PROGRAM = """
import os, sys, time
from duework import App

app = App(os.environ["SHOP_URL"], grace="20s")

@app.task
async def greet(name: str) -> str:
    return f"hello {name} from {os.getpid()}"

@app.task(queue="slow")
def sleep(seconds: float) -> None:
    time.sleep(seconds)

@app.task(queue="slow")
def switch_interval() -> float:
    return sys.getswitchinterval()

@app.task(queue="stuck", timeout="100ms")
def stuck() -> None:
    time.sleep(60)

@app.task(queue="broken")
def broken(card: str) -> None:
    try:
        {}[card]
    except KeyError as error:
        raise LookupError("no such card") from error
"""


class Program:
    """A started `duework run`, and what it has logged."""

    def __init__(self, folder: Path, url: str, words: tuple[str, ...]) -> None:
        self._log = folder / f"log-{time.monotonic_ns()}"
        environment = {**os.environ, "SHOP_URL": url}
        command = [sys.executable, "-m", "duework", "run", "shop:app", "--log-format", "json"]
        with self._log.open("w") as stream:
            self.process = subprocess.Popen(
                [*command, *words],
                cwd=folder,
                env=environment,
                stdout=stream,
                stderr=stream,
                start_new_session=True,
            )

    def events(self, name: str = "") -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self._log.read_text().splitlines() if line[-1] == "}"]
        return [line for line in lines if not name or line.get("event") == name]

    def wait_for(self, what: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            if found := what():
                return found
            time.sleep(0.02)
        raise AssertionError(f"it did not happen; the log: {self._log.read_text()}")

    def stop(self, which: int = signal.SIGTERM) -> int:
        self.process.send_signal(which)
        return self.process.wait(timeout=30)


@pytest.fixture
def start(url: str, tmp_path: Path) -> Iterator[Callable[..., Program]]:
    (tmp_path / "shop.py").write_text(PROGRAM)
    started: list[Program] = []

    def run(*words: str, at: str = url) -> Program:
        started.append(Program(tmp_path, at, words))
        return started[-1]

    yield run
    for program in started:
        if program.process.poll() is None:
            program.process.kill()
            program.process.wait()


@pytest.fixture
def shop(url: str) -> Iterator[App]:
    app = App(url)

    @app.task
    async def greet(name: str) -> str: ...

    @app.task(queue="slow")
    def sleep(seconds: float) -> None: ...

    @app.task(queue="slow")
    def switch_interval() -> float: ...

    @app.task(queue="stuck")
    def stuck() -> None: ...

    @app.task(queue="broken")
    def broken(card: str) -> None: ...

    yield app
    app.close()


def enqueue(app: App, task: str, *args: Any) -> Any:
    from duework.task import Task

    made: Task[..., Any, Any] = Task(app.wiring.registry.find(task), app)
    return made.enqueue(*args)


def test_a_worker_runs_a_job_and_stops_on_sigterm(start: Callable[..., Program], shop: App) -> None:
    program = start()

    done = enqueue(shop, "greet", "ada").wait("20s")
    code = program.stop()

    assert done.stored_result == f'"hello ada from {program.process.pid}"'
    assert code == 0
    events = [each["event"] for each in program.events() if each["event"] != "traffic"]
    assert events[-2:] == ["stopping", "worker_stopped"]
    assert [each["done"] for each in program.events("traffic")] == [1]


def test_a_worker_of_the_command_line_takes_turns_with_what_computes_ten_times_as_often(
    start: Callable[..., Program], shop: App
) -> None:
    start()

    assert enqueue(shop, "switch_interval").wait("20s").stored_result == "0.0005"


@pytest.mark.parametrize(("before", "inside"), [(0.005, 0.0005), (0.02, 0.02), (0.0001, 0.0001)])
def test_a_program_that_has_chosen_its_turns_keeps_them(before: float, inside: float) -> None:
    usual = sys.getswitchinterval()
    try:
        sys.setswitchinterval(before)
        with _brisk():
            assert sys.getswitchinterval() == pytest.approx(inside, rel=0.02)
        assert sys.getswitchinterval() == pytest.approx(before, rel=0.02)
    finally:
        sys.setswitchinterval(usual)


def test_what_fails_is_logged_with_its_trace_and_its_cause(
    start: Callable[..., Program], shop: App
) -> None:
    program = start()
    job = enqueue(shop, "broken", "visa")

    settled = program.wait_for(lambda: program.events("job_settled"))
    assert program.stop() == 0
    assert (settled[0]["job"], settled[0]["level"]) == (str(job.id), "error")
    trace = settled[0]["trace"].splitlines()
    assert "KeyError: 'visa'" in trace
    assert trace[-1] == "LookupError: no such card"
    assert any("shop.py" in line for line in trace)
    assert "exception" not in settled[0]


def test_ctrl_c_ends_with_130(start: Callable[..., Program], shop: App) -> None:
    program = start()
    program.wait_for(lambda: program.events("worker_started"))

    assert program.stop(signal.SIGINT) == 130


def test_a_second_signal_hands_back_what_runs_without_burning_a_retry(
    start: Callable[..., Program], shop: App
) -> None:
    program = start()
    job = enqueue(shop, "sleep", 15)
    program.wait_for(lambda: job.refresh().phase == "running")
    program.process.send_signal(signal.SIGTERM)
    program.wait_for(lambda: program.events("stopping"))

    code = program.stop()

    after = job.refresh()
    assert code == 0
    assert (after.phase, after.failures, after.worker) == ("ready", 0, None)


def test_only_the_named_queues_are_worked_on(start: Callable[..., Program], shop: App) -> None:
    program = start("--queues", "slow")
    other = enqueue(shop, "greet", "ada")

    enqueue(shop, "sleep", 0).wait("20s")

    assert other.refresh().phase == "ready"
    assert program.stop() == 0


def test_a_killed_process_is_replaced_and_all_stop_together(
    start: Callable[..., Program], shop: App
) -> None:
    program = start("--processes", "2")
    program.wait_for(lambda: len(program.events("worker_started")) == 2)
    first, second = (each["pid"] for each in program.events("worker_started"))

    os.kill(first, signal.SIGKILL)
    program.wait_for(lambda: len(program.events("worker_started")) == 3)
    done = enqueue(shop, "greet", "ada").wait("20s")
    code = program.stop()

    third = program.events("worker_started")[2]["pid"]
    assert program.events("child_ended")[0]["pid"] == first
    assert done.state == "done"
    assert code == 0
    assert not [pid for pid in (first, second, third) if Path(f"/proc/{pid}").exists()]


def test_children_end_with_a_supervisor_that_is_killed(
    start: Callable[..., Program], shop: App
) -> None:
    program = start("--processes", "2")
    program.wait_for(lambda: len(program.events("worker_started")) == 2)
    children = [each["pid"] for each in program.events("worker_started")]

    program.process.kill()
    program.process.wait()

    program.wait_for(lambda: len(program.events("worker_stopped")) == 2)
    program.wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children))


def test_a_process_with_a_stuck_thread_is_replaced_once_it_is_idle(
    start: Callable[..., Program], shop: App
) -> None:
    program = start("--processes", "2")
    program.wait_for(lambda: len(program.events("worker_started")) == 2)

    enqueue(shop, "stuck")

    ended = program.wait_for(lambda: program.events("child_ended"))
    program.wait_for(lambda: len(program.events("worker_started")) == 3)
    assert (ended[0]["code"], ended[0]["again_in"]) == (75, 0)
    assert program.stop() == 0


def test_a_newer_schema_ends_with_78_and_is_not_tried_again(
    start: Callable[..., Program], shop: App
) -> None:
    with shop.transaction() as tx:
        tx.write(
            "insert into duework_migration (part, number, name, compatible)"
            " values ('duework', 999, 'later', 999)"
        )

    single = start()
    several = start("--processes", "2")

    assert single.process.wait(timeout=30) == 78
    assert several.process.wait(timeout=30) == 78
    assert len(several.events("child_started")) == 2


def test_a_database_that_is_deleted_under_a_worker_ends_with_74(
    start: Callable[..., Program], tmp_path: Path
) -> None:
    path = tmp_path / "gone.db"
    program = start(at=f"sqlite:///{path}")
    program.wait_for(lambda: program.events("worker_started"))

    path.unlink()

    assert program.process.wait(timeout=30) == 74


def test_an_app_that_cannot_be_found_ends_with_78(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "duework", "run", "nothing:app"]

    ran = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False
    )

    assert ran.returncode == 78
    assert "there is no module 'nothing'" in ran.stderr


def test_a_mistyped_queue_ends_with_78(start: Callable[..., Program], shop: App) -> None:
    program = start("--queues", "slwo")

    assert program.process.wait(timeout=30) == 78
    [line] = program.events()
    assert "did you mean 'slow'?" in line["error"]["message"]


def test_ctrl_c_says_at_once_what_is_waited_for(start: Callable[..., Program], shop: App) -> None:
    program = start("--log-level", "warning")
    job = enqueue(shop, "sleep", 3)
    program.wait_for(lambda: job.refresh().phase == "running")

    program.process.send_signal(signal.SIGINT)

    [line] = program.wait_for(lambda: program.events("stopping"))
    assert f"sleep {job.id} may take 20s to finish" in line["message"]
    assert program.process.wait(timeout=30) == 130


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_a_foreign_lock_at_the_start_is_waited_for(
    start: Callable[..., Program], shop: App
) -> None:
    job = enqueue(shop, "greet", "ada")
    with closing(shop.connect()) as foreign:
        foreign.execute("begin immediate")
        program = start()
        [parked] = program.wait_for(lambda: program.events("parked"))
        assert "locked by another connection" in parked["message"]
        foreign.execute("rollback")

    assert job.wait("20s").state == "done"
    assert len(program.events("resumed")) == 1
    assert program.stop() == 0


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_a_start_that_waits_for_a_lock_can_be_stopped(
    start: Callable[..., Program], shop: App
) -> None:
    enqueue(shop, "greet", "ada")
    with closing(shop.connect()) as foreign:
        foreign.execute("begin immediate")
        program = start()
        program.wait_for(lambda: program.events("parked"))

        assert program.stop(signal.SIGINT) == 130
