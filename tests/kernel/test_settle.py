"""Settling: the fence, the outcome, effects and reactions, and what becomes of the neighbours."""

from __future__ import annotations

import time
from typing import Any

import pytest

from duework.clock import FOREVER
from duework.db.database import Tx
from duework.db.queries import Statement
from duework.errors import DatabaseError
from duework.kernel import settle as settling
from duework.kernel.error_text import ERROR_LIMIT
from duework.kernel.job import Claimed, Ending
from tests.support.kernel import LEASE, ME, OTHER, Kernel


@pytest.fixture
def notes(kernel: Kernel) -> Kernel:
    """A kernel with a table of the user's own."""
    with kernel.database.transaction() as tx:
        tx.write("create table note (text varchar(200) primary key)")
    return kernel


def note(text: str) -> Any:
    return lambda tx: tx.write("insert into note (text) values (:text)", text=text) and None


def texts(kernel: Kernel) -> list[str]:
    return [row.text for row in kernel.read("select text from note order by text")]


def claimed(kernel: Kernel, count: int = 1, **more: Any) -> list[Claimed]:
    kernel.enqueue(*[kernel.new(**more) for _ in range(count)])
    return kernel.claim("greet")


def falling_to(kind: Any, **more: Any) -> Any:
    """What `Ending.fallback` is for: the ending of an attempt whose effects failed."""

    def make(ending: Ending) -> Ending:
        return ending.but(
            fallback=lambda error: ending.but(kind=kind, error=str(error), result=None, **more)
        )

    return make


# --- many that end alike


def test_of_many_that_end_alike_none_is_done_that_was_taken_over_meanwhile(kernel: Kernel) -> None:
    held = claimed(kernel, 25)
    kernel.now += LEASE + 1
    kernel.recover(crashed=False)
    again = kernel.claim("greet", free=3)

    assert kernel.settle(*[kernel.done(job) for job in held]) == [None] * 25
    assert {kernel.row(job.id).fence for job in again} == {2}
    assert None not in kernel.settle(*[kernel.done(job) for job in again])


def test_one_that_was_taken_over_takes_none_of_those_that_end_alike_with_it(kernel: Kernel) -> None:
    held = claimed(kernel, 25)
    taken = held[7].id
    kernel.run(lambda tx: tx.write("update duework_job set fence = 9 where id = :id", id=taken))

    written = kernel.settle(*[kernel.done(job) for job in held])

    assert [ending is None for ending in written] == [place == 7 for place in range(25)]
    assert kernel.row(taken).state == "open"


def test_results_and_retention_of_jobs_that_end_together_stay_their_own(kernel: Kernel) -> None:
    held = claimed(kernel, 40)
    endings = [
        kernel.done(job, result=f"{place % 3}", keep=1000 * (place % 2) + 1000)
        for place, job in enumerate(held[:38])
    ]
    endings += [kernel.done(held[38], result='"alone"'), kernel.done(held[39], keep=None)]

    written = kernel.settle(*endings)

    assert [ending and ending.id for ending in written] == [job.id for job in held]
    for ending in endings:
        row = kernel.row(ending.id)
        until = FOREVER if ending.keep is None else kernel.now + ending.keep
        assert (row.state, row.result, row.due) == ("done", ending.result, until)


def test_a_job_that_others_wait_for_is_not_settled_with_those_that_end_alike(
    kernel: Kernel,
) -> None:
    first = kernel.enqueue(*[kernel.new() for _ in range(20)])
    [behind] = kernel.enqueue(kernel.new(after=first[7].id))

    kernel.settle(*[kernel.done(job) for job in kernel.claim("greet")])

    assert [job.id for job in kernel.claim("greet")] == [behind.id]


# --- outcomes


def test_a_done_job_keeps_its_result_until_its_retention_is_over(kernel: Kernel) -> None:
    [held] = claimed(kernel)

    kernel.now += 10
    [written] = kernel.settle(kernel.done(held, result='"hello"', keep=5000))

    row = kernel.row(held.id)
    assert written is not None
    assert (row.state, row.result, row.worker) == ("done", '"hello"', None)
    assert (row.settled, row.due) == (kernel.now, kernel.now + 5000)


def test_a_job_kept_for_ever_is_due_for_pruning_never(kernel: Kernel) -> None:
    [held] = claimed(kernel)

    kernel.settle(kernel.done(held, keep=None))

    assert kernel.row(held.id).due == FOREVER


