"""Payloads and results: typed values to JSON text and back, never anything executable.

Stored data is JSON, checked against the annotations of the registered function. Nothing in it
names a class or a module; what cannot be read is an `InvalidArguments`, never a crash.
"""

from __future__ import annotations

import inspect
import math
import string
import types
import typing
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from duework.errors import InvalidArguments, PayloadTooLarge, UsageError

PAYLOAD_LIMIT = 1024 * 1024
DEPTH_LIMIT = 64
_QUOTE, _BACKSLASH = b'"\\'
# Kinds whose values, once checked, are read from JSON as what they were. For a float a Decimal passes
# too, and is stored as a text.
_SIMPLE = (int, str, bool)
# How many calls are looked at at once.
_MANY = 1000


def _encode_other(value: object) -> object:
    """Models that know how to become plain data (pydantic) are asked to."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    message = f"values of type {type(value).__qualname__} cannot be stored as JSON"
    raise NotImplementedError(message)


def _decode_other(kind: Any, value: object) -> object:
    validate = getattr(kind, "model_validate", None)
    if callable(validate):
        return validate(value)
    message = f"values of type {getattr(kind, '__qualname__', kind)} cannot be read from JSON"
    raise NotImplementedError(message)


def _accept_other(kind: Any, value: object) -> object:
    return value if isinstance(value, kind) else _decode_other(kind, value)


_encoder = msgspec.json.Encoder(enc_hook=_encode_other, decimal_format="string")


def encode(value: object, limit: int = PAYLOAD_LIMIT, what: str = "result") -> str:
    """The JSON text of a value; refuses what is too large, too deep or not data."""
    try:
        raw = _encoder.encode(value)
        if b"null" in raw and not _finite(value):
            raise ValueError("NaN and infinity are not JSON")
    except Exception as error:
        raise InvalidArguments(f"the {what} cannot be stored as JSON: {error}") from error
    if len(raw) > limit:
        message = (
            f"the {what} takes {len(raw):,} bytes, the limit is {limit:,};"
            " store large data elsewhere and pass its name"
        )
        raise PayloadTooLarge(message)
    if len(raw) > DEPTH_LIMIT and _brackets(raw) > DEPTH_LIMIT and _depth(raw) > DEPTH_LIMIT:
        raise InvalidArguments(f"the {what} is nested deeper than {DEPTH_LIMIT} levels")
    return raw.decode()


def _finite(value: object) -> bool:
    """Whether plain data holds no number that JSON lacks, which would be stored as null."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, Mapping):
        return all(map(_finite, value.values()))
    if isinstance(value, (list, tuple, set, frozenset)):
        return all(map(_finite, value))
    return True


def _brackets(raw: bytes) -> int:
    return raw.count(b"[") + raw.count(b"{")


def _depth(raw: bytes) -> int:
    depth = deepest = 0
    inside = escaped = False
    for byte in raw:
        if inside:
            if escaped:
                escaped = False
            elif byte == _BACKSLASH:
                escaped = True
            elif byte == _QUOTE:
                inside = False
        elif byte == _QUOTE:
            inside = True
        elif byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"]}":
            depth -= 1
    return deepest


