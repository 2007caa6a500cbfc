"""Agents: what each event leads to, in whatever order and however often, and scores to be checked."""

from __future__ import annotations

import json
import random
from typing import Any
from unittest.mock import patch

import pytest

from systems.scout import chunks
from systems.scout.enrich import feed
from systems.scout.evaluate import agents, consumers, events, formulas
from systems.scout.part import JUDGING
from systems.scout.tests.conftest import World
from systems.scout.tests.judge.conftest import Market
from systems.scout.tests.test_enrich import plant

SUBSCRIBERS = {
    "scout.competitiveness": "app-enriched",
    "scout.demand": "rankings-updated",
    "scout.fragmentation": "clusters-ready",
    "scout.design": "fragmentation-done",
}


@pytest.mark.rows("001-62", "001-65", "001-10", "001-21", "001-T16")
def test_the_controller_tells_of_what_it_enriched_and_exactly_that_is_scored(world: World) -> None:
    plant(world, 60)
    world.h.advance("3m")
    told = [each.payload["track_ids"] for each in world.app.events.search("app-enriched")]
    known = [row.track_id for row in world.app.read("select track_id from scout_app")]
    assert sorted({id_ for ids in told for id_ in ids}) == sorted(known)
    rows = world.app.read("select competitiveness_score as score, evaluated_at from scout_app")
    assert all(row.score is not None and row.evaluated_at for row in rows)
    assert world.count("scout_ledger", "agent = 'competitiveness'") == 60
    world.app.read("select rating_velocity_7d from scout_app limit 1")


@pytest.mark.rows("001-62", "001-64")
def test_nothing_is_published_where_there_is_nothing_to_tell(world: World) -> None:
    with world.app.transaction() as tx:
        feed.save(tx, [1, 2], {}, world.h.now)
        events.enriched(tx, [])
        events.ranked(tx, [])
        events.ready(tx, [])
        events.fragmented(tx, [])
    world.h.drain()
    assert world.app.events.search() == []


@pytest.mark.rows("001-192")
def test_an_event_has_ids_alone_and_stays_below_ten_kilobytes(world: World) -> None:
    words = [f"keyword number {n:05d} {'x' * 40}" for n in range(500)] + ["y" * 5000]
    with world.app.transaction() as tx:
        events.ranked(tx, words)
        events.enriched(tx, range(10**9, 10**9 + 3000))
        events.ready(tx, [f"{n:012x}" for n in range(200)])
    told = world.app.events.search(limit=100)
    assert max(len(json.dumps(each.payload)) for each in told) < 10_000
    assert sorted(w for each in told for w in each.payload.get("keywords", [])) == sorted(words)
    assert sum(len(each.payload.get("track_ids", [])) for each in told) == 3000


@pytest.mark.rows("001-15", "001-16", "001-71", "001-14")
def test_four_subscribers_take_ten_at_once_or_what_came_within_five_seconds(world: World) -> None:
    world.h.drain()
    found = {each.name: each for each in world.app.events.subscribers()}
    assert {name: found[name].event for name in SUBSCRIBERS} == SUBSCRIBERS
    assert {(found[n].bulk, found[n].within_ms, found[n].queue) for n in SUBSCRIBERS} == {
        (10, 5000, JUDGING)
    }
    crons = {each.key: each.rule for each in world.app.schedules(prefix="scout.")}
    assert (crons["scout.crawl"], crons["scout.cluster"]) == ("*/5 * * * *", "0 */6 * * *")


@pytest.mark.rows("001-T22", "001-10")
def test_an_agent_looks_at_the_ids_of_its_events_alone_and_once_for_a_bulk(market: Market) -> None:
    market.two_niches()
    before = {row.track_id: row.at for row in market.rows("select track_id, at from scout_ledger")}
    seen: list[list[int]] = []
    real = agents.competitiveness

    def noted(tx: Any, ids: Any, now: int) -> int:
        seen.append(sorted(set(ids)))
        return real(tx, ids, now)

    with patch.object(agents, "competitiveness", noted), market.app.transaction() as tx:
        for some in ([1, 2], [2, 3], [3, 1]):
            events.enriched(tx, some)
    with patch.object(agents, "competitiveness", noted):
        market.settle()
    assert seen == [[1, 2, 3]]
    after = {row.track_id: row.at for row in market.rows("select track_id, at from scout_ledger")}
    assert {id_ for id_ in after if after[id_] != before[id_]} == {1, 2, 3}


