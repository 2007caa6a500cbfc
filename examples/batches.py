"""A batch: one job for each user, progress in one row, and a report when the last one has ended."""

import asyncio
import logging
import tempfile
from pathlib import Path

from duework import App

folder = tempfile.TemporaryDirectory()
app = App(f"sqlite:///{Path(folder.name) / 'batches.db'}")
reported = asyncio.Event()


@app.task
async def check_user(user: int) -> None:
    await asyncio.sleep(0.02)
    if user % 50 == 0:
        raise ValueError(f"user {user} has no address")


@app.task
async def report(batch: int) -> None:
    found = app.get_batch(batch)
    print(f"{found.name}: {found.done} done, {found.failed} failed")
    reported.set()


async def main() -> None:
    # What fails here does so on purpose, and is shown below.
    logging.getLogger("duework").setLevel(logging.CRITICAL)
    batch = await app.abatch(check_user, range(1, 201), name="nightly", then=report)
    async with app.running():
        while not (progress := await batch.aprogress()).settled:
            print(f"{progress.percent} %, {progress.running} running")
            await asyncio.sleep(0.02)
        await asyncio.wait_for(reported.wait(), 10)
    print("failed:", sorted(job.arguments["user"] for job in batch.jobs(phase="failed")))


if __name__ == "__main__":
    asyncio.run(main())
    app.close()
    folder.cleanup()
