"""The tables keep the article's columns, and many rows are written by few statements."""

from __future__ import annotations

from typing import Any

import pytest

from systems.strides.bulk import Upsert
from systems.strides.statements import RACES
from systems.strides.tests.conftest import World

ARTICLE = [
    "athlete_id",
    "strava_activity_id",
    "name",
    "distance",
    "elapsed_time",
    "moving_time",
    "date",
    "elevation_gain",
    "average_heartrate",
    "max_heartrate",
    "polyline",
    "event_name",
    "is_hidden",
    "created_at",
]


class Written:
    """Where statements go: what was said, with how many values."""

    def __init__(self) -> None:
        self.statements: list[tuple[str, int]] = []

    def write(self, sql: str, **values: Any) -> None:
        self.statements.append((sql, len(values)))


@pytest.mark.rows("004-43", "004-T8")
def test_a_hundred_races_go_into_a_statement() -> None:
    races = [dict.fromkeys(RACES.columns, number) for number in range(250)]
    to = Written()

    RACES.write(to, races)

    assert set(ARTICLE) <= set(RACES.columns)
    width = len(RACES.columns)
    # More than some databases bind at once, and far fewer than ours do (32,766 and 65,535).
    assert [values for _, values in to.statements] == [100 * width, 100 * width, 50 * width]
    assert to.statements[0][0].count("(:athlete_id_") == 100


def test_nothing_to_write_is_no_statement() -> None:
    to = Written()

    Upsert("t", ("id",), "(id) do nothing").write(to, [])

    assert to.statements == []


@pytest.mark.rows("004-15")
def test_an_athlete_begins_with_no_batch(world: World) -> None:
    with world.app.transaction() as tx:
        tx.write(
            "insert into strides_athlete (id, firstname, lastname, joined) values (7, 'A', 'B', 0)"
        )

    row = world.row(7)

    assert (row.current_batch_number, row.total_batches_expected) == (0, None)
    assert (row.sync_session_id, row.sync_status) == (None, "idle")
