"""Enqueueing: what is written, and what is answered when there is such a job already."""

from __future__ import annotations

import threading
from dataclasses import asdict, replace
from typing import Any

import pytest

from duework.clock import FOREVER
from duework.codec import checksum
from duework.db.database import Tx
from duework.errors import Conflict, NotFound
from duework.kernel import enqueue, lanes
from duework.kernel.claim import ClaimRequest
from duework.kernel.job import Claimed, Ending, NewJob
from duework.kernel.lanes import JOBS
from duework.kernel.machine import processes
from duework.worker.handoff.claims import claimed_for, enqueue_claimed
from tests.support.kernel import ME, OTHER, START, Kernel

DAY = 86_400_000


def test_a_new_job_is_open_and_due_at_the_time_asked_for(kernel: Kernel) -> None:
    [job] = kernel.enqueue(kernel.new(at=kernel.now + 5000))

    row = kernel.row(job.id)
    assert (row.state, row.due, row.at) == ("open", kernel.now + 5000, kernel.now + 5000)
    assert (row.fence, row.worker, row.failures) == (0, None, 0)


def test_answers_come_in_the_order_of_the_jobs(kernel: Kernel) -> None:
    answers = kernel.enqueue(
        kernel.new(payload='{"n":1}', key="b"),
        kernel.new(payload='{"n":2}'),
        kernel.new(payload='{"n":3}', key="a"),
    )

    assert [kernel.row(each.id).payload for each in answers] == [
        '{"n":1}',
        '{"n":2}',
        '{"n":3}',
    ]


def test_a_second_job_with_an_open_key_is_answered_with_the_first(kernel: Kernel) -> None:
    [first] = kernel.enqueue(kernel.new(key="k", payload='{"n":1}'))

    [second] = kernel.enqueue(kernel.new(key="k", payload='{"n":2}'))

    assert (second.id, second.existed, first.existed) == (first.id, True, False)
    assert [row.payload for row in kernel.rows()] == ['{"n":1}']


def test_the_same_key_twice_in_one_call_makes_one_job(kernel: Kernel) -> None:
    first, second = kernel.enqueue(kernel.new(key="k"), kernel.new(key="k"))

    assert first.id == second.id
    assert (first.existed, second.existed) == (False, True)


def test_a_key_belongs_to_its_task(kernel: Kernel) -> None:
    kernel.enqueue(kernel.new("greet", key="k"))

    [other] = kernel.enqueue(kernel.new("part", key="k"))

    assert not other.existed


def test_a_key_is_free_again_once_its_job_has_settled(kernel: Kernel) -> None:
    [first] = kernel.enqueue(kernel.new(key="k"))
    kernel.settle(kernel.done(*kernel.claim("greet")))

    [second] = kernel.enqueue(kernel.new(key="k"))

    assert not second.existed
    assert second.id != first.id


def test_once_returns_the_first_job_also_after_it_has_settled(kernel: Kernel) -> None:
    until = kernel.now + 2 * DAY
    [first] = kernel.enqueue(kernel.new(key="k", once_until=until))
    kernel.settle(kernel.done(*kernel.claim("greet")))

    kernel.now = until - 1
    [second] = kernel.enqueue(kernel.new(key="k", once_until=kernel.now + 2 * DAY))

    assert (second.id, second.existed) == (first.id, True)


def test_once_ends_when_its_time_is_over(kernel: Kernel) -> None:
    [first] = kernel.enqueue(kernel.new(key="k", once_until=kernel.now + 2 * DAY))
    kernel.settle(kernel.done(*kernel.claim("greet")))

    kernel.now += 2 * DAY
    [second] = kernel.enqueue(kernel.new(key="k", once_until=kernel.now + 2 * DAY))

    assert not second.existed
    assert second.id != first.id


def test_once_forever_outlives_the_row_itself(kernel: Kernel) -> None:
    [first] = kernel.enqueue(kernel.new(key="k", once_until=FOREVER))
    kernel.settle(kernel.done(*kernel.claim("greet")))
    kernel.now += 8 * DAY
    assert kernel.prune() == 1

    [second] = kernel.enqueue(kernel.new(key="k", once_until=FOREVER))

    assert (second.id, second.existed) == (first.id, True)
    assert kernel.rows() == []


