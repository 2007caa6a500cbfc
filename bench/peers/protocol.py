"""What an adapter is asked, each time in a process of its own and in its library's environment.

`python -m bench.peers.huey_sqlite reset`, `worker`, or `enqueue`, `bulk`, `latency` with the first job's
number and how many. Answers are one line of JSON; `latency` waits for its turns besides. An adapter is a
subclass of `Peer`; every method may be a coroutine. Only the standard library is imported here: neither
Duework nor its dependencies are installed there.

PEER_MARKS is the file of marks, PEER_URL the database, PEER_FOLDER a folder for files.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import os
import random
import sys
import time
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any

from bench.marks import Marks

# Between two jobs whose latency is measured; random, or what polls falls into step with it.
GAP = (0.005, 0.025)
LOST = 60.0
# So many jobs at a time, in turn with ours: a machine has good seconds and bad ones. The first one of a turn
# does not count, since what polls less and less often has had time to.
TURN = 6

READY = "ready"

URL = os.environ.get("PEER_URL", "")
FOLDER = os.environ.get("PEER_FOLDER", ".")


@cache
def marks() -> Marks:
    return Marks(os.environ["PEER_MARKS"])


def mark(job: int) -> None:
    """What every peer's handler does, as a plain function."""
    found = marks()
    found.start(job)
    found.end(job)


class Peer:
    """One library with its store and its best reasonable settings."""

    def reset(self) -> Any:
        """Make the tables that the library needs; the store itself is new."""

    def open(self) -> Any:
        """Connect, as a program does that enqueues."""

    def close(self) -> Any:
        """Disconnect."""

    def enqueue(self, job: int) -> Any:
        """One job by one call; returns when the library says that it is accepted."""
        raise NotImplementedError

    # The library's own way to enqueue many at once, where it has one.
    bulk: Callable[[range], Any] | None = None

    def worker(self) -> Any:
        """Work until killed."""
        raise NotImplementedError


def main(peer: Peer) -> None:
    """Do what the command line says."""
    command, *numbers = sys.argv[1:]
    logging.disable(logging.WARNING if command == "worker" else logging.ERROR)
    told: Any = None
    if command in {"reset", "worker"}:
        answer = getattr(peer, command)()
        if inspect.isawaitable(answer):
            asyncio.run(_whole(answer))
    else:
        first, count = map(int, numbers)
        ask = _ask if inspect.iscoroutinefunction(peer.enqueue) else _ask_plainly
        told = ask(peer, command, range(first, first + count))
        if inspect.isawaitable(told):
            told = asyncio.run(_whole(told))
    print(json.dumps(told), flush=True)
    # Some libraries leave threads behind that would keep the process alive.
    os._exit(0)


async def _whole(answer: Awaitable[Any]) -> Any:
    return await answer


async def _ask(peer: Peer, command: str, jobs: range) -> Any:
    """Seconds for `enqueue` and `bulk`; for `latency`, the milliseconds of each job."""
    await peer.open()
    start = time.perf_counter()
    if command == "latency":
        found: list[tuple[float, float]] = []
        for job in jobs:
            if not len(found) % TURN:
                await asyncio.to_thread(await_turn)
            await asyncio.sleep(random.uniform(*GAP))
            called = time.monotonic()
            await peer.enqueue(job)
            found.append(_waited(job, called, time.monotonic()))
        return found
    if command == "bulk":
        assert peer.bulk is not None
        await peer.bulk(jobs)
    else:
        for job in jobs:
            await peer.enqueue(job)
    elapsed = time.perf_counter() - start
    await peer.close()
    return elapsed


def _ask_plainly(peer: Peer, command: str, jobs: range) -> Any:
    """The same outside of any event loop: some libraries behave differently inside one."""
    peer.open()
    start = time.perf_counter()
    if command == "latency":
        found: list[tuple[float, float]] = []
        for job in jobs:
            if not len(found) % TURN:
                await_turn()
            time.sleep(random.uniform(*GAP))
            called = time.monotonic()
            peer.enqueue(job)
            found.append(_waited(job, called, time.monotonic()))
        return found
    for job in jobs:
        peer.enqueue(job)
    return time.perf_counter() - start


def await_turn() -> None:
    """Say that this turn is over, or that nothing is in the way of the first, and wait for the next."""
    print(json.dumps(READY), flush=True)
    sys.stdin.readline()


def _waited(job: int, called: float, returned: float) -> tuple[float, float]:
    """Milliseconds from enqueue's call, and from its return, to the handler's start."""
    seen = marks()
    while not seen.first[job]:
        if time.monotonic() - returned > LOST:
            raise TimeoutError(f"a job has not started within {LOST:g} s")
        time.sleep(0.001)
    start = seen.first[job]
    return (start - called) * 1000, max(0.0, start - returned) * 1000


def run_module(module: str, *arguments: str) -> None:
    """Become a library's own command line, in this process."""
    os.execv(sys.executable, [sys.executable, "-m", module, *arguments])  # noqa: S606 - no shell needed
