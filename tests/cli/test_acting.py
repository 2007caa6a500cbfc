"""Commands that act: retry, cancel, redrive, purge, pause, resume."""

from __future__ import annotations

import pytest

from duework import App, UsageError
from tests.cli.conftest import Duework, enqueue, work


def states(app: App) -> dict[int, str]:
    return {job.id: job.state for job in app.jobs(limit=1000) if job.queue != "duework"}


def test_a_failed_job_is_retried_and_an_open_one_stays(shop: App, duework: Duework) -> None:
    failing = enqueue(shop, "fails", "no")
    work(shop)
    waiting = enqueue(shop, "greet", "ada", delay="1h")

    ran = duework("jobs", "retry", failing, waiting, "--json")

    assert [line["outcome"] for line in ran.lines] == ["revived", "open"]
    assert shop.job(failing).phase == "ready"
    assert shop.job(waiting).phase == "waiting"


def test_one_job_that_cannot_be_retried_does_not_stop_the_others(
    shop: App, duework: Duework
) -> None:
    failing = enqueue(shop, "fails", "no")
    work(shop)

    ran = duework("jobs", "retry", 1, failing, "--json")

    assert ran.code == 1
    assert ran.lines[0]["error"]["code"] == "not_found"
    assert ran.lines[1] == {"id": str(failing), "outcome": "revived"}


def test_cancelling_keeps_the_reason(shop: App, duework: Duework) -> None:
    job = enqueue(shop, "greet", "ada", delay="1h")

    ran = duework("jobs", "cancel", job, "--why", "ordered twice")

    assert (ran.code, ran.out) == (0, f"{job} cancelled\n")
    assert (shop.job(job).state, shop.job(job).error) == ("cancelled", "ordered twice")


def test_redriving_all_failed_jobs_of_a_task(shop: App, duework: Duework) -> None:
    jobs = [enqueue(shop, "fails", f"{n}") for n in range(3)]
    work(shop)

    other = duework("failed", "redrive", "--all", "--task", "greet", "--json")
    ran = duework("failed", "redrive", "--all", "--task", "fails", "--json")

    assert other.document == {"revived": 0, "refused": []}
    assert ran.document == {"revived": 3, "refused": []}
    assert {shop.job(job).state for job in jobs} == {"open"}


def test_what_status_leads_to_is_redriven_by_the_same_filter(shop: App, duework: Duework) -> None:
    jobs = [enqueue(shop, "fails", f"{n}") for n in range(2)]
    work(shop)
    [need] = shop.needs()
    command, _, words = need.command.partition(" failed list ")

    seen = duework("failed", "list", *words.split(), "--json")
    ran = duework("failed", "redrive", *words.split(), "--json")
    work(shop)
    by_queue = duework("failed", "redrive", "--queue", "mail", "--json")

    assert (command, len(seen.lines)) == ("duework", 2)
    assert ran.document == by_queue.document == {"revived": 2, "refused": []}
    assert {shop.job(job).state for job in jobs} == {"open"}


