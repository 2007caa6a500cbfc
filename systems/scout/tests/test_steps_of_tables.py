"""Scout's tables: numbered steps that are applied once, and columns of JSON that can be asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from systems import scout
from systems.scout.tests.conftest import World
from systems.scout.tests.found import an_app, insert

TABLES = Path(scout.__file__).parent / "tables"
PRICE = {
    "sqlite": "json_extract(in_app_purchases, '$[0].price') > 9.99",
    "postgres": "(in_app_purchases::jsonb -> 0 ->> 'price')::numeric > 9.99",
}


@pytest.mark.rows("001-132")
def test_steps_of_the_tables_are_numbered_and_applied_once(world: World) -> None:
    numbers = [int(path.name[:4]) for path in sorted(TABLES.glob("*.sql"))]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= 6
    assert world.app.admin.pending() == []
    with world.app.transaction() as tx:
        insert(tx, "scout_app", [an_app(1, world.h.now)])
    assert world.app.admin.migrate() == [], "again changes nothing"
    assert world.count("scout_app") == 1


@pytest.mark.rows("001-143")
def test_prices_of_purchases_are_numbers_that_a_query_can_compare(world: World) -> None:
    bought = ('[{"name": "a", "price": 12.5}]', '[{"name": "b", "price": 9.99}]', "[]", None)
    with world.app.transaction() as tx:
        for number, text in enumerate(bought, start=1):
            insert(tx, "scout_app", [an_app(number, world.h.now, in_app_purchases=text)])
    kind = "sqlite" if world.app.url.startswith("sqlite") else "postgres"
    sql = f"select track_id from scout_app where {PRICE[kind]}"  # noqa: S608 - one of two
    assert [row.track_id for row in world.app.read(sql)] == [1]
