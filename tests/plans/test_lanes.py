"""What a claim costs does not grow with lanes whose jobs are all over: a queue for each tenant leaves many.

Counted are steps of SQLite's machine, and pages that PostgreSQL looks at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from duework.db.queries import Statement
from duework.kernel.lanes import JOBS
from duework.worker.handoff.claims import HANDOFF
from tests.plans.crowd import analyse, pages_of, roomy, steps_of
from tests.support.kernel import LEASE, ME, START, Kernel

pytestmark = [pytest.mark.xdist_group("plans")]

TENANTS = 3000
LIMITS: dict[str, Any] = {"task_limits": {"greet": 50}, "queue_limits": {"default": 50}}
MADE = {"id": 5, "lane": 1, "due": START, "checksum": 1, "until": START, "worker": ME}
MADE |= {"priority": 0, "now": START}
# What a worker asks while it looks for work, and what is asked where a job is claimed as it is made.
LOOKS: dict[str, tuple[Statement, dict[str, Any]]] = {
    "lanes": (JOBS.lanes, {}),
    "running": (JOBS.running, {}),
    "claim_made": (HANDOFF.claim_made, MADE),
    "lane_name": (JOBS.lane_name, {"id": TENANTS}),
}


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def tenants(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Kernel]:
    with roomy(request, tmp_path_factory, "tenants") as kernel:
        yield kernel


def one_job(kernel: Kernel) -> None:
    """From its enqueue to its end."""
    kernel.enqueue(kernel.new())
    [held] = kernel.claim("greet", **LIMITS)
    kernel.settle(kernel.done(held))


def cost(kernel: Kernel) -> dict[str, int]:
    """Of a job, and of looks beside one that is due and one that runs."""
    for _ in range(3):
        one_job(kernel)
    sqlite = kernel.database.kind == "sqlite"
    found = {"job": steps_of(kernel, lambda: one_job(kernel))} if sqlite else {}
    kernel.enqueue(kernel.new(), kernel.new())
    held = kernel.claim("greet", free=1)
    for name, asked in LOOKS.items():
        found[name] = looked(kernel, *asked) if sqlite else pages_of(kernel, *asked)
    held += kernel.claim("greet")
    kernel.settle(*[kernel.done(each) for each in held])
    return found


def looked(kernel: Kernel, text: Statement, values: dict[str, Any]) -> int:
    return steps_of(kernel, lambda: kernel.run(lambda tx: tx.query(text, values)))


def test_lanes_without_jobs_cost_a_claim_nothing(tenants: Kernel) -> None:
    before = cost(tenants)
    tenants.enqueue(*[tenants.new(queue=f"tenant-{number}") for number in range(TENANTS)])
    while held := tenants.claim("greet", free=TENANTS):
        tenants.settle(*[tenants.done(each) for each in held])
    assert tenants.run(lambda tx: tx.read("select count(*) from duework_lane"))[0][0] > TENANTS
    # Their index entries go by themselves in time; the planner hears of the lanes.
    vacuum(tenants)
    analyse(tenants)

    after = cost(tenants)

    assert {name: count for name, count in after.items() if count > before[name] * 1.5 + 20} == {}


def vacuum(kernel: Kernel) -> None:
    if kernel.database.kind == "postgres":
        connection = kernel.database.connect()
        connection.autocommit = True
        connection.execute("vacuum duework_job, duework_lane")
        connection.close()


def test_a_limit_counts_over_all_lanes_of_its_task(kernel: Kernel) -> None:
    kernel.enqueue(*[kernel.new(queue=f"tenant-{number}") for number in range(10)])
    limits = {"task_limits": {"greet": 4}}

    mine = kernel.claim("greet", free=3, **limits)
    theirs = kernel.claim("greet", worker=ME + 1, **limits)

    assert (len(mine), len(theirs)) == (3, 1)
    assert kernel.claim("greet", **limits) == []


def test_a_lane_is_found_again_when_it_has_jobs_again(kernel: Kernel) -> None:
    for number in (1, 2, 1):
        kernel.enqueue(kernel.new(queue=f"tenant-{number}", at=kernel.now + 5))
        assert kernel.claim_as(kernel.want("greet")).next_due == kernel.now + 5
        kernel.now += 5
        [held] = kernel.claim("greet")
        assert held.queue == f"tenant-{number}"
        assert kernel.extend(held) == []
        kernel.now += LEASE
        kernel.recover(crashed=False)
        [again] = kernel.claim("greet")
        kernel.settle(kernel.done(again))
