"""Events, sweeps, workflows, budgets, blobs and metrics by HTTP: each is looked at and steered."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from duework import App, Run, UsageError
from duework.client import ApiClient, ApiError
from duework.errors import NotFound
from duework.web.tokens import Tokens
from tests.web.api.conftest import Program
from tests.web.api.shop import HOSTILE
from tests.web.api.test_shapes import audit
from tests.web.conftest import task, work


def test_an_event_is_published_once_for_a_key_and_read_with_what_became_of_it(
    program: Program, app: App
) -> None:
    work(app)
    body = {"name": "sold", "payload": {"item": HOSTILE}}
    headers = {"idempotency-key": "k"}
    first = program.ask("POST", "/events", json=body, headers=headers)
    again = program.ask("POST", "/events", json=body, headers=headers)
    work(app)

    made = first.json()["id"]
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == {"id": made, "existed": True}
    [line] = program.get("/events", name="sold")["items"]
    assert (line["id"], line["payload"]) == (made, {"item": HOSTILE})
    [reached] = program.get(f"/events/{made}")["subscribers"]
    assert (reached["subscriber"], reached["state"]) == ("ship", "failed")
    other = {"name": "sold", "payload": 2}
    found = program.problem("POST", "/events", json=other, headers=headers)
    assert found == (409, "idempotency_key_reused")
    assert program.problem("POST", "/events", json={"name": "no name"})[0] == 400
    assert program.problem("GET", "/events/7")[0] == 404


def test_failed_events_are_redriven_and_purged_by_id_or_all_and_never_by_nothing(
    program: Program, app: App
) -> None:
    work(app)
    made = [str(app.publish("sold", n)) for n in range(3)]
    work(app)
    first = program.get("/subscribers/ship/failed", limit=2)
    rest = program.get("/subscribers/ship/failed", limit=2, cursor=first["next"])

    assert [each["event"]["id"] for each in first["items"] + rest["items"]] == made[::-1]
    for body in ({}, {"events": [made[0]], "all": True}):
        assert program.problem("POST", "/subscribers/ship/purge", json=body) == (400, "usage")
    assert program.problem("POST", "/subscribers/ship/redrive", json={"events": ["7"]})[0] == 404
    assert program.post("/subscribers/ship/redrive", events=[made[0]]) == {"count": 1}
    assert program.post("/subscribers/ship/purge", all=True) == {"count": 2}
    assert [each["name"] for each in program.get("/subscribers")["items"]] == ["ship"]
    assert program.ask("DELETE", "/subscribers/ship").json()["outcome"] == "unsubscribed"
    assert program.problem("DELETE", "/subscribers/ship")[0] == 404
    verbs = [line[0] for line in audit(app)]
    assert verbs == ["redrive", "redrive", "purge", "unsubscribe", "unsubscribe"]


def test_a_sweep_is_started_stopped_and_reset(program: Program, app: App) -> None:
    work(app)
    assert program.get("/sweeps/count_stock")["state"] == "stopped"
    assert program.post("/sweeps/count_stock/start")["state"] == "running"
    work(app)

    [item] = program.get("/sweeps/count_stock/items")["items"]
    assert (item["key"], item["next_try"]) == ("2", None)
    assert HOSTILE in item["error"]
    assert program.get("/sweeps")["items"][0]["failed"] == 1
    assert program.post("/sweeps/count_stock/stop", why="enough")["state"] == "stopped"
    assert program.post("/sweeps/count_stock/reset")["waiting"] == 0
    assert program.problem("POST", "/sweeps/none/start")[0] == 404
    assert [line[0] for line in audit(app)] == ["start", "stop", "reset", "start"]


def test_a_workflow_is_read_told_forked_and_cancelled(program: Program, app: App) -> None:
    job = str(task(app, "order").enqueue("pen").id)
    work(app)

    assert program.get(f"/workflows/{job}")["state"] == "running"
    steps = program.get(f"/workflows/{job}/steps")["items"]
    assert (steps[0]["name"], steps[0]["state"]) == ("charge", "done")
    assert steps[0]["result"] == "paid pen"
    made = program.post(f"/workflows/{job}/fork", 201, step="charge")["id"]
    assert program.post("/signals", event="approved", key="pen", payload=7)["outcome"] == "told"
    work(app)
    assert program.get(f"/workflows/{job}")["state"] == "ended"
    assert program.get(f"/jobs/{job}")["result"] == ["paid pen", 7]
    assert [each["id"] for each in program.get("/workflows")["items"]] == [made, job]
    waiting = str(task(app, "order").enqueue("ink").id)
    work(app)
    assert program.post(f"/workflows/{waiting}/cancel", why="no")["state"] == "cancelled"
    assert program.post(f"/workflows/{waiting}/resume")["state"] == "running"
    assert program.problem("GET", "/workflows/7")[0] == 404
    assert program.problem("POST", f"/workflows/{job}/fork", json={"step": "none"})[0] == 404


def test_a_workflow_that_has_failed_is_found_and_read_as_that(app: App, server: str) -> None:
    @app.task
    async def broken(run: Run) -> None:
        await run.step("charge", str)
        raise ValueError("no more")

    job = broken.enqueue().id
    task(app, "order").enqueue("pen")
    work(app)

    with ApiClient(server, Tokens(app).add("program", "read"), timeout="30s") as client:
        assert client.workflow(job).state == "failed"
        assert [each.id for each in client.workflows("failed")] == [str(job)]


def test_a_budget_is_read_with_its_ledger_and_raised(program: Program, app: App) -> None:
    for item in ("pen", "ink", HOSTILE):
        task(app, "order").enqueue(item)
    work(app)

    found = program.get("/budgets/llm")
    assert (found["limit"], found["spent"], found["left"]) == ("5", "1.5", "3.5")
    first = program.get("/budgets/llm/ledger", limit=2)
    rest = program.get("/budgets/llm/ledger", limit=2, cursor=first["next"])
    notes = [each["note"] for each in first["items"] + rest["items"]]
    assert sorted(notes) == sorted(["pen", "ink", HOSTILE])
    assert program.post("/budgets/llm/raise", limit="7.25", why="rush")["left"] == "5.75"
    assert program.post("/budgets/llm/raise", limit=9)["limit"] == "9"
    for odd in ("a lot", "-1", "nan"):
        assert program.problem("POST", "/budgets/llm/raise", json={"limit": odd})[0] == 400
    assert program.problem("POST", "/budgets/none/raise", json={"limit": 1})[0] == 404
    assert [each["name"] for each in program.get("/budgets", prefix="l")["items"]] == ["llm"]


def test_budgets_are_listed_page_by_page(program: Program, app: App) -> None:
    for name in ("a", "b", "b.c", "d"):
        app.budget(name, limit=1).status()

    first = program.get("/budgets", limit=2)
    rest = program.get("/budgets", limit=3, cursor=first["next"])

    assert [each["name"] for each in first["items"] + rest["items"]] == ["a", "b", "b.c", "d"]
    of_b = program.get("/budgets", prefix="b", cursor=first["next"])["items"]
    assert [each["name"] for each in of_b] == ["b.c"]


def test_a_blob_is_put_read_and_deleted(program: Program, app: App) -> None:
    content = b"\x00\xff pen"
    body = {"base64": b64encode(content).decode(), "ttl": "1h", "metadata": {"of": HOSTILE}}
    made = program.ask("PUT", "/blobs/a/b", json=body)
    kept = program.ask("PUT", "/blobs/a/b", json={"text": "other", "if_absent": True})
    app.blobs.put("a/c", "ink")

    assert (made.status_code, made.json()["new"]) == (201, True)
    assert (kept.status_code, kept.json()["digest"]) == (200, made.json()["digest"])
    assert app.blobs.get("a/b") == content
    assert program.get("/contents/a/b")["base64"] == body["base64"]
    assert program.get("/blobs/a/b")["metadata"] == {"of": HOSTILE}
    first = program.get("/blobs", prefix="a/", limit=1)
    rest = program.get("/blobs", prefix="a/", cursor=first["next"])
    assert [each["key"] for each in first["items"] + rest["items"]] == ["a/b", "a/c"]
    for odd in ({}, {"text": "a", "base64": "YQ=="}, {"text": "a", "ttl": 0}):
        assert program.problem("PUT", "/blobs/x", json=odd)[0] == 400
    assert program.ask("DELETE", "/blobs/a/b").json()["outcome"] == "deleted"
    assert program.problem("GET", "/blobs/a/b")[0] == 404
    assert program.problem("GET", "/contents/a/b")[0] == 404


def test_a_content_that_is_too_large_for_an_answer_is_refused(program: Program, app: App) -> None:
    app.blobs.put("film", b"x" * 3_000_001)

    assert program.problem("GET", "/contents/film") == (413, "payload_too_large")
    assert program.get("/blobs/film")["size"] == 3_000_001


def test_metrics_are_read_by_name_and_span(program: Program, app: App) -> None:
    app.metrics.add("sold", 3, item="pen")
    app.metrics.time("packed", 0.5)
    app.metrics.flush()

    totals = program.get("/metrics")["items"]
    assert [(each["name"], each["kind"], each["total"]) for each in totals] == [
        ("packed", "timing", 0.5),
        ("sold", "counter", 3),
    ]
    [point] = program.get("/metrics/sold", span="day")["items"]
    assert (point["labels"], point["total"]) == ({"item": "pen"}, 3)
    assert program.get("/metrics/sold", since=app.now() + 86_400_000)["items"] == []
    assert program.problem("GET", "/metrics/sold", params={"span": "year"})[0] == 422


def test_readers_see_no_payload_where_the_app_says_so(emptied: str, tmp_path: Any) -> None:
    from tests.web.api.shop import shop

    app = shop(emptied, str(tmp_path / "blobs"))
    app.payloads = "operate"
    made = app.publish("sold", "secret")
    app.blobs.put("b", "secret")
    job = task(app, "order").enqueue("secret").id
    work(app)
    program = Program(app).scope("read")

    assert program.get(f"/events/{made}")["payload"] is None
    assert program.get("/events")["items"][0]["payload"] is None
    failed = program.get("/subscribers/ship/failed")["items"]
    assert [each["event"]["payload"] for each in failed] == [None]
    assert program.get(f"/workflows/{job}/steps")["items"][0]["result"] is None
    assert program.problem("GET", "/contents/b") == (403, "forbidden")
    assert Program(app).scope("operate").get(f"/events/{made}")["payload"] == "secret"
    app.close()


def test_the_client_has_verbs_for_all_of_them(app: App, server: str) -> None:
    work(app)
    with ApiClient(server, Tokens(app).add("program", "operate"), timeout="30s") as client:
        made = client.publish("sold", 1, key="k")
        assert client.publish("sold", 1, key="k").existed
        job = task(app, "order").enqueue("pen").id
        client.start_sweep("count_stock")
        work(app)

        assert client.event(made.id).subscribers[0].state == "failed"
        assert [each.id for each in client.events("sold")] == [made.id]
        assert [each.name for each in client.subscribers()] == ["ship"]
        assert [each.event.id for each in client.failed_events("ship")] == [made.id]
        assert client.redrive("ship", [made.id]) == 1
        work(app)
        assert client.purge("ship") == 1
        with pytest.raises(UsageError):
            client.purge("ship", [])
        assert [each.state for each in client.sweeps()] == ["running"]
        assert [each.key for each in client.sweep_items("count_stock")] == ["2"]
        assert client.stop_sweep("count_stock").state == "stopped"
        assert client.reset_sweep("count_stock").failed == client.sweep("count_stock").failed == 0
        assert [each.id for each in client.workflows("running")] == [str(job)]
        assert client.steps(job)[0].result == "paid pen"
        assert client.fork_workflow(job, "charge").id
        assert client.cancel_workflow(job).state == "cancelled"
        assert client.resume_workflow(job).state == client.workflow(job).state == "running"
        assert client.signal("approved", key="pen").outcome == "told"
        assert client.raise_budget("llm", "6").limit == client.budget("llm").limit == "6"
        assert [each.name for each in client.budgets()] == ["llm"]
        assert [each.amount for each in client.ledger("llm")] == ["0.5"]
        assert client.put_blob("a/b", b"\x00pen", ttl="1h").new
        assert client.get_blob("a/b") == b"\x00pen"
        assert [each.key for each in client.blobs("a/")] == [client.blob("a/b").key]
        assert client.delete_blob("a/b").outcome == "deleted"
        with pytest.raises(NotFound):
            client.get_blob("a/b")
        assert {each.name for each in client.metrics()} == {"charged"}
        assert client.metric("charged", "day")[0].total == 1
        with pytest.raises(ApiError):
            client.metric("charged", "year")  # type: ignore[arg-type]
