"""What settle and revive must not leave behind; `verify` is the judge."""

from __future__ import annotations

from duework.clock import FOREVER
from duework.health.verify import verify
from tests.support.checks import EVERY
from tests.support.kernel import Kernel


def violated(kernel: Kernel) -> set[str]:
    # These tests claim without a registered worker.
    with kernel.reading() as tx:
        return {each.name for each in verify(tx, EVERY) if each.violations} - {"lease_has_worker"}


def test_a_job_that_is_not_kept_takes_its_failed_attempts_with_it(kernel: Kernel) -> None:
    kernel.enqueue(kernel.new(), kernel.new())
    for held in kernel.claim("greet"):
        kernel.settle(kernel.ending(held, "retry", due=kernel.now, error="no"))
    first, second = kernel.claim("greet")

    kernel.settle(kernel.done(first, keep=0), kernel.ending(second, "retry", due=kernel.now))

    assert [row.id for row in kernel.rows()] == [second.id]
    assert {row.job for row in kernel.read("select job from duework_attempt")} == {second.id}


def test_a_job_that_lost_its_lease_keeps_its_attempts(kernel: Kernel) -> None:
    [job] = kernel.enqueue(kernel.new())
    [held] = kernel.claim("greet")
    kernel.settle(kernel.ending(held, "retry", due=kernel.now, error="no"))
    kernel.claim("greet")

    [answer] = kernel.settle(kernel.done(held, keep=0))

    assert answer is None
    assert len(kernel.read("select job from duework_attempt where job = :job", job=job.id)) == 1


def test_a_revived_job_wakes_what_runs_after_it(kernel: Kernel) -> None:
    [first] = kernel.enqueue(kernel.new("first"))
    [held] = kernel.claim("first")
    kernel.settle(kernel.done(held))
    kernel.enqueue(kernel.new("serial", serial="s"))
    [waits] = kernel.enqueue(kernel.new("serial", serial="s", after=first.id))
    kernel.revive(first.id)

    [head] = kernel.claim("serial")
    kernel.settle(kernel.done(head))
    [held] = kernel.claim("first")
    kernel.settle(kernel.done(held))

    assert kernel.row(waits.id).due < FOREVER
    assert violated(kernel) == set()
