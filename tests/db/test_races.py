"""Two transactions at once on PostgreSQL, interleaved by hand."""

from __future__ import annotations

import threading
from collections.abc import Callable

import psycopg
import pytest

from duework.clock import FOREVER
from duework.db.database import Tx
from duework.db.urls import open_database
from duework.kernel import jobs, lanes, settle
from duework.kernel.claim import SOON_MS
from duework.kernel.job import Ending
from duework.kernel.lanes import Lanes
from tests.support.kernel import Kernel

pytestmark = pytest.mark.parametrize("kind", ["postgres"])
WAITERS = "select count(*) from pg_locks where not granted"


def beside(address: str, verb: Callable[[Tx], object]) -> Callable[[], None]:
    """Run a verb in a transaction beside ours, until it waits or has ended; call to see it end."""
    database = open_database(address, "power")

    def run() -> None:
        with database.transaction() as tx:
            verb(tx)

    thread = threading.Thread(target=run)
    thread.start()
    with psycopg.connect(address, autocommit=True) as watching:
        while thread.is_alive() and watching.execute(WAITERS).fetchone() == (0,):
            thread.join(0.005)

    def end() -> None:
        thread.join()
        database.close()

    return end


def test_a_claim_that_another_one_beat_to_it_looks_again_soon(kernel: Kernel, emptied: str) -> None:
    kernel.enqueue(kernel.new())

    with psycopg.connect(emptied) as other:
        other.execute("select id from duework_job for update")
        claim = kernel.claim_as(kernel.want("greet"))

    assert claim.jobs == []
    assert claim.next_due == kernel.now + SOON_MS


def test_a_claim_that_passed_over_some_of_a_lane_looks_again_soon(
    kernel: Kernel, emptied: str
) -> None:
    locked, free = kernel.enqueue(kernel.new(), kernel.new())

    with psycopg.connect(emptied) as other:
        other.execute("select id from duework_job where id = %s for update", [locked.id])
        claim = kernel.claim_as(kernel.want("greet"))

    assert [job.id for job in claim.jobs] == [free.id]
    assert claim.next_due == kernel.now + SOON_MS


def test_a_claim_that_emptied_a_lane_does_not_look_again_soon(kernel: Kernel) -> None:
    kernel.enqueue(kernel.new(), kernel.new(at=kernel.now + 5000))

    assert kernel.claim_as(kernel.want("greet")).next_due == kernel.now + 5000


def enqueue_beside(kernel: Kernel, tx: Tx) -> None:
    new = kernel.new("second", queue="mail")
    jobs.enqueue(tx, [new], ids=kernel.ids, lanes=Lanes(), now=kernel.now)  # type: ignore[arg-type]


def dues(kernel: Kernel) -> dict[str, int]:
    return {row.task: row.due for row in kernel.read("select task, due from duework_lane")}


def test_a_lane_that_is_born_paused_is_resumed_by_who_came_meanwhile(
    kernel: Kernel, emptied: str
) -> None:
    kernel.enqueue(kernel.new("first", queue="mail"))
    kernel.run(lambda tx: lanes.pause(tx, "mail"))

    with kernel.database.transaction() as tx:
        enqueue_beside(kernel, tx)
        resuming = beside(emptied, lambda tx: lanes.resume(tx, "mail"))
    resuming()

    assert dues(kernel) == {"first": 0, "second": 0}


def test_a_lane_that_is_born_while_its_queue_is_paused_is_paused_too(
    kernel: Kernel, emptied: str
) -> None:
    kernel.enqueue(kernel.new("first", queue="mail"))

    with kernel.database.transaction() as tx:
        enqueue_beside(kernel, tx)
        pausing = beside(emptied, lambda tx: lanes.pause(tx, "mail"))
    pausing()

    assert dues(kernel) == {"first": FOREVER, "second": FOREVER}


def test_a_lane_that_is_made_while_a_pause_is_open_is_born_paused(
    kernel: Kernel, emptied: str
) -> None:
    kernel.enqueue(kernel.new("first", queue="mail"))

    with kernel.database.transaction() as tx:
        lanes.pause(tx, "mail")
        making = beside(emptied, lambda tx: enqueue_beside(kernel, tx))
    making()

    assert dues(kernel) == {"first": FOREVER, "second": FOREVER}


@pytest.mark.parametrize("way", ["settle", "apply"])
def test_a_serial_value_has_one_claimable_job_when_a_wait_ends_beside_a_revival(
    kernel: Kernel, emptied: str, way: str
) -> None:
    [ended] = kernel.enqueue(kernel.new("serial", serial="s"))
    kernel.settle(kernel.done(*kernel.claim("serial")))
    [head] = kernel.enqueue(kernel.new("head"))
    [waiting] = kernel.enqueue(kernel.new("serial", serial="s", after=head.id))
    [held] = kernel.claim("head")

    with kernel.database.transaction() as tx:
        common = {"now": kernel.now, "lanes": kernel.lanes, "react": kernel.react}
        if way == "settle":
            settle.settle(tx, [kernel.done(held)], **common)  # type: ignore[arg-type]
        else:
            row = settle.held(tx, [head.id])[head.id]
            settle.apply(tx, row, Ending(held.id, held.fence, 0, "done"), **common)  # type: ignore[arg-type]
        reviving = beside(emptied, lambda tx: jobs.revive(tx, [ended.id], now=kernel.now))
    reviving()

    assert [kernel.row(job.id).due for job in (ended, waiting)] == [FOREVER, kernel.now]
