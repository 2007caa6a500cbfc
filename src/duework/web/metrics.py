"""`/metrics`: the text that Prometheus reads, by hand.

Counters are the sums of all time that workers keep in the database: they never fall, whichever process is
asked, and however many there are. Gauges are the rows of this moment, with counts that stop at 100,000.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from starlette.responses import Response

from duework import MetricPoint
from duework.health.activity import TaskTotals
from duework.health.status import Status, ours
from duework.kernel.minutes.counters import LAGS
from duework.web.visits import Visit

KIND = "text/plain; version=0.0.4; charset=utf-8"
# (name after `duework_` with its labels, number).
Sample = tuple[str, float]


def metrics(visit: Visit) -> Response:
    """Everything that there is to graph."""
    app = visit.app
    lines = [*_gauges(app.status(), len(app.needs())), *_counters(app.admin.totals())]
    lines += _users(app.metrics.totals())
    return Response("".join(f"{line}\n" for line in lines), headers={"content-type": KIND})


def _family(name: str, kind: str, words: str, samples: Iterable[Sample]) -> Iterator[str]:
    yield f"# HELP duework_{name} {words}"
    yield f"# TYPE duework_{name} {kind}"
    for sample, number in samples:
        yield f"duework_{sample} {number:.15g}"


def _users(points: list[MetricPoint]) -> Iterator[str]:
    """What the program counts of its own, under its own names."""
    for (name, kind), found in groupby(points, lambda each: (each.name, each.kind)):
        if kind == "counter":
            yield f"# TYPE {name}_total counter"
            yield from (f"{name}_total{_labels(**p.labels)} {p.total:.15g}" for p in found)
            continue
        yield f"# TYPE {name}_seconds summary"
        for each in found:
            yield f"{name}_seconds_sum{_labels(**each.labels)} {each.total:.15g}"
            yield f"{name}_seconds_count{_labels(**each.labels)} {each.count}"


def _labels(**labels: str) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _gauges(status: Status, needs: int) -> Iterator[str]:
    lines = [(line, _labels(queue=line.queue, task=line.task)) for line in ours(status)]
    for name, words in (
        ("ready", "Jobs that could start now, up to 100,000."),
        ("waiting", "Jobs that are due later, up to 100,000."),
        ("running", "Jobs that a worker holds."),
    ):
        samples = [(f"jobs_{name}{labels}", getattr(line, name)) for line, labels in lines]
        yield from _family(f"jobs_{name}", "gauge", words, samples)
    lags = [(f"lag_seconds{labels}", (line.lag or 0) / 1000) for line, labels in lines]
    yield from _family("lag_seconds", "gauge", "How long the oldest ready job has been due.", lags)
    paused = [(f"paused{labels}", float(line.paused)) for line, labels in lines]
    yield from _family("paused", "gauge", "1 where the queue, or everything, is paused.", paused)
    failed = [("jobs_failed", status.failed)]
    yield from _family("jobs_failed", "gauge", "Failed jobs that are kept, up to 100,000.", failed)
    alive = sum(worker.seen in {"alive", "elsewhere"} for worker in status.workers)
    yield from _family("workers", "gauge", "Workers that run.", [("workers", alive)])
    yield from _family("needs", "gauge", "Things that need somebody.", [("needs", needs)])


def _counters(totals: list[TaskTotals]) -> Iterator[str]:
    started = [(f"started_total{_of(each)}", each.counted.started) for each in totals]
    yield from _family("started_total", "counter", "Attempts that workers started.", started)
    # The same under the name that OpenTelemetry has for it.
    yield "# HELP messaging_client_consumed_messages_total Attempts that workers started."
    yield "# TYPE messaging_client_consumed_messages_total counter"
    for each in totals:
        labels = {"system": "duework", "destination_name": each.queue}
        labels["destination_template"] = each.task
        named = _labels(**{f"messaging_{name}": value for name, value in labels.items()})
        yield f"messaging_client_consumed_messages_total{named} {each.counted.started}"
    ended = [
        (f"ended_total{_of(each, outcome=outcome)}", getattr(each.counted, outcome))
        for each in totals
        for outcome in ("done", "failed", "cancelled", "retried")
    ]
    yield from _family("ended_total", "counter", "Attempts that ended, by outcome.", ended)
    words = "From due to start, of first attempts."
    lags = [sample for each in totals for sample in _histogram(each)]
    yield from _family("start_lag_seconds", "histogram", words, lags)


def _histogram(each: TaskTotals) -> Iterator[Sample]:
    seen = 0
    limits = [*(f"{limit / 1000:g}" for limit in LAGS), "+Inf"]
    for limit, count in zip(limits, each.counted.lags, strict=True):
        seen += count
        yield f"start_lag_seconds_bucket{_of(each, le=limit)}", seen
    yield f"start_lag_seconds_sum{_of(each)}", each.counted.lag / 1000
    yield f"start_lag_seconds_count{_of(each)}", seen


def _of(each: TaskTotals, **more: str) -> str:
    return _labels(queue=each.queue, task=each.task, **more)
