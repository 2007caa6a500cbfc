"""How fast are the libraries that one would use instead, in the same run and on the same machine?"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, Literal

import apsw
import psycopg

from bench.bed import ROOT, Bed, Missing, ScenarioFailed, Talker, talking, until, worker_env
from bench.figures import Figure, percentile
from bench.install import install, python, redis_server
from bench.marks import Marks
from bench.peers.protocol import GAP, READY, TURN
from bench.redis import Redis, serving
from bench.scenarios.enqueue import single
from bench.scenarios.latency import Wait, other, same

WITHIN = 120.0
# Where both wait for the disk, their single enqueues and ours take turns, so often.
TURNS = 4
# As many as a peer has drained, so that a new file's log has grown to its size.
BEFORE = 3000
FSYNC = "fsync"
REDIS = "AOF, 1 s"


@dataclass(frozen=True)
class Peer:
    """A library with a store, and how it is measured."""

    name: str
    module: str
    group: str
    store: Literal["sqlite", "redis", "postgres"]
    durability: str
    # So many are drained; some by one call each, the rest in bulk where there is a way.
    jobs: int = 3000
    bulk: bool = False
    probes: int = 240
    # What the store itself does not call finished yet.
    left: str | None = None
    # Our drain over theirs has to reach this.
    times: float | None = None

    @property
    def slug(self) -> str:
        return self.name.lower().replace(" ", "_").replace(",", "")


DBOS_LEFT = "select count(*) from {}workflow_status where status in ('ENQUEUED', 'PENDING')"
PROCRASTINATE_LEFT = "select count(*) from procrastinate_jobs where status in ('todo', 'doing')"
PEERS = (
    Peer("Huey, SQLite", "huey_sqlite", "redis", "sqlite", FSYNC, jobs=5000, times=10),
    Peer("Huey, Redis", "huey_redis", "redis", "redis", REDIS, jobs=5000),
    Peer("Celery, Redis", "celery_redis", "redis", "redis", REDIS, times=25),
    Peer("Dramatiq, Redis", "dramatiq_redis", "redis", "redis", REDIS, jobs=5000),
    Peer("Taskiq, Redis", "taskiq_redis", "taskiq", "redis", REDIS, jobs=5000),
    Peer("SAQ, Redis", "saq_redis", "redis", "redis", REDIS),
    Peer(
        *("DBOS, SQLite", "dbos_any", "dbos", "sqlite", FSYNC),
        *(1000, False, 8, DBOS_LEFT.format(""), 50),
    ),
    Peer(
        *("DBOS, PostgreSQL", "dbos_any", "dbos", "postgres", FSYNC),
        *(1000, False, 8, DBOS_LEFT.format("dbos."), 50),
    ),
    Peer(
        *("Procrastinate, PostgreSQL", "procrastinate_pg", "postgres", "postgres", FSYNC),
        *(2000, True, 60, PROCRASTINATE_LEFT),
        times=50,
    ),
    Peer(
        *("PgQueuer, PostgreSQL", "pgqueuer_pg", "postgres", "postgres", FSYNC),
        *(20_000, True, 60, "select count(*) from pgqueuer"),
        times=1.2,
    ),
)


class PeerScenario:
    """One peer as a scenario."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.NAME = peer.name
        self.QUESTION = f"How fast is {peer.name}?"
        slug, name = peer.slug, peer.name
        self.FIGURES = (
            Figure(f"{slug}:enqueue", f"{name}: enqueue", "/s"),
            Figure(f"{slug}:ours", f"{name}: our enqueue, in turn with theirs", "/s"),
            Figure(f"{slug}:bulk", f"{name}: bulk enqueue", "/s"),
            Figure(f"{slug}:drain", f"{name}: drain", "/s"),
            Figure(f"{slug}:p50", f"{name}: enqueue → start, p50", "ms"),
            Figure(f"{slug}:p99", f"{name}: enqueue → start, p99", "ms"),
            Figure(f"{slug}:call_p50", f"{name}: call of enqueue → start, p50", "ms"),
            Figure(
                f"{slug}:ours_call_p50", f"{name}: the same with ours, in turn with theirs", "ms"
            ),
            Figure(f"{slug}:other_call_p50", f"{name}: ours by another process, in turn too", "ms"),
        )

    def sample(self, bed: Bed) -> dict[str, float]:
        if reason := bed.once(f"install {self.peer.group}", lambda: install(self.peer.group)):
            raise Missing(reason)
        with _store(bed, self.peer) as store:
            told = store.measured(bed.scaled(self.peer.jobs, self.peer.jobs // 10), bed)
        return {f"{self.peer.slug}:{name}": value for name, value in told.items()}


@contextmanager
def _store(bed: Bed, peer: Peer) -> Iterator[Store]:
    """A new database, file or flushed server."""
    folder = bed.folder / f"peer-{monotonic()}"
    folder.mkdir()
    url = ""
    if peer.store == "redis":
        server = bed.once("redis", lambda: _redis(bed))
        if isinstance(server, str):
            raise Missing(server)
        server.ask("flushall")
        url = server.url
    elif peer.store == "postgres":
        url = bed.postgres()
    yield Store(peer, url, folder, bed.scaled(peer.probes, 5))
    if peer.store == "postgres":
        bed.drop(url)


def _redis(bed: Bed) -> Redis | str:
    """A running server, or why there is none."""
    reason = None if redis_server() else install("server")
    program = redis_server()
    if program is None:
        return f"no redis-server on the PATH, and its wheel was {reason or 'without one'}"
    return bed.enter(serving(program, bed.folder / "redis"))


def servers(bed: Bed) -> dict[str, str]:
    """The servers that the peers of this run had."""
    server = bed.once("redis", lambda: "not asked for")
    return {"redis": server.version()} if isinstance(server, Redis) else {}


class Store:
    """A peer on its store."""

    def __init__(self, peer: Peer, url: str, folder: Path, probes: int) -> None:
        self._peer, self._url, self._folder, self._probes = peer, url, folder, probes

    def measured(self, jobs: int, bed: Bed) -> dict[str, float]:
        marks = Marks(self._folder / "marks", jobs + self._probes)
        self._env = os.environ | {
            "PEER_MARKS": str(marks.path),
            "PEER_URL": self._url,
            "PEER_FOLDER": str(self._folder),
            # Theirs, not ours: an editable install elsewhere must not be found.
            "PYTHONPATH": "",
        }
        self._ask("reset")
        singles = min(jobs, 1000) if self._peer.bulk else jobs
        if self._peer.durability == FSYNC:
            told = self._in_turn(singles, bed)
        else:
            told = {"enqueue": singles / self._ask("enqueue", 0, singles)}
        if jobs > singles:
            told["bulk"] = (jobs - singles) / self._ask("bulk", singles, jobs - singles)
        if self._peer.store == "postgres":
            with psycopg.connect(self._url, autocommit=True) as connection:
                connection.execute("analyze")
        with self._worker():
            told["drain"] = self._drained(marks, jobs)
            theirs, ours, apart = self._starts(jobs, bed)
        called, returned = zip(*theirs, strict=True)
        return told | {
            "p50": percentile(returned, 0.5),
            "p99": percentile(returned, 0.99),
            "call_p50": percentile(called, 0.5),
            "ours_call_p50": percentile([called for called, _ in ours], 0.5),
            "other_call_p50": percentile([called for called, _ in apart], 0.5),
        }

    def _starts(self, first: int, bed: Bed) -> Sequence[list[Wait]]:
        """Theirs and ours in short turns; ours in one process, which they cannot, and by another."""
        here, there, probes = bed.sqlite(), bed.sqlite(), self._probes
        marks = bed.marks(probes), bed.marks(probes)
        ask = {"jobs": probes, "gap": GAP, "turn": TURN}
        with (
            bed.worker(there, marks=marks[1], concurrency=100) as worker,
            talking(self._command("latency", first, probes), self._env) as theirs,
            bed.background(
                *(same,), env=worker_env(here, marks[0], concurrency=100), before=BEFORE, **ask
            ) as ours,
            bed.background(
                *(other,), env=worker_env(there, marks[1]), before=BEFORE, **ask
            ) as apart,
        ):
            worker.go()
            found = _by_turns(theirs, ours, apart)
            worker.stop()
        bed.drop(here)
        bed.drop(there)
        return found

    def _in_turn(self, jobs: int, bed: Bed) -> dict[str, float]:
        """One job a call, theirs and ours on a database of the same kind."""
        url = bed.sqlite() if self._peer.store == "sqlite" else bed.postgres()
        part, theirs, ours = jobs // TURNS, 0.0, 0.0
        for turn in range(TURNS):
            theirs += self._ask("enqueue", turn * part, part)
            ours += bed.child(single, env=worker_env(url), jobs=part)
        bed.drop(url)
        return {"enqueue": jobs / theirs, "ours": jobs / ours}

    def _drained(self, marks: Marks, jobs: int) -> float:
        """From the first start, so that a slow start of the program does not count."""
        end = until(lambda: marks.ended(jobs) >= jobs, WITHIN, every=0.005)
        if self._peer.left is not None:
            end = until(lambda: self._left() == 0, WITHIN, every=0.005)
        started = [moment for moment in marks.first[:jobs] if moment]
        return jobs / (end - min(started))

    def _left(self) -> int:
        assert self._peer.left is not None
        if self._peer.store == "postgres":
            with psycopg.connect(self._url, autocommit=True) as connection:
                found = connection.execute(self._peer.left.encode()).fetchone()
                return int(found[0]) if found else 0
        connection = apsw.Connection(str(self._folder / "dbos.db"))
        try:
            connection.set_busy_timeout(10_000)
            return int(connection.execute(self._peer.left).fetchall()[0][0])
        finally:
            connection.close()

    def _command(self, *arguments: Any) -> list[str]:
        module = f"bench.peers.{self._peer.module}"
        return [str(python(self._peer.group)), "-m", module, *map(str, arguments)]

    def _ask(self, *arguments: Any) -> Any:
        ended = subprocess.run(
            self._command(*arguments),
            cwd=ROOT,
            env=self._env,
            capture_output=True,
            timeout=WITHIN,
            check=False,
        )
        if ended.returncode or not ended.stdout:
            raise ScenarioFailed(f"{arguments[0]}: {ended.stderr.decode()[-1000:]}")
        return json.loads(ended.stdout.splitlines()[-1])

    @contextmanager
    def _worker(self) -> Iterator[None]:
        with (self._folder / "log").open("wb") as log:
            process = subprocess.Popen(
                self._command("worker"),
                cwd=ROOT,
                env=self._env,
                stdout=log,
                stderr=log,
                # A group of its own, so that its children end with it.
                start_new_session=True,
            )
        try:
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _by_turns(*talkers: Talker) -> Sequence[list[Wait]]:
    """Let one of them work at a time, until all have told what they found."""
    told = [each.listen(WITHIN) for each in talkers]
    while READY in told:
        for place, each in enumerate(talkers):
            if told[place] == READY:
                each.go()
                told[place] = each.listen(WITHIN)
    return [_counted(each) for each in told]


def _counted(found: list[Wait]) -> list[Wait]:
    """Without the first of each turn."""
    return [waited for place, waited in enumerate(found) if place % TURN]


def scenarios() -> list[PeerScenario]:
    return [PeerScenario(peer) for peer in PEERS]
