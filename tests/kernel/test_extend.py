"""Extending: leases of what still runs, all in one statement."""

from __future__ import annotations

from duework.kernel.recover import extend
from tests.support.kernel import LEASE, ME, OTHER, Kernel


def test_extending_moves_the_end_of_the_lease(kernel: Kernel) -> None:
    jobs = kernel.enqueue(*[kernel.new() for _ in range(3)])
    held = kernel.claim("greet")

    kernel.now += 5000
    lost = kernel.extend(*held)

    assert lost == []
    assert {kernel.row(job.id).due for job in jobs} == {kernel.now + LEASE}
    assert {kernel.row(job.id).fence for job in jobs} == {1}


def test_an_extended_lease_is_not_written_off(kernel: Kernel) -> None:
    kernel.enqueue(kernel.new())
    [held] = kernel.claim("greet")

    kernel.now += LEASE - 1
    kernel.extend(held)
    kernel.now += LEASE - 1

    assert kernel.recover() == []


def test_extending_names_what_was_lost_and_extends_the_rest(kernel: Kernel) -> None:
    first, second = kernel.enqueue(kernel.new(), kernel.new())
    held = kernel.claim("greet")
    kernel.settle(kernel.ending(held[0], "lost"))
    kernel.claim("greet", worker=OTHER)

    kernel.now += 100
    lost = kernel.extend(*held)

    assert lost == [first.id]
    assert kernel.row(second.id).due == kernel.now + LEASE
    assert kernel.row(first.id).due == kernel.now - 100 + LEASE


def test_a_lease_taken_by_the_same_worker_again_is_another_lease(kernel: Kernel) -> None:
    kernel.enqueue(kernel.new())
    [first] = kernel.claim("greet")
    kernel.settle(kernel.ending(first, "released"))
    kernel.claim("greet")

    assert kernel.extend(first) == [first.id]


def test_of_two_leases_of_one_job_the_old_one_is_named_and_the_new_one_extended(
    kernel: Kernel,
) -> None:
    kernel.enqueue(kernel.new())
    [first] = kernel.claim("greet")
    kernel.settle(kernel.ending(first, "released"))
    [second] = kernel.claim("greet")
    leases = [(each.id, each.fence) for each in (first, second)]

    kernel.now += 100
    gone = kernel.run(lambda tx: extend(tx, leases, worker=ME, until=kernel.now + LEASE))

    assert gone == leases[:1]
    assert kernel.row(second.id).due == kernel.now + LEASE


def test_a_settled_job_cannot_be_extended(kernel: Kernel) -> None:
    [job] = kernel.enqueue(kernel.new())
    [held] = kernel.claim("greet")
    kernel.settle(kernel.done(held, keep=1000))

    assert kernel.extend(held) == [job.id]
    assert kernel.row(job.id).due == kernel.now + 1000


def test_extending_nothing_is_nothing(kernel: Kernel) -> None:
    assert kernel.extend() == []
