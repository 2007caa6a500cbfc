"""Recovering: leases that ended are written off, and a crash is charged to the guilty only."""

from __future__ import annotations

from typing import Any

import pytest

from duework.kernel import recover as recovery
from duework.kernel.job import ALONE, SUSPECT, Claimed, Kind
from tests.support.kernel import LEASE, ME, OTHER, Kernel


def crash_alone(kernel: Kernel, job: int) -> None:
    """Claim the suspect by itself and lose the process that runs it."""
    kernel.now = max(kernel.now, kernel.row(job).due)
    [held] = kernel.claim("greet", worker=OTHER)
    assert held.alone == ALONE
    kernel.recover(dead=[OTHER])


def crash(kernel: Kernel, task: str = "greet", **more: Any) -> list[Claimed]:
    """Claim what is due and lose the process that runs it."""
    held = kernel.claim(task, worker=OTHER, **more)
    kernel.recover(dead=[OTHER])
    return held


def suspects(kernel: Kernel, count: int = 1, task: str = "greet", *, crashes: int = 2) -> list[int]:
    """Jobs that were running together when a worker died, and again when the next one did."""
    made = kernel.enqueue(*[kernel.new(task) for _ in range(count)])
    for _ in range(crashes):
        assert len(crash(kernel, task)) == count
    return [job.id for job in made]


def solitary(kernel: Kernel, count: int = 1) -> list[int]:
    """Such jobs that have crashed once more."""
    return suspects(kernel, count, crashes=3)


def lane(kernel: Kernel, job: int) -> int:
    """Whether it is in a lane of suspects, and in which."""
    where = (
        "select l.alone from duework_job j join duework_lane l on l.id = j.lane where j.id = :id"
    )
    return int(kernel.read(where, id=job)[0].alone)


def history(kernel: Kernel, job: int) -> list[str]:
    rows = kernel.read(
        "select outcome from duework_attempt where job = :job order by fence", job=job
    )
    return [row.outcome for row in rows]


def test_a_lease_that_ended_is_written_off_and_the_job_is_due(kernel: Kernel) -> None:
    [job] = kernel.enqueue(kernel.new())
    kernel.claim("greet", worker=OTHER)

    kernel.now += LEASE - 1
    assert kernel.recover() == []
    kernel.now += 1
    assert [ending.id for ending in kernel.recover()] == [job.id]

    row = kernel.row(job.id)
    assert (row.state, row.worker, row.due) == ("open", None, kernel.now)
    assert len(kernel.claim("greet")) == 1


def test_everything_of_a_dead_process_is_written_off_before_its_leases_end(
    kernel: Kernel,
) -> None:
    dead, _ = kernel.enqueue(kernel.new(), kernel.new())
    kernel.claim("greet", worker=OTHER, free=1)
    [mine] = kernel.claim("greet", worker=ME, free=1)

    found = kernel.recover(dead=[OTHER])

    assert [ending.id for ending in found] == [dead.id]
    assert kernel.extend(mine) == []


def test_a_crash_that_many_shared_counts_against_nobody(kernel: Kernel) -> None:
    jobs = suspects(kernel, 20)

    rows = [kernel.row(job) for job in jobs]
    assert {(row.state, row.failures, row.crashes) for row in rows} == {("open", 0, 0)}
    assert history(kernel, jobs[0]) == ["crashed", "crashed"]


def test_after_a_first_crash_a_job_runs_again_exactly_as_before(kernel: Kernel) -> None:
    kernel.enqueue(*[kernel.new() for _ in range(20)])
    first = crash(kernel)

    again = kernel.claim("greet")

    assert [job.id for job in again] == [job.id for job in first]
    assert [(job.lane, job.alone) for job in again] == [(job.lane, 0) for job in first]


def test_after_a_second_crash_no_more_than_ten_suspects_run_at_once(kernel: Kernel) -> None:
    suspects(kernel, 25)

    taken = []
    while held := kernel.claim("greet"):
        assert {job.alone for job in held} == {SUSPECT}
        taken.append(len(held))
        kernel.settle(*[kernel.done(job) for job in held])

    assert taken == [10, 10, 5]


def test_after_a_third_crash_they_run_alone(kernel: Kernel) -> None:
    solitary(kernel, 3)

    taken = []
    while held := kernel.claim("greet", free=10):
        taken.append([job.alone for job in held])
        kernel.settle(*[kernel.done(job) for job in held])

    assert taken == [[ALONE], [ALONE], [ALONE]]


def test_one_that_runs_alone_waits_for_other_suspects_and_they_for_it(kernel: Kernel) -> None:
    [job] = solitary(kernel)
    [other] = suspects(kernel, task="other")

    assert kernel.claim("greet", alone=9) == []
    [held] = kernel.claim("greet", "other")
    assert held.id == job
    assert kernel.claim("greet", "other", alone=0) == []

    kernel.settle(kernel.done(held))
    assert [each.id for each in kernel.claim("greet", "other")] == [other]


