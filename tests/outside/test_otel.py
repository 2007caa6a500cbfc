"""Spans and measurements of attempts, as an SDK of OpenTelemetry gets them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from duework import Run, Snooze, otel
from duework.testing import Harness, doomed

EXPORTER, READER = InMemorySpanExporter(), InMemoryMetricReader()


@pytest.fixture(scope="module", autouse=True)
def sdk() -> None:
    """A process has one of each, which is set once."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(EXPORTER))
    trace.set_tracer_provider(provider)
    metrics.set_meter_provider(MeterProvider([READER]))


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    EXPORTER.clear()
    yield EXPORTER
    EXPORTER.clear()


def points(name: str, queue: str) -> list[Any]:
    data: Any = READER.get_metrics_data()
    found = data.resource_metrics if data is not None else ()
    return [
        point
        for resource in found
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.name == name
        for point in metric.data.data_points
        if point.attributes["messaging.destination.name"] == queue
    ]


def test_each_attempt_is_a_span_under_the_names_of_messaging(
    harness: Harness, spans: InMemorySpanExporter
) -> None:
    otel.instrument(harness.app)
    before = consumed("crawl")

    @harness.app.task(retries=1, backoff="1s", queue="crawl")
    async def scan(run: Run, number: int) -> None:
        if run.attempt == 1:
            raise ValueError("no")

    job = scan.enqueue(1)
    harness.advance("1m")

    first, second = spans.get_finished_spans()
    assert (first.name, first.kind) == ("process scan", trace.SpanKind.CONSUMER)
    assert dict(first.attributes or {}) == {
        "messaging.system": "duework",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "crawl",
        "messaging.destination.template": "scan",
        "messaging.message.id": str(job.id),
        "duework.attempt": 1,
        "error.type": "ValueError",
    }
    assert first.status.status_code is trace.StatusCode.ERROR
    assert second.status.status_code is trace.StatusCode.UNSET
    assert consumed("crawl") == before + 2
    took = points("messaging.process.duration", "crawl")
    assert sorted(point.attributes.get("error.type", "") for point in took) == ["", "ValueError"]


def consumed(queue: str) -> int:
    """A counter goes on over all tests of a process."""
    return sum(point.value for point in points("messaging.client.consumed.messages", queue))


def test_a_job_goes_on_with_the_trace_that_it_was_enqueued_in(
    harness: Harness, spans: InMemorySpanExporter
) -> None:
    otel.instrument(harness.app)

    @harness.app.task
    def scan() -> None:
        with trace.get_tracer("mine").start_as_current_span("inside"):
            pass

    with trace.get_tracer("mine").start_as_current_span("request") as request:
        scan.using(headers=otel.headers()).enqueue()
    harness.drain()

    found = {span.name: span for span in spans.get_finished_spans()}
    attempt, inside = found["process scan"], found["inside"]
    assert attempt.parent is not None
    assert attempt.parent.span_id == request.get_span_context().span_id
    assert inside.parent is not None
    assert inside.parent.span_id == attempt.context.span_id
    assert {span.context.trace_id for span in (attempt, inside)} == {
        request.get_span_context().trace_id
    }


def test_an_outcome_and_a_step_that_waits_are_no_errors(
    harness: Harness, spans: InMemorySpanExporter
) -> None:
    otel.instrument(harness.app)

    @harness.app.task
    async def snoozes(run: Run) -> None:
        if run.now == start:
            raise Snooze("1m")

    @harness.app.task
    async def sleeps(run: Run) -> None:
        await run.sleep("1m")

    start = harness.now
    snoozes.enqueue()
    sleeps.enqueue()
    harness.advance("5m")

    found = spans.get_finished_spans()
    assert len(found) == 4
    assert {span.status.status_code for span in found} == {trace.StatusCode.UNSET}
    assert all(not span.events for span in found)


def test_a_commit_without_spans_has_no_statement_more(harness: Harness) -> None:
    @harness.app.task
    async def plain(run: Run) -> None: ...

    def counted() -> int:
        plain.enqueue()
        with doomed(harness.app.wiring.engine, 10**9) as fuse:
            harness.drain()
        return fuse.count

    counted()
    before = counted()
    otel.headers()

    assert counted() == before


def test_whoever_does_not_ask_for_it_does_not_import_it() -> None:
    text = "import sys, duework; print([m for m in sys.modules if m.startswith('opentelemetry')])"
    found = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)

    assert found.stdout == "[]\n"
