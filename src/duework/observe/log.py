"""The words of every log line, and the two forms they are printed in.

The kernel reports facts and says nothing; here a fact becomes a level, a stable event name, a sentence
and fields. Texts that come from jobs are escaped: a log line is always one line.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import TextIO

from duework.durations import human
from duework.kernel import facts
from duework.kernel.error_text import OURS, redact
from duework.kernel.outcomes import FailedPart, Outcome

logger = logging.getLogger("duework")

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")
# Of a trace this much is shown: innermost calls, last lines.
TRACE_FRAMES = -30
TRACE_LINES = 200
# So many jobs are named that a worker waits for.
NAMED = 5


@dataclass(frozen=True, slots=True)
class Stopping:
    """This process was asked to stop."""

    signal: str
    grace_ms: int
    at_once: bool
    # What runs, as task and job; and this process.
    holding: tuple[str, ...] = ()
    pid: int = 0


@dataclass(frozen=True, slots=True)
class ChildStarted:
    """A supervisor started one of its processes."""

    number: int
    pid: int


@dataclass(frozen=True, slots=True)
class ChildEnded:
    """A process of a supervisor ended that was not asked to; `code` is negative for a signal."""

    number: int
    pid: int
    code: int
    again_in: float | None


Reported = facts.Fact | facts.Traffic | Stopping | ChildStarted | ChildEnded


# The words of shapes' own facts, by the class of each: whoever knows the class may word it.
_LEARNT: dict[type, facts.Wording] = {}


def learn(words: Mapping[type, facts.Wording]) -> None:
    """Know the words of a shape's facts from now on."""
    _LEARNT.update(words)


def _of_shape(fact: facts.ShapeFact) -> facts.Words:
    if (wording := _LEARNT.get(type(fact))) is None:
        return facts.Words(logging.INFO, type(fact).__name__, repr(fact))
    return wording(fact)


def level(fact: Reported) -> int:
    """How much a fact matters; decided without making its words, but for those of shapes."""
    if isinstance(fact, facts.ShapeFact):
        return _of_shape(fact).level
    if isinstance(fact, Stopping):
        # A person waits: also beside a live view, where less than a warning is not shown.
        return logging.WARNING if fact.holding and fact.signal == "SIGINT" else logging.INFO
    if isinstance(fact, facts.JobSettled):
        return logging.WARNING if _goes_on(fact) else _SETTLED.get(fact.kind, logging.INFO)
    return _LEVELS.get(type(fact), logging.INFO)


_SETTLED = {
    # A line for each job would be most of what a busy worker does; see Traffic.
    "done": logging.DEBUG,
    "snooze": logging.DEBUG,
    "retry": logging.WARNING,
    "misfit": logging.WARNING,
    "failed": logging.ERROR,
    "crashed": logging.ERROR,
}
_LEVELS: dict[type, int] = {
    facts.JobStarted: logging.DEBUG,
    facts.LeaseRecovered: logging.WARNING,
    facts.LeaseWasLost: logging.WARNING,
    facts.ClockStepped: logging.WARNING,
    facts.JobStuck: logging.WARNING,
    facts.JobBlocked: logging.WARNING,
    facts.LoopBlocked: logging.WARNING,
    facts.UnknownTask: logging.WARNING,
    facts.LimitsDiffer: logging.WARNING,
    facts.Parked: logging.ERROR,
    ChildEnded: logging.WARNING,
}


