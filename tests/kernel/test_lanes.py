"""Lanes: pauses and limits move or count a lane, never the jobs behind it."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from duework.clock import FOREVER
from duework.db.database import Tx
from duework.kernel import lanes
from duework.kernel.claim import claim
from duework.kernel.job import ALONE, Claimed
from tests.support.kernel import LEASE, ME, OTHER, Kernel


def pause(kernel: Kernel, queue: str) -> None:
    kernel.run(lambda tx: lanes.pause(tx, queue))


def resume(kernel: Kernel, queue: str) -> None:
    kernel.run(lambda tx: lanes.resume(tx, queue))


def test_jobs_that_are_interchangeable_share_a_lane(kernel: Kernel) -> None:
    same = kernel.enqueue(kernel.new(), kernel.new(at=kernel.now + 5, key="k"))
    others = kernel.enqueue(kernel.new("part"), kernel.new(queue="q"), kernel.new(priority=3))

    assert len({kernel.row(each.id).lane for each in same}) == 1
    assert len({kernel.row(each.id).lane for each in [*same, *others]}) == 4


def test_nothing_of_a_paused_queue_is_claimed_and_its_jobs_are_not_touched(
    kernel: Kernel,
) -> None:
    [job] = kernel.enqueue(kernel.new(queue="mail"))
    [other] = kernel.enqueue(kernel.new(queue="other"))

    pause(kernel, "mail")

    assert [each.id for each in kernel.claim("greet")] == [other.id]
    assert kernel.row(job.id).due == kernel.now
    resume(kernel, "mail")
    assert [each.id for each in kernel.claim("greet")] == [job.id]


def test_a_lane_of_a_paused_queue_is_born_paused(kernel: Kernel) -> None:
    pause(kernel, "mail")

    kernel.enqueue(kernel.new(queue="mail"), kernel.new(queue="mail", priority=9))

    assert kernel.claim("greet") == []
    resume(kernel, "mail")
    assert len(kernel.claim("greet")) == 2


def test_pausing_everything_pauses_queues_that_come_later_too(kernel: Kernel) -> None:
    kernel.enqueue(kernel.new(queue="a"))
    pause(kernel, "*")
    kernel.enqueue(kernel.new(queue="b"))

    assert kernel.claim("greet") == []
    resume(kernel, "*")
    assert len(kernel.claim("greet")) == 2


def test_a_queue_paused_by_itself_stays_so_when_everything_is_resumed(kernel: Kernel) -> None:
    kernel.enqueue(kernel.new(queue="a"), kernel.new(queue="b"))
    pause(kernel, "a")
    pause(kernel, "*")

    resume(kernel, "*")

    assert [each.queue for each in kernel.claim("greet")] == ["b"]
    with kernel.reading() as tx:
        assert lanes.paused(tx) == ["a"]


def test_a_queue_resumed_while_everything_is_paused_stays_paused(kernel: Kernel) -> None:
    kernel.enqueue(kernel.new(queue="a"))
    pause(kernel, "a")
    pause(kernel, "*")

    resume(kernel, "a")

    assert kernel.claim("greet") == []


def test_what_runs_goes_on_when_its_queue_is_paused(kernel: Kernel) -> None:
    [job] = kernel.enqueue(kernel.new())
    [held] = kernel.claim("greet")

    pause(kernel, "default")

    assert kernel.extend(held) == []
    kernel.settle(kernel.done(held))
    assert kernel.row(job.id).state == "done"


def test_a_paused_lane_is_no_time_to_wake_up_for(kernel: Kernel) -> None:
    kernel.enqueue(kernel.new(at=kernel.now + 5))

    pause(kernel, "default")

    assert kernel.claim_as(kernel.want("greet")).next_due == FOREVER


def test_the_concurrency_of_a_task_is_counted_over_all_workers(kernel: Kernel) -> None:
    kernel.enqueue(*[kernel.new() for _ in range(3)], *[kernel.new(priority=5) for _ in range(3)])
    limits = {"task_limits": {"greet": 3}}

    mine = kernel.claim("greet", free=2, **limits)
    theirs = kernel.claim("greet", worker=OTHER, **limits)
    more = kernel.claim("greet", **limits)

    assert (len(mine), len(theirs), more) == (2, 1, [])
    kernel.settle(kernel.done(mine[0]))
    assert len(kernel.claim("greet", worker=OTHER, **limits)) == 1


def test_the_concurrency_of_a_queue_is_counted_over_its_tasks_and_workers(kernel: Kernel) -> None:
    kernel.enqueue(*[kernel.new(task, queue="crawl") for task in "abc" for _ in range(2)])
    kernel.enqueue(kernel.new("a", queue="other"))
    limits = {"queue_limits": {"crawl": 4}}

    mine = kernel.claim("a", "b", free=3, queue_limits={"crawl": 2})
    theirs = kernel.claim("a", "b", "c", worker=OTHER, **limits)

    taken = [each.queue for each in [*mine, *theirs]]
    assert taken.count("crawl") == 4
    assert taken.count("other") == 1


@pytest.mark.parametrize("limit", [{"task_limits": {"greet": 1}}, {"queue_limits": {"mail": 1}}])
def test_two_claims_at_once_do_not_exceed_a_limit_together(
    kernel: Kernel, limit: dict[str, Any]
) -> None:
    """Each would count what is leased before it sees the other's leases; they are of two lanes."""
    kernel.enqueue(*[kernel.new(queue="mail", priority=number) for number in (1, 2)])
    theirs: list[Claimed] = []
    with Kernel(kernel.database.url) as other:
        there = threading.Thread(
            target=lambda: theirs.extend(other.claim("greet", worker=OTHER, **limit))
        )

        def mine(tx: Tx) -> list[Claimed]:
            want = kernel.want("greet", **limit)
            taken = claim(tx, want, kernel.settle_context())
            there.start()
            there.join(0.3)
            return taken.jobs

        taken = kernel.run(mine)
        there.join(10)

    assert (len(taken), theirs) == (1, [])


