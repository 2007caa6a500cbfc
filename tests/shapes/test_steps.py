"""Steps: recorded once with their effects, freed while they wait, and shown when the code has changed."""

from __future__ import annotations

import asyncio
from contextlib import closing, suppress
from typing import Any

import pytest

from duework import (
    App,
    Conflict,
    NotFound,
    Run,
    Snooze,
    StepFailed,
    UsageError,
    WaitTimeout,
)
from duework.clock import VirtualClock
from duework.health.verify import verify
from duework.kernel.pruning import prune_round
from duework.kernel.transaction import inside
from duework.shapes.steps.flow import Flow
from duework.shapes.steps.verbs import StepRow
from duework.testing import Harness
from tests.support.checks import EVERY, is_sound

EFFECT = "create table effect (job bigint, what text)"
WRITE = "insert into effect (job, what) values (:job, :what)"


@pytest.fixture
def h(harness: Harness) -> Harness:
    with harness.app.transaction() as tx:
        tx.write(EFFECT)
    return harness


def effects(h: Harness) -> list[str]:
    return sorted(row.what for row in h.app.read("select what from effect"))


def tidy_up(h: Harness) -> None:
    prune_round(h.app.wiring.engine, 10)
    for shape in h.app.wiring.shapes:
        shape.prune()


def test_a_step_runs_once_and_its_record_answers_when_the_job_runs_again(h: Harness) -> None:
    calls: list[str] = []

    @h.app.task(retries=1, backoff="1s")
    async def order(run: Run, number: int) -> list[int]:
        async def charge(amount: int) -> int:
            calls.append("charge")
            run.write(WRITE, job=run.job.id, what="charged")
            return amount * 2

        def ship() -> int:
            calls.append("ship")
            return 7

        paid = await run.step("charge", charge, number)
        shipped = await run.step("ship", ship)
        calls.append("body")
        if run.attempt == 1:
            raise ConnectionError("after both steps")
        return [paid, shipped]

    job = order.enqueue(21)
    h.advance("1m")

    assert h.app.job(job.id).result == [42, 7]
    assert calls == ["charge", "ship", "body", "body"]
    assert effects(h) == ["charged"]
    flow = h.app.get_workflow(job.id)
    assert (flow.state, flow.done, flow.task) == ("ended", 2, "order")
    assert [(s.name, s.kind, s.state, s.result) for s in flow.steps()] == [
        ("charge", "step", "done", "42"),
        ("ship", "step", "done", "7"),
    ]
    is_sound(h)


def test_effects_of_a_step_that_fails_are_not_there_and_effects_outside_wait_for_the_end(
    h: Harness,
) -> None:
    seen: list[list[str]] = []

    @h.app.task
    async def order(run: Run) -> None:
        async def bad() -> None:
            run.write(WRITE, job=1, what="bad")
            raise ValueError("no")

        async def good() -> None:
            run.write(WRITE, job=1, what="good")
            run.enqueue(other)

        run.write(WRITE, job=1, what="outside")
        with pytest.raises(StepFailed):
            await run.step("bad", bad)
        await run.step("good", good)
        seen.append(effects(h))

    @h.app.task
    async def other(run: Run) -> None:
        run.write(WRITE, job=2, what="other")

    job = order.enqueue()
    h.drain()

    assert seen == [["good"]]
    assert effects(h) == ["good", "other", "outside"]
    assert [s.state for s in h.app.get_workflow(job.id).steps()] == ["failed", "done"]
    is_sound(h)


def test_a_failure_that_was_caught_is_the_same_when_the_job_runs_again(h: Harness) -> None:
    calls: list[str] = []

    @h.app.task
    async def order(run: Run) -> str:
        def flaky() -> None:
            calls.append("flaky")
            raise ValueError("no")

        try:
            await run.step("flaky", flaky)
        except StepFailed:
            await run.sleep("1h")
            return "without"
        return "with"

    job = order.enqueue()
    h.advance("2h")

    assert h.app.job(job.id).result == "without"
    assert calls == ["flaky"]
    is_sound(h)


def test_a_step_is_retried_by_itself_and_then_fails_the_job(h: Harness) -> None:
    calls: list[int] = []

    @h.app.task
    async def order(run: Run) -> None:
        async def flaky() -> None:
            calls.append(run.now - begun)
            raise ConnectionError("upstream")

        await run.step("flaky", flaky, retries=2, backoff=("10s", "1m"))

    begun = h.now
    job = order.enqueue()
    h.advance("5m")

    assert calls == [0, 10_000, 70_000]
    found = h.app.job(job.id)
    assert found.state == "failed"
    assert "upstream" in str(found.failure)
    h.app.revive(job.id)
    h.advance("1s")
    assert len(calls) == 4
    is_sound(h)