def test_kills_that_hit_other_jobs_each_time_make_nobody_a_suspect(kernel: Kernel) -> None:
    kernel.enqueue(*[kernel.new() for _ in range(100)])

    for _ in range(10):
        # Behind what has not run yet.
        kernel.now += 1
        assert len(crash(kernel, free=10)) == 10

    assert len(kernel.claim("greet")) == 100
    assert {lane(kernel, row.id) for row in kernel.rows()} == {0}


def test_one_killer_fails_alone_and_no_innocent_fails_with_it(kernel: Kernel) -> None:
    made = kernel.enqueue(*[kernel.new() for _ in range(100)])
    killer = made[40].id

    deaths = 0
    while deaths < 10 and any(row.state == "open" for row in kernel.rows()):
        held = kernel.claim("greet", worker=OTHER)
        if killer in {job.id for job in held}:
            deaths += 1
            kernel.recover(dead=[OTHER])
        elif held:
            kernel.settle(*[kernel.done(job, OTHER) for job in held])
        else:
            kernel.now = min(row.due for row in kernel.rows() if row.state == "open")

    states = {row.id: row.state for row in kernel.rows()}
    assert states.pop(killer) == "failed"
    assert set(states.values()) == {"done"}
    assert deaths == 6


def test_a_crash_beside_one_that_has_crashed_before_counts_against_neither(kernel: Kernel) -> None:
    [job] = solitary(kernel)
    [other] = kernel.enqueue(kernel.new("other"))
    crash(kernel, "other")

    kernel.claim("greet", "other", worker=OTHER)
    kernel.recover(dead=[OTHER])

    assert (kernel.row(job).crashes, kernel.row(other.id).crashes) == (0, 0)
    assert history(kernel, job) == ["crashed"] * 4
    assert (lane(kernel, job), lane(kernel, other.id)) == (ALONE, SUSPECT)
    assert kernel.row(job).due > kernel.now, "the others run first"


def test_a_crash_beside_those_that_have_not_crashed_before_counts(kernel: Kernel) -> None:
    [job] = solitary(kernel)
    kernel.enqueue(kernel.new(), kernel.new())

    assert len(crash(kernel)) == 3

    assert history(kernel, job) == ["crashed"] * 3 + ["crashed alone"]
    assert sorted(row.crashes for row in kernel.rows()) == [0, 0, 1]


def test_a_suspect_does_not_wait_behind_a_backlog(kernel: Kernel) -> None:
    backlog = kernel.enqueue(*[kernel.new() for _ in range(10)])
    kernel.now += 1
    [job] = suspects(kernel, task="other")

    held = kernel.claim("greet", "other", free=2)

    assert [each.id for each in held] == [job, backlog[0].id]


@pytest.mark.parametrize("how", ["retry", "snooze"])
def test_a_suspect_that_ended_by_itself_is_none_any_more(kernel: Kernel, how: Kind) -> None:
    jobs = solitary(kernel, 2)
    crash_alone(kernel, jobs[0])
    kernel.now = kernel.row(jobs[0]).due
    for _ in jobs:
        [held] = kernel.claim("greet")
        assert held.alone
        kernel.settle(kernel.ending(held, how, due=kernel.now + 1000))
    kernel.now += 1000

    again = kernel.claim("greet")

    assert [(job.alone, job.crashes) for job in again] == [(0, 0)] * 2


def test_a_suspect_that_is_asked_for_again_starts_afresh(kernel: Kernel) -> None:
    [made] = kernel.enqueue(kernel.new(key="k"))
    for _ in range(2):
        crash(kernel)
    [held] = kernel.claim("greet")
    kernel.enqueue(kernel.new(key="k", again=True))
    kernel.settle(kernel.done(held))

    [again] = kernel.claim("greet")

    assert (held.alone, again.id, again.alone) == (SUSPECT, made.id, 0)


def test_a_failure_between_two_crashes_makes_the_second_a_first(kernel: Kernel) -> None:
    [job] = kernel.enqueue(kernel.new())
    crash(kernel)
    [held] = kernel.claim("greet")
    kernel.settle(kernel.ending(held, "retry", due=kernel.now))

    crash(kernel)

    assert history(kernel, job.id) == ["crashed", "retry", "crashed"]
    assert lane(kernel, job.id) == 0


def test_a_lost_lease_between_two_crashes_hides_neither(kernel: Kernel) -> None:
    [job] = kernel.enqueue(kernel.new())
    crash(kernel)
    kernel.claim("greet", worker=OTHER)
    kernel.recover(dead=[OTHER], crashed=False)

    crash(kernel)

    assert history(kernel, job.id) == ["crashed", "lost", "crashed"]
    assert lane(kernel, job.id) == 1


