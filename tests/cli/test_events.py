"""`duework events`: list, show, subscribers, failed, redrive, purge, for people and for scripts."""

from __future__ import annotations

import pytest

from duework import App, Event
from tests.cli.conftest import Duework, work


@pytest.fixture
def given(shop: App) -> int:
    @shop.on("shipped", retries=0)
    async def score(event: Event) -> None:
        raise ValueError("no")

    event = shop.publish("shipped", {"order": 7})
    work(shop)
    return event


def test_events_are_shown_for_people_and_for_scripts(duework: Duework, given: int) -> None:
    assert "shipped" in duework("events", "list").out
    [line] = duework("events", "list", "shipped", "--json").lines
    assert (line["id"], line["payload"]) == (str(given), {"order": 7})
    assert "score" in duework("events", "show", str(given)).out
    [shown] = duework("events", "show", str(given), "--json").lines
    assert [each["state"] for each in shown["subscribers"]] == ["failed"]
    assert "shipped" in duework("events", "subscribers").out
    assert duework("events", "subscribers", "--json").lines[0]["name"] == "score"


def test_failed_events_are_redriven_and_purged(shop: App, duework: Duework, given: int) -> None:
    with shop.transaction() as tx:
        tx.write("update duework_job set crashes = 2 where state = 'failed'")
    for words in (["failed", "score"], ["show", str(given)]):
        assert "  1 + 2 crashes  " in duework("events", *words).out
    assert "ValueError" in duework("events", "failed", "score").out
    [line] = duework("events", "failed", "score", "--json").lines
    assert line["event"]["id"] == str(given)
    assert duework("events", "redrive", "score", "1").code != 0
    assert "redriven: 1" in duework("events", "redrive", "score", str(given)).out
    assert "no failed events" in duework("events", "failed", "score").out
    asked = duework("events", "purge", "score")
    assert (asked.code, "Forget every failed event of score for good?" in asked.err) == (78, True)
    assert duework("events", "purge", "score", "--yes", "--json").lines == [
        {"subscriber": "score", "purged": 0}
    ]
    assert "unsubscribed: 1" in duework("events", "unsubscribe", "score").out
    assert "no subscribers" in duework("events", "subscribers").out
