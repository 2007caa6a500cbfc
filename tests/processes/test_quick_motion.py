"""A clock that runs quicker than the machine's, shared by real processes."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from duework import App, Part, Run, Scaled, UsageError
from duework.clock import SystemClock, clock_from_environment
from tests.support.working import eventually

HOUR = 3_600_000
ORIGIN = 500_000 * HOUR

PROGRAM = """
import asyncio, json, os, signal, sys
from duework import App, Run
from duework.kernel.facts import LeaseRecovered, LeaseWasLost

app = App(lease="3s")

def say(**words):
    print(json.dumps(words), flush=True)

app.on_fact(lambda fact: say(lost=1) if isinstance(fact, LeaseRecovered | LeaseWasLost) else None)

@app.task(cron="0 * * * *")
async def hourly(run: Run) -> None:
    say(slot=run.slot, late=run.now - run.slot)

@app.task
async def long(run: Run, number: int) -> None:
    await asyncio.sleep(4)
    say(ran=number)

async def main():
    async with app.running():
        say(clock=os.environ["DUEWORK_CLOCK"], now=app.now())
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)

asyncio.run(main())
"""


def start(url: str, clock: str) -> subprocess.Popen[str]:
    environment = {"DUEWORK_URL": url, "DUEWORK_CLOCK": clock, "PYTHONPATH": str(Path.cwd())}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def finish(child: subprocess.Popen[str]) -> list[dict[str, Any]]:
    out, _ = child.communicate("stop\n", timeout=60)
    return [json.loads(line) for line in out.splitlines()]


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_two_processes_share_hours_that_pass_in_seconds(url: str) -> None:
    # Ten minutes in a second: an hour is six seconds, and a job of four lasts longer than a lease.
    clock = Scaled(600, now=ORIGIN + 1)
    app = App(url, clock=clock)

    @app.task(name="long")
    async def long(number: int) -> None: ...

    long.enqueue_many([(number,) for number in range(20)])
    children = [start(url, str(clock)) for _ in range(2)]
    eventually(lambda: app.now() >= ORIGIN + 3 * HOUR + HOUR // 2, 60)
    said = [line for child in children for line in finish(child)]

    slots = [line["slot"] for line in said if "slot" in line]
    assert sorted(slots) == [ORIGIN + each * HOUR for each in (1, 2, 3)]
    assert sorted(line["ran"] for line in said if "ran" in line) == list(range(20))
    assert not [line for line in said if "lost" in line]
    assert {line["clock"] for line in said if "clock" in line} == {str(clock)}
    app.close()


def test_delays_follow_the_clock_and_timeouts_do_not(url: str) -> None:
    app = App(url, clock=Scaled(600))
    ran: list[tuple[str, int]] = []

    @app.task(timeout="30s", retries=1, backoff=("10m",))
    async def late(run: Run) -> None:
        ran.append(("late", run.now))
        if run.attempt == 1:
            # Five virtual minutes, which is no timeout.
            await asyncio.sleep(0.5)
            raise RuntimeError

    async def main() -> None:
        async with app.running():
            job = await late.using(delay="20m").aenqueue()
            asked = job.refresh().at
            await job.await_(timeout="30s")
            assert [now - asked >= 0 for _, now in ran] == [True, True]
            assert ran[1][1] - ran[0][1] >= 15 * 60_000

    asyncio.run(main())
    app.close()


part = Part("quick")


@part.task(isolation="process")
def seconds_in(run: Run) -> tuple[int, int]:
    first = run.now
    deadline = monotonic() + 0.5
    while monotonic() < deadline:
        pass
    return first, run.now


def test_an_isolated_process_has_the_same_time(url: str) -> None:
    app = App(url, clock=Scaled(600))
    app.include(part)

    async def main() -> None:
        async with app.running():
            before = app.now()
            job = await (await seconds_in.aenqueue()).await_(timeout="60s")
            first, last = job.result
            assert before <= first <= last <= app.now()
            assert last - first >= 300_000

    asyncio.run(main())
    app.close()


def test_a_speed_alone_gets_an_origin_that_children_inherit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DUEWORK_CLOCK", "60")

    first = clock_from_environment()
    second = clock_from_environment()

    assert str(first) == str(second) == os.environ["DUEWORK_CLOCK"]
    assert abs(first.now() - second.now()) < 60_000


def test_without_the_variable_the_clock_is_the_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DUEWORK_CLOCK", raising=False)

    assert type(clock_from_environment()) is SystemClock


@pytest.mark.parametrize("text", ["fast", "0", "-3", "0.5", "4000", "60@", "60@1", "60@1/x", "1e3"])
def test_a_clock_that_makes_no_sense_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUEWORK_CLOCK", text)

    with pytest.raises(UsageError, match="a speed from 1"):
        App("sqlite:///never-made.db")
