"""Claiming: what is taken, in which order, and what is left alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from duework.clock import FOREVER
from duework.db.database import NewRow, Tx
from duework.kernel import claim as claims
from duework.kernel import enqueue, lanes, operate
from duework.kernel.claim import ClaimRequest
from duework.kernel.job import Claimed, LaneName, NewJob
from duework.kernel.lanes import JOBS
from duework.kernel.paces.admission import PaceRules
from duework.worker.handoff.claims import claim_made
from tests.support.kernel import LEASE, ME, OTHER, START, Kernel


def test_a_claim_moves_due_to_the_end_of_the_lease_and_raises_the_fence(kernel: Kernel) -> None:
    [job] = kernel.enqueue(kernel.new())

    [held] = kernel.claim("greet")

    row = kernel.row(job.id)
    assert (row.due, row.worker, row.fence) == (kernel.now + LEASE, ME, 1)
    assert (held.id, held.fence) == (job.id, 1)


def test_the_time_asked_for_is_never_moved(kernel: Kernel) -> None:
    at = kernel.now
    [job] = kernel.enqueue(kernel.new())

    kernel.now += 777
    [held] = kernel.claim("greet")
    kernel.settle(kernel.ending(held, "retry", due=kernel.now + 5, error="no"))

    assert (held.at, kernel.row(job.id).at) == (at, at)


def test_a_job_is_not_claimed_twice(kernel: Kernel) -> None:
    kernel.enqueue(kernel.new())

    assert len(kernel.claim("greet")) == 1
    assert kernel.claim("greet", worker=OTHER) == []


def test_a_job_is_claimed_at_its_due_time_and_not_a_millisecond_before(kernel: Kernel) -> None:
    kernel.enqueue(kernel.new(at=kernel.now + 1000))

    kernel.now += 999
    assert kernel.claim("greet") == []
    kernel.now += 1
    assert len(kernel.claim("greet")) == 1


def test_a_job_that_is_due_does_not_take_along_the_next_of_its_lane(kernel: Kernel) -> None:
    due, _ = kernel.enqueue(kernel.new(), kernel.new(at=kernel.now + 1))

    assert [job.id for job in kernel.claim("greet")] == [due.id]


def test_a_claim_takes_no_more_than_there_are_free_slots(kernel: Kernel) -> None:
    kernel.enqueue(*[kernel.new() for _ in range(5)])

    assert len(kernel.claim("greet", free=2)) == 2
    assert kernel.claim("greet", free=0) == []


def test_free_slots_are_counted_for_each_pool(kernel: Kernel) -> None:
    kernel.enqueue(*[kernel.new(task) for task in ("quick", "slow", "cut") for _ in range(5)])
    pools = {"quick": "async", "slow": "thread", "cut": "thread"}

    taken = kernel.claim_as(ClaimRequest(ME, LEASE, pools, {"async": 4, "thread": 2})).jobs

    tasks = [job.task for job in taken]
    assert tasks.count("quick") == 4
    assert tasks.count("slow") + tasks.count("cut") == 2


def test_first_in_first_out_within_a_lane(kernel: Kernel) -> None:
    jobs = [kernel.enqueue(kernel.new(at=kernel.now - 10 + n))[0].id for n in (3, 1, 2)]

    taken = [job.id for job in kernel.claim("greet")]

    assert taken == [jobs[1], jobs[2], jobs[0]]


def test_of_the_same_due_time_the_first_that_was_enqueued_goes_first(kernel: Kernel) -> None:
    jobs = kernel.enqueue(*[kernel.new() for _ in range(30)])

    taken = [kernel.claim("greet", free=1)[0].id for _ in range(30)]

    assert taken == [job.id for job in jobs]


def test_higher_priorities_go_first(kernel: Kernel) -> None:
    kernel.enqueue(*[kernel.new(priority=priority) for priority in (0, 9, 5, 0, 9)])

    taken = [kernel.claim("greet", free=1)[0].priority for _ in range(5)]

    assert taken == [9, 9, 5, 0, 0]


def test_lanes_of_equal_priority_take_turns_by_their_oldest_job(kernel: Kernel) -> None:
    for n in range(20):
        kernel.enqueue(kernel.new("a", at=kernel.now - 100 + n))
    kernel.enqueue(*[kernel.new("b", at=kernel.now - 90) for _ in range(20)])

    first = {job.task for job in kernel.claim("a", "b", free=15)}
    second = {job.task for job in kernel.claim("a", "b", free=15)}

    assert first == {"a"}
    assert "b" in second


def test_a_long_backlog_of_one_task_does_not_starve_another(kernel: Kernel) -> None:
    kernel.enqueue(*[kernel.new("bulk") for _ in range(50)])
    kernel.now += 1
    kernel.enqueue(kernel.new("urgent"))
    kernel.now += 1
    kernel.enqueue(*[kernel.new("bulk") for _ in range(50)])

    seen: list[str] = []
    for _ in range(6):
        held = kernel.claim("bulk", "urgent", free=10)
        seen += [job.task for job in held]
        kernel.settle(*[kernel.done(job) for job in held])

    assert "urgent" in seen


def test_an_unknown_task_is_left_for_others_and_not_even_looked_at(kernel: Kernel) -> None:
    kernel.enqueue(*[kernel.new("elsewhere") for _ in range(20)], kernel.new("greet"))

    held, visited = _visited(kernel, "greet")

    assert [job.task for job in held] == ["greet"]
    assert visited == 1
    assert kernel.claim("elsewhere", worker=OTHER, free=1)


def test_a_lane_that_is_not_due_is_not_visited(kernel: Kernel) -> None:
    kernel.enqueue(kernel.new("later", at=kernel.now + 1))
    kernel.enqueue(kernel.new("greet"))

    _, visited = _visited(kernel, "greet", "later")

    assert visited == 1


def _visited(kernel: Kernel, *tasks: str) -> tuple[list[Claimed], int]:
    """What a claim takes, and from how many lanes it tried to."""

    def verb(tx: Tx) -> claims.Claim:
        want = kernel.want(*tasks)
        return claims.claim(tx, want, kernel.settle_context())

    found, seen = kernel.spied(verb)
    return found.jobs, [name for name, _ in seen].count("claim")


def test_the_next_due_time_is_that_of_the_first_job_to_come(kernel: Kernel) -> None:
    kernel.enqueue(kernel.new(at=kernel.now + 7000), kernel.new(at=kernel.now + 5000))
    kernel.enqueue(kernel.new("elsewhere", at=kernel.now + 1000))

    assert kernel.claim_as(kernel.want("greet")).next_due == kernel.now + 5000


def test_without_anything_to_come_the_next_due_time_is_never(kernel: Kernel) -> None:
    assert kernel.claim_as(kernel.want("greet")).next_due == FOREVER


def test_the_end_of_a_lease_is_a_time_to_look_again(kernel: Kernel) -> None:
    kernel.enqueue(kernel.new())
    kernel.claim("greet", worker=OTHER)

    assert kernel.claim_as(kernel.want("greet")).next_due == kernel.now + LEASE


def test_a_lease_that_is_over_and_left_alone_is_no_reason_to_look_at_once(kernel: Kernel) -> None:
    kernel.enqueue(kernel.new())
    kernel.claim("greet", worker=OTHER)
    kernel.now += LEASE

    assert kernel.claim_as(kernel.want("greet")).next_due == kernel.now + claims.SOON_MS


def test_a_lease_that_somebody_took_just_before_is_known_to_one_that_finds_nothing(
    kernel: Kernel,
) -> None:
    kernel.enqueue(kernel.new())
    kernel.claim("greet", worker=OTHER)

    def verb(tx: Tx) -> claims.Claim:
        # It had looked for leases before, when there was none.
        return claims.claim(
            *(tx, kernel.want("greet")),
            kernel.settle_context(),
            lease_end=FOREVER,
        )

    assert kernel.run(verb).next_due == kernel.now + LEASE


def test_a_claim_says_which_pools_could_take_more(kernel: Kernel) -> None:
    kernel.enqueue(*[kernel.new() for _ in range(3)])

    assert kernel.claim_as(kernel.want("greet", free=2)).hungry == {"async"}
    assert kernel.claim_as(kernel.want("greet", free=2)).hungry == frozenset()


def test_a_job_that_expired_before_its_claim_is_cancelled_and_told_of(kernel: Kernel) -> None:
    late, fresh = kernel.enqueue(
        kernel.new(expires=kernel.now + 1000), kernel.new(expires=kernel.now + 1001)
    )

    kernel.now += 1000
    held = kernel.claim("greet")

    assert [job.id for job in held] == [fresh.id]
    row = kernel.row(late.id)
    assert (row.state, row.worker) == ("cancelled", None)
    assert "expired" in str(row.error)
    assert [(event.job, event.kind) for event in kernel.reacted] == [(late.id, "cancelled")]


def test_a_job_that_has_failed_and_expires_before_its_retry_stays_failed_by_its_last_error(
    kernel: Kernel,
) -> None:
    [late] = kernel.enqueue(kernel.new(expires=kernel.now + 1000))
    for error in ("the first", "the last"):
        [held] = kernel.claim("greet")
        kernel.settle(kernel.ending(held, "retry", due=kernel.now + 600, error=error))
        kernel.now += 600

    assert kernel.claim("greet") == []

    row = kernel.row(late.id)
    assert (row.state, row.failures, row.worker) == ("failed", 2, None)
    assert row.error == "the last\nit expired before its next retry"
    assert [(event.job, event.kind) for event in kernel.reacted] == [(late.id, "failed")]
    attempts = kernel.read("select outcome, error from duework_attempt order by fence")
    assert [tuple(each) for each in attempts] == [("retry", "the first"), ("retry", "the last")]


def test_a_reaction_that_fails_does_not_keep_an_expired_job_from_ending(kernel: Kernel) -> None:
    [late] = kernel.enqueue(kernel.new(expires=kernel.now))
    kernel.on_react = _raise

    assert kernel.claim("greet") == []
    assert kernel.row(late.id).state == "cancelled"


def _raise(*_: object) -> None:
    raise ValueError("the reaction failed")


def test_every_claim_raises_the_fence(kernel: Kernel) -> None:
    [job] = kernel.enqueue(kernel.new())

    for fence in (1, 2, 3):
        [held] = kernel.claim("greet")
        assert held.fence == fence
        kernel.settle(kernel.ending(held, "snooze", due=kernel.now))

    assert kernel.row(job.id).failures == 0


@pytest.fixture
def many_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if somebody had held a snapshot for long."""
    monkeypatch.setattr(lanes, "DEAD_ROWS", -1)


