"""A second enqueue with `when_running="again"` while the job runs."""

from __future__ import annotations

from tests.support.kernel import Kernel


def test_a_run_that_was_asked_for_again_is_not_forgotten_by_a_retry_in_between(
    kernel: Kernel,
) -> None:
    [job] = kernel.enqueue(kernel.new(key="k", payload='{"n":1}'))
    [held] = kernel.claim("greet")
    kernel.enqueue(kernel.new(key="k", payload='{"n":2}', again=True))

    kernel.settle(kernel.ending(held, "retry", due=kernel.now, error="not yet"))
    [second] = kernel.claim("greet")
    kernel.settle(kernel.done(second))
    [third] = kernel.claim("greet")

    assert (second.payload, third.payload) == ('{"n":1}', '{"n":2}')
    kernel.settle(kernel.done(third))
    assert kernel.row(job.id).state == "done"
