"""The shapes by HTTP: one of each is made, looked at and steered."""

from __future__ import annotations

from typing import Any

import pytest

from duework import App
from tests.web.api.conftest import Program
from tests.web.api.shop import HOSTILE, Drawer
from tests.web.conftest import task, work


def audit(app: App) -> list[tuple[str, str, str]]:
    rows = app.read("select what, target, outcome from duework_audit order by id")
    return [(row[0], row[1], row[2]) for row in rows]


# --- batches


def test_a_batch_is_made_and_its_progress_followed(program: Program, app: App) -> None:
    items = ["ada", ["bob", True], {"name": "eve"}]
    made = program.post("/batches", 201, task="greet", items=items, name="crowd", then="tell")
    before = program.get(f"/batches/{made['id']}")
    work(app)
    after = program.get(f"/batches/{made['id']}")

    assert before["progress"]["waiting"] == 3
    assert (after["progress"]["done"], after["progress"]["percent"]) == (3, 100)
    assert program.get(f"/jobs/{after['then_job']}")["task"] == "tell"
    [line] = program.get("/batches", name="crowd")["items"]
    assert line["id"] == made["id"]


def test_members_are_listed_cancelled_and_retried(program: Program, app: App) -> None:
    made = program.post("/batches", 201, task="fails", items=[["a"], ["b"], ["c"]])["id"]
    first = program.get(f"/batches/{made}/jobs", limit=2)
    rest = program.get(f"/batches/{made}/jobs", limit=2, cursor=first["next"])
    work(app)

    retried = program.post(f"/batches/{made}/retry")
    cancelled = program.post(f"/batches/{made}/cancel", why="enough")

    assert [len(first["items"]), len(rest["items"])] == [2, 1]
    assert (retried, cancelled) == ({"count": 3}, {"count": 3})
    assert [line[0] for line in audit(app)] == ["retry", "cancel"]
    assert {line[2] for line in audit(app)} == {"done"}


def test_a_batch_of_a_known_key_is_the_one_that_is_there(program: Program, app: App) -> None:
    body = {"task": "greet", "items": ["ada"]}
    headers = {"idempotency-key": "k"}
    first = program.ask("POST", "/batches", json=body, headers=headers)
    again = program.ask("POST", "/batches", json=body, headers=headers)
    other = {"task": "greet", "items": ["bob"]}

    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json()["id"] == first.json()["id"]
    found = program.problem("POST", "/batches", json=other, headers=headers)
    assert found == (409, "idempotency_key_reused")
    assert len(app.jobs()) == 1


def test_an_item_that_does_not_fit_makes_no_batch(program: Program, app: App) -> None:
    body = {"task": "add", "items": [[1, 2], [1, "2"]]}

    answer = program.ask("POST", "/batches", json=body)

    assert answer.status_code == 422
    assert "item 1" in answer.json()["detail"]
    assert app.jobs() == []


# --- chains


def test_a_chain_is_started_followed_and_retried(program: Program, app: App) -> None:
    made = program.post("/chains", 201, task="pull", arguments={"user": 1, "fail": 2})["id"]
    same = program.post("/chains", 200, task="pull", arguments=[1])
    work(app)
    failed = program.get(f"/chains/{made}")

    assert same == {"id": made, "existed": True}
    assert (failed["state"], failed["counts"], failed["percent"]) == ("failed", {"items": 10}, 33.3)
    pages = program.get(f"/chains/{made}/pages")["items"]
    assert [page["phase"] for page in pages] == ["done", "failed"]
    assert program.post(f"/chains/{made}/retry")["state"] == "active"
    assert program.post(f"/chains/{made}/cancel")["outcome"] == "cancelled"
    assert program.post(f"/chains/{made}/resume")["state"] == "active"
    assert [line[0] for line in audit(app)] == ["retry", "cancel", "resume"]
    assert program.get("/chains", task="pull", state="active")["items"][0]["id"] == made


def test_a_chain_that_cannot_be_retried_is_a_conflict_and_the_audit_says_so(
    program: Program, app: App
) -> None:
    made = program.post("/chains", 201, task="pull", arguments=[7])["id"]
    work(app)

    assert program.problem("POST", f"/chains/{made}/retry") == (409, "conflict")
    assert audit(app) == [("retry", f"chain {made}", "conflict")]
    assert program.problem("POST", "/chains", json={"task": "greet"}) == (404, "task_not_found")


# --- schedules


def test_a_schedule_is_put_changed_steered_and_deleted(program: Program, app: App) -> None:
    body = {"task": "greet", "arguments": ["ada"], "cron": "0 9 * * *", "tz": "Europe/London"}
    made = program.ask("PUT", "/schedules/remind/7", json={**body, "owner": "ada"}).json()
    changed = program.ask("PATCH", "/schedules/remind/7", json={"cron": "30 9 * * *"}).json()
    paused = program.post("/schedules/remind/7/pause")
    resumed = program.post("/schedules/remind/7/resume")
    later = program.post("/schedules/remind/7/postpone", by="2h")
    fired = program.post("/schedules/remind/7/fire", 201)
    gone = program.ask("DELETE", "/schedules/remind/7").json()

    assert made["when"] == "cron 0 9 * * * Europe/London"
    assert (len(made["next"]), made["owner"]) == (5, "ada")
    assert changed["when"] == "cron 30 9 * * * Europe/London"
    assert (paused["state"], resumed["state"]) == ("paused", "active")
    assert later["due"] == resumed["due"] + 7_200_000
    assert program.get(f"/jobs/{fired['id']}")["arguments"] == {"name": "ada"}
    assert gone == {"id": "remind/7", "outcome": "deleted"}
    assert program.problem("GET", "/schedules/remind/7") == (404, "not_found")
    done = [line[0] for line in audit(app)]
    assert done == ["put", "edit", "pause", "resume", "postpone", "fire", "delete"]


