"""The debate: words of a model if they are accepted, those of the rules if not, each turn at once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from systems.scout import reading
from systems.scout.opportunity import WEIGHTS, analyst
from systems.scout.tests.opportunity.conftest import PARTS, Debating, change


def test_speakers_only_choose_among_facts_and_the_judge_repeats_the_sum() -> None:
    parts = {**PARTS, "fragmentation": 50.0, "design": 49.9, "score": 53.0}
    known = [analyst.fact("demand", "many", [1]), analyst.fact("design", "poor", [2])]
    pro, contra = analyst.bull(parts, known), analyst.bear(parts, known)
    assert [(each["part"], each["facts"]) for each in pro] == [
        ("demand", [0]),
        ("fragmentation", []),
    ]
    assert [each["part"] for each in contra] == ["competition", "design"]
    ruling = analyst.ruling(parts, pro, contra)
    assert ruling["verdict"] == "watch"
    assert "35% of demand 80" in ruling["claims"][0]["text"]
    assert [analyst.verdict(score) for score in (60.0, 59.9, 45.0, 44.9)] == [
        "build",
        "watch",
        "watch",
        "leave",
    ]


@pytest.mark.rows("001-12", "001-137")
def test_a_cluster_is_debated_by_a_model_and_everything_that_follows_has_its_rows(
    world: Debating,
) -> None:
    world.cluster("sleep")
    world.debate("sleep")
    world.h.drain()

    found = reading.opportunity("sleep")
    assert (found["verdict"], found["score"]) == ("watch", 62.0)
    assert [voice["who"] for voice in found["debate"]] == ["bull", "bear", "judge"]
    said = world.messages()
    assert [(row.who, row.analyst, row.why) for row in said] == [
        (who, "demo-mini", None) for who in ("bull", "bear", "judge")
    ]
    texts = {fact["text"].replace("“", "").replace("”", "") for fact in found["facts"]}
    for row in said:
        for claim in json.loads(row.claims):
            assert claim["text"] in texts, "the twin repeats facts"
            assert claim["facts"]
            for number in claim["facts"]:
                fact = found["facts"][number]
                assert fact["apps"] or fact["keywords"], "a claim that links to no row"
    # The model was given the facts, and what was really said: the bear answers the bull's claims.
    assert json.loads(said[0].claims)[0]["answers"] == []
    assert json.loads(said[1].claims)[0]["answers"][0] < len(json.loads(said[0].claims))
    _check_what_follows(world)
    [report] = world.rows("scout_debate_report", "id")
    assert (report.state, report.verdict, report.analyst) == ("done", "watch", "demo-mini")


def _check_what_follows(world: Debating) -> None:
    voices = {
        row.agent: (row.score, row.verdict)
        for row in world.rows("scout_opportunity_evaluation", "agent")
    }
    assert set(voices) == {"rules", "bull", "bear", "judge"}
    assert voices["rules"] == (62.0, "build")
    assert voices["judge"] == (62.0, "watch")
    assert voices["bull"][0] >= 50 > voices["bear"][0]
    apps = world.rows("scout_opportunity_reference_app", "place")
    assert [(row.track_id, row.why) for row in apps][:1] == [(3, "chosen most: 300 ratings")]
    methods = {
        row.method: row.score for row in world.rows("scout_opportunity_method_score", "method")
    }
    assert methods == {
        "charts": 100.0,
        "niche": 55.5,
        "price": 33.3,
        "product": 40.0,
        "search": 100.0,
    }
    tips = world.rows("scout_market_tip", "place")
    assert tips
    assert all(json.loads(row.facts) for row in tips)


@pytest.mark.rows("001-X4")
def test_without_a_key_the_rules_debate_and_nothing_is_asked_or_spent(world: Debating) -> None:
    world.cluster("sleep")
    with change(llm_key=None):
        world.debate("sleep")
        world.h.drain()
    assert [row.analyst for row in world.messages()] == ["rules"] * 3
    assert reading.opportunity("sleep")["verdict"] == "build"
    assert world.chat.log.calls == 0
    assert world.costs() == []
    total = sum(WEIGHTS[name] * PARTS[name] for name in WEIGHTS)
    assert f"= {PARTS['score']:g}" in json.loads(world.messages()[2].claims)[0]["text"]
    assert total > 0


def test_an_answer_that_is_not_accepted_is_asked_for_once_more(world: Debating) -> None:
    for manner in ("invent", "prose", "length", "refusal", "empty", "filter"):
        before = len(world.costs())
        world.cluster(manner)
        world.chat.behave(manner, 1)
        world.debate(manner)
        world.h.drain()
        assert reading.opportunity(manner)["analyst"] == "demo-mini"
        # Words around JSON are left away, which needs no second question.
        assert len(world.costs()) - before == (3 if manner == "prose" else 4), manner
    assert {row.analyst for row in world.messages()} == {"demo-mini"}
    assert world.spent() == world.billed()


def test_after_the_second_answer_the_rules_speak_and_the_transcript_says_why(
    world: Debating,
) -> None:
    for manner in ("invent", "refusal"):
        world.cluster(manner)
        world.chat.behave(manner, 2)
        world.debate(manner)
        world.h.drain()
    said = world.messages()
    assert [row.analyst for row in said] == ["rules", "demo-mini", "demo-mini"] * 2
    assert "fact 999" in said[0].why
    assert "refused" in said[3].why
    assert len(world.costs()) == 8
    assert world.spent() == world.billed()


def known() -> dict[str, Any]:
    facts = [
        analyst.fact("demand", "1,200 ratings over 9 apps", [1]),
        analyst.fact("design", "2 of 9", [2]),
    ]
    return {"name": "sleep", "parts": PARTS, "facts": facts}


@pytest.mark.parametrize(
    ("text", "facts", "answers", "problem"),
    [
        ("people rate: 1200", [1], [], None),
        ("demand is 80 of 100", [1], [], None),
        ("people rate: 1,200 of 9", [1], [1, 2], None),
        ("there are 1300 ratings", [1], [], "1300 is in none"),
        ("1,200 ratings", [2], [], "1200 is in none"),
        ("many", [], [], "form"),
        ("many", [3], [], "no fact 3"),
        ("many", [0], [], "no fact 0"),
        ("many", [1], [3], "claim 3 was never made"),
        ("the bear says it is hopeless", [1], [], "speaks for another"),
        ("they said “it is hopeless”", [1], [], "speaks for another"),
        ("x" * 500, [1], [], "form"),
    ],
)
def test_nobody_invents_a_number_a_fact_or_anothers_words(
    text: str, facts: list[int], answers: list[int], problem: str | None
) -> None:
    from systems.scout.opportunity.voices import Unfit, accepted

    said = json.dumps({"claims": [{"text": text, "facts": facts, "answers": answers}]})
    if problem is None:
        assert accepted("bear", said, known(), 2)["claims"][0]["facts"] == [n - 1 for n in facts]
    else:
        with pytest.raises(Unfit, match=problem):
            accepted("bear", said, known(), 2)


def test_who_speaks_first_cannot_answer_anybody() -> None:
    from systems.scout.opportunity.voices import Unfit, accepted, question

    said = json.dumps({"claims": [{"text": "not so", "facts": [1], "answers": [1]}]})
    with pytest.raises(Unfit, match="claim 1 was never made; 0 were"):
        accepted("bull", said, known(), 0)
    given = json.loads(question("bull", known(), [])[1]["content"])
    assert given["said"] == []


def test_endpoints_without_schemas_and_with_streams_are_understood(world: Debating) -> None:
    for number, (schemas, stream) in enumerate([(True, True), (False, False), (False, True)], 1):
        world.cluster(f"c{number}")
        world.chat.set_schemas(known=schemas)
        with change(llm_stream=stream):
            world.debate(f"c{number}")
            world.h.drain()
        assert [row.analyst for row in world.messages()] == ["demo-mini"] * 3 * number
    assert world.spent() == world.billed()


@pytest.mark.rows("001-03", "001-69")
def test_a_debate_that_is_killed_at_any_statement_goes_on_and_pays_for_nothing_twice(
    world: Debating,
) -> None:
    statement, crashed, number = 1, True, 0
    while crashed:
        number += 1
        name = f"c{number}"
        world.cluster(name)
        world.debate(name)
        crashed = world.h.crash_worker(at=statement)
        world.h.advance("5m")
        assert reading.opportunity(name)["verdict"] == "watch"
        mine = world.rows("scout_debate_report", "started_at, id")[-1]
        assert mine.state == "done"
        assert world.app.job(mine.id).state == "done"
        statement += 4
    assert number > 10
    assert len(world.messages()) == 3 * number
    assert len({row.debate for row in world.messages()}) == number
    # Never more than one question was lost by a kill, and none that was answered is asked again.
    asked = len(world.chat.ledger.of("completion"))
    unsure = [row for row in world.costs() if row.state == "unsure"]
    assert 3 * number <= asked <= 3 * number + len(unsure)
    assert world.spent() >= world.billed()
    assert world.spent() == world.day_sums()
    assert not [row for row in world.costs() if row.state == "reserved"]


def test_a_cluster_that_is_gone_is_not_debated(world: Debating) -> None:
    world.debate("nobody")
    world.h.drain()
    assert world.messages() == []
    assert [job.state for job in world.app.jobs(task="scout.opportunity")] == ["cancelled"]
