"""Routes, pages and commands: who may ask, what they are answered, what people see and do."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from duework.web.tokens import Tokens
from systems.scout import first, reading
from systems.scout.part import part
from systems.scout.tests.conftest import World
from tests.web.conftest import Browser

HERE = "http://localhost"


def client(world: World, **headers: str) -> Browser:
    made = Browser(world.app.asgi(), base_url=HERE, follow_redirects=False)
    made.headers.update(headers)
    return made


@pytest.fixture
def program(world: World) -> Browser:
    secret = Tokens(world.app).add("program", "operate", None)
    return client(world, authorization=f"Bearer {secret}")


@pytest.fixture
def operator(world: World) -> Browser:
    return client(world).sign_in(Tokens(world.app).add("operator", "operate", None))


def run(name: str, *arguments: str) -> Any:
    return CliRunner().invoke(part.commands[name], arguments)


def find_one(world: World) -> dict[str, Any]:
    first.start()
    world.h.advance("3m")
    return reading.opportunities(1)[0]


@pytest.mark.rows("001-54", "001-55", "001-56", "001-40", "001-T32", "001-53")
def test_the_controller_is_shown_stopped_started_and_reset(world: World, program: Browser) -> None:
    fresh = program.get("/v1/enrichment/status").json()
    assert fresh == {
        "running": True,
        "total_dispatched": 0,
        "total_completed": 0,
        "total_failed": 0,
        "completions_per_minute": 0,
        "success_rate": 100,
        "current_batch_size": 10,
        "current_interval_ms": 30_000,
        "in_cooldown": False,
        "projected_per_day": 0,
    }
    find_one(world)
    world.h.advance("6m")
    busy = program.get("/v1/enrichment/status").json()
    lookups = [job for job in world.app.jobs(task="scout.enrich", limit=100) if job.state == "done"]
    assert busy["total_completed"] == len(lookups) > 0
    assert busy["total_dispatched"] >= busy["total_completed"]
    assert busy["projected_per_day"] == busy["completions_per_minute"] * 60 * 24
    stopped = program.post("/v1/enrichment/stop")
    assert (stopped.status_code, stopped.json()) == (200, {"ok": True, "running": False})
    assert program.get("/v1/enrichment/status").json()["running"] is False
    assert program.post("/v1/enrichment/start").json() == {"ok": True, "running": True}
    assert program.post("/v1/enrichment/reset").json() == {"ok": True, "running": True}
    assert program.get("/v1/enrichment/status").json() == fresh


@pytest.mark.rows("001-179")
def test_programs_follow_the_stages_and_read_opportunities(world: World, program: Browser) -> None:
    empty = program.get("/v1/pipeline-test").json()
    assert empty["crawl"] == {"count": 0, "healthy": False}
    assert empty["pipeline_healthy"] is False
    started = program.post("/v1/first")
    assert (started.status_code, started.json()["existed"]) == (202, False)
    assert program.post("/v1/first").json() == {**started.json(), "existed": True}
    world.h.advance("3m")
    assert program.get("/v1/pipeline-test").json()["pipeline_healthy"] is True
    listed = program.get("/v1/opportunities?limit=1").json()
    assert len(listed) == 1
    assert program.get(f"/v1/opportunities/{listed[0]['cluster']}").json() == listed[0]
    assert len(program.get("/v1/opportunities?newest=true").json()) >= 1
    status = program.get("/v1/crawl/status").json()
    assert status["categories"] == 93
    assert status["apps"] == world.count("scout_app")


BAD: list[tuple[str, str, dict[str, str], int]] = [
    ("GET", "/v1/opportunities?limit=0", {}, 422),
    ("GET", "/v1/opportunities?limit=201", {}, 422),
    ("GET", "/v1/opportunities?limit=x", {}, 422),
    ("GET", "/v1/opportunities?newest=perhaps", {}, 422),
    ("GET", "/v1/opportunities?page=2", {}, 422),
    ("GET", "/v1/opportunities/nobody", {}, 404),
    ("GET", "/v1/opportunities/' or 1=1", {}, 404),
    ("POST", "/v1/opportunities", {}, 405),
    ("GET", "/v1/enrichment/start", {}, 405),
    ("POST", "/v1/enrichment/status", {}, 405),
    ("GET", "/v1/enrichment/explode", {}, 404),
    ("GET", "/v1/first", {}, 405),
    ("POST", "/v1/first", {"authorization": ""}, 401),
    ("POST", "/v1/enrichment/stop", {"authorization": "Bearer dw_no"}, 401),
    ("GET", "/v1/crawl/status", {"authorization": ""}, 401),
    ("GET", "/v1/enrichment/status", {"authorization": ""}, 401),
    ("GET", "/v1/pipeline-test", {"authorization": ""}, 401),
    ("POST", "/v1/pipeline-test", {}, 405),
    ("POST", "/v1/crawl/status", {}, 405),
]


def test_what_makes_no_sense_is_refused_and_changes_nothing(world: World, program: Browser) -> None:
    before = reading.controller()
    for method, path, headers, status in BAD:
        answer = program.request(method, path, headers=headers)
        assert answer.status_code == status, f"{method} {path}: {answer.text}"
    weak = client(world, authorization=f"Bearer {Tokens(world.app).add('reader', 'read', None)}")
    for path in (
        "/v1/first",
        "/v1/enrichment/stop",
        "/v1/enrichment/reset",
        "/v1/enrichment/start",
    ):
        assert weak.post(path).status_code == 403
    assert reading.controller() == before
    assert world.count("scout_category") == 0


def test_pages_show_stages_opportunities_debate_and_rows(world: World, operator: Browser) -> None:
    empty = operator.get("/scout/")
    assert empty.status_code == 200
    assert "Nothing judged yet" in empty.text
    best = find_one(world)
    page = operator.get("/scout/").text
    for name in ("Crawl", "Enrich", "Evaluate", "Cluster", "Opportunity"):
        assert name in page
    assert best["name"] in page
    assert operator.get("/scout/?newest=true").status_code == 200
    detail = operator.get(f"/scout/opportunities/{best['cluster']}").text
    for fact in best["facts"]:
        for id_ in fact["apps"]:
            assert f"/scout/apps/{id_}" in detail
    for voice in best["debate"]:
        for claim in voice["claims"]:
            assert claim["text"] in detail
    app = best["facts"][0]["apps"][0]
    shown = operator.get(f"/scout/apps/{app}").text
    assert "competitiveness" in shown
    assert "rating count" in shown
    assert operator.get("/scout/apps/5").status_code == 404
    assert operator.get("/scout/apps/x").status_code == 404
    assert operator.get("/scout/opportunities/nobody").status_code == 404


def test_a_person_pauses_goes_on_and_starts_a_small_run(world: World, operator: Browser) -> None:
    world.h.drain()

    def act(what: str) -> None:
        answer = operator.submit(f"/scout/{what}")
        assert answer.status_code == 303, answer.text

    act("pause")
    assert reading.paused()
    assert not reading.controller()["running"]
    assert "stand still" in operator.get("/scout/").text
    act("resume")
    assert not reading.paused()
    assert reading.controller()["running"]
    act("first")
    world.h.advance("3m")
    assert reading.opportunities()


def test_commands_show_stages_and_opportunities(world: World) -> None:
    assert "apps" in run("status").output
    assert run("seed").output == "93 charts are scanned in turn\n"
    assert run("first").output.endswith("has begun\n")
    assert run("first").output.endswith("is under way already\n")
    assert (run("opportunities").stdout, run("opportunities").stderr) == ("", "nothing found\n")
    assert run("opportunities", "--json").output == ""
    assert run("opportunities", "--limit", "0").exit_code == 2
    world.h.advance("3m")
    lines = run("opportunities", "--limit", "2", "--json").output.splitlines()
    assert 1 <= len(lines) <= 2
    assert json.loads(lines[0])["name"] in run("opportunities").output
    status = run("status").output
    assert [line.split()[0] for line in status.splitlines()] == [
        "Crawl",
        "Enrich",
        "Evaluate",
        "Cluster",
        "Opportunity",
    ]
