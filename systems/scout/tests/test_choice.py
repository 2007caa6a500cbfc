"""What is pure: which tier comes first, and which search terms a name suggests."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from systems.scout.crawl import keywords, tiers
from systems.scout.crawl.categories import COLLECTIONS, TIERS


@pytest.mark.rows("001-25", "001-90")
@pytest.mark.parametrize(
    ("draw", "first"),
    [
        (0.0, "high"),
        (0.8999, "high"),
        (0.90, "medium"),
        (0.9699, "medium"),
        (0.97, "low"),
        (0.9999, "low"),
    ],
)
def test_a_draw_of_a_hundred_says_which_tier_is_asked_first(draw: float, first: str) -> None:
    assert tiers.first_tier(draw) == first
    order = tiers.order(draw)
    assert order[0][0] == first
    assert sorted(tier for group in order for tier in group) == ["active", "high", "low", "medium"]
    assert ("high", "active") in order


@pytest.mark.rows("001-36")
def test_over_many_draws_every_tier_gets_its_share_and_none_starves() -> None:
    draw = random.Random(7)  # noqa: S311 - a fair die, not a secret
    rounds = 20_000
    counts = Counter(tiers.first_tier(draw.random()) for _ in range(rounds))
    for tier, weight in tiers.WEIGHTS.items():
        wanted = rounds * weight / 100
        # Five standard deviations: once in a million seeds.
        slack = 5 * (wanted * (1 - weight / 100)) ** 0.5
        assert abs(counts[tier] - wanted) < slack


@pytest.mark.rows("001-28")
@pytest.mark.parametrize(
    ("tier", "days"), [("high", 7), ("active", 7), ("medium", 14), ("low", 30)]
)
def test_a_tier_is_stale_after_its_days(tier: str, days: int) -> None:
    assert tiers.stale_before(tier, 100 * tiers.DAY) == (100 - days) * tiers.DAY


@pytest.mark.rows("001-100")
def test_there_are_31_categories_in_three_collections_and_money_is_in_the_high_tier() -> None:
    ids = [id_ for found in TIERS.values() for id_ in found]
    assert len(ids) == len(set(ids)) == 31
    assert len(COLLECTIONS) == 3
    assert {"Health & Fitness", "Finance"} <= set(TIERS["high"].values())


@pytest.mark.rows("001-102", "001-103", "001-T11", "001-T29")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Sleep Timer", ["sleep", "timer"]),
        ("The Best FREE app for your iPhone!", []),
        ("To-Do: a list, 24/7", ["list"]),
        ("  Calm --- Breathing  ", ["calm", "breathing"]),
        ("Café Müller", ["cafe", "muller"]),
        ("Погода сегодня", ["погода", "сегодня"]),
        ("天気 予報", ["天気", "予報"]),
        # A sign above a letter is an accent in Latin alone.
        ("Йога ガム 날씨", ["йога", "ガム", "날씨"]),
        ("", []),
        ("123 !!", []),
    ],
)
def test_words_are_cleaned_and_no_script_vanishes(text: str, words: list[str]) -> None:
    assert keywords.words(text) == words


RAIN = ("rain calm", "rain night", "noise calm", "noise night")


@pytest.mark.rows("001-104", "001-105", "001-106", "001-107", "001-111")
@pytest.mark.parametrize(
    ("title", "subtitle", "found"),
    [
        ("Dozy", "", ["dozy"]),
        ("Sleep Timer", "", ["sleep timer", "sleep", "timer"]),
        (
            "Rain Noise",
            "Calm Night",
            ["rain noise", "calm night", *RAIN, "noise", "night"],
        ),
        ("Noise", "Noise", ["noise"]),
        ("", "", []),
    ],
)
def test_one_app_suggests_names_pairs_crossings_and_long_words(
    title: str, subtitle: str, found: list[str]
) -> None:
    assert keywords.of_app(title, subtitle) == found


@pytest.mark.rows("001-104", "001-106")
def test_long_names_are_no_search_terms_and_only_three_words_cross() -> None:
    six = "alpha bravo charlie delta echos foxtrot"
    found = keywords.of_app(six, "golfs hotel india juliett kilos limas")
    assert six not in found
    assert "charlie india" in found
    assert "delta india" not in found
    assert "alpha juliett" not in found


@pytest.mark.rows("001-108")
def test_a_chart_suggests_long_words_pairs_and_names_of_two_to_four_words() -> None:
    found = keywords.of_titles(["Rain Noise", "Rain", "one two three four five words"])
    assert found[:2] == ["noise", "rain noise"]
    assert "rain" not in found
    assert "one two three four five words" not in found
    assert "two three" in found
