"""Arguments and results: typed by the annotations, checked at enqueue and at run."""

from __future__ import annotations

import enum
import uuid
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pytest

from duework import InvalidArguments, Run, UsageError
from duework.testing import Harness


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: int = 0


class Shape(msgspec.Struct):
    corners: list[Point]
    colour: Colour = Colour.RED


class Options(TypedDict, total=False):
    deep: bool


VALUES: list[tuple[Any, Any]] = [
    (int, 2**63 - 1),
    (int, -(2**63)),
    (int, 2**64),
    (Any, 10**400),
    (Annotated[str, "for people"], "x"),
    (float, 1.5),
    (bool, True),
    (str, "é\0\n\u2028😀"),
    (bytes, b"\x00\xff"),
    (None, None),
    (str | None, None),
    (int | str, "7"),
    (list[int], [1, 2]),
    (tuple[int, str], (1, "a")),
    (set[int], {1, 2}),
    (dict[str, float], {"a": 1.0}),
    (Literal["a", "b"], "b"),
    (datetime, datetime(2026, 3, 29, 1, tzinfo=UTC)),
    (date, date(2026, 3, 29)),
    (timedelta, timedelta(hours=1)),
    (uuid.UUID, uuid.UUID(int=7)),
    (Decimal, Decimal("1.10")),
    (Colour, Colour.BLUE),
    (Point, Point(1, 2)),
    (Shape, Shape([Point(1)], Colour.BLUE)),
    (Options, {"deep": True}),
    (Any, {"a": [1, None, "x"]}),
    (Annotated[int, msgspec.Meta(gt=0)], 1),
]


def test_values_of_every_kind_arrive_as_they_were_sent(harness: Harness) -> None:
    received: dict[int, Any] = {}
    jobs = []
    for number, (kind, value) in enumerate(VALUES):

        def echo(run: Run, number: int, value: Any) -> Any:
            received[number] = value
            return value

        echo.__annotations__ = {"run": Run, "number": int, "value": kind, "return": kind}
        task = harness.app.task(name=f"echo{number}")(echo)
        jobs.append(task.enqueue(number, value))
    harness.drain()

    expected = {number: value for number, (_, value) in enumerate(VALUES)}
    assert [job.refresh().error for job in jobs] == [None] * len(jobs)
    assert received == expected
    assert {number: job.refresh().result for number, job in enumerate(jobs)} == expected


def test_parameters_of_every_kind_are_bound_as_in_a_call(harness: Harness) -> None:
    calls: list[Any] = []

    @harness.app.task
    def work(a: int, /, b: int, *rest: int, c: int = 3, **more: str) -> None:
        calls.append((a, b, rest, c, more))

    work.enqueue(1, 2)
    work.enqueue(1, b=2, c=4)
    work.enqueue(1, 2, 5, 6, c=7, d="x")
    harness.drain()

    assert sorted(calls, key=str) == sorted(
        [(1, 2, (), 3, {}), (1, 2, (), 4, {}), (1, 2, (5, 6), 7, {"d": "x"})], key=str
    )


def test_defaults_are_those_of_the_code_that_runs_and_need_not_be_data(harness: Harness) -> None:
    marker = object()
    seen: list[object] = []

    @harness.app.task
    def work(given: Any = marker) -> None:
        seen.append(given)

    job = work.enqueue()
    harness.drain()

    assert seen == [marker]
    assert job.arguments == {}


WRONG: list[tuple[Any, Any]] = [
    (int, "7"),
    (int, 7.5),
    (int, True),
    (str, 7),
    (str, "\ud800"),
    (float, float("nan")),
    (float, float("inf")),
    (bool, 1),
    (list[int], ["a"]),
    (Literal["a"], "b"),
    (Colour, "green"),
    (Point, {"x": "one"}),
    (datetime, "yesterday"),
    (uuid.UUID, "seven"),
    (Annotated[int, msgspec.Meta(gt=0)], 0),
    (Any, object()),
    (Any, Path()),
    (Any, {1, object()}),
    (Any, lambda: None),
    (Any, "\ud800"),
]


def test_values_that_do_not_fit_name_their_argument_and_nothing_is_written(
    harness: Harness,
) -> None:
    for number, (kind, value) in enumerate(WRONG):

        def take(first: int, value: Any) -> None: ...

        take.__annotations__ = {"first": int, "value": kind, "return": None}
        task = harness.app.task(name=f"take{number}")(take)
        named = "value|payload of"
        with pytest.raises(InvalidArguments, match=named):
            task.enqueue(1, value)

    assert harness.app.jobs() == []


def test_data_nested_without_end_is_refused(harness: Harness) -> None:
    @harness.app.task
    def take(value: Any) -> None: ...

    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    round_: list[Any] = []
    round_.append(round_)

    for value in (deep, round_):
        with pytest.raises(InvalidArguments):
            take.enqueue(value)
    # Taken apart level by level: the interpreter would recurse.
    while deep:
        deep = deep[0]
    assert harness.app.jobs() == []


def test_brackets_inside_texts_are_no_nesting(harness: Harness) -> None:
    @harness.app.task
    def take(value: Any) -> Any:
        return value

    job = take.enqueue('[{"\\"' * 500)
    harness.drain()

    assert job.refresh().result == '[{"\\"' * 500


def test_hostile_payloads_in_the_row_fail_their_job_and_run_nothing(harness: Harness) -> None:
    ran: list[object] = []

    @harness.app.task
    def take(value: str) -> None:
        ran.append(value)

    hostile = [
        "[" * 100_000 + "]" * 100_000,
        '{"value":' + "[" * 100_000,
        "cos\nsystem\n(S'true'\ntR.",
        '{"__class__":"os.system","value":"x","more":1}',
        '{"value":NaN}',
        '{"value":' + "9" * 5000 + "}",
        "",
        "null",
    ]
    jobs = [take.enqueue("fine") for _ in hostile]
    from duework.codec import checksum

    with harness.app.transaction() as tx:
        for job, text in zip(jobs, hostile, strict=True):
            tx.write(
                "update duework_job set payload = :p, checksum = :c where id = :id",
                p=text,
                c=checksum(job.id, "take", text),
                id=job.id,
            )
    last = take.enqueue("fine")
    # A worker of another version might know what they are: it has an hour for that.
    harness.advance("2h")

    assert {job.refresh().state for job in jobs} == {"failed"}
    assert all(job.refresh().error for job in jobs)
    assert last.refresh().state == "done"
    assert ran == ["fine"]


def test_a_signature_that_cannot_be_stored_is_refused_when_it_is_registered(
    harness: Harness,
) -> None:
    with pytest.raises(UsageError, match="annotations"):

        @harness.app.task
        def work(value: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821
