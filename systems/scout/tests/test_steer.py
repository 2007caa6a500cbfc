"""What people steer: pauses, resets, what failed, the gate before a deploy, the smoke script, ten apps."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from click.testing import CliRunner

from duework import NotFound, UsageError
from systems.scout import reading, smoke, trial
from systems.scout.cluster import cluster
from systems.scout.desk import doctor, steering, words
from systems.scout.evaluate import competitiveness
from systems.scout.part import part
from systems.scout.tests.conftest import World
from systems.scout.tests.found import found, insert
from systems.scout.tests.test_web import client, operator, program
from tests.web.conftest import Browser

__all__ = ["operator", "program"]


def run(*words: str) -> Any:
    return CliRunner().invoke(part.commands[words[0]], words[1:])


# --- pause, resume, reset


@pytest.mark.rows("001-X3")
def test_crawler_controller_and_agents_are_paused_and_go_on_each_by_itself(
    world: World, program: Browser, operator: Browser
) -> None:
    world.h.drain()
    for piece in steering.PIECES:
        answer = program.post(f"/v1/steer/{piece}/pause").json()
        assert answer == {"ok": True, "paused": True}
        assert [each for each in steering.PIECES if steering.paused(each)] == [piece]
        assert f"<b>{piece.capitalize()}</b>" in operator.get("/scout/").text
        assert operator.submit(f"/scout/resume/{piece}", back="/scout/").status_code == 303
        assert not steering.paused(piece)
        assert run("pause", piece).output == f"{piece}: paused\n"
        assert run("resume", piece).exit_code == 0
        assert not steering.paused(piece)
    assert program.post("/v1/steer/crawler/explode").status_code == 404
    assert program.post("/v1/steer/planet/pause").status_code == 404


@pytest.mark.rows("001-X3")
def test_a_paused_crawler_asks_nothing_and_goes_on_where_it_was(world: World) -> None:
    world.seed()
    world.h.drain()
    steering.pause("crawler")
    world.h.advance("11m")
    assert world.calls() == []
    steering.resume("crawler")
    world.h.advance("6m")
    assert world.calls("chart") or world.calls()


@pytest.mark.rows("001-X3")
def test_paused_agents_judge_nothing_until_they_go_on(world: World) -> None:
    world.h.drain()
    world.app.get_schedule("scout.crawl").pause()
    steering.pause("agents")
    trial.start()
    world.h.advance("40s")
    assert world.count("scout_app") >= 10
    assert (world.count("scout_ledger"), world.count("scout_cluster")) == (0, 0)
    steering.resume("agents")
    world.h.advance("2m")
    assert world.count("scout_ledger") >= 10
    # All that waited begins at once: what groups apps may look before any is judged, and comes again.
    cluster.enqueue()
    world.h.advance("1m")
    assert world.count("scout_opportunity") > 0


@pytest.mark.rows("001-X3")
def test_a_reset_forgets_failures_and_keeps_what_was_found(world: World) -> None:
    world.seed((6013, "high"))
    found(world.app, world.h.now)
    bad = {"source": "x", "created_at": 0, "failures": 3, "due_at": 2**50}
    with world.app.transaction() as tx:
        tx.write("update scout_category set failures = 2, retry_at = :at", at=2**50)
        insert(tx, "scout_keyword", [{"keyword": "a", "status": "failed", **bad}])
        insert(tx, "scout_keyword", [{"keyword": "b", "status": "searching", **bad}])
        belief = {"subject": "c1", "agent": "demand", "belief": "people want it", "holds": 1}
        times = {"base_at": 0, "first_at": 0, "run_at": 0, "runs": 1}
        sure = {"confidence": 0.5, "base": 0.5}
        insert(tx, "scout_agent_memory", [{**belief, **times, **sure}])
    assert steering.reset("crawler") == "1 charts and 1 keywords are tried again"
    assert words.one("a")["word"].status == "pending"
    assert words.one("b")["word"].status == "searching"
    assert steering.reset("controller") == "The controller starts anew"
    assert steering.reset("agents") == "1 beliefs are forgotten"
    assert (world.count("scout_app"), world.count("scout_opportunity")) == (12, 1)


# --- what failed


@pytest.mark.rows("001-X3")
def test_events_that_failed_are_shown_with_their_error_and_run_again(
    world: World, program: Browser, operator: Browser
) -> None:
    world.h.drain()
    # A payload that its subscriber cannot read: it is given up after its retries.
    world.app.publish("rankings-updated", {"nothing": []})
    world.h.advance("1h")
    [bad] = [each for each in program.get("/v1/failed").json() if each["event"]]
    assert (bad["task"], bad["event"]["name"]) == ("scout.keep_places", "rankings-updated")
    assert "KeyError" in bad["error"]
    page = operator.get("/scout/failed").text
    assert "rankings-updated" in page
    assert "KeyError" in page
    assert "keep_places" in run("failed").output
    # Once more: it fails again, and is there again.
    assert program.post(f"/v1/failed/{bad['job']}/requeue").json() == {"ok": True}
    assert program.get("/v1/failed").json() == []
    world.h.advance("1h")
    again = {each["job"] for each in program.get("/v1/failed").json()}
    assert bad["job"] in again
    assert run("requeue").output == f"{len(again)} run again\n"
    assert run("requeue").output == "0 run again\n"
    assert program.post("/v1/failed/requeue").json() == {"requeued": 0}
    assert program.post("/v1/failed/5/requeue").status_code == 404
    assert program.post("/v1/failed/x/requeue").status_code == 404


def test_work_of_others_is_neither_shown_nor_run_again(world: World) -> None:
    with pytest.raises(NotFound):
        steering.again(12345)


# --- the gate


def fitness(checks: list[Any]) -> dict[str, str]:
    return {each.name: each.fitness for each in checks}


@pytest.mark.rows(
    "001-165",
    "001-167",
    "001-168",
    "001-170",
    "001-171",
    "001-174",
    "001-180",
    "001-182",
    "001-183",
)
def test_the_gate_opens_when_all_is_declared_and_every_stage_has_made_something(
    world: World, operator: Browser
) -> None:
    empty = doctor.doctor(world.h.now)
    assert fitness(empty)["schedules"] == "problem", "no worker has started"
    assert run("doctor").exit_code == 1
    world.h.drain()
    before = {each.name: each for each in doctor.doctor(world.h.now)}
    assert before["output"].fitness == "problem"
    assert "crawl first" in before["output"].advice
    assert run("doctor").exit_code == 1
    found(world.app, world.h.now)
    after = doctor.doctor(world.h.now)
    assert "problem" not in fitness(after).values(), after
    ended = run("doctor")
    assert ended.exit_code == 0, ended.output
    assert all(len(line) <= 80 for line in ended.output.splitlines())
    assert run("doctor", "--strict").exit_code == 1, "a stand-in is a warning"
    told = json.loads(run("doctor", "--json").output)
    assert told["ok"] is True
    [runs] = [each["value"] for each in told["checks"] if each["name"] == "what runs"]
    assert "crawl every 5 min" in runs
    assert "output" in operator.get("/scout/doctor").text
    # A stage that makes nothing any more is named.
    with world.app.transaction() as tx:
        tx.write("delete from scout_cluster")
    [output] = [each for each in doctor.doctor(world.h.now) if each.name == "output"]
    assert "cluster first" in output.advice


@pytest.mark.rows("001-03")
def test_a_worker_that_dies_at_night_is_noticed_and_the_next_one_goes_on(
    world: World, operator: Browser
) -> None:
    found(world.app, world.h.now)
    world.h.drain()
    cron = world.app.get_schedule("scout.crawl")
    before = cron.fires + cron.idles
    assert run("doctor").exit_code == 0

    world.h.crash_worker()
    world.h.clock.move_to(world.h.now + 3 * 3_600_000)

    ended = run("doctor")
    assert (ended.exit_code, "nobody works" in ended.output) == (1, True), ended.output
    seen = operator.get("/health")
    assert (seen.status_code, seen.json()["status"]) == (503, "stuck")
    assert ["duework", "duework.fire:scout.crawl"] in seen.json()["stuck"]

    world.h.advance("1s")
    later = cron.refresh()
    assert later.fires + later.idles == before + 1
    assert run("doctor").exit_code == 0
    assert operator.get("/health").status_code == 200


class Row:
    """A schedule as the doctor reads it."""

    def __init__(self, **more: Any) -> None:
        given = {"key": "scout.x", "rule": "*/5 * * * *", "owner": "a", "why": "b", "idle": 1}
        self.__dict__.update({**given, **more})


@pytest.mark.rows("001-167", "001-168", "001-170", "001-174", "001-180")
def test_a_schedule_that_lacks_something_closes_the_gate() -> None:
    lacking = {
        "owners": {"owner": ""},
        "exit conditions": {"idle": 0},
        "intervals have a reason": {"why": ""},
        "none runs each minute": {"rule": "* * * * *"},
    }
    for name, change in lacking.items():
        checks = fitness(list(doctor.declared([Row(), Row(**change)])))
        assert {each for each, fit in checks.items() if fit == "problem"} == {name}
    assert "problem" not in fitness(list(doctor.declared([Row()]))).values()
    assert [
        doctor.in_a_month(rule)
        for rule in ("*/5 * * * *", "0 */6 * * *", "20 * * * *", "0 6 * * *")
    ] == [8640, 120, 720, 30]


# --- outside


@pytest.mark.rows("001-175")
def test_health_says_who_answers_and_what_time_it_is(world: World) -> None:
    answer = client(world).get("/v1/health")
    assert answer.status_code == 200
    assert answer.json() == {
        "status": "ok",
        "service": "pipeline-api",
        "timestamp": "2026-03-01T12:01:00+00:00",
    }
    assert client(world).get("/health").json()["status"] == "ok"


@contextmanager
def serving(answers: dict[str, tuple[int, bytes]], asked: list[Any]) -> Iterator[str]:
    """A server that answers these paths."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers.get("authorization")))
            status, body = answers.get(self.path, (404, b""))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.rows("001-176", "001-182")
