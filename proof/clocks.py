"""Clocks are set by an hour and by a year, back and forth, while jobs run and others wait.

Two workers, each an App of its own with a clock that can be set (the engine's clock argument; the machine's
own clock is left alone). On SQLite they are two processes of one host and share its clock; on PostgreSQL
they are two hosts, and the server's time is right.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from unittest import mock

from duework import App
from duework.db.urls import served
from duework.kernel.machine.clock_watch import ClockWatch
from proof import tasks
from proof.check import check
from proof.history import Op, gather, record
from proof.section import Result, Scale, Section
from tests.support.clocks import clock_of
from tests.support.postgres import server

HOUR = 3_600_000
YEAR = 365 * 24 * HOUR
STEPS = (HOUR, -HOUR, YEAR, -YEAR)
LEASE_MS = 900
# How often the whole list of steps is gone through.
ROUNDS = {"short": 1, "full": 8}
DELAYED = 6


class Host:
    """An App with a worker and a clock of its own."""

    def __init__(self, url: str) -> None:
        self.app = App(url, lease=f"{LEASE_MS}ms", concurrency=20)
        self.clock = clock_of(self.app)
        self.tasks = tasks.define(self.app)


class Day:
    """A time in which clocks are set, on one database."""

    def __init__(self, url: str, rng: random.Random) -> None:
        self.hosts = [Host(url), Host(url)]
        self.one_host = not served(url)
        if self.one_host:
            self.hosts[1].app.wiring.bound.clock = self.hosts[1].clock = self.hosts[0].clock
        self.rng = rng
        self.ops: list[Op] = []
        self.notes: list[dict[str, Any]] = []
        self.steps = self.held = 0
        self.app = self.hosts[0].app
        tasks.set_up(self.app)
        record(self.app)

    async def enqueue(self, host: Host, name: str, seconds: float, **options: Any) -> None:
        op = Op(len(self.ops))
        self.ops.append(op)
        job = await host.tasks[name].using(**options).aenqueue(op.n, seconds)
        op.kind, op.job = "ok", job.id

    async def run(self, steps: list[int]) -> None:
        async with AsyncExitStack() as stack:
            for host in self.hosts:
                await stack.enter_async_context(host.app.running())
            for by in steps:
                await self._step(by)
            if self.one_host:
                # What was put off by a clock that was ahead is due when time has got there.
                self.hosts[0].clock.wrong += 2 * YEAR
            for host in self.hosts:
                # Somebody rings: an idle worker looks at the clock again within a minute.
                await self.enqueue(host, "bare", 0.0)
            for _ in range(300):
                if not await asyncio.to_thread(self._open):
                    break
                await asyncio.sleep(0.1)

    async def _step(self, by: int) -> None:
        """Leases are held and jobs wait; the clock is set; two leases go by."""
        for host in self.hosts:
            for _ in range(3):
                await self.enqueue(host, "plain", 2.2 * LEASE_MS / 1000)
            await self.enqueue(host, "flaky", 0.1)
            await self.enqueue(host, "plain", 0.0, delay=self.rng.uniform(0.5, DELAYED))
        await asyncio.sleep(0.3)
        self.held += await asyncio.to_thread(self._held)
        self.rng.choice(self.hosts).clock.wrong += by
        self.steps += 1
        for host in self.hosts:
            await self.enqueue(host, "plain", 0.0)
        await asyncio.sleep(2.5 * LEASE_MS / 1000)

    def _held(self) -> int:
        rows = self.app.read("select count(*) as n from duework_job where worker is not null")
        return int(rows[0].n)

    def _open(self) -> int:
        rows = self.app.read(
            "select count(*) as n from duework_job where state = 'open' and task <> 'duework.prune'"
        )
        return int(rows[0].n)

    def violations(self) -> list[str]:
        history = gather(self.app)
        history.ops, history.notes = self.ops, self.notes
        # Nobody was killed or stopped: whatever runs twice has no excuse.
        history.lease, history.disturbed = LEASE_MS, False
        return check(history)

    def close(self) -> None:
        for host in self.hosts:
            host.app.close()


def _day(url: str, seed: int, steps: list[int]) -> tuple[Day, list[str]]:
    rng = random.Random(seed)
    day = Day(url, rng)
    try:
        with mock.patch.object(tasks, "note", day.notes.append):
            asyncio.run(day.run(steps))
        return day, day.violations()
    finally:
        day.close()


@contextlib.contextmanager
def _file() -> Any:
    with tempfile.TemporaryDirectory(prefix="duework-proof-") as folder:
        yield f"sqlite:///{Path(folder) / 'work.db'}"


def _deaf(steps: ClockWatch) -> int:
    return steps._clock.now()


def set_clocks(scale: Scale, seed: int) -> Result:
    """Set clocks on both databases; then the same where nobody notices."""
    result = Result(seed)
    steps = list(STEPS) * ROUNDS[scale] if scale == "full" else [HOUR, -YEAR]
    with server() as own:
        for label, url in (("SQLite", None), ("PostgreSQL", own.create_database("clocks"))):
            with contextlib.nullcontext(url) if url else _file() as address:
                day, violations = _day(address, seed, steps)
            result.violations += [f"{label}: {each}" for each in violations]
            result.counts |= {
                f"{label}: steps": day.steps,
                f"{label}: jobs": len(day.ops),
                f"{label}: leases held at a step": day.held,
            }
            result.floors |= {f"{label}: steps": len(steps), f"{label}: leases held at a step": 2}
    with _file() as address, mock.patch.object(ClockWatch, "checked_now", _deaf):
        result.planted["nobody notices that a clock was set"] = bool(_day(address, seed, [HOUR])[1])
    return result


SECTION = Section(
    "clocks",
    "Clocks that are set",
    "When clocks are set by an hour or a year while jobs run and others wait, no lease is lost,"
    " nothing runs twice and nothing is lost. A delay is a time on the clock: it comes when the clock"
    " says so.",
    set_clocks,
)
