"""Resend: mails with a key that is remembered for 24 hours, batches, and webhooks about them.

The same key with the same payload gets the same answer and no second mail; with another payload it is
409, and so it is while the first call is still under way. The ledger counts mails that went out, so
a scheduled one is in it when its time has come.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from starlette.responses import JSONResponse, Response

from systems.twins.kit.app import Answer, Call, Door, Twin
from systems.twins.kit.limits import Window, Windows, whole_seconds
from systems.twins.kit.shapes import misfit
from systems.twins.resend.checks import scheduled, wrong
from systems.twins.resend.events import EVENTS, FATES, Hook, Mail, listed

DAY, MONTH = 86_400_000, 30 * 86_400_000
MOST_BATCH = 100

# Status by name, where the name decides it.
STATUS = {
    "invalid_idempotency_key": 400,
    "missing_api_key": 401,
    "restricted_api_key": 401,
    "invalid_api_key": 403,
    "suspended_api_key": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "invalid_idempotent_request": 409,
    "concurrent_idempotent_requests": 409,
    "missing_required_field": 422,
    "invalid_attachment": 422,
    "invalid_parameter": 422,
    "rate_limit_exceeded": 429,
    "daily_quota_exceeded": 429,
    "monthly_quota_exceeded": 429,
    "application_error": 500,
    "service_unavailable": 503,
}


@dataclass(slots=True)
class Remembered:
    digest: str
    at: int
    body: dict[str, Any] | None = None  # None while the call is under way


class Resend(Twin):
    name = "resend"
    about: ClassVar = "mails with idempotency keys, batches, webhooks of delivery and bounce"

    def make_doors(self) -> list[Door]:
        return [
            Door("emails.send", "POST", "/emails", self._send),
            Door("emails.batch", "POST", "/emails/batch", self._batch),
            Door("emails.list", "GET", "/emails", self._list),
            Door("emails.get", "GET", "/emails/{id}", self._get),
            Door("emails.update", "PATCH", "/emails/{id}", self._update),
            Door("emails.cancel", "POST", "/emails/{id}/cancel", self._cancel),
            Door("webhooks.create", "POST", "/webhooks", self._create_hook),
            Door("webhooks.list", "GET", "/webhooks", self._list_hooks),
            Door("webhooks.get", "GET", "/webhooks/{id}", self._get_hook),
            Door("webhooks.delete", "DELETE", "/webhooks/{id}", self._delete_hook),
        ]

    def start_over(self) -> None:
        # What a key may do: everything, "send", or nothing since it is "suspended".
        self.keys = {"re_demo": "full", "re_send": "send", "re_suspended": "suspended"}
        self.mails: dict[str, Mail] = {}
        self.hooks: dict[str, Hook] = {}
        self.unverified: set[str] = set()
        self.own_address = "owner@demo.example"
        self.fates: dict[str, tuple[str, ...]] = dict(FATES)
        self.deliver_ms = 2_000
        # Real seconds that a send takes, for calls that meet each other.
        self.work = 0.0
        self._remembered: dict[str, Remembered] = {}
        self.set_limits()

    def samples(self) -> dict[str, str]:
        return {"api_key": "re_demo"}

    def switches(self) -> Mapping[str, Callable[..., object]]:
        return {
            "set_limits": self.set_limits,
            "set_fate": self.set_fate,
            "unverify": self.unverify,
            "set_work": self.set_work,
        }

    # Switches.

    def set_limits(
        self, per_second: int = 2, daily: int | None = None, monthly: int | None = None
    ) -> None:
        """Calls a second, and quotas of mails (the free plan's are 100 and 3,000)."""
        self._seconds = Windows(lambda: Window(per_second, 1000))
        self._daily = Window(daily or 10**9, DAY, aligned=True)
        self._monthly = Window(monthly or 10**9, MONTH)

    def set_fate(self, address: str, events: list[str]) -> None:
        """What happens to mails to this address, in order; nothing at all keeps it `sent`."""
        if unknown := [event for event in events if f"email.{event}" not in EVENTS]:
            raise ValueError(f"{unknown[0]!r} is no event")
        self.fates[address.lower()] = tuple(events)

    def unverify(self, domain: str) -> None:
        self.unverified.add(domain.lower())

    def set_work(self, seconds: float) -> None:
        self.work = seconds

    # Refusals.

    def refusal(self, status: int) -> Response:
        names = {code: name for name, code in reversed(STATUS.items())}
        name = names.get(status, "application_error")
        reply = self._error(name, "The request was refused.", status)
        if status == 429:
            reply.headers["retry-after"] = "1"
        return reply

    def _error(self, name: str, message: str, status: int | None = None) -> Response:
        code = STATUS.get(name, 400) if status is None else status
        return JSONResponse({"statusCode": code, "name": name, "message": message}, code)

    def _admit(self, call: Call, *, sends: bool) -> None:
        if not call.headers.get("user-agent"):
            raise Answer(Response("error code: 1010", 403, media_type="text/plain"))
        key = call.bearer()
        if key is None:
            raise Answer(self._error("missing_api_key", "Missing API Key"))
        may = self.keys.get(key)
        if may is None:
            raise Answer(self._error("invalid_api_key", "API key is invalid"))
        if may == "suspended":
            raise Answer(self._error("suspended_api_key", "This API key is suspended"))
        self._meter(call)
        if may == "send" and not sends:
            message = "This API key is restricted to only send emails"
            raise Answer(self._reply(call, self._error("restricted_api_key", message)))

    def _meter(self, call: Call) -> None:
        window = self._seconds["team"]
        if window.full(call.now):
            call.limited(window)
            message = f"Too many requests. You can only make {window.limit} requests per second."
            reply = self._reply(call, self._error("rate_limit_exceeded", message))
            reply.headers["retry-after"] = str(whole_seconds(window.wait(call.now)))
            raise Answer(reply)
        window.use(call.now)

    def _reply(self, call: Call, reply: Response) -> Response:
        window = self._seconds["team"]
        reply.headers["ratelimit-limit"] = str(window.limit)
        reply.headers["ratelimit-remaining"] = str(window.remaining(call.now))
        reply.headers["ratelimit-reset"] = str(whole_seconds(window.wait(call.now)))
        for name, quota in (("daily", self._daily), ("monthly", self._monthly)):
            quota.roll(call.now)
            reply.headers[f"x-resend-{name}-quota"] = str(quota.used)
        return reply

    # Sending.

    async def _send(self, call: Call) -> Response:
        self._admit(call, sends=True)

        async def send() -> dict[str, Any]:
            mail = self._mail(call, call.json(), batch=False)
            self._spend(call, 1)
            await asyncio.sleep(self.work)
            self._take(mail)
            return {"id": mail.id}

        return self._reply(call, JSONResponse(await self._once(call, send)))

    async def _batch(self, call: Call) -> Response:
        self._admit(call, sends=True)
        permissive = call.headers.get("x-batch-validation", "strict").lower() == "permissive"

        async def send() -> dict[str, Any]:
            sent = call.json()
            if not isinstance(sent, list) or not 1 <= len(sent) <= MOST_BATCH:
                message = "A batch is a list of 1 to 100 emails."
                raise Answer(self._error("validation_error", message, 422))
            mails, errors = [], []
            for index, each in enumerate(sent):
                try:
                    mails.append(self._mail(call, each, batch=True))
                except Answer as answer:
                    if not permissive:
                        raise
                    message = json.loads(bytes(answer.response.body))["message"]
                    errors.append({"index": index, "message": message})
            self._spend(call, len(mails))
            await asyncio.sleep(self.work)
            for mail in mails:
                self._take(mail)
            found: dict[str, Any] = {"data": [{"id": mail.id} for mail in mails]}
            return found | ({"errors": errors} if permissive else {})

        return self._reply(call, JSONResponse(await self._once(call, send)))

    async def _once(
        self, call: Call, send: Callable[[], Awaitable[dict[str, Any]]]
    ) -> dict[str, Any]:
        """Do it, or answer what was answered to this key in the last 24 hours."""
        key = call.headers.get("idempotency-key")
        call.note(key=key)
        if key is None:
            return await self._worded(call, send())
        if not 1 <= len(key) <= 256:
            message = "The idempotency key has to have between 1 and 256 characters."
            raise Answer(self._reply(call, self._error("invalid_idempotency_key", message)))
        digest = hashlib.sha256(call.request.url.path.encode() + call.body).hexdigest()
        known = self._remembered.get(key)
        if known is not None and call.now < known.at + DAY:
            return self._again(call, known, digest)
        self._remembered[key] = Remembered(digest, call.now)
        try:
            body = await self._worded(call, send())
        except Answer:
            # What was refused may be sent again with the same key.
            self._remembered.pop(key, None)
            raise
        self._remembered[key] = Remembered(digest, call.now, body)
        return body

    def _again(self, call: Call, known: Remembered, digest: str) -> dict[str, Any]:
        if known.digest != digest:
            name = "invalid_idempotent_request"
            message = "Same idempotency key used with a different request payload"
        elif known.body is None:
            name = "concurrent_idempotent_requests"
            message = "Same idempotency key used while original request is still in progress"
        else:
            return known.body
        raise Answer(self._reply(call, self._error(name, message)))

    async def _worded(self, call: Call, work: Awaitable[dict[str, Any]]) -> dict[str, Any]:
        try:
            return await work
        except Answer as answer:
            raise Answer(self._reply(call, answer.response)) from None

    def _spend(self, call: Call, mails: int) -> None:
        for name, quota in (("daily", self._daily), ("monthly", self._monthly)):
            if quota.full(call.now, mails):
                call.limited(quota)
                message = f"You have reached your {name} email sending quota."
                raise Answer(self._error(f"{name}_quota_exceeded", message))
        for quota in (self._daily, self._monthly):
            quota.use(call.now, mails)

    def _mail(self, call: Call, sent: Any, *, batch: bool) -> Mail:
        if not isinstance(sent, dict):
            raise Answer(self._error("validation_error", "The email is no JSON object.", 400))
        problem = wrong(sent)
        if problem is not None:
            raise Answer(self._error(*problem))
        domain = sent["from"].rpartition("@")[2].rstrip(">").lower()
        if domain in self.unverified:
            message = f"The {domain} domain is not verified. Please, add and verify your domain."
            raise Answer(self._error("validation_error", message, 403))
        to = listed(sent["to"])
        plain = [address.rpartition("<")[2].rstrip(">").lower() for address in to]
        if domain == "resend.dev" and not set(plain) <= {self.own_address, *self.fates}:
            message = (
                f"You can only send testing emails to your own email address ({self.own_address})."
            )
            raise Answer(self._error("validation_error", message, 403))
        # A batch drops what it does not support, without a word.
        due = call.now if batch else scheduled(sent, call.now)
        if due is None:
            raise Answer(
                self._error("validation_error", "The `scheduled_at` field is invalid.", 422)
            )
        mail = Mail(self.uuid(), call.headers.get("idempotency-key"), call.now, sent, to, due)
        events = next((self.fates[a] for a in plain if a in self.fates), ("delivered",))
        mail.fate = [("sent", due)]
        mail.fate += [(e, due + self.deliver_ms * n) for n, e in enumerate(events, 1)]
        return mail

    def _take(self, mail: Mail) -> None:
        self.mails[mail.id] = mail
        if mail.due > mail.at:
            self._tell(mail, "scheduled", mail.at)
        self.tick()

    def tick(self) -> None:
        """Let go out what is due."""
        for mail in list(self.mails.values()):
            if mail.sent or mail.canceled or mail.due > self.now():
                continue
            mail.sent = True
            facts = {"id": mail.id, "to": ",".join(mail.to), "subject": mail.body["subject"]}
            self.ledger.add("mail", mail.due, key=mail.key, **facts, sender=mail.body["from"])
            for event, at in mail.fate:
                self._tell(mail, event, at)

    def _tell(self, mail: Mail, event: str, at: int) -> None:
        for hook in self.hooks.values():
            if f"email.{event}" in hook.events:
                parcel = hook.parcel("msg_" + self.token(length=27), mail, event, at)
                self.courier.parcels.append(parcel)

    # Looking and changing.

    def _found(self, call: Call) -> Mail:
        self._admit(call, sends=False)
        mail = self.mails.get(call.part("id"))
        if mail is None:
            raise Answer(self._reply(call, self._error("not_found", "Email not found")))
        return mail

    def _get(self, call: Call) -> Response:
        return self._reply(call, JSONResponse(self._found(call).as_json(call.now)))

    def _list(self, call: Call) -> Response:
        self._admit(call, sends=False)
        limit = call.query.get("limit", "20")
        if not limit.isdecimal() or not 1 <= int(limit) <= 100:
            message = "The `limit` has to be between 1 and 100."
            return self._reply(call, self._error("validation_error", message, 422))
        newest = list(reversed(self.mails.values()))
        ids = [mail.id for mail in newest]
        if (after := call.query.get("after")) in ids:
            newest = newest[ids.index(after) + 1 :]
        elif (before := call.query.get("before")) in ids:
            newest = newest[max(0, ids.index(before) - int(limit)) : ids.index(before)]
        page = [mail.as_json(call.now) for mail in newest[: int(limit)]]
        body = {"object": "list", "has_more": len(newest) > int(limit), "data": page}
        return self._reply(call, JSONResponse(body))

    def _waiting(self, call: Call) -> Mail:
        mail = self._found(call)
        if mail.sent or mail.canceled:
            message = "Only scheduled emails can be changed."
            raise Answer(self._reply(call, self._error("validation_error", message, 422)))
        return mail

    def _update(self, call: Call) -> Response:
        mail = self._waiting(call)
        sent = call.json()
        due = scheduled(sent, call.now) if isinstance(sent, dict) else None
        if due is None or due <= call.now:
            message = "The `scheduled_at` field is invalid."
            return self._reply(call, self._error("validation_error", message, 422))
        mail.fate = [(event, at - mail.due + due) for event, at in mail.fate]
        mail.due = due
        return self._reply(call, JSONResponse({"object": "email", "id": mail.id}))

    def _cancel(self, call: Call) -> Response:
        mail = self._waiting(call)
        mail.canceled = True
        return self._reply(call, JSONResponse({"object": "email", "id": mail.id}))

    # Webhooks.

    def _create_hook(self, call: Call) -> Response:
        self._admit(call, sends=False)
        sent = call.json()
        sent = sent if isinstance(sent, dict) else {}
        for name in ("endpoint", "events"):
            if not sent.get(name):
                reply = self._error("missing_required_field", f"Missing `{name}` field.")
                return self._reply(call, reply)
        if misfit(sent["events"], [str]) or not set(sent["events"]) <= EVENTS:
            reply = self._error("invalid_parameter", "The `events` field has an unknown event.")
            return self._reply(call, reply)
        secret = "whsec_" + self.token(length=32)
        hook = Hook(self.uuid(), str(sent["endpoint"]), set(sent["events"]), secret, call.now)
        self.hooks[hook.id] = hook
        body = {"object": "webhook", "id": hook.id, "signing_secret": secret}
        return self._reply(call, JSONResponse(body, 201))

    def _list_hooks(self, call: Call) -> Response:
        self._admit(call, sends=False)
        data = [hook.as_json() for hook in self.hooks.values()]
        return self._reply(call, JSONResponse({"object": "list", "has_more": False, "data": data}))

    def _hook(self, call: Call) -> Hook:
        self._admit(call, sends=False)
        hook = self.hooks.get(call.part("id"))
        if hook is None:
            raise Answer(self._reply(call, self._error("not_found", "Webhook not found")))
        return hook

    def _get_hook(self, call: Call) -> Response:
        return self._reply(call, JSONResponse(self._hook(call).as_json()))

    def _delete_hook(self, call: Call) -> Response:
        hook = self._hook(call)
        del self.hooks[hook.id]
        return self._reply(
            call, JSONResponse({"object": "webhook", "id": hook.id, "deleted": True})
        )
