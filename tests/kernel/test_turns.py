"""Lanes that differ in their shares alone take turns: a long backlog keeps none of the others waiting."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from duework.kernel import claim as claims
from duework.kernel.claim import ClaimRequest
from duework.kernel.job import Claimed, LaneName, NewJob
from duework.kernel.lanes import Lanes
from duework.kernel.paces.pace import Rate, Tick
from duework.kernel.tasks import gates
from tests.support.kernel import OTHER, Kernel


def mails(kernel: Kernel, tenant: str, count: int = 1, **more: Any) -> None:
    lane = LaneName("default", "mail", share=tenant, **more)
    kernel.enqueue(*(NewJob(lane, "{}", kernel.now) for _ in range(count)))


def paced(*paces: Any) -> dict[str, Any]:
    return {"paces": ({"mail": gates("mail", list(paces), lambda _: None)}, {})}


def shares(jobs: list[Claimed]) -> dict[str, int]:
    return dict(Counter(job.share for job in jobs))


def settle_all(kernel: Kernel, jobs: list[Claimed], worker: int = 101) -> None:
    kernel.settle(*(kernel.done(job, worker=worker, keep=0) for job in jobs))


def test_one_mail_behind_thirty_of_another_tenant_goes_out_with_the_first_tick(
    kernel: Kernel,
) -> None:
    mails(kernel, "t1", 30)
    kernel.now += 5
    mails(kernel, "t2")
    tick = paced(Tick(15, "10s"))

    first = kernel.claim("mail", **tick)
    kernel.now += 10_000
    second = kernel.claim("mail", **tick)

    assert shares(first) == {"t1": 14, "t2": 1}
    assert shares(second) == {"t1": 15}


def test_free_slots_are_shared_in_the_same_way(kernel: Kernel) -> None:
    mails(kernel, "t1", 50)
    mails(kernel, "", 3)
    mails(kernel, "t3", 50)

    claim = kernel.claim_as(kernel.want("mail", free=21))

    assert shares(claim.jobs) == {"t1": 9, "": 3, "t3": 9}
    assert claim.hungry == {"async"}


def test_what_is_left_of_a_group_is_no_reason_to_be_hungry(kernel: Kernel) -> None:
    mails(kernel, "t1", 5)
    mails(kernel, "t2", 2)

    claim = kernel.claim_as(kernel.want("mail", free=10))

    assert shares(claim.jobs) == {"t1": 5, "t2": 2}
    assert not claim.hungry


@pytest.mark.parametrize("by", ["pace", "slots"])
def test_each_share_has_its_turn_before_any_has_a_second_one(kernel: Kernel, by: str) -> None:
    for number in range(20):
        mails(kernel, f"t{number}", 10)
    tick = paced(Tick(7, "10s")) if by == "pace" else {}
    taken: list[str] = []

    for _ in range(6):
        jobs = kernel.claim("mail", free=7, **tick)
        taken += [job.share for job in jobs]
        settle_all(kernel, jobs)
        kernel.now += 10_000

    assert len(taken) == 42
    assert set(Counter(taken[:20]).values()) == {1}
    assert set(Counter(taken[:40]).values()) == {2}


def test_a_pace_remembers_whose_turn_it_is_for_other_processes(kernel: Kernel) -> None:
    for number in range(3):
        mails(kernel, f"t{number}", 10)
    tick = paced(Tick(1, "10s"))
    taken: list[str] = []

    for worker in (OTHER, 101, OTHER):
        kernel.lanes = Lanes()
        taken += [job.share for job in kernel.claim("mail", worker=worker, **tick)]
        kernel.now += 10_000

    assert taken == ["t0", "t1", "t2"]


def test_two_tasks_that_share_a_pace_each_have_their_own_turns(kernel: Kernel) -> None:
    shared = Tick(1, "10s", name="upstream")
    both = {task: gates(task, shared, lambda _: None) for task in ("mail", "text")}
    for task in ("mail", "text"):
        for number in range(3):
            lane = LaneName("default", task, share=f"{task}{number}")
            kernel.enqueue(*(NewJob(lane, "{}", kernel.now) for _ in range(10)))
    taken: list[str] = []

    for turn in range(6):
        task = ("mail", "text")[turn % 2]
        taken += [job.share for job in kernel.claim(task, paces=(both, {}))]
        kernel.now += 10_000

    assert sorted(taken) == ["mail0", "mail1", "mail2", "text0", "text1", "text2"]


def test_priorities_go_before_turns(kernel: Kernel) -> None:
    mails(kernel, "t1", 5)
    mails(kernel, "t2", 30, priority=5)

    assert shares(kernel.claim("mail", free=10)) == {"t2": 10}


def test_with_a_pace_per_lane_each_has_all_of_its_own(kernel: Kernel) -> None:
    mails(kernel, "t1", 30)
    mails(kernel, "t2", 4)
    tick = paced(Tick(15, "10s", per="lane").for_lanes())

    first = kernel.claim("mail", **tick)
    again = kernel.claim("mail", **tick)
    mails(kernel, "t3", 20)
    third = kernel.claim("mail", **tick)
    kernel.now += 10_000
    fourth = kernel.claim("mail", **tick)

    assert shares(first) == {"t1": 15, "t2": 4}
    assert again == []
    assert shares(third) == {"t3": 15}
    assert shares(fourth) == {"t1": 15, "t3": 5}


def test_a_lane_that_waits_for_its_own_pace_does_not_stop_the_others(kernel: Kernel) -> None:
    own = Rate("60/1m", per="lane", burst=1).for_lanes()
    mails(kernel, "t1", 3)
    assert shares(kernel.claim("mail", **paced(own))) == {"t1": 1}
    mails(kernel, "t2", 3)

    assert shares(kernel.claim("mail", **paced(own))) == {"t2": 1}
    waits = kernel.read("select share, pace, due from duework_lane order by share")
    assert [(row.share, row.pace, row.due > kernel.now) for row in waits] == [
        ("t1", "mail:rate[t1]", True),
        ("t2", "mail:rate[t2]", True),
    ]


def test_a_common_pace_and_one_per_lane_hold_both(kernel: Kernel) -> None:
    for tenant in ("t1", "t2", "t3"):
        mails(kernel, tenant, 30)
    both = paced(Tick(15, "10s"), Tick(4, "10s", per="lane", name="own").for_lanes())

    first = kernel.claim("mail", **both)

    assert shares(first) == {"t1": 4, "t2": 4, "t3": 4}


def test_the_state_of_a_lane_that_is_quiet_is_forgotten(kernel: Kernel) -> None:
    from duework.kernel.paces import admission

    mails(kernel, "t1")
    own = (
        Rate("60/1m", per="lane", name="rate").for_lanes(),
        Tick(5, "10s", per="lane").for_lanes(),
    )
    kernel.claim("mail", **paced(*own))
    assert len(kernel.read("select name from duework_pace")) == 2

    kernel.now += 121_000
    kernel.run(lambda tx: admission.forget(tx, now=kernel.now, chunk=100))

    assert kernel.read("select name from duework_pace") == []
    mails(kernel, "t1", 9)
    assert shares(kernel.claim("mail", **paced(*own))) == {"t1": 1}


def counted(kernel: Kernel, want: ClaimRequest) -> tuple[dict[str, int], list[str]]:
    """What a claim took, and by which statements."""

    def verb(tx: Any) -> claims.Claim:
        return claims.claim(tx, want, kernel.settle_context())

    claim, seen = kernel.spied(verb)
    return shares(claim.jobs), [name for name, _ in seen]


def test_tenants_that_are_idle_cost_a_claim_no_statement(kernel: Kernel) -> None:
    tick = paced(Tick(15, "10s"), Tick(14, "10s", per="lane", name="own").for_lanes())
    statements = []
    for tenant in ("t1", "t2"):
        mails(kernel, tenant)
    for idle in (0, 40):
        for number in range(idle):
            mails(kernel, f"idle{number}")
        while jobs := kernel.claim("mail", **tick):
            settle_all(kernel, jobs)
            kernel.now += 10_000
        mails(kernel, "t1", 30)
        mails(kernel, "t2")
        kernel.now += 10_000
        taken, names = counted(kernel, kernel.want("mail", **tick))
        assert taken == {"t1": 14, "t2": 1}
        statements.append([name for name in names if name != "dead_rows"])
        kernel.now += 10_000

    assert statements[0] == statements[1]


def test_no_claim_takes_more_statements_than_it_may_take_jobs(kernel: Kernel) -> None:
    for number in range(60):
        mails(kernel, f"t{number}", 2)

    taken, names = counted(kernel, kernel.want("mail", free=16))

    assert len(taken) == 16
    assert names.count("claim") == 16
