"""One person's trouble stays with that person: processes that die, and workers that are lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from systems.streaks.channels import notify
from systems.streaks.check import check
from systems.streaks.choose import choose
from systems.streaks.tests.conftest import Place

DAY = "2026-03-04"


@pytest.mark.rows("000-05", "000-25", "000-64")
def test_a_check_that_kills_its_process_fails_alone(place: Place) -> None:
    place.person()
    place.person(drill="die")
    place.person()

    place.h.advance("15m")

    progress = place.app.batches()[0].progress()
    assert (progress.done, progress.failed) == (2, 1)
    [failed] = place.checks(phase="failed")
    assert failed.crashes == 3
    assert {login for login, _ in place.states()} == {"user-001", "user-003"}
    assert set(place.received().values()) == {1}


@pytest.mark.rows("000-03", "000-05", "000-59")
def test_a_check_that_hangs_is_killed_when_its_budget_is_over_and_fails_alone(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert check.definition.timeout_ms == 30_000
    warm = place.person()
    check.enqueue(warm.id, DAY, place.t.github.url)
    place.h.drain()
    place.pause(warm)
    monkeypatch.setattr(check.definition, "timeout_ms", 2500)
    place.person(drill="hang")
    place.person()

    place.h.advance("10m 30s")

    [hung] = [job for job in place.checks() if job.failures]
    assert (hung.error or "").startswith("it ran longer than its timeout")
    assert hung.phase == "waiting"
    assert {login for login, _ in place.states()} == {"user-001", "user-003"}
    assert place.app.batches()[0].progress().done == 1


@pytest.mark.rows("000-17", "000-23", "000-61", "000-T10")
def test_checks_are_taken_oldest_first_until_none_is_left_and_each_once(place: Place) -> None:
    place.app.limits = replace(place.app.limits, process_slots=1)
    people = [place.person() for _ in range(4)]
    wanted = [people[n] for n in (2, 0, 3, 1)]

    # All of them in one moment: the order of the rows decides.
    check.enqueue_many([(person.id, DAY, place.t.github.url) for person in wanted])
    place.h.drain()

    asked = [entry.notes["login"] for entry in place.t.github.log.entries]
    assert asked == [person.login for person in wanted]
    assert {job.fence for job in place.checks(phase="done")} == {1}


@pytest.mark.rows("000-T1")
def test_what_an_earlier_batch_has_left_takes_no_place_of_a_later_one(place: Place) -> None:
    for hour in (20, 20, 20, 21):
        place.person(hour=hour)
    place.app.queue("streaks").pause()
    place.h.advance("75m")
    assert [batch.total for batch in place.app.batches()] == [1, 3]
    assert place.t.github.log.calls == 0

    place.app.queue("streaks").resume()
    place.h.advance("1m")

    # All four in one go, although the later batch is of one.
    assert [batch.progress().done for batch in place.app.batches()] == [1, 3]


@pytest.mark.rows("000-46", "000-47", "000-63", "000-T2")
@pytest.mark.parametrize("statement", [6, 12])
def test_a_check_whose_worker_is_lost_is_taken_over_in_the_same_batch(
    place: Place, statement: int
) -> None:
    place.person()
    place.person()
    place.h.clock.move_to(place.h.now + 600_000)
    choose.enqueue()

    assert place.h.crash_worker(at=statement)
    # Before anything else: it is not the next quarter of an hour that finds it.
    place.h.advance("1m")

    assert [batch.progress().done for batch in place.app.batches()] == [2]
    assert len(place.received()) == 4
    assert set(place.received().values()) == {1}


@pytest.mark.rows("000-16", "000-18", "000-T11")
def test_everybody_is_chosen_once_wherever_the_worker_dies(place: Place, kind: str) -> None:
    """The checks wait: what counts is the batch and the next times, which are one commit."""
    place.app.queue("streaks").pause()
    for _ in range(3):
        place.person()
    place.h.clock.move_to(place.h.now + 600_000)
    choose.enqueue()
    statement = day = 1
    while place.h.crash_worker(at=statement):
        place.h.drain()
        chosen = {(j.arguments["person"], j.arguments["day"]) for j in place.checks()}
        assert len(place.checks()) == len(chosen) == day * 3
        statement, day = statement + (1 if kind == "sqlite" else 5), day + 1
        place.h.clock.move_to(place.h.now + 86_400_000)
        choose.enqueue()

    assert statement > 10


@pytest.mark.rows("000-T4", "000-T17")
def test_nobody_is_told_twice_wherever_the_worker_dies(place: Place, kind: str) -> None:
    person, statement, crashed = place.person(), 1, True
    while crashed:
        notify.enqueue(person.id, f"day {statement}", f"message {statement}")
        crashed = place.h.crash_worker(at=statement)
        place.h.advance("1m")
        told = [e["content"] for e in place.t.discord.ledger.entries]
        told += [e["text"] for e in place.t.telegram.ledger.entries]
        assert told.count(f"message {statement}") == 2 - unsure(place, statement), statement
        # The statements are the same on both: all of them are tried where that is quick.
        statement += 1 if kind == "sqlite" else 5

    assert statement > 10


def unsure(place: Place, statement: int) -> int:
    """How many promises are unsure that no receiver has got."""
    rows = place.app.read(
        "select channel, state from streaks_message where day = :day", day=f"day {statement}"
    )
    assert len(rows) == 2
    assert {row.state for row in rows} <= {"sent", "unsure"}
    books = {
        "discord": {e["content"] for e in place.t.discord.ledger.entries},
        "telegram": {e["text"] for e in place.t.telegram.ledger.entries},
    }
    missing = [row for row in rows if f"message {statement}" not in books[row.channel]]
    assert all(row.state == "unsure" for row in missing)
    return len(missing)
