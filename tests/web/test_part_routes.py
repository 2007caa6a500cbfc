"""Routes of a part: who may ask, what they may send, and what they are answered, in exact statuses."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from duework import Part, UsageError
from tests.web.club import club, with_club
from tests.web.conftest import Browser, Site

SECRET = "open sesame"  # noqa: S105 - of a test


@pytest.fixture
def browser(site: Site, monkeypatch: pytest.MonkeyPatch) -> Browser:
    monkeypatch.setenv("CLUB_SERVER_SECRET", SECRET)
    with_club(site.app)
    return site.browser()


@pytest.fixture
def program(site: Site, browser: Browser) -> Browser:
    browser.headers["authorization"] = f"Bearer {site.token('operate')}"
    return browser


def problem(answer: Any, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    found: dict[str, Any] = answer.json()
    assert found["status"] == status
    return found


def test_a_struct_is_answered_as_json_with_the_types_of_the_path(program: Browser) -> None:
    answer = program.get("/api/orders/7")

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {"user": 7, "items": [], "express": False}


def test_a_reply_has_a_status_and_headers_of_its_own(program: Browser) -> None:
    sent = {"user": 7, "items": [{"name": "tea"}]}

    answer = program.post("/api/orders", json=sent)

    assert answer.status_code == 201
    assert answer.headers["location"] == "/api/orders/7"
    assert answer.json()["items"] == [{"name": "tea", "count": 1}]


def test_a_form_is_read_as_the_same_struct(program: Browser) -> None:
    answer = program.post("/api/orders", data={"user": "7", "express": "on"})

    assert answer.json() == {"user": 7, "items": [], "express": True}


def test_the_query_of_a_get_is_a_struct_too(program: Browser) -> None:
    assert program.get("/api/orders?days=3").json() == [3]
    assert program.get("/api/orders").json() == [7]
    assert problem(program.get("/api/orders?days=x"), 422)["errors"][0]["path"] == "days"


@pytest.mark.parametrize(
    ("sent", "path"),
    [
        ({}, "user"),
        ({"user": "x"}, "user"),
        ({"user": 1, "items": [{"name": "a"}, {"name": 5}]}, "items[1].name"),
        ({"user": 1, "items": [{}]}, "items[0].name"),
        ([], ""),
    ],
)
def test_a_body_that_does_not_fit_is_422_with_the_path_of_the_field(
    program: Browser, sent: Any, path: str
) -> None:
    found = problem(program.post("/api/orders", json=sent), 422)

    assert found["errors"][0]["path"] == path
    assert found["errors"][0]["message"]


def test_what_is_no_json_or_of_another_type_or_too_large_is_refused(program: Browser) -> None:
    as_json = {"content-type": "application/json"}
    for bad in (b"{", b"\xff", b'{"user":NaN}', b'{"x":' + b"[" * 100_000):
        problem(program.post("/api/orders", content=bad, headers=as_json), 400)
    for kind in ("text/plain", "multipart/form-data; boundary=x", "application/xml"):
        problem(program.post("/api/orders", content=b"{}", headers={"content-type": kind}), 415)
    big = b'{"user": 1, "x": "' + b"a" * 1_100_000 + b'"}'
    problem(program.post("/api/orders", content=big, headers=as_json), 413)

    def drop_by_drop() -> Any:
        yield from (b"a" * 100_000 for _ in range(20))

    problem(program.post("/api/orders", content=drop_by_drop(), headers=as_json), 413)
    problem(program.post("/hooks/x", content=drop_by_drop()), 413)


def test_a_raw_body_is_given_as_it_came(browser: Browser) -> None:
    answer = browser.post("/hooks/strava", content=b"\x00\xffab")

    assert (answer.status_code, answer.text) == (202, "strava: 4")


@pytest.mark.parametrize(
    "path", ["/api/orders/x", "/api/orders/1.5", "/api/orders/9223372036854775808", "/hooks/%00"]
)
def test_a_path_that_does_not_fit_its_types_is_not_there(program: Browser, path: str) -> None:
    ask = program.post if path.startswith("/hooks") else program.get

    problem(ask(path), 404)


def test_errors_are_problems_and_say_nothing_of_the_inside(
    program: Browser, caplog: pytest.LogCaptureFixture
) -> None:
    assert problem(program.get("/api/orders/404"), 404)["detail"] == "there is no order 404"
    assert problem(program.get("/api/raise/conflict"), 409)["code"] == "conflict"
    away = program.get("/api/raise/away")
    assert problem(away, 503)["code"] == "unavailable"
    assert away.headers["retry-after"] == "1"
    assert program.get("/api/raise/none").status_code == 204

    with caplog.at_level(logging.ERROR, "duework"):
        found = problem(program.get("/api/raise/other"), 500)
    assert "secret inside" not in str(found)
    assert "secret inside" in caplog.text


def test_an_address_that_is_there_says_what_it_answers_to(program: Browser) -> None:
    answer = program.get("/api/cron/process-user")

    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"
    assert program.delete("/api/orders").headers["allow"] == "GET, HEAD, POST"


def test_a_shared_secret_opens_its_route_and_nothing_else_does(
    site: Site, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, body = "/api/cron/process-user", {"name": "ada"}

    assert browser.post(path, json=body, headers={"X-Cron-Secret": SECRET}).json() == body
    token = {"authorization": f"Bearer {site.token('admin')}"}
    twice = [("x-cron-secret", SECRET), ("x-cron-secret", SECRET)]
    for headers in ({}, {"X-Cron-Secret": SECRET + "x"}, {"X-Cron-Secret": ""}, token, twice):
        refused = browser.post(path, json=body, headers=headers)
        assert (refused.status_code, refused.json()) == (401, {"error": "Unauthorized"})


def test_without_a_secret_in_the_settings_nobody_has_it(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLUB_SERVER_SECRET", "")
    with_club(site.app)

    for sent in ({}, {"X-Cron-Secret": ""}, {"X-Cron-Secret": "None"}):
        answer = site.browser().post("/api/cron/process-user", json={"name": "a"}, headers=sent)
        assert answer.status_code == 401


def test_a_route_may_word_its_problems_and_leave_the_rest(browser: Browser) -> None:
    headers = {"X-Cron-Secret": SECRET}

    def post(body: Any) -> Any:
        return browser.post("/api/cron/process-user", json=body, headers=headers)

    failed = post({"name": "bad"})
    assert failed.status_code == 500
    assert failed.json() == {"error": "Process user failed", "message": "no such luck"}
    problem(post({}), 422)
    problem(post({"name": "a" * 200}), 413)


def test_a_function_of_the_request_names_a_person_of_this_part(browser: Browser) -> None:
    assert browser.get("/api/whoami", headers={"x-caller": "ada"}).text == "ada@club.test GET"
    problem(browser.get("/api/whoami"), 401)
    problem(browser.get("/api/whoami", headers={"x-caller": "eve"}), 404)


def test_a_session_of_a_browser_looks_but_does_not_act(site: Site, browser: Browser) -> None:
    browser.sign_in(site.token("admin"))

    assert browser.get("/api/orders/7").status_code == 200
    problem(browser.post("/api/orders", json={"user": 7}), 401)


def test_addresses_that_are_ours_or_of_another_part_are_refused_at_the_start(site: Site) -> None:
    part = Part("club")

    @part.route("/jobs/mine")
    def mine() -> None: ...

    site.app.include(part)
    with pytest.raises(UsageError, match="/jobs/mine of club stands where ours do"):
        site.app.asgi()


def test_two_parts_cannot_answer_to_one_address(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_club(site.app)
    part = Part("other")

    @part.route("/api/orders/{key}")
    def order(key: str) -> None: ...

    site.app.include(part)
    with pytest.raises(UsageError, match="two parts answer to GET /api/orders"):
        site.app.asgi()


def test_what_is_written_out_goes_before_what_has_parameters(site: Site) -> None:
    part = Part("shop")

    @part.route("/shop-api/{id}", auth="public")
    def one(id: str) -> str:  # noqa: A002
        return id

    @part.route("/shop-api/newest", auth="public")
    def newest() -> str:
        return "the newest"

    @part.route("/shop-api/new", methods=["POST"], auth="public")
    def new() -> str:
        return "a new one"

    site.app.include(part)
    browser = site.browser()

    assert browser.get("/shop-api/newest").text == "the newest"
    assert browser.get("/shop-api/7").text == "7"
    assert browser.post("/shop-api/new").text == "a new one"
    assert browser.get("/shop-api/new").text == "new"


def test_behind_a_prefix_routes_and_pages_stand_below_it(site: Site) -> None:
    with_club(site.app)
    browser = site.browser(prefix="/work")

    assert browser.get("/work/api/raise/none").status_code == 204
    assert "Club" in browser.get("/work/club/rules").text
    assert club().contents.face.routes


def test_an_app_has_routes_of_its_own(site: Site) -> None:
    @site.app.route("/api/hello/{name}")
    def hello(name: str) -> dict[str, str]:
        return {"hello": name}

    asked = site.browser()

    assert asked.get("/api/hello/ada").status_code == 401
    asked.headers["authorization"] = f"Bearer {site.token('operate')}"
    assert asked.get("/api/hello/ada").json() == {"hello": "ada"}