def test_redriving_goes_on_in_chunks_past_a_job_whose_key_is_taken(
    shop: App, duework: Duework, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duework.admin.CHUNK", 2)
    keyed = enqueue(shop, "fails", "no", key="k")
    others = [enqueue(shop, "fails", f"{n}") for n in range(4)]
    work(shop)
    enqueue(shop, "fails", "again", key="k", delay="1h")

    ran = duework("failed", "redrive", "--all", "--json")

    assert ran.code == 1
    assert ran.document["revived"] == 4
    assert ran.document["refused"] == [{"id": str(keyed), "outcome": "conflict"}]
    assert {shop.job(job).state for job in others} == {"open"}


def test_purging_failed_jobs_deletes_them_and_their_history(
    shop: App, duework: Duework, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duework.admin.CHUNK", 2)
    for n in range(5):
        enqueue(shop, "fails", f"{n}")
    work(shop)

    ran = duework("failed", "purge", "--all", "--yes", "--json")

    assert ran.document == {"purged": 5}
    assert states(shop) == {}
    assert shop.read("select count(*) as n from duework_attempt")[0].n == 0


def test_nothing_is_purged_without_being_sure(shop: App, duework: Duework) -> None:
    job = enqueue(shop, "fails", "no")
    work(shop)

    all_of_them = duework("failed", "purge", "--all")
    of_task = duework("failed", "purge", "--task", "fails", "--queue", "mail")
    one = duework("failed", "purge", job, "--json")
    queue = duework("queues", "purge", "mail")

    assert {all_of_them.code, of_task.code, one.code, queue.code} == {78}
    assert "Delete every failed job of fails in queue mail?" in of_task.err
    assert one.document["error"]["code"] == "usage"
    assert states(shop) == {job: "failed"}


def test_only_failed_jobs_are_purged_by_id(shop: App, duework: Duework) -> None:
    job = enqueue(shop, "greet", "ada")

    ran = duework("failed", "purge", job, "--yes")

    assert (ran.code, "is open, not failed" in ran.err) == (78, True)
    assert states(shop) == {job: "open"}


def test_ids_and_all_exclude_each_other(shop: App, duework: Duework) -> None:
    assert duework("failed", "redrive").code == 78
    assert duework("failed", "redrive", 1, "--all").code == 78
    assert duework("failed", "redrive", 1, "--task", "greet").code == 78
    assert duework("failed", "purge", 1, "--queue", "mail", "--yes").code == 78
    assert duework("failed", "purge", "--task", "", "--yes").code == 78


def test_a_paused_queue_starts_nothing_until_it_is_resumed(shop: App, duework: Duework) -> None:
    job = enqueue(shop, "greet", "ada")

    paused = duework("queues", "pause", "default", "--json").document
    listed = duework("queues", "list", "--json").lines
    work(shop)
    before = shop.job(job).phase
    resumed = duework("queues", "resume", "default", "--json").document
    work(shop)

    assert paused == {"queue": "default", "state": "paused"}
    assert [line["paused"] for line in listed if line["queue"] == "default"] == [True]
    assert (before, shop.job(job).phase) == ("ready", "done")
    assert resumed["state"] == "resumed"


def test_resuming_one_queue_while_everything_is_paused_says_so(shop: App, duework: Duework) -> None:
    enqueue(shop, "greet", "ada")
    duework("queues", "pause", "*")

    resumed = duework("queues", "resume", "default")

    assert resumed.out == "default paused\n"
    assert "everything is paused" in duework("status").out


def test_purging_a_queue_cancels_what_nobody_runs(shop: App, duework: Duework) -> None:
    mail = [enqueue(shop, "fails", f"{n}") for n in range(3)]
    other = enqueue(shop, "greet", "ada")

    ran = duework("queues", "purge", "mail", "--yes", "--json")

    assert ran.document == {"queue": "mail", "cancelled": 3}
    assert states(shop) == {**dict.fromkeys(mail, "cancelled"), other: "open"}


def test_a_queue_that_is_not_there_cannot_be_purged(shop: App, duework: Duework) -> None:
    assert duework("queues", "purge", "nope", "--yes").code == 1


def test_verify_passes_and_fails_with_its_exit_code(shop: App, duework: Duework) -> None:
    job = enqueue(shop, "greet", "ada")

    healthy = duework("verify", "--full", "--json")
    with shop.transaction() as tx:
        tx.write("update duework_job set fence = -1 where id = :id", id=job)
    broken = duework("verify")

    assert (healthy.code, healthy.document["ok"]) == (0, True)
    assert broken.code == 1
    assert f"fence_counts_up: {job}" in broken.out


def test_a_retry_of_a_job_that_waits_says_that_nothing_was_changed(
    shop: App, duework: Duework
) -> None:
    job = enqueue(shop, "greet", "ada", delay="1h")

    ran = duework("jobs", "retry", job)

    assert ran.out.startswith(f"{job} is waiting, due in ")
    assert ran.out.endswith(": nothing was changed; --now lets it run now\n")
    assert shop.job(job).phase == "waiting"


def test_a_retry_lets_a_job_that_waits_run_now(shop: App, duework: Duework) -> None:
    job = enqueue(shop, "greet", "ada", delay="1h")

    ran = duework("jobs", "retry", job, "--now")

    assert ran.out == f"{job} due now\n"
    assert shop.job(job).phase == "ready"
    assert "nothing was changed" in duework("jobs", "retry", job, "--now").out


def test_a_job_is_moved_to_another_time(shop: App, duework: Duework) -> None:
    job = enqueue(shop, "greet", "ada", delay="1h")
    due = shop.job(job).due

    assert duework("jobs", "move", job, "--delay", "2h").code == 0

    assert shop.job(job).due > due
    assert duework("jobs", "move", job).code == 78


@pytest.mark.parametrize(
    "words",
    [
        ("jobs", "list", "--queue", "mial"),
        ("queues", "pause", "mial"),
        ("queues", "resume", "mial"),
        ("queues", "purge", "mial", "--yes"),
    ],
)
def test_a_mistyped_queue_is_refused(shop: App, duework: Duework, words: tuple[str, ...]) -> None:
    enqueue(shop, "fails", "no")

    ran = duework(*words)

    assert ran.code != 0
    assert "did you mean 'mail'?" in ran.err
    assert shop.paused() == []


def test_a_queue_that_has_no_jobs_yet_may_be_paused(shop: App, duework: Duework) -> None:
    assert duework("queues", "pause", "letters").code == 0

    assert shop.paused() == ["letters"]
    assert duework("jobs", "list", "--queue", "postcards").code != 0


def test_a_mistyped_phase_is_refused_in_python_too(shop: App) -> None:
    with pytest.raises(UsageError, match="there is no phase 'wating'; did you mean 'waiting'"):
        shop.jobs(phase="wating")
