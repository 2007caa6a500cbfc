"""Pure rules: back-off, times as people write them, channels."""

from __future__ import annotations

from typing import Any

import pytest

from duework import Secret, UsageError
from duework.durations import milliseconds
from systems.reminders.fire import fire
from systems.reminders.part import part
from systems.reminders.rules import (
    NewReminder,
    chosen_channels,
    rule_of,
    timing,
    webhook_id,
)
from systems.reminders.settings import Settings
from systems.reminders.words import read_when

NOW = 1_772_438_400_000


@pytest.mark.rows("003-16", "003-36")
def test_the_next_attempt_is_due_by_the_failures_before_it() -> None:
    waits = [fire.definition.delay(retry, 0.5) for retry in (1, 2, 3, 4, 10)]

    assert waits == [60_000, 300_000, 1_800_000, 1_800_000, 1_800_000]


@pytest.mark.rows("003-15", "003-T1")
def test_the_fourth_failure_is_the_last_so_that_thirty_minutes_are_reached() -> None:
    assert fire.definition.policy.retries == part.settings.retries == len(part.settings.backoff)
    assert fire.definition.delay(part.settings.retries, 0.5) == milliseconds("30m")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("2026-11-18T09:00", {"at": "2026-11-18T09:00"}),
        ("2026-11-18 09:00+01:00", {"at": "2026-11-18 09:00+01:00"}),
        ("0 9 * * MON-FRI", {"cron": "0 9 * * MON-FRI"}),
        ("  0   9 * * * ", {"cron": "0 9 * * *"}),
        ("@daily", {"cron": "@daily"}),
        ("freq=weekly;byday=mo", {"rrule": "FREQ=WEEKLY;BYDAY=MO"}),
        ("every 3h", {"every": "3h"}),
        ("every 90 m", {"every": "90m"}),
        ("10m", {"every": "10m"}),
    ],
)
def test_one_line_is_read_as_a_time_or_a_rule(text: str, meant: dict[str, str]) -> None:
    assert read_when(text) == meant


@pytest.mark.parametrize("text", ["", "soon", "every", "9", "0 9 * *", "every day", "2026-13-01"])
def test_what_is_neither_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="write 2026-11-18T09:00"):
        read_when(text)


@pytest.mark.rows("003-28")
def test_a_one_shot_has_no_rule() -> None:
    assert rule_of({"at": "2026-11-18T09:00"}) is None
    assert rule_of({"cron": "0 9 * * *"}) == "cron 0 9 * * *"


@pytest.mark.rows("003-T4", "003-T6")
@pytest.mark.parametrize(
    ("given", "why"),
    [
        (((), "a@b.example", None), "needs a channel"),
        ((None, None, None), "needs a channel"),
        ((("fax",), "a@b.example", None), "no channel 'fax'"),
        ((("email", "webhook"), "a@b.example", None), "needs endpoint"),
        ((("email",), None, "ep"), "needs email"),
        ((None, "a@b", None), "not an e-mail address"),
        ((None, "a b@c.example", None), "not an e-mail address"),
        ((None, "a@b.example\r\nbcc: x@y.example", None), "not an e-mail address"),
    ],
)
def test_no_channel_an_unknown_one_and_one_without_an_address_are_refused(
    given: Any, why: str
) -> None:
    with pytest.raises(UsageError, match=why):
        chosen_channels(*given)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "say when"),
        ({"at": "2026-11-18T09:00", "cron": "0 9 * * *"}, "in one way"),
        ({"at": "tomorrow"}, "at is a time"),
        ({"at": "2020-01-01T00:00"}, "is over"),
        ({"cron": "0 9 * * *", "zone": "Mars/Olympus"}, "no zone"),
        ({"cron": "0 9 * * *", "zone": "../etc"}, "no zone"),
    ],
)
def test_times_that_cannot_be_meant_are_refused(given: dict[str, str], why: str) -> None:
    new = NewReminder(title="x", **given)  # type: ignore[arg-type]

    with pytest.raises(UsageError, match=why):
        timing(new, new.zone, NOW)


def test_the_id_of_a_webhook_has_no_dots() -> None:
    assert webhook_id("reminders.fire:7:webhook") == "reminders~fire:7:webhook"


def test_loopback_receivers_are_let_through_only_while_the_mail_provider_is_a_twin() -> None:
    assert Settings().allowed == ("127.0.0.0/8",)
    live = Settings(resend_url="https://api.resend.com", resend_key=Secret("re_x"))
    assert live.allowed == ()
    assert Settings(allow=("10.7.0.0/16",)).allowed == ("10.7.0.0/16",)


def test_a_limit_of_time_above_ten_seconds_is_refused() -> None:
    with pytest.raises(ValueError, match="timeout_ms"):
        Settings(timeout_ms=10_001)
