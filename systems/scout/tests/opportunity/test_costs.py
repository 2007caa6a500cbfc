"""What a debate costs: the ledger equals the provider's own books, and a budget parks what is above it."""

from __future__ import annotations

import pytest

from systems.scout import reading
from systems.scout.economy import ledger
from systems.scout.economy.tokens import Answer, most, price
from systems.scout.settings import Settings
from systems.scout.tests.opportunity.conftest import Debating, change

CENT = 10_000


@pytest.mark.rows("001-X4", "001-12")
def test_a_ceiling_of_ten_cents_parks_a_debate_in_mid_turn_and_it_goes_on_the_next_day(
    world: Debating,
) -> None:
    ledger.LLM.raise_to("0.10")
    world.cluster("sleep")
    # So dear that one question fits into a day; the first answer has to be put right.
    with change(llm_price_in=37.0, llm_price_out=100.0, llm_tokens=300):
        world.chat.behave("invent", 1)
        world.debate("sleep")
        world.h.drain()
        [job] = world.app.jobs(task="scout.opportunity")
        assert job.phase == "waiting"
        steps = [step.name for step in world.app.get_workflow(job.id).steps()]
        assert steps == ["facts", "bull"], "the answer that was paid for is kept"
        assert world.messages() == []
        asked = len(world.costs())
        assert asked == 1
        assert 0 < world.budget() <= 10 * CENT
        # Noon to midnight: nothing is asked meanwhile, and no failure is counted.
        world.h.advance("11h")
        assert len(world.costs()) == asked
        days = 0
        while world.app.job(job.id).state != "done":
            days += 1
            assert days < 9
            world.h.advance("1d")
            assert world.budget() <= 10 * CENT
        assert days > 1
        assert world.spent() == world.billed() == world.day_sums()
    assert world.app.job(job.id).failures == 0
    assert [row.who for row in world.messages()] == ["bull", "bear", "judge"]
    assert [row.analyst for row in world.messages()] == ["demo-mini"] * 3
    assert len(world.chat.ledger.of("completion")) == 4
    per_day = world.app.read("select day, cost from scout_cost_day where service = 'llm'")
    assert all(row.cost <= 10 * CENT for row in per_day)


def test_a_question_that_is_dearer_than_a_day_is_not_waited_for(world: Debating) -> None:
    ledger.LLM.raise_to("0.10")
    world.cluster("sleep")
    with change(llm_price_out=1000.0):
        world.debate("sleep")
        world.h.drain()
    assert [row.analyst for row in world.messages()] == ["rules"] * 3
    assert "more than the budget of a day" in world.messages()[0].why
    assert world.costs() == []
    assert world.budget() == 0


def test_the_transcript_grows_turn_by_turn_while_the_debate_waits(world: Debating) -> None:
    world.cluster("sleep")
    world.chat.faults.set([{"route": "completions", "calls": "2..", "do": "status", "status": 429}])
    world.debate("sleep")
    world.h.drain()
    assert [row.who for row in world.messages()] == ["bull"]
    [report] = world.rows("scout_debate_report", "id")
    assert (report.state, report.verdict) == ("open", None)
    world.chat.faults.set([])
    world.h.advance("2m")
    assert [row.who for row in world.messages()] == ["bull", "bear", "judge"]


FAULTS: list[tuple[str, dict[str, object], int, str]] = [
    # What goes wrong, how often it is asked in all, and what is known of the costs.
    ("status 429", {"do": "status", "status": 429, "headers": {"retry-after": "30"}}, 3, "refused"),
    ("status 500", {"do": "status", "status": 500}, 3, "refused"),
    ("status 503", {"do": "status", "status": 503}, 3, "refused"),
    ("drop_before", {"do": "drop_before"}, 3, "unsure"),
    ("drop_after", {"do": "drop_after"}, 4, "unsure"),
    ("malformed", {"do": "malformed"}, 4, "unsure"),
    ("cut", {"do": "cut"}, 4, "unsure"),
]


