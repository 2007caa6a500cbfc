"""Where a scenario runs: folders, databases, servers, and processes that are measured from outside."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep
from typing import Any, TypeVar

import apsw
import psycopg

from bench.marks import Marks
from tests.support.postgres import Server, server

T = TypeVar("T")

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "bench"
PATIENCE = 120.0
# As many as the raw loop takes at a time.
CONCURRENCY = 500
# Whatever is leased, and so not settled yet.
LEASED = "select 1 from duework_job where worker is not null limit 1"
DONE = "select count(*) from duework_job where task like '%{task}' and state = 'done'"


class ScenarioFailed(Exception):
    """A measurement that would have been wrong."""


class Missing(Exception):
    """Something that cannot be measured here, and why."""


@dataclass
class Bed:
    """What the scenarios of one run share."""

    quick: bool = False
    huge: bool = False
    # Whether other libraries are measured, too.
    peers: bool = False
    _once: dict[str, Any] = field(default_factory=dict)
    _names: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _stack: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        self.folder = BUILD / "data" / str(os.getpid())
        self.folder.mkdir(parents=True)

    def close(self) -> None:
        self._stack.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def scaled(self, full: int, quick: int) -> int:
        """How many jobs, in a full run or in a quick one."""
        return quick if self.quick else full

    def once(self, name: str, make: Callable[[], T]) -> T:
        """What takes long to prepare is made for the first sample and kept for the others."""
        if name not in self._once:
            self._once[name] = make()
        made: T = self._once[name]
        return made

    def enter(self, manager: AbstractContextManager[T]) -> T:
        """Keep something open until the run ends."""
        return self._stack.enter_context(manager)

    # --- databases

    @property
    def server(self) -> Server:
        return self.once("postgres", lambda: self.enter(server()))

    def sqlite(self) -> str:
        """The address of a new file."""
        return f"sqlite:///{self.folder / f'{next(self._names)}.db'}"

    def postgres(self) -> str:
        """The address of a new, empty database."""
        return self.server.create_database(f"bench{next(self._names)}")

    def drop(self, url: str) -> None:
        """Give back the room that a database takes."""
        if url.startswith("sqlite:"):
            for file in self.folder.glob(f"{file_of(url).name}*"):
                file.unlink(missing_ok=True)
        else:
            self.server.drop_database(url.rpartition("/")[2])

    # --- processes

    def marks(self, jobs: int = 0) -> Marks:
        return Marks(self.folder / f"{next(self._names)}.marks", jobs)

    def child(
        self,
        function: Callable[..., Any],
        *,
        env: dict[str, str] | None = None,
        within: float = PATIENCE,
        **options: Any,
    ) -> Any:
        """Run a function of a scenario in a process of its own; what it returned."""
        target = f"{function.__module__}:{function.__name__}"
        command = [sys.executable, "-m", "bench.child", target, json.dumps(options)]
        ended = subprocess.run(
            command,
            cwd=ROOT,
            env=os.environ | (env or {}),
            capture_output=True,
            timeout=within,
            check=False,
        )
        if ended.returncode:
            raise ScenarioFailed(f"{target}: {ended.stderr.decode()[-2000:]}")
        return json.loads(ended.stdout.splitlines()[-1])

    @contextmanager
    def background(
        self, function: Callable[..., Any], *, env: dict[str, str] | None = None, **options: Any
    ) -> Iterator[Talker]:
        """The same while other things go on."""
        target = f"{function.__module__}:{function.__name__}"
        command = [sys.executable, "-m", "bench.child", target, json.dumps(options)]
        with talking(command, os.environ | (env or {})) as child:
            yield child

    @contextmanager
    def worker(
        self,
        url: str,
        *,
        marks: Marks | None = None,
        slot: int = 0,
        concurrency: int = CONCURRENCY,
        statements: bool = False,
    ) -> Iterator[Talker]:
        """A worker that is ready to go; killed at the end if it has not been stopped."""
        env = os.environ | worker_env(url, marks, slot, concurrency)
        if statements:
            env["BENCH_STATEMENTS"] = "1"
        with talking([sys.executable, "-m", "bench.worker"], env) as worker:
            worker.listen()
            yield worker


def worker_env(
    url: str, marks: Marks | None = None, slot: int = 0, concurrency: int = CONCURRENCY
) -> dict[str, str]:
    """What `bench.tasks` reads."""
    env = {"BENCH_URL": url, "BENCH_SLOT": str(slot), "BENCH_CONCURRENCY": str(concurrency)}
    if marks is not None:
        env["BENCH_MARKS"] = str(marks.path)
    return env


class Talker:
    """A process that is told things by lines and answers by lines of JSON."""

    def __init__(self, process: subprocess.Popen[bytes], errors: Path) -> None:
        self.process = process
        self.pid = process.pid
        self._errors = errors

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except OSError as error:
            raise self._failed("is gone") from error

    def listen(self, within: float = PATIENCE) -> Any:
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], within)
        line = self.process.stdout.readline() if ready else b""
        if not line:
            raise self._failed("said nothing")
        try:
            return json.loads(line)
        except ValueError as error:
            raise self._failed(f"said {line.decode(errors='replace')!r:.100}") from error

    def _failed(self, what: str) -> ScenarioFailed:
        return ScenarioFailed(f"a process {what}: {self._errors.read_text()[-2000:]}")

    def go(self) -> float:
        """Let it work; returns the moment."""
        now = monotonic()
        self.tell("go")
        return now

    def stop(self) -> None:
        self.tell("stop")
        self.process.wait(30)

    def kill(self) -> float:
        """kill -9; returns the moment."""
        now = monotonic()
        self.process.kill()
        self.process.wait()
        return now


@contextmanager
def talking(command: list[str], env: dict[str, str]) -> Iterator[Talker]:
    errors = BUILD / "data" / f"errors-{os.getpid()}-{monotonic()}"
    errors.parent.mkdir(parents=True, exist_ok=True)
    with errors.open("wb") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
        )
    try:
        yield Talker(process, errors)
    finally:
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        process.kill()
        process.wait()
        errors.unlink(missing_ok=True)


def file_of(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


def until(look: Callable[[], Any], within: float = PATIENCE, every: float = 0.001) -> float:
    """The moment at which a look first finds something."""
    deadline = monotonic() + within
    while not look():
        if monotonic() > deadline:
            raise ScenarioFailed(f"what was waited for has not happened within {within:g} s")
        sleep(every)
    return monotonic()


@contextmanager
def looking(url: str) -> Iterator[Callable[[str], list[Any]]]:
    """Runs queries of ours on a connection of its own."""
    if url.startswith("sqlite:"):
        reader = apsw.Connection(str(file_of(url)), flags=apsw.SQLITE_OPEN_READWRITE)
        reader.set_busy_timeout(10_000)
        try:
            yield lambda sql: reader.execute(sql).fetchall()
        finally:
            reader.close()
    else:
        with psycopg.connect(url, autocommit=True) as connection:
            yield lambda sql: connection.execute(sql.encode()).fetchall()


def settled(url: str, marks: Marks, jobs: int, *, within: float = PATIENCE) -> float:
    """The moment at which all jobs have run and none is leased any more."""
    until(lambda: marks.count() >= jobs, within)
    with looking(url) as look:
        return until(lambda: not look(LEASED), within)


def check_done(url: str, task: str, jobs: int) -> None:
    """A rate counts only if every job was settled, once."""
    with looking(url) as look:
        done = look(DONE.format(task=task))[0][0]
    if done != jobs:
        raise ScenarioFailed(f"{done} of {jobs} jobs are done")
