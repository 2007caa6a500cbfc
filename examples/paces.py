"""An API with a rate and a webhook with another: many jobs, none too soon."""

import asyncio
import tempfile
from pathlib import Path
from time import monotonic

from duework import App, Rate

folder = tempfile.TemporaryDirectory()
app = App(f"sqlite:///{Path(folder.name) / 'paces.db'}")
began = monotonic()


@app.task(pace=Rate("10/1s", burst=1))
async def call(number: int) -> None:
    print(f"{monotonic() - began:4.1f} s  call {number}")


@app.task(pace=Rate("5/2s", per="webhook"))
async def post(webhook: str, text: str) -> None:
    print(f"{monotonic() - began:4.1f} s  {webhook}: {text}")


async def main() -> None:
    call.enqueue_many([(number,) for number in range(5)])
    jobs = [post.enqueue(hook, text) for hook in ("ada", "bob") for text in ("one", "two")]
    async with app.running():
        for job in [*app.jobs(task="call"), *jobs]:
            await job.await_("10s")
    for pace in app.paces():
        print(pace.name, pace.says)


if __name__ == "__main__":
    asyncio.run(main())
    app.close()
    folder.cleanup()
