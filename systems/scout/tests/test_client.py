"""Apple's answers as plain values: what is missing, what is long, what is no list."""

from __future__ import annotations

import asyncio

import pytest

from duework import Fail, Throttled
from systems.scout import client, store
from systems.scout.tests.conftest import World


@pytest.mark.rows("001-85", "001-86", "001-89", "001-T4")
def test_what_is_missing_has_a_default_and_what_is_long_is_cut() -> None:
    bare = client.described({"trackId": 7})
    assert (bare.track_name, bare.seller_name) == ("Unknown", "Unknown")
    assert (bare.price, bare.rating_count, bare.languages) == (None, None, None)
    full = client.described(
        {"trackId": 7, "price": 1.5, "description": "x" * 5000, "languageCodesISO2A": ["EN"]}
    )
    assert (full.formatted_price, full.languages) == ("$1.50", '["EN"]')
    assert full.description is not None
    assert len(full.description) == 2000


def test_an_entry_of_a_chart_has_numbers_as_texts_and_no_ratings() -> None:
    entry = {
        "im:name": {"label": "Dozy"},
        "id": {"label": "x", "attributes": {"im:id": "7", "im:bundleId": "a.b"}},
        "im:price": {"label": "$0.99", "attributes": {"amount": "0.99"}},
    }
    found = client.charted(entry)
    assert (found.track_id, found.track_name, found.bundle_id) == (7, "Dozy", "a.b")
    assert (found.price, found.formatted_price, found.rating_count) == (0.99, "$0.99", None)


@pytest.mark.rows("001-19", "001-22", "001-83", "001-85")
def test_a_new_app_has_every_column_and_ratings_of_nothing_are_zero(world: World) -> None:
    with world.app.transaction() as tx:
        assert store.apps(tx, [client.Found(track_id=7)] * 2, 5, by="chart") == 1
        assert store.apps(tx, [client.Found(track_id=7)], 6, by="search") == 0
    [row] = world.app.read("select * from scout_app")
    assert set(store.COLUMNS) < set(row._asdict())
    assert (row.average_rating, row.rating_count, row.enrich_priority) == (0, 0, 0)
    assert (row.price, row.formatted_price, row.found_by) == (0, "Free", "chart")
    assert (row.first_seen_at, row.last_seen_at, row.enriched_at) == (5, 6, None)


@pytest.mark.parametrize(
    ("status", "error"), [(403, Throttled), (429, Throttled), (503, Throttled), (400, Fail)]
)
def test_a_refusal_puts_off_and_what_does_not_exist_is_given_up(
    world: World, status: int, error: type[BaseException]
) -> None:
    world.apple.faults.set([{"route": "search", "calls": "1..", "do": "status", "status": status}])
    with pytest.raises(error):
        asyncio.run(client.search("sleep"))
