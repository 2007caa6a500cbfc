"""DBOS on SQLite or PostgreSQL: its defaults, async workflows, a queue polled each second."""

import threading
from typing import Any

from dbos import DBOS, DBOSClient

from bench.peers import protocol

POSTGRES = protocol.URL.startswith("postgresql")
ADDRESS = (
    protocol.URL.replace("postgresql://", "postgresql+psycopg://")
    if POSTGRES
    else f"sqlite:///{protocol.FOLDER}/dbos.db"
)
OPTIONS = {"workflow_name": "job", "queue_name": "bench", "app_version": "1"}


class Dbos(protocol.Peer):
    def _launch(self, *, listen: bool) -> None:
        DBOS(
            config={
                "name": "bench",
                "system_database_url": ADDRESS,
                "run_admin_server": False,
                "log_level": "ERROR",
                "application_version": "1",
            }
        )

        @DBOS.workflow(name="job")
        async def job(number: int) -> None:
            protocol.mark(number)

        if not listen:
            DBOS.listen_queues([])
        DBOS.launch()
        DBOS.register_queue("bench", polling_interval_sec=1.0)

    def reset(self) -> None:
        self._launch(listen=False)
        DBOS.destroy()

    def open(self) -> None:
        self._client: Any = DBOSClient(system_database_url=ADDRESS)

    def enqueue(self, number: int) -> None:
        self._client.enqueue(OPTIONS, number)

    def worker(self) -> None:
        self._launch(listen=True)
        threading.Event().wait()


if __name__ == "__main__":
    protocol.main(Dbos())
