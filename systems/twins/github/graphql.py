"""Enough of GraphQL to answer a query by its own words: fields, aliases, arguments, fragments.

Parsing and the check against a table of types come first, as upstream, so a query with a mistake in
it costs nothing and returns no data. Where GraphQL has more (directives, subscriptions, interfaces),
a query that uses it is a syntax error here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

TOKEN = re.compile(
    r"(?P<skip>[\s,﻿]+|#[^\n]*)|(?P<name>[_A-Za-z]\w*)|(?P<number>-?\d+(?:\.\d+)?)"
    r'|(?P<text>"(?:[^"\\\n]|\\.)*")|(?P<mark>\.\.\.|[!$(){}\[\]:=@|&])'
)


class Problem(Exception):
    """An error of the query, as the reply words it."""

    def __init__(self, message: str, at: tuple[int, int] | None = None, **more: Any) -> None:
        super().__init__(message)
        found: dict[str, Any] = dict(more)
        if at is not None:
            found["locations"] = [{"line": at[0], "column": at[1]}]
        self.error = {**found, "message": message}


@dataclass(frozen=True, slots=True)
class Variable:
    name: str


@dataclass(slots=True)
class Field:
    name: str
    alias: str
    at: tuple[int, int]
    arguments: dict[str, Any] = field(default_factory=dict)
    selection: list[Field] | None = None


@dataclass(slots=True)
class Operation:
    kind: str
    # Names of the variables, the required ones, and what they are if nothing is given.
    required: set[str] = field(default_factory=set)
    defaults: dict[str, Any] = field(default_factory=dict)
    selection: list[Field] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str
    at: tuple[int, int]


def _tokens(source: str) -> list[Token]:
    found, place = [], 0
    while place < len(source):
        line = source.count("\n", 0, place) + 1
        at = (line, place - source.rfind("\n", 0, place))
        match = TOKEN.match(source, place)
        if match is None:
            raise Problem(f"Parse error on {json.dumps(source[place])} at [{at[0]}, {at[1]}]", at)
        if match.lastgroup != "skip":
            found.append(Token(str(match.lastgroup), match[0], at))
        place = match.end()
    return [*found, Token("end", "end of file", (source.count("\n") + 1, 1))]


class Parser:
    def __init__(self, source: str) -> None:
        self._tokens = _tokens(source)
        self._place = 0
        self._fragments: dict[str, list[Field | str]] = {}

    def operation(self) -> Operation:
        """The one operation of the document."""
        found: list[tuple[Operation, list[Field | str]]] = []
        while self._peek().kind != "end":
            if self._peek().text == "fragment":
                self._fragment()
            else:
                found.append(self._operation())
        if len(found) != 1:
            raise Problem("An operation name is required" if found else "No operation was given")
        operation, selection = found[0]
        operation.selection = self._spread(selection)
        return operation

    def _operation(self) -> tuple[Operation, list[Field | str]]:
        operation = Operation("query")
        if self._peek().text != "{":
            operation.kind = self._take("name").text
            if operation.kind not in {"query", "mutation"}:
                self._fail(self._tokens[self._place - 1])
            if self._peek().kind == "name":
                self._take("name")
            if self._peek().text == "(":
                self._variables(operation)
        return operation, self._selection()

    def _variables(self, operation: Operation) -> None:
        self._mark("(")
        while not self._skip(")"):
            self._mark("$")
            name = self._take("name").text
            self._mark(":")
            required = self._type()
            if self._skip("="):
                operation.defaults[name] = self._value()
            elif required:
                operation.required.add(name)
            else:
                operation.defaults[name] = None

    def _type(self) -> bool:
        if self._skip("["):
            self._type()
            self._mark("]")
        else:
            self._take("name")
        return self._skip("!")

    def _fragment(self) -> None:
        self._take("name")
        name = self._take("name").text
        self._take("name")  # on
        self._take("name")
        self._fragments[name] = self._selection()

    def _selection(self) -> list[Field | str]:
        self._mark("{")
        found: list[Field | str] = []
        while not self._skip("}"):
            if self._skip("..."):
                if self._peek().text in {"on", "{"}:
                    if self._skip("on"):
                        self._take("name")
                    found += self._selection()
                else:
                    found.append(self._take("name").text)
            else:
                found.append(self._field())
        return found

    def _field(self) -> Field:
        first = self._take("name")
        name = alias = first.text
        if self._skip(":"):
            name = self._take("name").text
        made = Field(name, alias, first.at)
        if self._skip("("):
            while not self._skip(")"):
                argument = self._take("name").text
                self._mark(":")
                made.arguments[argument] = self._value()
        if self._peek().text == "{":
            # Fragments are put in when all of them are known.
            made.selection = self._selection()  # type: ignore[assignment]
        return made

    def _value(self) -> Any:
        token = self._next()
        if token.text == "$":
            return Variable(self._take("name").text)
        if token.text == "[":
            found = []
            while not self._skip("]"):
                found.append(self._value())
            return found
        if token.text == "{":
            pairs = {}
            while not self._skip("}"):
                key = self._take("name").text
                self._mark(":")
                pairs[key] = self._value()
            return pairs
        if token.kind in {"text", "number"} or token.text in {"true", "false", "null"}:
            return json.loads(token.text)
        if token.kind != "name":
            self._fail(token)
        return token.text

    def _spread(self, selection: list[Field | str], depth: int = 0) -> list[Field]:
        if depth > 20:
            raise Problem("Fragments are nested too deeply")
        found: list[Field] = []
        for each in selection:
            if isinstance(each, str):
                if each not in self._fragments:
                    raise Problem(f"Fragment {each} was used, but not defined")
                found += self._spread(self._fragments[each], depth + 1)
            else:
                if each.selection is not None:
                    each.selection = self._spread(list(each.selection), depth + 1)
                found.append(each)
        return found

    def _peek(self) -> Token:
        return self._tokens[self._place]

    def _next(self) -> Token:
        token = self._peek()
        self._place = min(self._place + 1, len(self._tokens) - 1)
        return token

    def _take(self, kind: str) -> Token:
        token = self._next()
        if token.kind != kind:
            self._fail(token)
        return token

    def _mark(self, text: str) -> None:
        token = self._next()
        if token.text != text:
            self._fail(token)

    def _skip(self, text: str) -> bool:
        if self._peek().text != text:
            return False
        self._next()
        return True

    def _fail(self, token: Token) -> None:
        where = f"[{token.at[0]}, {token.at[1]}]"
        raise Problem(f"Parse error on {json.dumps(token.text)} at {where}", token.at)


# Per type, its fields: the type behind each (None for a scalar), and its arguments.
Schema = Mapping[str, Mapping[str, tuple[str | None, frozenset[str]]]]


def check(schema: Schema, kind: str, selection: list[Field], path: list[str]) -> None:
    """Raise what is wrong with the first field that cannot be."""
    for each in selection:
        here = [*path, each.alias]
        if each.name == "__typename":
            continue
        if each.name not in schema[kind]:
            message = f"Field '{each.name}' doesn't exist on type '{kind}'"
            facts = {"code": "undefinedField", "typeName": kind, "fieldName": each.name}
            raise Problem(message, each.at, path=here, extensions=facts)
        below, arguments = schema[kind][each.name]
        for name in set(each.arguments) - arguments:
            message = f"Field '{each.name}' doesn't accept argument '{name}'"
            facts = {"code": "argumentNotAccepted", "name": each.name, "argumentName": name}
            raise Problem(message, each.at, path=[*here, name], extensions=facts)
        if below is None and each.selection:
            raise Problem(
                f"Selections can't be made on scalars ('{each.name}')", each.at, path=here
            )
        if below is not None:
            if not each.selection:
                message = (
                    f"Field must have selections (field '{each.name}' returns {below} but has no "
                )
                raise Problem(message + "selections.)", each.at, path=here)
            check(schema, below, each.selection, here)


def fill(operation: Operation, given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the variables."""
    for name in sorted(operation.required):
        if given.get(name) is None:
            message = f"Variable ${name} of type was provided invalid value"
            raise Problem(message, extensions={"code": "variableMismatch", "variableName": name})
    return {**operation.defaults, **given}


def value_of(argument: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(argument, Variable):
        if argument.name not in values:
            raise Problem(f"Variable ${argument.name} is used but not declared")
        return values[argument.name]
    return argument


def pick(selection: list[Field], kind: str, found: Any) -> Any:
    """Of what there is, that which was asked for, under the names it was asked by."""
    if isinstance(found, list):
        return [pick(selection, kind, each) for each in found]
    if not isinstance(found, dict):
        return found
    picked = {}
    for each in selection:
        below = kind if each.name == "__typename" else found[each.name]
        picked[each.alias] = pick(each.selection, each.name, below) if each.selection else below
    return picked