def test_the_smoke_script_says_pass_or_fail_of_each_and_how_many_failed() -> None:
    good = dict.fromkeys(smoke.CHECKS.values(), (200, b"{}"))
    asked: list[Any] = []
    said: list[str] = []
    with serving(good, asked) as url:
        assert smoke.run(url, "secret", said.append) == 0
    assert [line.split()[0] for line in said] == ["PASS", "PASS", "PASS", "all"]
    assert asked == [(path, "Bearer secret") for path in smoke.CHECKS.values()]
    bad = {**good, "/v1/crawl/status": (503, b""), "/v1/enrichment/status": (200, b"<html>")}
    said.clear()
    with serving(bad, asked) as url:
        assert smoke.run(url + "/", "", said.append) == 1
    assert said[1] == "FAIL  crawl status       503  /v1/crawl/status"
    assert said[2].startswith("FAIL  enrichment status  200")
    assert said[3] == "2 of 3 checks failed"
    said.clear()
    assert smoke.run(url, "", said.append) == 1
    assert said[-1] == "3 of 3 checks failed"
    assert "no answer" in said[0]
    assert smoke.run("file:///etc/passwd", "", said.append) == 2
    assert smoke.main([]) == 2
    assert run("smoke", url).exit_code == 1


# --- ten apps