def test_a_fault_costs_what_the_provider_says_or_at_most_what_was_reserved(
    world: Debating,
) -> None:
    for name, fault, completions, state in FAULTS:
        books = len(world.chat.ledger.of("completion"))
        world.cluster(name)
        world.chat.faults.set([{"route": "completions", "calls": "2", **fault}])
        world.debate(name)
        world.h.advance("10m")
        assert reading.opportunity(name)["analyst"] == "demo-mini"
        assert len(world.chat.ledger.of("completion")) - books == completions, name
        rows = world.costs()[-4:]
        assert [row.state for row in rows] == ["settled", state, "settled", "settled"], name
        assert rows[1].cost == (rows[1].reserved if state == "unsure" else 0)
    assert {row.analyst for row in world.messages()} == {"demo-mini"}
    known = sum(row.cost for row in world.costs() if row.state == "settled")
    # A call whose reply is lost counts at what was reserved, which is more than it can have cost.
    assert known < world.billed() < world.spent()
    assert world.spent() == world.day_sums() == world.budget()


def test_what_would_be_refused_again_is_not_asked_again(world: Debating) -> None:
    keys, models = world.chat.keys, world.chat.models
    expected = {"quota": "quota is spent", "key": "invalid_api_key", "model": "model_not_found"}
    for number, (name, why) in enumerate(expected.items(), start=1):
        world.cluster(name)
        world.chat.set_quota(spent=name == "quota")
        world.chat.keys = {"another"} if name == "key" else keys
        world.chat.models = {"another"} if name == "model" else models
        world.debate(name)
        world.h.drain()
        said = world.messages()[-3:]
        assert [row.analyst for row in said] == ["rules"] * 3
        assert all(why in (row.why or "") for row in said)
        # Once for each turn, and nothing was spent.
        assert world.chat.log.calls == 3 * number
        assert reading.opportunity(name)["analyst"] == "rules"
    assert world.spent() == world.billed() == world.budget() == 0


@pytest.mark.rows("001-X4", "001-193")
def test_under_faults_and_kills_the_ledger_equals_the_books_of_the_provider(
    world: Debating,
) -> None:
    names = [f"c{number}" for number in range(12)]
    for name in names:
        world.cluster(name)
    rules = [
        {"route": "completions", "calls": "12%", "do": "drop_after"},
        {"route": "completions", "calls": "12%", "do": "status", "status": 429},
        {"route": "completions", "calls": "12%", "do": "malformed"},
        {"route": "completions", "calls": "8%", "do": "status", "status": 500},
        {"route": "completions", "calls": "8%", "do": "cut"},
    ]
    world.chat.faults.set(rules, seed=7)
    world.debate(*names)
    for at in (20, 35, 50, 65):
        world.h.crash_worker(at=at)
        world.h.advance("1m")
    world.chat.faults.set([])
    world.h.advance("30m")
    assert sorted(each["cluster"] for each in reading.opportunities(50)) == sorted(names)
    rows = world.costs()
    settled = [row for row in rows if row.state == "settled"]
    unsure = [row for row in rows if row.state == "unsure"]
    books = world.chat.ledger.of("completion")
    assert unsure
    assert len(settled) <= len(books) <= len(settled) + len(unsure)
    # Every row with a known cost is in the books with the same tokens; the others are at most the unsure.
    told = [(each["prompt_tokens"], each["completion_tokens"]) for each in books]
    for row in settled:
        told.remove((row.tokens_in, row.tokens_out))
    assert len(told) <= len(unsure)
    assert sum(row.cost for row in settled) <= world.billed() <= world.spent()
    assert world.spent() == world.day_sums()
    assert world.spent() <= world.budget()
    calls = world.app.read("select calls from scout_cost_day where service = 'http'")
    assert calls[0].calls >= world.chat.log.calls


def test_prices_are_exact_and_a_reservation_is_the_most_that_an_answer_can_cost() -> None:
    prices = Settings(llm_price_in=0.15, llm_price_cached=0.075, llm_price_out=0.6, llm_tokens=100)
    assert price(Answer(prompt=1_000_000), prices) == 150_000
    assert price(Answer(prompt=1_000_000, cached=1_000_000), prices) == 75_000
    assert price(Answer(prompt=100, cached=40, completion=10), prices) == 18
    assert price(Answer(prompt=1), prices) == 1
    assert price(Answer(), prices) == 0
    messages = [{"role": "user", "content": "é" * 50}]
    assert most(messages, prices) >= price(Answer(prompt=100, completion=100), prices)
