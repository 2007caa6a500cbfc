"""A fresh process for one attempt, with a budget, killed as a group when over it.

The child is forked from a server that has the program imported already. It knows no database: what its
`Run` is asked goes to the parent over a pipe, and its effects travel in the result frame. Success is
that frame alone; an exit code of 0 without one is a crash. A budget is a limit, not a sandbox.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import connection, forkserver
from multiprocessing.connection import Connection
from typing import Any

import msgspec

from duework.clock import Clock, Scaled, SystemClock, monotonic
from duework.errors import Error, UsageError
from duework.kernel.error_text import describe
from duework.kernel.job import Claimed, Effect, Ending, NewJob, PaceReport
from duework.kernel.run import Host, Write
from duework.kernel.surroundings.buffer import Buffer
from duework.kernel.surroundings.resources import Resources
from duework.kernel.tasks import Definition, Registry
from duework.worker.isolation.child import FRAME_LIMIT, Parent
from duework.worker.isolation.on_the_way import ItemOnTheWay, JobsOnTheWay
from duework.worker.isolation.surroundings import Place, at_top, call_surrounded, found, places
from duework.worker.runner import Runner, RunningAttempt, TimedOut

ISOLATED = "DUEWORK_ISOLATED"
_NOT_THEIRS = ("DUEWORK_URL", "DUEWORK_KEY", "DUEWORK_KEY_FILE")
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.decode
_starting = threading.Lock()


class Crash(Exception):
    """The child ended without a result."""


class NeedsWorker(UsageError):
    """It needs something that only its worker has."""


def no_database() -> NeedsWorker:
    """What went wrong: the program starts itself again in the child, or a task asks for the database."""
    # multiprocessing's own mark, while it imports the program's main module.
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        return NeedsWorker(
            "this program is imported for a task with a process of its own, and starts its work"
            ' again there: put what it does below `if __name__ == "__main__":`'
        )
    return NeedsWorker(
        "a task with a process of its own has no database: use run.read, run.write and"
        " run.enqueue, which ask its worker"
    )


@dataclass(frozen=True, slots=True)
class Spec:
    """All that a child gets."""

    module: str
    name: str
    job: Claimed
    worker: int
    now: int
    # Whether that is a server's time, which no wall clock moves.
    served: bool
    # How quickly it passes.
    speed: float
    chance: float
    cpu_seconds: int | None
    memory_mb: int | None
    # Where to find the context managers around it.
    arounds: list[Place]


def isolated() -> bool:
    """Whether this process is such a child, or the server they are forked from."""
    return ISOLATED in os.environ


def find(module: str, name: str) -> Definition:
    """The task behind a module's attribute; both come from the registry, never from stored data."""
    definition = getattr(found(module, name), "definition", None)
    if not isinstance(definition, Definition):
        raise UsageError(f"{module}.{name} is not a task at the top of its module")
    return definition


def check(task: Definition) -> None:
    """A clear error now instead of a crash of each attempt later."""
    function = task.function
    if getattr(at_top(function), "definition", None) is not task:
        message = (
            f"{task.name} cannot have a process of its own: a fresh process must find it as"
            f" {function.__module__}.{function.__qualname__}, at the top of an importable module"
        )
        raise UsageError(message)


def call(
    attempt: RunningAttempt,
    host: Host,
    worker: int,
    chance: float,
    *,
    served: bool,
    speed: float = 1.0,
) -> Ending:
    """Run the attempt in a process of its own and wait for its frame; in a thread of the worker's."""
    task = attempt.task
    check(task)
    spec = Spec(
        task.function.__module__,
        task.function.__qualname__,
        attempt.job,
        worker,
        now=host.now(),
        served=served,
        speed=speed,
        chance=chance,
        cpu_seconds=task.policy.cpu_seconds,
        memory_mb=task.policy.memory_mb,
        arounds=places(task.arounds),
    )
    child = Child(_encode(spec), task.function.__module__)
    attempt.kill = child.kill
    # A stop of a moment ago found nothing to kill yet.
    if attempt.stopping is not None or attempt.over:
        child.kill()
    try:
        frame = _serve(child, attempt, host)
    finally:
        code = child.end()
    if frame is None:
        raise _verdict(attempt, code)
    return _ending(frame, attempt, host, worker)


