"""Tasks: a plain call stays a plain call, names, and what `@app.task` takes."""

from __future__ import annotations

import asyncio

import pytest

from duework import App, Run, TaskNotFound, UsageError
from duework.testing import Harness


def test_a_plain_call_stays_a_plain_call(harness: Harness) -> None:
    @harness.app.task
    async def greet(name: str) -> str:
        return f"hello {name}"

    @harness.app.task(retries=3)
    def add(a: int, b: int = 1) -> int:
        return a + b

    assert asyncio.run(greet("ada")) == "hello ada"
    assert add(1, b=4) == 5
    assert harness.app.jobs() == []


def test_async_and_plain_functions_run_and_store_their_results(harness: Harness) -> None:
    @harness.app.task
    async def greet(name: str) -> str:
        return f"hello {name}"

    @harness.app.task
    def add(a: int, b: int = 1) -> int:
        return a + b

    hello, sum_ = greet.enqueue("ada"), add.enqueue(1, b=4)
    harness.drain()

    assert (hello.refresh().state, hello.refresh().result) == ("done", "hello ada")
    assert (sum_.refresh().state, sum_.refresh().result) == ("done", 5)


def test_a_job_shows_what_it_is(harness: Harness) -> None:
    @harness.app.task(queue="mail", priority=3)
    async def greet(name: str) -> None: ...

    job = greet.using(delay="10m", key="k").enqueue("ada")

    seen = harness.app.job(job.id)
    assert (seen.task, seen.queue, seen.priority, seen.key) == ("greet", "mail", 3, "k")
    assert (seen.state, seen.phase) == ("open", "waiting")
    assert (seen.due, seen.at) == (harness.now + 600_000, harness.now + 600_000)
    assert seen.arguments == {"name": "ada"}
    assert (seen.result, seen.progress, seen.attempts()) == (None, None, [])


def test_phases_follow_time_without_anybody_moving_the_row(harness: Harness) -> None:
    seen: list[str] = []

    @harness.app.task
    async def look(run: Run) -> None:
        seen.append(harness.app.job(run.job.id).phase)

    job = look.using(delay="1m").enqueue()

    assert job.refresh().phase == "waiting"
    harness.clock.move_to(harness.now + 60_000)
    assert job.refresh().phase == "ready"
    harness.drain()
    assert (seen, job.refresh().phase) == (["running"], "done")


def test_a_task_may_have_another_name_than_its_function(harness: Harness) -> None:
    @harness.app.task(name="mail.send")
    async def send() -> None: ...

    job = send.enqueue()
    harness.drain()

    assert (job.refresh().task, job.refresh().state) == ("mail.send", "done")


def test_two_tasks_cannot_share_a_name() -> None:
    app = App("sqlite:///never-opened.db")

    @app.task
    def greet() -> None: ...

    with pytest.raises(UsageError, match="greet"):

        @app.task(name="greet")
        def other() -> None: ...


@pytest.mark.parametrize("name", ["", "9lives", "a b", "é" * 3 + " ", "x" * 300, "a\nb", "../x"])
def test_odd_names_are_refused(name: str) -> None:
    app = App("sqlite:///never-opened.db")

    with pytest.raises(UsageError):
        app.task(name=name or " ")(lambda: None)


@pytest.mark.parametrize(
    "options",
    [
        {"retires": 3},
        {"retries": -1},
        {"concurrency": 0},
        {"priority": 10},
        {"priority": -1},
        {"isolation": "thread"},
        {"memory_mb": 10},
        {"timeout": "soon"},
        {"backoff": ()},
        {"backoff": ("1x",)},
        {"keep": "-1d"},
        {"queue": "a b"},
    ],
    ids=str,
)
def test_options_that_make_no_sense_are_refused_at_once(options: dict[str, object]) -> None:
    app = App("sqlite:///never-opened.db")

    with pytest.raises(UsageError):

        @app.task(**options)
        def greet() -> None: ...


def test_an_unknown_task_is_left_open_and_costs_the_others_nothing(harness: Harness) -> None:
    from duework.kernel.facts import UnknownTask

    told: list[object] = []
    harness.app.on_fact(told.append)

    @harness.app.task
    async def greet() -> None: ...

    @harness.app.task
    async def elsewhere() -> None: ...

    left, run = elsewhere.enqueue(), greet.enqueue()
    del harness.app.wiring.registry._tasks["elsewhere"]  # noqa: SLF001 - as in another process
    harness.drain()

    assert (left.refresh().state, run.refresh().state) == ("open", "done")
    assert left.refresh().fence == 0
    assert UnknownTask("elsewhere") in told
    with pytest.raises(TaskNotFound):
        harness.app.wiring.registry.find("elsewhere")


def test_a_damaged_payload_fails_its_job_with_a_reason_and_others_flow(harness: Harness) -> None:
    @harness.app.task(retries=5)
    async def greet(name: str) -> str:
        return name

    damaged, nonsense, fine = greet.enqueue("ada"), greet.enqueue("bob"), greet.enqueue("cy")
    with harness.app.transaction() as tx:
        sql = "update duework_job set payload = :p where id = :id"
        tx.write(sql, p='{"name":"eve"}', id=damaged.id)
        tx.write(sql, p="\x80]]{{", id=nonsense.id)
    harness.drain()

    assert "damaged" in str(damaged.refresh().error)
    assert [job.refresh().state for job in (damaged, nonsense, fine)] == [
        "failed",
        "failed",
        "done",
    ]


def test_stored_arguments_that_no_longer_fit_fail_their_job_with_a_reason(
    harness: Harness,
) -> None:
    @harness.app.task
    async def greet(name: str) -> str:
        return name

    job = greet.enqueue("ada")
    del harness.app.wiring.registry._tasks["greet"]  # noqa: SLF001 - as in a newer release

    @harness.app.task(name="greet")
    async def newer(name: str, age: int) -> str:
        return f"{name} {age}"

    harness.advance("2h")

    assert job.refresh().state == "failed"
    assert "age" in str(job.refresh().error)


def test_higher_priorities_run_first(harness: Harness) -> None:
    order: list[int] = []

    @harness.app.task(concurrency=1)
    async def note(n: int) -> None:
        order.append(n)

    for n in (0, 5, 9):
        note.using(priority=n).enqueue(n)
    harness.drain()

    assert order == [9, 5, 0]


def test_concurrency_limits_what_runs_at_once(harness: Harness) -> None:
    running, most = 0, 0

    @harness.app.task(concurrency=2)
    async def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    work.enqueue_many([() for _ in range(9)])
    harness.drain()

    assert most == 2
    assert {job.state for job in harness.app.jobs()} == {"done"}


def test_a_paused_queue_stands_still_until_it_is_resumed(harness: Harness) -> None:
    @harness.app.task(queue="mail")
    async def greet() -> None: ...

    queue = harness.app.queue("mail")
    queue.pause()
    job = greet.enqueue()
    harness.advance("1d")

    assert (queue.paused, job.refresh().state) == (True, "open")
    queue.resume()
    harness.drain()
    assert (queue.paused, job.refresh().state) == (False, "done")


def test_everything_can_be_paused_and_a_queue_emptied(harness: Harness) -> None:
    @harness.app.task
    async def greet() -> None: ...

    harness.app.pause()
    jobs = greet.enqueue_many([(), ()])
    harness.drain()
    assert {job.refresh().state for job in jobs} == {"open"}

    assert harness.app.queue("default").purge() == 2
    assert {job.refresh().state for job in jobs} == {"cancelled"}
