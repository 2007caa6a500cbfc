"""Pages and actions of a part: inside our shell, behind our doors, and rendered again without a request."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from duework import NotFound, Part, Template, UsageError
from duework.web.parts.pages import regions_of, render_page
from duework.web.visitor import Visitor
from tests.web.club import paused
from tests.web.conftest import OURS, Browser, Site, check_page


def audit(site: Site) -> list[tuple[Any, ...]]:
    rows = site.app.read("select who, what, target, outcome from duework_audit order by id")
    return [tuple(row) for row in rows]


def test_a_page_is_shown_in_the_shell_and_its_values_are_text(browser: Browser) -> None:
    answer = browser.get("/club/users/7?days=30")

    check_page(answer)
    assert "&lt;b&gt;Ada&lt;/b&gt;" in answer.text
    assert '<p id="query">30</p>' in answer.text
    assert '<div class="region" id="page">' in answer.text
    assert 'href="/jobs"' in answer.text


def test_the_side_bar_lists_systems_and_the_pages_of_the_open_one(browser: Browser) -> None:
    home, club = browser.get("/").text, browser.get("/club/").text

    assert "<h2>Systems</h2>" in home
    assert 'href="/club/"' in home
    assert 'href="/club/" aria-current="page"' in club
    assert 'href="/club/" aria-current="page"' in browser.get("/club/users/7").text
    assert "The club" in club
    assert "/club/broken" not in club
    assert 'href="/club/"' in browser.get("/menu").text
    assert browser.get("/club").status_code == 200


def test_an_app_without_pages_of_parts_has_no_such_group(site: Site) -> None:
    assert "Systems" not in site.browser("read").get("/").text


def test_a_page_asks_for_a_token_and_a_public_one_does_not(site: Site, part: Part) -> None:
    answer = site.browser().get("/club/users/7")

    assert answer.headers["location"] == "/login?back=/club/users/7"
    assert site.browser().get("/club/rules").status_code == 200
    assert site.browser("read").get("/club/users/7").status_code == 200


def test_what_a_page_raises_is_a_page_too(
    browser: Browser, caplog: pytest.LogCaptureFixture
) -> None:
    assert browser.get("/club/users/404").status_code == 404
    assert browser.get("/club/users/x").status_code == 404
    assert browser.get("/club/nowhere").status_code == 404
    assert browser.get("/club/users/7?days=x").status_code == 400
    assert browser.get("/club/users/303").headers["location"] == "/club/"
    with caplog.at_level(logging.ERROR, "duework"):
        broken = browser.get("/club/broken")
    assert broken.status_code == 500
    assert "secret inside" not in broken.text
    assert "secret inside" in caplog.text


def test_a_page_is_rendered_again_without_a_request_and_cut_into_regions(
    site: Site, part: Part
) -> None:
    page = next(each for each in part.contents.face.pages if each.endpoint.path == "/users/{id}")
    visitor = Visitor(here="/club/users/7")

    first = asyncio.run(render_page(part, page, {"id": "7"}, [("days", "3")], visitor))
    paused(part).append("paused & <gone>")
    second = asyncio.run(render_page(part, page, {"id": 7}, [("days", "3")], visitor))

    one, two = regions_of(page, first.html), regions_of(page, second.html)
    assert list(one) == ["history", "query"]
    assert one["query"] == two["query"] == '<p id="query">3</p>'
    assert one["history"] != two["history"]
    assert two["history"].startswith('<section class="panel" id="history">')
    assert two["history"].endswith("<li>paused &amp; &lt;gone&gt;</li></ul></section>")
    assert page.topics({"id": 7}) == ("user:7", "users")
    with pytest.raises(NotFound):
        asyncio.run(render_page(part, page, {"id": "x"}, [], visitor))


def test_a_form_acts_once_is_audited_and_comes_back_with_words(
    site: Site, part: Part, browser: Browser
) -> None:
    page = browser.get("/club/users/7?days=30").text
    assert 'name="back" value="/club/users/7?days=30"' in page

    answer = browser.submit("/club/users/7/pause", back="/club/users/7?days=30", note="tired")

    assert answer.status_code == 303
    assert answer.headers["location"] == "/club/users/7?days=30"
    assert paused(part) == ["tired"]
    assert "User 7 is paused" in browser.get("/club/users/7").text
    assert audit(site) == [("operate-0", "club.pause", "/club/users/7/pause", "done")]


@pytest.mark.parametrize("elsewhere", ["//evil.test", "https://evil.test/", "/\\evil.test"])
def test_a_form_comes_back_to_our_own_pages_only(browser: Browser, elsewhere: str) -> None:
    for field in ("back", "next"):
        answer = browser.submit("/club/users/7/pause", **{field: elsewhere})
        assert answer.headers["location"] == "/club/"
    headers = {**OURS, "referer": elsewhere}
    data = {"form": browser.form_key()}
    answer = browser.post("/club/users/7/pause", data=data, headers=headers)
    assert answer.headers["location"] == "/club/"
    headers["referer"] = "http://localhost/club/users/7?days=1"
    answer = browser.post("/club/users/7/pause", data=data, headers=headers)
    assert answer.headers["location"] == "/club/users/7?days=1"


def test_an_action_needs_the_scope_operate_and_the_field_of_its_session(
    site: Site, part: Part, browser: Browser
) -> None:
    reader = site.browser("read")

    assert reader.submit("/club/users/7/pause").status_code == 403
    other = browser.post("/club/users/7/pause", data={"form": "x"}, headers=OURS)
    assert other.status_code == 403
    assert site.browser().post("/club/users/7/pause", headers=OURS).status_code == 401
    assert (paused(part), audit(site)) == ([], [])


def test_an_action_that_says_no_is_told_and_audited(site: Site, browser: Browser) -> None:
    answer = browser.submit("/club/users/409/pause", back="/club/users/7")

    assert answer.status_code == 303
    assert "It is paused already" in browser.get("/club/users/7").text
    assert audit(site)[0][3] == "conflict"
    token = {"authorization": f"Bearer {site.token('operate')}"}
    assert browser.post("/club/users/409/pause", headers=token).status_code == 409
    done = browser.post("/club/users/7/pause", headers=token)
    assert done.json() == {"outcome": "User 7 is paused"}


def test_an_action_with_a_transaction_and_its_line_are_one_commit(
    site: Site, browser: Browser
) -> None:
    with site.app.transaction() as tx:
        tx.write("create table club_name (id bigint primary key)")

    assert browser.submit("/club/users/7/rename").status_code == 303
    assert browser.submit("/club/users/7/rename").status_code in {303, 500, 503}

    assert len(site.app.read("select id from club_name")) == 1
    assert [line[1] for line in audit(site)] == ["club.rename"]


def test_an_action_without_a_transaction_has_its_line_before_it_begins(site: Site) -> None:
    part = Part("gym")
    seen: list[tuple[Any, ...]] = []

    @part.action("/look")
    def look() -> None:
        seen.extend(audit(site))
        raise RuntimeError("secret inside")

    site.app.include(part)
    answer = site.browser("operate").submit("/gym/look")

    assert answer.status_code == 500
    assert "secret inside" not in answer.text
    assert [line[1:] for line in seen] == [("gym.look", "/gym/look", "begun")]
    assert [line[3] for line in audit(site)] == ["failed: RuntimeError"]


def test_behind_a_prefix_a_reply_leads_below_it(site: Site, part: Part) -> None:
    browser = site.browser(prefix="/work")
    headers = {"authorization": f"Bearer {site.token('operate')}"}

    assert browser.get("/work/club/users/303", headers=headers).headers["location"] == "/work/club/"
    made = browser.post("/work/api/orders", json={"user": 7}, headers=headers)
    assert made.headers["location"] == "/work/api/orders/7"


def test_what_is_asked_before_is_done_after_the_answer(
    site: Site, part: Part, browser: Browser
) -> None:
    asked = browser.submit("/club/users/7/delete", back="/club/")

    assert asked.status_code == 200
    check_page(asked)
    assert "Delete user 7?" in asked.text
    assert (paused(part), audit(site)) == ([], [])
    assert browser.submit("/club/users/7/delete", sure="yes", why="asked").status_code == 303
    assert paused(part) == ["deleted 7"]


def test_a_template_that_is_not_there_is_said(site: Site, part: Part) -> None:
    @part.page("/lost")
    def lost() -> Template:
        return Template("lost.html")

    page = part.contents.face.pages[-1]
    with pytest.raises(UsageError, match=r"no template lost\.html in .*pages"):
        asyncio.run(render_page(part, page, {}, [], Visitor()))


def test_a_part_whose_name_is_an_address_of_ours_has_no_pages(site: Site) -> None:
    part = Part("jobs")

    @part.page("/")
    def front() -> Template:
        return Template("club.html")

    site.app.include(part)
    with pytest.raises(UsageError, match="/jobs, which is ours"):
        site.app.asgi()