@pytest.mark.usefixtures("many_dead")
def test_a_job_that_comes_before_what_was_looked_at_is_taken_within_a_second(
    kernel: Kernel,
) -> None:
    kernel.enqueue(*[kernel.new() for _ in range(300)])
    kernel.claim("greet", free=10)
    early = kernel.enqueue(kernel.new(at=kernel.now - 60_000))[0].id

    found = []
    for _ in range(12):
        found += [job.id for job in kernel.claim("greet", free=10)]
        kernel.now += 100

    assert early in found


@pytest.mark.usefixtures("many_dead")
def test_a_job_that_comes_before_what_was_looked_at_is_not_slept_through(kernel: Kernel) -> None:
    kernel.enqueue(kernel.new())
    kernel.claim("greet", free=1)
    kernel.enqueue(kernel.new(at=kernel.now - 60_000), kernel.new(at=kernel.now + 3_600_000))

    times = []
    while not (claim := kernel.claim_as(kernel.want("greet"))).jobs:
        kernel.now = claim.next_due
        times.append(kernel.now - START)

    assert [time for time in times if time > lanes.FLOOR_MS] == []


@pytest.mark.usefixtures("many_dead")
def test_when_nothing_else_is_left_a_job_is_taken_wherever_it_lies(kernel: Kernel) -> None:
    kernel.enqueue(*[kernel.new() for _ in range(20)])
    kernel.claim("greet", free=10)
    kernel.claim("greet", free=5)
    kernel.enqueue(kernel.new(at=kernel.now - 60_000))

    taken = [*kernel.claim("greet", free=5), *kernel.claim("greet", free=5)]

    assert len(taken) == 6


