"""Recovering: leases that ended are written off, and a crash is charged to the guilty only."""

from __future__ import annotations

from duework.kernel import claim as claims
from tests.support.kernel import LEASE, ME, OTHER, Kernel


def crash_alone(kernel: Kernel, job: int) -> None:
    """Claim the suspect by itself and lose the process that runs it."""
    kernel.now = max(kernel.now, kernel.row(job).due)
    [held] = kernel.claim("greet", worker=OTHER)
    assert held.alone
    kernel.recover(dead=[OTHER])


def suspects(kernel: Kernel, count: int = 1, task: str = "greet") -> list[int]:
    """Jobs that were running together when a worker died."""
    made = kernel.enqueue(*[kernel.new(task) for _ in range(count)])
    kernel.claim(task, worker=OTHER)
    kernel.recover(dead=[OTHER])
    return [job.id for job in made]


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
    assert history(kernel, jobs[0]) == ["crashed"]


def test_after_a_crash_the_suspects_run_alone(kernel: Kernel) -> None:
    suspects(kernel, 3)

    taken = []
    while held := kernel.claim("greet", free=10):
        assert len(held) == 1
        taken.append(held[0].alone)
        kernel.settle(kernel.done(held[0]))

    assert taken == [True, True, True]


def test_one_killer_fails_alone_and_no_innocent_fails_with_it(kernel: Kernel) -> None:
    jobs = suspects(kernel, 10)
    killer = jobs[4]

    for _ in range(100):
        held = kernel.claim("greet", worker=OTHER, free=10)
        if not held:
            if all(row.state != "open" for row in kernel.rows()):
                break
            kernel.now = min(row.due for row in kernel.rows() if row.state == "open")
            continue
        [one] = held
        if one.id == killer:
            kernel.recover(dead=[OTHER])
        else:
            kernel.settle(kernel.done(one, OTHER))

    states = {row.id: row.state for row in kernel.rows()}
    assert states.pop(killer) == "failed"
    assert set(states.values()) == {"done"}


def test_the_third_crash_alone_makes_a_job_poison_and_reactions_run(kernel: Kernel) -> None:
    [job] = suspects(kernel)

    crash_alone(kernel, job)
    crash_alone(kernel, job)
    assert (kernel.row(job).state, kernel.row(job).crashes) == ("open", 2)
    assert kernel.reacted == []
    crash_alone(kernel, job)

    row = kernel.row(job)
    assert (row.state, row.crashes, row.failures) == ("failed", 3, 0)
    assert [(event.job, event.kind) for event in kernel.reacted] == [(job, "failed")]
    assert history(kernel, job) == ["crashed"] + ["crashed alone"] * 3


def test_a_reaction_that_fails_does_not_keep_poison_from_failing(kernel: Kernel) -> None:
    [job] = suspects(kernel)

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
    [job] = suspects(kernel)

    for _ in range(8):
        crash_alone(kernel, job)

    assert kernel.row(job).state == "open"


def test_crashes_alone_are_tried_again_after_a_growing_while(kernel: Kernel) -> None:
    [job] = suspects(kernel)

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
    [job] = suspects(kernel)
    kernel.now = kernel.row(job).due
    [held] = kernel.claim("greet", worker=OTHER)
    kernel.now += LEASE
    kernel.recover(crashed=True)
    assert kernel.row(job).crashes == 1

    kernel.run(lambda tx: claims.excuse(tx, [(held.id, held.fence)]))

    assert kernel.row(job).crashes == 0
    assert history(kernel, job) == ["crashed", "lost"]


def test_an_excuse_counts_once(kernel: Kernel) -> None:
    [job] = suspects(kernel)
    crash_alone(kernel, job)
    crash_alone(kernel, job)

    for _ in range(2):
        kernel.run(lambda tx: claims.excuse(tx, [(job, 2)]))

    assert kernel.row(job).crashes == 1


def test_excusing_a_shared_crash_takes_nothing_off_the_crashes_alone(kernel: Kernel) -> None:
    [job] = suspects(kernel)
    crash_alone(kernel, job)

    kernel.run(lambda tx: claims.excuse(tx, [(job, 1)]))

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