@pytest.mark.rows("001-69", "001-15", "001-158", "001-T22")
def test_a_bad_event_fails_alone_is_kept_and_can_be_driven_again(market: Market) -> None:
    market.apps([1, 2, 3])
    broken = [True]
    real = agents.competitiveness

    def fragile(tx: Any, ids: Any, now: int) -> int:
        if broken and 2 in ids:
            raise ValueError("the second is not to be scored")
        return real(tx, ids, now)

    with patch.object(agents, "competitiveness", fragile):
        with market.app.transaction() as tx:
            for id_ in (1, 2, 3):
                events.enriched(tx, [id_])
        market.h.advance("10m")
        scored = "select track_id from scout_app where evaluated_at is not null order by track_id"
        assert [row.track_id for row in market.rows(scored)] == [1, 3]
        [failed] = consumers.rate_apps.failed()
        assert (failed.event.payload, failed.failures) == ({"track_ids": [2]}, 4)
        broken.clear()
        assert consumers.rate_apps.redrive() == 1
        market.settle()
    assert [row.track_id for row in market.rows(scored)] == [1, 2, 3]
    assert consumers.rate_apps.failed() == []


@pytest.mark.rows("001-63", "001-66", "001-67", "001-68", "001-70", "001-T25")
def test_an_app_that_has_changed_leads_through_all_four_agents(market: Market) -> None:
    market.two_niches()
    market.group()
    names = ("rankings-updated", "clusters-ready", "fragmentation-done")
    before = {name: len(market.published(name)) for name in names}
    [sleep] = market.rows(
        "select cluster from scout_cluster_app where track_id = 5 order by cluster"
    )
    old = market.rows("select * from scout_cluster where id = :id", id=sleep.cluster)[0]
    with market.app.transaction() as tx:
        tx.write(
            "update scout_app set rating_count = 900000, average_rating = 4.9 where track_id = 5"
        )
    market.tell(enriched=[5])
    new = market.rows("select * from scout_cluster where id = :id", id=sleep.cluster)[0]
    told = {name: market.published(name)[before[name] :] for name in names}
    assert told["rankings-updated"] == [{"keywords": ["rest", "sleep sounds"]}]
    assert told["clusters-ready"] == [{"cluster_ids": [sleep.cluster]}]
    assert told["fragmentation-done"] == [{"cluster_ids": [sleep.cluster]}]
    assert new.demand > old.demand
    assert new.competition < old.competition
    assert new.fragmentation < old.fragmentation
    assert new.design < old.design
    parts = {name: getattr(new, name) for name in formulas.WEIGHTS}
    assert new.score == formulas.total(parts)
    assert market.rows("select 1 as x from scout_concept where cluster = :id", id=sleep.cluster)


@pytest.mark.rows("001-70", "001-69", "001-T25")
def test_each_step_of_the_chain_is_done_once_however_its_worker_dies(market: Market) -> None:
    wanted, ids = market.judged()
    payloads = {
        "app-enriched": {"track_ids": list(range(1, 10))},
        "rankings-updated": {"keywords": ["sleep", "tax"]},
    }
    for name in SUBSCRIBERS.values():
        statement, crashed = 1, True
        while crashed:
            with market.app.transaction() as tx:
                # Ten are a bulk that is due at once.
                for _ in range(10):
                    tx.publish(name, payloads.get(name, {"cluster_ids": ids}))
            crashed = market.h.crash_worker(at=statement)
            market.h.advance("20s")
            assert market.state() == wanted
            statement += 41
        assert statement > 80
    assert all(market.app.events.failed(name) == [] for name in SUBSCRIBERS)


