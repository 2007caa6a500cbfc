"""Article 000, a person for each worker: ten people, a thousand, what is written for each, and a kill."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.articles.figure import Figure, percentile
from bench.articles.watch import Watch
from duework import App
from duework.outside.keys import new_key
from systems.streaks import github, seed
from systems.streaks.check import check
from systems.streaks.part import part
from systems.streaks.settings import Settings
from systems.streaks.streak import local_day
from systems.twins import Twins, twins

ROOT = Path(__file__).parents[2]
TEN = 10


@contextmanager
def system(processes: int) -> Iterator[tuple[App, Twins, str]]:
    """The system alone, on a file, in real time, with the upstreams on loopback."""
    before, key = part.settings, new_key()
    with TemporaryDirectory() as folder, twins(None, "github", "discord", "telegram") as t:
        url = f"sqlite:///{Path(folder) / 'streaks.db'}"
        app = App(url, processes=processes, secrets_key=key)
        app.include(part)
        app.admin.migrate(create=True)
        part._settings = Settings(  # noqa: SLF001 - for this run
            github_url=t.github.url, discord_url=t.discord.url, telegram_url=t.telegram.url
        )
        try:
            yield app, t, key
        finally:
            part._settings = before  # noqa: SLF001
            app.close()


def _people(app: App, t: Twins, count: int) -> list[tuple[str, str, str]]:
    """So many, to be checked; those whom the twins know, under other names where there are more."""
    seed(app, min(count, 60))
    rows = app.read("select id, zone from streaks_person order by login_key")
    days = [(row.id, local_day(app.now(), row.zone).isoformat(), t.github.url) for row in rows]
    return [days[number % len(days)] for number in range(count)]


def _work(app: App, done: Callable[[], bool], limit: float) -> float:
    async def run() -> float:
        began = time.perf_counter()
        async with app.running():
            while not done() and time.perf_counter() - began < limit:  # noqa: ASYNC110 - rows say so
                await asyncio.sleep(0.02)
        return time.perf_counter() - began

    return asyncio.run(run())


def _checked(app: App) -> int:
    [row] = app.read(
        "select count(*) as n from duework_job where task = 'streaks.check' and state <> 'open'"
    )
    return int(row.n)


def _quiet(app: App) -> None:
    """Nobody is told: what is measured is the check alone."""
    with app.transaction() as tx:
        tx.write("update streaks_person set discord_hook = null, telegram_chat = null")


def ten(*, quick: bool) -> list[Figure]:
    """Ten people of three seconds each: one after the other, as the article does it, and by ours."""
    slow, watch = 0.2 if quick else 3.0, Watch()
    with system(TEN) as (app, t, _):
        wanted = _people(app, t, TEN)
        _quiet(app)
        # The processes are there, as in a worker that has been up for a while.
        check.enqueue_many(wanted)
        _work(app, lambda: _checked(app) >= TEN, 60)
        t.github.faults.set([{"route": "graphql", "do": "delay", "seconds": slow}])
        theirs = asyncio.run(_one_after_the_other(app, wanted))
        check.enqueue_many(wanted)
        ours = _work(app, lambda: watch.seen(_checked(app) >= 2 * TEN), 120)
        done = len(app.jobs(task="streaks.check", phase="done"))
    what = f"ten people of {slow:g} s each; one after the other it is {theirs:.1f} s"
    most = max(watch.cpu.values())
    return [
        Figure("000", what, "about 10 s", f"{ours:.1f} s", f"{slow:g} s"),
        Figure("000", "the same: most CPU of a process", "under 5 s", f"{most:.2f} s", "0 s"),
        Figure("000", "the same, twice: checks that were done", "all", f"{done}", f"{2 * TEN}"),
    ]


async def _one_after_the_other(app: App, wanted: list[tuple[str, str, str]]) -> float:
    """The article's first form: a loop, in one invocation."""
    began = time.perf_counter()
    for person, _, url in wanted:
        row = app.read("select * from streaks_person where id = :id", id=person)[0]
        token = await app.secrets.aopen(f"streaks:github:{person}")
        today = local_day(app.now(), row.zone)
        await github.calendar(url, token, row.login, today=today, zone=row.zone, now=app.now())
    return time.perf_counter() - began


