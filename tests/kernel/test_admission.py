"""Paces inside the claim's transaction: what is locked, what is written, and what is not."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from duework import Quota, Rate, Tick
from duework.clock import FOREVER
from duework.kernel import claim as claims
from duework.kernel import lanes
from duework.kernel.paces.admission import PACES, AddressedReport, Gate, apply_reports
from duework.kernel.paces.pace import Pace
from tests.support.kernel import OTHER, START, Kernel

ALIGNED = START - START % 900_000


def paced(**paces: Pace) -> dict[str, Any]:
    gates = {task: (Gate(pace.name or task, pace),) for task, pace in paces.items()}
    return {"paces": (gates, {})}


def claiming(k: Kernel, *tasks: str, **more: Any) -> Any:
    want = k.want(*tasks, **more)
    return lambda tx: claims.claim(tx, want, k.settle_context())


def test_a_claim_that_visits_no_paced_lane_asks_nothing_more(kernel: Kernel) -> None:
    kernel.enqueue(kernel.new("greet"))
    kernel.claim("greet")
    kernel.enqueue(kernel.new("greet"))
    _, before = kernel.spied(claiming(kernel, "greet"))
    kernel.enqueue(kernel.new("greet"), kernel.new("later", at=kernel.now + 5))
    more = paced(later=Rate("1/1s"), other=Rate("1/1s"))
    _, after = kernel.spied(claiming(kernel, "greet", "later", **more))

    assert [name for name, _ in after] == [name for name, _ in before]
    assert not [name for name, _ in after if "pace" in name]


def test_a_pace_costs_two_statements_however_many_jobs_it_admits(kernel: Kernel) -> None:
    kernel.enqueue(*(kernel.new("greet") for _ in range(100)))
    kernel.claim("greet", free=1, **paced(greet=Tick(200, "10s")))

    claim, seen = kernel.spied(claiming(kernel, "greet", free=50, **paced(greet=Tick(200, "10s"))))

    assert len(claim.jobs) == 50
    names = [name for name, _ in seen]
    assert [name for name in names if "pace" in name] == ["lock_paces", "save_pace"]


def test_a_lane_is_due_when_its_pace_admits_again(kernel: Kernel) -> None:
    kernel.now = ALIGNED
    quota = Quota("strava", windows={"15m": 2})
    kernel.enqueue(*(kernel.new("page") for _ in range(3)))

    claim = kernel.claim_as(kernel.want("page", **paced(page=quota)))

    assert len(claim.jobs) == 2
    assert not claim.hungry
    [lane] = kernel.read("select due, pace from duework_lane")
    assert (lane.due, lane.pace) == (ALIGNED + 900_000, "strava")
    # Before that, leases may end.
    assert claim.next_due <= ALIGNED + 900_000
    assert kernel.claim("page", **paced(page=quota)) == []
    kernel.now = ALIGNED + 900_000
    assert len(kernel.claim("page", **paced(page=quota), worker=OTHER)) == 1


def test_what_one_claim_took_the_next_one_cannot(kernel: Kernel) -> None:
    kernel.enqueue(*(kernel.new("page") for _ in range(20)))
    kernel.enqueue(*(kernel.new("other") for _ in range(20)))
    shared = Tick(15, "10s", name="mail")
    both = paced(page=shared, other=shared)

    first = kernel.claim("page", "other", free=10, **both)
    second = kernel.claim("page", "other", free=10, worker=OTHER, **both)
    third = kernel.claim("page", "other", free=10, **both)

    assert (len(first), len(second), len(third)) == (10, 5, 0)
    [row] = kernel.read("select used, most from duework_pace")
    assert tuple(row) == (15, 15)


def test_what_came_due_after_a_tick_is_not_of_it(kernel: Kernel) -> None:
    old = kernel.enqueue(*(kernel.new("page") for _ in range(3)))
    tick = paced(page=Tick(15, "10s"))
    assert len(kernel.claim("page", free=2, **tick)) == 2
    kernel.now += 1000
    [new] = kernel.enqueue(kernel.new("page"))
    kernel.now += 1000

    assert [job.id for job in kernel.claim("page", **tick)] == [old[2].id]
    kernel.now += 7999
    assert kernel.claim("page", **tick) == []
    kernel.now += 1
    assert [job.id for job in kernel.claim("page", **tick)] == [new.id]


def test_two_claims_at_once_share_what_there_is(kernel: Kernel) -> None:
    kernel.enqueue(*(kernel.new("page") for _ in range(40)))
    shared, taken = paced(page=Tick(15, "10s")), []

    def claim(worker: int) -> None:
        with kernel.database.transaction() as tx:
            want = kernel.want("page", free=10, worker=worker, **shared)
            found = claims.claim(tx, want, kernel.settle_context())
            taken.append(len(found.jobs))

    threads = [threading.Thread(target=claim, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sum(taken) == 15


def test_a_lane_that_was_paused_meanwhile_stays_closed(kernel: Kernel) -> None:
    kernel.enqueue(*(kernel.new("page") for _ in range(3)))
    lane = kernel.read("select id from duework_lane")[0].id
    kernel.run(lambda tx: lanes.pause(tx, "default"))

    kernel.run(lambda tx: tx.bulk(PACES.lane_waits, [(kernel.now + 5, "page", lane, FOREVER)]))

    assert kernel.read("select due from duework_lane")[0].due == FOREVER


def test_what_a_pace_hears_is_undone_with_its_transaction(kernel: Kernel) -> None:
    pace = Tick(15, "10s", name="mail")
    note = AddressedReport("mail", pace, "throttled", 60_000)

    def verb(tx: Any) -> None:
        apply_reports(tx, [note], now=kernel.now)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        kernel.run(verb)
    assert kernel.read("select * from duework_pace") == []
    kernel.run(lambda tx: apply_reports(tx, [note, note], now=kernel.now))
    assert kernel.read("select blocked from duework_pace")[0].blocked == kernel.now + 60_000


def test_a_job_that_is_too_early_is_handed_back_with_its_time_and_keeps_its_place(
    kernel: Kernel,
) -> None:
    rate = paced(post=Rate("2/1s", per="to"))
    payloads = ['{"to":"a"}'] * 3 + ['{"to":"b"}']
    jobs = kernel.enqueue(*(kernel.new("post", payload=each) for each in payloads))

    first = kernel.claim_as(kernel.want("post", **rate))

    assert [job.id for job in first.jobs] == [jobs[0].id, jobs[3].id]
    assert first.hungry == {"async"}
    assert first.next_due == kernel.now + 500
    later = [kernel.row(job.id) for job in jobs[1:3]]
    assert [(row.due, row.worker, row.state) for row in later] == [
        (kernel.now + 500, None, "open"),
        (kernel.now + 1000, None, "open"),
    ]
    # One that comes now goes behind those that were promised something.
    [new] = kernel.enqueue(kernel.new("post", payload='{"to":"a"}'))
    assert kernel.claim("post", **rate) == []
    assert kernel.row(new.id).due == kernel.now + 1500
    kernel.now += 500
    assert [job.id for job in kernel.claim("post", **rate)] == [jobs[1].id]


def test_a_damaged_state_is_as_good_as_none(kernel: Kernel) -> None:
    kernel.enqueue(*(kernel.new("page") for _ in range(3)))
    tick = paced(page=Tick(1, "10s"))
    kernel.claim("page", **tick)
    kernel.now += 10_000
    with kernel.database.transaction() as tx:
        tx.write("update duework_pace set state = :text", text="[no")

    assert len(kernel.claim("page", **tick)) == 1


def test_a_damaged_payload_does_not_stop_the_claim(kernel: Kernel) -> None:
    kernel.enqueue(kernel.new("post", payload="[1"), kernel.new("post", payload='"x"'))

    assert len(kernel.claim("post", **paced(post=Rate("9/1s", per="to", burst=9)))) == 2
