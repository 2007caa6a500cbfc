"""What tables promise: idle cycles read nothing, columns are only added, and who writes what."""

from __future__ import annotations

import re
import sqlite3
import tomllib
from pathlib import Path

import pytest

from bench.articles import scout as bench
from duework.testing import Harness
from systems.scout import app as scout
from systems.scout.crawl import categories
from systems.scout.desk.doctor import in_a_month
from systems.scout.tests.conftest import NOON, World

HERE = Path(__file__).parents[1]
TABLES = sorted((HERE / "tables").glob("*.sql"))
WRITES = re.compile(r"(?:insert into|update|delete from) (scout_\w+)")
# What the crawl may write, and what nobody else may make or change.
CRAWLS = {
    *("scout_app", "scout_keyword", "scout_ranking", "scout_developer", "scout_category"),
    *("scout_chart", "scout_chart_history", "scout_seed", "scout_crawl_log", "scout_fresh_keyword"),
}
ONLY_CRAWLS = {"scout_ranking", "scout_chart", "scout_crawl_log", "scout_fresh_keyword"}
NAMED = (
    *("app_registry", "crawl_keywords", "crawl_rankings", "crawl_seeds", "crawl_log"),
    *("category_scans", "chart_positions", "chart_position_history"),
)


@pytest.mark.rows("001-29", "001-76", "001-80", "001-155", "001-181", "001-189", "001-T2")
@pytest.mark.rows("001-77", "001-153")
def test_an_idle_cycle_costs_the_same_however_many_apps_there_are() -> None:
    kinds = (bench.counts, bench.limited, bench.exists)
    costs = []
    for rows in (1_000, 10_000):
        with bench.filled(rows) as reader:
            costs.append([reader.steps_of(each) for each in kinds])
    [few, many] = costs
    assert many[2] == few[2] < 300
    # The article's: its checks count everything, with LIMIT 1 or without.
    assert many[0] > 5 * few[0]
    assert many[1] > 5 * few[1] > 50 * few[2]
    # A month of it: five times fewer cycles, and more than seven times less in each.
    crons = tomllib.loads((HERE / "resources.toml").read_text())["crons"]
    cycles = in_a_month(crons["scout.crawl"].removeprefix("cron "))
    assert 5 * cycles == in_a_month("* * * * *") == 43_200
    assert few[0] > 7 * few[2]
    assert cycles * many[2] < 0.03 * in_a_month("* * * * *") * many[0]


@pytest.mark.rows("001-18")
def test_the_crawl_writes_its_own_tables_and_nobody_else_makes_their_rows() -> None:
    ours = [*(HERE / "crawl").glob("*.py"), HERE / "store.py"]
    written = {table for path in ours for table in WRITES.findall(path.read_text())}
    assert written <= CRAWLS
    others = [path for path in HERE.rglob("*.py") if path not in ours and "tests" not in path.parts]
    for path in others:
        made = set(re.findall(r"(?:insert into|update) (scout_\w+)", path.read_text()))
        assert not made & ONLY_CRAWLS, path.name


@pytest.mark.rows("001-23", "001-142", "001-188")
def test_tables_are_added_to_and_what_was_done_is_a_time(world: World) -> None:
    for path in TABLES:
        text = path.read_text().lower()
        assert "boolean" not in text
        assert not re.search(r"drop (table|column)|rename", text), path.name
    for table, column in (
        ("category", "scanned_at"),
        ("app", "enriched_at"),
        ("app", "ranked_at"),
        ("keyword", "last_searched_at"),
        ("developer", "expanded_at"),
        ("crawl_log", "closed_at"),
    ):
        assert world.app.read(f"select {column} from scout_{table} where {column} is null") == []  # noqa: S608


@pytest.mark.rows("001-133")
def test_the_tables_have_the_names_that_people_look_for(world: World) -> None:
    with world.app.transaction() as tx:
        categories.add(tx)
    counts = {name: world.count(f"scout_{name}") for name in NAMED}
    assert counts["category_scans"] == 93
    assert sum(counts.values()) == 93


def test_a_database_of_before_goes_on_with_its_keywords_and_rankings() -> None:
    old = sqlite3.connect(":memory:")
    first, second = (path.read_text() for path in TABLES[:2])
    old.executescript(first)
    old.executescript("""
        insert into scout_app (track_id, track_name, seller_name, first_seen_at, last_seen_at)
            values (1, 'a', 'x', 0, 0), (2, 'b', 'x', 0, 0);
        insert into scout_ranking values ('sleep', 1, 1, 77);
        insert into scout_keyword (keyword, source, created_at, status, failures, retry_at,
            last_searched_at) values ('sleep', 's', 0, 'searched', 0, 0, 1000),
            ('bad', 's', 0, 'pending', 2, 500, null), ('new', 's', 0, 'pending', 0, 0, null);""")
    old.executescript(second)
    ranked = old.execute("select track_id, ranked_at from scout_app order by track_id").fetchall()
    assert ranked == [(1, 77), (2, None)]
    words = old.execute("select keyword, status, due_at from scout_keyword order by keyword")
    assert words.fetchall() == [
        ("bad", "failing", 500),
        ("new", "pending", None),
        ("sleep", "searched", 1000 + 30 * 86_400_000),
    ]


def test_all_indexes_of_gaps_are_there() -> None:
    with Harness(scout, now=NOON):
        rows = scout.read("select name from sqlite_master where type = 'index'")
    wanted = {"scout_app_unranked", "scout_keyword_due", "scout_developer_due", "scout_app_iaps"}
    assert wanted <= {row.name for row in rows}
