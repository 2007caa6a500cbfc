"""Debates and costs as people and programs see them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from duework.web.tokens import Tokens
from systems.scout.part import part
from systems.scout.tests.opportunity.conftest import Debating
from tests.web.conftest import Browser


def visitor(world: Debating) -> Browser:
    return Browser(world.app.asgi(), base_url="http://localhost", follow_redirects=False)


@pytest.fixture
def program(world: Debating) -> Browser:
    made = visitor(world)
    secret = Tokens(world.app).add("program", "operate", None)
    made.headers.update({"authorization": f"Bearer {secret}"})
    return made


@pytest.fixture
def operator(world: Debating) -> Browser:
    return visitor(world).sign_in(Tokens(world.app).add("operator", "operate", None))


def run(name: str, *arguments: str) -> Any:
    return CliRunner().invoke(part.commands[name], arguments)


def test_a_debate_is_shown_while_it_grows_and_when_it_is_over(
    world: Debating, operator: Browser, program: Browser
) -> None:
    assert operator.get("/scout/debates/sleep").status_code == 404
    assert program.get("/v1/debates/sleep").status_code == 404
    world.cluster("sleep")
    world.chat.faults.set([{"route": "completions", "calls": "2..", "do": "status", "status": 429}])
    world.debate("sleep")
    world.h.drain()
    page = operator.get("/scout/debates/sleep").text
    assert "1 of 3 have spoken" in page
    assert "fact 1" in page
    growing = program.get("/v1/debates/sleep").json()
    assert [each["who"] for each in growing["messages"]] == ["bull"]
    assert growing["tips"] == []
    world.chat.faults.set([])
    world.h.advance("2m")
    whole = program.get("/v1/debates/sleep").json()
    assert [each["who"] for each in whole["messages"]] == ["bull", "bear", "judge"]
    assert whole["state"] == "done"
    assert {each["agent"] for each in whole["evaluations"]} == {"rules", "bull", "bear", "judge"}
    page = operator.get("/scout/debates/sleep").text
    assert "Apps to look at" in page
    assert whole["tips"][0]["text"] in page.replace("&#39;", "'")


def test_costs_are_on_a_page_in_a_route_and_on_the_command_line(
    world: Debating, operator: Browser, program: Browser
) -> None:
    empty = operator.get("/scout/costs").text
    assert "No model was asked" in empty
    assert "being counted now" in empty
    world.cluster("sleep")
    world.debate("sleep")
    world.h.drain()
    found = program.get("/v1/costs").json()
    assert round(found["budget"]["spent"] * 1_000_000) == world.spent()
    assert [each["state"] for each in found["calls"]] == ["settled"] * 3
    assert {each["service"] for each in found["days"]} == {"llm", "http"}
    assert program.get("/v1/figures").json()["clusters_total"] == 1
    page = operator.get("/scout/costs").text
    assert "does not hold" in page
    assert "durable-objects/platform/pricing" in page
    assert "apps total" in page
    assert run("costs").output.splitlines()[0].split() == ["analyst", "demo-mini"]
    assert json.loads(run("costs", "--json").output)["ceiling"]["most"] == 10_000
    assert "computed 12.52; does not hold" in run("claims").output
    assert run("claims").exit_code == 0
    crons = run("crons")
    assert crons.exit_code == 0
    assert "at most $31.00 for models and 10,000 cycles a month" in crons.output
    world.app.schedule(part.app.named("scout.crawl"), key="scout.hasty", cron="* * * * *")
    assert run("crons").exit_code == 1


def test_nobody_else_sees_them(world: Debating) -> None:
    for path in ("/v1/costs", "/v1/figures", "/v1/debates/x"):
        assert visitor(world).get(path).status_code == 401
    for path in ("/scout/costs", "/scout/debates/x"):
        assert visitor(world).get(path).status_code == 303
