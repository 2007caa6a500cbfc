"""A program counts what it finds and how long it takes, and asks for the sums."""

import asyncio
import tempfile
from pathlib import Path

from duework import App

folder = tempfile.TemporaryDirectory()
app = App(f"sqlite:///{Path(folder.name) / 'metrics.db'}")


@app.task
async def scan(phase: str, found: int) -> None:
    with app.metrics.timer("scan", phase=phase):
        app.metrics.add("apps_discovered", found, phase=phase)


async def main() -> None:
    jobs = [scan.enqueue("charts", number) for number in range(5)]
    async with app.running():
        for job in jobs:
            await job.await_("10s")
    app.metrics.flush()
    for point in app.metrics.totals():
        if point.kind == "counter":
            print(f"{point.name} {point.labels['phase']}: {point.total:g} in {point.count} steps")


if __name__ == "__main__":
    asyncio.run(main())
    app.close()
    folder.cleanup()
