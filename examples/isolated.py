"""A process of its own for each job: a crash, a leak or an endless loop harms nobody else."""

import asyncio
import logging
import os
import signal
import tempfile
from pathlib import Path

from duework import App

folder = tempfile.TemporaryDirectory()
app = App(f"sqlite:///{Path(folder.name) / 'isolated.db'}")


@app.task(isolation="process", timeout="10s")
def square(number: int) -> int:
    return number * number


@app.task(isolation="process", timeout="500ms")
def endless() -> None:
    while True:
        pass


@app.task(isolation="process", memory_mb=512)
def greedy() -> int:
    return len(bytearray(4 * 1024**3))


@app.task(isolation="process")
def killer() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def main() -> None:
    # What fails here does so on purpose, and is shown below.
    logging.getLogger("duework").setLevel(logging.CRITICAL)
    async with app.running():
        jobs = [
            await task.aenqueue(*args)
            for task, *args in ((square, 12), (endless,), (greedy,), (killer,))
        ]
        # Two crashes are forgiven, after 1 s and 2 s; the third one alone makes a job poison.
        for job in jobs:
            ended = await job.await_("30s")
            why = (ended.error or "").splitlines()
            said = ended.result if ended.state == "done" else why[0] if why else ""
            print(f"{ended.task:8} {ended.state:7} {said}")


if __name__ == "__main__":
    asyncio.run(main())
    app.close()
    folder.cleanup()
