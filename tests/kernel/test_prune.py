"""Pruning: settled rows go when their retention is over, in small chunks; open ones never."""

from __future__ import annotations

from duework.kernel.job import DAY
from duework.kernel.operate import CHUNK
from duework.kernel.paces.admission import forget
from duework.kernel.pruning import prune_round
from duework.testing import Harness
from tests.support.kernel import Kernel


def test_a_settled_row_is_kept_for_as_long_as_its_ending_says(kernel: Kernel) -> None:
    kernel.enqueue(kernel.new())
    kernel.settle(kernel.done(*kernel.claim("greet"), keep=7 * DAY))

    kernel.now += 7 * DAY - 1
    assert kernel.prune() == 0
    kernel.now += 1
    assert kernel.prune() == 1
    assert kernel.rows() == []


def test_what_is_kept_for_ever_is_never_pruned(kernel: Kernel) -> None:
    [job] = kernel.enqueue(kernel.new())
    [held] = kernel.claim("greet")
    kernel.settle(kernel.ending(held, "failed", error="no", keep=None))

    kernel.now += 10_000 * DAY

    assert kernel.prune() == 0
    assert kernel.row(job.id).state == "failed"


def test_open_jobs_are_never_pruned_however_old(kernel: Kernel) -> None:
    kernel.enqueue(kernel.new(), kernel.new())
    kernel.claim("greet", free=1)

    kernel.now += 10_000 * DAY

    assert kernel.prune() == 0
    assert len(kernel.rows()) == 2


def test_pruning_goes_chunk_by_chunk_oldest_first(kernel: Kernel) -> None:
    kernel.enqueue(*[kernel.new() for _ in range(5)])
    for n, held in enumerate(kernel.claim("greet")):
        kernel.settle(kernel.done(held, keep=5 - n))

    kernel.now += 10
    assert kernel.prune(chunk=2) == 2

    assert [row.id for row in kernel.rows()] == [1, 2, 3]
    assert kernel.prune(chunk=2) == 2
    assert kernel.prune(chunk=2) == 1


def test_the_history_goes_with_the_row(kernel: Kernel) -> None:
    kernel.enqueue(kernel.new())
    [held] = kernel.claim("greet")
    kernel.settle(kernel.ending(held, "failed", error="no", keep=5))

    kernel.now += 5
    kernel.prune()

    assert kernel.read("select * from duework_attempt") == []


def test_keys_that_admit_one_job_are_forgotten_when_their_time_is_over(kernel: Kernel) -> None:
    kernel.enqueue(kernel.new(key="a", once_until=kernel.now + 100))
    kernel.enqueue(kernel.new(key="b", once_until=kernel.now + 101))

    kernel.now += 100
    kernel.prune()

    assert [row.key for row in kernel.read("select key from duework_once")] == ["b"]


def test_a_failed_job_is_kept_for_as_long_as_another_one_waits_for_it(kernel: Kernel) -> None:
    [first] = kernel.enqueue(kernel.new())
    [second] = kernel.enqueue(kernel.new(after=first.id))
    [held] = kernel.claim("greet")
    kernel.settle(kernel.ending(held, "failed", error="no", keep=5))

    kernel.now += 5
    assert kernel.prune() == 0
    kernel.cancel(second.id)
    kernel.now += DAY

    assert kernel.prune() == 1


def test_keys_that_may_be_used_again_go_chunk_by_chunk(kernel: Kernel) -> None:
    new = [kernel.new(key=f"k{n}", once_until=kernel.now + n) for n in range(5)]
    kernel.enqueue(*new)

    kernel.now += 3
    assert kernel.prune(chunk=3) == 3

    with kernel.reading() as tx:
        left = tx.read("select key from duework_once order by key")
    assert [row.key for row in left] == ["k3", "k4"]
    assert kernel.prune(chunk=3) == 1


def test_quiet_rows_of_a_pace_go_chunk_by_chunk(kernel: Kernel) -> None:
    row = "insert into duework_pace (name, kind, idle, changed) values (:name, 'rate', :idle, 0)"
    idle = [{"name": f"p{n}", "idle": kernel.now + n} for n in range(4)]
    kernel.run(lambda tx: tx.write(row, rows=[*idle, {"name": "busy", "idle": None}]))

    kernel.now += 2
    counts = [kernel.run(lambda tx: forget(tx, now=kernel.now, chunk=2)) for _ in range(3)]

    with kernel.reading() as tx:
        left = tx.read("select name from duework_pace order by name")
    assert counts == [2, 1, 0]
    assert [row.name for row in left] == ["busy", "p3"]


def test_a_round_goes_on_while_there_is_more_than_a_chunk_of_anything(harness: Harness) -> None:
    engine = harness.app.wiring.engine
    row = "insert into duework_pace (name, kind, idle, changed) values (:name, 'rate', 1, 0)"
    with harness.app.transaction() as tx:
        tx.write(row, rows=[{"name": f"p{n}"} for n in range(CHUNK + 1)])

    assert prune_round(engine, 10) == 2
    assert harness.app.read("select count(*) as n from duework_pace")[0].n == 0
