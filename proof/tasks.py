"""The tasks that storms and simulations run: every way an attempt can end, each leaving a trace.

A trace is kept twice. Outside: a note before anything is done, in a file that is only appended to, so
that it survives the process. Inside: a row of `effect` that commits with the settle, or not at all.
Nothing here reads a clock, so that the same tasks run in real and in virtual time.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import Callable, Sequence
from typing import Any

from duework import App, Fail, Run, Snooze, Task

ACCOUNTS = 10
START_BALANCE = 1000
# What a follow-up's number is ahead of its parent's.
STEP = 10_000_000
LIMIT = 2
NARROW = "narrow"
# The policy of each task that may fail: retries after the first attempt.
RETRIES = {"flaky": 3, "doomed": 1}
TABLES = (
    "create table effect (job bigint not null, fence bigint not null, n bigint not null)",
    "create table account (id bigint primary key, balance bigint not null)",
)

EFFECT = "insert into effect (job, fence, n) values (:job, :fence, :n)"
MOVE = "update account set balance = balance + :amount where id = :id"


def append(line: dict[str, Any]) -> None:
    """A note in the file RUNS, which is with the kernel when this returns."""
    handle = os.open(os.environ["RUNS"], os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
    try:
        os.write(handle, json.dumps(line).encode() + b"\n")
    finally:
        os.close(handle)


# Where notes go; a simulation keeps them in memory.
note: Callable[[dict[str, Any]], None] = append


def started(run: Run) -> None:
    note({"what": "start", "job": run.job.id, "fence": run.job.fence, "pid": os.getpid()})


def leave(run: Run, n: int) -> None:
    run.write(EFFECT, job=run.job.id, fence=run.job.fence, n=n)


async def plain(run: Run, n: int, seconds: float) -> int:
    started(run)
    leave(run, n)
    await asyncio.sleep(seconds)
    return n


async def bare(run: Run, n: int, seconds: float) -> int:
    """Nothing hangs on it: settled with its neighbours by one statement."""
    started(run)
    await asyncio.sleep(seconds)
    return n


async def flaky(run: Run, n: int, seconds: float) -> int:
    started(run)
    leave(run, n)
    await asyncio.sleep(seconds)
    if run.attempt < 3:
        raise ConnectionError("not yet")
    return n


async def doomed(run: Run, n: int, seconds: float) -> int:
    started(run)
    leave(run, n)
    await asyncio.sleep(seconds)
    raise ValueError("never")


async def hopeless(run: Run, n: int, seconds: float) -> Fail:
    started(run)
    await asyncio.sleep(seconds)
    return Fail(f"no use in {n}")


async def dozy(run: Run, n: int, seconds: float) -> int | Snooze:
    started(run)
    if run.job.fence == 1:
        note({"what": "snooze", "job": run.job.id, "fence": run.job.fence})
        return Snooze(seconds)
    leave(run, n)
    return n


async def chain(run: Run, n: int, left: int) -> int:
    started(run)
    leave(run, n)
    await asyncio.sleep(0.01)
    if left > 0:
        run.enqueue(known["chain"], n + STEP, left - 1)
    return n


async def transfer(run: Run, n: int, source: int, target: int, amount: int) -> int:
    started(run)
    leave(run, n)
    await asyncio.sleep(0.01)
    # In one order for everybody: accounts are rows that many jobs share.
    for account, change in sorted([(source, -amount), (target, amount)]):
        run.write(MOVE, id=account, amount=change)
    return n


async def limited(run: Run, n: int, seconds: float) -> int:
    started(run)
    leave(run, n)
    await asyncio.sleep(seconds)
    return n


FUNCTIONS: tuple[Callable[..., Any], ...] = (
    *(plain, bare, flaky, doomed, hopeless, dozy, chain, transfer, limited),
)
# The tasks of the last App they were defined on, for those that enqueue others.
known: dict[str, Any] = {}
_made: dict[str, Any] = {}


def define(app: App, *, only: Sequence[str] = ()) -> dict[str, Any]:
    """Add all of them, or some, to an App."""
    found: dict[str, Any] = {}
    for function in FUNCTIONS:
        name = function.__name__
        if only and name not in only:
            continue
        if name in _made:
            # Reading signatures takes longer than all that a simulated node does.
            app.wiring.registry.add(_made[name])
            found[name] = Task(_made[name], app.contents)
            continue
        options: dict[str, Any] = {"name": name, "keep": "forever"}
        if name in RETRIES:
            options |= {"retries": RETRIES[name], "backoff": "300ms"}
        if name == "limited":
            options["queue"] = NARROW
        found[name] = app.task(**options)(function)
        _made[name] = found[name].definition
    app.queue(NARROW, concurrency=LIMIT)
    known.update(found)
    return found


def draw(rng: random.Random, n: int, lease: float) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    """Some task, its arguments, and options of the enqueue; some run longer than a lease."""
    # A limit is only met where many jobs run into it.
    name = rng.choice([*(function.__name__ for function in FUNCTIONS), "limited", "limited"])
    seconds = rng.choice([0.0, 0.1, 0.2 * lease, rng.uniform(0, 2 * lease)])
    options: dict[str, Any] = {}
    if rng.random() < 0.2:
        options["delay"] = rng.uniform(0, 4 * lease)
    if rng.random() < 0.2:
        options["serial"] = f"s{rng.randrange(2)}"
    if rng.random() < 0.3:
        options |= {"key": f"k{n}", "once": "forever"}
    elif rng.random() < 0.2:
        options["priority"] = rng.randrange(3)
    if name == "chain":
        return name, (n, rng.randrange(3)), options
    if name == "transfer":
        source, target = rng.sample(range(ACCOUNTS), 2)
        return name, (n, source, target, rng.randrange(100)), options
    return name, (n, seconds), options


def set_up(app: App) -> None:
    """The tables that the tasks write to."""
    with app.transaction() as tx:
        for table in TABLES:
            tx.write(table)
        tx.write(
            "insert into account (id, balance) values (:id, :balance)",
            rows=[{"id": each, "balance": START_BALANCE} for each in range(ACCOUNTS)],
        )