def test_schedules_are_listed_by_key(program: Program) -> None:
    for key in ("a", "b", "c"):
        body = {"task": "tell", "arguments": [1], "every": 3600}
        assert program.ask("PUT", f"/schedules/{key}", json=body).status_code == 200

    first = program.get("/schedules", limit=2)
    rest = program.get("/schedules", limit=2, cursor=first["next"])

    assert [each["key"] for each in first["items"]] == ["a", "b"]
    assert [each["key"] for each in rest["items"]] == ["c"]
    assert rest["next"] is None


@pytest.mark.parametrize(
    "change", [{}, {"cron": "odd"}, {"tz": "Nowhere/Land"}, {"every": "1x"}, {"at": "never"}]
)
def test_a_change_that_says_nothing_or_nonsense_changes_nothing(
    program: Program, change: dict[str, Any]
) -> None:
    body = {"task": "greet", "arguments": ["ada"], "cron": "0 9 * * *"}
    before = program.ask("PUT", "/schedules/k", json=body).json()

    assert program.problem("PATCH", "/schedules/k", json=change) == (400, "usage")
    assert program.get("/schedules/k") == before


# --- outboxes and deliveries


def test_messages_are_queued_once_listed_and_decided(program: Program, app: App) -> None:
    headers = {"idempotency-key": "k"}
    address = "/outboxes/post/messages"
    made = program.ask("POST", address, json={"message": "bad"}, headers=headers)
    again = program.ask("POST", address, json={"message": "bad"}, headers=headers)
    other = program.problem("POST", address, json={"message": "good"}, headers=headers)
    work(app)
    found = program.get(f"/messages/{made.json()['id']}")

    assert (made.status_code, again.status_code, other) == (201, 200, (409, "conflict"))
    assert (found["state"], found["error"]) == ("failed", "bad")
    [line] = program.get("/outboxes")["items"]
    assert (line["name"], line["counts"]["failed"]) == ("post", 1)
    assert program.get(address, state="failed")["items"] == [found]
    assert program.post(f"/messages/{found['id']}/retry")["state"] == "queued"
    assert program.post(f"/messages/{found['id']}/cancel")["outcome"] == "cancelled"
    assert program.problem("POST", f"/messages/{found['id']}/sent") == (409, "conflict")
    assert program.problem("POST", "/outboxes/nobody/messages", json={"message": "x"})[0] == 404
    assert program.problem("POST", address, json={"message": 7})[0] == 422


def test_an_unsure_channel_is_found_and_decided_once(program: Program, app: App) -> None:
    job = task(app, "remind").enqueue(HOSTILE).id
    work(app)

    [line] = program.get("/deliveries/unsure")["items"]
    decided = program.post(f"/deliveries/{job}/email/sent")

    assert (line["job"], line["channel"], line["state"]) == (str(job), "email", "unsure")
    assert decided["items"][0]["state"] == "sent"
    again = program.problem("POST", f"/deliveries/{job}/email/give-up", json={"why": "late"})
    assert again == (409, "conflict")
    assert program.problem("POST", f"/deliveries/{job}/fax/resend") == (404, "not_found")
    assert program.get(f"/deliveries/{job}")["items"][0]["state"] == "sent"


# --- objects, paces, queues


def test_objects_are_listed_and_shown(program: Program, app: App) -> None:
    for key in ("a/1", "a/2", "b"):
        app.object(Drawer, key).put("pen").result()

    page = program.get("/objects", kind="Drawer", prefix="a/", limit=1)
    rest = program.get("/objects", kind="Drawer", prefix="a/", cursor=page["next"])
    one = program.get("/objects/Drawer/a/1")

    assert [each["key"] for each in (*page["items"], *rest["items"])] == ["a/1", "a/2"]
    assert (one["version"], one["running"]) == (1, False)
    assert program.problem("GET", "/objects/Drawer/none") == (404, "not_found")
    assert program.problem("GET", "/objects") == (422, "unprocessable_content")


def test_a_pace_is_shown_blocked_and_reset(program: Program, app: App) -> None:
    program.post("/jobs", 201, task="add", arguments=[1, 2])
    work(app)

    [line] = program.get("/paces", prefix="slow")["items"]
    blocked = program.post("/paces/slow/block", **{"for": "1h"})
    reset = program.post("/paces/slow/reset")

    assert line["kind"] == "rate"
    assert blocked["blocked_until"] > app.now()
    assert reset["blocked_until"] is None
    assert program.problem("GET", "/paces/none") == (404, "not_found")


def test_queues_are_paused_and_resumed(program: Program, app: App) -> None:
    task(app, "fails").enqueue("x")

    assert program.post("/queues/mail/pause") == {"queue": "mail", "paused": True}
    assert program.get("/queues")["items"] == [{"queue": "mail", "paused": True}]
    assert app.paused() == ["mail"]
    assert program.post("/queues/mail/resume") == {"queue": "mail", "paused": False}
    assert audit(app) == [("pause", "queue mail", "paused"), ("resume", "queue mail", "resumed")]
    assert program.problem("POST", "/queues/a b/pause") == (400, "usage")


def test_the_overview_and_the_doctor_are_told(program: Program, app: App) -> None:
    task(app, "fails").enqueue("x")
    work(app)

    seen, checked = program.get("/overview"), program.get("/doctor")

    assert seen["failed"] == 1
    assert seen["needs"][0]["kind"] == "failing"
    assert {"durability", "backups"} & {each["name"] for each in checked["checks"]}