@pytest.mark.parametrize("outcome", ["done", "failed", "cancelled"])
def test_a_job_that_is_not_kept_is_deleted_at_its_settle(kernel: Kernel, outcome: Any) -> None:
    [held] = claimed(kernel)

    [written] = kernel.settle(kernel.ending(held, outcome, error="no", keep=0))

    assert written is not None
    assert kernel.rows() == []
    assert kernel.read("select * from duework_attempt") == []


def test_a_retry_counts_a_failure_and_waits(kernel: Kernel) -> None:
    [held] = claimed(kernel)

    kernel.settle(kernel.ending(held, "retry", due=kernel.now + 60_000, error="no"))

    row = kernel.row(held.id)
    assert (row.state, row.failures, row.error) == ("open", 1, "no")
    assert (row.due, row.worker) == (kernel.now + 60_000, None)


@pytest.mark.parametrize("outcome", ["snooze", "released", "lost"])
def test_being_put_off_handed_back_or_lost_counts_no_failure(kernel: Kernel, outcome: Any) -> None:
    [held] = claimed(kernel)

    kernel.settle(kernel.ending(held, outcome, due=kernel.now))

    row = kernel.row(held.id)
    assert (row.state, row.failures, row.crashes, row.due) == ("open", 0, 0, kernel.now)


def test_a_done_job_forgets_the_error_of_the_attempt_before(kernel: Kernel) -> None:
    [held] = claimed(kernel)
    kernel.settle(kernel.ending(held, "retry", due=kernel.now, error="no"))

    kernel.settle(kernel.done(*kernel.claim("greet")))

    assert (kernel.row(held.id).error, kernel.row(held.id).failures) == (None, 1)


# --- the fence


@pytest.mark.parametrize("outcome", ["done", "retry", "snooze", "failed", "cancelled", "released"])
def test_an_attempt_that_lost_its_fence_writes_nothing(notes: Kernel, outcome: Any) -> None:
    [old] = claimed(notes)
    notes.now += LEASE
    notes.recover(crashed=False)
    [new] = notes.claim("greet", worker=ME)
    before = notes.row(old.id)

    ending = notes.ending(old, outcome, due=1, error="late", effects=(note("late"),), watched=True)
    answers = notes.settle(ending)

    assert answers == [None]
    assert notes.row(old.id) == before
    assert texts(notes) == []
    assert notes.reacted == []
    assert new.fence == old.fence + 1


def test_the_fence_holds_also_for_the_bulk_of_plain_endings(kernel: Kernel) -> None:
    [old] = claimed(kernel)
    kernel.settle(kernel.ending(old, "released"))
    kernel.claim("greet")

    assert kernel.settle(kernel.done(old)) == [None]
    assert kernel.settle(kernel.done(old, keep=0)) == [None]
    assert kernel.row(old.id).state == "open"


def test_the_worker_is_checked_as_well_as_the_fence(kernel: Kernel) -> None:
    [held] = claimed(kernel)

    assert kernel.settle(kernel.done(held, OTHER)) == [None]
    assert kernel.row(held.id).worker == ME


def test_a_job_cannot_be_settled_twice(kernel: Kernel) -> None:
    [held] = claimed(kernel)
    kernel.settle(kernel.done(held, result="1"))

    assert kernel.settle(kernel.ending(held, "failed", error="no")) == [None]
    assert kernel.row(held.id).result == "1"


@pytest.mark.parametrize("keep", [0, 5000])
def test_neighbours_of_one_that_lost_its_fence_commit(notes: Kernel, keep: int) -> None:
    held = claimed(notes, 6)
    notes.settle(notes.ending(held[2], "released"))
    notes.claim("greet", worker=OTHER)

    endings = [notes.done(each, keep=keep) for each in held]
    endings[4] = endings[4].but(effects=(note("four"),))
    answers = notes.settle(*endings)

    assert [answer is None for answer in answers] == [False, False, True, False, False, False]
    assert {row.id for row in notes.rows() if row.state == "open"} == {held[2].id}
    assert texts(notes) == ["four"]


# --- effects


def test_effects_are_written_in_the_same_transaction(notes: Kernel) -> None:
    [held] = claimed(notes)

    notes.settle(notes.done(held, effects=(note("a"), note("b"))))

    assert texts(notes) == ["a", "b"]
    assert notes.row(held.id).state == "done"


