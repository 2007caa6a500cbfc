"""One at a time, in order, per value; different values run side by side."""

import asyncio
import tempfile
from pathlib import Path

from duework import App, Run

folder = tempfile.TemporaryDirectory()
app = App(f"sqlite:///{Path(folder.name) / 'serial.db'}")
seen: list[str] = []


@app.task
async def apply(run: Run, user: str, change: int) -> None:
    seen.append(f"{user}{change}")
    await asyncio.sleep(0.02)


async def main() -> None:
    for change in range(1, 6):
        for user in ("ada:", "bob:", "cid:"):
            await apply.using(serial=f"user:{user}").aenqueue(user, change)
    async with app.running():
        for job in app.jobs(task="apply"):
            await job.await_("10s")

    print("as they started:", " ".join(seen))
    for user in ("ada:", "bob:", "cid:"):
        print([each for each in seen if each.startswith(user)])


if __name__ == "__main__":
    asyncio.run(main())
    app.close()
    folder.cleanup()