class Child:
    """The process of one attempt, as its parent sees it."""

    def __init__(self, spec: bytes, module: str) -> None:
        self.pipe, theirs = multiprocessing.Pipe()
        self._lock = threading.Lock()
        self._ended = False
        context = multiprocessing.get_context("forkserver")
        with _starting:
            context.set_forkserver_preload(["duework.worker.isolation.preload"])
            with _marked_environment(module):
                forkserver.ensure_running()
            self._process = context.Process(target=_child, args=(theirs, spec), daemon=True)
            try:
                self._process.start()
            except (EOFError, OSError) as error:
                self.pipe.close()
                raise Crash(f"a process could not be started ({error!r})") from error
            finally:
                theirs.close()

    def message(self) -> dict[str, Any] | None:
        """What it says next; None if it has ended."""
        try:
            # Its end is seen even if something that it started keeps the pipe open.
            connection.wait([self.pipe, self._process.sentinel])
            if not self.pipe.poll():
                return None
            return dict(_decode(self.pipe.recv_bytes(FRAME_LIMIT)))
        except (EOFError, OSError):
            return None

    def answer(self, reply: Mapping[str, Any]) -> None:
        with contextlib.suppress(OSError):
            self.pipe.send_bytes(_encode(reply))

    def kill(self) -> None:
        """End it and everything in its group; from any thread, and nothing once it has ended."""
        with self._lock:
            if not self._ended:
                self._signal()

    def end(self) -> int | None:
        """Kill what is left of it and forget it; its exit code."""
        # Others look at the processes there are whenever one is started, and of two threads that
        # ask for one exit code, only one gets it.
        with _starting, self._lock:
            self._signal()
            self._process.join()
            self._ended = True
            code: int | None = self._process.exitcode
            self._process.close()
        self.pipe.close()
        return code

    def _signal(self) -> None:
        assert self._process.pid is not None, "it was started"
        # Very early it has no group of its own yet.
        for send in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                send(self._process.pid, signal.SIGKILL)


@contextlib.contextmanager
def _marked_environment(module: str) -> Iterator[None]:
    """The fork server, once started, keeps the environment it was started in: without address and keys."""
    ours = {name: os.environ.pop(name) for name in _NOT_THEIRS if name in os.environ}
    os.environ[ISOLATED] = module
    try:
        yield
    finally:
        del os.environ[ISOLATED]
        os.environ.update(ours)


def _serve(child: Child, attempt: RunningAttempt, host: Host) -> dict[str, Any] | None:
    """Answer the child until it sends its result; None if it ended without one."""
    while (message := child.message()) is not None:
        if message["ask"] == "end":
            return message
        child.answer(_reply(message, attempt, host))
    return None


def _reply(message: Mapping[str, Any], attempt: RunningAttempt, host: Host) -> dict[str, Any]:
    try:
        if message["ask"] == "read":
            rows = host.read(message["sql"], message["values"])
            columns = getattr(rows[0], "_fields", ()) if rows else ()
            return {"columns": list(columns), "rows": [list(row) for row in rows]}
        if message["ask"] == "secret":
            return {"value": host.secret(message["name"])}
        if message["ask"] == "progress":
            host.progress(attempt.job, message["done"], message["total"], message["note"])
        return {"cancelled": attempt.run.cancelled}
    except Error as error:
        return {"error": str(error), "code": error.code}


def _verdict(attempt: RunningAttempt, code: int | None) -> Exception:
    if attempt.stopping is not None:
        return TimedOut(attempt.stopping)
    if code == -signal.SIGXCPU:
        return TimedOut(f"it used more than its {attempt.task.policy.cpu_seconds} s of CPU")
    if code is not None and code < 0:
        return Crash(f"its process was killed by {signal.Signals(-code).name}")
    return Crash(f"its process exited with code {code} and gave no result")


def _ending(frame: Mapping[str, Any], attempt: RunningAttempt, host: Host, worker: int) -> Ending:
    for name, word, value in frame.get("notes", ()):
        for gate in attempt.task.gates:
            if gate.name == name:
                gate.pace.report(word, value)
    attempt.buffer.spent.update(frame.get("spent", {}))
    effects: list[Effect] = []
    for each in frame["effects"]:
        if each["kind"] == "write":
            effects.append(Write(each["sql"], each["values"], each["rows"]))
        elif each["kind"] == "item":
            effects.append(host.effect_as(each["name"], each["item"]))
        else:
            effects.append(host.effect_of(msgspec.convert(each["jobs"], list[NewJob])))
    return Ending(
        attempt.job.id,
        attempt.job.fence,
        worker,
        frame["kind"],
        due=frame["due"],
        result=frame["result"],
        error=frame["error"],
        started=attempt.started,
        effects=tuple(effects),
        report=None if frame["report"] is None else PaceReport(*frame["report"]),
        lane=attempt.job.lane,
    )


# --- the child's side


def _clock(spec: Spec) -> Clock:
    if spec.speed != 1:
        return Scaled(spec.speed, now=spec.now)
    clock = SystemClock()
    if spec.served:
        clock.follow(spec.now, clock.boot())
    return clock


