"""Cron expressions as people write them: ranges that go round, and what is said of the others."""

from __future__ import annotations

import pytest

from duework import UsageError
from duework.shapes.schedules.cron import expression, read
from duework.shapes.schedules.cron_text import unwrapped
from duework.shapes.schedules.cron_words import cron_words


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("0 0 * * SAT-SUN", "0 0 * * 6,0"),
        ("0 0 * * fri-mon", "0 0 * * 5,6,0,1"),
        ("0 22-2 * * *", "0 22,23,0,1,2 * * *"),
        ("50-10/5 * * * *", "50,55,0,5,10 * * * *"),
        ("0 0 28-2 * *", "0 0 28,29,30,31,1,2 * *"),
        ("0 0 * NOV-FEB,6 *", "0 0 * 11,12,1,2,6 *"),
        ("0 50-5/5 0 * * *", "0 50,55,0,5 0 * * *"),
        ("0 9-17 * * MON-FRI", "0 9-17 * * MON-FRI"),
        ("0 0 * * 5-7", "0 0 * * 5-7"),
    ],
)
def test_ranges_may_go_round(text: str, plain: str) -> None:
    assert unwrapped(text) == plain
    assert read(expression(text)).hours


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("@reboot", "@reboot is no time"),
        ("@every 5m", "every='5m'"),
        ("@fortnightly", "there are @hourly"),
        ("0 0 ? * MON", "the day-of-month '?' has a ?: write *"),
        ("0 0 15W * *", "'15W' asks for the nearest weekday"),
        ("0 0 * * L", "the day-of-week 'L' has an L"),
        ("H 0 * * *", "only Jenkins knows"),
        ("61 * * * *", "the minute '61' is not of 0 to 59"),
        ("0 0 * FOO *", "the month 'FOO' is not of 1 to 12, or JAN"),
        ("*/0 * * * *", "'*/0' has a step of nothing"),
        ("1 2 3", "it has 3 of the five fields"),
    ],
)
def test_what_cannot_be_read_is_named_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(UsageError) as raised:
        read(expression(text))

    assert why in str(raised.value)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        *(("* * * * *", "every minute"), ("*/15 * * * *", "every 15 min")),
        *(("5,35 * * * *", "every hour at :05 and :35"), ("0 */6 * * *", "every 6 h at :00")),
        *(("41 3 * * *", "daily at 03:41"), ("0 9 * * MON-FRI", "weekdays at 09:00")),
        *(("30 7,19 * * 6,0", "weekends at 07:30 and 19:30"), ("0 9 * * 7", "Sundays at 09:00")),
        *(("0 0 1 * *", "day 1 of the month at 00:00"), ("*/5 * * * 1", "every 5 min on Mondays")),
    ],
)
def test_a_usual_expression_is_said_in_words(rule: str, words: str) -> None:
    assert cron_words(rule) == words


@pytest.mark.parametrize(
    "rule",
    [
        *("*/7 * * * *", "*/15 9 * * *", "0,30 9 * * *", "0 9 * 1 *", "0 9 1 * 1", "0 9 L * *"),
        *("0 9 * * 1#2", "0-59 * * * *", "1 2 3 4 5 6", "0 9 * * FRI-MON", "0 99 * * *"),
    ],
)
def test_what_has_no_short_words_is_left_as_it_was_written(rule: str) -> None:
    assert cron_words(rule) == f"cron {rule}"