def test_who_claims_in_anothers_transaction_looks_again_for_the_rest(kernel: Kernel) -> None:
    [job] = kernel.enqueue(kernel.new())

    taken = kernel.claim_as(kernel.want("greet"), along=True)

    assert [each.id for each in taken.jobs] == [job.id]
    assert taken.next_due == kernel.now


def test_nothing_is_cancelled_in_anothers_transaction(kernel: Kernel) -> None:
    [fresh, late] = kernel.enqueue(kernel.new(), kernel.new(expires=kernel.now))

    with pytest.raises(claims.NeedsOwnTransaction):
        kernel.claim_as(kernel.want("greet"), along=True)

    assert [kernel.row(job.id).state for job in (fresh, late)] == ["open", "open"]
    assert [kernel.row(job.id).fence for job in (fresh, late)] == [0, 0]
    assert kernel.reacted == []
    assert [job.id for job in kernel.claim("greet")] == [fresh.id]


def _made(
    kernel: Kernel,
    want: ClaimRequest,
    *new: NewJob,
    then: Callable[[Tx, int], object] | None = None,
) -> Claimed | None:
    """What is claimed of the last of these jobs by the transaction that makes it."""

    def verb(tx: Any) -> Claimed | None:
        rows: list[NewRow] = []
        put = tx.put
        tx.put = lambda statement, row: rows.append(row) or put(statement, row)
        for each in new:
            enqueue.enqueue(tx, [each], ids=kernel.ids, lanes=kernel.lanes, now=kernel.now)
        if then is not None:
            then(tx, rows[-1].id)
        return claim_made(tx, want, rows[-1], new[-1].lane, now=kernel.now)

    found: Claimed | None = kernel.run(verb)
    return found


