"""The words of logs: each fact has a line, and a line is one line whatever a job says."""

from __future__ import annotations

import io
import json
import logging
import typing
from collections.abc import Iterator
from typing import Any

import pytest

from duework import facts
from duework.observe import log
from duework.shapes.outboxes import SHAPE

HOSTILE = "bad\x1b[31m\nsecond line\r\u202e"

SAMPLES: tuple[log.Reported, ...] = (
    facts.WorkerStarted(7, 42, 3),
    facts.WorkerStopped(7, 2),
    facts.JobStarted(2**60, "greet", 1),
    facts.JobSettled(2**60, "greet", "done", 12),
    facts.Traffic(1200, 1, 1000),
    facts.LeaseWasLost(1, "greet"),
    facts.LeaseRecovered(1, 7, crashed=True),
    facts.JobStuck(1, "greet", "it ran longer than its timeout of 1s"),
    facts.JobBlocked(1, "greet", "another transaction held a lock for too long"),
    facts.LoopBlocked("greet", 1.5, "shop.py:3 in greet"),
    facts.ClockStepped(-3_600_000),
    facts.Parked("the disk is full"),
    facts.Resumed(),
    facts.UnknownTask("other"),
    facts.LimitsDiffer("task greet", "concurrency 1", "concurrency 4", 42, "here"),
    facts.MessageMoved("email", 7, "failed", "bounced"),
    facts.ShapeFact(),
    log.Stopping("SIGTERM", 25_000, at_once=False),
    log.ChildStarted(1, 42),
    log.ChildEnded(1, 42, -9, 0.5),
)


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """Logs as JSON at the lowest level; what the test runner had set is put back."""
    root, ours = logging.getLogger(), logging.getLogger("duework")
    before = root.handlers[:], root.level, ours.level
    stream = io.StringIO()
    log.configure("debug", "json", stream)
    log.learn(SHAPE.words())
    yield stream
    root.handlers[:], root.level = before[0], before[1]
    ours.setLevel(before[2])
    root.setLevel(before[1])


def test_every_fact_has_a_sample() -> None:
    ours = {type(each) for each in SAMPLES if not isinstance(each, facts.MessageMoved)}

    assert ours == set(typing.get_args(log.Reported))


@pytest.mark.parametrize("fact", SAMPLES, ids=lambda fact: type(fact).__name__)
def test_each_fact_is_one_json_line_with_its_fields(fact: log.Reported, lines: io.StringIO) -> None:
    log.report(fact)

    [line] = [json.loads(each) for each in lines.getvalue().splitlines()]
    assert {"time", "level", "logger", "event", "message"} <= line.keys()
    assert all(isinstance(line[key], str) for key in ("job", "worker") if key in line)


def test_an_error_of_a_job_cannot_break_out_of_its_line() -> None:
    fact = facts.JobSettled(1, "greet", "failed", 5, HOSTILE)
    record = logging.LogRecord("duework", 40, "", 0, log.words(fact).text, (), None)

    line = log.TextForm().format(record)

    assert line.isprintable()
    assert "\\x1b[31m" in line


def test_a_job_that_fails_for_good_is_an_error_and_a_retry_a_warning() -> None:
    assert log.level(facts.JobSettled(1, "t", "failed", 1)) == logging.ERROR
    assert log.level(facts.JobSettled(1, "t", "retry", 1)) == logging.WARNING
    assert log.level(facts.JobSettled(1, "t", "done", 1)) == logging.DEBUG
    assert log.level(facts.JobSettled(1, "t", "cancelled", 1)) == logging.INFO
    assert log.level(facts.Traffic(1, 0, 1000)) == logging.INFO


def test_what_went_well_is_summed_up_in_a_sentence() -> None:
    assert log.words(facts.Traffic(1200, 0, 1000)).text == "1,200 jobs done in 1s"
    assert log.words(facts.Traffic(1, 2, 900)).text == "1 job done, 2 put off in 900ms"


def test_what_a_user_logs_is_printed_in_the_same_form(lines: io.StringIO) -> None:
    logging.getLogger("shop").info("sold %s", HOSTILE)

    line = json.loads(lines.getvalue())
    assert (line["logger"], line["event"], line["message"]) == ("shop", "log", f"sold {HOSTILE}")


def test_a_worker_that_stops_says_what_it_waits_for_and_how_to_stop_harder() -> None:
    running = tuple(f"greet {number}" for number in range(7))

    first = log.words(log.Stopping("SIGINT", 25_000, at_once=False, holding=running, pid=42))
    again = log.words(log.Stopping("SIGINT", 25_000, at_once=True, holding=running[:1], pid=42))
    idle = log.words(log.Stopping("SIGINT", 25_000, at_once=False))

    assert first.text == (
        "SIGINT: no more jobs are claimed, greet 0, greet 1, greet 2, greet 3, greet 4 and 2 more"
        " may take 25s to finish; the same again hands back what runs at once"
    )
    assert first.level == logging.WARNING
    assert again.text.endswith("now: greet 0; should it not end, `kill -9 42` loses nothing")
    assert idle.text == "SIGINT: no more jobs are claimed, and none runs"
    assert idle.level == logging.INFO


@pytest.mark.parametrize("kind", ["done", "snooze"])
def test_a_job_that_goes_well_has_a_line_at_debug_alone(kind: Any) -> None:
    assert log.words(facts.JobSettled(1, "greet", kind, 5)).level == logging.DEBUG
    assert log.words(facts.Traffic(1, 0, 1000)).level == logging.INFO
