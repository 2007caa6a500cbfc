"""A worker that has slept for longer than a lease, because nothing was due, still takes over."""

from typing import Any

from duework import App
from duework.db.database import Tx
from tests.support.working import eventually, working


def test_an_idle_worker_takes_over_a_lease_that_ended(app: App) -> None:
    lease = App(app.wiring.bound.url, lease="2s")

    @lease.task
    async def greet() -> str:
        return "here"

    job = greet.enqueue()
    now = lease.now()

    def take(tx: Tx, items: list[Any]) -> list[Any]:
        # A worker on another host claimed it and was never heard of again.
        tx.write(
            """insert into duework_worker (id, host, boot, space, pid, born, started)
               values (99, 'elsewhere', 'another boot', 's', 1, 1, 1)"""
        )
        tx.write(
            "update duework_job set worker = 99, fence = 1, due = :due where id = :id",
            due=now + 2500,
            id=job.id,
        )
        return items

    lease.wiring.engine.writer.call(take, [None])
    with working(lease):
        # At once when the lease ends; not one lease later, as after a pause of its own.
        eventually(lambda: job.refresh().state == "done", 4)

    assert job.refresh().fence == 2
    lease.close()
