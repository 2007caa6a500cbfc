"""Starts workers as processes of their own and looks at what they do from outside.

A test enqueues by a copy of `programs.py` that is bound to the test's database; the workers that it
starts run the same program.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import apsw
import pytest

from duework import App, Job

T = TypeVar("T")

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("programs.py")


def until(look: Callable[[], T], within: float = 20, every: float = 0.01) -> T:
    """The first true answer; fails if there is none in time."""
    deadline = time.monotonic() + within
    while not (found := look()):
        assert time.monotonic() < deadline, f"still {found!r} after {within} s"
        time.sleep(every)
    return found


@dataclass(frozen=True)
class Note:
    """A line that a task left behind."""

    what: str
    job: int
    pid: int
    at: float
    fence: int


class Worker:
    """A worker in a process of its own."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self.pid = process.pid
        self._log = log

    def facts(self, name: str = "") -> list[dict[str, Any]]:
        """What it has told so far; all of it, or the facts of one name."""
        lines = self._log.read_text().splitlines()
        told = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
        return [fact for fact in told if not name or fact["fact"] == name]

    def log(self) -> str:
        return self._log.read_text()

    def wait_for(self, name: str, within: float = 20) -> dict[str, Any]:
        return until(lambda: self.facts(name), within)[0]

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def kill(self) -> float:
        """kill -9; returns when that was."""
        at = time.monotonic()
        self.process.kill()
        self.process.wait()
        return at

    def terminate(self, within: float = 15) -> int:
        """Ask it to stop; its exit code."""
        self.signal(signal.SIGTERM)
        return self.process.wait(within)

    def family(self) -> set[int]:
        """The processes it has started, and theirs."""
        return descendants(self.pid)


def descendants(pid: int) -> set[int]:
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                stat = Path(f"/proc/{name}/stat").read_text()
            except OSError:
                continue
            parents[int(name)] = int(stat.rpartition(")")[2].split()[1])
    found: set[int] = set()
    while more := {p for p, parent in parents.items() if parent in found | {pid}} - found:
        found |= more
    return found


def alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


class Bench:
    """A database, the program that is bound to it, and the workers that were started on it."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self._folder = folder
        self._runs = folder / "runs"
        self._runs.touch()
        self._workers: list[Worker] = []
        self.tasks = self._bound_program()
        self.app: App = self.tasks.app
        with self.app.transaction() as tx:
            tx.write(self.tasks.TABLE)

    def _bound_program(self) -> ModuleType:
        spec = importlib.util.spec_from_file_location("tests.support.programs", PROGRAM)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DUEWORK_URL", self.url)
            # Resolves the annotations of the tasks; the copy is nobody else's afterwards.
            patch.setitem(sys.modules, "tests.support.programs", module)
            spec.loader.exec_module(module)
        return module

    def start(
        self, *, ready: bool = True, env: dict[str, str] | None = None, **options: Any
    ) -> Worker:
        """A worker process; `options` are the program's, such as lease='1s'."""
        log = self._folder / f"worker-{len(self._workers)}.log"
        environment = {
            **os.environ,
            "DUEWORK_URL": self.url,
            "RUNS": str(self._runs),
            "PROGRAM": json.dumps(options),
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
            "PYTHONUNBUFFERED": "1",
            **(env or {}),
        }
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.programs"],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        worker = Worker(process, log)
        self._workers.append(worker)
        if ready:
            until(lambda: worker.facts("WorkerStarted") or process.poll() is not None)
            assert process.poll() is None, worker.log()
        return worker

    def freeze(self, worker: Worker) -> None:
        """Stop a process (SIGSTOP) where it holds no lock; with one, nobody could write meanwhile."""

        def stopped_free() -> bool:
            worker.signal(signal.SIGSTOP)
            os.waitid(os.P_PID, worker.pid, os.WSTOPPED)
            free = not self._locked()
            if not free:
                worker.signal(signal.SIGCONT)
            return free

        until(stopped_free, every=0.05)

    def _locked(self) -> bool:
        """Whether a transaction stays open that was open at the call."""
        if self.url.startswith("sqlite"):
            with closing(self.app.connect()) as connection:
                connection.setbusytimeout(200)
                try:
                    connection.execute("begin immediate")
                except apsw.BusyError:
                    return True
                return False
        time.sleep(0.1)
        open_since = "xact_start < now() - interval '100 ms'"
        return bool(
            self.app.read(
                f"""select pid from pg_stat_activity
                where datname = current_database() and {open_since}"""
            )
        )

    def close(self) -> None:
        for worker in self._workers:
            family = worker.family()
            if worker.process.poll() is None:
                worker.kill()
            for pid in family:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
        self.app.close()

    # --- looking

    def notes(self, what: str = "", job: int | Job[Any] | None = None) -> list[Note]:
        wanted = job.id if isinstance(job, Job) else job
        found = []
        # The last line may be on its way.
        whole, _, _ = self._runs.read_text().rpartition("\n")
        for line in whole.splitlines():
            name, number, pid, at, fence = line.split()
            each = Note(name, int(number), int(pid), float(at), int(fence))
            if name.startswith(what) and wanted in (None, each.job):
                found.append(each)
        return found

    def started(self, job: Job[Any], times: int = 1, within: float = 20) -> Note:
        """Wait for the n-th start of a job."""
        return until(lambda: self.notes("start", job)[times - 1 :], within)[0]

    def effects(self, job: Job[Any] | None = None) -> list[Any]:
        rows = self.app.read("select job, note from effect order by job")
        return [row for row in rows if job is None or row.job == job.id]

    def settled(self, jobs: list[Job[Any]], within: float = 20) -> list[Job[Any]]:
        """Wait until all of them have settled."""
        until(lambda: not self._open(jobs), within, every=0.05)
        return [job.refresh() for job in jobs]

    def _open(self, jobs: list[Job[Any]]) -> bool:
        rows = self.app.read("select id from duework_job where state = 'open'")
        return not {row.id for row in rows}.isdisjoint({job.id for job in jobs})


@contextmanager
def bench(url: str, folder: Path) -> Iterator[Bench]:
    made = Bench(url, folder)
    try:
        yield made
    finally:
        made.close()