def test_in_a_process_of_its_own_a_job_is_alone_from_the_start(kernel: Kernel) -> None:
    [job] = kernel.enqueue(kernel.new())

    for _ in range(3):
        kernel.now = kernel.row(job.id).due
        [held] = kernel.claim("greet")
        kernel.settle(kernel.ending(held, "crashed", alone=True))

    assert (kernel.row(job.id).state, kernel.row(job.id).crashes) == ("failed", 3)
    assert history(kernel, job.id) == ["crashed alone"] * 3


def test_the_third_crash_alone_makes_a_job_poison_and_reactions_run(kernel: Kernel) -> None:
    [job] = solitary(kernel)

    crash_alone(kernel, job)
    crash_alone(kernel, job)
    assert (kernel.row(job).state, kernel.row(job).crashes) == ("open", 2)
    assert kernel.reacted == []
    crash_alone(kernel, job)

    row = kernel.row(job)
    assert (row.state, row.crashes, row.failures) == ("failed", 3, 0)
    assert [(event.job, event.kind) for event in kernel.reacted] == [(job, "failed")]
    assert history(kernel, job) == ["crashed"] * 3 + ["crashed alone"] * 3


def test_a_reaction_that_fails_does_not_keep_poison_from_failing(kernel: Kernel) -> None:
    [job] = solitary(kernel)

    def fail(*_: object) -> None:
        raise ValueError("the reaction failed")

    kernel.on_react = fail
    for _ in range(3):
        crash_alone(kernel, job)

    row = kernel.row(job)
    assert row.state == "failed"
    assert "the reaction failed" in str(row.error)


def test_what_has_to_go_on_never_becomes_poison(kernel: Kernel) -> None:
    kernel.immortal.add("greet")
    [job] = solitary(kernel)

    for _ in range(8):
        crash_alone(kernel, job)

    assert kernel.row(job).state == "open"


def test_crashes_alone_are_tried_again_after_a_growing_while(kernel: Kernel) -> None:
    [job] = solitary(kernel)

    waits = []
    for _ in range(2):
        crash_alone(kernel, job)
        waits.append(kernel.row(job).due - kernel.now)

    assert waits == [1000, 2000]


def test_a_lease_lost_by_a_pause_or_a_partition_is_no_crash(kernel: Kernel) -> None:
    [job] = kernel.enqueue(kernel.new())

    for _ in range(5):
        [held] = kernel.claim("greet", worker=OTHER)
        assert not held.alone
        kernel.now += LEASE
        kernel.recover(crashed=False)

    row = kernel.row(job.id)
    assert (row.state, row.failures, row.crashes) == ("open", 0, 0)
    assert history(kernel, job.id) == ["lost"] * 5


def test_a_holder_that_comes_back_is_excused(kernel: Kernel) -> None:
    [job] = solitary(kernel)
    kernel.now = kernel.row(job).due
    [held] = kernel.claim("greet", worker=OTHER)
    kernel.now += LEASE
    kernel.recover(crashed=True)
    assert kernel.row(job).crashes == 1

    kernel.run(lambda tx: recovery.uncharge_crash(tx, [(held.id, held.fence)]))

    assert kernel.row(job).crashes == 0
    assert history(kernel, job) == ["crashed", "crashed", "crashed", "lost"]


def test_an_excuse_counts_once(kernel: Kernel) -> None:
    [job] = solitary(kernel)
    crash_alone(kernel, job)
    crash_alone(kernel, job)

    for _ in range(2):
        kernel.run(lambda tx: recovery.uncharge_crash(tx, [(job, 4)]))

    assert kernel.row(job).crashes == 1


def test_excusing_a_shared_crash_takes_nothing_off_the_crashes_alone(kernel: Kernel) -> None:
    [job] = solitary(kernel)
    crash_alone(kernel, job)

    kernel.run(lambda tx: recovery.uncharge_crash(tx, [(job, 1)]))

    assert kernel.row(job).crashes == 1


def test_without_leave_to_take_over_ended_leases_stay(kernel: Kernel) -> None:
    stale, fresh = kernel.enqueue(kernel.new(), kernel.new(at=kernel.now + LEASE))
    kernel.claim("greet", worker=OTHER)

    kernel.now += LEASE
    found = kernel.recover(take_over=False)

    assert found == []
    assert kernel.row(stale.id).worker == OTHER
    assert [each.id for each in kernel.claim("greet")] == [fresh.id]


def test_a_worker_that_wakes_up_late_can_change_nothing(kernel: Kernel) -> None:
    [job] = kernel.enqueue(kernel.new())
    [late] = kernel.claim("greet", worker=OTHER)
    kernel.now += LEASE
    kernel.recover(crashed=False)
    [held] = kernel.claim("greet")

    assert kernel.settle(kernel.done(late, OTHER, result='"late"')) == [None]

    assert kernel.row(job.id).worker == ME
    kernel.settle(kernel.done(held, result='"mine"'))
    assert kernel.row(job.id).result == '"mine"'
