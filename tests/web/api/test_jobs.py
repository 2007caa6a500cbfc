"""Jobs by HTTP: what one sends becomes one job, and what one asks for is the row."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from duework import App
from duework.byname import task_names
from tests.web.api.conftest import Program
from tests.web.api.shop import HOSTILE
from tests.web.conftest import task, work

ADA = {"task": "greet", "arguments": {"name": "ada"}}


def keyed(key: str) -> dict[str, str]:
    return {"idempotency-key": key}


def test_a_job_is_made_run_and_read(program: Program, app: App) -> None:
    answer = program.ask("POST", "/jobs", json={**ADA, "priority": 7, "serial": "s"})
    work(app)
    found = program.get(answer.headers["location"].removeprefix("/api/v1"))

    assert answer.status_code == 201
    assert answer.json() == {"id": found["id"], "existed": False}
    assert (found["phase"], found["result"]) == ("done", "hello ada")
    assert (found["arguments"]["name"], found["priority"]) == ("ada", 7)
    assert isinstance(found["id"], str)


def test_arguments_are_given_by_name_or_by_place_and_checked(program: Program, app: App) -> None:
    program.post("/jobs", 201, task="add", arguments=[1, 2])
    program.post("/jobs", 201, task="add", arguments={"b": 2, "a": 1})
    wrong = {"task": "add", "arguments": [1, "2"]}
    many = {"task": "add", "arguments": [1, 2, 3]}

    assert program.problem("POST", "/jobs", json=wrong) == (422, "invalid_arguments")
    assert program.problem("POST", "/jobs", json=many) == (422, "invalid_arguments")
    assert len(app.jobs()) == 2


@pytest.mark.parametrize(
    "name", ["duework.prune", "pull", "post.submit", "post.poll", "remind.email", "nobody", ""]
)
def test_what_shapes_run_for_themselves_cannot_be_enqueued(
    program: Program, app: App, name: str
) -> None:
    status, code = program.problem("POST", "/jobs", json={"task": name})

    assert (status, code) in {(400, "usage"), (404, "task_not_found")}
    assert app.jobs(own=True) == []
    assert name not in {each["name"] for each in program.get("/tasks")["items"]}


def test_tasks_say_what_they_take(program: Program, app: App) -> None:
    found = {each["name"]: each for each in program.get("/tasks")["items"]}

    assert list(found) == task_names(app)
    assert {"greet", "add", "remind"} <= set(found)
    assert found["add"]["takes"] == ["a", "b"]


# --- the Idempotency-Key


def test_the_same_request_makes_one_job_however_often_it_is_sent(
    program: Program, app: App
) -> None:
    first = program.ask("POST", "/jobs", json=ADA, headers=keyed("k"))
    work(app)
    shuffled = b' { "arguments": {"name":"ada"} , "task":"greet"}'
    again = program.ask("POST", "/jobs", content=shuffled, headers=keyed("k"))

    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == {"id": first.json()["id"], "existed": True}
    assert len(app.jobs()) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"task": "greet", "arguments": {"name": "bob"}},
        {"task": "gone", "arguments": {"text": "ada"}},
        {**ADA, "priority": 1},
        {**ADA, "delay": "1h"},
    ],
)
def test_another_body_under_the_same_key_is_a_conflict(
    program: Program, app: App, other: dict[str, Any]
) -> None:
    program.ask("POST", "/jobs", json=ADA, headers=keyed("k"))

    found = program.problem("POST", "/jobs", json=other, headers=keyed("k"))

    assert found == (409, "idempotency_key_reused")
    assert [job.arguments["name"] for job in app.jobs()] == ["ada"]


def test_a_key_is_remembered_when_its_job_is_not_kept(program: Program, app: App) -> None:
    body = {"task": "gone", "arguments": ["x"]}
    first = program.ask("POST", "/jobs", json=body, headers=keyed("k")).json()
    work(app)
    assert app.jobs() == []

    again = program.ask("POST", "/jobs", json=body, headers=keyed("k"))
    other = {**body, "arguments": ["y"]}

    assert again.json() == {"id": first["id"], "existed": True}
    assert program.problem("POST", "/jobs", json=other, headers=keyed("k"))[0] == 409
    assert app.jobs() == []


def test_a_key_that_a_program_in_python_has_is_the_same_key(program: Program, app: App) -> None:
    there = task(app, "greet").using(key="k").enqueue("ada")

    same = {"task": "greet", "arguments": ["ada"]}
    answer = program.ask("POST", "/jobs", json=same, headers=keyed("k"))
    other = {"task": "greet", "arguments": ["bob"]}
    task(app, "greet").using(key="l").enqueue("ada")

    assert answer.json() == {"id": str(there.id), "existed": True}
    assert program.problem("POST", "/jobs", json=other, headers=keyed("l"))[0] == 409


def test_of_many_that_send_the_same_at_once_one_makes_the_job(program: Program, app: App) -> None:
    answers: list[Any] = []

    def send() -> None:
        answers.append(program.ask("POST", "/jobs", json=ADA, headers=keyed("k")))

    threads = [threading.Thread(target=send) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert sorted(answer.status_code for answer in answers) == [200] * 7 + [201]
    assert {answer.json()["id"] for answer in answers} == {str(job.id) for job in app.jobs()}


@pytest.mark.parametrize("key", ["", "x" * 501, "a\tb"])
def test_a_key_that_is_none_is_refused(program: Program, app: App, key: str) -> None:
    found = program.problem("POST", "/jobs", json=ADA, headers=keyed(key))

    assert found == (400, "bad_request")
    assert app.jobs() == []


def test_a_key_in_the_body_and_another_in_the_header_are_a_mistake(program: Program) -> None:
    both = program.problem("POST", "/jobs", json={**ADA, "key": "a"}, headers=keyed("b"))

    assert both == (400, "usage")


# --- looking


def test_a_list_is_read_page_by_page_and_filtered(program: Program, app: App) -> None:
    made = [task(app, "greet").enqueue(f"{n}").id for n in range(5)]
    task(app, "fails").enqueue(HOSTILE)
    work(app)

    cursor, seen = "", []
    while cursor is not None:
        page = program.get("/jobs", task="greet", limit=2, cursor=cursor)
        seen += [int(each["id"]) for each in page["items"]]
        cursor = page["next"]
    [failed] = program.get("/jobs", phase="failed")["items"]

    assert seen == made[::-1]
    assert (failed["task"], failed["queue"]) == ("fails", "mail")
    assert program.get("/jobs", queue="mail")["items"] == [failed]
    assert program.get("/jobs", key="none") == {"items": [], "next": None}


def test_a_search_says_how_far_it_got_and_goes_on_from_there(
    program: Program, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duework.verbs.LOOK", 3)
    wanted = task(app, "add").enqueue(1, 2).id
    task(app, "greet").enqueue_many([(f"{n}",) for n in range(7)])

    pages = []
    cursor: str | None = ""
    while cursor is not None:
        pages.append(program.get("/jobs", task="add", cursor=cursor))
        cursor = pages[-1]["next"]

    assert [len(page["items"]) for page in pages] == [0, 0, 1]
    assert pages[-1]["items"][0]["id"] == str(wanted)


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"cursor": "?"}, "bad_cursor"),
        ({"cursor": "IngiCg"}, "bad_cursor"),
        ({"limit": 0}, "unprocessable_content"),
        ({"limit": 201}, "unprocessable_content"),
        ({"phase": "odd"}, "unprocessable_content"),
        ({"odd": 1}, "unprocessable_content"),
        ({"task": "a\0b"}, "unprocessable_content"),
    ],
)
def test_a_query_that_does_not_fit_is_refused(
    program: Program, query: dict[str, Any], code: str
) -> None:
    status, found = program.problem("GET", "/jobs", params=query)

    assert (status in {400, 422}, found) == (True, code)


def test_a_job_says_why_it_waits_and_what_it_tried(program: Program, app: App) -> None:
    failed = task(app, "fails").enqueue("so it goes").id
    work(app)
    later = program.post("/jobs", 201, **ADA, delay="1h")["id"]

    [attempt] = program.get(f"/jobs/{failed}/attempts")["items"]

    assert attempt["outcome"] == "failed"
    assert "so it goes" in attempt["error"]
    assert program.get(f"/jobs/{later}/why")["kind"] == "later"
    assert program.get(f"/jobs/{failed}/why")["kind"] == "failed"


@pytest.mark.parametrize("identifier", ["7", "abc", "-1", "9" * 19, "9" * 30, "1.0", "%00"])
def test_a_job_that_is_not_there_is_not_found(program: Program, identifier: str) -> None:
    for path in ("", "/why", "/attempts"):
        assert program.problem("GET", f"/jobs/{identifier}{path}") == (404, "not_found")
    for path in ("/cancel", "/retry"):
        assert program.problem("POST", f"/jobs/{identifier}{path}", json={}) == (404, "not_found")


# --- acting


def test_a_job_is_cancelled_and_opened_again_and_it_is_written_down(
    program: Program, app: App
) -> None:
    made = program.post("/jobs", 201, **ADA, delay="1h")["id"]

    outcome = program.post(f"/jobs/{made}/cancel", why="ordered twice")
    again = program.post(f"/jobs/{made}/cancel")
    revived = program.post(f"/jobs/{made}/retry")

    assert (outcome["outcome"], again["outcome"]) == ("cancelled", "cancelled")
    assert revived == {"id": made, "outcome": "revived"}
    lines = app.read("select who, what, target, why, outcome from duework_audit order by id")
    assert [tuple(line) for line in lines] == [
        ("operate-0", "cancel", f"job {made}", "ordered twice", "cancelled"),
        ("operate-0", "cancel", f"job {made}", "", "cancelled"),
        ("operate-0", "retry", f"job {made}", "", "revived"),
    ]


def test_a_retry_onto_a_taken_key_is_a_conflict_and_leaves_no_line(
    program: Program, app: App
) -> None:
    first = task(app, "greet").using(key="k").enqueue("ada")
    app.cancel(first.id)
    task(app, "greet").using(key="k").enqueue("bob")

    assert program.problem("POST", f"/jobs/{first.id}/retry") == (409, "conflict")
    assert app.read("select id from duework_audit") == []


# --- who may see and do it


def test_a_reader_looks_and_does_not_act(app: App) -> None:
    job = task(app, "greet").enqueue("ada").id
    reader = Program(app).scope("read")

    assert reader.get(f"/jobs/{job}")["arguments"]["name"] == "ada"
    assert reader.problem("POST", "/jobs", json=ADA) == (403, "forbidden")
    assert reader.problem("POST", f"/jobs/{job}/cancel") == (403, "forbidden")
    assert len(app.jobs()) == 1


def test_payloads_are_for_the_scope_that_the_app_names(app: App) -> None:
    job = task(app, "greet").enqueue("ada").id
    work(app)
    app.payloads = "operate"  # type: ignore[attr-defined]

    hidden = Program(app).scope("read").get(f"/jobs/{job}")
    shown = Program(app).scope("operate").get(f"/jobs/{job}")

    assert (hidden["arguments"], hidden["result"]) == (None, None)
    assert shown["result"] == "hello ada"


def test_without_a_token_nobody_learns_even_which_addresses_there_are(app: App) -> None:
    stranger = Program(app)

    for path in ("/jobs", "/jobs/7", "/openapi.json", "/nothing", ""):
        assert stranger.problem("GET", path) == (401, "unauthorized")
    answer = stranger.ask("GET", "/jobs")
    assert answer.headers["www-authenticate"] == "Bearer"


def test_an_address_that_is_there_says_what_it_answers_to(program: Program) -> None:
    answer = program.ask("DELETE", "/jobs")

    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, HEAD, POST"
    assert program.problem("PUT", "/nothing") == (404, "not_found")


def test_a_body_is_json_and_not_too_large(program: Program, app: App) -> None:
    large = {"task": "greet", "arguments": ["x" * (4 * 1024 * 1024)]}
    over = {"task": "greet", "arguments": ["x" * (1024 * 1024)]}
    form = {"content-type": "application/x-www-form-urlencoded"}

    assert program.problem("POST", "/jobs", json=large) == (413, "content_too_large")
    assert program.problem("POST", "/jobs", json=over) == (413, "payload_too_large")
    assert program.problem("POST", "/jobs", content="{") == (400, "bad_request")
    assert program.problem("POST", "/jobs", content="a=b", headers=form)[0] == 415
    assert program.problem("POST", "/jobs", json=[])[0] == 422
    assert app.jobs() == []


def test_a_misfit_names_its_field_and_not_its_value(program: Program) -> None:
    answer = program.ask("POST", "/jobs", json={"task": "greet", "priority": 77_123})

    [fault] = answer.json()["errors"]
    assert fault["path"] == "priority"
    assert "77123" not in answer.text


def test_what_was_stored_by_others_stays_data(program: Program, app: App) -> None:
    job = task(app, "fails").enqueue(HOSTILE).id
    work(app)

    answer = program.ask("GET", f"/jobs/{job}")

    assert answer.json()["arguments"] == {"text": HOSTILE}
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"


def test_whoever_asks_too_often_gets_a_problem_too(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUEWORK_WEB_FAILURES", "2")
    stranger = Program(app)
    stranger.client.headers["authorization"] = "Bearer dw_nobody"

    found = [stranger.problem("GET", "/jobs") for _ in range(4)]

    assert found[0] == (401, "unauthorized")
    assert found[-1] == (429, "too_many_requests")
    assert int(stranger.ask("GET", "/jobs").headers["retry-after"]) > 0
