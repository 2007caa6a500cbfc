"""Which activities are races: the rules alone."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from systems.strides.races import Activity, distance_class, parkrun_score, recognise

# A Saturday.
NINE = datetime(2026, 2, 28, 9, 0, 12, tzinfo=UTC)
WEDNESDAY = datetime(2026, 2, 25, 18, 30, tzinfo=UTC)


def run(name: str = "Evening Run", metres: float = 10_000, **more: object) -> Activity:
    local = more.pop("local", WEDNESDAY)
    given = {"sport_type": "Run", "start_date": local, "start_date_local": local, **more}
    return Activity(id=1, name=name, distance=metres, **given)


@pytest.mark.rows("004-21")
@pytest.mark.parametrize(
    ("one", "event", "known_by"),
    [
        (run("City 10K", workout_type=1), "City 10K", "workout type"),
        (run("Hill race", sport_type="TrailRun", workout_type=1), "Hill race", "workout type"),
        (run("Old shape", sport_type="", type="Run", workout_type=1), "Old shape", "workout type"),
        (run("Bushy parkrun", 5012, local=NINE, workout_type=1), "parkrun", "workout type"),
        (run("Bushy parkrun", 5012, local=NINE), "parkrun", "parkrun score 0.84"),
        (run("Saturday Park Run", 4990, local=NINE), "parkrun", "parkrun score 0.84"),
    ],
)
def test_a_marked_run_is_a_race_and_a_parkrun_is_known_by_its_score(
    one: Activity, event: str, known_by: str
) -> None:
    found = recognise(one)

    assert found is not None
    assert (found.event, found.known_by) == (event, known_by)


@pytest.mark.parametrize(
    "one",
    [
        run(),
        run(workout_type=0),
        run(workout_type=3),
        run("Race", workout_type=1, private=True),
        run("Race", sport_type="Ride", workout_type=1),
        run("Criterium", sport_type="Ride", workout_type=11),
        run("parkrun coffee", 5012, sport_type="Walk", local=NINE),
        run("parkrun, then home", 12_000, local=NINE),
        run("Morning Run", 5_000, local=NINE),
    ],
)
def test_what_is_not_a_race(one: Activity) -> None:
    assert recognise(one) is None


def test_the_score_is_the_sum_of_its_signs() -> None:
    assert parkrun_score(run("Evening Run", 10_000)) == 0
    assert parkrun_score(run("parky", 10_000)) == 0.339
    assert parkrun_score(run("x", 4_600)) == 0.327
    assert parkrun_score(run("x", 5_000)) == 0.374
    assert parkrun_score(run("parkrun", 5_000, local=NINE.replace(hour=8))) == 0.938


@pytest.mark.parametrize(
    ("metres", "name"),
    [
        (4_799, "Other"),
        (4_800, "5 km"),
        (5_200, "5 km"),
        (10_012, "10 km"),
        (21_097, "Half"),
        (42_195, "Marathon"),
        (50_000, "Ultra"),
        (0, "Other"),
    ],
)
def test_distances_have_the_names_that_people_give_them(metres: float, name: str) -> None:
    assert distance_class(metres) == name
