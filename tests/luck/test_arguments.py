"""What may and may not be enqueued: typed errors that name the argument, and nothing written."""

import enum
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

import msgspec
import pytest

from duework import App, InvalidArguments, PayloadTooLarge, UsageError
from duework.codec import DEPTH_LIMIT, PAYLOAD_LIMIT
from duework.testing import Harness


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Address:
    street: str
    number: int


class Order(msgspec.Struct):
    id: UUID
    to: Address


class Model:
    """What pydantic's models look like from outside."""

    def __init__(self, size: int) -> None:
        self.size = size

    def model_dump(self, mode: str) -> dict[str, Any]:
        return {"size": self.size}

    @classmethod
    def model_validate(cls, value: Any) -> "Model":
        if not isinstance(value, dict) or not isinstance(value.get("size"), int):
            raise ValueError("size is a whole number")  # noqa: TRY004 - as pydantic does
        return cls(value["size"])


class Moody(Model):
    @classmethod
    def model_validate(cls, value: Any) -> "Moody":
        raise KeyError("not today")


def define(app: App) -> dict[str, Any]:
    @app.task
    def plain(name: str, count: int = 1) -> None: ...

    @app.task
    def nested(items: list[int], by_name: dict[str, list[Address]]) -> None: ...

    @app.task
    def positional(a: int, /, b: int, *, c: int) -> None: ...

    @app.task
    def variadic(first: int, *rest: int, **named: str) -> None: ...

    @app.task
    def optional(value: int | None, kind: Literal["a", "b"] = "a") -> None: ...

    @app.task
    def modelled(model: Model) -> None: ...

    @app.task
    def moody(model: Moody) -> None: ...

    @app.task
    def anything(value: Any) -> None: ...

    @app.task
    def nothing() -> None: ...

    return {task.name: task for task in list(locals().values()) if hasattr(task, "definition")}


MISFITS: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("plain", (7,), {}, "argument `name`"),
    ("plain", (b"ada",), {}, "argument `name`"),
    ("plain", (datetime.now(UTC),), {}, "argument `name`"),
    ("plain", (UUID(int=1),), {}, "argument `name`"),
    ("plain", ("ada", "many"), {}, "argument `count`"),
    ("plain", ("ada", True), {}, "argument `count`"),
    ("plain", ("ada", 1.5), {}, "argument `count`"),
    ("plain", (None,), {}, "argument `name`"),
    ("plain", (), {}, "name"),
    ("plain", (), {"count": 2}, "name"),
    ("plain", ("ada", 1, 2), {}, "too many"),
    ("plain", ("ada",), {"colour": 1}, "colour"),
    ("plain", ("ada",), {"name": "eve"}, "name"),
    ("nested", ([1, "2"], {}), {}, "argument `items[1]`"),
    ("nested", ([], {"x": [{"street": "s"}]}), {}, "number"),
    ("nested", ([], {"x": [Address("s", "1")]}), {}, "number"),  # type: ignore[arg-type]
    ("positional", (), {"a": 1, "b": 2, "c": 3}, "a"),
    ("positional", (1, 2, 3), {}, "too many"),
    ("positional", (1, 2), {}, "c"),
    ("positional", (1, 2), {"c": "x"}, "argument `c`"),
    ("variadic", (1, 2, "x"), {}, "argument `rest[1]`"),
    ("variadic", (1,), {"note": 5}, "argument `named"),
    ("optional", ("x",), {}, "argument `value`"),
    ("optional", (None, "c"), {}, "argument `kind`"),
    ("modelled", ({"size": "wide"},), {}, "argument `model`"),
    ("modelled", (Address("s", 1),), {}, "model"),
    ("moody", ({"size": 1},), {}, "not today"),
    ("anything", (object(),), {}, "object"),
    ("anything", (lambda: 1,), {}, "function"),
    ("anything", (float("nan"),), {}, "NaN"),
    ("anything", ([1, {"x": float("inf")}],), {}, "NaN"),
    ("anything", ("\ud800",), {}, "surrogate"),
    ("nothing", (1,), {}, "too many"),
]


@pytest.mark.parametrize(("task", "args", "kwargs", "named"), MISFITS)
def test_an_argument_that_does_not_fit_is_named_and_nothing_is_written(
    harness: Harness, task: str, args: tuple[Any, ...], kwargs: dict[str, Any], named: str
) -> None:
    tasks = define(harness.app)

    with pytest.raises(InvalidArguments) as raised:
        tasks[task].enqueue(*args, **kwargs)

    assert task in str(raised.value)
    assert named in str(raised.value)
    assert harness.app.jobs() == []


def test_one_misfit_of_many_writes_none_of_them(harness: Harness) -> None:
    tasks = define(harness.app)

    with pytest.raises(InvalidArguments):
        tasks["plain"].enqueue_many([("ada",), (7,), ("eve",)])
    with pytest.raises(UsageError, match="tuples"):
        tasks["plain"].enqueue_many(["ada"])
    with pytest.raises(InvalidArguments), harness.app.transaction() as tx:  # noqa: PT012 - a block
        tx.enqueue(tasks["plain"], "ada")
        tx.enqueue(tasks["plain"], 7)

    assert harness.app.jobs() == []


