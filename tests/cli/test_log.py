"""The words of logs: each fact has a line, and a line is one line whatever a job says."""

from __future__ import annotations

import io
import json
import logging
import typing
from collections.abc import Iterator

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
