"""Spans and durations of attempts, for OpenTelemetry: `otel.instrument(app)`.

Names are those of its conventions for messaging, where it has any. Only its API is needed: where they go is
what the program has set up of an SDK, and without one nothing is recorded. A program that does not call this
imports nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from duework.clock import monotonic
from duework.errors import UsageError
from duework.kernel.outcomes import Fail, Outcome, Retry
from duework.kernel.run import Run

if TYPE_CHECKING:
    from duework.part import Part

SYSTEM = "duework"


class _Instruments(NamedTuple):
    trace: Any
    tracer: Any
    propagate: Any
    # How long attempts took, in seconds, and how many there were.
    took: Any
    consumed: Any


@cache
def _instruments() -> _Instruments:
    try:
        from opentelemetry import metrics, propagate, trace
    except ImportError as error:
        message = f"spans need {error.name}: pip install 'duework[otel]'"
        raise UsageError(message) from error
    meter = metrics.get_meter(SYSTEM)
    took = meter.create_histogram("messaging.process.duration", unit="s")
    consumed = meter.create_counter("messaging.client.consumed.messages", unit="{message}")
    return _Instruments(trace, trace.get_tracer(SYSTEM), propagate, took, consumed)


def headers() -> dict[str, str]:
    """The present trace, for jobs that belong to it: `task.using(headers=otel.headers())`."""
    carried: dict[str, str] = {}
    _instruments().propagate.inject(carried)
    return carried


def instrument(part: Part) -> None:
    """A span around each attempt of an App's tasks, or of a Part's, and how long each took."""
    _instruments()
    part.around(attempt)


@contextmanager
def attempt(run: Run) -> Iterator[None]:
    """The span of one attempt; it goes on with the trace that its job carries in its headers."""
    made, known, began = _instruments(), _about(run), monotonic()
    made.consumed.add(1, dict(known))
    with made.tracer.start_as_current_span(
        f"process {run.job.task}",
        context=made.propagate.extract(run.headers),
        kind=made.trace.SpanKind.CONSUMER,
        attributes={**known, **_of(run)},
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            yield
        except BaseException as error:
            if (kind := _failed(error)) is not None:
                known["error.type"] = kind
                span.set_attribute("error.type", kind)
                span.set_status(made.trace.Status(made.trace.StatusCode.ERROR, kind))
                span.record_exception(error)
            raise
        finally:
            made.took.record(monotonic() - began, known)


def _about(run: Run) -> dict[str, str]:
    """What measurements are told apart by: few values each."""
    return {
        "messaging.system": SYSTEM,
        "messaging.operation.name": "process",
        "messaging.destination.name": run.job.queue,
        "messaging.destination.template": run.job.task,
    }


def _of(run: Run) -> Mapping[str, str | int]:
    return {
        "messaging.operation.type": "process",
        "messaging.message.id": str(run.job.id),
        "duework.attempt": run.attempt,
    }


def _failed(error: BaseException) -> str | None:
    """What went wrong; None for outcomes that count no failure, and for what ends an attempt in peace."""
    if isinstance(error, Outcome) and not isinstance(error, (Fail, Retry)):
        return None
    if not isinstance(error, Exception):
        return None
    return f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
