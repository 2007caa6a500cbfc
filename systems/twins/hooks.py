"""A receiver of webhooks: checks signatures, counts deliveries by id, answers anything or nothing.

An endpoint is a name in the path, `/hook/{name}`; one that was not set up takes everything. Its
answers are taken in turn, the last one again and again. What was answered with 2xx is delivered;
everything else that arrived whole is in the ledger as `refused`, and a wrong signature as `forged`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from starlette.responses import JSONResponse, Response

from systems.twins.kit.app import Answer, Call, Door, Twin
from systems.twins.kit.replies import Dropped, Never

TOLERANCE = 300

NEVER, DROP = 0, -1


@dataclass(slots=True)
class Endpoint:
    scheme: str = "none"
    secrets: list[str] = field(default_factory=list)
    answers: list[int] = field(default_factory=lambda: [200])
    headers: dict[str, str] = field(default_factory=dict)
    seen: int = 0


class Hooks(Twin):
    name = "hooks"
    about: ClassVar = "a receiver of webhooks that checks signatures and counts by id"

    def make_doors(self) -> list[Door]:
        return [
            Door("hook", "POST", "/hook/{name}", self._receive),
            Door("challenge", "GET", "/hook/{name}", self._challenge),
        ]

    def start_over(self) -> None:
        self.endpoints: dict[str, Endpoint] = {}

    def samples(self) -> dict[str, str]:
        return {"endpoint": f"{self.url}/hook/anything"}

    def switches(self) -> Mapping[str, Callable[..., object]]:
        return {"endpoint": self.endpoint, "answer": self.answer}

    def endpoint(self, name: str, scheme: str = "none", secrets: list[str] | None = None) -> str:
        """Set up an endpoint; several secrets are a rotation under way. Returns its URL."""
        if scheme not in SCHEMES:
            raise ValueError(f"{scheme!r} is no scheme; there are {sorted(SCHEMES)}")
        if scheme != "none" and not secrets:
            raise ValueError(f"{scheme} needs a secret")
        if scheme == "standard":
            _ = [_key(secret) for secret in secrets or []]
        self.endpoints[name] = Endpoint(scheme, list(secrets or []))
        return f"{self.url}/hook/{name}"

    def answer(
        self, name: str, answers: int | list[int], headers: dict[str, str] | None = None
    ) -> None:
        """Statuses to answer in turn; 0 never answers, -1 drops the connection."""
        endpoint = self.endpoints.setdefault(name, Endpoint())
        endpoint.answers = [answers] if isinstance(answers, int) else list(answers) or [200]
        endpoint.headers = dict(headers or {})
        endpoint.seen = 0

    def _challenge(self, call: Call) -> Response:
        """Who subscribes a receiver asks it first whether it is one."""
        return JSONResponse({"hub.challenge": call.query.get("hub.challenge", "")})

    def _receive(self, call: Call) -> Response:
        name = call.part("name")
        endpoint = self.endpoints.setdefault(name, Endpoint())
        id_ = call.headers.get("webhook-id") or call.headers.get("svix-id")
        id_ = id_ or call.headers.get("x-github-delivery")
        call.note(endpoint=name, id=id_)
        facts = {"endpoint": name, "id": id_, "body": call.body.decode(errors="replace")}
        problem = SCHEMES[endpoint.scheme](call, endpoint.secrets)
        if problem:
            self.ledger.add("forged", call.now, **facts, problem=problem)
            call.note(problem=problem)
            raise Answer(JSONResponse({"error": problem}, 401))
        status = endpoint.answers[min(endpoint.seen, len(endpoint.answers) - 1)]
        endpoint.seen += 1
        delivered = 200 <= status < 300
        self.ledger.add("delivered" if delivered else "refused", call.now, **facts, status=status)
        if status == NEVER:
            return Never()
        if status == DROP:
            return Dropped()
        return Response(status_code=status, headers=endpoint.headers)


# Each returns what is wrong, or None.


def _unsigned(call: Call, secrets: list[str]) -> str | None:  # noqa: ARG001
    return None


def standard_signature(secret: str, id_: str, timestamp: str, body: bytes) -> str:
    """The signature of Standard Webhooks and of Svix."""
    key = _key(secret)
    signed = f"{id_}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()


def _key(secret: str) -> bytes:
    text = secret.removeprefix("whsec_")
    try:
        # Unpadded secrets are accepted by the reference libraries.
        key = base64.b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error:
        key = b""
    if not key:
        raise ValueError("a webhook's secret is whsec_ and base64")
    return key


def _standard(call: Call, secrets: list[str]) -> str | None:
    for brand in ("webhook", "svix"):
        names = [f"{brand}-{part}" for part in ("id", "timestamp", "signature")]
        found = [call.headers.get(name) for name in names]
        if any(found):
            break
    id_, timestamp, signatures = found
    if not id_ or not timestamp or not signatures:
        return "a header is missing"
    try:
        age = call.now // 1000 - int(timestamp)
    except ValueError:
        return "the timestamp is no number"
    if abs(age) > TOLERANCE:
        return f"the timestamp is {age} s old"
    right = [standard_signature(secret, id_, timestamp, call.body) for secret in secrets]
    given = signatures.split(" ")
    matches = [hmac.compare_digest(a.encode(), b.encode()) for a in right for b in given]
    return None if any(matches) else "no signature matches"


def _stripe(call: Call, secrets: list[str]) -> str | None:
    pairs = [p.partition("=") for p in call.headers.get("stripe-signature", "").split(",")]
    stamps = [value for name, _, value in pairs if name == "t"]
    if not stamps or not stamps[0].isdecimal():
        return "a header is missing"
    if abs(call.now // 1000 - int(stamps[0])) > TOLERANCE:
        return "the timestamp is out of tolerance"
    signed = f"{stamps[0]}.".encode() + call.body
    return _hex(secrets, signed, [value for name, _, value in pairs if name == "v1"])


def _github(call: Call, secrets: list[str]) -> str | None:
    return _prefixed(call, secrets, "x-hub-signature-256")


def _notify(call: Call, secrets: list[str]) -> str | None:
    return _prefixed(call, secrets, "x-notify-signature")


def _prefixed(call: Call, secrets: list[str], header: str) -> str | None:
    given = call.headers.get(header, "")
    if not given.startswith("sha256="):
        return "a header is missing"
    return _hex(secrets, call.body, [given.removeprefix("sha256=")])


def _hex(secrets: list[str], signed: bytes, given: list[str]) -> str | None:
    right = [hmac.digest(secret.encode(), signed, hashlib.sha256).hex() for secret in secrets]
    matches = [hmac.compare_digest(a.encode(), b.encode()) for a in right for b in given]
    return None if any(matches) else "no signature matches"


SCHEMES: dict[str, Callable[[Call, list[str]], str | None]] = {
    "none": _unsigned,
    "standard": _standard,
    "stripe": _stripe,
    "github": _github,
    "notify": _notify,
}
