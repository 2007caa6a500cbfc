"""Article 003, cron and a table as the queue: lateness, a backlog, and a receiver that hangs."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from bench.articles.figure import Figure, percentile
from duework import App
from systems.reminders import book, endpoints, log
from systems.reminders.part import part
from systems.reminders.rules import NewReminder
from systems.twins import Twins, twins


@contextmanager
def system() -> Iterator[tuple[App, Twins]]:
    """The system alone, on a file, in real time, with receivers on loopback."""
    before = part.settings
    with TemporaryDirectory() as folder, twins(None, "resend", "hooks") as t:
        app = App(f"sqlite:///{Path(folder) / 'reminders.db'}")
        app.include(part)
        app.admin.migrate(create=True)
        places = {"resend_url": t.resend.url, "hooks_url": t.hooks.url}
        part._settings = msgspec.structs.replace(before, **places)  # noqa: SLF001 - for this run
        try:
            yield app, t
        finally:
            part._settings = before  # noqa: SLF001
            app.close()


def _at(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat()


def _new(endpoint: str, at: int, number: int) -> NewReminder:
    return NewReminder(title=f"Reminder {number}", endpoint=endpoint, at=_at(at))


def work(app: App, until: Callable[[], bool], limit: float = 600.0) -> float:
    """Run a worker until that is so; the seconds that it took."""

    async def run() -> float:
        began = time.perf_counter()
        async with app.running():
            while not until() and time.perf_counter() - began < limit:  # noqa: ASYNC110 - rows say so
                await asyncio.sleep(0.05)
        return time.perf_counter() - began

    return asyncio.run(run())


def _fired() -> int:
    rows = part.app.read("select count(*) as n from reminders_history where settled_at is not null")
    return int(rows[0].n)


def lateness(*, quick: bool) -> list[Figure]:
    """Reminders at moments of their own; from the planned time to the fire."""
    count, span_ms = (40, 2000) if quick else (2000, 30_000)
    with system() as (app, t):
        hook = endpoints.create("one", f"{t.hooks.url}/hook/one")
        start = app.now() + 2000
        wanted = [(None, _new(hook.id, start + n * span_ms // count, n), "") for n in range(count)]
        book.create_all(wanted)
        work(app, lambda: _fired() == count, limit=120)
        late = [each.late_by / 1000 for each in log.recent(limit=1000)]
    ours = f"{percentile(late, 0.99) * 1000:.0f} ms"
    what = f"lateness p99, {count / (span_ms / 1000):.0f} due a second"
    return [Figure("003", what, "up to 60 s: a cron each minute", ours, "0 ms")]


def backlog(*, quick: bool) -> list[Figure]:
    """So many due at once, by webhook; how many arrived in a second, in five minutes at most.

    What one fire reads and writes is the same however many are due: 54 statements.
    """
    count, limit = (300, 60.0) if quick else (20_000, 300.0)
    with system() as (app, t):
        hook = endpoints.create("one", f"{t.hooks.url}/hook/one")
        some, tell = 0, _progress(lambda: f"{some:,} of {count:,} made")
        for some in range(0, count, 1000):
            tell()
            # Everything is due before the worker begins.
            numbers, due = range(some, min(count, some + 1000)), app.now()
            book.create_all([(None, _new(hook.id, due, n), "") for n in numbers])
        arrived = t.hooks.ledger.entries
        tell = _progress(lambda: f"{_begun():,} fires begun, {len(arrived):,} arrived of {count:,}")
        took = work(app, lambda: tell() or len(arrived) >= count, limit)
        told = len(arrived)
    cut = "" if told >= count else f": {told:,} in {took:.0f} s, the rest is still due"
    ours = f"{told / took:.0f}/s{cut}"
    what = f"fires a second with {count:,} due"
    return [Figure("003", what, "1.7/s: 100 rows a minute", ours, "the receiver's own")]


def _begun() -> int:
    rows = part.app.read("select count(*) as n from reminders_history")
    return int(rows[0].n)


def _progress(said: Callable[[], str], every: float = 10.0) -> Callable[[], None]:
    """Asked often, it says every few seconds how far it is: all fires begin before the first one is sent."""
    began = last = time.perf_counter()

    def tell() -> None:
        nonlocal last
        if (now := time.perf_counter()) - last >= every:
            last = now
            print(f"  {now - began:.0f} s: {said()}", file=sys.stderr, flush=True)

    return tell


def hang(*, quick: bool) -> list[Figure]:
    """One receiver never answers: how much later all the others are told."""
    count = 20 if quick else 99
    with system() as (app, t):
        slow = endpoints.create("slow", f"{t.hooks.url}/hook/slow")
        t.hooks.answer("slow", [0])
        hooks = [endpoints.create(f"e{n}", f"{t.hooks.url}/hook/e{n}") for n in range(10)]
        due = app.now() + 2000
        book.create(_new(slow.id, due, -1))
        book.create_all([(None, _new(hooks[n % 10].id, due, n), "") for n in range(count)])
        work(app, lambda: _fired() >= count, limit=60)
        times = [each["at"] - due for each in t.hooks.ledger.of("delivered")]
    ours = f"{percentile(times, 1.0):.0f} ms"
    what = f"the last of {count} others is told, while one receiver hangs"
    return [Figure("003", what, "10 s later: one after the other", ours, "0 ms")]


FIGURES: dict[str, Callable[..., list[Figure]]] = {
    "lateness": lateness,
    "backlog": backlog,
    "hang": hang,
}
