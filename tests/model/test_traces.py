"""Short traces in which the kernel was once wrong; the random walks find them only now and then."""

from __future__ import annotations

from duework.clock import FOREVER
from duework.kernel.job import KEEP
from duework.testing import Harness
from tests.support.kernel import LEASE, Kernel


def test_a_later_job_behind_the_claimed_ones_is_known_to_come(kernel: Kernel) -> None:
    kernel.enqueue(kernel.new(), kernel.new(at=kernel.now + 1000))

    found = kernel.claim_as(kernel.want("greet"))

    assert found.next_due == kernel.now + 1000


def test_jobs_of_one_serial_value_follow_each_other_at_once(harness: Harness) -> None:
    ran: list[int] = []

    @harness.app.task
    async def note(n: int) -> None:
        ran.append(n)

    for number in range(3):
        note.using(serial="s").enqueue(number)
    harness.drain()

    assert ran == [0, 1, 2]


def test_a_chain_runs_to_its_end_in_one_drain(harness: Harness) -> None:
    ran: list[int] = []

    @harness.app.task
    async def first(n: int) -> None:
        ran.append(n)

    job = first.enqueue(1)
    second = first.using(after=job).enqueue(2)
    first.using(after=second).enqueue(3)
    harness.drain()

    assert ran == [1, 2, 3]


def test_serial_jobs_with_keys_keep_the_order_of_the_call(kernel: Kernel) -> None:
    new = [kernel.new(serial="s", key=key) for key in ("b", "a")]

    first, second = kernel.enqueue(*new)

    assert first.id < second.id
    assert [job.id for job in kernel.claim("greet")] == [first.id]


def test_replacing_a_job_that_waits_for_its_turn_does_not_let_it_go(kernel: Kernel) -> None:
    kernel.enqueue(kernel.new(serial="s"))
    [second] = kernel.enqueue(kernel.new(serial="s", key="k"))

    kernel.enqueue(kernel.new(key="k", replace=True, payload="[2]"))

    assert kernel.row(second.id).due == FOREVER
    assert kernel.row(second.id).payload == "[2]"


def test_a_second_run_has_the_expiry_of_the_second_enqueue(kernel: Kernel) -> None:
    kernel.enqueue(kernel.new(key="k", expires=kernel.now + 1000))
    [held] = kernel.claim("greet")
    kernel.enqueue(kernel.new(key="k", again=True, payload="[2]"))
    kernel.now += 5000

    kernel.settle(kernel.done(held))

    assert [job.payload for job in kernel.claim("greet")] == ["[2]"]


def test_cancelling_a_running_job_cancels_the_second_run_as_well(kernel: Kernel) -> None:
    [job] = kernel.enqueue(kernel.new(key="k"))
    [held] = kernel.claim("greet")
    kernel.enqueue(kernel.new(key="k", again=True))

    kernel.cancel(job.id)
    kernel.settle(kernel.ending(held, "released"))

    assert kernel.row(job.id).state == "cancelled"


def test_a_job_cancelled_together_with_its_predecessor_is_cancelled_once(kernel: Kernel) -> None:
    [first] = kernel.enqueue(kernel.new())
    [second] = kernel.enqueue(kernel.new(after=first.id))

    kernel.cancel(first.id, second.id, first.id)

    assert [(event.job, event.kind) for event in kernel.reacted] == [
        (first.id, "cancelled"),
        (second.id, "cancelled"),
    ]


def test_a_failed_job_is_kept_while_another_waits_for_it(kernel: Kernel) -> None:
    [first] = kernel.enqueue(kernel.new())
    [second] = kernel.enqueue(kernel.new(after=first.id))
    [held] = kernel.claim("greet")

    kernel.settle(kernel.ending(held, "failed", keep=0))
    kernel.now += KEEP
    pruned = kernel.prune()
    kernel.revive(first.id)
    [again] = kernel.claim("greet")
    kernel.settle(kernel.done(again))

    assert pruned == 0
    assert [job.id for job in kernel.claim("greet")] == [second.id]


def test_reviving_the_predecessor_within_one_serial_value_lets_both_run(kernel: Kernel) -> None:
    [first] = kernel.enqueue(kernel.new(serial="s"))
    [second] = kernel.enqueue(kernel.new(serial="s", after=first.id))
    [held] = kernel.claim("greet")
    kernel.settle(kernel.ending(held, "failed", keep=None))

    kernel.revive(first.id)
    [again] = kernel.claim("greet")
    kernel.settle(kernel.done(again))

    assert [job.id for job in kernel.claim("greet")] == [second.id]


def test_a_revived_job_waits_for_the_one_that_has_its_turn(kernel: Kernel) -> None:
    [first, second, third] = kernel.enqueue(*[kernel.new(serial="s") for _ in range(3)])
    [held] = kernel.claim("greet")
    kernel.settle(kernel.ending(held, "failed", keep=None))
    [running] = kernel.claim("greet")

    kernel.revive(first.id)
    kernel.cancel(third.id)

    assert running.id == second.id
    assert kernel.claim("greet") == []


def test_a_lost_lease_of_a_job_that_was_to_be_cancelled_is_reacted_to(kernel: Kernel) -> None:
    [job] = kernel.enqueue(kernel.new())
    kernel.claim("greet")
    kernel.cancel(job.id)
    kernel.now += LEASE

    kernel.recover(crashed=False)

    assert [(event.job, event.kind) for event in kernel.reacted] == [(job.id, "cancelled")]
    assert kernel.row(job.id).due == kernel.now + KEEP


def test_a_done_job_has_no_error_and_one_that_is_not_kept_no_history(kernel: Kernel) -> None:
    [kept, gone] = kernel.enqueue(kernel.new(), kernel.new())
    for held in kernel.claim("greet"):
        kernel.settle(kernel.ending(held, "retry", due=kernel.now, error="at first"))
    one, two = kernel.claim("greet")

    kernel.settle(kernel.done(one), kernel.done(two, keep=0))

    assert kernel.row(kept.id).error is None
    assert kernel.read("select * from duework_attempt where job = :job", job=gone.id) == []


def test_settling_a_job_that_somebody_else_has_settled_and_deleted_says_so(kernel: Kernel) -> None:
    kernel.enqueue(kernel.new())
    [late] = kernel.claim("greet")
    kernel.now += LEASE
    kernel.recover(crashed=False)
    [held] = kernel.claim("greet")
    kernel.settle(kernel.done(held, keep=0))

    assert kernel.settle(kernel.done(late, keep=0)) == [None]