def words(fact: Reported) -> facts.Words:  # noqa: C901, PLR0911, PLR0912 - one sentence for each fact
    """A fact as a level, an event and a sentence."""
    how = level(fact)
    match fact:
        case facts.WorkerStarted():
            text = f"worker {fact.worker} started: pid {fact.pid}, {fact.tasks} tasks"
            return facts.Words(how, "worker_started", text)
        case facts.WorkerStopped():
            back = f", {_jobs(fact.released)} handed back" if fact.released else ""
            return facts.Words(how, "worker_stopped", f"worker {fact.worker} stopped{back}")
        case facts.JobStarted():
            return facts.Words(how, "job_started", f"{_job(fact)} started, attempt {fact.attempt}")
        case facts.JobSettled():
            return facts.Words(how, "job_settled", _settled(fact))
        case facts.Traffic():
            return facts.Words(how, "traffic", _traffic(fact))
        case facts.LeaseWasLost():
            text = f"{_job(fact)} lost its lease: nothing of this attempt is written"
            return facts.Words(how, "lease_lost", text)
        case facts.LeaseRecovered():
            why = "died" if fact.crashed else "did not extend its lease in time"
            text = f"job {fact.job} is open again: worker {fact.worker} {why}"
            return facts.Words(how, "lease_recovered", text)
        case facts.JobStuck():
            text = f"{_job(fact)} did not stop ({fact.why}): its slot was given to others"
            return facts.Words(how, "job_stuck", text)
        case facts.JobBlocked():
            text = f"{_job(fact)} has ended and waits to be settled: {fact.why}"
            return facts.Words(how, "job_blocked", text)
        case facts.LoopBlocked():
            text = f"{fact.task} has blocked the event loop for {fact.seconds} s at {fact.where}"
            return facts.Words(how, "loop_blocked", text)
        case facts.ClockStepped():
            text = f"the clock was set by {fact.milliseconds:+} ms: no lease is taken over for now"
            return facts.Words(how, "clock_stepped", text)
        case facts.Parked():
            text = f"nothing can be written, no job is claimed: {fact.why}"
            return facts.Words(how, "parked", text)
        case facts.Resumed():
            return facts.Words(how, "resumed", "writing works again")
        case facts.UnknownTask():
            text = f"jobs of {fact.task} wait for a worker that knows this task; this one does not"
            return facts.Words(how, "unknown_task", text)
        case facts.LimitsDiffer():
            text = (
                f"{fact.name} is {fact.ours} here and {fact.theirs} in pid {fact.pid} on {fact.host}:"
                " the looser one rules until both run the same code"
            )
            return facts.Words(how, "limits_differ", text)
        case facts.ShapeFact():
            return _of_shape(fact)
        case Stopping():
            text = f"{fact.signal}: no more jobs are claimed, {_rest(fact)}"
            return facts.Words(how, "stopping", text)
        case ChildStarted():
            text = f"process {fact.number} started: pid {fact.pid}"
            return facts.Words(how, "child_started", text)
        case ChildEnded():
            return facts.Words(how, "child_ended", _ended(fact))


_OfJob = (
    facts.JobStarted | facts.JobSettled | facts.LeaseWasLost | facts.JobStuck | facts.JobBlocked
)


def _job(fact: _OfJob) -> str:
    return f"{fact.task} {fact.job}"


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count:,} jobs"


def _traffic(fact: facts.Traffic) -> str:
    later = f", {fact.put_off:,} put off" if fact.put_off else ""
    return f"{_jobs(fact.done)} done{later} in {human(fact.milliseconds)}"


def _settled(fact: facts.JobSettled) -> str:  # noqa: PLR0911 - one sentence for each kind
    took = human(fact.milliseconds)
    why = "" if fact.error is None else f": {fact.error.partition(chr(10))[0]}"
    match fact.kind:
        case "done":
            return f"{_job(fact)} done in {took}"
        case "retry":
            return f"{_job(fact)} failed after {took}, again {_at(fact.retry_at)}{why}"
        case "misfit":
            return f"{_job(fact)} is left to other workers, again {_at(fact.retry_at)}{why}"
        case "snooze":
            return f"{_job(fact)} put off, again {_at(fact.retry_at)}"
        case "failed" if _goes_on(fact):
            return f"{_job(fact)} failed after {took}, its delivery decides what comes next{why}"
        case "failed":
            return f"{_job(fact)} failed for good after {took}{why}"
        case "released":
            return f"{_job(fact)} handed back"
        case _:
            return f"{_job(fact)} {fact.kind} after {took}{why}"


def _goes_on(fact: facts.JobSettled) -> bool:
    """Whether what failed is a part of another job, which may have it done again."""
    return fact.kind == "failed" and isinstance(fact.exception, FailedPart)


