"""The form in which Strava words its errors."""

from __future__ import annotations

from starlette.responses import JSONResponse, Response


def error(status: int, message: str, resource: str, field: str, code: str) -> Response:
    errors = [{"resource": resource, "field": field, "code": code}]
    return JSONResponse({"message": message, "errors": errors}, status)