ROUND_TRIPS: list[tuple[Any, Any]] = [
    (int, 2**80),
    (float, 0.1),
    (float, 3),
    (bool, True),
    (str, "a\0b \N{SNOWMAN} \x1b[31m <script>"),
    (bytes, b"\x00\xff"),
    (Decimal, Decimal("0.10")),
    (UUID, UUID(int=5)),
    (datetime, datetime(2026, 3, 29, 1, 30, tzinfo=UTC)),
    (date, date(2026, 3, 29)),
    (timedelta, timedelta(hours=1, milliseconds=5)),
    (Colour, Colour.RED),
    (Address, Address("Main Street", 7)),
    (Order, Order(UUID(int=1), Address("s", 2))),
    (list[Order], [Order(UUID(int=1), Address("s", 2))]),
    (dict[int, tuple[str, ...]], {1: ("a", "b")}),
    (set[int], {1, 2}),
    (int | None, None),
    (Address | None, Address("s", 2)),
    (Literal["a", "b"], "b"),
    (Any, {"deep": [1, None, "x"]}),
]


@pytest.mark.parametrize(("form", "value"), ROUND_TRIPS)
def test_arguments_and_results_come_back_as_they_were(
    harness: Harness, form: Any, value: Any
) -> None:
    seen: list[Any] = []

    def echo(value: Any) -> Any:
        seen.append(value)
        return value

    echo.__annotations__ = {"value": form, "return": form}
    task = harness.app.task(echo)
    job = task.enqueue(value)

    harness.drain()

    assert seen == [value]
    assert type(seen[0]) is (float if form is float else type(value))
    assert job.refresh().result == value


def test_every_kind_of_parameter_arrives_where_it_belongs(harness: Harness) -> None:
    calls: list[Any] = []

    @harness.app.task
    def mixed(a: int, /, b: int, *rest: int, c: int = 3, **named: str) -> None:
        calls.append((a, b, rest, c, named))

    mixed.enqueue(1, 2)
    mixed.enqueue(1, b=2, c=5)
    mixed.enqueue(1, 2, 3, 4, c=5, note="x", c2="y")
    harness.drain()

    assert calls == [
        (1, 2, (), 3, {}),
        (1, 2, (), 5, {}),
        (1, 2, (3, 4), 5, {"note": "x", "c2": "y"}),
    ]


def test_a_model_that_knows_how_to_dump_itself_comes_back_as_one(harness: Harness) -> None:
    sizes: list[int] = []

    @harness.app.task
    def measure(model: Model) -> Model:
        sizes.append(model.size)
        return model

    job = measure.enqueue(Model(7))
    harness.drain()

    assert sizes == [7]
    assert job.refresh().result.size == 7


def test_a_function_whose_arguments_cannot_be_stored_is_refused_when_it_is_registered() -> None:
    app = App("sqlite:///never-opened.db")

    with pytest.raises(UsageError, match="cannot be read"):

        @app.task
        def lost(value: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821


def test_a_payload_over_the_limit_is_refused_and_one_at_the_limit_is_not(harness: Harness) -> None:
    @harness.app.task
    def store(text: str) -> None: ...

    frame = len('{"text":""}')
    store.enqueue("x" * (PAYLOAD_LIMIT - frame))

    with pytest.raises(PayloadTooLarge, match="1,048,577 bytes") as raised:
        store.enqueue("x" * (PAYLOAD_LIMIT - frame + 1))

    assert "store large data elsewhere" in str(raised.value)
    assert len(harness.app.jobs()) == 1


def test_a_task_may_have_a_limit_of_its_own(harness: Harness) -> None:
    @harness.app.task(payload_limit=100)
    def store(text: str) -> None: ...

    store.enqueue("x" * 80)

    with pytest.raises(PayloadTooLarge):
        store.enqueue("x" * 100)

    assert len(harness.app.jobs()) == 1


def test_a_payload_that_is_nested_too_deep_is_refused(harness: Harness) -> None:
    @harness.app.task
    def store(value: Any) -> None: ...

    deep: Any = "bottom"
    for _ in range(DEPTH_LIMIT - 1):
        deep = [deep]
    store.enqueue(deep)

    with pytest.raises(InvalidArguments, match="deeper than 64"):
        store.enqueue([deep])
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InvalidArguments):
        store.enqueue(deep)

    assert len(harness.app.jobs()) == 1


def test_a_result_over_the_limit_fails_the_attempt_and_says_so(harness: Harness) -> None:
    @harness.app.task
    def boast() -> str:
        return "x" * (PAYLOAD_LIMIT + 1)

    job = boast.enqueue()
    harness.drain()

    failed = job.refresh()
    assert failed.state == "failed"
    assert failed.error is not None
    assert "PayloadTooLarge: the result takes 1,048,579 bytes" in failed.error


def test_a_result_that_does_not_fit_its_annotation_fails_the_attempt(harness: Harness) -> None:
    @harness.app.task
    def lie() -> int:
        return "seven"  # type: ignore[return-value]

    @harness.app.task
    def leak() -> Any:
        return object()

    jobs = [lie.enqueue(), leak.enqueue()]
    harness.drain()

    errors = [job.refresh().error or "" for job in jobs]
    assert "the result does not fit its annotation" in errors[0]
    assert "the result cannot be stored as JSON" in errors[1]