def decode(text: str) -> Any:
    """Plain data of a stored JSON text."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise InvalidArguments(f"stored data cannot be read: {error}") from error


def checksum(job: int, task: str, payload: str) -> int:
    """Ties a payload to its row, so that a flipped bit is found before it is run."""
    return zlib.crc32(
        payload.encode("utf-8", "surrogatepass"), zlib.crc32(task.encode(), job & 0xFFFFFFFF)
    )


def checked(first: int, task: str, payloads: Iterable[str]) -> Iterator[str]:
    """Each payload behind its checksum in ten digits, for jobs with ids from `first` on."""
    for job, payload in enumerate(payloads, first):
        yield f"{checksum(job, task, payload):010}{payload}"


class ResultCodec:
    """Results of one function, by its return annotation."""

    def __init__(self, kind: Any) -> None:
        try:
            self._decoder = msgspec.json.Decoder(kind, dec_hook=_decode_other)
        except (TypeError, ValueError, NotImplementedError) as error:
            raise UsageError(f"results of type {kind} cannot be stored: {error}") from error

    def encode(self, value: object) -> str:
        if value is None:
            return "null"
        text = encode(value)
        self.decode(text)
        return text

    def decode(self, text: str) -> Any:
        try:
            return self._decoder.decode(text)
        except Exception as error:
            raise InvalidArguments(f"the result does not fit its annotation: {error}") from error


class ArgumentCodec:
    """Arguments of one function: checked by its annotations, stored as an object by name.

    `skip` leading parameters (the `Run`) are not part of the payload.
    """

    def __init__(
        self, function: Callable[..., object], skip: int, limit: int = PAYLOAD_LIMIT
    ) -> None:
        self.name = getattr(function, "__qualname__", repr(function))
        self.limit = limit
        signature = inspect.signature(function)
        parameters = list(signature.parameters.values())[skip:]
        self._signature = signature.replace(parameters=parameters)
        hints = _hints(function)
        self.names = tuple(p.name for p in parameters)
        self._plain = all(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)
        self._names = list(self.names)
        positional = [p.name for p in parameters if p.kind <= p.POSITIONAL_OR_KEYWORD]
        # The parameter that a single argument would go to.
        self.first = positional[0] if positional else None
        fields: list[tuple[str, Any, Any]] = []
        for place, parameter in enumerate(parameters):
            kind: Any = hints.get(parameter.name, Any)
            default: Any = parameter.default
            if parameter.kind is parameter.VAR_POSITIONAL:
                kind, default = types.GenericAlias(tuple, (kind, ...)), ()
            elif parameter.kind is parameter.VAR_KEYWORD:
                kind, default = types.GenericAlias(dict, (str, kind)), {}
            if default is parameter.empty:
                fields.append((f"field_{place}", kind, msgspec.NODEFAULT))
            else:
                fields.append(
                    (f"field_{place}", kind, msgspec.field(default_factory=_giving(default)))
                )
        try:
            self._struct = msgspec.defstruct(
                "Arguments",
                [field if field[2] is not msgspec.NODEFAULT else field[:2] for field in fields],
                kw_only=True,
                rename={field[0]: name for field, name in zip(fields, self._names, strict=True)},
                forbid_unknown_fields=True,
            )
            self._structs = types.GenericAlias(list, (self._struct,))
            self._decoder = msgspec.json.Decoder(self._struct, dec_hook=_decode_other)
        except (TypeError, ValueError, NotImplementedError) as error:
            message = f"the arguments of {self.name} cannot be stored: {error}"
            raise UsageError(message) from error
        self._parameters = parameters
        self._what = f"payload of {self.name}"
        self._simple = all(hints.get(name) in _SIMPLE for name in self._names)
        # What arguments are that need no other look.
        self._types = [hints.get(name) for name in self._names] if self._simple else None

    def encode(self, args: Sequence[object], kwargs: Mapping[str, object]) -> str:
        """The payload of a call; typed errors name the argument that does not fit."""
        if self._plain and not kwargs and len(args) <= len(self._names):
            bound: Mapping[str, object] = dict(zip(self._names, args, strict=False))
        else:
            try:
                bound = self._signature.bind(*args, **kwargs).arguments
            except TypeError as error:
                raise InvalidArguments(f"{self.name}: {error}") from None
        if list(map(type, bound.values())) != self._types:
            self._check(bound)
        text = encode(bound, self.limit, self._what)
        if not self._simple:
            # What a type of one's own becomes in JSON may not be what it is read from.
            self._decode(text)
        return text

    def _check(self, bound: Mapping[str, object]) -> None:
        try:
            # The values themselves: in JSON bytes, times and ids look like any text.
            msgspec.convert(bound, self._struct, dec_hook=_accept_other)
        except Exception as error:  # noqa: BLE001 - a model's own code may raise anything
            raise self._misfit(error) from None

    def encode_many(self, calls: Iterable[Sequence[object]]) -> Iterator[str]:
        """The payloads of many calls, in order; the first that does not fit raises.

        Values that can change are read as they come, since the caller may change them between two.
        """
        if not (self._simple and self._plain):
            yield from (self.encode(call, {}) for call in calls)
            return
        calls = iter(calls)
        while part := list(islice(calls, _MANY)):
            yield from self._encode_at_once(part) or (self.encode(call, {}) for call in part)

    def _encode_at_once(self, calls: Sequence[Sequence[object]]) -> list[str] | None:
        """The same payloads for a fraction of the time; None if they have to be looked at one by one."""
        if max(map(len, calls)) > len(self._names):
            return None
        bound = [dict(zip(self._names, call, strict=False)) for call in calls]
        try:
            msgspec.convert(bound, self._structs)
            raw = _encoder.encode_lines(bound)
        except Exception:  # noqa: BLE001 - a value's own code may raise anything; `encode` says what
            return None
        if len(raw) > self.limit:
            return None
        lines = raw.decode().split("\n")[:-1]
        # No JSON text of ours has an end of line in it, but one that a value's own code made may.
        return lines if len(lines) == len(calls) else None

    def decode(self, text: str) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword arguments of a stored call, checked by the annotations."""
        values = self._decode(text)
        if self._plain:
            return list(msgspec.structs.astuple(values)), {}
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for parameter, value in zip(self._parameters, msgspec.structs.astuple(values), strict=True):
            if parameter.kind is parameter.VAR_POSITIONAL:
                args.extend(value)
            elif parameter.kind is parameter.VAR_KEYWORD:
                kwargs.update(value)
            elif parameter.kind is parameter.KEYWORD_ONLY:
                kwargs[parameter.name] = value
            else:
                args.append(value)
        return args, kwargs

    def call(self, given: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Plain data by name as arguments of a call: those that are given, and no default."""
        text = encode(given, self.limit, self._what)
        if not self._plain:
            return self.decode(text)
        named = self.named(text)
        return [], {name: named[name] for name in given}

    def named(self, text: str) -> dict[str, Any]:
        """The arguments of a stored call by name, checked by the annotations."""
        return dict(zip(self._names, msgspec.structs.astuple(self._decode(text)), strict=True))

    def _decode(self, text: str) -> msgspec.Struct:
        try:
            return self._decoder.decode(text)
        except Exception as error:  # noqa: BLE001 - a model's own code may raise anything
            raise self._misfit(error) from None

    def _misfit(self, error: Exception) -> InvalidArguments:
        detail = str(error).replace("`$.", "argument `").replace("`$`", "the arguments")
        return InvalidArguments(f"{self.name}: {detail}")


def check_template(what: str, template: str, names: Iterable[str]) -> None:
    """Every name in braces is an argument."""
    known = list(names)
    try:
        fields = [name for _, name, _, _ in string.Formatter().parse(template) if name is not None]
    except (ValueError, TypeError) as error:
        raise UsageError(f"{what}={template!r:.100} cannot be read: {error}") from None
    for name in fields:
        first = name.partition(".")[0].partition("[")[0]
        if first not in known:
            there = ", ".join(known) or "none"
            raise UsageError(
                f"{what}={template!r} names {first!r}, which is no argument; there are: {there}"
            )


def _giving(value: object) -> Callable[[], object]:
    return lambda: value


def _hints(function: Callable[..., object]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except Exception as error:
        message = f"the annotations of {getattr(function, '__qualname__', function)} cannot be read: {error}"
        raise UsageError(message) from error


def return_type(function: Callable[..., object]) -> Any:
    """The annotated result; `Any` where there is none or it cannot be checked."""
    return _hints(function).get("return", Any)
