"""The arithmetic of paces, on integers alone: what they promise, whatever the times of the claims."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duework import Adaptive, Quota, Rate, Tick, UsageError
from duework.kernel.paces.pace import UNTIL_ASKED, Pace, State

START = 1_800_000_000_000
rates = st.builds(
    lambda count, period, burst: Rate(f"{count}/{period}ms", burst=burst),
    st.integers(1, 3000),
    st.sampled_from([100, 250, 1000, 2000, 60_000]),
    st.none() | st.integers(1, 3000),
)
# How long after the time at which it was to ask again a claim asks, and how many it can take.
claims = st.lists(
    st.tuples(st.integers(0, 120) | st.integers(0, 5000), st.integers(1, 200) | st.just(3000)),
    min_size=10,
    max_size=60,
)


def taken(pace: Pace, asked: list[tuple[int, int]]) -> list[int]:
    """The times at which something was taken, by somebody who asks when told to, more or less late."""
    state, now, times = pace.load({}), START, []
    for late, wanted in asked:
        now += late
        pace.bring_up(state, now)
        count = min(wanted, pace.left(state, now) // pace.units)
        assert count >= 0
        pace.take(state, now, count * pace.units)
        times += [now] * count
        if pace.left(state, now) < pace.units:
            again = pace.again(state, now)
            assert again > now
            now = again
    return times


def most_in(times: list[int], length: int) -> int:
    """The most in any stretch of that length."""
    return max((bisect_left(times, each + length) - i for i, each in enumerate(times)), default=0)


@given(rates, claims)
@settings(max_examples=150, deadline=None)
def test_a_rate_is_never_above_itself_in_a_period_and_by_no_more_than_its_burst_in_any_stretch(
    rate: Rate, asked: list[tuple[int, int]]
) -> None:
    times = taken(rate, asked)

    assert max(Counter(each // rate.period for each in times).values()) <= rate.count
    assert most_in(times, rate.period) <= rate.count + rate.burst


@given(rates.filter(lambda rate: rate.burst >= rate.count * 200 // rate.period))
@settings(max_examples=100, deadline=None)
def test_whoever_asks_when_told_to_loses_nothing_of_a_rate(rate: Rate) -> None:
    periods = 20
    state, now, count = rate.load({}), START, 0
    while now < START + periods * rate.period:
        rate.bring_up(state, now)
        left = rate.left(state, now)
        rate.take(state, now, left)
        count += left
        now = rate.again(state, now)

    assert count >= 0.97 * rate.count * periods


@given(rates, st.integers(2, 60))
def test_times_that_are_promised_to_the_jobs_of_a_value_keep_its_rate(
    rate: Rate, count: int
) -> None:
    state: State = rate.fresh_value()

    slots = [rate.promise(state, START) for _ in range(count)]

    assert slots == sorted(slots)
    assert slots[0] == START
    assert most_in(slots, rate.period) <= rate.count + rate.burst
    assert rate.idle_at(state) >= slots[-1]


def test_a_promise_that_was_missed_or_came_before_a_block_holds_no_longer() -> None:
    rate = Rate("5/2s")
    state = rate.fresh_value()
    rate.promise(state, START)
    slot = rate.promise(state, START)

    assert slot == START + 400
    assert not rate.keeps(state, slot - 1, slot)
    assert rate.keeps(state, slot, slot)
    assert rate.keeps(state, slot + 400, slot)
    assert not rate.keeps(state, slot + 401, slot)
    rate.apply(state, START, "throttled", 10_000)
    assert not rate.keeps(state, slot, slot)
    assert rate.promise(state, slot) == START + 10_000


@given(claims, st.integers(1, 40), st.sampled_from([1000, 10_000]))
@settings(deadline=None)
def test_no_window_that_starts_at_a_tick_has_more_than_it_may(
    asked: list[tuple[int, int]], count: int, period: int
) -> None:
    times = taken(Tick(count, period / 1000), asked)

    ticks = []
    for each in times:
        if not ticks or each >= ticks[-1] + period:
            ticks.append(each)
    for tick in ticks:
        assert sum(tick <= each < tick + period for each in times) <= count


def test_a_clock_that_was_set_back_stops_no_pace() -> None:
    for pace in (Rate("5/1s"), Tick(5, "10s"), Quota("q", windows={"15m": 5})):
        state = pace.load({})
        pace.bring_up(state, START)
        pace.take(state, START, pace.left(state, START))
        before = START - 7 * 86_400_000
        pace.bring_up(state, before)
        again = max(before, pace.again(state, before))
        pace.bring_up(state, again)

        assert again - before <= 900_000
        assert pace.left(state, again) > 0, pace


@pytest.mark.parametrize("ahead", [5000, 3_600_000])
def test_a_state_that_a_clock_ahead_has_written_is_as_long_over_as_if_it_was_right(
    ahead: int,
) -> None:
    """Also where the step is shorter than the period, so that the state itself does not tell."""
    for pace in (
        Rate("5/1d"),
        Tick(5, "1d"),
        Adaptive(interval=("1d", "1d"), batch=(5, 5)),
        Quota("q", windows={"1d": 5}),
    ):
        right, wrong = pace.load({}), pace.load({})
        for state, now in ((right, START), (wrong, START + ahead)):
            pace.bring_up(state, now)
            pace.apply(state, now, "throttled", 30_000)
            pace.take(state, now, 5)

        pace.back(wrong, START, ahead)

        for state in (right, wrong):
            pace.bring_up(state, START)
        assert pace.again(wrong, START) == pace.again(right, START), pace
        assert wrong["blocked"] == START + 30_000


def test_what_waits_for_a_person_does_so_after_a_step_of_the_clock() -> None:
    pace = Tick(5, "10s")
    state = pace.load({"blocked": UNTIL_ASKED})

    pace.back(state, START, 5000)

    assert state["blocked"] == UNTIL_ASKED


def test_a_process_whose_clock_is_a_little_behind_does_not_count_a_period_anew() -> None:
    rate = Rate("5/1s", burst=5)
    state = rate.load({})
    rate.bring_up(state, START)
    rate.take(state, START, 5)

    rate.bring_up(state, START - 3)

    assert rate.left(state, START - 3) == 0
    assert state["used"] == 5


# --- quotas


def test_a_quota_keeps_its_reserve_and_waits_for_the_quarter_hour_and_for_midnight() -> None:
    quota = Quota("strava", windows={"1d": 1000, "15m": 100}, reserve=5)
    state, quarter = quota.load({}), START - START % 900_000
    now = quarter + 60_000
    quota.bring_up(state, now)

    assert quota.left(state, now) == 95
    quota.take(state, now, 95)
    assert quota.again(state, now) == quarter + 900_000
    for _ in range(9):
        now = quota.again(state, now)
        quota.bring_up(state, now)
        quota.take(state, now, quota.left(state, now))
    # 950 of 1,000 in a day.
    assert quota.again(state, now) == (now // 86_400_000 + 1) * 86_400_000


@given(st.lists(st.tuples(st.integers(0, 400_000), st.integers(1, 50)), max_size=100))
@settings(deadline=None)
def test_no_window_of_a_quota_is_overdrawn(asked: list[tuple[int, int]]) -> None:
    quota = Quota("strava", windows={"15m": 100, "1h": 250}, reserve=5).cost(5)

    times = taken(quota, asked)

    assert max(Counter(t // 900_000 for t in times).values(), default=0) * 5 <= 95
    assert max(Counter(t // 3_600_000 for t in times).values(), default=0) * 5 <= 237


def test_a_quota_learns_from_what_the_upstream_says() -> None:
    quota = Quota("strava", windows={"15m": 100, "1d": 1000}, reserve=5)
    state = quota.load({})
    heard: list[Any] = []
    quota.listeners.append(lambda _, word, value: heard.append((word, value)))

    quota.saw(used=(90, 400), limit=(200, 2000))
    quota.saw(used={"1d": 1899})
    quota.saw(resets_at=START + 12_345)
    quota.saw(used=3)
    for word, value in heard:
        quota.apply(state, START, word, value)

    # 190 of 200 are ours, 90 are used; of the day 1,900 of 2,000, 1,899 are used.
    assert quota.left(state, START) == 1
    state["windows"][1][1] = 0
    quota.take(state, START, 100)
    assert quota.again(state, START) == START + 12_345
    with pytest.raises(UsageError, match="more values"):
        quota.saw(used=(1, 2, 3))
    with pytest.raises(UsageError, match="no window"):
        quota.saw(used={"2d": 3})


# --- adaptive


def judged(good: int, bad: int, batch: int = 10, interval: int = 30_000) -> State:
    pace = Adaptive()
    state = pace.load({"batch": batch, "interval": interval})
    state["minutes"] = {str(START // 60_000): [good + bad, good, bad]}
    pace.adapt(state, START)
    return state


@pytest.mark.parametrize(
    ("good", "bad", "batch", "interval"),
    [
        (0, 4, 10, 30_000),  # fewer than five results: no change
        (19, 81, 2, 120_000),  # critical: cools down
        (20, 80, 5, 45_000),  # exactly 20 % is low
        (49, 51, 5, 45_000),
        (50, 50, 10, 30_000),  # exactly 50 % to exactly 80 % is left alone
        (80, 20, 10, 30_000),
        (81, 19, 11, 28_500),  # good
        (95, 5, 11, 28_500),  # exactly 95 % is good, not great
        (96, 4, 13, 24_000),  # great
    ],
)
def test_an_adaptive_pace_moves_by_the_success_of_its_window(
    good: int, bad: int, batch: int, interval: int
) -> None:
    state = judged(good, bad)

    assert (state["batch"], state["interval"]) == (batch, interval)
    assert (state["cooldown"] == START + 300_000) == (batch == 2)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=60))
@settings(deadline=None)
def test_an_adaptive_pace_stays_within_its_bounds(results: list[tuple[int, int]]) -> None:
    pace = Adaptive()
    state, now = pace.load({}), START
    for good, bad in results:
        pace.bring_up(state, now)
        count = pace.left(state, now)
        pace.take(state, now, count)
        for word in ["completed"] * good + ["throttled"] * bad:
            pace.apply(state, now + 1, word, 0)
        assert 2 <= state["batch"] <= 50
        assert 10_000 <= state["interval"] <= 120_000
        assert count <= 50
        now = pace.again(state, now + 1)


def test_permanent_errors_are_not_held_against_the_pace() -> None:
    pace = Adaptive()
    state = pace.load({})
    pace.bring_up(state, START)
    pace.take(state, START, 10)
    for word in ["permanent"] * 9 + ["completed"]:
        pace.apply(state, START, word, 0)

    assert (state["batch"], state["interval"], state["cooldown"]) == (10, 30_000, 0)
    assert state["permanent"] == 9
    assert pace.show(state, START)["success_rate"] == 100


def test_the_window_rolls_on_and_a_cooldown_ends_exactly() -> None:
    pace = Adaptive(cooldown="90s")
    state = pace.load({})
    pace.bring_up(state, START)
    pace.take(state, START, 10)
    for _ in range(10):
        pace.apply(state, START + 5000, "failed", 0)

    assert state["cooldown"] == START + 95_000
    pace.bring_up(state, START + 94_999)
    assert pace.left(state, START + 94_999) == 0
    assert pace.again(state, START + 94_999) == START + 95_000
    pace.bring_up(state, START + 95_000)
    assert pace.left(state, START + 95_000) == 2
    assert pace.window(state, START + 95_000) == (0, 10)
    assert pace.window(state, START + 300_000) == (0, 0)
    assert pace.show(state, START + 300_000)["success_rate"] == 100


# --- what is refused


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: Rate("20"), "as '20/1m'"),
        (lambda: Rate("0/1m"), "from 1 up"),
        (lambda: Rate("5/1ms"), "10 ms or more"),
        (lambda: Rate("5/1s", burst=0), "burst"),
        (lambda: Rate("5/1s", name="a b"), "name"),
        (lambda: Tick(0, "10s"), "from 1 up"),
        (lambda: Quota("q", windows={}), "one window or more"),
        (lambda: Quota("q", windows={"15m": 100}, reserve=100), "below 100"),
        (lambda: Quota("q", windows={"15m": 100}, reserve=5).cost(96), "never grants"),
        (lambda: Quota("q", windows={"15m": 100}).saw(used=3), "pace="),
        (lambda: Adaptive(batch=(5, 2)), "lower one first"),
    ],
)
def test_what_makes_no_sense_is_refused_with_words(make: Any, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        make()
