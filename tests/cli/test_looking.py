"""Commands that look: status, jobs list, jobs show, queues list."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from duework import App, Outbox, Rejected
from tests.cli.conftest import HOSTILE, Duework, enqueue, work


def test_status_counts_ready_waiting_and_failed_jobs(shop: App, duework: Duework) -> None:
    enqueue(shop, "fails", "no")
    work(shop)
    enqueue(shop, "greet", "ada")
    enqueue(shop, "greet", "bob", delay="1h")

    seen = duework("status", "--json").document

    [greet] = [line for line in seen["tasks"] if line["task"] == "greet"]
    assert (greet["ready"], greet["waiting"], greet["running"]) == (1, 1, 0)
    assert greet["lag_ms"] >= 0
    assert seen["failed"] == 1
    assert seen["database"]["kind"] == shop.admin.about()["kind"]


def test_status_never_shows_the_password(shop: App, duework: Duework, kind: str) -> None:
    text = duework("status")

    assert text.code == 0
    assert ("***@" in text.out) == (kind == "postgres")


def test_status_lists_the_worker_that_holds_a_job(shop: App, duework: Duework) -> None:
    enqueue(shop, "retries")
    work(shop)

    [worker] = duework("status", "--json").document["workers"]

    assert worker["seen"] == "alive"
    assert isinstance(worker["id"], str)


def test_status_marks_tasks_that_the_app_does_not_know(shop: App) -> None:
    enqueue(shop, "greet", "ada")
    other = App(shop.wiring.bound.url)

    @other.task
    async def unrelated() -> None: ...

    known = {line.task: line.known for line in other.status().tasks}
    other.close()
    bare = App(shop.wiring.bound.url)
    without_tasks = {line.known for line in bare.status().tasks}
    bare.close()

    assert known["greet"] is False
    assert without_tasks == {None}


def test_jobs_are_listed_newest_first_and_paged(shop: App, duework: Duework) -> None:
    ids = [str(enqueue(shop, "greet", f"n{n}")) for n in range(5)]

    first = duework("jobs", "list", "--limit", 2, "--json").lines
    rest = duework("jobs", "list", "--before", first[-1]["id"], "--json").lines

    assert [job["id"] for job in first + rest] == ids[::-1]


def test_jobs_are_found_by_phase_task_queue_and_key(shop: App, duework: Duework) -> None:
    failing = enqueue(shop, "fails", "no")
    work(shop)
    keyed = enqueue(shop, "greet", "ada", key="k", delay="1h")

    def ids(*words: object) -> list[str]:
        return [job["id"] for job in duework("jobs", "list", *words, "--json").lines]

    assert ids("--phase", "failed") == [str(failing)]
    assert ids("--queue", "mail") == [str(failing)]
    assert ids("--key", "k") == ids("--task", "greet") == [str(keyed)]
    assert ids("--phase", "running") == []


def test_a_job_is_shown_with_its_arguments_error_and_attempts(shop: App, duework: Duework) -> None:
    job = enqueue(shop, "retries")
    work(shop)

    seen = duework("jobs", "show", job, "--json").document
    text = duework("jobs", "show", job)

    assert (seen["id"], seen["phase"], seen["arguments"]) == (str(job), "waiting", {})
    assert [each["outcome"] for each in seen["attempts"]] == ["retry"]
    assert "ValueError: try again" in text.out
    assert "retry" in text.out


def test_texts_of_jobs_cannot_reach_the_terminal_or_become_markup(
    shop: App, duework: Duework
) -> None:
    job = enqueue(shop, "fails", HOSTILE, key="[red]k\x1b[0m")
    work(shop)

    shown = [duework("jobs", "show", job), duework("jobs", "list"), duework("failed", "list")]

    for text in shown:
        assert not {c for c in text.out if not c.isprintable()} - {"\n"}
        assert "\\x1b[2J" in text.out
    assert "[bold red]no[/]" in shown[0].out
    assert duework("jobs", "show", job, "--json").document["key"] == "[red]k\x1b[0m"


def test_a_payload_that_cannot_be_read_is_shown_as_it_is(shop: App, duework: Duework) -> None:
    job = enqueue(shop, "greet", "ada", delay="1h")
    deep = "[" * 100_000
    with shop.transaction() as tx:
        tx.write("update duework_job set payload = :deep where id = :id", deep=deep, id=job)

    seen = duework("jobs", "show", job, "--json").document

    assert (seen["arguments"], seen["payload"]) == (None, deep)


def test_every_listing_fits_80_columns_and_cuts_only_long_texts(
    shop: App, duework: Duework
) -> None:
    job = enqueue(shop, "fails", "a rather long sentence that goes on and on " * 5, key="k" * 150)
    work(shop)
    enqueue(shop, "greet", "ada")

    texts = [
        duework("status"),
        duework("jobs", "list"),
        duework("failed", "list"),
        duework("queues", "list"),
        duework("verify"),
    ]

    for text in texts:
        table = [line for line in text.out.splitlines() if "://" not in line]
        assert max(map(len, table)) <= 80, text.out
    for listed, columns in ((texts[1], ["failed", "fails", "1"]), (texts[2], ["fails", "1"])):
        [line] = [line for line in listed.out.splitlines() if str(job) in line]
        assert line.split()[1 : 1 + len(columns)] == columns, listed.out
        assert "failures" in listed.out


def test_crashes_are_counted_where_failures_are(shop: App, duework: Duework) -> None:
    given = {enqueue(shop, "fails", "no"): counts for counts in ((0, 3), (1, 1), (2, 0))}
    work(shop)
    with shop.transaction() as tx:
        for job, (failures, crashes) in given.items():
            tx.write(
                "update duework_job set failures = :failures, crashes = :crashes where id = :id",
                failures=failures,
                crashes=crashes,
                id=job,
            )

    for words in (["failed", "list"], ["jobs", "list", "--phase", "failed"]):
        lines = {line[:18]: line for line in duework(*words).out.splitlines()}
        shown = [re.split(" {2,}", lines[str(job)])[-3] for job in given]
        assert shown == ["3 crashes", "1 + 1 crash", "2"], words
    assert [shop.why(job).sentence.partition(",")[2] for job in list(given)[1:]] == [
        " after 2 attempts: ValueError: no",
        " after 2 attempts: ValueError: no",
    ]


def test_a_job_that_is_not_there_is_an_error_with_a_code(shop: App, duework: Duework) -> None:
    text = duework("jobs", "show", 1)
    as_json = duework("jobs", "show", 1, "--json")

    assert (text.code, text.err) == (1, "Error: there is no job 1\n")
    assert as_json.code == 1
    assert as_json.document["error"] == {"code": "not_found", "message": "there is no job 1"}


@pytest.mark.parametrize("words", [["status"], ["jobs", "list"], ["failed", "list"]])
def test_an_app_given_without_its_option_is_told_where_it_goes(
    bare: Duework, words: list[str]
) -> None:
    text = bare(*words, "shop.work:app")
    other = bare(*words, "shop")

    assert text.code == other.code == 78
    assert "did you mean --app shop.work:app?" in text.err
    assert "did you mean" not in other.err


def test_jobs_of_the_engine_are_left_out_unless_they_are_asked_for(
    shop: App, duework: Duework
) -> None:
    mine = [str(enqueue(shop, "greet", "ada", delay="1h")) for _ in range(2)]
    own = [str(enqueue(shop, "greet", "x", queue="duework", delay="1h")) for _ in range(3)]

    def ids(*words: object) -> list[str]:
        return [job["id"] for job in duework("jobs", "list", *words, "--json").lines]

    def queues(*words: object) -> set[str]:
        return {line["queue"] for line in duework("status", *words, "--json").document["tasks"]}

    assert ids() == ids("--limit", 2) == mine[::-1]
    assert ids("--all") == (mine + own)[::-1]
    assert ids("--queue", "duework") == own[::-1]
    assert queues() == {"default"}
    assert queues("--all") == {"default", "duework"}


def test_failed_and_unsure_messages_are_counted(shop: App, duework: Duework) -> None:
    class Mail(Outbox[str]):
        async def submit(self, message: str, key: str) -> Rejected:
            if message == "lost":
                raise ConnectionResetError
            return Rejected("no such address")

    mail = shop.outbox("post", Mail())
    mail.enqueue_many(["a", "b", "lost"])
    work(shop)

    assert "messages: failed 2, unsure 1" in duework("status").out
    assert "2 of outbox post failed and are not tried again" in duework("status").out
    seen = duework("status", "--json").document
    assert (seen["failed_messages"], seen["unsure_messages"]) == (2, 1)


def test_an_idle_worker_is_listed_from_its_start_to_its_end(shop: App, duework: Duework) -> None:
    async def program() -> list[Any]:
        async with shop.running():
            # Told by its own commit, which is there when something after it is.
            await asyncio.to_thread(enqueue, shop, "greet", "ada", delay="1h")
            return list(duework("status", "--json").document["workers"])

    [worker] = asyncio.run(program())

    assert (worker["seen"], worker["running"]) == ("alive", 0)
    assert duework("status", "--json").document["workers"] == []
    assert "no workers\n" in duework("status").out


def test_an_empty_app_has_no_tasks_of_the_engines_own(shop: App, duework: Duework) -> None:
    work(shop)

    assert shop.status().tasks == ()
    assert "no jobs yet" in duework("status").out
    assert "duework" not in duework("queues", "list").out
    assert [line.queue for line in shop.status(own=True).tasks] == ["duework"]
