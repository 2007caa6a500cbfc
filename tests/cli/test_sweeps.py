"""`duework sweeps`: list, show, start, stop, reset, for people and for scripts."""

from __future__ import annotations

from duework import App
from tests.cli.conftest import Duework


def test_sweeps_are_shown_stopped_started_and_reset(shop: App, duework: Duework) -> None:
    assert duework("sweeps", "list").out == "no sweeps\n"

    @shop.sweep("select 1 as id where 1 = 0")
    async def enrich(id: int) -> None: ...  # noqa: A002 - the column

    shop.wiring.arm()
    with shop.transaction() as tx:
        tx.write(
            "insert into duework_sweep_item (sweep, key, failures, next_try, error, changed)"
            " values ('enrich', 'row 7', 1, 9000000000000000, 'ValueError: no', 0)"
        )

    assert "running" in duework("sweeps", "list").out
    assert duework("sweeps", "list", "--json").lines[0]["waiting"] == 1
    assert "row 7" in duework("sweeps", "show", "enrich").out
    assert duework("sweeps", "show", "enrich", "--json").document["items"][0]["failures"] == 1
    assert duework("sweeps", "stop", "enrich").out == "enrich is stopped\n"
    assert duework("sweeps", "start", "enrich", "--json").document["state"] == "running"
    assert duework("sweeps", "reset", "enrich").code == 0
    assert "row 7" not in duework("sweeps", "show", "enrich").out
    assert duework("sweeps", "start", "nothing").code != 0
