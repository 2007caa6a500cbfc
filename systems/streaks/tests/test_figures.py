"""What the article counts, counted here: how many at once, what a row of the queue has, what is written."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from duework import Error
from systems.streaks.check import check
from systems.streaks.choose import DUE
from systems.streaks.tests.conftest import Place
from tests.support.plans import by_index

DAY = "2026-03-04"
TEN = 10


def at_once(place: Place, slots: int, people: int) -> int:
    """How many of them GitHub had to answer at the same time."""
    place.app.limits = replace(place.app.limits, process_slots=slots)
    made = [place.person(discord=None, telegram_chat=None) for _ in range(people)]
    check.enqueue_many([(person.id, DAY, place.t.github.url) for person in made])
    place.h.drain()
    assert len(place.checks(phase="done")) == people
    return int(place.t.github.log.peak)


def test_one_after_the_other_is_as_many_times_three_seconds_as_there_are_people(
    place: Place,
) -> None:
    place.t.github.faults.set([{"route": "graphql", "do": "delay", "seconds": 0.05}])
    assert at_once(place, 1, 4) == 1


@pytest.mark.slow
@pytest.mark.rows("000-55", "000-56", "000-14")
def test_ten_people_are_asked_for_at_once_so_that_ten_take_as_long_as_one(place: Place) -> None:
    """The article's ten seconds are three at a time; ours must be more than that, ten at best."""
    place.t.github.faults.set([{"route": "graphql", "do": "delay", "seconds": 3}])
    assert at_once(place, TEN, TEN) > 4


@pytest.mark.rows("000-07")
def test_a_row_of_the_queue_says_who_in_which_batch_when_and_how_it_ended(place: Place) -> None:
    person = place.person(drill="die")
    place.h.advance("15m")

    [batch] = place.app.batches()
    [job] = batch.jobs()
    assert (job.arguments["person"], job.batch, job.state) == (person.id, batch.id, "failed")
    tries = job.attempts()
    assert len(tries) == 3
    assert all(batch.created <= (each.started or 0) <= each.ended for each in tries)
    assert job.settled is not None
    assert job.settled >= max(each.ended for each in tries)
    assert job.error
    assert job.crashes == 3


@pytest.mark.rows("000-08")
def test_the_database_itself_refuses_a_state_that_is_none(place: Place) -> None:
    person = place.person()
    place.h.advance("15m")
    before = place.states()

    for statement in (
        "update duework_job set state = 'strange'",
        "update streaks_message set state = 'strange'",
        "update streaks_person set hour = 24",
    ):
        with pytest.raises(Error), place.app.transaction() as tx:
            tx.write(statement)
    assert place.states() == before
    assert place.row(person.login).hour == 20


@pytest.mark.rows("000-09")
@pytest.mark.parametrize(
    "sql",
    [
        "select id from duework_job where lane = 1 and state = 'open' and worker is null order by due",
        "select id from duework_job where batch = 1",
        "select id from duework_job where task = 'a' and key = 'b' and state = 'open'",
        f"select id from streaks_person where {DUE.replace(':now', '1')}",  # noqa: S608 - constants
    ],
    ids=["status", "batch", "person", "due"],
)
def test_a_row_is_found_by_its_status_its_batch_and_its_person_by_an_index(
    place: Place, sql: str
) -> None:
    assert by_index(place.app, sql)


@pytest.mark.rows("000-T6")
def test_the_readme_repeats_no_quota_of_a_platform() -> None:
    text = (Path(__file__).parents[1] / "README.md").read_text()
    assert not re.search(r"50,000|100,000|25,000|free tier|2500", text, re.IGNORECASE)
