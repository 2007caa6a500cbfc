"""What is used: calls counted before they are made, rows with their commits, cycles below a ceiling."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from bench import articles as bench
from duework.testing import Harness
from systems.scout import part
from systems.scout.cluster import cluster
from systems.scout.cluster.task import BUDGET
from systems.scout.crawl.cycle import crawl
from systems.scout.desk import figures as desk
from systems.scout.economy import ceiling, deploy, figures, ledger, model, reading
from systems.scout.economy.meter import metered
from systems.scout.economy.prices import PRICES
from systems.scout.opportunity import faces, opportunity
from systems.scout.tests.conftest import World
from systems.scout.tests.opportunity.conftest import Debating, change

HERE = Path(__file__).parents[2]
# What people keep is in a file of its own.
PEOPLES = {"scout_tracked_keyword", "scout_star", "scout_report", "scout_list"}


def sums(world: Any, service: str) -> dict[str, tuple[int, int, int]]:
    rows = world.app.read(
        "select what, sum(calls) as calls, sum(units_in) as read, sum(units_out) as written"
        " from scout_cost_day where service = :service group by what",
        service=service,
    )
    return {row.what: (int(row.calls), int(row.read), int(row.written)) for row in rows}


class TestTheCrawl:
    """With Apple's twin instead of a model's."""

    @pytest.fixture
    def world(self, apple_world: World) -> World:
        return apple_world

    @pytest.mark.rows("001-193")
    def test_calls_and_rows_are_counted_through_all_stages(self, world: World) -> None:
        world.seed((6013, "high"))
        world.apple.faults.set([{"route": "*", "calls": "4..6", "do": "drop_after"}])
        world.h.advance("6m")
        assert sums(world, "http")["apple"][0] == len(world.apple.log.entries)
        rows = sums(world, "rows")
        assert {"crawl", "enrich", "evaluate"} <= set(rows)
        stored = world.count("scout_app")
        assert rows["crawl"][2] >= stored
        assert all(calls > 0 for calls, _, _ in rows.values())

    @pytest.mark.rows("001-166", "001-177", "001-T20")
    def test_above_the_ceiling_cycles_are_skipped_until_the_next_month(self, world: World) -> None:
        world.seed((6013, "high"))
        # Three cycles a month: each is estimated at 500,000 rows.
        with change(ceiling_rows=1_500_000):
            for _ in range(5):
                crawl.enqueue()
                world.h.drain()
            cycles, skipped = ceiling.used(world.app.read, world.app.now())
            assert (cycles, skipped) == (3, 2)
            assert world.count("scout_cycle_month") == 1
            assert world.count("scout_crawl_log") == 3
            assert reading.costs()["ceiling"] == {"cycles": 3, "skipped": 2, "most": 3}
            assert ceiling.used(world.app.read, world.app.now() + 31 * 86_400_000) == (0, 0)


@pytest.mark.rows("001-177")
def test_the_ceiling_of_the_article_is_ten_thousand_cycles_which_every_five_minutes_stays_below() -> (
    None
):
    assert ceiling.most_cycles() == 10_000
    assert model.ceiling(10_000) == 5.0
    assert 12 * 24 * 30 == 8640
    assert 12 * 24 * 31 < ceiling.most_cycles() < 60 * 24 * 30


def test_rows_are_counted_with_the_commit_that_reads_and_writes_them(world: Debating) -> None:
    @metered("test")
    def work(tx: Any, fail: bool) -> int:
        tx.write(
            "insert into scout_health_snapshot (name, value, at) values (:name, 1, 0)",
            rows=[{"name": "a"}, {"name": "b"}],
        )
        found = len(tx.read("select name from scout_health_snapshot"))
        if fail:
            raise ValueError("no")
        return found

    with pytest.raises(ValueError, match="no"), world.app.transaction() as tx:
        work(tx, True)
    with world.app.transaction() as tx:
        assert work(tx, False) == 2
    assert sums(world, "rows") == {"test": (1, 2, 2)}


@pytest.mark.rows("001-151", "001-152", "001-172", "001-173", "001-155")
def test_figures_are_counted_when_somebody_looks_and_then_not_for_a_while(world: Debating) -> None:
    assert len(figures.COUNTS) == 21
    world.h.advance("1d")
    assert world.app.jobs(task="scout.count") == []
    assert figures.look()["at"] is None
    world.cluster("sleep")
    world.h.drain()
    assert figures.look()["apps_total"] == 3
    assert figures.look()["clusters_total"] == 1
    world.debate("sleep")
    world.h.advance("10m")
    seen = figures.look()
    # Counted once, however often they are looked at; old ones are shown until there are newer.
    assert seen["opportunities_total"] == 0
    assert len(world.app.jobs(task="scout.count")) == 1
    world.h.advance("10m")
    figures.look()
    world.h.drain()
    fresh = figures.look()
    assert (fresh["opportunities_total"], fresh["debates_last_day"]) == (1, 1)
    assert fresh["cost_today"] == fresh["cost_total"] == world.spent() > 0
    assert len(world.app.jobs(task="scout.count")) == 2


def test_figures_are_counted_to_a_bound_each_by_an_index(
    world: Debating, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    real = world.app.read

    def watch(sql: str, /, **values: Any) -> list[Any]:
        if world.app.url.startswith("sqlite"):
            plan = real(f"explain query plan {sql}", **values)
            asked.extend(str(row.detail) for row in plan)
        return real(sql, **values)

    now = world.h.now
    given = {"hour": now, "day": now}
    world.cluster("sleep")
    monkeypatch.setattr(desk, "MOST", 2)
    for table, where in [*figures.ROWS.values(), *desk.COUNTED.values()]:
        needed = {name: value for name, value in given.items() if f":{name}" in where}
        found = desk.bounded(watch, table, where, **needed)
        assert found <= 2, (table, where)
        whole = where == "1 = 1" or table in {"scout_category", "scout_debate_report"}
        assert whole or not any("SCAN scout" in each for each in asked), (where, asked)
        asked.clear()
    figures.look()
    world.h.drain()
    assert figures.look()["apps_total"] == 2


@pytest.mark.rows("001-13")
def test_each_stage_is_triggered_as_its_work_comes_and_all_are_in_one_program(
    world: Debating,
) -> None:
    world.h.drain()
    crons = {each.key: each.rule for each in world.app.schedules(prefix="scout.")}
    # Cadence and batch: cron. Adaptive: a controller that learns. Reactive: events. Durable: steps.
    assert crons["scout.crawl"] == "*/5 * * * *"
    assert crons["scout.cluster"] == "0 */6 * * *"
    assert world.app.get_pace("enrich").details["current_batch_size"]
    subscribed = {each.name for each in world.app.events.subscribers()}
    assert any("competitiveness" in name for name in subscribed)
    world.cluster("sleep")
    world.debate("sleep")
    world.h.drain()
    [job] = world.app.jobs(task="scout.opportunity")
    steps = [step.name for step in world.app.get_workflow(job.id).steps()]
    assert steps == ["facts", "bull", "bear", "judge", "conclude"]
    assert {crawl.name, cluster.name, opportunity.name} == {
        "scout.crawl",
        "scout.cluster",
        "scout.opportunity",
    }
    assert part.app is world.app


@pytest.mark.rows("001-169", "001-170", "001-174", "001-180")
def test_before_a_deployment_every_cron_has_an_owner_a_reason_and_the_month_a_price(
    world: Debating,
) -> None:
    world.h.drain()
    found = deploy.expected()
    assert found["doubts"] == []
    assert found["most_a_month"] == {"llm_dollars": 31.0, "cycles": 10_000}
    assert {each["key"] for each in found["crons"]} >= {"scout.crawl", "scout.cluster"}

    made = world.app.schedule(crawl, key="scout.hasty", cron="* * * * *")
    assert deploy.doubts([made]) == [
        "scout.hasty runs at * * * * * without a written reason",
        "scout.hasty belongs to nobody",
        "scout.hasty runs every minute: every five, or slower",
    ]


@pytest.mark.parametrize(
    ("sql", "index"),
    [
        (ledger.KEPT, "PRIMARY KEY (debate=?)"),
        (reading.LATEST, "scout_cost_age"),
        (faces.NEWEST, "scout_debate_report_cluster"),
    ],
)
def test_what_a_debate_reads_does_not_grow_with_their_number(sql: str, index: str) -> None:
    names = ("debate", "step", "digest", "most", "cluster")
    with Harness(part.app):
        given = {name: 1 for name in names if f":{name}" in sql}
        plan = [row.detail for row in part.app.read(f"explain query plan {sql}", **given)]
    assert any(index in each or "autoindex" in each for each in plan), plan
    assert not any(each.startswith("SCAN") and "USING INDEX" not in each for each in plan), plan


def line(row: str, words: str) -> model.Line:
    [found] = [each for each in model.claims() if each.row == row and words in each.what]
    return found


@pytest.mark.rows("001-02", "001-04", "001-150", "001-155", "001-162")
@pytest.mark.parametrize(
    ("row", "words", "computed", "holds"),
    [
        ("001-02", "transitions", 125.0, True),
        ("001-04", "five jobs", 0.2, False),
        ("001-150", "19.6 B rows read", 19.6, True),
        ("001-150", "82 M rows written", 82.0, False),
        ("001-150", "R2", 0.018, True),
        ("001-150", "45 h", 0.2592, False),
        ("001-150", "the sum", 21.03, True),
        ("001-01", "$20", 21.03, False),
        ("001-195", "$1", 1.960857, False),
        ("001-153", "reads a month", 0.560857, False),
        ("001-153", "saved", 97.142857, True),
        ("001-155", "every minute", 1.44, True),
        ("001-162", "Cloudflare", 12.515, False),
    ],
)
def test_the_articles_money_is_computed_again(
    row: str, words: str, computed: float, holds: bool
) -> None:
    found = next(each for each in model.claims() if each.row == row and words in each.what)
    assert found.computed == pytest.approx(computed)
    assert found.holds is holds


@pytest.mark.rows("001-163")
def test_it_is_the_cheapest_for_much_orchestration_and_too_small_for_its_own_clusters() -> None:
    assert line("001-163", "orchestrates").holds
    found = line("001-163", "computes little")
    assert not found.holds
    published = (Path(bench.__file__).parent / "README.md").read_text()
    assert f"{found.computed:.0f} s of CPU" in published
    # Here it has a process of its own, and far more than half a minute.
    assert BUDGET["isolation"] == "process"
    assert BUDGET["cpu_seconds"] > 2 * found.computed


@pytest.mark.rows("001-T5")
def test_ninety_billion_reads_are_not_the_nineteen_of_the_bill() -> None:
    assert model.reads_of_counting(21, 500_000, 6) == 90_720_000_000
    assert not line("001-T5", "21 counters").holds
    assert line("001-150", "25 B of which").computed == 0.0


@pytest.mark.rows("001-T6")
def test_fifteen_million_reads_cost_a_cent_and_a_half_not_fifteen_dollars() -> None:
    assert line("001-T6", "15 M").computed == pytest.approx(0.015)
    assert not line("001-T6", "15 M").holds


@pytest.mark.rows("001-T35", "001-154")
def test_prices_are_corrected_and_say_where_they_stand() -> None:
    assert (PRICES["object requests"].article, PRICES["object requests"].listed) == (12.50, 0.15)
    assert (PRICES["object time"].listed, PRICES["object time"].per) == (12.50, 1_000_000)
    assert (PRICES["writes"].article, PRICES["writes"].listed) == (0.01, 1.00)
    assert all(each.source.startswith("https://") for each in PRICES.values())
    agreed = {name for name, each in PRICES.items() if each.article == each.listed}
    assert {"requests", "reads", "blob reads", "messages"} <= agreed


@pytest.mark.rows("001-138", "001-T34")
def test_the_tables_are_counted_and_what_of_the_article_is_kept_is_written_down(
    world: Debating,
) -> None:
    made = reading.tables()
    assert len(set(made)) == len(made) > 30
    for table in made:
        world.app.read(f"select 1 as x from {table} limit 1")  # noqa: S608 - our own names
    text = (HERE / "docs" / "economy.md").read_text()
    assert "64 tables" not in text
    named = (
        "keyword_cache tracked_keywords app_snapshots api_calls_ledger pipelines users app_stars"
    )
    for name in f"{named} shared_reports marketing_methods harness_cycles waitlist".split():
        assert f"`{name}`" in text
    kept = {word for word in text.replace("`", " ").split() if word.startswith("scout_")}
    assert kept <= {*made, *PEOPLES}


def test_what_is_refuted_says_why() -> None:
    given = tomllib.loads((HERE / "rows.toml").read_text())["refuted"]
    for row in ("001-06", "001-161", "001-164", "001-195"):
        assert len(given[row]) > 30
