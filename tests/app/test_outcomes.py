"""What a task may do: return, raise, snooze, fail, cancel; and how attempts are remembered."""

from __future__ import annotations

import pytest

from duework import Cancel, Fail, Job, Retry, Run, Snooze, Throttled
from duework.kernel.error_text import redact
from duework.testing import Harness

OUTCOMES = {
    "snooze": (Snooze("1h"), "open", 0),
    "throttled": (Throttled("1h"), "open", 0),
    "retry": (Retry("1h", "not yet"), "open", 1),
    "fail": (Fail("no good"), "failed", 1),
    "cancel": (Cancel("not wanted"), "cancelled", 0),
}


@pytest.mark.parametrize("how", ["returned", "raised"])
@pytest.mark.parametrize("name", OUTCOMES)
def test_an_outcome_may_be_returned_or_raised_from_deep_code(
    harness: Harness, name: str, how: str
) -> None:
    outcome, state, failures = OUTCOMES[name]

    def deep(levels: int) -> None:
        if levels == 0:
            raise outcome
        deep(levels - 1)

    @harness.app.task(retries=5)
    def work() -> object:
        if how == "raised":
            deep(20)
        return outcome

    job = work.enqueue()
    harness.drain()

    seen = job.refresh()
    assert (seen.state, seen.failures) == (state, failures)
    if state == "open":
        assert seen.due == harness.now + 3_600_000
    if name in {"fail", "cancel", "retry"}:
        assert seen.error == str(outcome)


def test_a_snoozed_job_comes_back_and_burns_no_retry(harness: Harness) -> None:
    runs: list[int] = []

    @harness.app.task
    async def poll(run: Run) -> str | Snooze:
        runs.append(run.attempt)
        return "ready" if len(runs) == 50 else Snooze("30s")

    job = poll.enqueue()
    harness.advance("1h")

    assert (job.refresh().state, job.refresh().result) == ("done", "ready")
    assert runs == [1] * 50
    assert job.attempts() == []


def test_an_annotation_may_name_values_and_outcomes(harness: Harness) -> None:
    @harness.app.task
    async def several(n: int) -> str | int | Snooze | Fail | None:
        return "word" if n == 1 else n

    @harness.app.task
    async def only() -> Cancel:
        return Cancel("no")

    @harness.app.task
    async def wrong() -> int | Snooze:
        return "word"  # type: ignore[return-value]

    jobs = several.enqueue(1), several.enqueue(2), only.enqueue(), wrong.enqueue()
    harness.drain()

    assert [job.refresh().state for job in jobs] == ["done", "done", "cancelled", "failed"]
    assert [job.refresh().result for job in jobs[:2]] == ["word", 2]


def test_fail_ends_a_job_whatever_retries_are_left(harness: Harness) -> None:
    @harness.app.task(retries=10, backoff="1s")
    async def work() -> None:
        raise Fail("the address does not exist")

    job = work.enqueue()
    harness.advance("1h")

    assert job.refresh().state == "failed"
    assert [attempt.error for attempt in job.attempts()] == ["the address does not exist"]


def test_retry_has_its_own_delay_and_counts_against_retries(harness: Harness) -> None:
    @harness.app.task(retries=1, backoff="1m")
    async def work() -> Retry:
        return Retry("10m", "come back later")

    job = work.enqueue()
    harness.drain()
    assert (job.refresh().due, job.refresh().error) == (harness.now + 600_000, "come back later")
    harness.advance("10m")

    assert (job.refresh().state, job.refresh().failures) == ("failed", 2)


def test_retry_without_a_delay_takes_that_of_the_task(harness: Harness) -> None:
    @harness.app.task(retries=1, backoff="7m")
    async def work() -> Retry:
        return Retry(why="again")

    job = work.enqueue()
    harness.drain()

    assert job.refresh().due == harness.now + 420_000


def test_a_result_that_does_not_fit_its_annotation_is_a_failure(harness: Harness) -> None:
    @harness.app.task
    async def count() -> int:
        return "many"  # type: ignore[return-value]

    @harness.app.task
    async def thing() -> object:
        return object()

    jobs = count.enqueue(), thing.enqueue()
    harness.drain()

    assert [job.refresh().state for job in jobs] == ["failed", "failed"]
    assert "int" in str(jobs[0].refresh().error)