def test_once_on_a_key_that_is_open_already_remembers_the_open_job(kernel: Kernel) -> None:
    [first] = kernel.enqueue(kernel.new(key="k"))
    [second] = kernel.enqueue(kernel.new(key="k", once_until=FOREVER))
    kernel.settle(kernel.done(*kernel.claim("greet")))

    [third] = kernel.enqueue(kernel.new(key="k", once_until=FOREVER))

    assert second.id == third.id == first.id
    assert third.existed


def test_replace_changes_a_waiting_job(kernel: Kernel) -> None:
    [first] = kernel.enqueue(kernel.new(key="k", at=kernel.now + 1000))

    later = kernel.now + 9000
    [second] = kernel.enqueue(
        kernel.new(key="k", at=later, replace=True, payload='{"n":2}', priority=5)
    )

    row = kernel.row(first.id)
    assert (second.id, second.existed) == (first.id, True)
    assert (row.payload, row.due, row.at) == ('{"n":2}', later, later)
    kernel.now = later
    [held] = kernel.claim("greet")
    assert (held.payload, held.priority) == ('{"n":2}', 5)


def test_replace_leaves_a_running_job_alone(kernel: Kernel) -> None:
    [first] = kernel.enqueue(kernel.new(key="k", payload='{"n":1}'))
    kernel.claim("greet")

    [second] = kernel.enqueue(kernel.new(key="k", replace=True, payload='{"n":2}'))

    assert second.existed
    assert kernel.row(first.id).payload == '{"n":1}'


def test_replace_does_not_release_a_job_that_waits_for_its_turn(kernel: Kernel) -> None:
    kernel.enqueue(kernel.new(serial="s"))
    [parked] = kernel.enqueue(kernel.new(serial="s", key="k"))

    kernel.enqueue(kernel.new(serial="s", key="k", replace=True, payload='{"n":2}'))

    row = kernel.row(parked.id)
    assert (row.due, row.payload) == (FOREVER, '{"n":2}')
    assert len(kernel.claim("greet")) == 1


def test_again_opens_the_job_once_more_with_the_new_arguments(kernel: Kernel) -> None:
    [job] = kernel.enqueue(kernel.new(key="k", payload='{"n":1}'))
    [held] = kernel.claim("greet")

    kernel.enqueue(kernel.new(key="k", again=True, payload='{"n":2}'))
    kernel.settle(kernel.done(held))

    row = kernel.row(job.id)
    assert (row.state, row.due, row.payload) == ("open", kernel.now, '{"n":2}')
    [second] = kernel.claim("greet")
    assert (second.payload, second.fence) == ('{"n":2}', 2)
    kernel.settle(kernel.done(second))
    assert kernel.row(job.id).state == "done"


def test_again_on_a_waiting_job_asks_for_nothing(kernel: Kernel) -> None:
    [job] = kernel.enqueue(kernel.new(key="k", payload='{"n":1}'))

    kernel.enqueue(kernel.new(key="k", again=True, payload='{"n":2}'))
    kernel.settle(kernel.done(*kernel.claim("greet")))

    assert kernel.row(job.id).state == "done"


def test_jobs_of_one_serial_value_run_one_at_a_time_in_order(kernel: Kernel) -> None:
    jobs = kernel.enqueue(*[kernel.new(serial="s", payload=f'{{"n":{n}}}') for n in range(3)])

    order = []
    while held := kernel.claim("greet"):
        assert len(held) == 1
        order.append(held[0].id)
        kernel.settle(kernel.done(held[0]))

    assert order == [job.id for job in jobs]


def test_the_serial_order_is_that_of_the_list_whatever_the_keys(kernel: Kernel) -> None:
    jobs = kernel.enqueue(
        kernel.new(serial="s", key="c"), kernel.new(serial="s"), kernel.new(serial="s", key="a")
    )

    order = []
    while held := kernel.claim("greet"):
        order.append(held[0].id)
        kernel.settle(kernel.done(held[0]))

    assert order == [job.id for job in jobs]


def test_serial_values_do_not_wait_for_each_other(kernel: Kernel) -> None:
    kernel.enqueue(kernel.new(serial="a"), kernel.new(serial="b"), kernel.new(serial="a"))

    assert len(kernel.claim("greet")) == 2


