"""Reviving: an operator opens settled jobs again."""

from __future__ import annotations

import pytest

from duework.errors import Conflict, NotFound
from tests.support.kernel import Kernel


def _failed(kernel: Kernel, **more: object) -> int:
    [job] = kernel.enqueue(kernel.new(**more))
    [held] = kernel.claim("greet")
    kernel.settle(kernel.ending(held, "failed", error="no", keep=None))
    return job.id


def test_a_revived_job_is_due_at_once_with_no_failures(kernel: Kernel) -> None:
    job = _failed(kernel)
    kernel.now += 5000

    assert kernel.revive(job) == ["revived"]

    row = kernel.row(job)
    assert (row.state, row.due, row.failures, row.settled) == ("open", kernel.now, 0, None)
    assert len(kernel.claim("greet")) == 1


def test_the_history_of_a_revived_job_is_kept(kernel: Kernel) -> None:
    job = _failed(kernel)

    kernel.revive(job)
    [held] = kernel.claim("greet")
    kernel.settle(kernel.ending(held, "failed", error="again", keep=None))

    rows = kernel.read("select fence, error from duework_attempt where job = :j order by 1", j=job)
    assert [tuple(row) for row in rows] == [(1, "no"), (2, "again")]


@pytest.mark.parametrize("outcome", ["done", "cancelled"])
def test_done_and_cancelled_jobs_can_be_revived_too(kernel: Kernel, outcome: str) -> None:
    [job] = kernel.enqueue(kernel.new())
    [held] = kernel.claim("greet")
    kernel.settle(kernel.ending(held, outcome))  # type: ignore[arg-type]

    assert kernel.revive(job.id) == ["revived"]
    assert kernel.row(job.id).state == "open"


def test_an_open_job_stays_as_it_is(kernel: Kernel) -> None:
    [job] = kernel.enqueue(kernel.new(at=kernel.now + 1000))

    assert kernel.revive(job.id) == ["open"]
    assert kernel.row(job.id).due == kernel.now + 1000


def test_reviving_an_unknown_job_is_not_found(kernel: Kernel) -> None:
    with pytest.raises(NotFound):
        kernel.revive(4711)


def test_reviving_onto_a_taken_key_is_a_conflict_and_changes_nothing(kernel: Kernel) -> None:
    job = _failed(kernel, key="k")
    other = _failed(kernel)
    [holder] = kernel.enqueue(kernel.new(key="k"))

    with pytest.raises(Conflict, match=str(holder.id)):
        kernel.revive(other, job)

    assert (kernel.row(job).state, kernel.row(other).state) == ("failed", "failed")


def test_a_revived_serial_job_waits_for_the_one_that_runs(kernel: Kernel) -> None:
    job = _failed(kernel, serial="s")
    [running] = kernel.enqueue(kernel.new(serial="s"))
    [held] = kernel.claim("greet")

    kernel.revive(job)

    assert kernel.claim("greet") == []
    kernel.settle(kernel.done(held))
    assert [each.id for each in kernel.claim("greet")] == [job]
    assert held.id == running.id


def test_a_revived_serial_job_does_not_start_when_another_one_leaves_the_line(
    kernel: Kernel,
) -> None:
    job = _failed(kernel, serial="s")
    _, queued = kernel.enqueue(kernel.new(serial="s"), kernel.new(serial="s"))
    kernel.claim("greet")
    kernel.revive(job)

    kernel.cancel(queued.id)

    assert kernel.claim("greet") == []


def test_a_revived_serial_job_is_not_stuck_behind_one_that_waits_for_it(kernel: Kernel) -> None:
    job = _failed(kernel, serial="s")
    [waiting] = kernel.enqueue(kernel.new(serial="s", after=job))

    kernel.revive(job)

    [held] = kernel.claim("greet")
    assert held.id == job
    kernel.settle(kernel.done(held))
    assert [each.id for each in kernel.claim("greet")] == [waiting.id]
