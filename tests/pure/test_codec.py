"""The codec: whatever is stored is data, and what cannot be read is one typed error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from enum import IntEnum, StrEnum
from itertools import islice
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duework import InvalidArguments, PayloadTooLarge
from duework.codec import DEPTH_LIMIT, ArgumentCodec, ResultCodec, checksum, decode, encode

texts = st.text(st.characters(exclude_categories=["Cs"]))
plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


def take(value: Any, *, flag: bool = False) -> Any: ...


@given(plain)
def test_plain_data_survives(value: Any) -> None:
    assert decode(encode(value)) == value
    assert ResultCodec(Any).decode(ResultCodec(Any).encode(value)) == value


@given(plain, st.booleans())
def test_arguments_survive(value: Any, flag: bool) -> None:
    codec = ArgumentCodec(take, 0)

    assert codec.decode(codec.encode((value,), {"flag": flag})) == ([value], {"flag": flag})


@given(st.text() | st.binary().map(lambda raw: raw.decode("latin-1")))
def test_any_stored_text_is_read_or_refused(text: str) -> None:
    for read in (decode, ArgumentCodec(take, 0).decode, ResultCodec(int).decode):
        try:
            read(text)
        except InvalidArguments:
            continue


@given(plain)
def test_data_of_another_shape_is_refused(value: Any) -> None:
    text = json.dumps(value)
    if isinstance(value, dict) and value.keys() <= {"value", "flag"}:
        return
    with pytest.raises(InvalidArguments):
        ArgumentCodec(take, 0).decode(text)


@pytest.mark.parametrize("text", ["[" * 100_000, "[" * 100_000 + "]" * 100_000, '{"a":' * 100_000])
def test_endless_nesting_is_refused_without_a_crash(text: str) -> None:
    for read in (decode, ArgumentCodec(take, 0).decode, ResultCodec(Any).decode):
        with pytest.raises(InvalidArguments):
            read(text)


def test_nesting_is_bounded_where_it_is_written() -> None:
    value: Any = 0
    for _ in range(DEPTH_LIMIT):
        value = [value]

    assert decode(encode(value)) == value
    with pytest.raises(InvalidArguments, match="nested"):
        encode([value])
    assert encode([[]] * 100)


@pytest.mark.parametrize("value", [object(), {1: object()}, "\ud800", lambda: 0, {"a": {1, 2j}}])
def test_what_is_no_data_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArguments):
        encode(value)


@pytest.mark.parametrize("kind", [int, float, str, bool])
@pytest.mark.parametrize(
    "value",
    [
        *(1, True, -0.0, 1.5, 2**200, 10**309, "a", None, b"a", UUID(int=1), Decimal("1.5")),
        *(datetime(2026, 1, 1, tzinfo=UTC), IntEnum("N", "A")(1), StrEnum("T", "A")("a")),
    ],
)
def test_what_is_taken_when_it_is_enqueued_can_be_read_when_it_runs(kind: Any, value: Any) -> None:
    def function(x: Any) -> None: ...

    function.__annotations__["x"] = kind
    codec = ArgumentCodec(function, 0)
    try:
        stored = codec.encode((value,), {})
    except InvalidArguments:
        return

    assert codec.decode(stored) == ([value], {})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [1.0, float("-inf")]])
def test_numbers_that_json_does_not_have_are_refused_where_a_number_is_expected(value: Any) -> None:
    kind = list[float] if isinstance(value, list) else float
    with pytest.raises(InvalidArguments):
        ResultCodec(kind).encode(value)


@given(st.integers(2, 200))
def test_the_limit_is_exact(size: int) -> None:
    text = "x" * (size - 2)

    assert len(encode(text, limit=size)) == size
    with pytest.raises(PayloadTooLarge):
        encode(text + "x", limit=size)


@given(st.integers(0, 2**63 - 1), texts, texts, st.data())
def test_a_flipped_bit_is_found(job: int, task: str, payload: str, data: st.DataObject) -> None:
    raw = payload.encode()
    if not raw:
        return
    place = data.draw(st.integers(0, len(raw) * 8 - 1))
    flipped = bytearray(raw)
    flipped[place // 8] ^= 1 << place % 8
    other = bytes(flipped).decode("utf-8", "surrogateescape")
    if other.encode("utf-8", "surrogatepass") == raw:
        return

    assert checksum(job, task, payload) != checksum(job, task, other)


def simple(number: int, name: str = "", *, flag: bool = False) -> None: ...


def positional(number: int, name: str = "") -> None: ...


class Text(str):
    """Not what a text is read as."""

    __slots__ = ()


odd = st.integers() | st.text() | st.booleans() | st.none() | st.floats() | st.text().map(Text)
calls = st.lists(
    st.tuples(st.integers(-(2**70), 2**70)) | st.tuples(st.integers(), texts) | st.tuples(odd, odd)
)


@given(calls)
@pytest.mark.parametrize("function", [positional, simple, take])
def test_many_calls_become_what_each_of_them_becomes(
    function: Any, calls: list[tuple[Any, ...]]
) -> None:
    codec = ArgumentCodec(function, 0, limit=30)

    def gathered(payloads: Any) -> list[str]:
        found: list[str] = []
        try:
            for payload in payloads:
                found.append(payload)  # noqa: PERF402 - those before the error count
        except (InvalidArguments, PayloadTooLarge) as error:
            found.append(str(error))
        return found

    assert gathered(codec.encode_many(calls)) == gathered(codec.encode(call, {}) for call in calls)


def test_of_thousands_of_calls_the_one_that_does_not_fit_is_named() -> None:
    codec = ArgumentCodec(positional, 0)
    calls: list[tuple[Any, ...]] = [(number, "a\nb") for number in range(2500)]
    assert [codec.decode(each)[0] for each in codec.encode_many(calls)] == [
        [number, "a\nb"] for number in range(2500)
    ]

    calls[2100] = ("7", "")
    payloads = codec.encode_many(calls)
    assert len(list(islice(payloads, 2100))) == 2100
    with pytest.raises(InvalidArguments, match="Expected `int`, got `str` - at argument `number`"):
        next(payloads)


class Lines(int):
    """Becomes a JSON text that is broken into lines."""

    def model_dump(self, mode: str) -> msgspec.Raw:
        return msgspec.Raw(b"1\n")


def test_a_value_with_an_end_of_line_in_its_json_leaves_other_calls_alone() -> None:
    codec = ArgumentCodec(positional, 0)

    payloads = codec.encode_many([(1,), (Lines(2),), (3,)])

    assert [codec.decode(each)[0][0] for each in payloads] == [1, 1, 3]


def test_what_is_yielded_again_and_again_is_read_each_time() -> None:
    def rows() -> Iterator[tuple[dict[str, int]]]:
        row: dict[str, int] = {}
        for number in range(3):
            row["n"] = number
            yield (row,)

    codec = ArgumentCodec(take, 0)

    assert [codec.decode(each)[0] for each in codec.encode_many(rows())] == [
        [{"n": number}] for number in range(3)
    ]