def test_a_serial_job_that_is_tried_again_keeps_the_others_waiting(kernel: Kernel) -> None:
    first, second = kernel.enqueue(kernel.new(serial="s"), kernel.new(serial="s"))
    [held] = kernel.claim("greet")

    kernel.settle(kernel.ending(held, "retry", due=kernel.now + 1000, error="no"))

    assert kernel.claim("greet") == []
    kernel.now += 1000
    [again] = kernel.claim("greet")
    assert again.id == first.id
    kernel.settle(kernel.ending(again, "failed", error="no", keep=None))
    assert [each.id for each in kernel.claim("greet")] == [second.id]


def test_a_cancelled_serial_job_lets_the_next_one_go(kernel: Kernel) -> None:
    first, second = kernel.enqueue(kernel.new(serial="s"), kernel.new(serial="s"))

    kernel.cancel(first.id)

    assert [each.id for each in kernel.claim("greet")] == [second.id]


def test_cancelling_one_in_the_middle_of_a_serial_line_wakes_nobody(kernel: Kernel) -> None:
    first, second, third = kernel.enqueue(*[kernel.new(serial="s") for _ in range(3)])
    [held] = kernel.claim("greet")

    kernel.cancel(second.id)

    assert kernel.claim("greet") == []
    kernel.settle(kernel.done(held))
    assert [each.id for each in kernel.claim("greet")] == [third.id]
    assert first.id == held.id


def test_a_serial_job_with_a_delay_keeps_its_place(kernel: Kernel) -> None:
    first, _ = kernel.enqueue(kernel.new(serial="s", at=kernel.now + 1000), kernel.new(serial="s"))

    assert kernel.claim("greet") == []
    kernel.now += 1000
    assert [each.id for each in kernel.claim("greet")] == [first.id]


def test_a_job_waits_until_the_one_before_it_is_done(kernel: Kernel) -> None:
    [first] = kernel.enqueue(kernel.new())
    [second] = kernel.enqueue(kernel.new(after=first.id))

    assert kernel.row(second.id).due == FOREVER
    [held] = kernel.claim("greet")
    kernel.settle(kernel.done(held))

    assert [each.id for each in kernel.claim("greet")] == [second.id]


def test_a_job_after_one_that_is_done_already_is_due_at_once(kernel: Kernel) -> None:
    [first] = kernel.enqueue(kernel.new())
    kernel.settle(kernel.done(*kernel.claim("greet")))

    [second] = kernel.enqueue(kernel.new(after=first.id))

    assert [each.id for each in kernel.claim("greet")] == [second.id]


def test_a_job_after_a_failed_one_waits_until_that_is_revived_and_done(kernel: Kernel) -> None:
    [first] = kernel.enqueue(kernel.new())
    [second] = kernel.enqueue(kernel.new(after=first.id))
    [held] = kernel.claim("greet")

    kernel.settle(kernel.ending(held, "failed", error="no", keep=None))

    assert kernel.claim("greet") == []
    kernel.revive(first.id)
    [again] = kernel.claim("greet")
    assert again.id == first.id
    assert kernel.row(second.id).state == "open"
    kernel.settle(kernel.done(again))
    assert [each.id for each in kernel.claim("greet")] == [second.id]


def test_a_failed_job_that_would_not_be_kept_stays_while_another_waits_for_it(
    kernel: Kernel,
) -> None:
    [first] = kernel.enqueue(kernel.new())
    [second] = kernel.enqueue(kernel.new(after=first.id))
    [held] = kernel.claim("greet")

    kernel.settle(kernel.ending(held, "failed", error="no", keep=0))

    assert [kernel.row(each.id).state for each in (first, second)] == ["failed", "open"]


def test_a_job_after_a_cancelled_one_is_cancelled_and_so_is_what_waits_for_it(
    kernel: Kernel,
) -> None:
    [first] = kernel.enqueue(kernel.new())
    [second] = kernel.enqueue(kernel.new(after=first.id))
    [third] = kernel.enqueue(kernel.new(after=second.id))

    kernel.cancel(first.id)

    assert [kernel.row(each.id).state for each in (second, third)] == ["cancelled", "cancelled"]
    assert f"job {first.id}" in str(kernel.row(second.id).error)


