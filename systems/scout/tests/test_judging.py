"""Clusters and opportunities: pure scores, groups that are the same each time, a debate from facts alone."""

from __future__ import annotations

import json

import pytest

from systems.scout import cluster, first, reading
from systems.scout.evaluate import competitiveness, days_since, half_up
from systems.scout.opportunity import WEIGHTS
from systems.scout.tests.conftest import World

NONE = {"rating_count": 0, "average_rating": 0.0, "days_since_update": None, "best_place": None}
MOST = {"rating_count": 999_999, "average_rating": 5.0, "days_since_update": 0, "best_place": 1}


@pytest.mark.rows("001-T23")
@pytest.mark.parametrize(
    ("change", "score"),
    [
        (NONE, 0.0),
        (MOST, 100.0),
        (MOST | {"rating_count": 999}, 77.5),
        (MOST | {"average_rating": 2.0}, 75.0),
        (MOST | {"days_since_update": 365}, 92.5),
        (MOST | {"days_since_update": 9999}, 85.0),
        (MOST | {"best_place": 101}, 92.5),
        (MOST | {"rating_count": 10**9}, 100.0),
    ],
)
def test_an_apps_strength_follows_its_formula(change: dict[str, object], score: float) -> None:
    assert competitiveness(dict(change)) == score


@pytest.mark.rows("000-T16")
def test_halves_go_up_and_dates_that_are_none_count_for_nothing() -> None:
    assert [half_up(value, 0) for value in (0.5, 1.5, 2.5, 12.5)] == [1, 2, 3, 13]
    assert days_since("1970-01-02T00:00:00Z", 3 * 86_400_000) == 2
    assert days_since("next week", 0) is None
    assert days_since(None, 0) is None


def edges(*groups: str) -> list[cluster.Edge]:
    """`"sleep timer:1 2 3"`: a keyword and the apps that are found for it, by rank."""
    found = []
    for group in groups:
        word, _, apps = group.partition(":")
        found += [(word, int(app), rank) for rank, app in enumerate(apps.split(), start=1)]
    return found


@pytest.mark.rows("001-T23")
def test_keywords_that_find_the_same_apps_are_one_cluster_whatever_the_order() -> None:
    given = edges("sleep:1 2 3", "rest:3 1 2", "tax:7 8 9", "bills:8 7 9", "lonely:20")
    groups = cluster.communities(given)
    assert groups == [(["bills", "tax"], [7, 8, 9]), (["rest", "sleep"], [1, 2, 3])]
    assert cluster.communities(given[::-1]) == groups
    assert cluster.communities([]) == []


@pytest.mark.rows("001-T23")
def test_the_four_scores_of_a_cluster_follow_their_formulas() -> None:
    fresh = [cluster.Member(n, 100, 4.5, 80.0, 10) for n in range(10)]
    parts, inputs, _ = cluster.scores(fresh)
    assert parts["competition"] == 20.0
    assert parts["fragmentation"] == 70.0
    assert parts["design"] == 0.0
    assert parts["demand"] == half_up(100 * 3.000434 / 7)
    assert parts["score"] == half_up(sum(WEIGHTS[name] * parts[name] for name in WEIGHTS))
    assert (inputs["ratings"], inputs["of_the_three_largest"]) == (1000, 300)
    poor = [cluster.Member(n, 0, 0.0, 0.0, None) for n in range(3)]
    parts, _, _ = cluster.scores(poor)
    assert parts == {
        "demand": 0.0,
        "competition": 100.0,
        "fragmentation": 0.0,
        "design": 100.0,
        "score": 45.0,
    }


@pytest.mark.rows("001-07", "001-11", "001-171", "001-178", "001-179", "001-T25")
def test_a_small_run_leads_to_an_opportunity_in_ten_minutes(world: World) -> None:
    world.apple.count = 5000
    assert not reading.pipeline_test()["pipeline_healthy"]
    first.start()
    assert first.start().existed
    world.h.advance("6m")
    answer = reading.pipeline_test()
    assert answer["pipeline_healthy"], answer
    found = reading.opportunities()
    assert [each["score"] for each in found] == sorted(
        (each["score"] for each in found), reverse=True
    )
    for each in found:
        assert [voice["who"] for voice in each["debate"]] == ["bull", "bear", "judge"]
        for fact in each["facts"]:
            rows = [*fact["apps"], *fact["keywords"]]
            assert rows, "a claim that links to no row"
            assert len(reading.names_of(fact["apps"])) == len(fact["apps"])
        total = half_up(sum(WEIGHTS[name] * each["parts"][name] for name in WEIGHTS))
        assert total == each["score"] == each["parts"]["score"]
        [row] = world.app.read(
            "select inputs from scout_cluster where id = :id", id=each["cluster"]
        )
        leaders = json.loads(row.inputs)["leaders"]
        assert set(leaders) == set(each["facts"][2]["apps"])
    assert world.busiest_minute() <= 20
    assert {each.status for each in world.calls()} == {200}
    crons = {each.key: each.rule for each in world.app.schedules(prefix="scout.")}
    expected = {"scout.crawl": "*/5 * * * *", "scout.cluster": "0 */6 * * *"}
    assert crons.items() >= expected.items()
    # Again: the same clusters, one row each.
    before = {each["cluster"]: each["first_at"] for each in found}
    cluster.cluster.enqueue()
    world.app.get_schedule("scout.crawl").pause()
    world.h.advance("5m")
    after = {each["cluster"]: each["first_at"] for each in reading.opportunities(200)}
    assert all(after.get(id_) == at for id_, at in before.items())


@pytest.mark.rows("001-167")
def test_neither_cron_runs_when_nothing_is_new(world: World) -> None:
    world.h.advance("13h")
    for name in ("crawl", "cluster"):
        schedule = world.app.get_schedule(f"scout.{name}")
        assert (schedule.fires, schedule.last_outcome) == (0, "idle")
