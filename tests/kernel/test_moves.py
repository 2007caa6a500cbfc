"""The verbs by which shapes move rows of the kernel."""

from __future__ import annotations

from typing import Any

from duework.clock import FOREVER
from duework.db.database import Tx
from duework.kernel import enqueue, lanes, moves
from duework.kernel.job import Enqueued, NewJob
from tests.support.kernel import Kernel


def test_a_job_that_waits_is_moved_and_its_failures_are_over(kernel: Kernel) -> None:
    [made] = kernel.enqueue(kernel.new())
    [held] = kernel.claim("greet")
    kernel.settle(kernel.ending(held, "retry", due=kernel.now + 5, error="no"))

    moved = kernel.run(lambda tx: moves.move(tx, [(made.id, kernel.now + 70)]))

    row = kernel.row(made.id)
    assert moved == 1
    assert (row.due, row.at, row.failures, row.error) == (kernel.now + 70, kernel.now + 70, 0, None)


def test_a_job_that_is_held_or_over_is_not_moved(kernel: Kernel) -> None:
    running, over = kernel.enqueue(kernel.new(), kernel.new("other"))
    [held] = kernel.claim("greet")
    [ended] = kernel.claim("other")
    kernel.settle(kernel.done(ended))
    before = [kernel.row(running.id), kernel.row(over.id)]

    moved = kernel.run(
        lambda tx: moves.move(tx, [(running.id, kernel.now + 70), (over.id, kernel.now + 70)])
    )

    assert moved == 0
    assert [kernel.row(running.id), kernel.row(over.id)] == before
    assert held.id == running.id


def test_a_job_that_is_woken_is_due_now_and_keeps_the_time_asked_for(kernel: Kernel) -> None:
    later = kernel.now + 1000
    [made] = kernel.enqueue(kernel.new(at=later))

    kernel.run(lambda tx: moves.wake(tx, made.id, now=kernel.now))

    assert (kernel.row(made.id).due, kernel.row(made.id).at) == (kernel.now, later)


def test_waking_does_not_put_off_what_was_due_before(kernel: Kernel) -> None:
    [made] = kernel.enqueue(kernel.new(at=kernel.now - 5))

    kernel.run(lambda tx: moves.wake(tx, made.id, now=kernel.now))

    assert kernel.row(made.id).due == kernel.now - 5


def test_what_is_still_held_is_known_by_its_fence(kernel: Kernel) -> None:
    waiting, running = kernel.enqueue(kernel.new("other"), kernel.new())
    [held] = kernel.claim("greet")

    found = kernel.run(lambda tx: moves.still_held(tx, [running.id, waiting.id, 5]))

    assert found == {held.id: held.fence}


def test_what_is_forgotten_leaves_no_row_and_no_attempt(kernel: Kernel) -> None:
    [made] = kernel.enqueue(kernel.new())
    [held] = kernel.claim("greet")
    kernel.settle(kernel.ending(held, "retry", due=kernel.now + 5, error="no"))

    kernel.run(lambda tx: moves.forget(tx, [made.id]))

    assert kernel.rows() == []
    with kernel.reading() as tx:
        assert tx.read("select count(*) from duework_attempt")[0][0] == 0


def test_a_job_that_shall_never_expire_does_not(kernel: Kernel) -> None:
    [made] = kernel.enqueue(kernel.new(expires=kernel.now + 5))

    kernel.run(lambda tx: moves.never_expire(tx, made.id))

    kernel.now += 100
    assert [job.id for job in kernel.claim("greet")] == [made.id]


def test_lanes_that_are_delayed_admit_nothing_until_then(kernel: Kernel) -> None:
    kernel.enqueue(kernel.new("mail.submit"), kernel.new("mail.poll"), kernel.new("other"))
    until = kernel.now + 1000

    kernel.run(lambda tx: moves.delay_lanes(tx, ["mail.submit", "mail.poll"], until))

    tasks = ("mail.submit", "mail.poll", "other")
    assert [job.task for job in kernel.claim(*tasks)] == ["other"]
    kernel.now = until
    assert sorted(job.task for job in kernel.claim(*tasks)) == ["mail.poll", "mail.submit"]


def test_a_lane_that_is_paused_is_not_opened_by_a_delay(kernel: Kernel) -> None:
    kernel.enqueue(kernel.new())
    kernel.run(lambda tx: lanes.pause(tx, "default"))

    kernel.run(lambda tx: moves.delay_lanes(tx, ["greet"], kernel.now + 10))

    with kernel.reading() as tx:
        assert [lane.due for lane in kernel.lanes.all(tx)] == [FOREVER]


def keyed(kernel: Kernel, *jobs: NewJob) -> list[Enqueued]:
    more: dict[str, Any] = {"ids": kernel.ids, "lanes": kernel.lanes}

    def verb(tx: Tx) -> list[Enqueued]:
        return enqueue.enqueue_keyed(tx, jobs, **more)

    found: list[Enqueued] = kernel.run(verb)
    return found


def test_many_keyed_jobs_are_one_statement(kernel: Kernel) -> None:
    new = [kernel.new(key=f"k{number}") for number in range(20)]
    keyed(kernel, kernel.new(key="first"))

    answers, seen = kernel.spied(
        lambda tx: enqueue.enqueue_keyed(tx, new, ids=kernel.ids, lanes=kernel.lanes)  # type: ignore[arg-type]
    )

    assert [name for name, _ in seen] == ["insert_keys"]
    assert [kernel.row(each.id).key for each in answers] == [job.key for job in new]
    assert not any(each.existed for each in answers)


def test_a_keyed_job_whose_key_is_taken_is_answered_with_the_one_that_has_it(
    kernel: Kernel,
) -> None:
    [first] = keyed(kernel, kernel.new(key="b"))

    answers = keyed(kernel, kernel.new(key="c"), kernel.new(key="b"), kernel.new(key="a"))

    assert [each.existed for each in answers] == [False, True, False]
    assert answers[1].id == first.id
    assert len(kernel.rows()) == 3