class _Pipe:
    """The child's `Host`: everything is asked of the parent."""

    def __init__(self, parent: Parent, spec: Spec) -> None:
        self._parent = parent
        self._clock = _clock(spec)
        # Its worker's time may be a virtual one.
        self._offset = spec.now - self._clock.now()
        self.arounds = spec.arounds
        self.resources = Resources()

    def now(self) -> int:
        return self._clock.now() + self._offset

    def read(self, sql: str, values: Mapping[str, Any]) -> list[Any]:
        from duework.db.database import row_type

        answer = self._parent.ask("read", sql=sql, values=dict(values))
        make = row_type(tuple(answer["columns"]))
        return [make(row) for row in answer["rows"]]

    def secret(self, name: str) -> str:
        value: str = self._parent.ask("secret", name=name)["value"]
        return value

    def object(self, of: Any, key: str) -> Any:  # noqa: ARG002 - whichever it is
        raise NeedsWorker("objects are called where the database is: run.enqueue a task for that")

    def flow(self, job: Claimed, buffer: Buffer) -> Any:  # noqa: ARG002 - whichever it is
        raise NeedsWorker("steps are where the database is: leave out isolation=")

    def resource(self, resource: Any) -> Any:
        return self.resources.get(resource)

    def progress(self, job: Claimed, done: float, total: float | None, note: str) -> None:  # noqa: ARG002 - the parent knows
        self._parent.ask("progress", done=done, total=total, note=note)

    def effect_of(self, jobs: Sequence[NewJob]) -> Effect:
        return JobsOnTheWay(list(jobs))

    def sign(self, job: Claimed, sign: int) -> None:
        """Shapes send in the worker's own process."""

    def effect_as(self, name: str, item: Any) -> Effect:
        return ItemOnTheWay(name, item)

    def transaction(self, tx: Any) -> Any:
        return tx


def _child(pipe: Connection, raw: bytes) -> None:
    spec = msgspec.convert(_decode(raw), Spec)
    _limit(spec)
    if not isolated():
        raise AssertionError("the fork server was started with the worker's own environment")
    parent = Parent(pipe)
    try:
        task = find(spec.module, spec.name)
    except Exception as error:  # noqa: BLE001 - a module may raise anything when it is imported
        why = f"a fresh process could not import {spec.module}: {describe(error)}"
        failed = Ending(spec.job.id, spec.job.fence, spec.worker, "failed", error=why)
        parent.end(_frame(failed))
        return
    registry = Registry()
    registry.add_as(spec.job.task, task)
    host = _Pipe(parent, spec)
    runner = Runner(registry, host, spec.worker, lambda: spec.chance)
    reports: list[list[Any]] = []
    for gate in task.gates:
        # What is reported to a quota here is written down by the parent.
        gate.pace.listeners[:] = [
            lambda pace, word, value: reports.append([pace.name, word, value])
        ]
    attempt = runner.prepare(spec.job, now=spec.now, monotonic=monotonic())
    frame = _frame(attempt) if isinstance(attempt, Ending) else _attempt(attempt, runner, host)
    parent.end({**frame, "notes": reports})


def _attempt(attempt: RunningAttempt, runner: Runner, host: _Pipe) -> dict[str, Any]:
    value: Any = None
    error: BaseException | None = None
    try:
        value = call_surrounded(attempt, host.arounds, host.resources)
    except BaseException as raised:  # noqa: BLE001 - whatever a task raises is its outcome
        error = raised
    _ignore_signals()
    return _frame(runner.conclude(attempt, value, error, host.now()))


def _ignore_signals() -> None:
    """A task that is through is not undone by a handler that it leaves behind."""
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_IGN)


def _frame(ending: Ending) -> dict[str, Any]:
    effects: list[dict[str, Any]] = []
    for effect in ending.effects:
        if isinstance(effect, Write):
            rows = None if effect.rows is None else [dict(row) for row in effect.rows]
            values = dict(effect.values)
            effects.append({"kind": "write", "sql": effect.sql, "values": values, "rows": rows})
        elif isinstance(effect, JobsOnTheWay):
            effects.append({"kind": "jobs", "jobs": effect.jobs})
        elif isinstance(effect, ItemOnTheWay):
            effects.append({"kind": "item", "name": effect.name, "item": effect.item})
        else:
            why = (
                "a function given to run.commit cannot leave a process of its own: use run.write,"
                " run.enqueue, run.batch, run.start, run.submit or run.schedule"
            )
            return _frame(ending.but(kind="failed", error=why, effects=()))
    return {
        "ask": "end",
        "kind": ending.kind,
        "due": ending.due,
        "result": ending.result,
        "error": ending.error,
        "effects": effects,
        "report": None if ending.report is None else [ending.report.word, ending.report.value],
        "spent": {name: used for name, _, used, _ in ending.spent},
    }


def _limit(spec: Spec) -> None:
    """A group and limits of its own; it goes when its server goes."""
    os.setsid()
    # The server lives while a process has its lifeline open. We must not: it has to end with our worker.
    if (lifeline := getattr(forkserver._forkserver, "_forkserver_alive_fd", None)) is not None:  # noqa: SLF001 - inherited, no other way
        os.close(lifeline)
        forkserver._forkserver._forkserver_alive_fd = None  # type: ignore[attr-defined]  # noqa: SLF001
    with contextlib.suppress(Exception):
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if spec.memory_mb is not None:
            # Otherwise the thread that speaks with the parent takes 64 MB of it for a heap of its own.
            ctypes.CDLL(None).mallopt(-8, 1)  # M_ARENA_MAX
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if spec.cpu_seconds is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (spec.cpu_seconds, spec.cpu_seconds + 5))
    if spec.memory_mb is not None:
        size = spec.memory_mb * 1024 * 1024
        resource.setrlimit(resource.RLIMIT_AS, (size, size))
