"""Why a job waits: each reason is made true and read from Python, as text and as JSON."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import pytest

from duework import Adaptive, App, NotFound, Quota, Rate, Run, Snooze, Throttled, Tick, Why
from duework.health.why import Around, why
from duework.testing import Harness
from tests.cli.conftest import Duework
from tests.support.spied import Spied


@dataclass
class Shop:
    """An App in virtual time, what its tasks call while they run, and a way to ask about a job."""

    harness: Harness
    app: App
    ask: Callable[[Any], Why]
    inside: list[Callable[[], object]] = field(default_factory=list)

    def enqueue(self, task: str, *args: Any, **using: Any) -> Any:
        from duework.task import Task

        made: Task[..., Any, Any] = Task(self.app.wiring.registry.find(task), self.app)
        return made.using(**using).enqueue(*args)

    def drain(self) -> None:
        self.harness.drain()


def tasks(app: App, inside: list[Callable[[], object]]) -> None:  # noqa: C901 - one for each reason
    @app.task(queue="mail")
    async def greet(name: str) -> str:
        return f"hello {name}"

    @app.task(retries=3, backoff=("4m",))
    async def fetch() -> None:
        raise TimeoutError("no answer\nfrom there")

    @app.task
    async def broken() -> None:
        raise ValueError("order 7 is broken")

    @app.task
    async def naps() -> Snooze:
        return Snooze("40m")

    @app.task(retries=1, backoff=("1m",))
    async def fails_then_naps(run: Run) -> Snooze:
        if run.attempt == 1:
            raise TimeoutError
        return Snooze("40m")

    @app.task(concurrency=1)
    def single() -> None:
        for call in inside:
            call()

    @app.task(queue="narrow")
    def narrow() -> None:
        for call in inside:
            call()

    app.queue("narrow", concurrency=1)

    @app.task(pace=Tick(2, "10s", name="calls"))
    async def paced(number: int) -> None: ...

    @app.task(pace=Quota("strava", windows={"15m": 100, "1d": 2}))
    async def page(number: int) -> None: ...

    @app.task(pace=Rate("1/10s", per="host", name="hosts"))
    async def crawl(host: str) -> None: ...

    @app.task(pace=Adaptive(name="enrich"))
    async def enrich() -> None: ...

    @app.task(pace=Tick(5, "1s", name="discord"))
    async def throttled() -> None:
        raise Throttled("62s")

    @app.task(retries=1, backoff=("1h",))
    async def expiring(run: Run) -> None:
        raise ValueError("not yet")


@pytest.fixture
def shop(harness: Harness, emptied: str, bare: Duework, monkeypatch: pytest.MonkeyPatch) -> Shop:
    harness.clock.move_to(harness.now + 12 * 3_600_000)

    def ask(job: Any) -> Why:
        """From Python, and by commands of another App on the same database, which say the same."""
        module = ModuleType("whyshop")
        module.app = App(emptied, clock=harness.clock)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "whyshop", module)
        found = harness.app.job(job.id).why()
        asks = [["why"], ["why", "--json"], ["show"], ["show", "--json"]]
        for words in asks:
            module.app = App(emptied, clock=harness.clock)  # type: ignore[attr-defined]
            tasks(module.app, [])
            ran = bare("jobs", words[0], job.id, *words[1:], "--app", "whyshop:app")
            assert ran.code == 0, ran
            if "--json" in words:
                told = ran.document["why"] if words[0] == "show" else ran.document
                assert (told["kind"], told["sentence"]) == (found.kind, found.sentence)
                assert told["until"] == found.until
                assert [each["kind"] for each in told["others"]] == [o.kind for o in found.others]
            else:
                assert found.sentence in ran.out
        return found

    made = Shop(harness, harness.app, ask)
    tasks(harness.app, made.inside)
    return made


def others(found: Why) -> list[str]:
    return [each.kind for each in found.others]


def test_one_that_is_ready_has_its_turn_after_those_that_are_ahead(shop: Shop) -> None:
    first, second = shop.enqueue("greet", "ada"), shop.enqueue("greet", "bob")
    shop.harness.clock.move_to(shop.harness.now + 1400)

    assert shop.ask(first) == Why("in turn", "Ready for 1.4 s; 0 ahead in its lane")
    assert shop.ask(second) == Why("in turn", "Ready for 1.4 s; 1 ahead in its lane")


def test_what_is_asked_for_later_says_when(shop: Shop) -> None:
    job = shop.enqueue("greet", "ada", delay="4m 12s")

    assert shop.ask(job) == Why("later", "Due in 4 min 12 s, as asked for", until=job.due)


def test_a_retry_says_which_it_is_and_what_went_wrong(shop: Shop) -> None:
    job = shop.enqueue("fetch")
    shop.drain()

    found = shop.ask(job)

    assert found.sentence == "Retry 1 of 3 in 4 min: TimeoutError: no answer"
    assert (found.kind, found.until) == ("retry", shop.harness.now + 240_000)


def test_a_snooze_is_no_retry(shop: Shop) -> None:
    job = shop.enqueue("naps")
    shop.drain()

    found = shop.ask(job)

    assert (found.kind, found.until) == ("snoozed", shop.harness.now + 2_400_000)
    assert found.sentence == "Snoozed by its handler until 12:40:00 UTC"


def test_a_snooze_after_a_failure_is_no_retry_either(shop: Shop) -> None:
    job = shop.enqueue("fails_then_naps")
    shop.drain()
    assert shop.ask(job).kind == "retry"
    shop.harness.advance("1m")

    assert (job.refresh().failures, shop.ask(job).kind) == (1, "snoozed")


def test_a_paused_queue_comes_before_what_else_holds(shop: Shop) -> None:
    job, later = shop.enqueue("greet", "ada"), shop.enqueue("greet", "bob", delay="1h")
    shop.app.queue("mail").pause()

    found = shop.ask(job)
    assert (found.kind, found.sentence) == ("paused", "Queue mail is paused")
    assert (found.queue, others(found)) == ("mail", ["in turn"])
    assert others(shop.ask(later)) == ["later"]

    shop.app.resume("mail")
    shop.app.pause()
    assert shop.ask(job).sentence == "Everything is paused"
    shop.app.resume()
    assert shop.ask(job).kind == "in turn"


def test_a_serial_job_names_the_one_before_it(shop: Shop) -> None:
    first = shop.enqueue("greet", "ada", serial="athlete:18", delay="4m")
    second = shop.enqueue("greet", "bob", serial="athlete:18")

    found = shop.ask(second)

    assert (found.kind, found.job) == ("serial", first.id)
    assert found.sentence == f"Serial athlete:18, behind job {first.id}, which is due in 4 min"


def test_one_that_runs_after_another_names_it_and_says_if_that_has_failed(shop: Shop) -> None:
    first = shop.enqueue("fetch")
    behind = shop.enqueue("greet", "ada", after=first)
    assert shop.ask(behind).sentence == f"After job {first.id}, which is ready"
    shop.drain()

    found = shop.ask(behind)
    assert (found.kind, found.job) == ("after", first.id)
    assert found.sentence == f"After job {first.id}, which waits for its own retry in 4 min"

    shop.harness.advance("20m")
    assert "which has failed: retry that one" in shop.ask(behind).sentence


def test_a_job_may_wait_for_its_turn_and_for_another(shop: Shop) -> None:
    first = shop.enqueue("greet", "ada", delay="1h")
    head = shop.enqueue("greet", "bob", serial="s", delay="1h")
    both = shop.enqueue("greet", "eve", serial="s", after=first)

    found = shop.ask(both)

    assert (found.kind, found.job, others(found)) == ("serial", head.id, ["after"])


def test_the_first_of_a_serial_value_is_behind_nobody(shop: Shop) -> None:
    first = shop.enqueue("greet", "ada", delay="1h")
    head = shop.enqueue("greet", "bob", serial="s", after=first)
    second = shop.enqueue("greet", "eve", serial="s")

    found = shop.ask(head)

    assert (found.kind, found.job, others(found)) == ("after", first.id, [])
    behind = f"Serial s, behind job {head.id}, which waits itself"
    assert shop.ask(second) == Why("serial", behind, job=head.id)


def test_a_pace_says_until_when_and_how_much_is_used(shop: Shop) -> None:
    jobs = [shop.enqueue("paced", number) for number in range(3)]
    shop.drain()

    found = shop.ask(jobs[2])

    assert found.sentence == "Waiting for pace calls until 12:00:10 UTC: 2 of 2 are used"
    assert (found.kind, found.pace, found.until) == ("pace", "calls", shop.harness.now + 10_000)
    assert others(found) == ["in turn"]


def test_a_quota_whose_other_window_is_full_claims_no_wrong_count(shop: Shop) -> None:
    jobs = [shop.enqueue("page", number) for number in range(3)]
    shop.drain()

    assert shop.ask(jobs[2]).sentence == "Waiting for pace strava until 2 Jan 00:00:00 UTC"


def test_a_value_with_a_pace_of_its_own_is_named(shop: Shop) -> None:
    jobs = [shop.enqueue("crawl", "a.example") for _ in range(2)]
    shop.drain()

    found = shop.ask(jobs[1])

    assert found.sentence == "Waiting for pace hosts[a.example] until 12:00:10 UTC"
    assert (found.kind, found.until) == ("pace", shop.harness.now + 10_000)


def test_a_pace_that_was_blocked_says_until_when(shop: Shop) -> None:
    job = shop.enqueue("throttled")
    shop.drain()

    found = shop.ask(job)

    assert (found.kind, found.pace) == ("pace blocked", "discord")
    assert found.sentence == "Pace discord is blocked until 12:01:02 UTC"
    assert others(found) == ["snoozed"]


def test_a_pace_that_was_stopped_waits_for_somebody(shop: Shop) -> None:
    shop.enqueue("enrich")
    shop.drain()
    shop.app.get_pace("enrich").stop()
    job = shop.enqueue("enrich")
    shop.harness.advance("1m")

    found = shop.ask(job)

    assert found.sentence == "Pace enrich was stopped by hand"
    assert (found.kind, found.until) == ("pace blocked", None)


@pytest.mark.parametrize(("task", "what"), [("single", "task single"), ("narrow", "queue narrow")])
def test_a_full_task_or_queue_says_how_many_run(shop: Shop, task: str, what: str) -> None:
    first, second = shop.enqueue(task), shop.enqueue(task)
    seen: list[Why] = []
    shop.inside.append(lambda: seen.append(shop.ask(second)))
    shop.drain()

    assert seen[0].sentence == f"Full: 1 of 1 of {what} run"
    assert (seen[0].kind, others(seen[0])) == ("full", ["in turn"])
    assert shop.ask(first).kind == "done"


def test_one_that_runs_says_where_and_how_long_its_lease_lasts(shop: Shop) -> None:
    job = shop.enqueue("single")
    seen: list[Why] = []
    shop.inside.append(lambda: seen.append(shop.ask(job)))
    shop.inside.append(lambda: shop.app.cancel(job.id, "not wanted"))
    shop.inside.append(lambda: seen.append(shop.ask(job)))
    shop.drain()

    running, marked = seen
    assert running.kind == "running"
    assert "attempt 1; leased until 12:00:15 UTC" in running.sentence
    assert running.until == shop.harness.now + 15_000
    assert marked.sentence == f"{running.sentence}; it is being cancelled: not wanted"


def test_a_dead_worker_or_a_lease_that_is_over_is_said(shop: Shop) -> None:
    job = shop.enqueue("single")
    seen: list[Why] = []

    def look() -> None:
        with shop.app.transaction() as tx:
            tx.write("update duework_worker set born = born + 1")
        seen.append(shop.ask(job))
        shop.harness.clock.move_to(shop.harness.now + 20_000)
        seen.append(shop.ask(job))

    shop.inside.append(look)
    shop.drain()

    dead, over = seen
    assert "which is dead: it runs again by 12:00:15 UTC" in dead.sentence
    assert over.kind == "lease over"
    assert over.sentence.startswith("Its lease ended 5 s ago, on ")


def test_a_job_that_crashed_twice_is_a_suspect(shop: Shop) -> None:
    job = shop.enqueue("greet", "ada")
    with shop.app.transaction() as tx:
        tx.write("update duework_lane set alone = 1")

    found = shop.ask(job)

    assert (found.kind, others(found)) == ("suspect", ["in turn"])
    assert found.sentence.startswith("It crashed twice in a row: it is a suspect")


def test_workers_that_are_dead_are_told_from_their_rows(shop: Shop) -> None:
    shop.enqueue("greet", "ada")
    shop.drain()
    job = shop.enqueue("greet", "bob")
    assert shop.ask(job).kind == "in turn"
    with shop.app.transaction() as tx:
        tx.write("update duework_worker set born = born + 1, host = 'web-1', pid = 4390")

    found = shop.ask(job)

    assert (found.kind, others(found)) == ("no worker", ["in turn"])
    assert found.sentence == (
        "No worker that has left a row is alive. The last one, web-1:4390, is dead"
    )


def test_without_a_row_a_worker_is_missing_only_for_a_job_that_is_late(shop: Shop) -> None:
    job, later = shop.enqueue("greet", "ada"), shop.enqueue("greet", "bob", delay="1h")
    shop.harness.clock.move_to(shop.harness.now + 30_000)
    assert shop.ask(job).kind == "in turn"
    shop.harness.clock.move_to(shop.harness.now + 90_000)

    assert shop.ask(job).sentence == "No worker has taken it in 2 min, and none has left a row"
    assert shop.ask(later).kind == "later"
    shop.app.pause("mail")
    assert shop.ask(job).kind == "paused"


def test_a_database_that_cannot_be_written_comes_first(shop: Shop) -> None:
    job = shop.enqueue("greet", "ada", delay="1h")
    shop.app.wiring.engine.writer.parked = "the disk is full: free some space"

    found = job.why()
    shop.app.wiring.engine.writer.parked = None

    assert (found.kind, others(found)) == ("not writable", ["later"])
    assert found.sentence == (
        "The database could not be written when last tried: the disk is full: free some space"
    )


def test_what_has_ended_says_how(shop: Shop) -> None:
    done, failed = shop.enqueue("greet", "ada"), shop.enqueue("broken")
    cancelled = shop.enqueue("greet", "bob", delay="1h")
    late = shop.enqueue("greet", "eve", expires="1s")
    failing = shop.enqueue("expiring", expires="10m")
    shop.harness.clock.move_to(shop.harness.now + 2000)
    cancelled.cancel("ordered twice")
    poison = shop.enqueue("greet", "mal")
    shop.drain()
    with shop.app.transaction() as tx:
        values = "state = 'failed', settled = :now, crashes = 3"
        tx.write(
            f"update duework_job set {values} where id = :id", now=shop.harness.now, id=poison.id
        )
    shop.harness.advance("2h")

    sentences = {each: shop.ask(each) for each in (done, failed, cancelled, late, failing, poison)}

    assert {job.id: found.sentence for job, found in sentences.items()} == {
        done.id: "Done 2 h ago, at attempt 1",
        failed.id: "Failed 2 h ago, after 1 attempt: ValueError: order 7 is broken",
        cancelled.id: "Cancelled 2 h ago: ordered twice",
        late.id: "Expired 2 h ago: nothing had started it in time",
        failing.id: "Expired 1 h ago, before its next retry: ValueError: not yet",
        poison.id: "Failed 2 h ago as poison: it crashed 3 times alone",
    }
    assert [found.kind for found in sentences.values()] == [
        *("done", "failed", "cancelled", "expired", "expired", "failed"),
    ]


def test_async_code_asks_in_the_same_way(shop: Shop) -> None:
    job = shop.enqueue("greet", "ada", delay="1h")

    assert asyncio.run(job.awhy()) == job.why() == asyncio.run(shop.app.awhy(job.id))
    assert asyncio.run(shop.app.aneeds()) == shop.app.needs() == []


def test_a_job_that_is_not_there_is_not_found(shop: Shop, bare: Duework, emptied: str) -> None:
    with pytest.raises(NotFound):
        shop.app.why(7)

    ran = bare("jobs", "why", 7, "--url", emptied, "--json")
    assert ran.document["error"]["code"] == "not_found"


def test_a_look_takes_six_statements_at_most_however_many_jobs_wait(shop: Shop) -> None:
    shop.app.queue("default", concurrency=1)
    first = shop.enqueue("paced", 0)
    some = asked(shop, first)
    from duework.task import Task

    task: Task[..., Any, Any] = Task(shop.app.wiring.registry.find("paced"), shop.app)
    task.enqueue_many([(number,) for number in range(1500)])
    last = shop.enqueue("paced", 1)

    many = asked(shop, last)

    assert some == many == ["job", "workers", "paces", "running", "ahead"]
    assert shop.ask(last).sentence == "Ready for 0 ms; 1,000+ ahead in its lane"
    assert asked(shop, shop.enqueue("greet", "ada", serial="s", after=first))[1] == "behind"


def asked(shop: Shop, job: Any) -> list[str]:
    with shop.app.wiring.engine.database.reading() as tx:
        spied: Any = Spied(tx)
        why(
            spied,
            job.id,
            Around(shop.harness.now, near=True, broken=None, registry=shop.app.wiring.registry),
        )
    names: list[str] = spied.names
    return names
