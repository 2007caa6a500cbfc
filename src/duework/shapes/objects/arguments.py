"""Arguments of an object's method, checked by its annotations when it is called, as those of a task are.

They are not stored, so what an annotation cannot say to msgspec is passed on as it is.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any

import msgspec

from duework.errors import InvalidArguments

# Of these the type says it all.
_SIMPLE = frozenset({int, str, float, bool, bytes, Any})

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


class MethodArguments:
    """Those of one method."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name = name
        signature = inspect.signature(function)
        parameters = list(signature.parameters.values())[1:]
        self._signature = signature.replace(parameters=parameters)
        self._hints = _hints(function)
        self._kinds = [self._hints.get(each.name, Any) for each in parameters]
        self._plain = all(each.kind is each.POSITIONAL_OR_KEYWORD for each in parameters)

    def checked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        """The arguments as the method gets them; `InvalidArguments` names the one that does not fit."""
        if self._plain and not kwargs and len(args) == len(self._kinds) and self._obvious(args):
            return args, kwargs
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise InvalidArguments(f"{self.name}: {error}") from None
        for name, value in bound.arguments.items():
            bound.arguments[name] = self._fitting(name, value)
        return bound.args, bound.kwargs

    def _obvious(self, args: tuple[Any, ...]) -> bool:
        pairs = zip(args, self._kinds, strict=True)
        return all(kind is Any or (type(each) is kind and kind in _SIMPLE) for each, kind in pairs)

    def _fitting(self, name: str, value: Any) -> Any:
        kind = self._hints.get(name, Any)
        parameter = self._signature.parameters[name]
        if parameter.kind is parameter.VAR_POSITIONAL:
            return tuple(self._convert(name, each, kind) for each in value)
        if parameter.kind is parameter.VAR_KEYWORD:
            return {key: self._convert(key, each, kind) for key, each in value.items()}
        return self._convert(name, value, kind)

    def _convert(self, name: str, value: Any, kind: Any) -> Any:
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            raise InvalidArguments(
                f"{self.name}: the argument {name} does not fit: {error}"
            ) from None
        except (TypeError, NotImplementedError):
            # An annotation that only a type checker understands.
            return value


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError):
        # Names that are there for type checkers only.
        return {}
