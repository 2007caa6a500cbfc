"""Cancelling: what waits ends at once, what runs is marked, what has ended stays."""

from __future__ import annotations

import sys

import pytest

from duework.db.database import Tx
from duework.errors import NotFound
from duework.kernel import enqueue, operate
from duework.kernel import recover as recovery
from duework.kernel.job import KEEP
from tests.support.kernel import LEASE, ME, OTHER, Kernel


def test_a_waiting_job_is_cancelled_at_once(kernel: Kernel) -> None:
    [job] = kernel.enqueue(kernel.new())

    assert kernel.cancel(job.id, why="no longer wanted") == ["cancelled"]

    row = kernel.row(job.id)
    assert (row.state, row.error, row.settled) == ("cancelled", "no longer wanted", kernel.now)
    assert kernel.claim("greet") == []


def test_a_running_job_is_marked_for_its_worker(kernel: Kernel) -> None:
    [job] = kernel.enqueue(kernel.new())
    [held] = kernel.claim("greet")

    assert kernel.cancel(job.id, why="stop it") == ["cancelling"]

    with kernel.reading() as tx:
        assert recovery.to_cancel(tx, ME) == [(job.id, held.fence, "stop it")]
        assert recovery.to_cancel(tx, OTHER) == []
    assert kernel.row(job.id).state == "open"


def test_a_marked_job_that_ends_in_another_way_is_cancelled(kernel: Kernel) -> None:
    [job] = kernel.enqueue(kernel.new())
    [held] = kernel.claim("greet")
    kernel.cancel(job.id, why="stop it")

    kernel.settle(kernel.ending(held, "retry", due=kernel.now + 5, error="interrupted"))

    row = kernel.row(job.id)
    assert (row.state, row.error) == ("cancelled", "stop it")


def test_a_marked_job_that_still_returns_is_done(kernel: Kernel) -> None:
    [job] = kernel.enqueue(kernel.new())
    [held] = kernel.claim("greet")
    kernel.cancel(job.id)

    kernel.settle(kernel.done(held, result="7"))

    row = kernel.row(job.id)
    assert (row.state, row.result, row.cancel_reason) == ("done", "7", None)


def test_a_marked_job_whose_worker_died_is_cancelled_and_not_run(kernel: Kernel) -> None:
    [job] = kernel.enqueue(kernel.new())
    kernel.claim("greet")
    kernel.cancel(job.id, why="stop it")

    kernel.now += LEASE
    kernel.recover()

    row = kernel.row(job.id)
    assert (row.state, row.due) == ("cancelled", kernel.now + KEEP)
    assert kernel.claim("greet") == []
    assert [event.kind for event in kernel.reacted] == ["cancelled"]


def test_what_has_ended_stays_as_it_is(kernel: Kernel) -> None:
    [job] = kernel.enqueue(kernel.new())
    kernel.settle(kernel.done(*kernel.claim("greet")))

    assert kernel.cancel(job.id) == ["done"]
    assert kernel.row(job.id).state == "done"


def test_cancelling_an_unknown_job_is_not_found_and_cancels_nothing(kernel: Kernel) -> None:
    [job] = kernel.enqueue(kernel.new())

    with pytest.raises(NotFound, match="4711"):
        kernel.cancel(job.id, 4711)

    assert kernel.row(job.id).state == "open"


def test_reactions_run_for_a_cancelled_job(kernel: Kernel) -> None:
    [job] = kernel.enqueue(kernel.new())

    kernel.cancel(job.id)

    assert [(event.job, event.kind) for event in kernel.reacted] == [(job.id, "cancelled")]


def test_a_reaction_that_fails_does_not_keep_a_job_from_being_cancelled(kernel: Kernel) -> None:
    [job] = kernel.enqueue(kernel.new())
    kernel.on_react = _raise

    assert kernel.cancel(job.id, why="not wanted") == ["cancelled"]

    row = kernel.row(job.id)
    assert row.state == "cancelled"
    assert str(row.error).startswith("not wanted (and a reaction to that failed: ")


