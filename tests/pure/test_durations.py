"""Lengths of time and times as people write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duework import UsageError
from duework.clock import FOREVER
from duework.durations import human, milliseconds, moment, planned


@pytest.mark.parametrize(
    ("written", "ms"),
    [
        ("500ms", 500),
        ("10s", 10_000),
        ("5m", 300_000),
        ("1h 30m", 5_400_000),
        ("1h30m", 5_400_000),
        (" 2 d ", 172_800_000),
        ("1.5h", 5_400_000),
        ("1w", 604_800_000),
        (2.5, 2500),
        (7, 7000),
        (0, 0),
        (timedelta(minutes=1, milliseconds=5), 60_005),
    ],
)
def test_durations_are_read(written: Any, ms: int) -> None:
    assert milliseconds(written) == ms


@pytest.mark.parametrize(
    "written",
    [
        *("", "soon", "10", "-1s", "1y", "1s!", "s", "1,5h", "٣s x"),
        *(-1, -0.5, float("nan"), float("inf"), True, None, b"1s", [], 10**20),
        *(timedelta(seconds=-1), timedelta.max, "9" * 400 + "d"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_what_is_no_duration_is_refused(written: Any) -> None:
    with pytest.raises(UsageError):
        milliseconds(written)


@given(st.integers(0, 10**7), st.sampled_from(["ms", "s", "m", "h"]))
def test_every_written_duration_means_the_same_as_its_timedelta(number: int, unit: str) -> None:
    names = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours"}

    assert milliseconds(f"{number}{unit}") == milliseconds(timedelta(**{names[unit]: number}))


@given(st.text(max_size=20) | st.floats() | st.integers() | st.timedeltas())
def test_whatever_is_written_is_read_or_refused(written: Any) -> None:
    try:
        found = milliseconds(written)
    except UsageError:
        return
    assert isinstance(found, int)
    assert found >= 0


@given(
    st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(9000, 1, 1)),  # noqa: DTZ001
    st.integers(-12, 14),
)
def test_times_are_exact_in_every_zone(when: datetime, hours: int) -> None:
    aware = when.replace(tzinfo=timezone(timedelta(hours=hours)))

    expected = (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    assert moment(aware) == moment(aware.isoformat()) == expected


@pytest.mark.parametrize(
    "written",
    [
        *("", "tomorrow", "2026-01-01", "2026-01-01T00:00:00", 1.5, True, None, 10**30, b"x"),
        *("9999-06-01T00:00:00+00:00", datetime(9999, 6, 1, tzinfo=UTC)),
    ],
)
def test_what_is_no_time_is_refused(written: Any) -> None:
    with pytest.raises(UsageError):
        moment(written)


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0ms"),
        (250, "250ms"),
        (12_000, "12s"),
        (3_900_000, "1h 5m"),
        (90_061_000, "1d 1h"),
        (3_605_000, "1h 5s"),
    ],
)
def test_durations_are_told_in_two_units(ms: int, text: str) -> None:
    assert human(ms) == text


def test_absurd_values_are_refused_in_few_words() -> None:
    absurd: list[Any] = [10**5000, -(10**5000), "9" * 10**6, "1s" * 10**6, 1e300, [10**5000]]
    for read in (milliseconds, moment):
        for written in absurd:
            with pytest.raises(UsageError) as caught:
                read(written)
            assert len(str(caught.value)) < 300


def test_a_delay_beyond_the_end_of_time_is_refused() -> None:
    with pytest.raises(UsageError):
        planned(1_800_000_000_000, "2920000d", None)

    assert planned(1_800_000_000_000, "2900000d", None) < FOREVER


@given(st.integers(0, 10**13))
def test_what_is_told_is_at_most_what_it_was(ms: int) -> None:
    assert milliseconds(human(ms)) <= ms
