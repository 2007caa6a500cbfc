"""A program with a job for each reason of `why()`: `python -m tests.browser.reasons seed PID`.

PID is a process that lives as long as the test: it stands for the worker that is alive.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from duework import App, Rate, Snooze, Throttled, Tick
from duework.clock import FOREVER

app = App()
HOUR = 3_600_000
WORKER = 77


@app.task
async def greet(name: str) -> str:
    return f"hello {name}"


@app.task(queue="mail")
async def mail() -> None: ...


@app.task
async def breaks() -> None:
    raise ValueError("order 7 is broken")


@app.task(retries=3, backoff=("1h",))
async def fetch() -> None:
    raise TimeoutError("no answer")


@app.task
async def naps() -> Snooze:
    return Snooze("1h")


@app.task(concurrency=1)
async def single() -> None: ...


@app.task(pace=Tick(1, "1h", name="calls"))
async def paced(number: int) -> None: ...


@app.task(pace=Rate("5/1s", name="discord"))
async def throttled() -> None:
    raise Throttled("1h")


@app.task
async def crashes() -> None: ...


def seed() -> dict[str, int]:
    """The id of a job for each kind; those that only rows can make are rows."""
    made = {
        "done": greet.enqueue("ada"),
        "failed": breaks.enqueue(),
        "retry": fetch.enqueue(),
        "snoozed": naps.enqueue(),
        "pace blocked": throttled.enqueue(),
    }
    paced.enqueue(1)
    made["pace"] = paced.enqueue(2)
    made["expired"] = greet.using(expires="1ms").enqueue("too late")
    asyncio.run(asyncio.sleep(0.01))
    asyncio.run(app.worker().run_until_idle())
    later = made["later"] = greet.using(delay="1h").enqueue("bob")
    made["cancelled"] = greet.using(delay="1h").enqueue("eve")
    made["cancelled"].cancel("ordered twice")
    made["after"] = greet.using(after=later).enqueue("mal")
    greet.using(serial="athlete:18", delay="1h").enqueue("first")
    made["serial"] = greet.using(serial="athlete:18").enqueue("second")
    made["paused"] = mail.enqueue()
    app.pause("mail")
    made["suspect"] = crashes.enqueue()
    made["running"], made["full"] = single.enqueue(), single.enqueue()
    made["lease over"], made["parked"] = greet.enqueue("lost"), greet.enqueue("parked")
    made["in turn"] = greet.enqueue("ready")
    _by_rows({kind: job.id for kind, job in made.items()})
    return {kind: job.id for kind, job in made.items()}


def _by_rows(made: dict[str, int]) -> None:
    held = "update duework_job set worker = :worker, fence = fence + 1, due = :due where id = :id"
    now = app.now()
    with app.transaction() as tx:
        tx.write("update duework_lane set alone = 1 where task = 'crashes'")
        tx.write(held, worker=WORKER, due=now + HOUR, id=made["running"])
        tx.write(held, worker=WORKER, due=now - 5000, id=made["lease over"])
        tx.write(held, worker=None, due=FOREVER, id=made["parked"])


def born_at(pid: int) -> int:
    """When it was started, in ticks since boot."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def worker(pid: str) -> None:
    """Only one worker has a row: that process, alive, or dead if the number is 0."""
    from duework.kernel.machine import processes

    found = processes.this_process(WORKER, app.now())
    alive = int(pid) or os.getpid()
    born = born_at(alive) if int(pid) else 1
    with app.transaction() as tx:
        tx.write("delete from duework_worker")
        tx.write(
            "insert into duework_worker (id, host, boot, space, pid, born, started)"
            " values (:id, :host, :boot, :space, :pid, :born, :started)",
            id=WORKER,
            host=found.host,
            boot=found.boot,
            space=found.space,
            pid=alive,
            born=born,
            started=app.now(),
        )


def enqueue() -> int:
    return greet.using(delay="1h").enqueue("somebody").id


if __name__ == "__main__":
    acts: dict[str, Any] = {"seed": seed, "worker": worker, "enqueue": enqueue}
    sys.stdout.write(json.dumps(acts[sys.argv[1]](*sys.argv[2:])))
    app.close()
