"""Two transactions at once on PostgreSQL, interleaved by hand."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from duework.clock import FOREVER
from duework.db.database import Tx
from duework.db.postgres import tx as postgres_tx
from duework.db.urls import open_database
from duework.kernel import enqueue, lanes, operate, settle
from duework.kernel.claim import SOON_MS
from duework.kernel.job import Ending
from duework.kernel.lanes import Lanes
from tests.support.kernel import LEASE, Kernel

Connection = psycopg.Connection[Any]
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
    enqueue.enqueue(tx, [new], ids=kernel.ids, lanes=Lanes(), now=kernel.now)  # type: ignore[arg-type]


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
        if way == "settle":
            settle.settle(tx, [kernel.done(held)], kernel.settle_context())
        else:
            row = settle.lock_jobs(tx, [head.id])[head.id]
            settle.apply(tx, row, Ending(held.id, held.fence, 0, "done"), kernel.settle_context())
        reviving = beside(
            emptied, lambda tx: operate.revive(tx, [ended.id], kernel.settle_context())
        )
    reviving()

    assert [kernel.row(job.id).due for job in (ended, waiting)] == [FOREVER, kernel.now]


@pytest.fixture
def rows(kernel: Kernel, emptied: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    """A row of the user's own that somebody else keeps under lock until they roll back."""
    monkeypatch.setattr(postgres_tx, "LOCK_MS", 100)
    with kernel.database.transaction() as tx:
        tx.write("create table note (id bigint primary key, text varchar(20))")
        tx.write("insert into note values (1, ''), (2, '')")
    with psycopg.connect(emptied) as holder:
        holder.execute("select * from note where id = 1 for update")
        yield holder


def change(number: int) -> Callable[[Tx], None]:
    return lambda tx: (
        tx.write("update note set text = text || 'x' where id = :id", id=number) and None
    )


def failing(ending: Ending) -> Ending:
    return ending.but(fallback=lambda e: ending.but(kind="failed", error=str(e), keep=None))


def test_who_waits_for_a_lock_in_vain_keeps_its_lease_and_stops_no_other(
    kernel: Kernel, rows: Connection
) -> None:
    kernel.enqueue(*[kernel.new() for _ in range(3)])
    held = kernel.claim("greet")
    one, two = (failing(kernel.done(held[n], effects=(change(n + 1),))) for n in range(2))

    answers = kernel.settle(one, two, kernel.done(held[2]))

    assert [each and each.kind for each in answers] == ["blocked", "done", "done"]
    assert kernel.row(held[0].id).worker is not None
    rows.rollback()
    assert [each and each.kind for each in kernel.settle(one)] == ["done"]
    assert [row.text for row in kernel.read("select text from note order by id")] == ["x", "x"]
    assert kernel.row(held[0].id).failures == 0


def test_a_lease_is_written_off_later_if_a_reaction_waits_for_a_lock_in_vain(
    kernel: Kernel, rows: Connection
) -> None:
    kernel.enqueue(kernel.new(), kernel.new())
    held = kernel.claim("greet")
    for job in held:
        kernel.cancel(job.id)
    first = held[0].id
    kernel.on_react = lambda tx, row, _: change(1 if row.id == first else 2)(tx)
    kernel.now += LEASE

    before = [ending.id for ending in kernel.recover()]
    rows.rollback()
    after = [ending.id for ending in kernel.recover()]

    assert (before, after) == ([held[1].id], [first])
    assert [kernel.row(job.id).state for job in held] == ["cancelled", "cancelled"]
    assert [row.text for row in kernel.read("select text from note order by id")] == ["x", "x"]