def _at(when: int | None) -> str:
    if when is None:
        return "later"
    return "at " + datetime.fromtimestamp(when / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _rest(fact: Stopping) -> str:
    """What a worker that stops waits for, and how to wait no longer."""
    if not fact.holding:
        return "and none runs"
    named = ", ".join(fact.holding[:NAMED])
    more = f" and {len(fact.holding) - NAMED} more" if len(fact.holding) > NAMED else ""
    if fact.at_once:
        harder = f"; should it not end, `kill -9 {fact.pid}` loses nothing"
        return f"what runs is handed back now: {named}{more}{harder}"
    grace = human(fact.grace_ms)
    return f"{named}{more} may take {grace} to finish; the same again hands back what runs at once"


def _ended(fact: ChildEnded) -> str:
    how = f"was killed by signal {-fact.code}" if fact.code < 0 else f"exited with {fact.code}"
    if fact.again_in is None:
        return f"process {fact.number} (pid {fact.pid}) {how}: all are stopped"
    when = "at once" if not fact.again_in else f"in {fact.again_in:g} s"
    return f"process {fact.number} (pid {fact.pid}) {how}: it is replaced {when}"


def logs_each() -> bool:
    """Whether each job that starts and goes well has a line of its own."""
    return logger.isEnabledFor(logging.DEBUG)


def report(fact: Reported) -> None:
    """Log a fact, with the trace of what failed; every worker does, also inside another program."""
    if not logger.isEnabledFor(level(fact)):
        return
    line, raised, trace = words(fact), None, ""
    if isinstance(fact, facts.JobSettled):
        raised, trace = _raised(fact), _trace(fact)
    record = logger.makeRecord(
        logger.name,
        line.level,
        __file__,
        0,
        "%s",
        (escaped(line.text),),
        None if raised is None else (type(raised), raised, raised.__traceback__),
        extra={"event": line.event, "fact": fact},
    )
    # What formatters print; the exception itself, which may hold secrets, is for handlers that ask for it.
    record.exc_text = trace or None
    logger.handle(record)


def _raised(fact: facts.JobSettled) -> BaseException | None:
    """What went wrong; an outcome that was raised is a decision, unless it was raised from an error."""
    error = fact.exception
    return error.__cause__ if isinstance(error, Outcome) else error


def _trace(fact: facts.JobSettled) -> str:
    """The whole trace, of what was raised here; else as much as was stored."""
    error, text = _raised(fact), (fact.error or "").partition("\n")[2]
    if error is not None and (error.__traceback__ or error.__cause__):
        try:
            trace = _theirs(error.__traceback__)
            text = "".join(
                traceback.format_exception(type(error), error, trace, limit=TRACE_FRAMES)
            )
        except Exception:  # noqa: BLE001 - an error that cannot be shown; what is stored could be
            text = text or ""
    lines = text.rstrip().split("\n")[-TRACE_LINES:]
    return "\n".join(escaped(redact(each)) for each in lines)


def _theirs(trace: TracebackType | None) -> TracebackType | None:
    """Without the calls by which we came to the task."""
    while trace is not None and trace.tb_next is not None:
        if not OURS.search(trace.tb_frame.f_code.co_filename):
            break
        trace = trace.tb_next
    return trace


def escaped(text: str) -> str:
    """Without anything that a terminal would obey: control characters, newlines, text direction."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class TextForm(logging.Formatter):
    """For people: time, level, sentence."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S.%f")[:-3]
        name = "" if record.name == "duework" else f"{record.name}: "
        line = f"{when} {record.levelname:<7} {escaped(name + record.getMessage())}"
        trace = _trace_of(record, self).splitlines()
        return "\n".join([line, *(f"    {escaped(each)}" for each in trace)])


class JsonForm(logging.Formatter):
    """For machines: one object per line; ids are texts, since they exceed 2**53."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {
            "time": when.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": getattr(record, "event", "log"),
            "message": record.getMessage(),
        }
        fact = getattr(record, "fact", None)
        if fact is not None:
            line |= _fields(fact)
        if trace := _trace_of(record, self):
            line["trace"] = trace
        return json.dumps(line, default=str)


def _trace_of(record: logging.LogRecord, form: logging.Formatter) -> str:
    if record.exc_text or not record.exc_info:
        return record.exc_text or ""
    return form.formatException(record.exc_info)


def _fields(fact: Reported) -> dict[str, object]:
    """What a fact says, without the exception, which has a trace instead."""
    if not is_dataclass(fact):
        return {}
    names = [each.name for each in fields(fact) if each.name != "exception"]
    found = {name: getattr(fact, name) for name in names}
    return {key: str(v) if key in {"job", "worker", "id"} else v for key, v in found.items()}


def configure(how_much: str, form: str, stream: TextIO | None = None) -> None:
    """Print the logs of this process, ours and those of the user's own code."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonForm() if form == "json" else TextForm())
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    chosen = getattr(logging, how_much.upper())
    root.setLevel(max(chosen, logging.INFO))
    logger.setLevel(chosen)
