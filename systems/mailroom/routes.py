"""Routes for programs: post a message, look at it, cancel it, try it again.

    curl …/messages -H 'Authorization: Bearer mr_…' -H 'Idempotency-Key: order-7'
        --json '{"to": "ada@example.org", "subject": "Hello", "text": "It is on its way."}'

A program comes with a key of its tenant and sees nothing of the others. An operator names the tenant in the
path, and comes with a token.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from starlette.requests import Request

from duework import Person, Problem, Reply
from systems.mailroom import board
from systems.mailroom.keys import tenant_of
from systems.mailroom.mail import NewMessage, in_words
from systems.mailroom.outbox import box
from systems.mailroom.part import part
from systems.mailroom.posting import post
from systems.mailroom.tenant import LimitReached

# A text and an html of a million characters each, as JSON.
MOST_BYTES = 4_000_000


class Listing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The query of a list."""

    state: Literal["queued", "sending", "sent", "failed", "unsure", "cancelled"] | None = None
    before: int = 0
    limit: int = 50


def program(request: Request) -> Person | None:
    """The program behind a key; the tenant's name stands where a person has an address."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    tenant = tenant_of(part.app, key.strip()) if scheme.lower() == "bearer" else None
    return None if tenant is None else Person(0, part.name, tenant)


def worded(problem: Problem) -> Reply | None:
    """The usual problem, with words in the place of a pattern."""
    if not any("matching regex" in each["message"] for each in problem.errors):
        return None
    detail = in_words(problem.detail)
    body = {"type": "about:blank", "title": problem.title, "status": problem.status}
    errors = [{**each, "message": in_words(each["message"])} for each in problem.errors]
    return _problem({**body, "detail": detail, "code": problem.code, "errors": errors})


def _problem(body: dict[str, Any], **headers: str) -> Reply:
    headers["content-type"] = "application/problem+json"
    return Reply(int(body["status"]), msgspec.json.encode(body), headers)


@part.route("/messages", methods=["POST"], auth=program, max_body=MOST_BYTES, problem=worded)
def create(request: Request, person: Person, body: NewMessage) -> Reply:
    """202 for a new message, 200 for one that was there, 409 for the same key with another body."""
    return _posted(person.email, request.headers.get("idempotency-key", ""), body)


@part.route("/tenants/{tenant}/messages", methods=["POST"], max_body=MOST_BYTES, problem=worded)
def create_for(tenant: str, request: Request, body: NewMessage) -> Reply:
    """The same by an operator's token."""
    return _posted(tenant, request.headers.get("idempotency-key", ""), body)


def _posted(tenant: str, key: str, body: NewMessage) -> Reply:
    try:
        message = post(part.app, tenant, key, body)
    except LimitReached as error:
        return _too_many(error)
    place = {"location": f"/messages/{message.id}"}
    return Reply(200 if message.existed else 202, board.shown(message), place)


def _too_many(error: LimitReached) -> Reply:
    wait = max(1, -(-(error.until - part.app.now()) // 1000))
    body = {"type": "about:blank", "title": "Too Many Requests", "status": 429}
    return _problem(
        {**body, "detail": str(error), "code": "daily_limit"}, **{"retry-after": str(wait)}
    )


@part.route("/messages", auth=program)
def messages(person: Person, query: Listing) -> dict[str, Any]:
    """The tenant's messages, newest first; go on with `before` of the answer."""
    found = board.listed(
        part.app, tenant=person.email, state=query.state, before=query.before, limit=query.limit
    )
    shown = [{**each, "id": str(each["id"]), "job": str(each["job"])} for each in found]
    return {"messages": shown, "before": shown[-1]["id"] if shown else None}


@part.route("/messages/{id}", auth=program)
def message(id: int, person: Person) -> dict[str, Any]:  # noqa: A002 - the path's own word
    """One message of the tenant."""
    return board.shown(board.found(id, person.email))


@part.route("/messages/{id}/cancel", methods=["POST"], auth=program)
def cancel(id: int, person: Person) -> dict[str, Any]:  # noqa: A002
    """End a message that is still queued; 409 if the provider has it."""
    box.cancel(board.found(id, person.email).id, "cancelled by its tenant")
    return board.shown(board.found(id))


@part.route("/messages/{id}/retry", methods=["POST"], auth=program)
def retry(id: int, person: Person) -> dict[str, Any]:  # noqa: A002
    """Queue a message again that failed; 409 for one that did not."""
    return board.shown(box.retry(board.found(id, person.email).id))
