"""A real worker on a database that may be damaged, in a process that says what it ran.

What a task is given leaves the process through a pipe, before anything is written: so what was really
delivered is known, whatever becomes of the file. Errors of ours are said by their code; anything else
that is raised, a signal, or a process that does not end is for the parent to find.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from duework import App
from duework.clock import VirtualClock
from duework.errors import Error
from duework.kernel.facts import Fact, Parked
from duework.worker.worker import Worker
from proof.shop import START

# Seconds after which a process that opens, drains and verifies a small file has lost its way.
LIMIT = 60
Say = Callable[..., None]


@dataclass
class Report:
    """What a child said, and how it ended."""

    lines: list[list[Any]] = field(default_factory=list)
    signal: int = 0

    def of(self, kind: str) -> list[list[Any]]:
        return [line[1:] for line in self.lines if line[0] == kind]


def in_a_child(work: Callable[[Say], None]) -> Report:
    """Do something in a process of its own that may not survive it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _be_child(work, writing)
    os.close(writing)
    with open(reading, errors="replace") as wire:
        lines = [json.loads(line) for line in wire]
    _, status = os.waitpid(child, 0)
    return Report(lines, os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0)


def _be_child(work: Callable[[Say], None], wire: int) -> None:
    def say(*words: Any) -> None:
        os.write(wire, (json.dumps(words) + "\n").encode())

    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(LIMIT)
    # What asyncio and the engine log about a damaged file is not for the terminal.
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        work(say)
    except Error as error:
        say("refused", error.code)
    except BaseException as error:  # noqa: BLE001 - the parent reports it
        say("error", f"{type(error).__name__}: {error}"[:300])
    finally:
        os._exit(0)


class Stall:
    """An App whose one task says what it was given."""

    def __init__(self, path: Path, say: Say) -> None:
        self.app = App(f"sqlite:///{path}")
        self.app.wiring.bound.clock = VirtualClock(START)
        self._say = say

        @self.app.task(name="tell")
        async def tell(what: str, number: int = 0) -> str:
            say("ran", what)
            return f"{what} {number}"

        self.task = tell

    def drain(self) -> None:
        """Work until idle, or until nothing can be written."""
        asyncio.run(self._drain())

    async def _drain(self) -> None:
        parked: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def hear(fact: Fact) -> None:
            if isinstance(fact, Parked) and not parked.done():
                parked.set_result(fact.why)

        self.app.on_fact(hear)
        worker = Worker(self.app.wiring.engine, self.app.limits)
        working = asyncio.create_task(worker.run_until_idle())
        either: set[asyncio.Future[Any]] = {working, parked}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if parked.done() and "UTF-8" in parked.result():
            # The worker makes such a text readable and goes on.
            await asyncio.wait({working}, timeout=10)
        if not working.done():
            self._say("parked", parked.result()[:200])
            working.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await working
        else:
            working.result()
        worker.abandon()

    def verify(self) -> None:
        """Say which invariants `duework verify --full` finds broken."""
        found = self.app.admin.verify(full=True)
        self._say("verified", *(each.name for each in found if each.violations))
