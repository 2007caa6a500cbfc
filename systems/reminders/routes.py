"""The JSON API, by token: reminders, their fires, and the endpoints that webhooks go to.

curl -H "Authorization: Bearer $TOKEN" localhost:8377/api/reminders --json '{"title": "Stretch",
    "cron": "0 9 * * MON-FRI", "zone": "Europe/Oslo", "email": "ada@demo.example"}'
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from starlette.requests import Request

from duework import Fail, Reply, UsageError, http
from systems.reminders import (
    attempts,
    book,
    channels,
    endpoints,
    exchange,
    log,
    planning,
    recipients,
)
from systems.reminders.part import part
from systems.reminders.rules import Change, NewReminder

Limit = Annotated[int, msgspec.Meta(ge=1, le=1000)]

# Of a file that is brought; what it may have is said in exchange/.
LARGEST = 2_100_000


class Listing(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Which reminders: all by id, or those to come, soonest first."""

    only: Literal["all", "coming"] = "all"
    after: str = ""
    limit: Limit = 100


class Snooze(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    length: Annotated[str, msgspec.Meta(max_length=100)] = "10m"


class Preview(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    count: Annotated[int, msgspec.Meta(ge=1, le=50)] = 5


class Fires(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Which fires: the newest, those given up, those tried again, or those that arrived in part."""

    only: Literal["all", "failed", "retrying", "partial"] = "all"
    reminder: str = ""
    limit: Limit = 50


class NewEndpoint(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    name: str
    url: str
    # Who is told by mail before it is switched off.
    contact: str | None = None


class Calls(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Which calls of receivers: of an endpoint, or under an id."""

    endpoint: str = ""
    webhook_id: str = ""
    limit: Limit = 50


class Said(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A line in words: `stretch every weekday at 9:00 to ada@demo.example`."""

    say: Annotated[str, msgspec.Meta(max_length=600)]
    zone: Annotated[str, msgspec.Meta(max_length=60)] = "UTC"


class EndpointChange(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    url: str | None = None
    on: bool = True


@part.route("/api/reminders", methods=["POST"])
def create(body: NewReminder) -> Reply:
    made = book.create(body)
    return Reply(201, made, {"location": f"/api/reminders/{made.id}"})


@part.route("/remind", methods=["POST"], max_body=2000)
def remind(body: bytes, request: Request) -> Reply:
    """One line, as curl sends it: curl -d 'stretch every weekday at 9:00' …/remind."""
    text = _text(body)
    made = planning.create_said(text, request.query_params.get("zone", "UTC"))
    return Reply(201, made, {"location": f"/api/reminders/{made.id}"})


@part.route("/api/reminders/say", methods=["POST"])
def say(body: Said) -> Reply:
    """The same as JSON."""
    made = planning.create_said(body.say, body.zone)
    return Reply(201, made, {"location": f"/api/reminders/{made.id}"})


@part.route("/api/reminders/preview", methods=["POST"])
def preview_line(body: Said) -> dict[str, Any]:
    """What a line means, and when it would be sent: nothing is made."""
    new = planning.said(body.say, body.zone)
    fields = {name: value for name, value in msgspec.to_builtins(new).items() if value}
    return {"reminder": fields, "next": planning.marked(planning.times(new), new.zone)}


@part.route("/api/reminders/export.csv")
def export_csv() -> Reply:
    return Reply(200, exchange.to_csv().encode(), {"content-type": "text/csv; charset=utf-8"})


@part.route("/api/reminders/export.ics")
def export_ics() -> Reply:
    made = exchange.to_ics(part.app.now())
    return Reply(200, made, {"content-type": "text/calendar; charset=utf-8"})


@part.route("/api/reminders/import", methods=["POST"], max_body=LARGEST)
def bring(body: bytes, request: Request) -> exchange.Brought:
    """A file as it is: CSV, or a calendar. `?email=`, `endpoint=` and `zone=` hold where it says nothing."""
    names = request.query_params.keys() & {"email", "endpoint", "zone"}
    return brought(body, {name: request.query_params[name] for name in names})


def brought(content: bytes, usual: dict[str, Any]) -> exchange.Brought:
    """Make what a file has, all of it or nothing."""
    now = part.app.now()
    if content.lstrip(b"\xef\xbb\xbf \r\n").upper().startswith(b"BEGIN:VCALENDAR"):
        return exchange.bring(*exchange.from_ics(content, now, usual))
    return exchange.bring(exchange.from_csv(_text(content), now, usual))


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise UsageError("the body is text in UTF-8") from None


@part.route("/api/reminders")
def listing(query: Listing) -> list[book.Reminder]:
    if query.only == "coming":
        return book.coming(limit=query.limit)
    return book.every(limit=query.limit, after=query.after)


@part.route("/api/reminders/{id}")
def show(id: str) -> book.Reminder:  # noqa: A002 - the path's own word
    return book.find(id)


@part.route("/api/reminders/{id}", methods=["PATCH"])
def edit(id: str, body: Change) -> book.Reminder:  # noqa: A002
    return book.edit(id, body)


@part.route("/api/reminders/{id}", methods=["DELETE"])
def delete(id: str) -> None:  # noqa: A002
    book.delete(id)


@part.route("/api/reminders/{id}/snooze", methods=["POST"])
def snooze(id: str, body: Snooze) -> book.Reminder:  # noqa: A002
    return book.snooze(id, body.length)


@part.route("/api/reminders/{id}/send-now", methods=["POST"])
def send_now(id: str) -> Reply:  # noqa: A002
    return Reply(202, {"job": str(book.send_now(id))})


@part.route("/api/reminders/{id}/done", methods=["POST"])
def done(id: str) -> dict[str, bool]:  # noqa: A002
    """Say that it is done: it is not repeated. Whether it waited for that."""
    book.find(id)
    return {"waited": book.done(id)}


@part.route("/api/reminders/{id}/next")
def following(id: str, query: Preview) -> list[str]:  # noqa: A002
    return book.preview(id, query.count)


@part.route("/api/reminder-fires")
def fires(query: Fires) -> list[log.Fire]:
    if query.only == "all":
        return log.recent(reminder=query.reminder, limit=query.limit)
    verbs = {"failed": log.failed, "retrying": log.retrying, "partial": log.partial}
    return verbs[query.only](limit=query.limit)


@part.route("/api/reminder-fires/{job}/redrive", methods=["POST"])
def redrive(job: int) -> Reply:
    return Reply(202, {"was": log.redrive(job)})


@part.route("/api/reminder-fires/{job}/replay", methods=["POST"])
async def replay(job: int) -> dict[str, str]:
    """The stored body once more, with the same id and the secret of today; what was answered."""
    try:
        return {"answer": str(await channels.replay(job))}
    except (http.HttpError, Fail) as error:
        return {"error": str(error)}


@part.route("/api/reminder-calls")
def calls(query: Calls) -> list[attempts.Attempt]:
    """Each call of a receiver, with the first 2 KiB of its answer, newest first."""
    return attempts.recent(endpoint=query.endpoint, webhook_id=query.webhook_id, limit=query.limit)


@part.route("/api/reminder-recipients/{address}", methods=["PUT"])
def choose(address: str, body: recipients.Choices) -> recipients.Recipient:
    """Quiet hours and a pause for everything that goes to this address."""
    return recipients.choose(address, body)


@part.route("/api/reminder-recipients/{address}")
def chosen(address: str) -> recipients.Recipient:
    return recipients.find(address)


@part.route("/api/reminder-recipients/{address}", methods=["DELETE"])
def forget_choice(address: str) -> None:
    recipients.forget(address)


@part.route("/api/reminder-endpoints", methods=["POST"])
def create_endpoint(body: NewEndpoint) -> Reply:
    """The answer has the secret, which is told once."""
    return Reply(201, endpoints.create(body.name, body.url, contact=body.contact))


@part.route("/api/reminder-endpoints")
def list_endpoints() -> list[endpoints.Endpoint]:
    return endpoints.every()


@part.route("/api/reminder-endpoints/{id}", methods=["PATCH"])
def change_endpoint(id: str, body: EndpointChange) -> endpoints.Endpoint:  # noqa: A002
    return endpoints.change(id, url=body.url, on=body.on)


@part.route("/api/reminder-endpoints/{id}/rotate", methods=["POST"])
def rotate(id: str) -> endpoints.MadeEndpoint:  # noqa: A002
    return endpoints.rotate(id)


@part.route("/api/reminder-endpoints/{id}/test", methods=["POST"])
async def test_call(id: str) -> dict[str, str]:  # noqa: A002
    """What the receiver said, or why nothing came back."""
    try:
        return {"answer": str(await channels.test_call(id))}
    except (http.HttpError, Fail) as error:
        return {"error": str(error)}


@part.route("/api/reminder-endpoints/{id}", methods=["DELETE"])
def delete_endpoint(id: str) -> None:  # noqa: A002
    endpoints.delete(id)
