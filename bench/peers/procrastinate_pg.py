"""Procrastinate on PostgreSQL: one process, 20 coroutines, a pool of 20 connections."""

import procrastinate

from bench.peers import protocol

app = procrastinate.App(
    connector=procrastinate.PsycopgConnector(conninfo=protocol.URL, max_size=20)
)


@app.task(name="job")
async def job(number: int) -> None:
    protocol.mark(number)


class Procrastinate(protocol.Peer):
    async def reset(self) -> None:
        async with app.open_async():
            await app.schema_manager.apply_schema_async()

    async def open(self) -> None:
        await app.open_async()

    async def close(self) -> None:
        await app.close_async()

    async def enqueue(self, number: int) -> None:
        await job.defer_async(number=number)

    async def bulk(self, jobs: range) -> None:
        for start in range(0, len(jobs), 1000):
            calls = [{"number": number} for number in jobs[start : start + 1000]]
            await job.batch_defer_async(*calls)

    async def worker(self) -> None:
        async with app.open_async():
            await app.run_worker_async(concurrency=20, install_signal_handlers=False)


if __name__ == "__main__":
    protocol.main(Procrastinate())
