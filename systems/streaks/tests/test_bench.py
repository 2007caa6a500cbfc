"""The article's figures, each in its short form, and the proof of a day."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.articles import people
from duework import App
from duework.testing import Harness
from proof import day
from systems.streaks.check import check
from systems.streaks.choose import choose
from systems.streaks.tests.conftest import Place
from tests.support.steps import Steps, steps

README = Path(__file__).parents[1] / "README.md"
TABLE = Path(people.__file__).parent / "README.md"
DAY = "2026-03-04"
THOUSAND = 1000


def seconds(text: str) -> list[float]:
    return [float(each) for each in re.findall(r"([\d.]+) s\b", text)]


@pytest.mark.slow
@pytest.mark.rows("000-02", "000-06", "000-54", "000-T12")
def test_ten_people_take_ten_times_as_long_one_after_the_other_and_less_by_ours() -> None:
    figure, cpu, done = people.ten(quick=True)

    each, one_by_one = seconds(figure.what)
    [ours] = seconds(figure.ours)
    assert one_by_one >= 10 * each
    assert each <= ours < one_by_one
    assert 0 < seconds(cpu.ours)[0] < 5
    assert done.ours == done.ideal
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


def steps_of_a_claim(rows: int) -> int:
    """What SQLite does to enqueue, claim, run and settle one job beside so many others."""
    app = App("sqlite://")

    @app.task
    def noop() -> None: ...

    with steps() as counter, Harness(app) as h:
        noop.using(delay="30d").enqueue_many([() for _ in range(rows)])
        noop.enqueue()
        h.drain()
        counter.taken()
        noop.enqueue()
        h.drain()
        return counter.taken()


@pytest.mark.rows("000-10", "000-60")
def test_a_claim_costs_the_same_however_many_rows_there_are_and_its_time_is_published() -> None:
    [figure] = people.claims(quick=True)
    assert re.fullmatch(r"p50 [\d.]+ ms, p99 [\d.]+ ms", figure.ours)

    few, many = steps_of_a_claim(10), steps_of_a_claim(4000)
    # A look at each of them would be thousands of steps.
    assert few > 100
    assert abs(many - few) < 100

    lines = [line for line in TABLE.read_text().splitlines() if "claim, run and settle" in line]
    assert [re.findall(r"one of ([\d,]+)", line) for line in lines] == [["10,000"], ["1,000,000"]]
    # The article says that a query takes less than 10 ms; so does all of a job.
    assert all(float(re.findall(r"p99 ([\d.]+) ms", line)[0]) < 10 for line in lines)


@pytest.fixture
def counter() -> Iterator[Steps]:
    """To be named before the place whose connections it counts."""
    with steps() as found:
        yield found


def checked(place: Place) -> None:
    """Somebody new is checked and told."""
    person = place.person()
    check.enqueue(person.id, DAY, place.t.github.url)
    place.h.advance("1m")
    assert {place.states()[person.login, channel] for channel in day.CHANNELS} == {"sent"}


def crowd(place: Place, many: int) -> None:
    """So many others, who are due now."""
    row = {**place.app.read("select * from streaks_person limit 1")[0]._asdict(), "hour": 12}
    names = ", ".join(row)
    values = ", ".join(f":{name}" for name in row)
    others = [f"other-{number:04}" for number in range(many)]
    with place.app.transaction() as tx:
        tx.write(
            f"insert into streaks_person ({names}) values ({values})",  # noqa: S608 - its own columns
            rows=[
                {**row, "id": name, "login": name, "login_key": name, "next_at": place.h.now}
                for name in others
            ],
        )


@pytest.mark.rows("000-06")
def test_a_thousand_are_one_batch_and_a_check_among_them_costs_what_it_did_alone(
    counter: Steps, place: Place
) -> None:
    checked(place)
    counter.taken()
    checked(place)
    alone = counter.taken()

    crowd(place, THOUSAND)
    counter.taken()
    checked(place)
    # A look at each of them would be thousands of steps.
    assert counter.taken() <= alone * 1.4

    place.app.queue("streaks").pause()
    choose.enqueue()
    place.h.drain()
    [batch] = place.app.batches()
    assert batch.total == THOUSAND
    assert len({job.arguments["person"] for job in place.checks(phase="ready")}) == THOUSAND


@pytest.mark.slow
@pytest.mark.rows("000-06")
def test_a_day_with_faults_and_kills_tells_everybody_once_or_says_why_not() -> None:
    result = day.SECTION.run("short", 1)

    assert result.planted
    assert result.problems() == []
