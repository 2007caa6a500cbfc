"""Reminders as people say them, by the examples of the written grammar."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duework import UsageError
from systems.reminders.planning import marked
from systems.reminders.rules import NewReminder, timing
from systems.reminders.words import read_line, read_when

GRAMMAR = Path(__file__).parents[1] / "words" / "GRAMMAR.md"
# Monday 2 March 2026, 8:00 in UTC, as the document says.
NOW = 1_772_438_400_000


def examples(heading: str) -> list[tuple[str, str]]:
    text = GRAMMAR.read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `(.+?)` \| (.+) \|$", text, re.MULTILINE)


TAKEN, REFUSED = examples("What it takes"), examples("What it refuses")


def test_the_document_has_sixty_that_are_taken_and_forty_that_are_refused() -> None:
    assert len({words for words, _ in TAKEN}) >= 60
    assert len({words for words, _ in REFUSED}) >= 40


@pytest.mark.parametrize(("words", "meant"), TAKEN)
def test_what_the_document_says_is_taken_means_what_it_says(words: str, meant: str) -> None:
    found = read_when(words, "UTC", NOW)

    assert " · ".join(f"`{name}` `{value}`" for name, value in found.items()) == meant
    assert timing(NewReminder(title="x", **found), "UTC", NOW)


@pytest.mark.parametrize(("words", "why"), REFUSED)
def test_what_the_document_says_is_refused_says_why(words: str, why: str) -> None:
    with pytest.raises(UsageError, match=re.escape(why)):
        read_when(words, "UTC", NOW)


@pytest.mark.parametrize(
    ("line", "title", "zone", "email", "endpoint"),
    [
        ("stretch every weekday 9:00 Europe/Zurich", "Stretch", "Europe/Zurich", None, None),
        ("remind me to call Bob tomorrow at 9", "Call Bob", "UTC", None, None),
        ("pay rent every month on the 1st at 9:00 to ada@demo.example", "Pay rent", "UTC",
         "ada@demo.example", None),
        ("deploy in 10 minutes to ep_ops and ada@demo.example", "Deploy", "UTC",
         "ada@demo.example", "ep_ops"),
        ("Take every pill every day at 8:00", "Take every pill", "UTC", None, None),
        ("meet at noon on friday", "Meet", "UTC", None, None),
        ("water: in 2 days at 9:00 in Asia/Tokyo", "Water", "Asia/Tokyo", None, None),
    ],
)  # fmt: skip
def test_a_line_has_a_title_a_time_a_zone_and_receivers(
    line: str, title: str, zone: str, email: str | None, endpoint: str | None
) -> None:
    found = read_line(line, "UTC", NOW)

    assert (found.title, found.zone, found.email, found.endpoint) == (title, zone, email, endpoint)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "stretch",
        "every day at 9:00",
        "stretch every day",
        "a\nb",
        "x" * 700,
        "to at 9:00",
        "stretch every morning at 9:00",
    ],
)
def test_a_line_without_what_or_when_is_refused(line: str) -> None:
    with pytest.raises(UsageError):
        read_line(line, "UTC", NOW)


def test_tomorrow_is_the_day_after_today_where_the_people_are() -> None:
    late = NOW + 8 * 3_600_000  # 16:00 in UTC is 1:00 of Tuesday in Tokyo

    assert read_when("tomorrow at 9:00", "UTC", late) == {"at": "2026-03-03T09:00"}
    assert read_when("tomorrow at 9:00", "Asia/Tokyo", late) == {"at": "2026-03-04T09:00"}


def test_a_change_of_the_clock_is_marked_in_a_preview() -> None:
    # 27, 28 and 29 March 2026 at 9:00 in London, which turns its clocks on the 29th.
    days = [1_774_602_000_000, 1_774_688_400_000, 1_774_771_200_000]

    assert [(each.at, each.turned) for each in marked(days, "Europe/London")] == [
        ("2026-03-27T09:00:00+00:00", False),
        ("2026-03-28T09:00:00+00:00", False),
        ("2026-03-29T09:00:00+01:00", True),
    ]


SOME = "every at in 9:00 9 monday other day month on the 3rd last friday 2 times until may to"


@given(st.text(max_size=80) | st.lists(st.sampled_from(SOME.split(" ")), max_size=9).map(" ".join))
def test_whatever_is_said_is_understood_or_refused(text: str) -> None:
    for read in (read_when, read_line):
        with contextlib.suppress(UsageError):
            read(text, "Europe/Oslo", NOW)
