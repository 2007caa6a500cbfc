"""Taskiq on Redis streams, whose jobs are acknowledged: one process, 100 coroutines."""

from taskiq_redis import RedisStreamBroker

from bench.peers import protocol

broker = RedisStreamBroker(protocol.URL)


@broker.task(task_name="job")
async def job(number: int) -> None:
    protocol.mark(number)


class Taskiq(protocol.Peer):
    async def open(self) -> None:
        await broker.startup()

    async def close(self) -> None:
        await broker.shutdown()

    async def enqueue(self, number: int) -> None:
        await job.kiq(number)

    def worker(self) -> None:
        size = ("--workers", "1", "--max-async-tasks", "100", "--log-level", "ERROR")
        protocol.run_module("taskiq", "worker", "bench.peers.taskiq_redis:broker", *size)


if __name__ == "__main__":
    protocol.main(Taskiq())