def test_results_can_be_kept_for_a_time_for_ever_or_not_at_all(harness: Harness) -> None:
    @harness.app.task(keep="1h")
    async def hour() -> None: ...

    @harness.app.task(keep="forever")
    async def forever() -> None: ...

    @harness.app.task(keep=0)
    async def gone() -> None: ...

    @harness.app.task
    async def week() -> None: ...

    @harness.app.task
    async def failing() -> None:
        raise ValueError("kept until somebody looks")

    @harness.app.task(keep_failed="1h")
    async def failing_briefly() -> None:
        raise ValueError("not kept")

    for task in (hour, forever, gone, week, failing, failing_briefly):
        task.enqueue()
    harness.drain()
    assert {job.task for job in harness.app.jobs()} == {
        *("hour", "forever", "week", "failing", "failing_briefly"),
    }
    harness.app.worker()

    harness.clock.move_to(harness.now + 2 * 3_600_000)
    harness.drain()
    assert _left(harness) == {"forever", "week", "failing"}

    harness.clock.move_to(harness.now + 8 * 86_400_000)
    harness.drain()
    assert _left(harness) == {"forever", "failing"}


def _left(harness: Harness) -> set[str]:
    return {job.task for job in harness.app.jobs()} - {"duework.prune"}


# --- effects


def table(harness: Harness) -> None:
    with harness.app.transaction() as tx:
        tx.write("create table note (text varchar(100) primary key)")


def notes(harness: Harness) -> list[str]:
    return [row.text for row in harness.app.read("select text from note order by text")]


@pytest.mark.parametrize("name", OUTCOMES)
def test_effects_are_kept_by_any_returned_outcome_and_discarded_by_a_raise(
    harness: Harness, name: str
) -> None:
    table(harness)
    outcome = OUTCOMES[name][0]

    @harness.app.task(retries=5)
    async def work(run: Run, raised: bool) -> object:
        run.write("insert into note (text) values (:t)", t=f"raised {raised}")
        run.enqueue(other, raised)
        if raised:
            raise outcome
        return outcome

    @harness.app.task
    async def other(raised: bool) -> None: ...

    work.enqueue(raised=True)
    work.enqueue(raised=False)
    harness.drain()

    assert notes(harness) == ["raised False"]
    harness.refute_enqueued(other, True)
    harness.assert_enqueued(other, False)


def test_an_error_discards_effects_and_follow_ups(harness: Harness) -> None:
    table(harness)

    @harness.app.task
    async def work(run: Run) -> None:
        run.write("insert into note (text) values ('half')")
        run.enqueue(other)
        raise ValueError("no")

    @harness.app.task
    async def other() -> None: ...

    work.enqueue()
    harness.drain()

    assert notes(harness) == []
    harness.refute_enqueued(other)


@pytest.mark.parametrize("outcome", [None, Snooze("1h"), Cancel("no"), Retry("1h")], ids=repr)
def test_an_effect_that_fails_fails_the_attempt_whatever_was_returned(
    harness: Harness, outcome: object
) -> None:
    table(harness)

    @harness.app.task(retries=1, backoff="5m")
    async def work(run: Run) -> object:
        run.write("insert into note (text) values ('same')")
        run.write("insert into note (text) values ('same')")
        run.enqueue(other)
        return outcome

    @harness.app.task
    async def other() -> None: ...

    job = work.enqueue()
    harness.drain()

    seen = job.refresh()
    assert (seen.state, seen.failures, seen.due) == ("open", 1, harness.now + 300_000)
    assert len(job.attempts()) == 1
    harness.advance("5m")
    assert job.refresh().state == "failed"
    assert notes(harness) == []
    harness.refute_enqueued(other)


def test_what_a_commit_function_returns_becomes_the_result(harness: Harness) -> None:
    table(harness)

    @harness.app.task
    async def work(run: Run) -> int:
        run.write("insert into note (text) values ('one')")
        run.commit(lambda tx: len(tx.read("select * from note")))
        return 99

    job = work.enqueue()
    harness.drain()

    assert job.refresh().result == 1


def test_a_commit_function_may_enqueue_and_fail_the_attempt(harness: Harness) -> None:
    @harness.app.task
    async def work(run: Run, fail: bool) -> None:
        def commit(tx: object) -> None:
            tx.enqueue(other, fail)  # type: ignore[attr-defined]
            if fail:
                raise LookupError("changed my mind")

        run.commit(commit)

    @harness.app.task
    async def other(fail: bool) -> None: ...

    bad, good = work.enqueue(fail=True), work.enqueue(fail=False)
    harness.drain()

    assert (bad.refresh().state, good.refresh().state) == ("failed", "done")
    assert "LookupError: changed my mind" in str(bad.refresh().error)
    harness.refute_enqueued(other, True)
    assert harness.assert_enqueued(other, False).state == "done"


