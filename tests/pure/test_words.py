"""Times and counts in sentences, by a table."""

from __future__ import annotations

import pytest

from duework.clock import FOREVER
from duework.health.words import count, first_line, length, moment, on_the_clock

NOW = 1_793_973_600_000  # 2026-11-06 14:00 UTC


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (-5, "0 ms"),
        (3, "3 ms"),
        (999, "999 ms"),
        (1000, "1 s"),
        (1449, "1.4 s"),
        (9999, "9.9 s"),
        (12_400, "12 s"),
        (59_999, "59 s"),
        (60_000, "1 min"),
        (68_000, "1 min 8 s"),
        (252_000, "4 min 12 s"),
        (619_000, "10 min"),
        (7_260_000, "2 h 1 min"),
        (7_200_000, "2 h"),
        (86_400_000, "1 d"),
        (532_800_000, "6 d 4 h"),
    ],
)
def test_a_length_has_at_most_two_units(ms: int, text: str) -> None:
    assert length(ms) == text


@pytest.mark.parametrize(
    ("away", "text"),
    [(0, "now"), (-999, "now"), (-8000, "8 s ago"), (252_000, "in 4 min 12 s")],
)
def test_a_moment_is_told_by_its_distance(away: int, text: str) -> None:
    assert moment(NOW + away, NOW) == text


@pytest.mark.parametrize(
    ("time", "text"),
    [
        (NOW, "14:00:00 UTC"),
        (NOW + 62_000, "14:01:02 UTC"),
        (NOW + 86_400_000, "7 Nov 14:00:00 UTC"),
        (NOW + 90 * 86_400_000, "4 Feb 2027 14:00:00 UTC"),
        (FOREVER, "somebody says so"),
        (FOREVER - 1, "somebody says so"),
    ],
)
def test_a_time_on_the_clock_names_another_day(time: int, text: str) -> None:
    assert on_the_clock(time, NOW) == text


def test_a_count_at_its_bound_is_at_least_that() -> None:
    assert [count(each, 1000) for each in (0, 999, 1000)] == ["0", "999", "1,000+"]
    assert count(1204, 100_000) == "1,204"


def test_an_error_is_its_first_line_and_no_longer_than_a_sentence() -> None:
    assert first_line(None) == ""
    assert first_line("one\ntwo") == "one"
    assert first_line("x" * 201) == "x" * 199 + "…"
