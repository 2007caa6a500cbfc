"""One file lists what scout uses, and says what the code says."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import systems.scout
from systems.scout import part, reading
from systems.scout.crawl import categories
from systems.scout.economy import ledger
from systems.scout.enrich import cache
from systems.scout.opportunity import opportunity, voices
from systems.scout.tests.conftest import World

FOLDER = Path(systems.scout.__file__).parent
LISTED = tomllib.loads((FOLDER / "resources.toml").read_text())


@pytest.mark.rows("001-14", "001-16", "001-T30")
def test_one_file_lists_every_queue_cron_pace_event_and_workflow_as_it_is_declared(
    world: World,
) -> None:
    world.h.drain()
    nodes = world.app.admin.graph()

    def declared(kind: str) -> dict[str, str]:
        return {node.name: node.says for node in nodes if node.kind == kind}

    assert {k: v for k, v in declared("queue").items() if k != "default"} == LISTED["queues"]
    assert declared("pace") == LISTED["paces"]
    assert declared("schedule") == LISTED["crons"]
    assert sorted(declared("chain")) == LISTED["chains"]["names"]
    told: dict[str, list[str]] = {}
    for each in world.app.events.subscribers():
        told.setdefault(each.event, []).append(each.name)
    assert {name: sorted(who) for name, who in told.items()} == LISTED["events"]
    assert [opportunity.name] == list(LISTED["workflows"])
    assert LISTED["workflows"][opportunity.name] == ["facts", *voices.SPEAKERS, "conclude"]
    assert (FOLDER / LISTED["tables"] / "0001_scout.sql").exists()
    assert part.name == "scout"


@pytest.mark.rows("001-T30", "001-14")
def test_what_the_article_does_not_give_is_written_down(world: World) -> None:
    world.h.drain()
    found = {tier: list(names.values()) for tier, names in categories.TIERS.items()}
    assert found == LISTED["categories"]
    assert sum(map(len, found.values())) * len(categories.COLLECTIONS) == 93
    state = reading.controller()
    assert {name: state[name] for name in LISTED["controller"]} == LISTED["controller"]
    assert LISTED["blobs"] == [cache.key(7).replace("7", "{id}")]
    budget = ledger.LLM.status()
    assert LISTED["budgets"] == {budget.name: f"{budget.limit:.2f} a {budget.per}"}
    assert len(LISTED["sources"]["names"]) == 4
