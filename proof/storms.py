"""What the sections with real processes share: a database, workers, enqueuers, and the end of it.

A storm has a folder and a database. It starts workers by the real command, lets something happen to them,
then heals, waits until nothing is open, and has the history checked and `duework verify` run.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from duework import App, Job
from duework.errors import Error
from duework.kernel.job import POISON
from proof import tasks
from proof.check import check
from proof.history import History, Op, gather, record, total

ROOT = Path(__file__).resolve().parents[1]
LEASE_MS = 1500
SLOTS = 4
# What a worker says once it has reached its database.
STARTED = " started: pid "
# How much may wait before enqueuers hold back: what is left at the end takes time.
BACKLOG = {"short": "20", "full": "150"}


class Storm:
    """One database under load."""

    # What workers run, and what enqueues.
    program = "proof.program:app"
    client = "proof.enqueuer"

    def __init__(self, url: str, folder: Path, seed: int, **env: str) -> None:
        self.url, self.folder, self.seed = url, folder, seed
        self.rng = random.Random(seed)
        self.app = App(url)
        self.prepare()
        self.runs, self.ops = folder / "runs", folder / "ops"
        self.runs.touch()
        self.ops.touch()
        self._env = {
            **os.environ,
            "DUEWORK_URL": url,
            "RUNS": str(self.runs),
            "OPS": str(self.ops),
            "PROOF_LEASE": f"{LEASE_MS}ms",
            "PROOF_SLOTS": str(SLOTS),
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
            **env,
        }
        self.workers: list[subprocess.Popen[bytes]] = []
        self.enqueuers: list[subprocess.Popen[bytes]] = []
        self._stopped: dict[int, float] = {}
        # Who went on after it had stood still, and when, in milliseconds of the clock.
        self.woken: list[tuple[int, int]] = []
        self._started = self._numbers = self._read = 0
        self._busy: set[int] = set()
        self.faults: Counter[str] = Counter()
        self.balances: list[int] = []

    def prepare(self) -> None:
        """The tables of the tasks, and the history of the jobs."""
        tasks.set_up(self.app)
        record(self.app)

    # --- processes

    def start(self, *, prefix: tuple[str, ...] = (), **env: str) -> subprocess.Popen[bytes]:
        """A worker, by the command that everybody uses."""
        command = [sys.executable, "-m", "duework", "run", self.program, "--no-view"]
        worker = self._popen([*prefix, *command], env)
        self.workers.append(worker)
        return worker

    def load(self, pause: float) -> subprocess.Popen[bytes]:
        """A process that enqueues, about every `pause` seconds."""
        self._numbers += 1
        command = [sys.executable, "-m", self.client, str(self._numbers)]
        enqueuer = self._popen([*command, str(self.seed), str(pause)], {})
        self.enqueuers.append(enqueuer)
        return enqueuer

    def _popen(self, command: list[str], env: dict[str, str]) -> subprocess.Popen[bytes]:
        self._started += 1
        with (self.folder / f"log-{self._started}").open("wb") as log:
            return subprocess.Popen(
                command,
                cwd=ROOT,
                env={**self._env, **env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    # --- what happens to them

    def kill(self, process: subprocess.Popen[bytes], called: str = "kill -9") -> None:
        self._stopped.pop(process.pid, None)
        process.kill()
        process.wait()
        self.faults[called] += 1

    def stop(self, process: subprocess.Popen[bytes], seconds: float, called: str = "") -> None:
        """Let it stand still; `wake` lets it go on when its time has come."""
        if process.pid not in self._stopped:
            process.send_signal(signal.SIGSTOP)
            self._stopped[process.pid] = time.monotonic() + seconds
            kind = "stopped for longer than a lease" if seconds * 1000 > LEASE_MS else "stopped"
            self.faults[called or kind] += 1

    def wake(self, *, everybody: bool = False) -> None:
        now = time.monotonic()
        for process in [*self.workers, *self.enqueuers]:
            until = self._stopped.get(process.pid)
            if until is not None and (everybody or until <= now):
                process.send_signal(signal.SIGCONT)
                del self._stopped[process.pid]
                self.woken.append((process.pid, time.time_ns() // 1_000_000))

    def terminate(self, process: subprocess.Popen[bytes]) -> None:
        if process.pid not in self._stopped:
            process.terminate()
            self.faults["terminated"] += 1

    # --- looking

    def open_jobs(self) -> int:
        rows = self.app.read(
            "select count(*) as n from duework_job j join duework_lane l on l.id = j.lane"
            " where j.state = 'open' and l.queue <> 'duework'"
        )
        return int(rows[0].n)

    def acknowledged(self) -> int:
        return self.ops.read_bytes().count(b'"ok"')

    def begun(self, within: float = 60) -> None:
        """Wait until jobs are acknowledged and run, by every worker: some take their time to start."""
        until(lambda: self.acknowledged() and self.runs.stat().st_size, within)
        until(lambda: self.told(STARTED) >= len(self.workers), within)

    def settled(self, jobs: list[Job[Any]], within: float) -> bool:
        return bool(until(lambda: all(job.refresh().state != "open" for job in jobs), within))

    def look(self) -> None:
        """Add up the accounts; the database may be away."""
        with suppress(Error):
            self.balances.append(total(self.app))

    def quiet(self) -> None:
        """No more is enqueued; who stands still goes on."""
        for enqueuer in self.enqueuers:
            if enqueuer.poll() is None:
                enqueuer.kill()
            enqueuer.wait()
        self.wake(everybody=True)

    def at_work(self, process: subprocess.Popen[bytes]) -> bool:
        """Whether it has begun a job: a busy machine takes its time to start a program."""
        with self.runs.open() as runs:
            runs.seek(self._read)
            text = runs.read()
        whole = text.rpartition("\n")[0]
        self._read += len(whole)
        self._busy.update(int(pid) for pid in re.findall(r'"pid": (\d+)', whole))
        return process.poll() is None and process.pid in self._busy

    def drained(self, within: float) -> bool:
        """Wait until nothing is open, with at least two workers; for as long as it gets less."""
        deadline, least = time.monotonic() + within, sys.maxsize
        while time.monotonic() < deadline:
            while sum(worker.poll() is None for worker in self.workers) < 2:
                self.start()
            with suppress(Error):
                if (left := self.open_jobs()) == 0:
                    return True
                if left < least:
                    deadline, least = time.monotonic() + within, left
            time.sleep(0.2)
        return False

    def history(self) -> History:
        history = gather(self.app)
        history.lease, history.balances = LEASE_MS, self.balances
        ops: dict[int, Op] = {}
        for line in lines(self.ops):
            op = ops.setdefault(line["n"], Op(line["n"], key=line["key"]))
            op.kind, op.job = line["kind"], line.get("job")
        history.ops, history.notes = list(ops.values()), lines(self.runs)
        return history

    def verified(self) -> list[str]:
        """`duework verify`, as an operator runs it."""
        command = [sys.executable, "-m", "duework", "verify", "--full", "--json"]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=self._env,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        return [] if done.returncode == 0 else [f"verify: {done.stdout or done.stderr}"[:500]]

    def told(self, words: str) -> int:
        """How many lines of all logs say so."""
        logs = [path.read_text(errors="replace") for path in self.folder.glob("log-*")]
        return sum(words in line for log in logs for line in log.splitlines())

    def seen_wrong(self) -> bool:
        """Whether the history so far breaks an invariant that also holds in the middle."""
        history = self.history()
        return any(not each.startswith(("I1 ", "I2 ")) for each in check(history))

    def end(self) -> None:
        """Stop everybody politely."""
        for worker in self.workers:
            if worker.poll() is None:
                worker.terminate()
        for worker in self.workers:
            worker.wait(60)

    def judge(self) -> tuple[History, list[str]]:
        """End it, then check everything."""
        self.end()
        history = self.history()
        return history, [*check(history), *self.verified()]

    def close(self) -> None:
        for process in [*self.workers, *self.enqueuers]:
            if process.poll() is None:
                process.kill()
            process.wait()
        self.app.close()


def lines(path: Path) -> list[dict[str, Any]]:
    """What was noted; the last line of a process that was killed may be cut off."""
    found = []
    for line in path.read_text().splitlines():
        with suppress(ValueError):
            found.append(json.loads(line))
    return found


S = TypeVar("S", bound=Storm)


@contextmanager
def storm(url: str | None, seed: int, **env: str) -> Iterator[Storm]:
    """A storm on this database, or on a new file, in a folder of its own."""
    with storm_of(Storm, url, seed, **env) as made:
        yield made


@contextmanager
def storm_of(kind: type[S], url: str | None, seed: int, **env: str) -> Iterator[S]:
    """The same, of another kind."""
    with tempfile.TemporaryDirectory(prefix="duework-proof-") as name:
        made = kind(url or f"sqlite:///{name}/work.db", Path(name), seed, **env)
        try:
            yield made
        finally:
            made.close()


def counted(history: History, faults: Counter[str]) -> dict[str, int]:
    """What a storm has done, for the table."""
    kinds = Counter(op.kind for op in history.ops)
    outcomes = Counter(outcome for outcome, _ in history.attempts.values())
    return {
        "jobs acknowledged": kinds["ok"],
        "enqueues without an answer": kinds["info"],
        "enqueues refused": kinds["fail"],
        "jobs done": sum(job.state == "done" for job in history.jobs.values()),
        "claims": sum(change.is_claim for change in history.changes),
        "leases lost": outcomes["lost"],
        "leases of the dead": outcomes["crashed"] + outcomes["crashed alone"],
        "jobs given up after crashes": sum(job.crashes >= POISON for job in history.jobs.values()),
        **{kind: faults[kind] for kind in sorted(faults)},
    }


def until(look: Callable[[], Any], within: float) -> Any:
    """The first true answer, or the last false one when the time is over."""
    deadline = time.monotonic() + within
    while not (found := look()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found
