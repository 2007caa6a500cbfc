"""PgQueuer on PostgreSQL by asyncpg: one process, batches of 100, which was the fastest."""

from typing import Any

import asyncpg
from pgqueuer import AsyncpgDriver, PgQueuer, Queries

from bench.peers import protocol


class Pgqueuer(protocol.Peer):
    async def reset(self) -> None:
        connection = await asyncpg.connect(protocol.URL)
        await Queries(AsyncpgDriver(connection)).install()
        await connection.close()

    async def open(self) -> None:
        self._connection = await asyncpg.connect(protocol.URL)
        self._queries = Queries(AsyncpgDriver(self._connection))

    async def close(self) -> None:
        await self._connection.close()

    async def enqueue(self, number: int) -> None:
        await self._queries.enqueue("job", b"%d" % number)

    async def bulk(self, jobs: range) -> None:
        for start in range(0, len(jobs), 1000):
            chosen = jobs[start : start + 1000]
            payloads: list[bytes | None] = [b"%d" % number for number in chosen]
            await self._queries.enqueue(["job"] * len(chosen), payloads, [0] * len(chosen))

    async def worker(self) -> None:
        queuer = PgQueuer(AsyncpgDriver(await asyncpg.connect(protocol.URL)))

        @queuer.entrypoint("job")
        async def job(given: Any) -> None:
            protocol.mark(int(given.payload))

        await queuer.run(batch_size=100)


if __name__ == "__main__":
    protocol.main(Pgqueuer())
