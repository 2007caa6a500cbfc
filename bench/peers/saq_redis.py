"""SAQ on Redis: one process, 20 coroutines."""

from typing import Any

from saq import Queue, Worker

from bench.peers import protocol


async def job(_context: Any, *, number: int) -> None:
    protocol.mark(number)


class Saq(protocol.Peer):
    async def open(self) -> None:
        self._queue = Queue.from_url(protocol.URL)
        await self._queue.connect()

    async def close(self) -> None:
        await self._queue.disconnect()

    async def enqueue(self, number: int) -> None:
        await self._queue.enqueue("job", number=number)

    async def worker(self) -> None:
        queue = Queue.from_url(protocol.URL)
        await queue.connect()
        await Worker(queue, [job], concurrency=20).start()


if __name__ == "__main__":
    protocol.main(Saq())
