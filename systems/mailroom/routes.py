"""Routes for programs: post a message, look at it, cancel it, try it again.

    curl …/messages -H 'Authorization: Bearer mr_…' -H 'Idempotency-Key: order-7'
        --json '{"to": "ada@example.org", "subject": "Hello", "text": "It is on its way."}'

A program comes with a key of its tenant and sees nothing of the others. An operator names the tenant in the
path, and comes with a token.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from starlette.requests import Request

from duework import Person, Problem, Reply, UsageError
from systems.mailroom import blobs, board, templates
from systems.mailroom.hooks import outgoing
from systems.mailroom.keys import tenant_of
from systems.mailroom.mail import MediaType, Name, NewMessage, in_words
from systems.mailroom.outbox import box
from systems.mailroom.part import part
from systems.mailroom.posting import MessageChange, change, flight, post, post_many
from systems.mailroom.tenant import LimitReached, Tenant, check_tenant

# A text, an html and attachments, as JSON.
MOST_BYTES = 22_000_000
MOST_OF_A_BATCH = 100


class Listing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The query of a list."""

    state: Literal["queued", "sending", "sent", "failed", "unsure", "cancelled"] | None = None
    before: int = 0
    limit: int = 50


class NewHook(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    url: Annotated[str, msgspec.Meta(max_length=1000)]


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


class Keyed(NewMessage, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message of a batch: with its key."""

    key: str


class Batch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    messages: Annotated[list[Keyed], msgspec.Meta(min_length=1, max_length=MOST_OF_A_BATCH)]


@part.route("/messages/batch", methods=["POST"], auth=program, max_body=MOST_BYTES, problem=worded)
def create_batch(person: Person, body: Batch) -> Reply:
    """Post up to 100 messages, all of them or none: 202 if one of them is new, else 200."""
    wanted = [(each.key, _without_key(each)) for each in body.messages]
    try:
        with flight(person.email, [key for key, _ in wanted]):
            found = post_many(part.app, person.email, wanted)
    except LimitReached as error:
        return _too_many(error)
    status = 200 if all(each.existed for each in found) else 202
    return Reply(status, {"messages": [board.shown(each) for each in found]})


def _without_key(each: Keyed) -> NewMessage:
    names = NewMessage.__struct_fields__
    return NewMessage(**{name: getattr(each, name) for name in names})


def _posted(tenant: str, key: str, body: NewMessage) -> Reply:
    try:
        with flight(tenant, [key]):
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


@part.route("/messages/{id}", methods=["PATCH"], auth=program, max_body=MOST_BYTES, problem=worded)
def edit(id: int, person: Person, body: MessageChange) -> dict[str, Any]:  # noqa: A002
    """Another time, text or receiver while it is queued; the answer is the message in its place."""
    return board.shown(change(part.app, board.found(id, person.email), body))


@part.route("/messages/{id}/log", auth=program)
def log(id: int, person: Person) -> list[dict[str, Any]]:  # noqa: A002
    """Whom it was offered to, and what was reported of it since."""
    return board.story(board.found(id, person.email))


@part.route("/messages/retry-failed", methods=["POST"], auth=program)
def retry_failed(person: Person) -> dict[str, int]:
    """Queue every failed message of the tenant again."""
    return {"queued": board.retry_failed(part.app, person.email)}


@part.route("/attachments", methods=["POST"], auth=program, max_body=blobs.LARGEST)
def upload(request: Request, person: Person, body: bytes) -> Reply:
    """Store a file to attach; the same bytes are the same blob."""
    type_ = request.headers.get("content-type", "").partition(";")[0].strip()
    check_tenant(person.email)
    try:
        type_ = msgspec.convert(type_, MediaType)
    except msgspec.ValidationError:
        type_ = "application/octet-stream"
    made = blobs.keep(person.email, body, type_)
    return Reply(201, made)


class NewTemplate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    subject: str
    text: str = ""
    html: str = ""


class Values(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    values: dict[str, Any] = {}


@part.route("/templates/{name}", methods=["PUT"], auth=program, max_body=MOST_BYTES)
def store_template(name: str, person: Person, body: NewTemplate) -> templates.Stored:
    """Make or change a template; what it may not have is refused with the line."""
    given = msgspec.structs.asdict(body)
    try:
        msgspec.convert(name, Name)
    except msgspec.ValidationError:
        raise UsageError(
            "a template's name has small letters, digits, _ and -, at most 60"
        ) from None
    return templates.store(person.email, templates.Stored(name=name, **given))


@part.route("/templates", auth=program)
def list_templates(person: Person) -> list[templates.Stored]:
    return templates.every(person.email)


@part.route("/templates/{name}", auth=program)
def show_template(name: str, person: Person) -> templates.Stored:
    return templates.find(person.email, name)


@part.route("/templates/{name}/preview", methods=["POST"], auth=program)
def preview_template(name: str, person: Person, body: Values) -> templates.Rendered:
    """What it makes of these values; nothing is sent."""
    return templates.render(templates.find(person.email, name), body.values)


@part.route("/templates/{name}", methods=["DELETE"], auth=program)
def delete_template(name: str, person: Person) -> None:
    templates.delete(person.email, name)


@part.route("/suppressed", auth=program)
def suppressed(person: Person) -> list[dict[str, Any]]:
    """Addresses that the tenant must not write to, the newest first."""
    found: list[dict[str, Any]] = part.app.object(Tenant, person.email).suppressed().result()
    return found


@part.route("/webhook", methods=["PUT"], auth=program)
def set_webhook(person: Person, body: NewHook) -> outgoing.Hook:
    """Where this tenant is told what became of its mail; the answer has the secret, which is told once."""
    return outgoing.set_hook(check_tenant(person.email), body.url)


@part.route("/webhook", auth=program)
def show_webhook(person: Person) -> dict[str, str | None]:
    found = outgoing.hook_of(person.email)
    return {"url": None if found is None else found.url}


@part.route("/webhook", methods=["DELETE"], auth=program)
def drop_webhook(person: Person) -> None:
    outgoing.drop_hook(person.email)


@part.route("/messages/{id}/retry", methods=["POST"], auth=program)
def retry(id: int, person: Person) -> dict[str, Any]:  # noqa: A002
    """Queue a message again that failed; 409 for one that did not."""
    return board.shown(board.retry(id, person.email))
