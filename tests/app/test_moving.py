"""`job.move` and `job.run_now`: another time for a job that waits, and for no other."""

from __future__ import annotations

import pytest

from duework import Conflict, Job, NotFound
from duework.testing import Harness


def waiting(h: Harness, ran: list[str], **using: object) -> Job[None]:
    @h.app.task(retries=3, backoff="1h")
    def greet(name: str) -> None:
        ran.append(name)
        if name == "fails":
            raise ValueError(name)

    return greet.using(**using).enqueue("fails" if using.get("key") else "ada")


def test_a_job_that_waits_runs_now(harness: Harness) -> None:
    ran: list[str] = []
    job = waiting(harness, ran, delay="1d")
    harness.drain()
    assert ran == []

    assert job.run_now().phase == "ready"
    harness.drain()

    assert ran == ["ada"]


def test_a_retry_that_waits_runs_now_and_keeps_its_failures(harness: Harness) -> None:
    ran: list[str] = []
    job = waiting(harness, ran, key="k")
    harness.drain()

    job.run_now()
    harness.drain()

    assert ran == ["fails", "fails"]
    assert job.refresh().failures == 2


def test_a_job_that_waits_is_moved_to_a_delay_or_a_time(harness: Harness) -> None:
    job = waiting(harness, [], delay="1d")
    at = job.at

    assert job.move("2d").due == harness.clock.now() + 2 * 86_400_000
    moved = job.move(at="2040-01-01T00:00:00+00:00")

    assert moved.due_at.year == 2040
    assert moved.at == at


def test_what_has_ended_or_waits_for_another_job_is_not_moved(harness: Harness) -> None:
    job = waiting(harness, [], delay="1h")

    @harness.app.task
    def then() -> None: ...

    behind = then.using(after=job).enqueue()

    with pytest.raises(Conflict, match="waits for another job"):
        behind.run_now()
    harness.advance("1h")
    with pytest.raises(Conflict, match="is done; a retry opens it again"):
        job.run_now()
    with pytest.raises(NotFound):
        harness.app.move(10**9)


def test_what_runs_is_not_moved(harness: Harness) -> None:
    found: list[str] = []

    @harness.app.task
    def greet() -> None:
        with pytest.raises(Conflict) as error:
            job.run_now()
        found.append(str(error.value))

    job = greet.enqueue()
    harness.drain()

    assert found == [f"nothing was changed: job {job.id} runs already"]


def test_the_engines_own_jobs_are_not_moved(harness: Harness) -> None:
    @harness.app.task(every="1h")
    def hourly() -> None: ...

    harness.drain()
    own = [job for job in harness.app.jobs(own=True) if job.task.startswith("duework.")]

    assert own
    for job in own:
        with pytest.raises(Conflict, match="engine's own"):
            job.run_now()