def test_what_an_effect_returns_becomes_the_result(notes: Kernel) -> None:
    [held] = claimed(notes)

    def count(tx: Tx) -> dict[str, int]:
        return {"notes": len(tx.read("select * from note"))}

    notes.settle(notes.done(held, effects=(note("a"), count), result='"other"'))

    assert notes.row(held.id).result == '{"notes":1}'


def test_an_effect_that_fails_fails_its_attempt_and_no_other(notes: Kernel) -> None:
    held = claimed(notes, 3)
    endings = [notes.done(each, effects=(note(f"n{each.id}"),)) for each in held]
    twice = (note("twice"), note("twice"))
    endings[1] = falling_to("failed", keep=None)(notes.done(held[1], effects=twice))

    answers = notes.settle(*endings)

    assert [answer.kind for answer in answers if answer] == ["done", "failed", "done"]
    assert [notes.row(each.id).state for each in held] == ["done", "failed", "done"]
    assert texts(notes) == [f"n{held[0].id}", f"n{held[2].id}"]


def test_an_effect_that_is_no_sql_fails_its_attempt_too(notes: Kernel) -> None:
    [held] = claimed(notes)

    def broken(_: Tx) -> None:
        raise ZeroDivisionError("by nought")

    retry = falling_to("retry", due=notes.now + 5)
    notes.settle(retry(notes.done(held, effects=(note("a"), broken))))

    row = notes.row(held.id)
    assert (row.state, row.failures, row.error) == ("open", 1, "by nought")
    assert texts(notes) == []


def test_effects_that_take_too_long_fail_their_attempt_and_no_other(
    notes: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settling, "EFFECT_LIMIT_MS", 50)
    held = claimed(notes, 3)
    fails = falling_to("failed", keep=None)
    endless = """with recursive c(n) as (select 1 union all select n + 1 from c where n < 400000000)
                 select count(*) from c"""
    endings = [
        fails(notes.done(held[0], effects=(note("slow"), lambda tx: tx.read(endless) and None))),
        fails(notes.done(held[1], effects=(note("busy"), lambda _: time.sleep(0.06)))),
        fails(notes.done(held[2], effects=(note("quick"),))),
    ]

    notes.settle(*endings)

    assert [notes.row(each.id).state for each in held] == ["failed", "failed", "done"]
    assert "50 ms" in str(notes.row(held[0].id).error)
    assert "50 ms" in str(notes.row(held[1].id).error)
    assert texts(notes) == ["quick"]


