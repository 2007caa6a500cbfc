"""Huey on SQLite: WAL, synchronous=FULL (its default), one thread, which was the fastest."""

from huey import SqliteHuey

from bench.peers import protocol

huey = SqliteHuey("bench", filename=f"{protocol.FOLDER}/huey.db", fsync=True)


@huey.task()
def job(number: int) -> None:
    protocol.mark(number)


class Huey(protocol.Peer):
    def enqueue(self, number: int) -> None:
        job(number)

    def worker(self) -> None:
        huey.create_consumer(workers=1, worker_type="thread").run()


if __name__ == "__main__":
    protocol.main(Huey())