def test_sleeping_frees_the_worker_and_ends_when_it_was_to(h: Harness) -> None:
    times: list[int] = []

    @h.app.task
    async def remind(run: Run) -> None:
        await run.sleep("1h")
        times.append(run.now - begun)
        await run.sleep("1d")
        times.append(run.now - begun)

    begun = h.now
    job = remind.enqueue()
    h.drain()
    assert h.app.job(job.id).phase == "waiting"
    h.app.job(job.id)
    h.advance("2d")

    assert times[0] == 3_600_000
    assert times[-1] == 25 * 3_600_000
    assert [s.name for s in h.app.get_workflow(job.id).steps()] == ["sleep", "sleep#2"]
    is_sound(h)


def test_a_task_cannot_swallow_a_sleep(h: Harness) -> None:
    @h.app.task
    async def stubborn(run: Run) -> int:
        try:
            await run.sleep("1h")
        except BaseException:  # noqa: BLE001 - what a task may do
            return 1
        return 2

    job = stubborn.enqueue()
    h.drain()
    assert h.app.job(job.id).phase == "waiting"
    h.advance("1h")
    assert h.app.job(job.id).result == 2


def test_a_signal_before_or_during_the_wait_is_heard_once_by_each_workflow(h: Harness) -> None:
    @h.app.task
    async def approve(run: Run, order: str) -> list[Any]:
        first = await run.wait_for("approved", key=order)
        second = await run.wait_for("approved", key=order)
        return [first, second]

    h.app.signal("approved", "too early", key="a")
    h.advance("1s")
    one, two = approve.enqueue("a"), approve.enqueue("b")
    h.app.signal("approved", {"by": "ada"}, key="a")
    h.drain()
    assert h.app.job(one.id).phase == "waiting"
    with h.app.transaction() as tx:
        tx.signal("approved", {"by": "bob"}, key="a")
    h.drain()

    assert h.app.job(one.id).result == [{"by": "ada"}, {"by": "bob"}]
    assert h.app.job(two.id).phase == "waiting"
    is_sound(h)


def test_a_wait_ends_in_time_and_that_is_recorded(h: Harness) -> None:
    @h.app.task
    async def approve(run: Run) -> str:
        try:
            await run.wait_for("approved", timeout="1h")
        except WaitTimeout:
            await run.sleep("1h")
            return "late"
        return "in time"

    job = approve.enqueue()
    h.advance("90m")
    h.app.signal("approved")
    h.advance("1h")

    assert h.app.job(job.id).result == "late"
    assert [s.state for s in h.app.get_workflow(job.id).steps()] == ["failed", "done"]
    is_sound(h)


def test_a_task_signals_with_its_settle(h: Harness) -> None:
    @h.app.task
    async def waits(run: Run) -> Any:
        return await run.wait_for("done")

    @h.app.task(retries=1, backoff="1m")
    async def tells(run: Run) -> None:
        run.signal("done", run.attempt)
        if run.attempt == 1:
            raise ValueError("not yet")

    job = waits.enqueue()
    h.drain()
    tells.enqueue()
    h.drain()
    assert h.app.job(job.id).phase == "waiting"
    h.advance("2m")

    assert h.app.job(job.id).result == 2


def test_a_child_is_one_job_whose_result_its_parent_gets(h: Harness) -> None:
    @h.app.task
    async def double(number: int) -> int:
        if number < 0:
            raise ValueError("negative")
        return 2 * number

    @h.app.task
    async def parent(run: Run, number: int) -> int:
        value: int = await run.child("double", double.using(delay="1m"), number)
        more: int = await run.child("again", double, value)
        return more

    good, bad = parent.enqueue(3), parent.enqueue(-1)
    h.drain()
    assert h.app.job(good.id).phase == "waiting"
    h.advance("2m")

    assert h.app.job(good.id).result == 12
    assert h.app.job(bad.id).state == "failed"
    assert "negative" in str(h.app.job(bad.id).failure)
    assert len(h.app.jobs(task="double")) == 3
    is_sound(h)


def two_versions(h: Harness) -> tuple[Any, list[str], list[str]]:
    """A workflow that sleeps after its second step, whose code can be changed."""
    names, calls = ["a", "b", "c"], list[str]()

    @h.app.task(retries=3)
    async def flow(run: Run) -> str:
        for each in names:
            if each == "c":
                await run.sleep("1h", name="nap")
            await run.step(each, lambda each=each: calls.append(each))
        return "".join(names)

    return flow, names, calls