def test_a_job_that_was_just_made_is_claimed_as_any_other(kernel: Kernel) -> None:
    new = kernel.new(payload='{"n":1}', priority=3, expires=kernel.now + 50, owner="o")

    made = _made(kernel, kernel.want("greet"), new)

    assert made is not None
    row = kernel.row(made.id)
    assert (row.due, row.worker, row.fence) == (kernel.now + LEASE, ME, 1)
    assert kernel.claim("greet", worker=OTHER) == []
    kernel.enqueue(new)
    [usual] = kernel.claim("greet")
    # No pace was asked for it, so nothing was taken of one.
    same = {"id": usual.id, "checksum": usual.checksum, "taken_at": usual.taken_at}
    assert msgspec.structs.replace(made, **same) == usual


@pytest.mark.parametrize(
    "want",
    [
        ClaimRequest(ME, LEASE, {"other": "async"}, {"async": 9}),
        ClaimRequest(ME, LEASE, {"greet": "async"}, {"async": 0, "thread": 9}),
        ClaimRequest(ME, LEASE, {"greet": "async"}, {"async": 9}, queues=frozenset({"mail"})),
        ClaimRequest(ME, LEASE, {"greet": "async"}, {"async": 9}, queue_limits={"default": 9}),
        ClaimRequest(ME, LEASE, {"greet": "async"}, {"async": 9}, task_limits={"greet": 9}),
        ClaimRequest(
            ME, LEASE, {"greet": "async"}, {"async": 9}, admission=PaceRules({"greet": ()}, {})
        ),
        ClaimRequest(
            ME, LEASE, {"greet": "async"}, {"async": 9}, admission=PaceRules({}, {"default": ()})
        ),
    ],
    ids=["unknown", "no slot", "other queues", "queue limit", "task limit", "pace", "queue pace"],
)
def test_where_more_than_a_slot_decides_a_job_is_not_claimed_as_it_is_made(
    kernel: Kernel, want: ClaimRequest
) -> None:
    assert _made(kernel, want, kernel.new()) is None
    assert len(kernel.claim("greet")) == 1


