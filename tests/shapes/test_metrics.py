"""Metrics of users: counted with commits that are made anyway, by minute, hour and day."""

from __future__ import annotations

import logging

import pytest

from duework import App, DatabaseError, UsageError
from duework.kernel.minutes.series import MOST_SERIES
from duework.testing import Harness, doomed
from tests.support.checks import is_sound

HOUR = 3_600_000


def test_what_tasks_count_is_summed_by_minute_hour_and_day(harness: Harness) -> None:
    @harness.app.task
    async def scan(found: int) -> None:
        harness.app.metrics.add("apps_found", found, phase="scan")

    start = harness.now
    for _ in range(3):
        scan.enqueue(10)
        harness.drain()
        scan.enqueue(2)
        harness.advance("40m")
    harness.app.metrics.flush()

    minutes = harness.app.metrics.read("apps_found")
    hours = harness.app.metrics.read("apps_found", "hour")
    [day] = harness.app.metrics.read("apps_found", "day")
    [total] = harness.app.metrics.totals()
    assert [(each.start - start, each.total) for each in minutes] == [
        (0, 12),
        (40 * 60_000, 12),
        (80 * 60_000, 12),
    ]
    assert [(each.start - start, each.count, each.total) for each in hours] == [
        (0, 4, 24),
        (HOUR, 2, 12),
    ]
    assert (day.total, day.most, day.labels) == (36, 10, {"phase": "scan"})
    assert (total.start, total.kind, total.count, total.total) == (0, "counter", 6, 36)
    assert len(harness.app.metrics.read("apps_found", since=start + HOUR)) == 1
    is_sound(harness)


def test_a_commit_without_metrics_has_no_statement_more_and_one_with_them_has_one(
    harness: Harness,
) -> None:
    @harness.app.task
    async def page() -> None: ...

    page.enqueue()
    engine = harness.app.wiring.engine

    def statements() -> int:
        with doomed(engine, 10_000) as fuse:
            engine.writer.before_commit = engine._last_writes  # noqa: SLF001 - as the real one has
            page.enqueue()
        return fuse.count

    before = statements()
    harness.app.metrics.add("pages")
    harness.app.metrics.add("pages", url="x")
    with_them = statements()
    after = statements()

    assert with_them == before + 1
    assert after == before
    assert sum(each.total for each in harness.app.metrics.totals()) == 2


def test_many_that_are_counted_within_a_second_are_written_together(harness: Harness) -> None:
    @harness.app.task
    async def page() -> None:
        harness.app.metrics.add("pages")

    for _ in range(5):
        page.enqueue()
        harness.drain()
    assert harness.app.metrics.totals()[0].total <= 5
    harness.advance("2s")
    page.enqueue()
    harness.drain()
    harness.app.metrics.flush()
    harness.app.metrics.flush()

    assert harness.app.metrics.totals()[0].total == 6


def test_timings_have_a_sum_a_count_and_the_longest(harness: Harness) -> None:
    harness.app.metrics.time("fetch", 0.5, host="a")
    harness.app.metrics.time("fetch", 1.5, host="a")
    with pytest.raises(ValueError, match="no"), harness.app.metrics.timer("fetch", host="b"):
        raise ValueError("no")
    harness.app.metrics.flush()

    first, second = harness.app.metrics.totals()
    assert (first.count, first.total, first.most) == (2, 2.0, 1.5)
    assert (second.labels, second.count) == ({"host": "b"}, 1)


def test_what_is_counted_and_timed_under_one_name_is_one_sum(harness: Harness) -> None:
    harness.app.metrics.add("pages", 2)
    harness.app.metrics.time("pages", 3)
    harness.app.metrics.add("others")
    harness.app.metrics.flush()

    found = [
        (each.name, each.kind, each.count, each.total) for each in harness.app.metrics.totals()
    ]
    assert found == [("others", "counter", 1, 1), ("pages", "counter", 2, 5)]


def test_old_rows_are_deleted_span_by_span_and_the_sums_stay(harness: Harness) -> None:
    harness.app.wiring.arm_housekeeping()
    harness.app.metrics.add("pages")
    harness.app.metrics.flush()

    harness.advance("3d")
    assert harness.app.metrics.read("pages") == []
    assert len(harness.app.metrics.read("pages", "hour")) == 1
    harness.clock.move_to(harness.now + 900 * 24 * HOUR)
    harness.drain()

    assert harness.app.metrics.read("pages", "hour") == []
    assert harness.app.metrics.read("pages", "day") == []
    assert harness.app.metrics.totals()[0].total == 1


def test_what_is_left_is_written_when_an_app_closes(url: str) -> None:
    app = App(url)
    app.metrics.add("pages", 3)
    app.close()

    again = App(url)
    assert again.metrics.totals()[0].total == 3
    again.close()


def test_what_a_transaction_that_is_undone_has_taken_along_is_written_with_the_next(
    harness: Harness,
) -> None:
    metrics = harness.app.metrics
    metrics.add("pages")
    with pytest.raises(DatabaseError), harness.app.transaction() as tx:
        tx.write("insert into no_such_table values (1)")
    metrics.flush()
    metrics.flush()

    assert metrics.totals()[0].total == 1


def test_metrics_that_cannot_be_written_lose_no_job(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    @harness.app.task
    async def page() -> None:
        harness.app.metrics.add("pages")

    with harness.app.transaction() as tx:
        tx.write("alter table duework_metric rename to duework_metric_gone")
    with caplog.at_level(logging.ERROR, "duework"):
        jobs = [page.enqueue() for _ in range(3)]
        harness.advance("5s")
        after = [page.enqueue() for _ in range(3)]
        harness.advance("5s")

    assert {harness.app.job(job.id).state for job in (*jobs, *after)} == {"done"}
    assert len([r for r in caplog.records if "metrics cannot be written" in r.message]) == 1
    with harness.app.transaction() as tx:
        tx.write("alter table duework_metric_gone rename to duework_metric")


def test_too_many_series_are_counted_without_their_labels(harness: Harness) -> None:
    for number in range(MOST_SERIES + 5):
        harness.app.metrics.add("pages", url=number)
    harness.app.metrics.flush()

    found = harness.app.metrics.totals(limit=MOST_SERIES + 10)
    assert len(found) == MOST_SERIES + 1
    assert [each.total for each in found if each.labels == {}] == [5]


def test_what_cannot_be_counted_is_refused(harness: Harness) -> None:
    metrics = harness.app.metrics
    for name in ("", "a b", "duework_x", "7", 7):
        with pytest.raises(UsageError, match="metric's name"):
            metrics.add(name)  # type: ignore[arg-type]
    for value in (-1, float("nan"), float("inf"), "1", True):
        with pytest.raises(UsageError, match="numbers from 0 up"):
            metrics.add("pages", value)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="a label is"):
        metrics.add("pages", url="x" * 201)
    with pytest.raises(UsageError, match="at most 10"):
        metrics.add("pages", **{f"l{number}": 1 for number in range(11)})
    with pytest.raises(UsageError, match="span"):
        metrics.read("pages", "week")  # type: ignore[arg-type]
    assert metrics.totals() == []
