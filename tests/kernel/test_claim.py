"""Claiming: what is taken, in which order, and what is left alone."""

from __future__ import annotations

from tests.support.kernel import LEASE, ME, OTHER, Kernel


def test_a_claim_moves_due_to_the_end_of_the_lease_and_raises_the_fence(kernel: Kernel) -> None:
    [job] = kernel.enqueue(kernel.new())

    [held] = kernel.claim("greet")

    row = kernel.row(job.id)
    assert (row.due, row.worker, row.fence) == (kernel.now + LEASE, ME, 1)
    assert (held.id, held.fence) == (job.id, 1)


def test_a_job_is_not_claimed_twice(kernel: Kernel) -> None:
    kernel.enqueue(kernel.new())

    assert len(kernel.claim("greet")) == 1
    assert kernel.claim("greet", worker=OTHER) == []