def test_effects_that_were_slow_once_are_not_at_fault(
    notes: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the process had stood still in the middle of its settle."""
    monkeypatch.setattr(settling, "EFFECT_LIMIT_MS", 500)
    held = claimed(notes, 3)
    fails = falling_to("failed", keep=None)
    pauses = {each.id: 0.6 for each in held}

    def stands_still(job: int) -> None:
        time.sleep(pauses.pop(job, 0))

    notes.on_react = lambda _, row, __: stands_still(row.id)
    effects = (note("a"), lambda _: stands_still(held[0].id), note("b"))

    answers = notes.settle(
        fails(notes.done(held[0], effects=effects)),
        fails(notes.done(held[1], effects=(note("c"),), watched=True)),
        fails(notes.done(held[2], effects=(note("d"),))),
    )

    assert [each and each.kind for each in answers] == ["done"] * 3
    assert [notes.row(each.id).state for each in held] == ["done"] * 3
    assert texts(notes) == ["a", "b", "c", "d"]


def test_statements_of_the_kernel_have_no_part_in_the_limit(
    notes: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settling, "EFFECT_LIMIT_MS", 50)
    [held] = claimed(notes)
    lanes = "with recursive c(n) as (select 1 union all select n + 1 from c where n < 400000)"
    slow = f"{lanes} select count(*) from c"
    statement = Statement("slow", slow, slow, ())
    took: list[float] = []

    def wait(tx: Tx) -> None:
        began = time.monotonic()
        while time.monotonic() - began < 0.1:
            tx.query(statement, {})
        took.append(time.monotonic() - began)

    fails = falling_to("failed", keep=None)
    notes.settle(fails(notes.done(held, effects=(note("a"), wait, note("b")))))

    assert (notes.row(held.id).state, len(took), texts(notes)) == ("done", 1, ["a", "b"])


def test_effects_have_two_seconds() -> None:
    assert settling.EFFECT_LIMIT_MS == 2000


def test_an_effect_without_a_fallback_is_an_error_of_the_caller(notes: Kernel) -> None:
    [held] = claimed(notes)

    with pytest.raises(DatabaseError):
        notes.settle(notes.done(held, effects=(note("a"), note("a"))))

    assert notes.row(held.id).worker == ME


# --- reactions


@pytest.mark.parametrize("outcome", ["done", "failed", "cancelled"])
def test_reactions_run_for_whatever_ends_a_job(kernel: Kernel, outcome: Any) -> None:
    [held] = claimed(kernel)

    kernel.settle(kernel.ending(held, outcome, error="no", watched=True))

    assert [(event.job, event.kind) for event in kernel.reacted] == [(held.id, outcome)]


@pytest.mark.parametrize("outcome", ["retry", "snooze", "released", "lost"])
def test_no_reaction_runs_for_a_job_that_goes_on(kernel: Kernel, outcome: Any) -> None:
    [held] = claimed(kernel)

    kernel.settle(kernel.ending(held, outcome, error="no", watched=True))

    assert kernel.reacted == []


def test_what_a_reaction_writes_commits_with_the_settle(notes: Kernel) -> None:
    [held] = claimed(notes)
    notes.on_react = lambda tx, row, ending: note(f"{row.id} {ending.kind}")(tx)

    notes.settle(notes.done(held, watched=True))

    assert texts(notes) == [f"{held.id} done"]


def test_a_reaction_that_fails_takes_back_the_ending_and_its_effects(notes: Kernel) -> None:
    [held] = claimed(notes)

    def react(tx: Tx, _: Any, ending: Ending) -> None:
        note(f"told of {ending.kind}")(tx)
        if ending.kind == "done":
            raise ValueError("no")

    notes.on_react = react
    fails = falling_to("failed", keep=None)
    notes.settle(fails(notes.done(held, effects=(note("effect"),), watched=True)))

    assert notes.row(held.id).state == "failed"
    assert texts(notes) == ["told of failed"]


def test_a_reaction_that_always_fails_does_not_keep_the_job_from_ending(notes: Kernel) -> None:
    [held] = claimed(notes)

    def react(*_: Any) -> None:
        raise ValueError("no")

    notes.on_react = react
    notes.settle(falling_to("failed", keep=None)(notes.done(held, watched=True)))

    assert notes.row(held.id).state == "failed"


def test_reactions_run_for_a_job_whose_effects_failed(notes: Kernel) -> None:
    [held] = claimed(notes)

    fails = falling_to("failed", keep=None)
    notes.settle(fails(notes.done(held, effects=(note("a"), note("a")), watched=True)))

    assert [event.kind for event in notes.reacted] == ["failed"]
    assert texts(notes) == []


# --- history


def test_a_job_that_succeeds_at_once_leaves_no_history(kernel: Kernel) -> None:
    kernel.settle(kernel.done(*claimed(kernel)))

    assert kernel.read("select * from duework_attempt") == []


def test_every_attempt_that_did_not_end_well_leaves_a_line(kernel: Kernel) -> None:
    [first] = claimed(kernel)
    kernel.now += 10
    kernel.settle(
        kernel.ending(first, "retry", due=kernel.now, error="one", started=kernel.now - 5)
    )
    [second] = kernel.claim("greet", worker=OTHER)
    kernel.settle(kernel.ending(second, "failed", OTHER, error="two", keep=None))

    rows = kernel.read(
        "select fence, outcome, worker, started, ended, error from duework_attempt order by fence"
    )
    assert [tuple(row) for row in rows] == [
        (1, "retry", ME, kernel.now - 5, kernel.now, "one"),
        (2, "failed", OTHER, None, kernel.now, "two"),
    ]


def test_error_texts_are_bounded_in_the_row_and_in_the_history(kernel: Kernel) -> None:
    [held] = claimed(kernel)

    kernel.settle(kernel.ending(held, "failed", error="x" * 1_000_000, keep=None))

    stored = str(kernel.row(held.id).error)
    [line] = kernel.read("select error from duework_attempt")
    assert len(stored) == len(line.error) == ERROR_LIMIT
    assert stored.endswith("…")


@pytest.mark.parametrize("error", [RecursionError, MemoryError])
def test_no_other_ending_is_written_where_stack_or_memory_ran_out(
    kernel: Kernel, error: type[Exception]
) -> None:
    [job] = kernel.enqueue(kernel.new())

    def run_out(*_: object) -> None:
        raise error("no more")

    kernel.on_react = run_out

    with pytest.raises(error):
        kernel.cancel(job.id)
    assert kernel.row(job.id).state == "open"