def test_a_job_after_an_unknown_one_is_not_found_and_nothing_is_written(kernel: Kernel) -> None:
    with pytest.raises(NotFound, match="4711"):
        kernel.enqueue(kernel.new(), kernel.new(after=4711))

    assert kernel.rows() == []


def test_a_job_after_a_cancelled_one_cannot_be_enqueued(kernel: Kernel) -> None:
    [first] = kernel.enqueue(kernel.new())
    kernel.cancel(first.id)

    with pytest.raises(Conflict):
        kernel.enqueue(kernel.new(after=first.id))


def test_a_serial_job_that_waits_for_another_one_holds_its_place(kernel: Kernel) -> None:
    [before] = kernel.enqueue(kernel.new("part"))
    [first] = kernel.enqueue(kernel.new(serial="s", after=before.id))
    [second] = kernel.enqueue(kernel.new(serial="s"))

    assert kernel.claim("greet") == []
    kernel.settle(kernel.done(*kernel.claim("part")))
    [held] = kernel.claim("greet")

    assert held.id == first.id
    kernel.settle(kernel.done(held))
    assert [each.id for each in kernel.claim("greet")] == [second.id]


def test_what_another_job_waits_for_is_released_at_its_own_time(kernel: Kernel) -> None:
    [first] = kernel.enqueue(kernel.new())
    [second] = kernel.enqueue(kernel.new(after=first.id, at=kernel.now + 60_000))

    kernel.settle(kernel.done(*kernel.claim("greet")))

    assert kernel.row(second.id).due == kernel.now + 60_000


def test_two_workers_do_not_share_a_serial_value(kernel: Kernel) -> None:
    kernel.enqueue(kernel.new(serial="s"), kernel.new(serial="s"))
    kernel.claim("greet")

    assert kernel.claim("greet", worker=OTHER) == []


def test_of_callers_that_commit_together_the_one_that_fails_leaves_nothing(
    kernel: Kernel,
) -> None:
    writer, errors = kernel.writer, []

    def fail() -> None:
        try:
            kernel.enqueue(kernel.new("bad"), kernel.new("bad", after=4711))
        except NotFound as error:
            errors.append(error)

    calls = [lambda: kernel.enqueue(kernel.new("good")), fail]
    threads = [threading.Thread(target=call) for call in calls * 2]
    with writer._busy:  # noqa: SLF001 - so that they meet in one group
        for place, thread in enumerate(threads, 1):
            thread.start()
            while len(writer._waiting) < place:  # noqa: SLF001
                thread.join(0.001)
    for thread in threads:
        thread.join()

    assert len(errors) == 2
    assert [row.task for row in kernel.rows()] == ["good", "good"]


# --- many at once


