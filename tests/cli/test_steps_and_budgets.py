"""`duework steps` and `duework budgets`: on a database alone, without the code that made the rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from duework import App, Run
from tests.cli.conftest import HOSTILE, Duework, work


@pytest.fixture
def busy(url: str) -> Iterator[tuple[App, int]]:
    app = App(url)

    @app.task
    async def order(run: Run) -> Any:
        await run.step("charge", lambda: HOSTILE)
        return await run.wait_for("approved", key="7")

    job = order.enqueue()
    work(app)
    llm = app.budget("llm", limit=5, per="day")
    with llm.reserve(2, note=HOSTILE):
        pass
    yield app, job.id
    app.close()


def test_a_workflow_is_listed_shown_told_forked_and_cancelled(
    busy: tuple[App, int], duework: Duework
) -> None:
    app, job = busy
    assert [line["job"] for line in duework("steps", "list", "--json").lines] == [job]
    assert "order" in duework("steps", "list").out
    assert "no workflows" in duework("steps", "list", "--state", "attention").out
    shown = duework("steps", "show", job)
    assert "approved:7" in shown.out
    assert "\x1b" not in shown.out
    document = duework("steps", "show", job, "--json").document
    assert [(s["name"], s["state"]) for s in document["steps"]] == [
        ("charge", "done"),
        ("approved:7", "waiting"),
    ]
    new = duework("steps", "fork", job, "charge", "--json").document["job"]
    assert app.job(new).phase == "ready"
    assert duework("steps", "fork", job, "none").code != 0
    assert duework("steps", "cancel", job).code == 0
    assert app.job(job).state == "cancelled"
    assert duework("steps", "resume", job).code == 0
    assert app.job(job).state == "open"
    assert duework("steps", "signal", "approved", '{"by": "ada"}', "--key", "7").code == 0
    assert duework("steps", "signal", "approved", "{").code != 0
    work(app)
    assert app.job(job).result == {"by": "ada"}


def test_a_budget_is_listed_shown_and_raised(busy: tuple[App, int], duework: Duework) -> None:
    [line] = duework("budgets", "list", "--json").lines
    assert (line["name"], line["spent"], line["left"]) == ("llm", "2", "3")
    assert "llm" in duework("budgets", "list").out
    shown = duework("budgets", "show", "llm")
    assert "3 of 5 left this day" in shown.out
    assert "\x1b" not in shown.out
    assert duework("budgets", "show", "llm", "--json").document["ledger"][0]["amount"] == "2"
    assert "8 of 10 left" in duework("budgets", "raise", "llm", "10").out
    assert duework("budgets", "raise", "none", "10").code != 0
