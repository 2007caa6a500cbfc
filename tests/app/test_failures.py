"""Why a job failed: in its parts, raised to who asks for its value, told to hooks and to the log."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from duework import App, Cancel, Fail, Failure, JobCancelled, JobFailed, facts
from duework.kernel.failures.failure import read_failure
from duework.testing import Harness


class Declined(Exception):
    """An error of the user's own."""


def charge(card: dict[str, str]) -> None:
    try:
        card["number"]
    except KeyError as error:
        raise Declined("no such card") from error


def test_a_failure_keeps_class_message_trace_and_cause(harness: Harness) -> None:
    @harness.app.task
    async def pay() -> None:
        charge({})

    job = pay.enqueue()
    harness.drain()

    failure = job.refresh().failure
    assert failure is not None
    assert (failure.type, failure.message) == (f"{__name__}.Declined", "no such card")
    assert failure.traceback[-1].endswith("in charge")
    assert failure.cause is not None
    assert (failure.cause.type, failure.cause.message) == ("builtins.KeyError", "'number'")
    assert failure.cause.cause is None
    assert str(job.refresh().error).startswith("Declined: no such card\n")
    assert [each.failure for each in job.attempts()] == [failure]


def test_a_job_that_says_fail_has_a_reason_and_no_class(harness: Harness) -> None:
    @harness.app.task
    async def say() -> None:
        raise Fail("example.com: refused")

    @harness.app.task
    async def say_from() -> None:
        raise Fail("refused") from LookupError("it has gone")

    said, why = say.enqueue(), say_from.enqueue()
    harness.drain()

    assert said.refresh().failure == Failure(None, "example.com: refused")
    caused = Failure("builtins.LookupError", "it has gone")
    assert why.refresh().failure == Failure(None, "refused", (), caused)


def test_a_job_without_failure_has_none(harness: Harness) -> None:
    @harness.app.task
    async def work(cancel: bool) -> None:
        if cancel:
            raise Cancel("no longer")

    waiting, done, cancelled = (
        work.using(delay="1h").enqueue(False),
        *map(work.enqueue, (False, True)),
    )
    harness.drain()

    assert [job.refresh().failure for job in (waiting, done, cancelled)] == [None] * 3


def test_causes_that_go_round_in_a_circle_are_bounded(harness: Harness) -> None:
    @harness.app.task
    async def circle() -> None:
        one, two = ValueError("x" * 10_000), ValueError("y" * 10_000)
        one.__cause__, two.__cause__ = two, one
        raise one

    job = circle.enqueue()
    harness.drain()

    text = str(job.refresh().error)
    assert text.count("caused by") == 3
    assert len(text) < 4000


def test_the_result_of_a_failed_job_raises_and_so_does_its_value(harness: Harness) -> None:
    @harness.app.task
    async def divide(n: int) -> int:
        if n < 0:
            raise Cancel("negative")
        return 12 // n

    good, bad, ugly = divide.enqueue(4), divide.enqueue(0), divide.enqueue(-1)
    assert bad.result is None
    harness.drain()

    assert good.value(timeout="5s") == asyncio.run(good.avalue("5s")) == 3
    with pytest.raises(JobFailed, match="ZeroDivisionError") as raised:
        bad.refresh().result  # noqa: B018 - it raises
    assert raised.value.failure == bad.refresh().failure
    for ask in (bad.value, lambda: asyncio.run(bad.avalue())):
        with pytest.raises(JobFailed, match="divide has failed: ZeroDivisionError"):
            ask()
    with pytest.raises(JobCancelled, match="negative"):
        ugly.value()


def test_hooks_get_the_exception_itself(harness: Harness) -> None:
    told: list[facts.JobSettled] = []
    harness.app.on_fact(lambda f: told.append(f) if isinstance(f, facts.JobSettled) else None)
    errors = [Declined("first"), Declined("second")]

    @harness.app.task(retries=1, backoff="1s")
    async def pay() -> None:
        raise errors[len(told)]

    pay.enqueue()
    harness.advance("1m")

    mine = [each for each in told if each.task == "pay"]
    assert [each.exception for each in mine] == errors
    assert [each.kind for each in mine] == ["retry", "failed"]


