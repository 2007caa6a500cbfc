"""Azure Communication Services' e-mail, in both of its stable API versions.

A send is accepted with 202 and an operation that runs for a while; each poll has to be signed like
the send itself. `Operation-Id` is what makes a send repeatable. Version 2025-09-01 puts two slashes
into `Operation-Location` and asks to wait longer; a failed operation spells its id in capitals. The
URL in the reply is to be used as it is.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, ClassVar

from starlette.responses import JSONResponse, Response

from systems.twins.kit.app import Answer, Call, Door, Twin
from systems.twins.kit.clock import as_iso
from systems.twins.kit.courier import Parcel
from systems.twins.kit.limits import Window, Windows, whole_seconds
from systems.twins.kit.shapes import misfit

VERSIONS = ("2023-03-31", "2025-09-01")
# Not documented; five minutes are what others of this kind allow.
SKEW = 300_000
KEY = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
MOST_RECIPIENTS = 50
MOST_BYTES = 10 * 1024 * 1024
# (per minute, per hour) for sends and for polls.
PLANS = {
    "custom": ((30, 100), (60, 200)),
    "managed": ((5, 10), (10, 20)),
    # What an application is given that has asked for more.
    "raised": ((1_000, 50_000), (2_000, 100_000)),
}
PEOPLE = [{"address": str, "displayName": str}]
SHAPE = {
    "senderAddress": str,
    "content": {"subject": str, "plainText": str, "html": str},
    "recipients": {"to": PEOPLE, "cc": PEOPLE, "bcc": PEOPLE},
    "replyTo": PEOPLE,
    "headers": {},
    "attachments": [{"name": str, "contentType": str, "contentInBase64": str}],
    "userEngagementTrackingDisabled": bool,
}
OUTCOMES = ("Succeeded", "Failed", "Canceled")
AUTHORIZATION = re.compile(
    r"HMAC-SHA256 SignedHeaders=x-ms-date;host;x-ms-content-sha256&Signature=(\S+)"
)


@dataclass(slots=True)
class Operation:
    id: str
    digest: str
    at: int
    outcome: str
    version: str


class Acs(Twin):
    name = "acs"
    about: ClassVar = "Azure e-mail: signed sends, operations to poll"

    def make_doors(self) -> list[Door]:
        return [
            Door("send", "POST", "/emails:send", self._send),
            Door("poll", "GET", "/emails/operations/{id}", self._poll),
            # As version 2025-09-01 spells it.
            Door("poll", "GET", "//emails/operations/{id}", self._poll),
        ]

    def start_over(self) -> None:
        self.key = KEY
        self.operations: dict[str, Operation] = {}
        # How long an operation is unknown after its 202, and how long it runs.
        self.hidden_ms, self.running_ms = 0, 5_000
        # What becomes of mails to these addresses; all others succeed.
        self.outcomes: dict[str, str] = {}
        self.unlinked: set[str] = set()
        self.events_url = ""
        # The version in Operation-Location, where it is not the one that was sent.
        self.location_version = ""
        self.set_plan("custom")

    def samples(self) -> dict[str, str]:
        return {"connection_string": self.connection_string}

    def switches(self) -> Mapping[str, Callable[..., object]]:
        return {
            "set_plan": self.set_plan,
            "set_times": self.set_times,
            "set_outcome": self.set_outcome,
            "unlink": self.unlink,
            "set_events": self.set_events,
            "set_location_version": self.set_location_version,
        }

    # Switches.

    @property
    def connection_string(self) -> str:
        return f"endpoint={self.url}/;accesskey={self.key}"

    def set_plan(self, plan: str) -> None:
        """The limits of a custom domain, or the lower ones of an Azure-managed domain."""
        sends, polls = PLANS[plan]
        self.set_limits(sends, polls)

    def set_limits(self, sends: tuple[int, int], polls: tuple[int, int]) -> None:
        """Per minute and per hour."""
        self._limits = {"send": _windows(*sends), "poll": _windows(*polls)}

    def set_times(self, running: float = 5, hidden: float = 0) -> None:
        """Seconds that operations run, and that they are unknown at first."""
        self.running_ms, self.hidden_ms = int(running * 1000), int(hidden * 1000)

    def set_outcome(self, address: str, outcome: str) -> None:
        if outcome not in OUTCOMES:
            raise ValueError(f"{outcome!r} is no outcome; there are {', '.join(OUTCOMES)}")
        self.outcomes[address.lower()] = outcome

    def unlink(self, domain: str) -> None:
        self.unlinked.add(domain.lower())

    def set_events(self, url: str) -> None:
        """Where delivery reports go, as CloudEvents."""
        self.events_url = url

    def set_location_version(self, version: str) -> None:
        """Let Operation-Location name this version, whichever was sent."""
        if version not in VERSIONS:
            raise ValueError(f"{version!r} is no version; there are {', '.join(VERSIONS)}")
        self.location_version = version

    # The API.

    def refusal(self, status: int) -> Response:
        codes = {400: "InvalidRequest", 401: "Denied", 403: "Forbidden", 404: "NotFound"}
        codes |= {422: "UnprocessableContent", 429: "TooManyRequests", 503: "ServiceUnavailable"}
        reply = _error(status, codes.get(status, "InternalServerError"), "The request was refused.")
        if status == 429:
            reply.headers["retry-after"] = "60"
        return reply

    def _send(self, call: Call) -> Response:
        version = self._admit(call, "send")
        if len(call.body) > MOST_BYTES:
            return _error(413, "RequestEntityTooLarge", "The request is larger than 10 MB.")
        mail = call.json()
        self._check(mail)
        id_ = call.headers.get("operation-id") or self.uuid()
        try:
            id_ = str(uuid.UUID(id_))
        except ValueError:
            return _error(400, "InvalidRequest", "Operation-Id is no UUID.", "Operation-Id")
        digest = hashlib.sha256(call.body).hexdigest()
        known = self.operations.get(id_)
        call.note(operation=id_)
        if known is None:
            self._accept(call, id_, digest, version, mail)
        elif known.digest != digest:
            message = "The Operation-Id was used with another body."
            return _error(400, "InvalidRequest", message, "Operation-Id")
        return self._accepted(call, id_, version)

    def _accept(
        self, call: Call, id_: str, digest: str, version: str, mail: dict[str, Any]
    ) -> None:
        to = _addresses(mail)
        wanted = [self.outcomes[address] for address in to if address in self.outcomes]
        outcome = wanted[0] if wanted else "Succeeded"
        self.operations[id_] = Operation(id_, digest, call.now, outcome, version)
        subject = mail["content"]["subject"]
        facts = {"key": id_, "to": ",".join(to), "subject": subject, "outcome": outcome}
        self.ledger.add("mail", call.now, sender=mail["senderAddress"], **facts)
        if self.events_url:
            for address in to:
                self._report(call.now, id_, mail["senderAddress"], address, outcome)

    def _accepted(self, call: Call, id_: str, version: str) -> Response:
        host = call.headers.get("host", "")
        newer = version == VERSIONS[1]
        scheme = self.url.partition(":")[0]
        slash = "//" if newer else "/"
        named = self.location_version or version
        location = f"{scheme}://{host}{slash}emails/operations/{id_}?api-version={named}"
        headers = {"operation-location": location, "retry-after": "20" if newer else "3"}
        body: dict[str, Any] = {"id": id_, "status": "Running"}
        return JSONResponse(body if newer else {**body, "error": None}, 202, headers)

    def _poll(self, call: Call) -> Response:
        version = self._admit(call, "poll")
        try:
            id_ = str(uuid.UUID(call.part("id")))
        except ValueError:
            id_ = ""
        operation = self.operations.get(id_)
        call.note(operation=id_)
        if operation is None or call.now < operation.at + self.hidden_ms:
            return _error(404, "NotFound", "The operation was not found.")
        if call.now < operation.at + self.running_ms:
            wait = "20" if version == VERSIONS[1] else "3"
            body = {"id": id_, "status": "Running", "error": None}
            return JSONResponse(body, headers={"retry-after": wait})
        if operation.outcome != "Failed":
            return JSONResponse({"id": id_, "status": operation.outcome, "error": None})
        error: dict[str, Any] = {
            "code": "EmailDropped",
            "message": "Email was dropped after several attempts to deliver.",
        }
        if version == VERSIONS[1]:
            id_ = id_.upper()
        else:
            error |= {"target": None, "details": [], "innererror": None}
        return JSONResponse({"id": id_, "status": "Failed", "error": error})

    def _admit(self, call: Call, kind: str) -> str:
        """Signature, version and limits; returns the version."""
        problem = self._unsigned(call)
        if problem:
            call.note(problem=problem)
            raise Answer(_error(401, "Denied", f"Denied by the resource provider: {problem}"))
        version = call.query.get("api-version", "")
        if version not in VERSIONS:
            message = f"The requested API version is not supported: {version or 'none'}."
            raise Answer(_error(400, "InvalidApiVersion", message, "api-version"))
        windows = [each["subscription"] for each in self._limits[kind]]
        if full := [window for window in windows if window.full(call.now)]:
            # Whoever comes back after the shorter one would be refused by the longer one.
            last = max(full, key=lambda window: window.wait(call.now))
            call.limited(last)
            reply = self.refusal(429)
            reply.headers["retry-after"] = str(whole_seconds(last.wait(call.now)))
            raise Answer(reply)
        for window in windows:
            window.use(call.now)
        return version

    def _unsigned(self, call: Call) -> str | None:
        date, digest = call.headers.get("x-ms-date"), call.headers.get("x-ms-content-sha256")
        given = AUTHORIZATION.fullmatch(call.headers.get("authorization", ""))
        if not date or not digest or given is None:
            return "a header of the signature is missing"
        if digest != content_hash(call.body):
            return "x-ms-content-sha256 does not belong to the body"
        try:
            at = int(parsedate_to_datetime(date).timestamp() * 1000)
        except ValueError:
            return "x-ms-date is no date"
        if abs(call.now - at) > SKEW:
            return f"x-ms-date is {abs(call.now - at) // 1000} s off"
        # The bytes as they came: an encoded colon is another path.
        path = call.request.scope["raw_path"].decode()
        if query := call.request.scope["query_string"].decode():
            path += f"?{query}"
        host = call.headers.get("host", "")
        right = signature(self.key, call.request.method, path, date, host, digest)
        return None if hmac.compare_digest(right, given[1]) else "the signature does not match"

    def _check(self, mail: Any) -> None:
        """Raise what is wrong with a mail."""
        problem = _wrong(mail)
        if problem:
            raise Answer(_error(400, "InvalidRequest", problem[1], problem[0]))
        domain = mail["senderAddress"].rpartition("@")[2].lower()
        if domain in self.unlinked:
            message = "The specified sender domain has not been linked."
            raise Answer(_error(404, "DomainNotLinked", message))

    def _report(self, now: int, id_: str, sender: str, address: str, outcome: str) -> None:
        status = {"Succeeded": "Delivered", "Failed": "Bounced", "Canceled": "Suppressed"}[outcome]
        at = now + self.running_ms
        data = {"sender": sender, "recipient": address, "messageId": id_, "status": status}
        event: dict[str, Any] = {
            "id": self.uuid(),
            "source": "/subscriptions/demo/providers/Microsoft.Communication/communicationServices/demo",
            "subject": f"sender/{sender}/message/{id_}",
            "data": {**data, "deliveryAttemptTimestamp": as_iso(at)},
            "type": "Microsoft.Communication.EmailDeliveryReportReceived",
            "time": as_iso(at),
            "specversion": "1.0",
        }
        headers = {"content-type": "application/cloudevents+json"}
        body = json.dumps(event).encode()
        waits = [10_000, 30_000, 60_000, 300_000]
        parcel = Parcel(self.events_url, body, lambda _: headers, waits, at, event["id"])
        self.courier.parcels.append(parcel)


def _windows(minute: int, hour: int) -> tuple[Windows, Windows]:
    return Windows(lambda: Window(minute, 60_000)), Windows(lambda: Window(hour, 3_600_000))


def content_hash(body: bytes) -> str:
    return base64.b64encode(hashlib.sha256(body).digest()).decode()


def signature(key: str, verb: str, path: str, date: str, host: str, digest: str) -> str:
    text = f"{verb}\n{path}\n{date};{host};{digest}"
    return base64.b64encode(
        hmac.digest(base64.b64decode(key), text.encode(), hashlib.sha256)
    ).decode()


def _wrong(mail: Any) -> tuple[str, str] | None:
    """Where a mail is wrong, and how."""
    path = "body" if mail is None else misfit(mail, SHAPE)
    if path is not None:
        return path, "The value is missing or has the wrong type."
    if "@" not in str(mail.get("senderAddress", "")):
        return "senderAddress", "The sender address is missing or malformed."
    content = mail.get("content")
    if not isinstance(content, dict) or not content.get("subject"):
        return "content.subject", "The subject is missing."
    if not content.get("plainText") and not content.get("html"):
        return "content", "One of plainText and html is required."
    recipients = mail.get("recipients")
    if not isinstance(recipients, dict) or not recipients.get("to"):
        return "recipients.to", "At least one recipient is required."
    everybody = _addresses(mail)
    if len(everybody) > MOST_RECIPIENTS:
        return "recipients", "There are more than 50 recipients."
    if not all("@" in address for address in everybody):
        return "recipients", "An address is malformed."
    for attachment in mail.get("attachments") or []:
        try:
            base64.b64decode(attachment["contentInBase64"], validate=True)
        except (KeyError, TypeError, ValueError):
            return "attachments", "An attachment is not in base64."
    return None


def _addresses(mail: dict[str, Any]) -> list[str]:
    kinds = [mail["recipients"].get(kind) or [] for kind in ("to", "cc", "bcc")]
    return [str(each.get("address", "")).lower() for kind in kinds for each in kind]


def _error(status: int, code: str, message: str, target: str | None = None) -> Response:
    error: dict[str, Any] = {"code": code, "message": message, "target": target}
    error |= {"details": [], "innererror": None}
    return JSONResponse({"error": error}, status, {"x-ms-error-code": code})
