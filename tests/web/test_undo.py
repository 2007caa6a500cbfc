"""What takes an action back: a button beside what the action had to say."""

from __future__ import annotations

from tests.web.conftest import Site, task


def test_what_was_cancelled_is_opened_again_from_where_that_is_told(site: Site) -> None:
    browser = site.browser("operate")
    greet = task(site.app, "greet").using(delay="1h")
    jobs = [greet.enqueue(name).id for name in ("ada", "bob")]
    browser.submit("/jobs/cancel", id=jobs, sure="yes")

    told = browser.get("/jobs").text

    assert ' action="/jobs/retry"' in told
    assert all(f'<input type="hidden" name="id" value="{job}">' in told for job in jobs)
    assert "Open again, due now" in told
    assert "Open again, due now" not in browser.get("/jobs").text, "offered once"
    browser.submit("/jobs/retry", id=jobs)
    assert {site.app.job(job).phase for job in jobs} == {"ready"}
    assert "Open again" not in browser.get("/jobs").text


def test_a_pause_is_taken_back_by_a_button_and_a_purge_cannot_be_put_there(site: Site) -> None:
    browser = site.browser("operate")
    browser.submit("/queues/pause", queue="mail")
    assert ' action="/queues/resume"' in browser.get("/").text

    browser.submit("/queues/resume", queue="mail")
    browser.cookies.delete("undo")
    browser.cookies.set("undo", "act%3D%252Fqueues%252Fpurge%26queue%3Dmail")

    told = browser.get("/").text
    assert "Queue mail is resumed" in told
    assert ' action="/queues/purge"' not in told
