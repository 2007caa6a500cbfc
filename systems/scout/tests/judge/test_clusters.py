"""Runs of the fourth stage: what is stored, what goes first, who is told, what dies on the way."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import patch

import pytest

from duework.testing import Harness
from systems.scout import app as scout
from systems.scout.cluster import cluster, keep, reading
from systems.scout.evaluate import agents, beliefs, consumers
from systems.scout.tests.conftest import NOON
from systems.scout.tests.judge.conftest import Market

HOUR, DAY = 3_600_000, 86_400_000


@pytest.mark.rows("001-11", "001-128", "001-136", "001-127")
def test_a_run_stores_clusters_members_snapshots_and_the_past_and_calls_nobody(
    market: Market,
) -> None:
    market.two_niches()
    calls = len(market.world.calls())
    found = market.group()
    assert [row.name for row in found] == ["bills", "sleep sounds"]
    members = {
        row.id: (
            {
                e.track_id
                for e in market.rows(
                    "select track_id from scout_cluster_app where cluster = :id", id=row.id
                )
            },
            {
                e.keyword
                for e in market.rows(
                    "select keyword from scout_cluster_keyword where cluster = :id", id=row.id
                )
            },
        )
        for row in found
    }
    assert members[found[1].id] == ({1, 2, 3, 4, 5}, {"sleep", "sleep sounds", "rest"})
    assert members[found[0].id] == ({6, 7, 8, 9}, {"tax", "bills", "tax return"})
    assert len(market.world.calls()) == calls
    [run] = market.rows("select * from scout_cluster_run")
    assert (run.clusters, run.born, run.ended, run.keywords, run.rankings) == (2, 2, 0, 6, 18)
    assert run.stored_at is not None
    past = market.rows("select cluster, event from scout_cluster_lineage order by cluster")
    assert [tuple(row) for row in past] == sorted((row.id, "born") for row in found)
    # Agents read the rows and end at the scores that the run has found.
    market.tell(ranked=["sleep", "tax"])
    assert market.rows("select * from scout_cluster order by name") == found
    market.h.advance("1h")
    again = market.group()
    assert [row.id for row in again] == [row.id for row in found]
    shots = market.rows("select cluster, overlap from scout_cluster_snapshot order by at, cluster")
    assert [row.overlap for row in shots] == [0.0, 0.0, 1.0, 1.0]
    policy = cluster.definition.policy
    assert (policy.isolation, policy.cpu_seconds, policy.memory_mb) == ("process", 600, 4096)
    ready = market.published("clusters-ready")
    by_score = sorted(found, key=lambda row: (-row.score, row.id))
    assert ready[0] == {"cluster_ids": [row.id for row in by_score]}


@pytest.mark.rows("001-136")
def test_a_niche_that_grows_keeps_its_id_and_one_that_goes_leaves_its_past(market: Market) -> None:
    market.two_niches()
    tax, sleep = market.group()
    with market.app.transaction() as tx:
        tx.write("delete from scout_ranking where keyword in ('tax', 'bills', 'tax return')")
    market.apps([20])
    market.search("sleep sounds", (20, 3, 2, 4, 5))
    market.tell(enriched=[20])
    market.h.advance("1h")
    [left] = market.group()
    assert (left.id, left.apps) == (sleep.id, 6)
    assert market.rows("select 1 as x from scout_cluster_app where cluster = :id", id=tax.id) == []
    for table, column in (
        ("scout_cluster_state", "cluster"),
        ("scout_concept", "cluster"),
        ("scout_agent_memory", "subject"),
        ("scout_agent_ledger", "subject"),
    ):
        assert market.rows(f"select 1 as x from {table} where {column} = :id", id=tax.id) == []  # noqa: S608
    lines = market.rows(
        "select event from scout_cluster_lineage where cluster = :id order by at", id=tax.id
    )
    assert [row.event for row in lines] == ["born", "ended"]
    assert (
        len(market.rows("select 1 as x from scout_cluster_snapshot where cluster = :id", id=tax.id))
        == 1
    )


@pytest.mark.rows("001-127")
def test_without_clusters_nobody_is_told_and_of_many_the_best_two_hundred(market: Market) -> None:
    cluster.enqueue()
    market.settle()
    assert market.published("clusters-ready") == []
    [run] = market.rows("select clusters, stored_at from scout_cluster_run")
    assert run.clusters == 0
    assert run.stored_at is not None
    with market.app.transaction() as tx:
        tx.write(
            "insert into scout_cluster (id, name, apps, keywords, demand, competition,"
            " fragmentation, design, score, inputs, found_at)"
            " values (:id, :id, 0, 0, 0, 0, 0, 0, :score, '{}', 0)",
            rows=[{"id": f"{n:012x}", "score": n / 10} for n in range(300)],
        )
        assert keep.told(tx, market.h.now)["told"] == 200
    [told] = market.published("clusters-ready")
    assert told["cluster_ids"] == [f"{n:012x}" for n in range(299, 99, -1)]


def boosts(market: Market) -> tuple[dict[int, int], dict[str, int]]:
    apps = market.rows("select track_id, enrich_priority as p from scout_app order by track_id")
    words = market.rows("select keyword, priority as p from scout_keyword order by keyword")
    return {row.track_id: row.p for row in apps}, {row.keyword: row.p for row in words}


@pytest.mark.rows("001-131", "001-128", "001-T17")
def test_a_good_clusters_apps_and_keywords_go_first_once_and_not_for_ever(market: Market) -> None:
    market.two_niches()
    # Much wanted, badly served, held by nobody.
    market.apps(range(11, 23), ratings=1_000_000, stars=2.5, updated="2020-01-01T00:00:00Z")
    market.apps([50], enriched=None)
    for word, ids in {"nap": range(11, 19), "siesta": range(15, 23), "doze": (12, 21, 50)}.items():
        market.search(word, list(ids))
    with market.app.transaction() as tx:
        tx.write(
            "insert into scout_keyword (keyword, source, source_keyword, created_at)"
            " values ('nap well', 'search', 'nap', 0), ('other', 'search', null, 0)"
        )
        tx.write("update scout_app set enrich_priority = 100 where track_id = 14")
        tx.write("update scout_app set enrich_priority = -3 where track_id = 15")
        tx.write("update scout_keyword set priority = 50 where keyword = 'siesta'")
    plain = boosts(market)
    market.tell(enriched=range(11, 23))
    for _ in range(3):
        found = {row.name: row.score for row in market.group()}
        assert [name for name, score in found.items() if score > keep.HOT] == ["nap"]
        apps, words = boosts(market)
        raised = {id_ for id_ in apps if apps[id_] != plain[0][id_]}
        assert raised == {*range(11, 23), 50} - {14}
        assert {apps[id_] - plain[0][id_] for id_ in raised} == {keep.APP_STEP}
        more = {word for word in words if words[word] != plain[1][word]}
        assert more == {"nap", "doze", "nap well"}
        assert {words[word] - plain[1][word] for word in more} == {keep.KEYWORD_STEP}
        [run] = market.rows("select * from scout_cluster_run order by at desc limit 1")
        assert (run.apps_boosted, run.keywords_boosted) == (12, 3)
        market.h.advance("1h")
    with market.app.transaction() as tx:
        tx.write("update scout_app set average_rating = 4.9, updated_date = '2026-02-20T00:00:00Z'")
    market.tell(enriched=range(11, 23))
    assert max(row.score for row in market.group()) < keep.HOT
    assert boosts(market) == plain


@pytest.mark.rows("001-131", "001-T17")
def test_an_app_that_two_good_clusters_find_is_raised_by_one_of_them(market: Market) -> None:
    market.two_niches()
    market.apps([50], enriched=None)
    market.search("rest", (5, 1, 2, 50))
    market.search("bills", (8, 9, 7, 50))
    tax, sleep = (row.id for row in market.group())
    raised = []
    for id_, hot in ((sleep, True), (tax, True), (sleep, False), (tax, True), (tax, False)):
        with market.app.transaction() as tx:
            keep.reprioritise(tx, 0, id_, hot=hot)
        raised.append(boosts(market)[0][50])
    assert raised == [10, 10, 0, 10, 0]


@pytest.mark.rows("001-11", "001-T25")
def test_members_are_whole_however_the_worker_that_stores_them_dies(market: Market) -> None:
    market.two_niches()
    statement, crashed, ids = 1, True, set[str]()
    while crashed:
        with market.app.transaction() as tx:
            for table in ("scout_cluster_app", "scout_cluster_keyword", "scout_cluster_state"):
                tx.write(f"delete from {table}")  # noqa: S608
            tx.write("delete from scout_cluster_run")
            tx.write("delete from scout_cluster")
        cluster.enqueue()
        crashed = market.h.crash_worker(at=statement)
        market.settle()
        assert [
            row.n
            for row in market.rows(
                "select count(*) as n from scout_cluster_app group by cluster order by 1"
            )
        ] == [4, 5]
        [run] = market.rows("select stored_at, apps_boosted from scout_cluster_run")
        assert run.stored_at is not None
        ids |= {row.id for row in market.rows("select id from scout_cluster")}
        statement += 19
    assert len(ids) == 2
    assert statement > 50


@pytest.mark.rows("001-11", "001-127")
def test_of_a_cluster_whose_members_cannot_be_stored_nobody_is_told_until_a_run_stores_them(
    market: Market,
) -> None:
    market.two_niches()
    differ = keep._differ  # noqa: SLF001

    def spoiled(tx: Any, table: str, column: str, cluster: str, wanted: list[Any]) -> None:
        if "tax" in wanted or not wanted:
            raise OSError("no room")
        differ(tx, table, column, cluster, wanted)

    with patch.object(keep, "_differ", spoiled):
        cluster.enqueue()
        market.h.advance("10m")
    tax, sleep = market.rows("select * from scout_cluster order by name")
    assert market.published("clusters-ready") == [{"cluster_ids": [sleep.id]}]
    assert [row.cluster for row in market.rows("select cluster from scout_opportunity")] == [
        sleep.id
    ]
    market.group()
    assert sorted(market.published("clusters-ready")[-1]["cluster_ids"]) == sorted(
        [tax.id, sleep.id]
    )
    with market.app.transaction() as tx:
        tx.write("delete from scout_ranking where keyword in ('tax', 'bills', 'tax return')")
    with patch.object(keep, "_differ", spoiled):
        cluster.enqueue()
        market.h.advance("10m")
    # Of one that has ended nothing may stay, whichever run takes it away.
    gone = "select 1 as x from scout_cluster_app where cluster = :id"
    assert market.rows(gone, id=tax.id) != []
    market.group()
    assert market.rows(gone, id=tax.id) == []
    market.h.advance("1h")
    before = len(market.app.jobs(task="scout.keep", limit=100))
    market.group()
    assert len(market.app.jobs(task="scout.keep", limit=100)) == before, "nothing is left to store"


@pytest.mark.rows("001-11")
def test_a_run_waits_for_the_members_of_the_last_one_but_not_for_ever(market: Market) -> None:
    market.two_niches()
    with market.app.transaction() as tx:
        tx.write(
            "insert into scout_cluster_run (at, keywords, rankings, clusters, born, ended, quality)"
            " values (:at, 0, 0, 0, 0, 0, 0)",
            at=market.h.now,
        )
    job = cluster.enqueue()
    market.h.advance("5m")
    assert job.refresh().state == "open"
    market.h.advance("12m")
    assert job.refresh().result == 2
    with market.app.transaction() as tx:
        late = {"id": "x", "words": ["w"], "apps": [1], "hot": False, "members": "", "overlap": 0}
        assert not keep.stored(tx, market.h.now - DAY, late)
    assert market.rows("select 1 as x from scout_cluster_app where cluster = 'x'") == []


@pytest.mark.rows("001-135")
def test_what_an_agent_sees_run_after_run_becomes_a_belief_and_fades_without_it() -> None:
    sure, steps = 0.0, []
    for _ in range(6):
        sure = beliefs.confidence(sure, 0, holds=True)
        steps.append(sure)
    assert steps == [0.3, 0.51, 0.657, 0.7599, 0.8319, 0.8823]
    assert beliefs.confidence(0.8, 30, holds=False) == 0.2
    assert beliefs.confidence(0.8, 30, holds=True) == 0.58
    assert beliefs.confidence(0.0, 10**6, holds=False) == 0.0


@pytest.mark.rows("001-135")
def test_a_belief_is_kept_counted_once_a_run_and_becomes_a_core_belief(market: Market) -> None:
    market.two_niches()
    sleep, _ = market.group()

    def look(run: int, score: float) -> Any:
        with market.app.transaction() as tx:
            beliefs.observe(tx, sleep.id, "design", score, NOON + run * 6 * HOUR)
        return market.rows(
            "select * from scout_agent_memory where subject = :id and agent = 'design'", id=sleep.id
        )[0]

    core = "select belief from scout_core_belief where subject = :id and agent = 'design'"
    seen = look(10, 80.0)
    assert look(10, 80.0) == seen, "a run that is looked at twice counts once"
    assert not look(10, 10.0).holds
    assert look(10, 80.0) == seen, "the last look is the one that counts"
    for run in range(11, 16):
        seen = look(run, 80.0)
    assert seen.confidence >= beliefs.CORE
    assert [row.belief for row in market.rows(core, id=sleep.id)] == ["people are not served well"]
    look(16, 10.0)
    look(17, 10.0)
    assert market.rows(core, id=sleep.id) == []


@pytest.mark.rows("001-10", "001-11")
def test_no_look_of_an_agent_or_a_run_reads_a_whole_table() -> None:
    with Harness(scout, now=NOON):
        asked: list[tuple[str, dict[str, Any]]] = [
            (consumers.WAITING, {"most": 5}),
            (agents._APPS.format(these=":a, :b"), {"a": 1, "b": 2}),  # noqa: SLF001
            (agents._FOUND_BY.format(these=":a, :b"), {"a": 1, "b": 2, "lowest": 9, "most": 5}),  # noqa: SLF001
            (agents._FOUND_FOR, {"keyword": "x", "lowest": 9}),  # noqa: SLF001
            (agents._WANTED_MOST, {"id": "x", "lowest": 9, "most": 5}),  # noqa: SLF001
            (reading.APPS, {"after": 1, "most": 5}),
            (reading.RANKINGS, {"word": "", "app": 0, "lowest": 9, "most": 5}),
            (reading.CLUSTER_APPS, {"cluster": "", "app": 0, "most": 5}),
            (reading.CLUSTER_KEYWORDS, {"cluster": "", "word": "", "most": 5}),
            (keep._HOT_APPS, {"id": "x", "step": 1, "most": 5, "lowest": 9}),  # noqa: SLF001
            (keep._HOT_KEYWORDS, {"id": "x", "step": 1, "most": 5}),  # noqa: SLF001
            (keep._COLD_APPS, {"id": "x"}),  # noqa: SLF001
            (keep._COLD_KEYWORDS, {"id": "x"}),  # noqa: SLF001
        ]
        for sql, values in asked:
            plan = [row.detail for row in scout.read(f"explain query plan {sql}", **values)]
            assert not [line for line in plan if line.startswith("SCAN") and "VIEW" not in line], (
                json.dumps([sql, plan])
            )