def test_a_full_task_does_not_keep_others_from_running(kernel: Kernel) -> None:
    kernel.enqueue(*[kernel.new("full") for _ in range(5)], kernel.new("greet"))

    taken = kernel.claim("full", "greet", free=10, task_limits={"full": 1})

    assert sorted(each.task for each in taken) == ["full", "greet"]


def test_a_lease_that_was_written_off_frees_its_place(kernel: Kernel) -> None:
    kernel.enqueue(kernel.new(), kernel.new())
    kernel.claim("greet", worker=OTHER, task_limits={"greet": 1})

    kernel.now += LEASE
    kernel.recover(crashed=False)

    assert len(kernel.claim("greet", worker=ME, task_limits={"greet": 1})) == 1


def test_suspects_run_one_at_a_time(kernel: Kernel) -> None:
    kernel.enqueue(*[kernel.new() for _ in range(3)])
    for _ in range(3):
        kernel.claim("greet", worker=OTHER)
        kernel.recover(dead=[OTHER])
    kernel.enqueue(kernel.new())

    taken = kernel.claim("greet")

    assert sorted(each.alone for each in taken) == [0, ALONE]
    assert kernel.claim("greet", alone=0) == []


def test_suspects_that_have_processes_of_their_own_run_beside_each_other(kernel: Kernel) -> None:
    kernel.enqueue(*[kernel.new() for _ in range(5)])
    for _ in range(2):
        kernel.claim("greet", worker=OTHER)
        kernel.recover(dead=[OTHER])
    want = replace(kernel.want("greet", alone=0), pools={"greet": "process"})
    slots = {"async": 100, "process": 2}

    taken = kernel.claim_as(replace(want, free=slots))
    more = kernel.claim_as(replace(want, free={"async": 100}))

    assert len(taken.jobs) == 2
    assert more.jobs == []
    assert more.hungry == {"process"}
