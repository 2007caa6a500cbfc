"""Races of everybody with filters, the records of one athlete, and the export."""

from __future__ import annotations

import csv
import io

import pytest

from systems.strides.board import records
from systems.strides.reading import Wanted
from systems.strides.tests.conftest import World
from tests.web.conftest import Browser, Site, check_page


@pytest.fixture
def browser(world: World) -> Browser:
    return Site(world.app).browser("operate")


def put(world: World, number: int, date: str, metres: float, taken: int, event: str = "R") -> None:
    with world.app.transaction() as tx:
        tx.write(
            "insert into strides_race (athlete_id, strava_activity_id, start, date, name, distance,"
            " distance_class, elapsed_time, moving_time, event_name, known_by, created_at, seen)"
            " values (7, :n, :n, :date, 'R', :metres, :class, :taken, :taken, :event, 'x', 0, 0)",
            n=number,
            date=date,
            metres=metres,
            **{"class": "5 km" if metres < 6_000 else "10 km"},
            taken=taken,
            event=event,
        )
        tx.write(
            "insert into strides_activity (athlete_id, id, start, day, name, sport, distance,"
            " moving_time, seen) values (7, :n, :n, :date, 'R', 'Run', :metres, :taken, 0)",
            n=number,
            date=date,
            metres=metres,
            taken=taken,
        )


@pytest.fixture
def athlete(world: World) -> World:
    with world.app.transaction() as tx:
        tx.write(
            "insert into strides_athlete (id, firstname, lastname, joined) values (7, 'A', 'B', 0)"
        )
    put(world, 1, "2024-05-01", 5_000, 1_300)
    put(world, 2, "2025-05-01", 5_000, 1_200, "=HYPERLINK(1)")
    put(world, 3, "2025-06-01", 10_000, 2_700, "Bridge run")
    put(world, 4, "2025-07-01", 5_000, 1_250, "Bridge run")
    return world


@pytest.mark.rows("004-X2")
def test_milestones_years_and_the_eddington_number(athlete: World, browser: Browser) -> None:
    told = [(each.date, each.words) for each in records.milestones(7)]

    assert told == [
        ("2025-06-01", "first 10 km"),
        ("2025-05-01", "best 5 km"),
        ("2024-05-01", "first 5 km"),
        ("2024-05-01", "first race"),
    ]
    assert [(each.year, each.races, each.kilometres) for each in records.years(7)] == [
        ("2025", 3, 20.0),
        ("2024", 1, 5.0),
    ]
    assert records.eddington(7) == 4
    assert [row.elapsed_time for row in records.top(7, "5 km")] == [1_200, 1_250, 1_300]
    page = browser.get("/strides/athletes/7/records")
    check_page(page)
    assert "best 5 km" in page.text


@pytest.mark.rows("004-X2")
def test_races_of_everybody_are_filtered_and_exported(athlete: World, browser: Browser) -> None:
    query = "athlete=7&event=bridge&distance=10+km&since=2025-01-01&until=2025-06-30"

    page = browser.get(f"/strides/races?{query}")
    every = browser.get("/strides/races.csv")
    some = browser.get(f"/strides/races.csv?{query}")

    check_page(page)
    check_page(browser.get("/strides/races"))
    assert "/races/3" in page.text
    assert "/races/4" not in page.text
    rows = list(csv.DictReader(io.StringIO(every.text)))
    assert [row["strava_activity_id"] for row in rows] == ["4", "3", "2", "1"]
    # No spreadsheet takes a name for a formula.
    assert rows[2]["event_name"] == "'=HYPERLINK(1)"
    assert every.headers["content-type"].startswith("text/csv")
    assert [row["event_name"] for row in csv.DictReader(io.StringIO(some.text))] == ["Bridge run"]


def test_an_export_has_all_races_however_many(world: World) -> None:
    world.connect(5001)
    world.plenty()
    world.finish()

    text = records.to_csv(Wanted(athlete=5001)).decode()

    assert len(list(csv.DictReader(io.StringIO(text)))) == len(world.races(5001)) > 500


@pytest.mark.rows("004-X6")
def test_an_event_is_suggested_by_the_names_that_were_given_before(
    athlete: World, browser: Browser
) -> None:
    page = browser.get("/strides/athletes/7/races/1")

    check_page(page)
    assert '<option value="Bridge run">' in page.text
