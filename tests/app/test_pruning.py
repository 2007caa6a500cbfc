"""The job that prunes is due when the first retention ends, seldom where nothing ends, and never in a row."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from duework import Run
from duework.kernel.facts import Fact, JobSettled
from duework.kernel.job import DAY, LaneName, NewJob
from duework.kernel.pruning import PRUNE_EVERY_MS, PRUNE_KEY, PRUNE_TASK, Pruning
from duework.testing import Harness
from tests.support.kernel import Kernel

HOUR = 3_600_000


@pytest.fixture
def runs(harness: Harness) -> list[int]:
    """When it ran; a worker that really starts makes its row."""
    harness.app.wiring.arm_housekeeping()
    found: list[int] = []

    def hook(fact: Fact) -> None:
        if isinstance(fact, JobSettled) and fact.task == PRUNE_TASK:
            found.append(harness.now)

    harness.app.on_fact(hook)
    return found


def left(harness: Harness) -> Counter[str]:
    rows = harness.app.read("select task from duework_job where state <> 'open'")
    return Counter(row.task for row in rows)


@pytest.mark.parametrize("keep", ["1s", "10s", "10m", "59m"])
def test_what_is_kept_for_a_short_time_is_gone_soon_after(
    harness: Harness, runs: list[int], keep: str
) -> None:
    @harness.app.task(keep=keep)
    async def note(number: int) -> None: ...

    note.enqueue_many([(number,) for number in range(30)])
    harness.drain()
    assert left(harness) == {"note": 30}

    harness.advance(keep)

    assert left(harness) == {}
    assert len(runs) == 1


def test_failed_and_cancelled_jobs_that_are_kept_for_a_short_time_go_too(
    harness: Harness, runs: list[int]
) -> None:
    @harness.app.task(keep="5s", keep_failed="2s")
    async def note(run: Run, cancel: bool) -> None:
        if cancel:
            harness.app.cancel(run.job.id)
        raise LookupError

    for cancel in (True, False):
        note.enqueue(cancel)
    harness.drain()
    assert left(harness) == {"note": 2}

    harness.advance("2s")
    assert left(harness) == {"note": 1}
    harness.advance("3s")

    assert left(harness) == {}


def test_many_that_end_at_different_times_are_pruned_once_a_second(
    harness: Harness, runs: list[int]
) -> None:
    @harness.app.task(keep="1s")
    async def note() -> None: ...

    for number in range(250):
        note.using(delay=number * 0.02).enqueue()
    harness.advance("5s")
    most = left(harness)["note"]
    harness.advance("3s")

    assert left(harness) == {}
    # Settled for five seconds; nothing stays for more than two.
    assert most <= 110
    assert len(runs) <= 8
    assert all(later - earlier >= 1000 for earlier, later in pairwise(runs))


def test_what_is_kept_for_days_is_pruned_by_the_hour(harness: Harness, runs: list[int]) -> None:
    @harness.app.task(keep="2d")
    async def note() -> None: ...

    for number in range(100):
        note.using(delay=f"{number}m").enqueue()
    harness.advance("3h")
    harness.advance("2d")

    assert left(harness) == {}
    assert len(runs) <= 56


def test_short_retentions_do_not_wait_for_long_ones(harness: Harness, runs: list[int]) -> None:
    @harness.app.task(keep="2s")
    async def short() -> None: ...

    @harness.app.task(keep="7d")
    async def long() -> None: ...

    for number in range(20):
        long.using(delay=number).enqueue()
        short.using(delay=number).enqueue()
    harness.advance("25s")

    assert left(harness) == {"long": 20}


def test_without_anything_to_prune_it_rests_for_an_hour(harness: Harness, runs: list[int]) -> None:
    @harness.app.task(keep="1s")
    async def note() -> None: ...

    note.enqueue()
    harness.advance("10s")

    assert len(runs) == 1
    assert harness.drain() == runs[0] + HOUR


def test_what_is_never_kept_moves_nothing(harness: Harness, runs: list[int]) -> None:
    @harness.app.task(keep=0)
    async def gone() -> None: ...

    @harness.app.task(keep=None)
    async def stays() -> None: ...

    before = harness.drain()
    gone.enqueue()
    stays.enqueue()

    assert harness.drain() == before
    assert left(harness) == {"stays": 1}


def test_wherever_the_worker_dies_the_rows_go_in_time(harness: Harness, runs: list[int]) -> None:
    @harness.app.task(keep="1s")
    async def note() -> None: ...

    statement, crashed = 1, True
    while crashed:
        note.enqueue()
        crashed = harness.crash_worker(at=statement)
        # A crash of the run itself is charged to it, and the third one alone makes it wait.
        harness.advance("1m")
        assert left(harness) == {}, statement
        statement += 1

    assert statement > 8
    assert harness.app.read(f"select due from duework_job where task = '{PRUNE_TASK}'") != []


# --- who brings it forward


def armed(kernel: Kernel) -> int:
    new = NewJob(LaneName("duework", PRUNE_TASK), "{}", kernel.now + PRUNE_EVERY_MS, key=PRUNE_KEY)
    return kernel.enqueue(new)[0].id


def forward(kernel: Kernel, pruning: Pruning, *keeps: int | None) -> tuple[bool, list[str]]:
    """Whether it was moved by endings that are kept for so long, and the statements that took."""
    kernel.enqueue(*[kernel.new() for _ in keeps])
    held = kernel.claim("greet")
    endings: list[Any] = [
        kernel.done(each, keep=keep) for each, keep in zip(held, keeps, strict=True)
    ]
    moved, seen = kernel.spied(lambda tx: pruning.bring_forward(tx, endings, kernel.now))
    return moved, [name for name, _ in seen]


def test_only_the_first_settle_of_many_brings_it_forward(kernel: Kernel) -> None:
    job, pruning = armed(kernel), Pruning()

    assert forward(kernel, pruning, 9000, 5000) == (True, ["waiting_by_key", "keep_until"])
    assert kernel.row(job).due == kernel.now + 5000
    kernel.now += 4999
    assert forward(kernel, pruning, 5000) == (False, [])
    # It may have run since.
    kernel.now += 1
    assert forward(kernel, pruning, 5000) == (False, ["waiting_by_key"])


def test_another_process_does_not_move_it_back(kernel: Kernel) -> None:
    job, one, two = armed(kernel), Pruning(), Pruning()

    assert forward(kernel, one, 5000)[0]
    assert forward(kernel, two, 9000) == (False, ["waiting_by_key"])
    assert forward(kernel, two, 9000) == (False, [])
    assert kernel.row(job).due == kernel.now + 5000
    assert forward(kernel, two, 2000)[0]
    assert kernel.row(job).due == kernel.now + 2000


def test_it_is_not_brought_forward_to_less_than_a_second_from_now(kernel: Kernel) -> None:
    job = armed(kernel)

    assert forward(kernel, Pruning(), 1)[0]
    assert kernel.row(job).due == kernel.now + 1000


def test_settles_with_the_usual_retention_cost_nothing(kernel: Kernel) -> None:
    armed(kernel)

    assert forward(kernel, Pruning(), 7 * DAY, HOUR, None, 0) == (False, [])


def test_one_that_runs_is_left_alone_and_asked_for_again(kernel: Kernel) -> None:
    job, pruning = armed(kernel), Pruning()
    kernel.now += PRUNE_EVERY_MS
    [held] = kernel.claim(PRUNE_TASK)

    assert forward(kernel, pruning, 5000) == (False, ["waiting_by_key"])
    kernel.settle(kernel.ending(held, "snooze", due=kernel.now + PRUNE_EVERY_MS))
    assert forward(kernel, pruning, 5000)[0]
    assert kernel.row(job).due == kernel.now + 5000


def test_what_was_undone_is_not_taken_for_known(kernel: Kernel) -> None:
    job, pruning = armed(kernel), Pruning()
    kernel.enqueue(kernel.new())
    [held] = kernel.claim("greet")
    ending: Any = kernel.done(held, keep=5000)

    def undone(tx: Any) -> None:
        pruning.bring_forward(tx, [ending], kernel.now)
        raise LookupError

    with pytest.raises(LookupError):
        kernel.run(undone)
    assert kernel.row(job).due == kernel.now + PRUNE_EVERY_MS

    assert forward(kernel, pruning, 5000)[0]


def test_the_housekeeping_of_one_shape_that_fails_ends_no_other(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    @harness.app.task(keep="1h")
    async def page() -> None: ...

    harness.app.wiring.arm_housekeeping()
    harness.app.blobs.put("page", b"x", ttl="1s")
    # A worker that knows no place for blobs.
    harness.app.wiring.bound.blobs = "nowhere://blobs"
    for _ in range(2):
        page.using(tags=("x",)).enqueue()
        harness.advance("1d")

    assert harness.app.read("select * from duework_job where task = 'page'") == []
    assert harness.app.read("select * from duework_label") == []
    said = [each.message for each in caplog.records if "housekeeping" in each.message]
    assert len(said) == 1
    assert said[0].startswith("the housekeeping of blobs failed: UsageError")
