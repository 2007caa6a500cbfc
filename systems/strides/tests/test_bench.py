"""The article's figures, each in its short form, and the proof of syncs."""

from __future__ import annotations

import re

import pytest

from bench.articles import activities
from proof import syncs
from systems.strides.seed import seed
from tests.support.steps import steps


@pytest.mark.rows("004-01", "004-02")
def test_a_kill_half_way_through_costs_a_page_and_not_all_that_was_fetched() -> None:
    count = 3_000
    calls, least = activities.calls_with_a_kill(count)

    # One invocation that loops has fetched half of it, and begins anew.
    assert 0 <= calls - least <= 5 < count // 2 // 200


def test_a_resume_fetches_the_border_alone_again() -> None:
    again, stored = activities.fetched_again(3_000)

    assert stored > 1_500
    assert again <= 2


def steps_of_a_sync(count: int) -> int:
    """What SQLite does for so many, in pages of 600."""
    with steps() as counter, activities.system(count, calls=3) as (h, _):
        seed(h.app, 1, first=activities.ATHLETE)
        counter.taken()
        h.drain()
        assert len(activities.stored()) == count
        return counter.taken()


@pytest.mark.rows("004-10", "004-55")
def test_the_fourth_page_costs_no_more_than_the_first() -> None:
    one, four = steps_of_a_sync(600), steps_of_a_sync(2_400)

    # A look at what is stored, for each that is new, would be millions.
    assert one < 600 * 1_000
    assert four < 4.1 * one


@pytest.mark.rows("004-10", "004-56")
def test_a_thousand_activities_take_less_than_an_invocation_has_whatever_the_size() -> None:
    figures = activities.sizes(quick=True)

    took = [float(re.findall(r"[\d.]+", each.ours)[0]) for each in figures]
    assert [re.findall(r"pages of ([\d,]+)", each.what)[0] for each in figures] == [
        *("600", "1,000", "1,600")
    ]
    assert max(took) < 30


@pytest.mark.slow
@pytest.mark.rows("004-55", "004-58")
def test_syncs_under_kills_are_whole_in_flat_memory_and_in_the_time_of_the_quota() -> None:
    result = syncs.SECTION.run("short", 1)

    assert result.planted
    assert result.problems() == []