def thousand(*, quick: bool) -> list[Figure]:
    """A thousand people, checked in a process of its own each, with an upstream that answers at once."""
    count = 30 if quick else 1000
    with system(os.cpu_count() or 2) as (app, t, _):
        wanted = _people(app, t, count)
        _quiet(app)
        check.enqueue_many(wanted)
        took = _work(app, lambda: _checked(app) >= count, 600)
        done = len(app.jobs(task="streaks.check", phase="done", limit=1000))
    ours = f"{took:.1f} s, {done} done"
    ideal = (
        f"{count * 3 / (os.cpu_count() or 2):,.0f} s at 3 s each, were they sequential on each core"
    )
    return [Figure("000", f"{count:,} people, each in a process", "said to scale", ours, ideal)]


def writes(*, quick: bool) -> list[Figure]:  # noqa: ARG001 - a count is a count
    """Rows that are written for one person, from the batch to the messages."""
    with system(2) as (app, t, _):
        people = 20
        _people(app, t, people)
        with app.transaction() as tx:
            tx.write("update streaks_person set next_at = :now, hour = 0", now=app.now())
        before = _written(app)
        _choose(app, people)
        after = _written(app)
    each = (after - before) / people
    what = "rows written for a person that is told by two channels"
    return [
        Figure("000", what, "2 said, about 4 counted", f"{each:.0f}", "4: who, day, two messages")
    ]


def _choose(app: App, people: int) -> None:
    def told() -> bool:
        [row] = app.read("select count(*) as n from streaks_message where settled is not null")
        return int(row.n) >= 2 * people

    from systems.streaks.choose import choose

    choose.enqueue()
    _work(app, told, 60)


def _written(app: App) -> int:
    """How many rows of all tables were inserted, changed or deleted, as SQLite counts them."""
    database: Any = app.wiring.engine.database
    every = [database._writer, *database._idle]  # noqa: SLF001
    return sum(each.total_changes() for each in every if each is not None)


def claims(*, quick: bool) -> list[Figure]:
    """One claim and its end, with so many rows in the table."""
    return [
        _claims(count, 50 if quick else 500)
        for count in ((1000,) if quick else (10_000, 1_000_000))
    ]


def _claims(rows: int, rounds: int) -> Figure:
    from duework.testing import Harness

    app = App("sqlite://")

    @app.task
    def noop() -> None: ...

    took: list[float] = []
    with Harness(app) as h:
        for start in range(0, rows, 10_000):
            many = min(10_000, rows - start)
            noop.using(delay="30d").enqueue_many([() for _ in range(many)])
        for _ in range(rounds):
            noop.enqueue()
            began = time.perf_counter()
            h.drain()
            took.append(time.perf_counter() - began)
    ours = f"p50 {percentile(took, 0.5) * 1000:.1f} ms, p99 {percentile(took, 0.99) * 1000:.1f} ms"
    return Figure("000", f"claim, run and settle one of {rows:,}", "under 10 ms", ours, "one fsync")


def recovery(*, quick: bool) -> list[Figure]:
    """A worker is killed in the middle of a check; how long until another one has done it."""
    slow = 1.0 if quick else 3.0
    with system(2) as (app, t, key):
        wanted = _people(app, t, 1)
        _quiet(app)
        t.github.faults.set([{"route": "graphql", "do": "delay", "seconds": slow}])
        check.enqueue_many(wanted)
        with _worker(app.url, key, t) as first:
            _until(lambda: bool(t.github.log.at_once), 30)
            os.kill(first.pid, signal.SIGKILL)
            began = time.perf_counter()
            with _worker(app.url, key, t):
                _until(lambda: _checked(app) >= 1, 60)
                took = time.perf_counter() - began
    what = f"a worker dies in a check of {slow:g} s; it is done by a new one after"
    return [Figure("000", what, "10 min and more", f"{took:.1f} s", f"{slow:g} s")]


def _until(so: Callable[[], bool], within: float) -> None:
    end = time.perf_counter() + within
    while not so() and time.perf_counter() < end:
        time.sleep(0.01)
    assert so()


@contextmanager
def _worker(url: str, key: str, t: Twins) -> Iterator[subprocess.Popen[bytes]]:
    given: dict[str, Any] = {
        "DUEWORK_URL": url,
        "DUEWORK_KEY": key,
        "STREAKS_GITHUB_URL": t.github.url,
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, "-m", "duework", "run", "systems.streaks:app"]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(
        command, env={**os.environ, **given}, cwd=ROOT, stdout=quiet, stderr=quiet
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(20)


FIGURES: dict[str, Callable[..., list[Figure]]] = {
    "ten": ten,
    "thousand": thousand,
    "writes": writes,
    "claims": claims,
    "recovery": recovery,
}