# --- reactions


def test_reactions_see_the_job_and_how_it_ended(harness: Harness) -> None:
    table(harness)

    @harness.app.task
    async def work(how: str) -> str:
        if how == "failed":
            raise ValueError("no")
        if how == "cancelled":
            raise Cancel("no")
        return how

    @work.settled
    def note(tx: object, job: Job[str], outcome: str) -> None:
        text = f"{job.arguments['how']} {job.state} {outcome} {job.failure or job.result}"
        tx.write("insert into note (text) values (:text)", text=text)  # type: ignore[attr-defined]

    for how in ("done", "failed", "cancelled"):
        work.enqueue(how)
    work.using(delay="1h").enqueue("by hand").cancel()
    harness.drain()

    assert notes(harness) == [
        "by hand cancelled cancelled None",
        "cancelled cancelled cancelled None",
        "done done done done",
        "failed failed failed ValueError: no",
    ]


def test_a_reaction_to_a_job_that_is_not_kept_sees_its_result(harness: Harness) -> None:
    seen: list[tuple[str, object]] = []

    @harness.app.task(keep=0)
    async def work() -> int:
        return 7

    @work.settled
    def note(tx: object, job: Job[int], outcome: str) -> None:
        seen.append((job.state, job.result))

    work.enqueue()
    harness.drain()

    assert seen == [("done", 7)]
    assert harness.app.jobs() == []


def test_a_reaction_that_raises_fails_the_attempt_and_reacts_to_that(harness: Harness) -> None:
    outcomes: list[str] = []

    @harness.app.task
    async def work() -> None: ...

    @work.settled
    def react(tx: object, job: Job[None], outcome: str) -> None:
        outcomes.append(outcome)
        if outcome == "done":
            raise ValueError("the ledger is closed")

    job = work.enqueue()
    harness.drain()

    assert job.refresh().state == "failed"
    assert "the ledger is closed" in str(job.refresh().error)
    assert outcomes == ["done", "failed"]


def test_a_reaction_that_always_raises_does_not_stop_the_worker(harness: Harness) -> None:
    @harness.app.task
    async def work() -> None:
        raise Cancel("no")

    @work.settled
    def react(tx: object, job: Job[None], outcome: str) -> None:
        raise ValueError("never")

    @harness.app.task
    async def other() -> None: ...

    first = work.enqueue()
    behind = work.using(after=first).enqueue()
    last = other.enqueue()
    harness.drain()

    states = [job.refresh().state for job in (first, behind, last)]
    assert states == ["cancelled", "cancelled", "done"]


# --- errors as text


HOSTILE = {
    "null": "a\0b",
    "surrogate": "a\ud800b",
    "endless": "x" * 10_000_000,
    "secret": "password=hunter2 and postgresql://ada:hunter2@db/x and Bearer hunter2hunter2",
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("raised", [ValueError, Fail, Cancel, Retry])
def test_hostile_error_texts_are_stored_bounded_and_without_secrets(
    harness: Harness, name: str, raised: type[Exception]
) -> None:
    text = HOSTILE[name]

    @harness.app.task
    def work() -> None:
        raise raised(text) if raised is not Retry else Retry("1s", text)

    job = work.enqueue()
    harness.drain()

    stored = str(job.refresh().error)
    assert job.refresh().state in {"failed", "cancelled"}
    assert len(stored) <= 4000
    assert "hunter2" not in stored
    assert "\0" not in stored


def test_an_exception_whose_message_cannot_be_read_is_a_failure_like_others(
    harness: Harness,
) -> None:
    class Hostile(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no message for you")

    @harness.app.task
    async def work() -> None:
        raise Hostile

    job = work.enqueue()
    harness.drain()

    assert job.refresh().state == "failed"
    assert str(job.refresh().error).startswith("Hostile: (its message could not be read)")


def test_the_reason_of_a_cancel_is_made_storable(harness: Harness) -> None:
    @harness.app.task
    async def work() -> None: ...

    job = work.using(delay="1h").enqueue()
    job.cancel("a\0b token=abcdefgh")

    assert job.refresh().error == redact("a\0b token=abcdefgh") == "a\\0b token=***"


def test_an_error_says_where_it_came_from(harness: Harness) -> None:
    def deep() -> None:
        raise LookupError("gone")

    @harness.app.task
    def work() -> None:
        deep()

    job = work.enqueue()
    harness.drain()

    error = str(job.refresh().error)
    assert error.startswith("LookupError: gone\n")
    assert error.splitlines()[-1].endswith("in deep")
    assert "duework/kernel" not in error
