"""The pages of workflows and budgets, on both databases: what they show and what they do."""

from __future__ import annotations

from typing import Any

from duework import Run
from tests.web.conftest import Site, check_page, work
from tests.web.test_pages import HOSTILE, text_of


def test_workflows_are_shown_with_their_steps_and_can_be_forked_and_cancelled(site: Site) -> None:
    app, browser = site.app, site.browser("admin")
    assert "No workflows" in text_of(browser.get("/steps").text)

    @app.task
    async def order(run: Run) -> Any:
        await run.step("charge", lambda: HOSTILE)
        return await run.wait_for("approved", key="".join(HOSTILE))

    job = order.enqueue()
    work(app)
    for path in ("/steps", "/steps?state=running", f"/steps/{job.id}"):
        answer = browser.get(path)
        assert answer.status_code == 200, answer.text[-500:]
        check_page(answer)
    assert "it waits at" in text_of(browser.get(f"/steps/{job.id}").text)
    assert browser.get("/steps?state=odd").status_code == 400
    assert browser.get("/steps/7").status_code == 404

    browser.submit("/steps/fork", id=job.id, step="charge")
    assert len(app.jobs(task="order")) == 2
    browser.submit("/steps/cancel", id=job.id, sure="yes")
    assert app.job(job.id).state == "cancelled"
    browser.submit("/steps/resume", id=job.id)
    assert app.job(job.id).state == "open"


def test_budgets_are_shown_with_their_ledgers_and_can_be_raised(site: Site) -> None:
    app, browser = site.app, site.browser("admin")
    assert "No budgets" in text_of(browser.get("/budgets").text)
    llm = app.budget("llm", limit=5, per="day", unit="$")
    with llm.reserve(5, note="".join(HOSTILE)):
        pass
    for path in ("/budgets", "/budgets?prefix=l", "/budgets/one?name=llm"):
        answer = browser.get(path)
        assert answer.status_code == 200, answer.text[-500:]
        check_page(answer)
    assert "used up" in text_of(browser.get("/budgets/one?name=llm").text)
    assert browser.get("/budgets/one?name=none").status_code == 404

    browser.submit("/budgets/raise", name="llm", limit="8")
    assert llm.status().limit == 8
    shown = text_of(browser.get("/budgets/one?name=llm").text)
    assert "$3.00 of $8.00 left this day" in shown
    assert "raised from $5.00" in shown
    assert "$8.00 a day" in text_of(browser.get("/budgets").text)