@pytest.mark.rows("001-178", "001-183", "001-171")
def test_one_button_takes_ten_apps_through_all_five_stages(
    world: World, operator: Browser, program: Browser
) -> None:
    world.apple.count = 5000
    world.h.drain()
    world.app.get_schedule("scout.crawl").pause()
    assert operator.submit("/scout/trial", back="/scout/").status_code == 303
    assert program.post("/v1/trial").json()["existed"] is True
    assert run("trial").output.endswith("is under way already\n")
    world.h.advance("60s")
    routes = Counter(each.route for each in world.calls())
    assert (routes["chart"], routes["search"], routes["lookup"]) == (1, 4, 1)
    scored = {row.track_id for row in world.app.read("select track_id from scout_ledger")}
    assert len(scored) == 10
    assert world.count("scout_ranking") >= 10
    opportunity = reading.opportunities()[0]
    assert {id_ for fact in opportunity["facts"] for id_ in fact["apps"]} <= scored
    assert program.get("/v1/pipeline-test").json()["pipeline_healthy"] is True
    for apps in (-1, 0, 2, 201):
        with pytest.raises(UsageError):
            trial.start(apps)
    assert program.post("/v1/trial", json={"apps": 500}).status_code == 422


def test_ten_scores_can_be_computed_again_from_what_their_pages_list(
    world: World, operator: Browser
) -> None:
    world.apple.count = 5000
    world.h.drain()
    world.app.get_schedule("scout.crawl").pause()
    trial.start()
    world.h.advance("60s")
    rows = world.app.read("select track_id, agent, score, inputs from scout_ledger")
    assert len(rows) >= 10
    for row in rows[:10]:
        inputs = json.loads(row.inputs)
        assert competitiveness(inputs) == row.score
        page = operator.get(f"/scout/apps/{row.track_id}").text
        assert f"Why {row.agent} is {row.score:g}" in page
        for name, value in inputs.items():
            shown = "none" if value is None else f"{round(value, 2):,}"
            assert f"<dt>{name.replace('_', ' ')}</dt><dd>{shown}</dd>" in page, name
