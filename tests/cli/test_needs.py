"""What needs somebody: each need is made true and read from Python, by `status` and as JSON."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from duework import App, Channel, Need, Outbox, Sent, Tick
from duework.health.needs import blanked, needs
from duework.health.why import Around
from duework.task import Task
from duework.testing import Harness
from tests.cli.conftest import Duework
from tests.support.spied import Spied

Look = Callable[[], list[Need]]


@pytest.fixture
def look(harness: Harness, emptied: str, bare: Duework, monkeypatch: pytest.MonkeyPatch) -> Look:
    """From Python, and by `status` of another App on the same database, which says the same."""
    tasks(harness.app)

    def look() -> list[Need]:
        found = harness.app.needs()
        module = ModuleType("needshop")
        monkeypatch.setitem(sys.modules, "needshop", module)
        ran = []
        for words in ((), ("--json",)):
            module.app = App(emptied, clock=harness.clock)  # type: ignore[attr-defined]
            ran.append(bare("status", *words, "--app", "needshop:app"))
        text, document = ran[0].out, ran[1].document
        told = [tuple(each.values()) for each in document["needs"]]
        assert told == [(n.kind, n.sentence, n.count, n.oldest, n.command) for n in found]
        for need in found:
            assert f"{need.kind} {need.sentence} {need.command}" in " ".join(text.split())
        assert text.startswith("nothing needs you\n") == (not found)
        return found

    return look


def tasks(app: App) -> None:
    @app.task(queue="mail")
    async def greet(name: str) -> str:
        return f"hello {name}"

    @app.task
    async def breaks(order: str) -> None:
        raise ValueError(f"order {order} is broken")

    @app.task(pace=Tick(1, "1h", name="calls"))
    async def paced() -> None: ...


def enqueue(app: App, task: str, *args: Any) -> Any:
    made: Task[..., Any, Any] = Task(app.wiring.registry.find(task), app)
    return made.enqueue(*args)


def wait(harness: Harness, seconds: int) -> None:
    """Let time pass, with nobody to work."""
    harness.clock.move_to(harness.now + seconds * 1000)


def test_where_all_is_well_nothing_needs_you(harness: Harness, look: Look) -> None:
    assert look() == []
    enqueue(harness.app, "greet", "ada")
    assert look() == []
    harness.drain()
    assert look() == []


def test_what_the_engine_keeps_for_itself_needs_nobody(harness: Harness, look: Look) -> None:
    harness.app.wiring.arm_housekeeping()
    wait(harness, 7200)

    assert harness.app.jobs(queue="duework", phase="ready")
    assert look() == []


def test_work_that_nobody_takes_needs_a_worker(harness: Harness, look: Look) -> None:
    start = harness.now
    for name in ("ada", "bob"):
        enqueue(harness.app, "greet", name)
    wait(harness, 120)

    [need] = look()

    assert (need.kind, need.count, need.oldest) == ("no worker", 2, start)
    assert need.sentence == (
        "2 ready, and nobody to run them. No worker has taken it in 2 min, and none has left a row"
    )
    assert need.command.startswith("duework run")


def test_a_schedule_that_nobody_fires_needs_a_worker(harness: Harness, look: Look) -> None:
    greet = harness.app.wiring.registry.find("greet")
    harness.app.schedule(Task(greet, harness.app), key="daily", every="1h", args=("ada",))
    wait(harness, 3600)
    assert look() == []

    wait(harness, 120)

    [need] = look()
    assert (need.kind, need.count) == ("no worker", 1)
    assert need.sentence.startswith("1 ready, and nobody to run it. No worker has taken it in")
    harness.app.pause()
    assert look() == []


def test_a_worker_that_died_is_missed_at_once_if_work_is_ready(
    harness: Harness, look: Look
) -> None:
    enqueue(harness.app, "greet", "ada")
    harness.drain()
    with harness.app.transaction() as tx:
        tx.write("update duework_worker set born = born + 1")
    assert look() == []
    enqueue(harness.app, "greet", "bob")

    [need] = look()

    assert (need.kind, need.count) == ("no worker", 1)
    assert "is alive. The last one, " in need.sentence


def test_the_oldest_job_that_is_late_is_named_with_its_reason(harness: Harness, look: Look) -> None:
    enqueue(harness.app, "greet", "ada")
    harness.drain()
    job = enqueue(harness.app, "greet", "bob")
    wait(harness, 30)
    assert look() == []
    wait(harness, 10)

    [need] = look()

    assert (need.kind, need.count, need.oldest) == ("late", 1, job.due)
    assert need.sentence == (f"Job {job.id} of greet has been ready for 40 s; 0 ahead in its lane")
    assert need.command == f"duework jobs why {job.id}"


def test_a_task_that_the_app_does_not_know_is_told_where_others_are_known(
    harness: Harness, emptied: str, look: Look
) -> None:
    stranger = App(emptied, clock=harness.clock)

    @stranger.task(queue="far")
    async def elsewhere() -> None: ...

    for delay in ("0s", "1h"):
        elsewhere.using(delay=delay).enqueue()
    stranger.close()
    wait(harness, 60)

    [need] = harness.app.needs()

    assert (need.kind, need.tone, need.task, need.count) == ("unknown task", "bad", "elsewhere", 2)
    assert need.sentence.startswith("2 of elsewhere wait, and this App does not know the task")
    assert need.command == "duework jobs list --task elsewhere"
    none = App(emptied, clock=harness.clock)
    assert [each.kind for each in none.needs()] == ["no worker"], "one without tasks cannot tell"
    none.close()


def test_what_waits_for_its_pace_needs_nobody(harness: Harness, look: Look) -> None:
    enqueue(harness.app, "paced")
    enqueue(harness.app, "paced")
    harness.drain()
    wait(harness, 600)

    assert look() == []


def test_a_pause_with_work_behind_it_is_remembered_after_ten_minutes(
    harness: Harness, look: Look
) -> None:
    harness.app.pause("mail")
    job = enqueue(harness.app, "greet", "ada")
    wait(harness, 600)
    assert look() == []
    wait(harness, 60)

    [need] = look()

    assert (need.kind, need.count, need.oldest) == ("paused", 1, job.due)
    assert need.sentence.endswith("has been ready for 11 min. Queue mail is paused")
    assert need.command == "duework queues resume 'mail'"


def test_failed_jobs_are_counted_by_errors_without_their_numbers(
    harness: Harness, look: Look
) -> None:
    for order in ("17", "18", "a1b2c3d4e5f6", "late"):
        enqueue(harness.app, "breaks", order)
    harness.drain()

    numbered, other = look()

    assert (numbered.kind, numbered.count, numbered.oldest) == ("failing", 3, harness.now)
    assert numbered.sentence == (
        "3 of breaks failed and are not tried again: ValueError: order # is broken"
    )
    assert (other.count, other.command) == (1, "duework failed list --task breaks")
    assert "order late is broken" in other.sentence


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        ("no answer in 30 s\n  at somewhere", "no answer in # s"),
        ("<object at 0x7F3a>", "<object at #>"),
        ("user 550e8400-e29b-41d4-a716-446655440000 left", "user # left"),
        ("a decade of facades, defaced", "a decade of facades, defaced"),
        (None, "no error is stored"),
    ],
)
def test_ids_and_numbers_are_blanked_and_words_are_not(error: str | None, shown: str) -> None:
    assert blanked(error) == shown


def test_poison_is_told_apart(harness: Harness, look: Look) -> None:
    enqueue(harness.app, "breaks", "1")
    harness.drain()
    with harness.app.transaction() as tx:
        tx.write("update duework_job set crashes = 3 where state = 'failed'")

    [need] = look()

    assert (need.kind, need.count) == ("poison", 1)
    assert need.sentence == "1 job is poison, crashing what runs it: breaks"


def test_sends_that_are_unsure_need_a_decision(harness: Harness, look: Look) -> None:
    async def lost(payload: str) -> None:
        raise TimeoutError(payload)

    class Mail(Outbox[str]):
        retries = 0

        async def submit(self, message: str, key: str) -> Sent:
            raise TimeoutError("lost")

    @harness.app.delivery(channels={"email": Channel(lost)})
    def reminder() -> dict[str, str]:
        return {"email": "hello"}

    reminder.enqueue()
    harness.app.outbox("post", Mail()).enqueue("hello")
    harness.advance("1h")

    unsure = [need for need in look() if need.kind == "unsure"]

    assert [(need.count, need.command) for need in unsure] == [
        (1, "duework deliveries list"),
        (1, "duework outboxes list post --state unsure"),
    ]


def test_a_database_that_cannot_be_written_is_the_first_need(harness: Harness, look: Look) -> None:
    enqueue(harness.app, "greet", "ada")
    wait(harness, 60)
    harness.app.wiring.engine.writer.parked = "the disk is full: free some space"

    kinds = [need.kind for need in harness.app.needs()]
    harness.app.wiring.engine.writer.parked = None

    assert kinds == ["not writable", "no worker"]


def test_no_more_than_eight_are_shown_to_people(
    harness: Harness, bare: Duework, emptied: str
) -> None:
    tasks(harness.app)
    for letter in "abcdefghij":
        enqueue(harness.app, "breaks", letter)
    harness.drain()

    text = bare("status", "--url", emptied).out

    assert text.count("failing ") == 8
    assert "and 2 more: --json has all of them" in text


def test_a_look_takes_as_many_statements_however_much_there_is(
    harness: Harness, look: Look
) -> None:
    def asked() -> list[str]:
        with harness.app.wiring.engine.database.reading() as tx:
            spied: Any = Spied(tx)
            needs(
                spied,
                Around(harness.now, near=True, broken=None, registry=harness.app.wiring.registry),
            )
        names: list[str] = spied.names
        return names

    def busy(count: int) -> None:
        for number in range(count):
            enqueue(harness.app, "breaks", str(number))
        harness.drain()
        harness.app.pause("mail")
        for number in range(count):
            enqueue(harness.app, "greet", str(number))
            enqueue(harness.app, "breaks", str(number))
        wait(harness, 3600)

    busy(2)
    few = asked()
    harness.app.resume()
    busy(40)

    late = ["of_lane", "job", "workers", "paces", "running", "ahead", "ready"]
    assert few == asked()
    assert len(few) <= 6 + 2 * len(late)
    assert [need.count for need in look() if need.kind != "failing"] == [40, 42]
