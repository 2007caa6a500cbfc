"""`duework metrics` on a database of each kind."""

from __future__ import annotations

from duework import App
from tests.cli.conftest import Duework


def test_metrics_are_listed_and_shown(shop: App, duework: Duework) -> None:
    assert "nothing was counted" in duework("metrics", "list").out
    shop.metrics.add("pages", 12, phase="scan")
    shop.metrics.time("fetch", 0.5)
    shop.metrics.flush()

    lines = duework("metrics", "list", "--json").lines
    shown = duework("metrics", "show", "pages", "--span", "day")

    assert [(line["name"], line["total"]) for line in lines] == [("fetch", 0.5), ("pages", 12.0)]
    assert "phase=scan" in duework("metrics", "list").out
    assert "12" in shown.out
    assert duework("metrics", "show", "nothing").code == 0
