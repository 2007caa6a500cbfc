"""Batches: counted by whoever ends a member, once each, and followed up once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from duework.clock import FOREVER
from duework.db.database import Tx
from duework.errors import UsageError
from duework.health.verify import verify
from duework.kernel import operate
from duework.kernel.batches import verbs as batches
from duework.kernel.job import DAY, KEEP, Claimed, Ending, LockedJob
from duework.kernel.run import Host, Run
from duework.kernel.settle import settle
from duework.kernel.surroundings.buffer import Buffer
from duework.kernel.tasks import Definition, Policy, Registry
from duework.worker.runner import Runner, RunningAttempt
from tests.support.checks import EVERY
from tests.support.kernel import LEASE, ME, OTHER, Kernel

COUNTS = "select total, done, failed, cancelled, gone from duework_batch where id = :id"


def counts(kernel: Kernel, batch: int) -> tuple[int, ...]:
    """total, done, failed, cancelled, gone; and that a recount says the same."""
    with kernel.reading() as tx:
        wrong = [
            each for each in verify(tx, EVERY) if each.violations and each.name.startswith("batch")
        ]
    assert wrong == []
    return tuple(kernel.read(COUNTS, id=batch)[0])


def reports(kernel: Kernel) -> list[Any]:
    return kernel.read("select id, state, batch, owner from duework_job where task = 'report'")


def settled_spied(kernel: Kernel, endings: Sequence[Ending]) -> list[tuple[str, Any]]:
    """Settle; every statement by name with its values."""

    def verb(tx: Tx) -> Any:
        return settle(tx, endings, kernel.settle_context())

    return kernel.spied(verb)[1]


def test_what_a_worker_settles_is_one_statement_for_all_members(kernel: Kernel) -> None:
    batch = kernel.batch("greet", 50).id
    registry = Registry()
    registry.add(Definition("greet", lambda: None, Policy()))
    runner = Runner(registry, cast("Host", None), ME, lambda: 0.5)
    attempts = [RunningAttempt(*attempt_of(registry, job)) for job in kernel.claim("greet")]

    endings = [runner.conclude(each, None, None, kernel.now) for each in attempts]
    seen = settled_spied(kernel, endings)

    assert [name for name, _ in seen] == ["settle_alike", "count", "complete"]
    assert counts(kernel, batch) == (50, 50, 0, 0, 0)


def attempt_of(registry: Registry, job: Claimed) -> tuple[Any, ...]:
    run = Run(job, cast("Host", None), buffer := Buffer())
    return job, registry.find("greet"), run, buffer, "async", [], {}, 0, 0.0


def test_members_are_counted_by_how_they_end(kernel: Kernel) -> None:
    batch = kernel.batch("greet", 6).id
    held = kernel.claim("greet")

    kernel.settle(
        kernel.done(held[0]),
        kernel.done(held[1], keep=0),
        kernel.ending(held[2], "failed", error="no"),
        kernel.ending(held[3], "cancelled", error="no"),
        kernel.ending(held[4], "retry", due=kernel.now, error="again"),
    )

    assert counts(kernel, batch) == (6, 2, 1, 1, 1)


def test_a_batch_is_written_once_for_a_whole_group_and_last(kernel: Kernel) -> None:
    first, second = kernel.batch("greet", 3).id, kernel.batch("greet", 3).id
    held = kernel.claim("greet")
    endings = [kernel.done(job) for job in reversed(held[:5])]
    endings.append(kernel.ending(held[5], "failed", error="no"))

    seen = settled_spied(kernel, endings)
    written = [(name, values) for name, values in seen if name in {"count", "complete"}]

    assert [values["id"] for name, values in written if name == "count"] == [first, second]
    before = seen[: seen.index(written[0])]
    assert {"settle_done", "rewrite"} <= {name for name, _ in before}
    assert all(name in {"count", "complete"} for name, _ in seen[len(before) :])


def test_the_follow_up_comes_with_the_last_member_and_only_once(kernel: Kernel) -> None:
    batch = kernel.batch("greet", 3, then="report").id
    held = kernel.claim("greet")

    kernel.settle(kernel.done(held[0]), kernel.ending(held[1], "failed", error="no"))
    assert reports(kernel) == []
    answers = kernel.settle(kernel.ending(held[2], "cancelled", error="no"))

    assert [answer.linked for answer in answers if answer] == [True]
    [report] = reports(kernel)
    assert (report.state, report.batch, report.owner) == ("open", None, None)
    [taken] = kernel.claim("report")
    assert taken.id == report.id
    kernel.settle(kernel.done(taken))
    assert counts(kernel, batch) == (3, 1, 1, 1, 0)
    assert len(reports(kernel)) == 1


def test_who_lost_a_member_does_not_count_it(kernel: Kernel) -> None:
    batch = kernel.batch("greet", 2, then="report").id
    held = kernel.claim("greet")
    kernel.now += LEASE
    kernel.recover(crashed=False)
    again = kernel.claim("greet", worker=OTHER)

    answers = kernel.settle(*[kernel.done(job) for job in held])
    assert answers == [None, None]
    assert counts(kernel, batch) == (2, 0, 0, 0, 0)
    kernel.settle(*[kernel.done(job, worker=OTHER) for job in again])

    assert counts(kernel, batch) == (2, 2, 0, 0, 0)
    assert len(reports(kernel)) == 1


@pytest.mark.parametrize("keep", [KEEP, 0])
def test_a_settle_that_is_told_twice_counts_once(kernel: Kernel, keep: int) -> None:
    batch = kernel.batch("greet", 3, then="report").id
    held = kernel.claim("greet")

    kernel.settle(kernel.done(held[0], keep=keep))
    # Its answer was lost: the worker tries again, now with more.
    kernel.settle(kernel.done(held[0], keep=keep), kernel.done(held[1], keep=keep))

    assert counts(kernel, batch)[:2] == (3, 2)
    assert reports(kernel) == []


def test_an_ending_that_does_not_know_its_batch_is_counted_all_the_same(kernel: Kernel) -> None:
    batch = kernel.batch("greet", 2).id
    first, second = kernel.claim("greet")

    kernel.settle(kernel.done(first, batch=None), kernel.done(second, batch=None, keep=0))

    assert counts(kernel, batch) == (2, 2, 0, 0, 1)


def test_an_effect_or_reaction_that_fails_leaves_no_count_behind(kernel: Kernel) -> None:
    batch = kernel.batch("greet", 3, then="report").id
    first, second, third = kernel.claim("greet")

    def fails(*_: object) -> None:
        raise ZeroDivisionError

    def ended(held: Any, **more: Any) -> Ending:
        failed = kernel.ending(held, "failed", error="an effect failed")
        return kernel.done(held, **more).but(fallback=lambda _: failed)

    kernel.on_react = fails
    kernel.settle(ended(first, effects=(fails,)), ended(second, watched=True), kernel.done(third))

    assert counts(kernel, batch) == (3, 1, 2, 0, 0)
    assert len(reports(kernel)) == 1


def test_cancelling_counts_what_waits_now_and_what_runs_when_it_stops(kernel: Kernel) -> None:
    batch = kernel.batch("greet", 3, then="report").id
    [held] = kernel.claim("greet", free=1)
    members = [row.id for row in kernel.rows() if row.batch == batch]

    kernel.cancel(*members)
    assert counts(kernel, batch) == (3, 0, 0, 2, 0)
    kernel.settle(kernel.ending(held, "retry", due=kernel.now, error="stopped"))

    assert counts(kernel, batch) == (3, 0, 0, 3, 0)
    assert len(reports(kernel)) == 1


def test_many_are_cancelled_at_once_where_nobody_reacts(kernel: Kernel) -> None:
    batch = kernel.batch("greet", 4, then="report").id
    other = kernel.batch("greet", 1).id
    [held] = kernel.claim("greet", free=1)
    members = [row.id for row in kernel.rows() if row.task == "greet"]
    [behind] = kernel.enqueue(kernel.new("later", after=members[1]))

    def cancel(tx: Tx) -> list[str]:
        context = kernel.settle_context()
        return batches.cancel(tx, [*members, 999], context, why="enough", watched=False)

    answers = kernel.run(cancel)

    assert sorted(answers) == ["cancelled"] * 4 + ["cancelling"]
    assert counts(kernel, batch) == (4, 0, 0, 3, 0)
    assert counts(kernel, other) == (1, 0, 0, 1, 0)
    assert kernel.row(behind.id).state == "cancelled"
    assert kernel.row(members[2]).error == "enough"
    kernel.settle(kernel.done(held))
    assert counts(kernel, batch) == (4, 1, 0, 3, 0)
    assert len(reports(kernel)) == 1


def test_members_that_expire_or_crash_for_good_are_counted(kernel: Kernel) -> None:
    late = kernel.batch("late", 2, expires=kernel.now + 10).id
    killer = kernel.batch("killer", 1, then="report").id
    kernel.now += 10

    assert kernel.claim("late") == []
    for _ in range(6):
        assert len(kernel.claim("killer")) == 1
        kernel.now += LEASE
        kernel.recover(crashed=True)
        kernel.now += 10_000

    assert counts(kernel, late) == (2, 0, 0, 2, 0)
    assert counts(kernel, killer) == (1, 0, 1, 0, 0)
    assert len(reports(kernel)) == 1


def test_reviving_takes_the_count_back_and_a_second_end_fires_nothing(kernel: Kernel) -> None:
    batch = kernel.batch("greet", 2, then="report").id
    held = kernel.claim("greet")
    kernel.settle(kernel.done(held[0]), kernel.ending(held[1], "failed", error="no"))
    assert kernel.read("select due, settled from duework_batch")[0].settled == kernel.now

    kernel.revive(held[0].id, held[1].id)
    assert counts(kernel, batch) == (2, 0, 0, 0, 0)
    row = kernel.read("select due, settled from duework_batch")[0]
    assert (row.due, row.settled) == (FOREVER, None)
    kernel.settle(*[kernel.done(job) for job in kernel.claim("greet")])

    assert counts(kernel, batch) == (2, 2, 0, 0, 0)
    assert len(reports(kernel)) == 1


@pytest.mark.parametrize("then", [False, True])
def test_a_retry_opens_all_that_failed_and_fires_again_only_if_asked(
    kernel: Kernel, *, then: bool
) -> None:
    batch = kernel.batch("greet", 5, then="report").id
    held = kernel.claim("greet")
    # Somebody waits for one of them, so it is looked at by itself.
    [behind] = kernel.enqueue(kernel.new("later", after=held[2].id))
    failed = [kernel.ending(job, "failed", error="no") for job in held[:3]]
    kernel.settle(*failed, kernel.done(held[3]), kernel.ending(held[4], "cancelled", error="no"))

    assert kernel.retry_batch(batch, then=then) == 3
    assert counts(kernel, batch) == (5, 1, 0, 1, 0)
    assert kernel.retry_batch(batch, then=then) == 0
    again = kernel.claim("greet")
    assert [job.failures for job in again] == [0, 0, 0]
    kernel.settle(*[kernel.done(job) for job in again])

    assert counts(kernel, batch) == (5, 4, 0, 1, 0)
    assert len(reports(kernel)) == 1 + then
    assert kernel.row(behind.id).due == behind_at(kernel, behind.id)


def behind_at(kernel: Kernel, job: int) -> int:
    return kernel.row(job).at


def test_a_follow_up_that_is_wanted_again_has_to_be_there(kernel: Kernel) -> None:
    batch = kernel.batch("greet", 1).id

    with pytest.raises(UsageError, match="no follow-up"):
        kernel.retry_batch(batch, then=True)


def test_an_empty_batch_is_complete_at_once(kernel: Kernel) -> None:
    batch = kernel.batch("greet", 0, then="report").id

    assert counts(kernel, batch) == (0, 0, 0, 0, 0)
    assert len(reports(kernel)) == 1


def test_a_second_batch_with_the_same_key_is_not_made(kernel: Kernel) -> None:
    first = kernel.batch("greet", 2, key="night 7")
    second = kernel.batch("greet", 3, key="night 7")

    assert (first.existed, second.existed) == (False, True)
    assert second.id == first.id
    assert len(kernel.rows()) == 2
    assert counts(kernel, first.id)[0] == 2


def test_serial_members_run_one_at_a_time_in_their_order(kernel: Kernel) -> None:
    batch = kernel.batch("greet", 3, serial="s", then="report").id
    order = []

    for _ in range(3):
        [held] = kernel.claim("greet")
        order.append(held.payload)
        kernel.settle(kernel.done(held))

    assert order == ["[0]", "[1]", "[2]"]
    assert counts(kernel, batch) == (3, 3, 0, 0, 0)
    assert len(reports(kernel)) == 1


def test_a_batch_stays_until_its_last_member_is_pruned(kernel: Kernel) -> None:
    batch = kernel.batch("greet", 3, keep=1000).id
    held = kernel.claim("greet")
    kernel.settle(kernel.done(held[0], keep=5000), kernel.done(held[1], keep=5000))
    kernel.now += 10_000
    kernel.prune()
    assert counts(kernel, batch) == (3, 2, 0, 0, 2), "unfinished: kept, whatever its age"

    kernel.settle(kernel.ending(held[2], "failed", error="no", keep=None))
    kernel.now += 10_000
    kernel.prune()
    assert counts(kernel, batch) == (3, 2, 1, 0, 2), "a failed member is still there"

    def purge(tx: Tx) -> int:
        return operate.purge(tx, [held[2].id], kernel.settle_context())

    kernel.run(purge)
    assert counts(kernel, batch) == (3, 2, 1, 0, 3)
    kernel.now += DAY
    kernel.prune()

    assert kernel.read("select id from duework_batch") == []


def test_a_follow_up_whose_id_was_taken_meanwhile_gets_another(kernel: Kernel) -> None:
    batch = kernel.batch("greet", 1, then="report").id
    taken = kernel.read("select then_job from duework_batch")[0].then_job
    copy = "update duework_job set id = :id where task = 'other'"
    kernel.enqueue(kernel.new("other"))
    kernel.run(lambda tx: tx.write(copy, id=taken))

    kernel.settle(*[kernel.done(job) for job in kernel.claim("greet")])

    [report] = reports(kernel)
    assert report.id == kernel.read("select then_job from duework_batch")[0].then_job != taken
    assert counts(kernel, batch) == (1, 1, 0, 0, 0)


@pytest.mark.parametrize(
    "damage",
    [
        "done = 7",
        "total = -1",
        "then_task = null",
        "then_payload = null, then_lane = null",
        "gone = 9",
    ],
)
def test_a_damaged_batch_stops_nobody_and_is_found(kernel: Kernel, damage: str) -> None:
    kernel.batch("greet", 2, then="report")
    healthy = kernel.batch("greet", 1, then="report").id
    kernel.run(lambda tx: tx.write(f"update duework_batch set {damage} where id <> {healthy}"))

    answers = kernel.settle(*[kernel.done(job) for job in kernel.claim("greet")])

    assert [answer.kind for answer in answers if answer] == ["done"] * 3
    assert tuple(kernel.read(COUNTS, id=healthy)[0]) == (1, 1, 0, 0, 0)
    assert len(reports(kernel)) in {1, 2}
    if "then" not in damage:
        with kernel.reading() as tx:
            assert any(each.violations for each in verify(tx, EVERY))


def test_reactions_see_members_like_any_job(kernel: Kernel) -> None:
    kernel.batch("greet", 1)
    seen: list[int | None] = []

    def note(_tx: Tx, row: LockedJob, _ending: Ending) -> None:
        seen.append(row.batch)

    kernel.on_react = note
    [held] = kernel.claim("greet")
    kernel.settle(kernel.done(held, watched=True))

    assert seen == [held.batch]
    assert held.batch is not None
