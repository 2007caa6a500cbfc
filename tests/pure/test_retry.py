"""Delays before a retry: lists, one delay, and exponential growth with a cap and jitter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duework import Exponential, UsageError
from duework.durations import milliseconds
from duework.kernel.failures.retry import delays

seconds = st.integers(0, 100_000)
chances = st.floats(0, 1, exclude_max=True)


@given(st.lists(seconds, min_size=1, max_size=10), st.integers(1, 50), chances)
def test_a_list_gives_its_delays_in_order_and_then_its_last(
    given_: list[int], retry: int, chance: float
) -> None:
    expected = given_[min(retry, len(given_)) - 1] * 1000

    assert delays(given_)(retry, chance) == expected
    assert delays(tuple(given_))(retry, chance) == expected


@given(
    st.integers(0, 10_000),
    st.floats(1, 100),
    st.integers(0, 1_000_000),
    st.floats(0, 1),
    st.integers(1, 10**9),
    chances,
)
def test_exponential_delays_stay_between_nothing_and_the_cap(
    first: int, factor: float, cap: int, jitter: float, retry: int, chance: float
) -> None:
    delay = delays(Exponential(first, factor, cap, jitter))(retry, chance)

    assert 0 <= delay <= milliseconds(cap)


@given(st.integers(1, 10_000), st.floats(1, 4), st.integers(1, 30), chances)
def test_jitter_moves_a_delay_by_its_share_at_most(
    first: int, factor: float, retry: int, chance: float
) -> None:
    cap = "1000w"
    plain = delays(Exponential(first, factor, cap, 0))(retry, 0.5)
    moved = delays(Exponential(first, factor, cap, 0.2))(retry, chance)

    assert abs(moved - plain) <= 0.2 * plain + 1


@given(st.integers(1, 10_000), st.floats(1, 4), st.integers(1, 100))
def test_without_jitter_delays_never_shrink(first: int, factor: float, retry: int) -> None:
    delay = delays(Exponential(first, factor, "1d", 0))

    assert delay(retry, 0) <= delay(retry + 1, 0)


def test_jitter_spreads_delays() -> None:
    delay = delays(Exponential("10s", jitter=0.5))

    assert (delay(1, 0.0), delay(1, 0.5)) == (5000, 10_000)
    assert delay(1, 0.999) == pytest.approx(15_000, abs=20)


@pytest.mark.parametrize(
    "make",
    [
        lambda: delays([]),
        lambda: delays(["soon"]),
        lambda: Exponential(factor=0.5),
        lambda: Exponential(jitter=2),
        lambda: Exponential(first="x"),
        lambda: Exponential(cap=-1),
    ],
)
def test_nonsense_is_refused_when_it_is_written(make: object) -> None:
    with pytest.raises(UsageError):
        make()  # type: ignore[operator]
