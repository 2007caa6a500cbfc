"""The pages of what users count, and of jobs by what they carry; on both databases."""

from __future__ import annotations

import pytest

from tests.web.conftest import Site, check_page, task
from tests.web.test_pages import HOSTILE, text_of

NASTY = "".join(HOSTILE)


@pytest.mark.parametrize("span", ["minute", "hour", "day"])
def test_what_is_counted_is_drawn_and_summed_by_labels(site: Site, span: str) -> None:
    app, browser = site.app, site.browser("read")
    assert "No metrics yet" in text_of(browser.get("/metrics/names").text)
    for number in range(7):
        app.metrics.add("sold", number, item=f"<i>{number}</i>")
    app.metrics.time("packed", 1.5)
    app.metrics.flush()

    names = browser.get("/metrics/names")
    sold = browser.get(f"/metrics/one?name=sold&span={span}")
    packed = browser.get(f"/metrics/one?name=packed&span={span}")

    for answer in (names, sold, packed):
        assert answer.status_code == 200, answer.text[-500:]
        check_page(answer)
    assert "2 metrics of the program's own" in text_of(names.text)
    assert "21 in the time that is drawn" in text_of(sold.text)
    assert "item=<i>6</i>" in text_of(sold.text)
    assert "<i>6</i>" not in sold.text
    assert "1.5 s on average" in text_of(packed.text)


def test_a_name_that_nobody_counts_is_not_there(site: Site) -> None:
    browser = site.browser("read")

    assert browser.get("/metrics/one?name=none").status_code == 404
    assert browser.get("/metrics/one").status_code == 400
    assert browser.get("/metrics/one?name=none&span=year").status_code == 400


def test_jobs_are_listed_by_tag_and_carry_links_to_others_of_it(site: Site) -> None:
    app, browser = site.app, site.browser("read")
    greet = task(app, "greet")
    jobs = [
        greet.using(tags=("tenant:7",), headers={"trace": "<b>t</b>"}).enqueue("a")
        for _ in range(60)
    ]
    other = greet.enqueue("b")

    first = browser.get("/jobs?tag=tenant:7")
    rest = browser.get(f"/jobs?tag=tenant:7&before={jobs[10].id}")
    one = browser.get(f"/jobs/{jobs[0].id}")

    for answer in (first, rest, one):
        check_page(answer)
    assert first.text.count('<tr role="row" id="job-') == 50
    assert rest.text.count('<tr role="row" id="job-') == 10
    assert f"before={jobs[10].id}" in first.text
    assert str(other.id) not in first.text
    assert 'href="/jobs?tag=tenant%3A7"' in one.text
    assert "<b>t</b>" in text_of(one.text)
    assert browser.get("/jobs", params={"tag": NASTY[:300]}).status_code == 200
    assert browser.get("/jobs", params={"tag": "x" * 301}).status_code == 400


def test_a_list_says_why_its_jobs_wait_without_a_statement_for_each(
    site: Site, statements: object
) -> None:
    app, browser = site.app, site.browser("read")
    greet, fails = task(app, "greet"), task(app, "fails")
    first = greet.using(delay="1h").enqueue("later")
    greet.using(after=first).enqueue("after")
    fails.enqueue("behind the pause")
    app.pause("mail")
    greet.enqueue("ready")
    count = statements

    few = count(lambda: browser.get("/jobs"))  # type: ignore[operator]
    page = text_of(browser.get("/jobs").text)
    greet.enqueue_many([(f"{n}",) for n in range(60)])
    many = count(lambda: browser.get("/jobs"))  # type: ignore[operator]

    assert "due later, as asked for" in page
    assert f"after job {first.id}" in page
    assert "queue mail is paused" in page
    assert many == few
