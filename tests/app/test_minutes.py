"""Counters of minutes: what workers did, written with commits that happen anyway, and never twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from duework import Run, Snooze
from duework.db.database import Tx
from duework.kernel.job import Claimed, Ending, JobId, LaneName
from duework.kernel.lanes import Lanes
from duework.kernel.minutes.counters import KEEP_MS, LAGS, MINUTE, WRITE_EVERY_MS, Minutes
from duework.testing import Harness

Sums = dict[str, tuple[int, ...]]


def sums(harness: Harness, span: int = 1) -> Sums:
    rows = harness.app.read(
        "select task, sum(started), sum(done), sum(failed), sum(cancelled), sum(retried)"
        " from duework_minute where span = :span group by task",
        span=span,
    )
    return {row[0]: tuple(int(number) for number in list(row)[1:]) for row in rows}


def count(harness: Harness) -> int:
    return int(harness.app.read("select count(*) from duework_minute")[0][0])


def test_what_started_and_how_it_ended_is_counted_by_task_for_every_span(harness: Harness) -> None:
    @harness.app.task(retries=1, backoff=("1m",))
    async def work(number: int) -> None:
        if number < 2:
            raise ValueError(number)

    @harness.app.task
    async def stops(run: Run) -> None:
        harness.app.cancel(run.job.id)
        raise LookupError

    work.enqueue_many([(number,) for number in range(10)])
    stops.enqueue()
    harness.drain()
    harness.advance("1m")

    expected = {"work": (12, 8, 2, 0, 2), "stops": (1, 0, 0, 1, 0)}
    assert sums(harness, 1) == sums(harness, 15) == sums(harness, 0) == expected


def test_a_job_that_came_too_late_is_cancelled_without_a_start(harness: Harness) -> None:
    @harness.app.task
    async def work() -> None: ...

    work.using(expires="1m").enqueue()
    harness.clock.move_to(harness.now + 120_000)
    harness.drain()

    assert sums(harness) == {"work": (0, 0, 0, 1, 0)}


def test_start_lags_are_counted_of_first_attempts_alone(harness: Harness) -> None:
    @harness.app.task
    async def work() -> Snooze:
        return Snooze("1h")

    for _ in range(3):
        work.enqueue()
    harness.clock.move_to(harness.now + 500)
    harness.drain()
    harness.advance("2h")

    [row] = harness.app.read(
        "select started, lag, lag_most, lag_100ms, lag_1s, lag_10s from duework_minute where span = 0"
    )
    assert row[0] > 3
    assert tuple(row)[1:] == (1500, 500, 0, 3, 0)


def test_the_engines_own_jobs_and_an_idle_engine_write_none(harness: Harness) -> None:
    harness.app.wiring.arm_housekeeping()

    harness.advance("3h")

    assert count(harness) == 0


def test_counters_are_kept_for_a_week_and_sums_of_all_time_for_ever(harness: Harness) -> None:
    harness.app.wiring.arm_housekeeping()

    @harness.app.task
    async def work() -> None: ...

    work.enqueue()
    harness.drain()
    assert count(harness) == 3

    harness.advance(KEEP_MS / 1000 - 3600)
    assert count(harness) == 3
    harness.advance("3h")

    assert sums(harness, 0) == {"work": (1, 1, 0, 0, 0)}
    assert count(harness) == 1


def test_a_worker_that_dies_leaves_what_ran_to_be_counted_as_retried(harness: Harness) -> None:
    @harness.app.task
    async def work() -> None: ...

    work.enqueue()
    while not harness.crash_worker():
        pass
    harness.drain()

    started, done, *_ = sums(harness)["work"]
    assert done == 1
    assert started >= 1


class Transaction:
    """Counts what is written, and may be undone."""

    def __init__(self) -> None:
        self.after_commit: list[Callable[[], None]] = []
        self.rows: list[tuple[Any, ...]] = []

    def bulk(self, _statement: Any, rows: list[tuple[Any, ...]]) -> int:
        self.rows += rows
        return len(rows)


def test_counters_that_cannot_be_written_are_said_once_and_stop_no_job(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    @harness.app.task
    async def work() -> None: ...

    def rename(before: str, after: str) -> None:
        with harness.app.transaction() as tx:
            tx.write(f"alter table {before} rename to {after}")

    def said() -> int:
        return sum("the counters of minutes cannot be written" in each for each in caplog.messages)

    rename("duework_minute", "elsewhere")
    for _ in range(3):
        jobs = [work.enqueue() for _ in range(3)]
        harness.drain()
        assert {harness.app.job(job.id).state for job in jobs} == {"done"}
        harness.clock.move_to(harness.now + 61_000)
    assert said() == 1

    rename("elsewhere", "duework_minute")
    work.enqueue()
    harness.drain()
    assert sums(harness) == {"work": (1, 1, 0, 0, 0)}, "what was counted meanwhile is dropped"
    harness.clock.move_to(harness.now + 61_000)
    rename("duework_minute", "elsewhere")
    work.enqueue()
    harness.drain()
    assert said() == 2, "it is a new trouble"


@pytest.fixture
def minutes() -> Minutes:
    lanes = Lanes()
    for number, name in ((1, LaneName("q", "a")), (2, LaneName("q", "b"))):
        lanes._names[number] = name  # noqa: SLF001 - as if it had seen them
    return Minutes(lanes)


def claimed(number: int, lane: int = 1, at: int = 0) -> Claimed:
    name = "a" if lane == 1 else "b"
    nothing = (None, None, None, None, None)
    return Claimed(JobId(number), 1, lane, name, "", 0, at, 0, 0, *nothing, queue="q")


def transact(minutes: Minutes, now: int, start: int, end: int, *, commit: bool = True) -> int:
    """So many start and so many end; how many starts were written."""
    tx: Any = Transaction()
    minutes.claimed(tx, [claimed(number, at=now) for number in range(start)], now)
    over = [Ending(JobId(number), 1, 1, "done", lane=1) for number in range(end)]
    minutes.ended(tx, over, now)
    minutes.write(tx)
    if commit:
        for after in tx.after_commit:
            after()
    return sum(row[4] for row in tx.rows if row[0] == 0)


def test_counters_are_written_once_a_second_and_when_the_last_job_has_ended(
    minutes: Minutes,
) -> None:
    now = 100 * MINUTE
    assert transact(minutes, now, 5, 0) == 5
    assert transact(minutes, now + 1, 5, 1) == 0
    assert transact(minutes, now + WRITE_EVERY_MS, 1, 1) == 6
    assert transact(minutes, now + WRITE_EVERY_MS + 1, 2, 3) == 0
    assert transact(minutes, now + WRITE_EVERY_MS + 2, 0, 8) == 2
    assert transact(minutes, now + WRITE_EVERY_MS + 3, 1, 1) == 1


def test_what_was_undone_is_not_counted_and_what_was_not_written_is_not_lost(
    minutes: Minutes,
) -> None:
    now = 100 * MINUTE
    assert transact(minutes, now, 5, 0, commit=False) == 5
    assert transact(minutes, now, 5, 0) == 5
    assert transact(minutes, now + 1, 3, 0) == 0
    assert transact(minutes, now + WRITE_EVERY_MS, 2, 0, commit=False) == 5
    assert transact(minutes, now + WRITE_EVERY_MS, 2, 0) == 5
    assert transact(minutes, now + 2 * WRITE_EVERY_MS, 1, 0) == 1


def test_rows_are_written_in_the_order_of_their_keys(minutes: Minutes) -> None:
    tx: Any = Transaction()
    minutes.claimed(tx, [claimed(1, 2), claimed(2, 1)], 7 * MINUTE)
    minutes.claimed(tx, [claimed(3, 2), claimed(4, 1)], 6 * MINUTE)
    minutes.write(tx)

    keys = [row[:4] for row in tx.rows]
    assert keys == sorted(keys)
    assert len(keys) == 2 * (1 + 2 + 1)


@pytest.mark.parametrize("lag", [-5, 0, 1, *LAGS, *(each + 1 for each in LAGS)])
def test_a_lag_is_counted_in_the_bucket_of_its_limit(minutes: Minutes, lag: int) -> None:
    now = 100 * MINUTE
    tx: Any = Transaction()
    minutes.claimed(tx, [claimed(1, at=now - lag)], now)
    minutes.write(tx)

    total, most, *buckets = next(row for row in tx.rows if row[0] == 0)[9:]
    place = sum(lag > limit for limit in LAGS)
    assert (total, most) == (max(0, lag), max(0, lag))
    assert buckets == [int(each == place) for each in range(len(LAGS) + 1)]


def test_a_transaction_that_counts_nothing_carries_no_counters(minutes: Minutes) -> None:
    tx: Any = Transaction()
    checked: Tx = tx
    transact(minutes, 100 * MINUTE, 5, 0)
    transact(minutes, 100 * MINUTE + 1, 5, 0)

    minutes.write(checked)

    assert tx.rows == []