def test_a_recorded_step_that_is_not_reached_needs_attention_and_can_be_resumed(h: Harness) -> None:
    flow, names, calls = two_versions(h)
    job = flow.enqueue()
    h.drain()
    names[1] = "x"
    h.advance("2h")

    [found] = h.app.workflows("attention")
    assert found.job == job.id
    assert "'b'" in str(found.reason)
    assert h.app.job(job.id).state == "failed"
    assert calls == ["a", "b"]
    names[1] = "b"
    found.resume()
    h.drain()

    assert h.app.job(job.id).result == "abc"
    assert calls == ["a", "b", "c"]
    assert h.app.workflows("attention") == []
    is_sound(h)


def test_a_workflow_that_ends_before_its_records_do_needs_attention(h: Harness) -> None:
    flow, names, _ = two_versions(h)
    flow.enqueue()
    h.drain()
    del names[1:]
    h.advance("2h")

    assert len(h.app.workflows("attention")) == 1


def test_a_fork_goes_on_from_a_step_with_other_code(h: Harness) -> None:
    flow, names, calls = two_versions(h)
    job = flow.enqueue()
    h.drain()
    names[1] = "x"
    h.advance("2h")
    [found] = h.app.workflows("attention")
    with pytest.raises(NotFound, match="there are: a, b, nap"):
        found.fork("z")
    new = found.fork("b")
    found.cancel("forked")
    h.advance("2h")

    assert h.app.job(new).result == "axc"
    assert calls == ["a", "b", "x", "c"]
    assert h.app.job(job.id).state == "cancelled"
    assert h.app.get_workflow(job.id).state == "cancelled"
    is_sound(h)


def test_a_job_that_is_opened_again_after_its_end_begins_from_the_start(h: Harness) -> None:
    calls: list[int] = []

    @h.app.task
    async def flow(run: Run, number: int) -> None:
        await run.step("one", calls.append, number)
        if len(calls) < 3:
            # The same call again, and then another one.
            flow.using(key="k", when_running="again").enqueue(len(calls))

    flow.using(key="k").enqueue(1)
    h.drain()

    assert calls == [1, 1, 2]
    is_sound(h)


def test_outcomes_inside_a_step_are_the_jobs_own(h: Harness) -> None:
    calls: list[int] = []

    @h.app.task
    async def flow(run: Run) -> None:
        async def later() -> None:
            calls.append(run.now)
            if len(calls) == 1:
                raise Snooze("1m")

        await run.step("later", later)

    job = flow.enqueue()
    h.advance("2m")
    assert h.app.job(job.id).state == "done"
    assert len(calls) == 2


def test_steps_inside_steps_and_bad_names_are_refused(h: Harness) -> None:
    said: list[str] = []

    @h.app.task
    async def flow(run: Run) -> None:
        async def outer() -> None:
            await run.step("inner", lambda: 1)

        for call in (
            lambda: run.step("", lambda: 1),
            lambda: run.step("x", lambda: 1, retries=-1),
            lambda: run.child("k", flow.using(key="k")),
        ):
            try:
                await call()
            except UsageError as error:
                said.append(str(error))
        try:
            await run.step("outer", outer)
        except StepFailed as error:
            said.append(str(error))

    flow.enqueue()
    h.drain()
    assert len(said) == 4
    assert "has not ended" in said[-1]


def test_a_lease_that_was_lost_records_nothing(h: Harness) -> None:
    calls: list[int] = []

    @h.app.task
    async def flow(run: Run) -> None:
        async def slow() -> None:
            calls.append(1)
            run.write(WRITE, job=run.job.id, what="slow")
            if len(calls) == 1:
                # Another claim has taken it over meanwhile.
                with h.app.transaction() as tx:
                    tx.write(
                        "update duework_job set fence = fence + 1 where id = :id", id=run.job.id
                    )

        await run.step("slow", slow)

    job = flow.enqueue()
    h.drain()

    assert effects(h) == []
    assert h.app.read("select place from duework_step where job = :job", job=job.id) == []


def test_the_records_go_with_their_job_and_old_signals_by_themselves(h: Harness) -> None:
    @h.app.task(keep="1d")
    async def flow(run: Run) -> None:
        await run.step("one", lambda: None)

    flow.enqueue()
    h.app.signal("nobody", 1)
    h.advance("12h")
    tidy_up(h)
    assert len(h.app.workflows()) == 1
    h.advance("2d")
    tidy_up(h)
    assert h.app.workflows() == []
    assert h.app.read("select place from duework_step") == []
    assert len(h.app.read("select id from duework_signal")) == 1
    h.advance("30d")
    tidy_up(h)
    assert h.app.read("select id from duework_signal") == []
    assert h.app.read("select event from duework_signalled") == []


