"""Retries: how often, when, for which errors; and a month of them in no time."""

from __future__ import annotations

import pytest

from duework import Exponential, Run
from duework.testing import Harness

MINUTE = 60_000


def starts(harness: Harness, **options: object) -> list[int]:
    """When a task that always fails is started, in ms from the beginning."""
    begin, seen = harness.now, []

    @harness.app.task(**options)
    async def fail() -> None:
        seen.append(harness.now - begin)
        raise ValueError("no")

    fail.enqueue()
    harness.advance("31d")
    return seen


def test_without_retries_there_is_one_attempt(harness: Harness) -> None:
    assert starts(harness) == [0]


def test_a_list_of_delays_is_followed_and_its_last_one_repeated(harness: Harness) -> None:
    found = starts(harness, retries=5, backoff=("1m", "5m", "30m"))

    assert found == [each * MINUTE for each in (0, 1, 6, 36, 66, 96)]


def test_one_delay_serves_for_all(harness: Harness) -> None:
    assert starts(harness, retries=3, backoff="1h") == [each * 60 * MINUTE for each in range(4)]


def test_exponential_delays_grow_up_to_their_cap(harness: Harness) -> None:
    backoff = Exponential(first="1m", factor=2, cap="5m", jitter=0)

    found = starts(harness, retries=5, backoff=backoff)

    assert found == [each * MINUTE for each in (0, 1, 3, 7, 12, 17)]


def test_a_month_of_retries_passes_and_each_is_counted(harness: Harness) -> None:
    found = starts(harness, retries=100_000, backoff="4h")

    assert len(found) == 31 * 6 + 1


def test_every_failed_attempt_is_in_the_history_with_its_times(harness: Harness) -> None:
    begin = harness.now

    @harness.app.task(retries=2, backoff="1m")
    async def work(run: Run) -> int:
        if run.attempt < 3:
            raise ValueError(f"attempt {run.attempt}")
        return run.attempt

    job = work.enqueue()
    harness.advance("5m")

    lines = [(each.number, each.outcome, each.ended - begin) for each in job.attempts()]
    assert lines == [(1, "retry", 0), (2, "retry", MINUTE)]
    assert job.refresh().result == 3
    assert [str(each.error).splitlines()[0] for each in job.attempts()] == [
        "ValueError: attempt 1",
        "ValueError: attempt 2",
    ]


@pytest.mark.parametrize(
    ("options", "runs"),
    [
        ({"retry_on": LookupError}, 1),
        ({"retry_on": (LookupError, ValueError)}, 4),
        ({"give_up_on": ValueError}, 1),
        ({"give_up_on": LookupError}, 4),
        ({"retry_on": Exception, "give_up_on": (ValueError,)}, 1),
    ],
    ids=str,
)
def test_errors_that_are_not_worth_it_are_not_retried(
    harness: Harness, options: dict[str, object], runs: int
) -> None:
    assert len(starts(harness, retries=3, backoff="1s", **options)) == runs


def test_a_revived_job_has_all_its_retries_again(harness: Harness) -> None:
    runs: list[int] = []

    @harness.app.task(retries=1, backoff="1m")
    async def work(run: Run) -> None:
        runs.append(run.attempt)
        raise ValueError("no")

    job = work.enqueue()
    harness.advance("1h")
    assert job.refresh().state == "failed"

    job.retry()
    harness.advance("1h")

    assert runs == [1, 2, 1, 2]
    assert (job.refresh().state, job.refresh().failures) == ("failed", 2)


def test_a_crash_of_the_worker_burns_no_retry(harness: Harness) -> None:
    runs: list[int] = []

    @harness.app.task
    async def work(run: Run) -> None:
        runs.append(run.attempt)

    job = work.enqueue()
    assert harness.crash_worker(at=9)
    harness.advance("1h")

    assert job.refresh().state == "done"
    assert set(runs) == {1}
