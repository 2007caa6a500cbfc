"""The OpenAPI 3.1 document, made from the table of operations and their types."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from duework.web.api.operation import BASE, Operation
from duework.web.api.types import ProblemDocument

REFUSALS = {
    400: "The request cannot be read",
    401: "No token, or one that is unknown, expired or revoked",
    403: "The token's scope does not reach",
    404: "There is no such thing",
    409: "The present state does not allow it",
    413: "The body is too large",
    415: "The body is no JSON",
    422: "The body or the query does not fit its type",
    429: "Too many requests from this address or with this token; try again after Retry-After seconds",
    503: "The database does not answer; try again",
}
_PARAMETER = re.compile(r"\{(\w+)(?::any)?\}")


def document(operations: Iterable[Operation], version: str, base: str = "") -> dict[str, Any]:
    """The whole document; `base` is what the addresses of this server start with."""
    table = list(operations)
    types = _types(table)
    schemas, components = msgspec.json.schema_components(
        types, ref_template="#/components/schemas/{name}"
    )
    known = dict(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for each in table:
        path = _PARAMETER.sub(r"{\1}", BASE + each.path)
        paths.setdefault(path, {})[each.method.lower()] = _operation(each, known, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Duework", "version": version},
        "servers": [{"url": base or "/"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _types(table: Iterable[Operation]) -> list[Any]:
    found: dict[Any, None] = {ProblemDocument: None}
    for each in table:
        for kind in (each.gives, each.query, each.body):
            if kind is not None:
                found[kind] = None
    return list(found)


def _operation(
    each: Operation, known: dict[Any, Any], components: dict[str, Any]
) -> dict[str, Any]:
    answer = {"content": {"application/json": {"schema": known[each.gives]}}}
    answers = {str(code): {"description": each.summary, **answer} for code in each.statuses}
    problem = {"application/problem+json": {"schema": known[ProblemDocument]}}
    for code, words in REFUSALS.items():
        answers[str(code)] = {"description": words, "content": problem}
    made: dict[str, Any] = {
        "operationId": each.method.lower() + _PARAMETER.sub(r"\1", each.path).replace("/", "_"),
        "summary": each.summary,
        "description": f"Needs the scope {each.scope}.",
        "parameters": [*_path(each), *_query(each, known, components), *_header(each)],
        "responses": answers,
    }
    if each.body is not None:
        content = {"application/json": {"schema": known[each.body]}}
        required = any(field.required for field in msgspec.structs.fields(each.body))
        made["requestBody"] = {"required": required, "content": content}
    return made


def _path(each: Operation) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _PARAMETER.findall(each.path)
    ]


def _query(
    each: Operation, known: dict[Any, Any], components: dict[str, Any]
) -> list[dict[str, Any]]:
    if each.query is None:
        return []
    schema = components[known[each.query]["$ref"].rpartition("/")[2]]
    required = schema.get("required", ())
    return [
        {"name": name, "in": "query", "required": name in required, "schema": inner}
        for name, inner in schema["properties"].items()
    ]


def _header(each: Operation) -> list[dict[str, Any]]:
    if not each.keyed:
        return []
    schema = {"type": "string", "minLength": 1, "maxLength": 500}
    return [{"name": "Idempotency-Key", "in": "header", "required": False, "schema": schema}]
