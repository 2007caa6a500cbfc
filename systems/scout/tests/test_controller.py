"""The controller: its numbers at every boundary, its window, what it counts, and that there is one."""

from __future__ import annotations

import itertools
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from duework import Adaptive, App, Rate, UsageError
from duework.testing import Harness
from systems.scout import app as scout
from systems.scout import part, reading
from systems.scout.crawl import cycle
from systems.scout.crawl.tiers import DAY
from systems.scout.enrich import feed, purchases, scrape
from systems.scout.part import APPLE, CONTROLLER
from systems.scout.tests.conftest import MINUTE, NOON, World
from systems.scout.tests.test_enrich import plant
from systems.scout.upkeep import daily, figures
from systems.scout.upkeep.archive import UNSEEN


def after(good: int, bad: int, batch: int = 20, interval: int = 60_000) -> tuple[int, int, int]:
    """Batch, interval and cooldown that follow so many results."""
    state = {**CONTROLLER.fresh(), "batch": batch, "interval": interval}
    state["minutes"] = {str(NOON // MINUTE): [good + bad, good, bad]}
    CONTROLLER.adapt(state, NOON)
    return state["batch"], state["interval"], state["cooldown"]


COOLING = (2, 120_000, NOON + 300_000)
RULES = {
    "just below a fifth it cools down": (199, 801, COOLING),
    "at a fifth it halves": (200, 800, (10, 90_000, 0)),
    "just below a half it halves": (499, 501, (10, 90_000, 0)),
    "at a half it stays": (500, 500, (20, 60_000, 0)),
    "at four fifths it stays": (800, 200, (20, 60_000, 0)),
    "just above four fifths it grows by a tenth": (801, 199, (22, 57_000, 0)),
    "at 95 of a hundred it grows by a tenth": (950, 50, (22, 57_000, 0)),
    "just above 95 it grows by a quarter": (951, 49, (25, 48_000, 0)),
    "with four results it stays": (0, 4, (20, 60_000, 0)),
    "with five it is judged": (0, 5, COOLING),
}


@pytest.mark.rows("001-39", "001-47", "001-48", "001-49", "001-50", "001-51", "001-52")
@pytest.mark.parametrize("rule", sorted(RULES))
def test_at_each_boundary_the_controller_does_what_the_rule_says(rule: str) -> None:
    good, bad, expected = RULES[rule]
    assert after(good, bad) == expected


@pytest.mark.rows("001-38", "001-49", "001-50", "001-51")
def test_it_stays_within_its_bounds_and_rounds_batches_up_and_intervals_down() -> None:
    assert after(10, 0, batch=45, interval=11_000)[:2] == (50, 10_000)
    assert after(90, 10, batch=50, interval=10_001)[:2] == (50, 10_000)
    assert after(30, 70, batch=3, interval=100_000)[:2] == (2, 120_000)
    assert after(10, 0, batch=3, interval=33_333)[:2] == (4, 26_666)
    assert after(30, 70, batch=5, interval=33_333)[:2] == (2, 49_999)


@pytest.mark.rows("001-53")
def test_success_is_that_of_five_minutes_and_nothing_known_is_success() -> None:
    state: dict[str, Any] = CONTROLLER.load({})
    assert CONTROLLER.show(state, NOON)["success_rate"] == 100
    now = NOON // MINUTE
    state["minutes"] = {str(now - 5): [9, 0, 9], str(now - 4): [3, 1, 2], str(now): [1, 1, 0]}
    assert CONTROLLER.window(state, NOON) == (2, 2)
    assert CONTROLLER.show(state, NOON)["success_rate"] == 50


@pytest.mark.rows("001-40", "001-41", "001-46", "001-T32")
def test_what_it_has_learned_is_in_the_database_and_not_in_a_process(world: World) -> None:
    plant(world, 400)
    world.h.advance("35s")
    before = world.app.get_pace("enrich").details
    assert before["total_dispatched"] >= before["total_completed"] > 5
    assert before["current_batch_size"] > 10
    world.h.crash_worker(at=1)
    assert world.app.get_pace("enrich").details == before
    world.h.advance("2m")
    after_ = world.app.get_pace("enrich").details
    assert after_["total_completed"] > before["total_completed"]


@pytest.mark.rows("001-42", "001-44", "001-81")
def test_with_nothing_to_do_it_costs_nothing_and_goes_on_with_the_next_app(world: World) -> None:
    plant(world, 0)
    world.h.advance("30m")
    assert world.calls("lookup") == []
    assert reading.controller()["total_dispatched"] == 0
    [id_] = plant(world, 1)
    world.h.advance("1m")
    assert world.count("scout_app", f"track_id = {id_} and enriched_at is not null") == 1


@pytest.mark.rows("001-48", "001-T13")
def test_a_storm_is_told_from_apps_that_are_gone_and_work_begins_as_the_cooldown_ends(
    world: World,
) -> None:
    world.apple.set_limits(10_000)
    ids = plant(world, 150)
    for id_ in ids[:100]:
        world.apple.delist(id_)
    world.h.advance("1m")
    # Two of three are gone, and that is no reason to go slower.
    assert world.count("scout_app", "enrichment_source = 'failed'") == 100
    assert reading.controller()["success_rate"] == 100
    world.h.advance("5m")
    world.apple.storm(600)
    plant(world, 250, 150)
    for _ in range(20):
        if reading.controller()["in_cooldown"]:
            break
        world.h.advance("30s")
    world.apple.storm(0)
    ends = world.app.get_pace("enrich").details["cooldown_until"]
    seen = len(world.calls("lookup"))
    world.h.advance("10m")
    first = world.calls("lookup")[seen]
    # The shared pace admits one each three seconds.
    assert 0 <= first.at - ends <= 3_200


@pytest.mark.rows("001-58", "001-190", "001-194")
def test_there_is_one_controller_and_nobody_else_looks_apps_up(world: World) -> None:
    world.app.get_pace("enrich").stop()
    world.seed((6013, "high"))
    world.h.advance("16m")
    assert world.count("scout_app") > 0
    # Portfolios are looked up by developers; they find apps and enrich none.
    assert [call for call in world.calls("lookup") if not call.notes["developers"]] == []
    assert world.count("scout_app", "enriched_at is not null") == 0
    # A second one under its name is refused.
    made = App()
    made.task(pace=CONTROLLER)(_nothing)
    with pytest.raises(UsageError, match="enrich"):
        made.task(pace=Adaptive(name="enrich", batch=(1, 9)))(_nothing_else)
    assert [each.name for each in world.app.paces() if each.name == "enrich"] == ["enrich"]


async def _nothing() -> None: ...


async def _nothing_else() -> None: ...


@pytest.mark.rows("001-62", "001-T16")
def test_whoever_listens_is_told_which_apps_were_enriched(world: World) -> None:
    ids = plant(world, 30)
    world.apple.delist(ids[0])
    world.h.advance("2m")
    told = [
        id_ for each in world.app.events.search("app-enriched") for id_ in each.payload["track_ids"]
    ]
    assert sorted(told) == ids[1:]


@pytest.mark.rows("001-79", "001-126", "001-185", "001-T12")
def test_the_figures_of_a_day_are_by_phase_and_need_none_of_the_tables(world: World) -> None:
    world.seed((6013, "high"))
    world.h.advance("11m")
    world.app.metrics.flush()
    found = figures.last_day(world.h.now)
    apps, enriched = world.count("scout_app"), world.count("scout_app", "enriched_at is not null")
    assert set(found) >= {"category_scan", "enrich"}
    assert "cron" not in found
    assert sum(each.get("apps_discovered", 0) for each in found.values()) <= apps
    assert found["category_scan"]["apps_discovered"] > 0
    assert found["enrich"]["apps_enriched"] == enriched
    with world.app.transaction() as tx:
        tx.write("delete from scout_app")
    assert figures.last_day(world.h.now) == found
    assert figures.last_day(world.h.now + 2 * DAY) == {}


@pytest.mark.rows("001-156", "001-159")
def test_each_kind_of_work_has_the_trigger_that_fits_it(world: World) -> None:
    world.h.drain()
    rules = {each.key: each.rule for each in world.app.schedules(prefix="scout.")}
    assert rules["scout.crawl"] == "*/5 * * * *"
    assert rules["scout.cluster"] == "0 */6 * * *"
    assert rules["scout.daily"] == "0 6 * * *"
    assert (CONTROLLER.interval, CONTROLLER.batch) == ((10_000, 120_000), (2, 50))
    assert (CONTROLLER.cooldown, APPLE.name) == (300_000, "apple")
    # One at a time for each cron, and what fails is tried again.
    assert {each.overlap for each in world.app.schedules(prefix="scout.")} == {"skip"}
    assert feed.enrich.definition.policy.queue == "scout"
    # After a day without a worker one cycle makes up for all that were missed.
    assert {each.missed for each in world.app.schedules(prefix="scout.")} == {"once"}


@pytest.mark.rows("001-156", "001-158")
def test_a_cycle_that_fails_is_alone_and_is_made_up_for_by_the_next(world: World) -> None:
    world.seed((6014, "high"))
    world.h.drain()
    with patch.object(cycle, "begin", side_effect=ValueError("not today")):
        for _ in range(11):
            world.h.advance("1m")
            assert (
                len([job for job in world.app.jobs(task="scout.crawl") if job.state == "open"]) <= 1
            )
    assert world.count("scout_crawl_log") == world.apple.log.calls == 0

    world.h.advance("5m")

    assert world.count("scout_crawl_log") == 1
    assert world.calls("chart")


@pytest.mark.rows("001-157", "001-158")
def test_a_call_that_fails_is_made_six_times_each_time_later(world: World) -> None:
    world.apple.faults.set([{"route": "lookup", "do": "status", "status": 500}])
    [app] = plant(world, 1)
    world.h.advance("40m")
    times = [each.at for each in world.calls("lookup")]
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert len(times) == 6
    assert gaps[0] >= 10_000
    assert gaps[1] >= 60_000
    assert min(gaps[2:]) >= 300_000
    # It comes back later, and not at once.
    assert world.count("scout_app", f"track_id = {app} and attempts = 1 and enriching is null") == 1


@pytest.mark.rows("001-45")
def test_no_more_than_eight_lookups_are_under_way_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Apple's pace is one in three seconds; without it the controller lets ten go at once.
    for name, value in vars(Rate("6000/1m", burst=100)).items():
        if name != "name":
            monkeypatch.setattr(APPLE, name, value)
    world.apple.faults.set([{"route": "lookup", "do": "delay", "seconds": 0.5}])
    with patch.object(part, "_settings", msgspec.structs.replace(part.settings, lookup=1)):
        plant(world, 12)
        world.h.drain()
    assert world.app.get_pace("enrich").details["current_batch_size"] >= 10
    assert 4 < world.apple.log.peak <= 8
    assert len(world.calls("lookup")) == 10


@pytest.mark.rows("001-T19", "001-T31")
@pytest.mark.parametrize(
    ("sql", "index"),
    [
        (feed.OLD, "scout_app_stale"),
        (scrape.NEW, "scout_app_page"),
        (scrape.OLD, "scout_app_page_old"),
        (purchases.GAP, "scout_app_iaps"),
        (UNSEEN, "scout_app_seen"),
        (daily.OLD, "scout_snapshot_age"),
        (daily.APPS, "scout_snapshot_1 (track_id=? AND snapshot_at>? AND snapshot_at<?)"),
    ],
    ids=["again", "pages", "old pages", "purchases", "unseen", "old snapshots", "velocity"],
)
def test_what_is_to_be_done_is_found_in_indexes_and_sorted_by_them(sql: str, index: str) -> None:
    names = ("now", "before", "most", "source", "after", "near", "far")
    with Harness(scout, now=NOON):
        given = {name: 1 for name in names if f":{name}" in sql}
        plan = [row.detail for row in scout.read(f"explain query plan {sql}", **given)]
    assert any(index in line for line in plan), plan
    assert not any("TEMP B-TREE" in line or line.startswith("SCAN") for line in plan), plan