def test_jobs_that_are_alike_keep_their_order_their_payloads_and_their_times(
    kernel: Kernel,
) -> None:
    new = [
        kernel.new(payload=f'{{"n":{n},"t":"\\u0000é\U0001f600"}}', at=kernel.now + n // 30)
        for n in range(65)
    ]
    new[11] = kernel.new(key="taken")
    new[12] = kernel.new(key="taken")
    new[50] = kernel.new("other", payload='{"n":50}')

    answers = kernel.enqueue(*new)

    ids = [answer.id for answer in answers]
    assert ids[12] == ids[11]
    assert answers[12].existed
    assert ids[:12] + ids[13:] == sorted(set(ids))
    for job, answer in zip(new, answers, strict=True):
        row = kernel.row(answer.id)
        assert (row.task, row.payload, row.due, row.at) == (
            *(job.lane.task, job.payload),
            *(job.at, job.at),
        )
        assert row.checksum == checksum(answer.id, job.lane.task, job.payload)


def test_many_large_payloads_are_written_by_several_statements(kernel: Kernel) -> None:
    payload = '{"text":"' + "x" * 900_000 + '"}'
    new = [kernel.new(payload=payload) for _ in range(12)]

    def verb(tx: Tx) -> Any:
        return enqueue.enqueue(tx, new, ids=kernel.ids, lanes=kernel.lanes, now=kernel.now)  # type: ignore[arg-type]

    answers, seen = kernel.spied(verb)

    texts = [values["rows"] for name, values in seen if name == "insert_alike"]
    assert len(texts) > 1
    assert all(len(text) < 2 * enqueue.PART_BYTES for text in texts)
    assert all(kernel.row(answer.id).payload == payload for answer in answers)


# --- jobs that a worker holds from the start


def claimed(kernel: Kernel, job: NewJob, *, known: bool = True) -> Claimed | None:
    def verb(tx: Tx) -> Claimed | None:
        if known:
            me = processes.this_process(ME, kernel.now)
            tx.query(JOBS.worker_is, {**asdict(me), "limits": None})
        ids: Any = kernel.ids
        more = {"lease_ms": 15_000, "ids": ids, "lanes": kernel.lanes, "now": kernel.now}
        return enqueue_claimed(tx, job, ME, **more)

    found: Claimed | None = kernel.run(verb)
    return found


def test_a_job_can_be_held_from_the_start(kernel: Kernel) -> None:
    job = claimed(kernel, kernel.new(payload='{"n":1}'))

    assert job is not None
    row = kernel.row(job.id)
    assert (row.state, row.worker, row.fence) == ("open", ME, 1)
    assert (row.due, row.at) == (kernel.now + 15_000, kernel.now)
    assert (job.fence, job.payload, job.checksum) == (1, '{"n":1}', row.checksum)
    assert kernel.claim("greet") == []


def test_it_starts_while_somebody_can_still_extend_its_lease(kernel: Kernel) -> None:
    """Its worker extends what it knows of three times per lease, and knows of this later."""
    job = claimed(kernel, kernel.new())

    assert job is not None
    assert job.start_by + 15_000 / 3 < kernel.row(job.id).due


def test_it_is_settled_like_any_other(kernel: Kernel) -> None:
    job = claimed(kernel, kernel.new())
    assert job is not None

    kernel.settle(Ending(job.id, job.fence, ME, "done"))

    assert kernel.row(job.id).state == "done"


@pytest.mark.parametrize(
    "why",
    [
        {"at": START + 1},
        {"key": "k"},
        {"serial": "s"},
        {"expires": START},
    ],
)
def test_one_that_may_not_start_yet_or_perhaps_never_is_not(
    kernel: Kernel, why: dict[str, Any]
) -> None:
    assert claimed(kernel, kernel.new(**why)) is None
    assert kernel.rows() == []


def test_one_is_not_held_before_others_that_are_due(kernel: Kernel) -> None:
    kernel.enqueue(kernel.new("other", priority=1))
    [later] = kernel.enqueue(kernel.new("other", at=kernel.now + 1))

    assert claimed(kernel, kernel.new(priority=1)) is None
    assert claimed(kernel, kernel.new()) is None
    job = claimed(kernel, kernel.new(priority=2))

    assert job is not None
    assert {row.id for row in kernel.rows()} > {job.id, later.id}


def test_one_of_a_worker_that_nobody_knows_is_not(kernel: Kernel) -> None:
    assert claimed(kernel, kernel.new(), known=False) is None
    assert kernel.rows() == []


def test_one_of_a_paused_queue_is_not(kernel: Kernel) -> None:
    kernel.enqueue(kernel.new(at=kernel.now + 1000))
    kernel.run(lambda tx: lanes.pause(tx, "default"))

    assert claimed(kernel, kernel.new()) is None


def test_only_what_was_made_for_a_worker_is_found_for_it(kernel: Kernel) -> None:
    mine = claimed(kernel, kernel.new(payload='{"n":1}'))
    [free] = kernel.enqueue(kernel.new(payload='{"n":2}'))
    [taken] = kernel.claim("greet")
    assert mine is not None
    assert taken.id == free.id
    want = ClaimRequest(ME, 15_000, {"greet": "async"}, {"async": 1})

    def find(tx: Tx, worker: int = ME) -> list[Claimed]:
        return claimed_for(tx, replace(want, worker=worker), [mine.id, 99], kernel.lanes)

    [found] = kernel.run(find)

    assert found == mine
    assert kernel.run(lambda tx: find(tx, OTHER)) == []
    kernel.settle(Ending(mine.id, mine.fence, ME, "released"))
    kernel.claim("greet")
    assert kernel.run(find) == []
