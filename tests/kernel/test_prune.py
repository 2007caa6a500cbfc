"""Pruning: settled rows go when their retention is over, in small chunks; open ones never."""

from __future__ import annotations

from duework.kernel.job import DAY
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
