"""Ids: rising, within 63 bits, and telling when they were drawn."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from duework.ids import Ids, drawn_at

START = 1_800_000_000_000


@given(
    st.lists(st.integers(-1000, 1000), min_size=1, max_size=50), st.integers(0, 2**22 - 2**16 - 1)
)
def test_ids_rise_also_when_the_clock_goes_back(steps: list[int], chosen: int) -> None:
    now = START
    ids = Ids(lambda: now, lambda _: chosen)

    drawn = []
    for step in steps:
        now += step
        drawn.append(ids.draw())

    assert drawn == sorted(set(drawn))
    assert all(0 < each < 2**63 for each in drawn)


def test_an_id_tells_its_millisecond() -> None:
    assert drawn_at(Ids(lambda: START).draw()) == START


def test_many_ids_of_one_millisecond_stay_in_it() -> None:
    ids = Ids(lambda: START, lambda below: below - 1)

    drawn = [ids.draw() for _ in range(60_000)]

    assert len(set(drawn)) == 60_000
    assert {drawn_at(each) for each in drawn} == {START}


def test_ids_fit_until_2090() -> None:
    assert Ids(lambda: 3_800_000_000_000).draw() < 2**63


def test_ids_that_may_have_met_others_go_on_elsewhere_and_still_rise() -> None:
    ids = Ids(lambda: START)
    met = ids.draw_many(10_000)

    ids.scatter()
    again = ids.draw_many(10_000)

    assert again[0] > met[-1]
    assert drawn_at(again[0]) == START + 1
