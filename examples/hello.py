"""Kill it with -9 whenever you like and start it again: it goes on where it was."""

import asyncio

from duework import App

app = App("sqlite:///hello.db")


@app.task(retries=3, timeout="10s", concurrency=1)
async def greet(name: str) -> str:
    await asyncio.sleep(0.5)  # the work
    return f"hello {name}"


async def main() -> None:
    async with app.running():  # a worker in this process
        for name in ("ada", "grace", "edsger", "barbara"):
            job = await greet.using(key=name, once="forever").aenqueue(name)
            print(job.id, "known already" if job.existed else "enqueued", flush=True)
        for job in reversed(app.jobs(task="greet")):
            print((await job.await_()).result, flush=True)


if __name__ == "__main__":
    asyncio.run(main())