@pytest.mark.parametrize(
    ("task", "priority", "taken"),
    [("greet", 5, False), ("other", 5, False), ("other", 9, False), ("other", 0, True)],
)
def test_a_job_is_not_claimed_as_it_is_made_before_one_that_has_to_go_first(
    kernel: Kernel, task: str, priority: int, taken: bool
) -> None:
    first = kernel.new(task, priority=priority)

    made = _made(kernel, kernel.want("greet", "other"), first, kernel.new(priority=5))

    assert (made is not None) is taken
    [rest] = kernel.claim("greet", "other", free=1)
    assert rest.priority == priority


def test_a_paused_queue_keeps_nobody_from_claiming_a_job_as_it_is_made(kernel: Kernel) -> None:
    kernel.enqueue(kernel.new(queue="mail", priority=9))
    kernel.run(lambda tx: lanes.pause(tx, "mail"))

    assert _made(kernel, kernel.want("greet"), kernel.new()) is not None


def test_a_suspect_needs_more_than_a_slot(kernel: Kernel) -> None:
    lane = LaneName("default", "greet")

    assert kernel.want("greet").has_room(lane)
    assert not kernel.want("greet").has_room(msgspec.structs.replace(lane, alone=1))


@pytest.mark.parametrize("later", [1, -1])
def test_a_job_that_was_changed_since_it_was_made_is_left_to_an_ordinary_claim(
    kernel: Kernel, later: int
) -> None:
    def moved(tx: Tx, job: int) -> None:
        tx.write("update duework_job set due = due + :by where id = :id", by=later, id=job)

    assert _made(kernel, kernel.want("greet"), kernel.new(), then=moved) is None
    assert len(kernel.claim("greet")) == (1 if later < 0 else 0)


def test_a_job_that_was_cancelled_since_it_was_made_is_not_claimed(kernel: Kernel) -> None:
    def cancelled(tx: Tx, job: int) -> None:
        operate.cancel(tx, [job], kernel.settle_context(), why="")

    assert _made(kernel, kernel.want("greet"), kernel.new(), then=cancelled) is None


def test_a_lane_is_remembered_by_its_own_words(kernel: Kernel) -> None:
    class Text(str):
        __slots__ = ()

    class Number(int): ...

    [job] = kernel.enqueue(kernel.new(queue=Text("mail"), priority=Number(4)))
    number = kernel.row(job.id).lane

    name = kernel.run(lambda tx: kernel.lanes.name(tx, number))

    assert (type(name.queue), type(name.priority)) == (str, int)
    assert name == LaneName("mail", "greet", 4)


@pytest.mark.parametrize("but", ["later", "expired", "after", "paused"])
def test_what_cannot_run_now_is_not_claimed_as_it_is_made(kernel: Kernel, but: str) -> None:
    [first] = kernel.enqueue(kernel.new("first"))
    more = {"later": {"at": kernel.now + 1}, "expired": {"expires": kernel.now}}
    if but == "paused":
        kernel.run(lambda tx: lanes.pause(tx, "default"))

    new = kernel.new(**({"after": first.id} if but == "after" else more.get(but, {})))

    assert _made(kernel, kernel.want("greet"), new) is None
    assert (
        kernel.run(lambda tx: tx.read("select count(*) from duework_job where fence > 0"))[0][0]
        == 0
    )


def test_a_new_row_has_the_columns_of_its_insert() -> None:
    for statement in (JOBS.insert_one, JOBS.insert, JOBS.insert_keyed):
        assert statement.names == NewRow._fields
