"""`duework graph`: what is declared, without a database."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from xml.etree import ElementTree as ET

import pytest

from duework import App, Part, Rate
from tests.cli.conftest import Duework


@pytest.fixture
def declared() -> Iterator[str]:
    app = App("sqlite:///never-opened.db")
    app.queue("mail", concurrency=3)

    @app.task(queue="mail", retries=2, aliases=("old.send",), pace=Rate("5/1s"))
    async def send(to: str) -> None: ...

    @app.task(every="1h", owner="ada", why="<&>")
    async def tidy() -> None: ...

    part = Part("shop")

    @part.route("/api/orders")
    async def orders() -> list[int]:
        return []

    app.include(part)
    module = ModuleType("declared_for_graph")
    module.app = app  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
    yield "declared_for_graph:app"
    del sys.modules[module.__name__]


def test_all_that_is_declared_is_shown_with_what_it_leads_to(bare: Duework, declared: str) -> None:
    listed = bare("graph", declared)
    by_environment = bare("graph", env={"DUEWORK_APP": declared})
    found = {(line["kind"], line["name"]): line for line in bare("graph", declared, "--json").lines}

    assert listed.code == 0
    assert by_environment.out == listed.out
    assert "or $DUEWORK_APP" in bare("graph").err
    assert "send" in listed.out
    assert found["task", "send"]["to"] == ["queue:mail", "pace:send:rate"]
    assert found["task", "send"]["says"] == "retries 2, was old.send"
    assert found["queue", "mail"]["says"] == "concurrency 3"
    assert found["schedule", "tidy"]["says"] == "every 1h"
    assert found["schedule", "tidy"]["to"] == ["task:tidy"]
    assert ("route", "/api/orders") in found
    assert ("task", "old.send") not in found
    assert ("queue", "duework") not in found


def test_the_drawing_is_well_formed_and_has_a_box_for_each(bare: Duework, declared: str) -> None:
    count = len(bare("graph", declared, "--json").lines)

    drawn = ET.fromstring(bare("graph", declared, "--svg").out)  # noqa: S314 - ours

    svg = "{http://www.w3.org/2000/svg}"
    assert len(drawn.findall(f"{svg}g")) == count
    assert len(drawn.findall(f"{svg}path")) >= 4
