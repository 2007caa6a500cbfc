"""`duework batches`: what it shows and what it does."""

from __future__ import annotations

from typing import Any

import pytest

from duework import App, Batch
from tests.cli.conftest import HOSTILE, Duework, work


@pytest.fixture
def batch(shop: App) -> Batch:
    """One member of two has failed, and the follow-up is done."""

    @shop.task
    async def report() -> None: ...

    @shop.task
    async def half(number: int) -> None:
        if number:
            raise ValueError(HOSTILE)

    made = shop.batch(half, [0, 1], name="nightly", then=report, key="night 7")
    work(shop)
    return made


def test_batches_are_listed_newest_first(shop: App, batch: Batch, duework: Duework) -> None:
    newer = shop.batch(shop_task(shop), [], name=HOSTILE)

    ran = duework("batches", "list", "--json")
    page = duework("batches", "list", "--limit", 1)

    assert [line["id"] for line in ran.lines] == [str(newer.id), str(batch.id)]
    assert (ran.lines[1]["done"], ran.lines[1]["failed"], ran.lines[1]["total"]) == (1, 1, 2)
    assert f"more: --before {newer.id}" in page.out
    assert "\x1b" not in page.out
    assert all(len(line) <= 80 for line in page.out.splitlines())
    assert duework("batches", "list", "--name", "other").out == "no such batches\n"


def shop_task(app: App) -> Any:
    @app.task
    def other() -> None: ...

    return other


def test_one_batch_is_shown_with_what_failed(batch: Batch, duework: Duework) -> None:
    ran = duework("batches", "show", batch.id)
    assert ran.out.startswith(f"batch      {batch.id}"), "it begins without an empty line"
    document = duework("batches", "show", batch.id, "--json").document

    follow = batch.then_job()
    assert follow is not None
    assert (document["percent"], document["then"]) == (100, "report")
    assert document["then_job"] == str(follow.id)
    assert document["failed_jobs"] == [str(batch.jobs(phase="failed")[0].id)]
    for text in ("nightly", "night 7", "100", f"report {follow.id}", "ValueError"):
        assert text in ran.out
    assert "\x1b" not in ran.out
    assert all(len(line) <= 80 for line in ran.out.splitlines())


def test_a_batch_that_is_not_there_is_not_found(shop: App, duework: Duework) -> None:
    shop.status()

    ran = duework("batches", "show", 7, "--json")

    assert ran.code != 0
    assert ran.document["error"]["code"] == "not_found"


def test_what_failed_is_retried_and_then_cancelled(batch: Batch, duework: Duework) -> None:
    retried = duework("batches", "retry", batch.id, "--then", "--json")
    unsure = duework("batches", "cancel", batch.id)
    cancelled = duework("batches", "cancel", batch.id, "--yes", "--why", "enough")

    assert retried.document == {"batch": str(batch.id), "revived": 1}
    assert unsure.code != 0
    assert cancelled.out == "1 cancelled\n"
    assert batch.jobs(phase="cancelled")[0].error == "enough"
    assert batch.then_job() is not None
    assert duework("batches", "retry", batch.id).out == "0 revived\n"
