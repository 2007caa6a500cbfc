"""The article's figures, each in its short form, and the proof of a day."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.articles import people
from proof import day
from systems.streaks.tests.conftest import Place
from tests.support.plans import by_index

README = Path(__file__).parents[1] / "README.md"
TABLE = Path(people.__file__).parent / "README.md"


def seconds(text: str) -> list[float]:
    return [float(each) for each in re.findall(r"([\d.]+) s\b", text)]


@pytest.mark.slow
@pytest.mark.rows("000-02", "000-54", "000-T12")
def test_ten_people_take_ten_times_as_long_one_after_the_other_and_less_by_ours() -> None:
    [figure] = people.ten(quick=True)

    each, one_by_one = seconds(figure.what)
    [ours] = seconds(figure.ours)
    assert one_by_one >= 10 * each
    assert each <= ours < one_by_one
    # All four are published: sequential, the article's, ours, ideal.
    [line] = [line for line in TABLE.read_text().splitlines() if "ten people of" in line]
    assert len(seconds(line)) >= 5


@pytest.mark.slow
@pytest.mark.rows("000-T5")
def test_the_readme_says_how_many_rows_are_really_written_for_a_person() -> None:
    [figure] = people.writes(quick=True)

    said = re.search(r"(\d+) rows are written", README.read_text())
    assert said is not None
    # On a busy machine some more: leases are extended, and counters fall into more seconds.
    assert abs(int(figure.ours) - int(said[1])) <= 12


@pytest.mark.rows("000-10", "000-60")
def test_a_claim_is_found_by_an_index_and_its_time_is_published(place: Place) -> None:
    [figure] = people.claims(quick=True)

    assert re.fullmatch(r"p50 [\d.]+ ms, p99 [\d.]+ ms", figure.ours)
    ready = "select id from duework_job where lane = 1 and state = 'open' and worker is null"
    assert by_index(place.app, f"{ready} order by due limit 1")
    text = TABLE.read_text()
    assert "one of 10,000" in text
    assert "one of 1,000,000" in text


@pytest.mark.slow
@pytest.mark.rows("000-06")
def test_a_day_with_faults_and_kills_tells_everybody_once_or_says_why_not() -> None:
    result = day.SECTION.run("short", 1)

    assert result.planted
    assert result.problems() == []