def test_hooks_get_the_error_of_an_effect_too(harness: Harness) -> None:
    told: list[Any] = []
    harness.app.on_fact(lambda f: told.append(f) if isinstance(f, facts.JobSettled) else None)

    @harness.app.task
    def write() -> None: ...

    @write.settled
    def after(tx: Any, job: Any, outcome: str) -> None:
        if outcome == "done":
            raise Declined("in the settle")

    write.enqueue()
    harness.drain()

    assert [str(each.exception) for each in told if each.task == "write"] == ["in the settle"]


def _failing(app: App) -> Any:
    @app.task
    async def pay() -> None:
        charge({"password": "hunter2-hunter2"})

    return pay


def _logged(caplog: pytest.LogCaptureFixture) -> logging.LogRecord:
    [record] = [each for each in caplog.records if each.levelno == logging.ERROR]
    return record


def test_a_worker_inside_a_program_logs_what_failed(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    pay = _failing(app)

    async def program() -> None:
        async with app.running():
            await (await pay.aenqueue()).await_("10s")

    asyncio.run(program())

    record = _logged(caplog)
    assert record.name == "duework"
    assert "failed for good" in record.getMessage()
    assert record.exc_info is not None
    assert record.exc_info[0] is Declined
    text = logging.Formatter().format(record)
    assert "KeyError: 'number'" in text
    assert text.splitlines()[-1].endswith("Declined: no such card")
    assert "coroutines.py" not in text


def test_a_worker_of_a_web_application_logs_what_failed(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    pay = _failing(app)

    with TestClient(Starlette(lifespan=app.lifespan)):
        pay.enqueue().wait("10s")

    assert "Declined: no such card" in logging.Formatter().format(_logged(caplog))


def test_what_was_opened_as_a_secret_is_not_in_the_log(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task
    def leak() -> None:
        raise Declined("with\x1b[31m password=hunter2-hunter2")

    async def program() -> None:
        async with app.running():
            await (await leak.aenqueue()).await_("10s")

    asyncio.run(program())

    text = logging.Formatter().format(_logged(caplog))
    assert "hunter2" not in text
    assert "\x1b" not in text


def _work_off(app: App, count: int, caplog: pytest.LogCaptureFixture, level: str) -> list[Any]:
    """The facts in the log of a worker that has done that many jobs."""

    @app.task
    async def greet(n: int) -> None: ...

    async def program() -> None:
        async with app.running():
            jobs = await greet.aenqueue_many([(n,) for n in range(count)])
            for job in jobs:
                await job.await_("20s")

    with caplog.at_level(level, "duework"):
        asyncio.run(program())
    return [vars(record)["fact"] for record in caplog.records if "fact" in vars(record)]


def test_jobs_that_go_well_are_summed_up_and_have_no_line_each(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    seen = _work_off(app, 60, caplog, "INFO")

    assert [each for each in seen if isinstance(each, facts.JobSettled | facts.JobStarted)] == []
    assert sum(each.done for each in seen if isinstance(each, facts.Traffic)) == 60
    assert isinstance(seen[-1], facts.WorkerStopped)


def test_each_job_has_its_lines_for_who_asks(app: App, caplog: pytest.LogCaptureFixture) -> None:
    seen = _work_off(app, 3, caplog, "DEBUG")

    done = [each.kind for each in seen if isinstance(each, facts.JobSettled)]
    assert done == ["done"] * 3
    assert len([each for each in seen if isinstance(each, facts.JobStarted)]) == 3


def test_hooks_are_told_of_each_job_whatever_is_logged(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[facts.Fact] = []
    app.on_fact(told.append)
    _work_off(app, 3, caplog, "ERROR")

    assert len([each for each in told if isinstance(each, facts.JobSettled)]) == 3
    assert len([each for each in told if isinstance(each, facts.JobStarted)]) == 3
    assert not [each for each in told if isinstance(each, facts.Traffic)]


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        ("KeyError: 1\n  at a.py:1 in f", Failure("builtins.KeyError", "1", ("at a.py:1 in f",))),
        ("KeyError\n  at a.py:1 in f", Failure("builtins.KeyError", "", ("at a.py:1 in f",))),
        ("KeyError: 1", Failure(None, "KeyError: 1")),
        ("", Failure(None, "")),
        ("A: two\nlines\n  class x.A", Failure("x.A", "two\nlines")),
    ],
)
def test_what_is_stored_is_read_back(text: str, failure: Failure) -> None:
    assert read_failure(text) == failure