def test_a_reaction_that_fails_in_what_waited_does_not_stop_the_settle(kernel: Kernel) -> None:
    [first] = kernel.enqueue(kernel.new("first"))
    [second] = kernel.enqueue(kernel.new("second", after=first.id))
    kernel.on_react = _raise
    [held] = kernel.claim("first")

    kernel.settle(kernel.ending(held, "cancelled", error="no"))

    assert (kernel.row(first.id).state, kernel.row(second.id).state) == ("cancelled", "cancelled")


def _raise(*_: object) -> None:
    raise ValueError("the reaction failed")


def test_the_key_of_a_cancelled_job_is_free(kernel: Kernel) -> None:
    [job] = kernel.enqueue(kernel.new(key="k"))
    kernel.cancel(job.id)

    [second] = kernel.enqueue(kernel.new(key="k"))

    assert not second.existed


def test_purging_a_queue_cancels_all_of_it_that_nobody_runs(kernel: Kernel) -> None:
    [running] = kernel.enqueue(kernel.new(queue="mail"))
    kernel.claim("greet")
    waiting = kernel.enqueue(kernel.new(queue="mail"), kernel.new(queue="mail", priority=3))
    [other] = kernel.enqueue(kernel.new(queue="other"))

    def purge(tx: Tx) -> int:
        return operate.purge_queue(tx, "mail", kernel.settle_context())

    assert kernel.run(purge) == 2
    assert kernel.run(purge) == 0
    assert {kernel.row(each.id).state for each in waiting} == {"cancelled"}
    assert (kernel.row(running.id).state, kernel.row(other.id).state) == ("open", "open")


def test_purging_a_failed_job_cancels_what_waits_for_it(kernel: Kernel) -> None:
    [first] = kernel.enqueue(kernel.new())
    [second] = kernel.enqueue(kernel.new(after=first.id))
    [held] = kernel.claim("greet")
    kernel.settle(kernel.ending(held, "failed", error="no", keep=None))

    def purge(tx: Tx) -> int:
        return operate.purge(tx, [first.id, second.id], kernel.settle_context())

    assert kernel.run(purge) == 1
    assert [row.id for row in kernel.rows()] == [second.id]
    assert kernel.row(second.id).state == "cancelled"
    assert kernel.read("select * from duework_attempt") == []


def test_purging_a_done_job_leaves_what_came_after_it_alone(kernel: Kernel) -> None:
    [first] = kernel.enqueue(kernel.new())
    [second] = kernel.enqueue(kernel.new(after=first.id))
    [held] = kernel.claim("greet")
    kernel.settle(kernel.done(held))

    def purge(tx: Tx) -> int:
        return operate.purge(tx, [first.id], kernel.settle_context())

    assert kernel.run(purge) == 1
    assert [each.id for each in kernel.claim("greet")] == [second.id]


# A frame or more for each link would be too many.
LINKS = sys.getrecursionlimit() + 100


def chain(kernel: Kernel, links: int) -> list[int]:
    """Jobs of which each waits for the one before it."""

    def verb(tx: Tx) -> list[int]:
        made: list[int] = []
        for _ in range(links):
            new = kernel.new(after=made[-1] if made else None)
            answers = enqueue.enqueue(tx, [new], ids=kernel.ids, lanes=kernel.lanes, now=kernel.now)  # type: ignore[arg-type]
            made.append(answers[0].id)
        return made

    made: list[int] = kernel.run(verb)
    return made


def test_a_chain_longer_than_a_stack_is_deep_is_cancelled_from_its_head(kernel: Kernel) -> None:
    made = chain(kernel, LINKS)

    assert kernel.cancel(made[0]) == ["cancelled"]

    assert [row.state for row in kernel.rows()] == ["cancelled"] * LINKS
    assert [event.job for event in kernel.reacted] == made


def test_a_reaction_that_fails_along_a_chain_takes_back_its_own_row_and_no_other(
    kernel: Kernel,
) -> None:
    made = chain(kernel, 30)
    kernel.on_react = lambda _, row, __: _raise() if row.id == made[9] else None

    kernel.cancel(made[0])

    rows = kernel.rows()
    assert {row.state for row in rows} == {"cancelled"}
    assert [row.id for row in rows if "a reaction to that failed" in str(row.error)] == [made[9]]
    assert [event.job for event in kernel.reacted] == made
