"""Dramatiq on Redis: one process with 16 threads."""

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from bench.peers import protocol

dramatiq.set_broker(RedisBroker(url=protocol.URL))


@dramatiq.actor
def job(number: int) -> None:
    protocol.mark(number)


class Dramatiq(protocol.Peer):
    def enqueue(self, number: int) -> None:
        job.send(number)

    def worker(self) -> None:
        size = ("-p", "1", "-t", "16", "--skip-logging")
        protocol.run_module("dramatiq", "bench.peers.dramatiq_redis", *size)


if __name__ == "__main__":
    protocol.main(Dramatiq())
