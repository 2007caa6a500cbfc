"""A soft call and a louder second one on the same day, and streaks of weeks."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest

from duework import UsageError
from systems.streaks import promises
from systems.streaks.streak import last_call, message, reaches, standing, told_on
from systems.streaks.tests.conftest import Place

DAY = "2026-03-04"
ONE_DAY = timedelta(days=1)
WEDNESDAY = date(2026, 3, 4)


def with_streak(place: Place, **wishes: Any) -> Any:
    """Somebody with a streak of two days, and nothing yet today."""
    person = place.person(**{"second_hour": "22", **wishes})
    for day, count in (("2026-03-01", 0), ("2026-03-02", 3), ("2026-03-03", 2), (DAY, 0)):
        place.t.github.contribute(person.login, day, count)
    return person


def at_discord(place: Place, person: Any) -> list[dict[str, Any]]:
    return list(place.t.discord.hooks[person.discord_hook].messages.values())


def test_a_day_without_anything_is_told_softly_and_called_loudly_once(place: Place) -> None:
    person = with_streak(place)

    place.h.advance("15m")
    assert [each["flags"] for each in at_discord(place, person)] == [4096]
    assert [e.get("silent") for e in place.t.telegram.ledger.of("message")] == [True]
    place.h.advance("3h")

    soft, loud = at_discord(place, person)
    assert not soft["mention_everyone"]
    assert (loud["mention_everyone"], loud["flags"]) == (True, 0)
    assert loud["content"] == (
        "@here LAST CALL, user-001: still nothing on Wed 4 Mar."
        " Your streak of 2 days ends in 2 h 0 min: commit now."
    )
    _, shouted = place.t.telegram.ledger.of("message")
    assert (shouted.get("silent"), shouted["text"][:9]) == (None, "LAST CALL")
    found = promises(place.app)
    assert {each.state for each in found} == {"sent"}
    assert sorted({each.day for each in found}) == [DAY, f"{DAY} last call"]
    assert set(place.received().values()) == {2}


def test_what_was_done_in_between_is_seen_and_nobody_is_called(place: Place) -> None:
    person = with_streak(place)
    place.h.advance("15m")

    place.t.github.contribute(person.login, DAY, 1)
    place.h.advance("3h")

    assert set(place.received().values()) == {1}
    [row] = place.app.read("select * from streaks_day where person = :id", id=person.id)
    assert (row.contributions, row.streak, row.at_risk) == (1, 3, 0)


def test_a_day_that_is_safe_at_once_is_told_aloud_and_not_asked_for_again(place: Place) -> None:
    person = with_streak(place)
    place.t.github.contribute(person.login, DAY, 4)

    place.h.advance("3h")

    assert [each["flags"] for each in at_discord(place, person)] == [0]
    assert place.t.github.log.calls == 1
    assert [job.error for job in place.checks(phase="cancelled")] == ["the streak is safe"]


def test_whoever_pauses_or_wants_no_louder_call_any_more_gets_none(place: Place) -> None:
    paused, silent = with_streak(place), with_streak(place)
    place.h.advance("15m")

    place.pause(paused)
    place.change(silent, second_hour="")
    place.h.advance("3h")

    assert set(place.received().values()) == {1}
    assert len(place.checks(phase="cancelled")) == 2
    assert place.row(paused.login).last_error is None


def test_a_first_check_that_failed_takes_no_last_call_along(place: Place) -> None:
    person = with_streak(place, discord=None)
    place.t.github.faults.set([{"route": "graphql", "do": "status", "status": 502}])
    place.h.advance("1h")
    place.t.github.faults.set([])

    place.h.advance("2h")

    [told] = place.t.telegram.ledger.of("message")
    assert told["text"].startswith("LAST CALL, user-001")
    assert place.row(person.login).last_error is None


@pytest.mark.parametrize("statement", [3, 7, 11])
def test_a_worker_that_dies_in_the_last_call_calls_nobody_twice(
    place: Place, statement: int
) -> None:
    with_streak(place, discord=None)
    place.h.advance("15m")
    place.h.clock.move_to(place.h.now + 2 * 3_600_000)

    place.h.crash_worker(at=statement)
    place.h.advance("20m")

    states = [each.state for each in promises(place.app)]
    assert sum(place.received().values()) <= 2
    assert set(states) <= {"sent", "unsure"}
    assert states.count("sent") <= sum(place.received().values())


@pytest.mark.parametrize(
    "wrong",
    [
        "20",
        "19",
        "24",
        "222",
        "-1",
        "late",
        "0223",
        "022",
        "+21",
        "21.0",
        "\uff12\uff12",
        "\u0662\u0661",
    ],
)
def test_a_second_hour_that_is_not_later_is_refused_by_its_name(place: Place, wrong: str) -> None:
    person = place.person()

    with pytest.raises(UsageError, match="second_hour: a whole hour after 20"):
        place.change(person, second_hour=wrong)

    assert place.row(person.login).second_hour is None


def test_an_hour_that_passes_the_second_one_is_refused_too(place: Place) -> None:
    person = place.person(second_hour="22")

    with pytest.raises(UsageError, match="second_hour"):
        place.change(person, hour=22)
    place.change(person, hour=21)

    row = place.row(person.login)
    assert (row.hour, row.second_hour) == (21, 22)


# --- weeks


def days_ago(*numbers: int) -> dict[date, int]:
    return {WEDNESDAY - number * ONE_DAY: 1 for number in numbers}


def test_weeks_in_a_row_count_and_a_week_that_is_not_over_breaks_nothing() -> None:
    # Sunday, and a day of each of the two weeks before that one.
    counts = days_ago(3, 11, 20)

    found = standing(counts, WEDNESDAY, weekly=True)

    assert (found.streak, found.longest, found.at_risk, found.week) == (3, 3, True, 0)
    assert standing(counts, WEDNESDAY).streak == 0
    done = standing({**counts, WEDNESDAY - ONE_DAY: 2}, WEDNESDAY, weekly=True)
    assert (done.streak, done.at_risk, done.today, done.week) == (4, False, 0, 2)
    # A week without anything is the end.
    assert standing(days_ago(3, 20), WEDNESDAY, weekly=True).streak == 1


def test_a_week_of_holidays_breaks_no_weeks() -> None:
    away = {WEDNESDAY - number * ONE_DAY for number in range(3, 10)}
    assert standing(days_ago(2, 11), WEDNESDAY, weekly=True).streak == 1
    assert standing(days_ago(2, 11), WEDNESDAY, away.__contains__, weekly=True).streak == 2


def test_weeks_reach_back_over_a_year_that_was_asked_for_in_part() -> None:
    every_week = days_ago(*range(0, 365, 7))
    first = WEDNESDAY - 364 * ONE_DAY
    assert reaches(every_week, WEDNESDAY, first, weekly=True)
    # The oldest week is known in part: what is hidden of it may go on.
    hidden = {day: 1 for day in every_week if day > first + 2 * ONE_DAY}
    assert reaches(hidden, WEDNESDAY, first, weekly=True)
    later = {day: 1 for day in every_week if day > first + 14 * ONE_DAY}
    assert not reaches(later, WEDNESDAY, first, weekly=True)


def test_words_of_weeks() -> None:
    found = standing(days_ago(3, 11), WEDNESDAY, weekly=True)
    assert message("ada", WEDNESDAY, found) == (
        "ada, nothing yet in the week of Wed 4 Mar."
        " Your streak of 2 weeks is at risk: one commit saves it."
    )
    assert "streak of 2 weeks ends in 45 min" in last_call("ada", WEDNESDAY, found, 45)


def test_a_week_is_told_on_its_last_day_that_is_none_of_rest() -> None:
    week = [date(2026, 3, 2) + n * ONE_DAY for n in range(7)]
    assert [told_on(day, lambda _: False, weekly=True) for day in week] == [False] * 6 + [True]
    off = {5, 6}
    told = [told_on(day, lambda d: d.weekday() in off, weekly=True) for day in week]
    assert told == [False] * 4 + [True, False, False]


def test_somebody_who_counts_weeks_is_told_on_sunday(place: Place) -> None:
    person = place.person(weekly=True, discord=None)
    for n in range(9):
        day = date(2026, 3, 8) - n * ONE_DAY
        place.t.github.contribute(person.login, day.isoformat(), int(n == 8))

    place.h.advance("15m")
    assert place.received() == {}
    assert len(place.checks(phase="done")) == 1
    for _ in range(4):
        place.jump(24)

    [told] = place.t.telegram.ledger.of("message")
    assert "in the week of Sun 8 Mar" in told["text"]
    assert "at risk" in told["text"]
    [row] = place.app.read(
        "select * from streaks_day where person = :id and day = '2026-03-08'", id=person.id
    )
    assert (row.weekly, row.at_risk) == (1, 1)


def test_the_longest_of_days_is_none_of_weeks(place: Place) -> None:
    person = place.person()
    place.h.advance("15m")
    longest = "select longest from streaks_calendar where person = :id"
    assert place.app.read(longest, id=person.id)[0].longest > 0

    place.change(person, weekly=True)
    assert place.app.read(longest, id=person.id)[0].longest == 0
    place.change(person, weekly=True, hour=21)
    place.h.advance("1h")

    assert place.app.read(longest, id=person.id)[0].longest > 0