def test_what_is_not_there_or_runs_is_said(h: Harness) -> None:
    with pytest.raises(NotFound):
        h.app.get_workflow(7)
    said: list[str] = []

    @h.app.task
    async def flow(run: Run) -> None:
        await run.step("one", lambda: None)
        try:
            await asyncio.to_thread(h.app.get_workflow(run.job.id).fork, "one")
        except Conflict as error:
            said.append(str(error))

    flow.enqueue()
    h.drain()
    assert len(said) == 1


def test_a_signal_that_comes_between_the_look_and_the_settle_is_not_missed(
    h: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []

    def blind_at_first(self: Flow, row: StepRow, real: Any = Flow._heard) -> bool:  # noqa: SLF001 - between the two
        looks.append(1)
        found = bool(real(self, row))
        if len(looks) == 1:
            h.app.signal("go", 5)
        return found

    monkeypatch.setattr(Flow, "_heard", blind_at_first)

    @h.app.task
    async def flow(run: Run) -> Any:
        return await run.wait_for("go")

    job = flow.enqueue()
    h.drain()

    assert h.app.job(job.id).result == 5
    assert len(looks) == 2


def test_signals_and_waits_at_the_same_time_miss_nothing(app: App) -> None:
    count = 60

    @app.task
    async def flow(run: Run, number: int) -> Any:
        return await run.wait_for("go", key=str(number % 7))

    async def work() -> list[Any]:
        async with app.running():
            jobs = [flow.enqueue(number) for number in range(count)]

            def tell(key: int) -> None:
                app.signal("go", key, key=str(key))

            await asyncio.gather(*(asyncio.to_thread(tell, key) for key in range(7)))
            return [(await job.await_("30s")).result for job in jobs]

    assert asyncio.run(work()) == [number % 7 for number in range(count)]
    assert [each for each in app.admin.verify() if each.violations] == []


def test_verify_finds_steps_that_were_changed(h: Harness) -> None:
    @h.app.task
    async def flow(run: Run) -> Any:
        await run.step("one", lambda: 1)
        await run.step("two", lambda: 2)
        return await run.wait_for("go")

    def found() -> set[str]:
        return {each.name for each in h.app.admin.verify() if each.violations}

    job = flow.enqueue()
    h.drain()
    assert found() == set()
    for change, name in (
        ("set fence = fence + 1 where place = 1", "step_never_changes"),
        ("set place = 9 where place = 2", "step_without_gap"),
        ("set ended = null where place = 1", "step_has_ended"),
        ("set fence = fence + 9", "step_was_held"),
    ):
        with suppress(ZeroDivisionError), h.app.transaction() as tx:
            tx.write(f"update duework_step {change}")
            with inside(tx).savepoint():
                broken = [each.name for each in verify(inside(tx), EVERY) if each.violations]
            assert name in broken
            raise ZeroDivisionError
    with h.app.transaction() as tx:
        tx.write(
            "insert into duework_signal (id, event, key, payload, at) values (999, 'go', '', '1', :at)",
            at=h.now + 1,
        )
    assert found() == {"signal_is_heard"}
    assert h.app.get_workflow(job.id).state == "running"


def test_a_signal_through_another_app_wakes_a_workflow(h: Harness, emptied: str) -> None:
    @h.app.task
    async def flow(run: Run) -> Any:
        return await run.wait_for("go")

    job = flow.enqueue()
    h.drain()
    other = App(emptied, clock=h.app.wiring.bound.clock)
    other.signal("go", 5)
    other.close()
    h.drain()
    assert h.app.job(job.id).result == 5


def test_signals_of_a_process_whose_clock_is_behind_are_heard_and_in_their_order(url: str) -> None:
    now = 1_800_000_000_000
    early, late = VirtualClock(now), VirtualClock(now - 5000)
    with closing(App(url, clock=early)) as app, closing(App(url, clock=late)) as other:

        @app.task
        async def order(run: Run) -> list[int]:
            return [await run.wait_for("paid") for _ in range(3)]

        def work() -> None:
            asyncio.run(app.worker().run_until_idle())

        job = order.enqueue()
        work()
        for number, teller in enumerate((other, app, other)):
            teller.signal("paid", number)
            work()

        assert app.job(job.id).result == [0, 1, 2]