@pytest.mark.rows("001-72", "001-191", "001-71")
def test_any_order_and_any_repetition_of_events_ends_at_the_same_scores(market: Market) -> None:
    wanted, ids = market.judged()
    words = [row.keyword for row in market.rows("select keyword from scout_keyword")]
    told: list[tuple[str, dict[str, Any]]] = [
        *(("app-enriched", {"track_ids": [id_]}) for id_ in range(1, 10)),
        *(("rankings-updated", {"keywords": [word]}) for word in sorted(words)),
        *(("clusters-ready", {"cluster_ids": [id_]}) for id_ in ids),
        *(("fragmentation-done", {"cluster_ids": [id_]}) for id_ in ids),
    ]
    for seed in (1, 2, 3):
        market.forget()
        given = told * 2
        random.Random(seed).shuffle(given)  # noqa: S311 - repeatable
        # In two halves, so that the second finds what the first has done.
        for half in (given[: len(told)], given[len(told) :]):
            for name, payload in half:
                market.app.publish(name, payload)
            market.settle()
        assert market.state() == wanted
    assert all(wanted.values())


@pytest.mark.rows("001-T23")
def test_scores_can_be_computed_again_from_the_inputs_that_the_ledger_lists(market: Market) -> None:
    market.two_niches()
    market.group()
    market.tell(ranked=["sleep", "rest", "sleep sounds", "tax", "bills", "tax return"])
    rows = [
        ("app", row)
        for row in market.rows("select *, 'app' as kind from scout_ledger order by track_id")
    ]
    rows += [
        (row.kind, row) for row in market.rows("select * from scout_agent_ledger order by subject")
    ]
    checked: dict[tuple[str, str], int] = {}
    for kind, row in rows:
        assert formulas.recompute(kind, row.agent, json.loads(row.inputs)) == row.score
        checked[kind, row.agent] = checked.get((kind, row.agent), 0) + 1
    assert set(checked) == set(formulas.FORMULAS)
    assert sum(checked.values()) >= 10
    for row in market.rows("select * from scout_cluster"):
        said = market.rows("select * from scout_agent_ledger where subject = :id", id=row.id)
        by_agent = {each.agent: each.score for each in said}
        parts = {name: by_agent[agent] for name, agent in formulas.AGENTS.items()}
        assert {name: getattr(row, name) for name in parts} == parts
        assert row.score == formulas.total(parts)
        assert row.score == formulas.half_up(
            0.35 * row.demand + 0.25 * row.competition + 0.2 * row.fragmentation + 0.2 * row.design
        )


@pytest.mark.rows("001-T23")
def test_what_nobody_searches_for_any_more_is_worth_less_from_month_to_month() -> None:
    assert [formulas.decay(days) for days in (0, 14, 74, 134)] == [1.0, 1.0, 0.5, 0.25]
    assert formulas.decay(None) == 0.0
    given = {"ratings": 10**7, "searched_days": 74}
    assert formulas.demand(given) == 50.0
    assert formulas.demand(given | {"searched_days": 3}) == 100.0
    assert formulas.demand(given | {"ratings": 0, "searched_days": 3}) == 0.0
    assert (
        formulas.competition({"strengths": []}) == formulas.design({"stars": [], "days": []}) == 100
    )


@pytest.mark.rows("001-10")
def test_apps_of_an_older_version_that_no_event_tells_of_are_found(market: Market) -> None:
    market.apps(range(1, 6))
    market.apps([6], enriched=None)
    consumers.evaluate.enqueue()
    market.settle()
    assert len(market.rows("select 1 as x from scout_app where evaluated_at is not null")) == 5
    assert market.published("app-enriched") == [{"track_ids": [1, 2, 3, 4, 5]}]


@pytest.mark.rows("001-82")
def test_two_hundred_rows_are_two_writes() -> None:
    class Counted:
        sizes: list[int]

        def write(self, sql: str, rows: list[dict[str, Any]]) -> None:
            self.sizes.append(len(rows))

    to = Counted()
    to.sizes = []
    assert chunks.write(to, "insert", [{"n": n} for n in range(200)]) == 2
    assert chunks.write(to, "insert", [{"n": n} for n in range(201)]) == 3
    assert chunks.write(to, "insert", []) == 0
    assert to.sizes == [100, 100, 100, 100, 1]
    asked: list[int] = []

    def reader(sql: str, **values: Any) -> list[Any]:
        asked.append(len(values))
        return list(values.values())

    assert chunks.read(reader, "in ({these})", list(range(250))) == list(range(250))
    assert asked == [100, 100, 50]
