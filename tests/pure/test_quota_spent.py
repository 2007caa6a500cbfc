"""What a quota gets back, against a ledger that remembers of each job where it was counted."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from duework import Quota

QUOTA = Quota("strava", windows={"10s": 30, "1m": 90})
moves = st.lists(
    st.tuples(st.sampled_from(["take", "spend", "wait"]), st.integers(0, 12)), max_size=80
)


# Taken in a window that is over when it is given back, while another one is under way in the next.
ACROSS = [("take", 6), ("wait", 12), ("wait", 12), ("take", 6), ("spend", 0), ("spend", 0)]


@example(ACROSS)
@given(moves)
def test_a_window_counts_what_was_used_in_it_and_what_is_under_way(
    moves: list[tuple[str, int]],
) -> None:
    state, now = QUOTA.load({}), 1_000_000
    under_way: list[tuple[int, int]] = []
    # (time, what is counted of it)
    ledger: list[list[int]] = []
    for move, number in moves:
        if move == "wait":
            now += 700 * number
        QUOTA.bring_up(state, now)
        if move == "take" and QUOTA.left(state, now) >= number:
            QUOTA.take(state, now, number)
            under_way.append((len(ledger), number))
            ledger.append([now, number])
        elif move == "spend" and under_way:
            place, taken = under_way.pop(number % len(under_way))
            used = min(number, taken)
            QUOTA.apply(state, now, "spent", (taken, used, ledger[place][0]))
            ledger[place][1] = used

        for (end, count, *_), length in zip(state["windows"], QUOTA.lengths, strict=True):
            begin = end - length
            # A window that is over keeps what it lost: of this one all is known.
            assert count == sum(units for time, units in ledger if begin <= time < end)
        # Nothing was admitted that was not there.
        for window, limit in zip(state["windows"], QUOTA.limits, strict=True):
            assert 0 <= window[1] <= limit


def test_what_was_used_beyond_is_counted_even_if_its_window_is_over() -> None:
    state = QUOTA.load({})
    QUOTA.bring_up(state, 5_000)
    QUOTA.take(state, 5_000, 6)

    QUOTA.apply(state, 15_000, "spent", (6, 9, 5_000))

    assert [window[1] for window in state["windows"]] == [3, 9]


def test_a_time_that_is_still_to_come_gets_nothing_back() -> None:
    state = QUOTA.load({})
    QUOTA.bring_up(state, 5_000)
    QUOTA.take(state, 5_000, 6)

    assert not QUOTA.apply(state, 6_000, "spent", (6, 0, 60_000))

    assert state["used"] == 6


def test_what_the_upstream_has_counted_is_not_given_back() -> None:
    state = QUOTA.load({})
    QUOTA.bring_up(state, 5_000)
    QUOTA.take(state, 5_000, 6)
    QUOTA.apply(state, 5_000, "saw", {"used": [20, 4], "limit": [0, 0], "ends": [None, None]})

    QUOTA.apply(state, 6_000, "spent", (6, 5, 5_000))

    assert [window[1] for window in state["windows"]] == [20, 5]
