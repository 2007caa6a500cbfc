"""Celery on Redis: no result backend, prefork with a process for each of two cores."""

from celery import Celery

from bench.peers import protocol

app = Celery("bench", broker=protocol.URL)
app.conf.update(task_ignore_result=True, broker_connection_retry_on_startup=True)


@app.task(name="job")
def job(number: int) -> None:
    protocol.mark(number)


class CeleryPeer(protocol.Peer):
    def enqueue(self, number: int) -> None:
        job.delay(number)

    def worker(self) -> None:
        pool = ("-P", "prefork", "-c", "2", "-l", "ERROR")
        protocol.run_module("celery", "-A", "bench.peers.celery_redis:app", "worker", *pool)


if __name__ == "__main__":
    protocol.main(CeleryPeer())
