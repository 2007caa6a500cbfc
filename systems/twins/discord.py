"""Discord's webhooks: no key, no second chance to ask whether a message arrived.

Each webhook has a bucket of its own (5 calls in 2 s), each channel a hidden one (30 in a minute),
both configurable, since neither number is documented. Refused calls count. Who collects too many
refusals is banned for a while, by a page of HTML without any of the usual headers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from starlette.responses import JSONResponse, Response

from systems.twins.kit.app import Answer, Call, Door, Twin
from systems.twins.kit.clock import as_datetime
from systems.twins.kit.limits import Window, Windows, whole_seconds
from systems.twins.kit.shapes import misfit

EMBED_LIMITS = {"title": 256, "description": 4096}
EMBED_TOTAL = 6000
CONTENT = 2000
# What a message can consist of.
SUBSTANCE = ("content", "embeds", "components", "poll", "file", "files", "attachments")
BANNED = "<html><head><title>Access denied | discord.com used Cloudflare</title></head></html>"

SHAPE = {
    "content": str,
    "username": str,
    "tts": bool,
    "flags": int,
    "embeds": [
        {
            "title": str,
            "description": str,
            "footer": {"text": str},
            "author": {"name": str},
            "fields": [{"name": str, "value": str}],
        }
    ],
}

Errors = dict[str, Any]


@dataclass(slots=True)
class Webhook:
    id: str
    token: str
    channel: str
    name: str
    deleted: bool = False
    messages: dict[str, dict[str, Any]] = field(default_factory=dict)


class Discord(Twin):
    name = "discord"
    about: ClassVar = "webhooks: messages, buckets, deleted hooks"

    def make_doors(self) -> list[Door]:
        doors = []
        for base in ("/api", "/api/v10"):
            hook = base + "/webhooks/{id}/{token}"
            message = hook + "/messages/{message}"
            doors += [
                Door("execute", "POST", hook, self._execute),
                Door("webhook.get", "GET", hook, self._get),
                Door("webhook.delete", "DELETE", hook, self._delete),
                Door("message.get", "GET", message, self._get_message),
                Door("message.edit", "PATCH", message, self._edit_message),
                Door("message.delete", "DELETE", message, self._delete_message),
            ]
        return doors

    def start_over(self) -> None:
        self.hooks: dict[str, Webhook] = {}
        self.limit, self.window = 5, 2.0
        self.channel_limit, self.channel_window = 30, 60.0
        self.global_limit = 50
        self.invalid_limit = 10_000
        self._last_id = 1_300_000_000_000_000_000
        self._buckets = Windows(lambda: Window(self.limit, int(self.window * 1000)))
        self._channels = Windows(
            lambda: Window(self.channel_limit, int(self.channel_window * 1000))
        )
        self._all = Windows(lambda: Window(self.global_limit, 1000))
        self._invalid = Windows(lambda: Window(self.invalid_limit, 600_000))
        for n in range(1, 61):
            self.add_hook(str(1_100_000_000_000_000_000 + n), f"token-{n:03}")

    def samples(self) -> dict[str, str]:
        hook = next(iter(self.hooks.values()))
        return {"webhook": f"{self.url}/api/webhooks/{hook.id}/{hook.token}"}

    def switches(self) -> Mapping[str, Callable[..., object]]:
        return {
            "add_hook": self.add_hook,
            "delete_hook": self.delete_hook,
            "set_limits": self.set_limits,
        }

    # Switches.

    def add_hook(self, id: str, token: str, channel: str | None = None) -> str:
        """A webhook; without a channel it gets one of its own. Returns its URL."""
        self.hooks[id] = Webhook(id, token, channel or str(int(id) + 10**17), "Streak Bot")
        return f"{self.url}/api/webhooks/{id}/{token}"

    def delete_hook(self, id: str) -> None:
        """As somebody in the server would: from now on it is unknown."""
        self.hooks[id].deleted = True

    def set_limits(
        self,
        bucket: int | None = None,
        channel: int | None = None,
        everything: int | None = None,
        invalid: int | None = None,
    ) -> None:
        """Other limits than the usual ones, for windows that begin from now on."""
        self.limit = self.limit if bucket is None else bucket
        self.channel_limit = self.channel_limit if channel is None else channel
        self.global_limit = self.global_limit if everything is None else everything
        self.invalid_limit = self.invalid_limit if invalid is None else invalid

    # The API.

    def refusal(self, status: int) -> Response:
        texts = {
            401: ("Invalid Webhook Token", 50027),
            403: ("Missing Permissions", 50013),
            404: ("Unknown Webhook", 10015),
            405: ("405: Method Not Allowed", 0),
        }
        if status == 429:
            return _limited(1.0, "user")
        message, code = texts.get(status, (f"{status}: Internal Server Error", 0))
        return JSONResponse({"message": message, "code": code}, status)

    def _door(self, call: Call) -> Webhook:
        """Every check that comes before the message itself."""
        if not call.headers.get("user-agent"):
            body = {"message": "internal network error", "code": 40333}
            raise Answer(JSONResponse(body, 403))
        id_, token = call.part("id"), call.part("token")
        call.note(hook=id_)
        invalid = self._invalid["everybody"]
        if invalid.full(call.now):
            call.limited(invalid)
            wait = str(whole_seconds(invalid.wait(call.now)))
            headers = {"retry-after": wait}
            raise Answer(Response(BANNED, 429, headers, media_type="text/html"))
        self._meter(call, id_, token)
        hook = self.hooks.get(id_)
        if not id_.isdecimal():
            errors = _error("NUMBER_TYPE_COERCE", f'Value "{id_}" is not snowflake.')
            raise Answer(self._reply(call, _form({"webhook_id": errors})))
        if hook is None or hook.deleted:
            raise Answer(self._reply(call, self.refusal(404)))
        if hook.token != token:
            invalid.use(call.now)
            raise Answer(self._reply(call, self.refusal(401)))
        return hook

    def _meter(self, call: Call, id_: str, token: str) -> None:
        hook = self.hooks.get(id_)
        bucket = self._buckets[id_, token]
        channel = self._channels[hook.channel if hook else id_]
        for window, scope in (
            (self._all["everybody"], "global"),
            (bucket, "user"),
            (channel, "shared"),
        ):
            if window.full(call.now):
                call.limited(window)
                if scope != "shared":
                    self._invalid["everybody"].use(call.now)
                raise Answer(self._reply(call, _limited(window.wait(call.now), scope)))
        for window in (self._all["everybody"], bucket, channel):
            window.use(call.now)

    def _reply(self, call: Call, reply: Response) -> Response:
        id_, token = call.part("id"), call.part("token")
        bucket = self._buckets[id_, token]
        reply.headers["x-ratelimit-limit"] = str(bucket.limit)
        reply.headers["x-ratelimit-remaining"] = str(bucket.remaining(call.now))
        reply.headers["x-ratelimit-reset"] = f"{bucket.reset_at(call.now) / 1000:.3f}"
        reply.headers["x-ratelimit-reset-after"] = f"{bucket.wait(call.now):.3f}"
        name = hashlib.sha256(f"{id_}/{token}".encode()).hexdigest()[:32]
        reply.headers["x-ratelimit-bucket"] = name
        return reply

    def _execute(self, call: Call) -> Response:
        hook = self._door(call)
        sent = _message(call)
        if problem := _refuse(sent):
            return self._reply(call, problem)
        self._last_id += 1
        message = self._compose(call, hook, sent)
        hook.messages[message["id"]] = message
        self.ledger.add(
            "message",
            call.now,
            hook=hook.id,
            message=message["id"],
            content=message["content"],
            embeds=message["embeds"],
            username=message["author"]["username"],
        )
        if call.query.get("wait", "false").lower() in {"true", "1"}:
            return self._reply(call, JSONResponse(message))
        return self._reply(call, Response(status_code=204))

    def _compose(self, call: Call, hook: Webhook, sent: dict[str, Any]) -> dict[str, Any]:
        author = {
            "id": hook.id,
            "username": sent.get("username") or hook.name,
            "avatar": None,
            "discriminator": "0000",
            "public_flags": 0,
            "flags": 0,
            "bot": True,
            "global_name": None,
            "primary_guild": None,
        }
        return {
            "id": str(self._last_id),
            "type": 0,
            "content": sent.get("content") or "",
            "channel_id": hook.channel,
            "webhook_id": hook.id,
            "author": author,
            "embeds": [{"type": "rich", **embed} for embed in sent.get("embeds") or []],
            "attachments": [],
            "mentions": [],
            "mention_roles": [],
            "mention_everyone": _calls_everybody(sent),
            "pinned": False,
            "tts": bool(sent.get("tts")),
            "timestamp": as_datetime(call.now).isoformat(timespec="microseconds"),
            "edited_timestamp": None,
            "flags": sent.get("flags") or 0,
            "components": [],
        }

    def _get(self, call: Call) -> Response:
        hook = self._door(call)
        found = {
            "application_id": None,
            "avatar": None,
            "channel_id": hook.channel,
            "guild_id": "1000000000000000001",
            "id": hook.id,
            "name": hook.name,
            "type": 1,
            "token": hook.token,
            "url": f"{self.url}/api/webhooks/{hook.id}/{hook.token}",
        }
        return self._reply(call, JSONResponse(found))

    def _delete(self, call: Call) -> Response:
        self._door(call).deleted = True
        return self._reply(call, Response(status_code=204))

    def _found(self, call: Call) -> tuple[Webhook, dict[str, Any]]:
        hook = self._door(call)
        message = hook.messages.get(call.part("message"))
        if message is None:
            body = {"message": "Unknown Message", "code": 10008}
            raise Answer(self._reply(call, JSONResponse(body, 404)))
        return hook, message

    def _get_message(self, call: Call) -> Response:
        return self._reply(call, JSONResponse(self._found(call)[1]))

    def _edit_message(self, call: Call) -> Response:
        _, message = self._found(call)
        sent = _message(call)
        if problem := _refuse({**message, **sent}):
            return self._reply(call, problem)
        message.update({key: sent[key] for key in ("content", "embeds") if key in sent})
        message["edited_timestamp"] = as_datetime(call.now).isoformat(timespec="microseconds")
        self.ledger.add("edit", call.now, message=message["id"], content=message["content"])
        return self._reply(call, JSONResponse(message))

    def _delete_message(self, call: Call) -> Response:
        hook, message = self._found(call)
        del hook.messages[message["id"]]
        self.ledger.add("delete", call.now, message=message["id"])
        return self._reply(call, Response(status_code=204))


def _limited(wait: float, scope: str) -> Response:
    body = {
        "message": "You are being rate limited.",
        "retry_after": round(wait, 3),
        "global": scope == "global",
    }
    headers = {"retry-after": str(whole_seconds(wait)), "x-ratelimit-scope": scope}
    if scope == "global":
        headers["x-ratelimit-global"] = "true"
    return JSONResponse(body, 429, headers)


def _calls_everybody(sent: dict[str, Any]) -> bool:
    """Only if the sender allows it; a webhook that says nothing allows everything."""
    allowed = (sent.get("allowed_mentions") or {}).get("parse", ["everyone"])
    named = any(word in (sent.get("content") or "") for word in ("@here", "@everyone"))
    return named and "everyone" in allowed


def _message(call: Call) -> dict[str, Any]:
    kind = call.headers.get("content-type", "").partition(";")[0]
    sent = call.json() if kind == "application/json" else None
    if not isinstance(sent, dict):
        body = {"message": "The request body contains invalid JSON.", "code": 50109}
        raise Answer(JSONResponse(body, 400))
    if path := misfit(sent, SHAPE):
        wrong = _error("BASE_TYPE_INVALID", f"The type of {path} is wrong.")
        raise Answer(_form({path.partition(".")[0].partition("[")[0]: wrong}))
    return sent


def _refuse(sent: dict[str, Any]) -> Response | None:
    if not any(sent.get(name) for name in SUBSTANCE):
        return JSONResponse({"message": "Cannot send an empty message", "code": 50006}, 400)
    errors: Errors = {}
    if too_long := _too_long(sent.get("content"), CONTENT):
        errors["content"] = too_long
    username = sent.get("username")
    if username is not None and not 1 <= len(str(username)) <= 80:
        errors["username"] = _error("BASE_TYPE_BAD_LENGTH", "Must be between 1 and 80 in length.")
    embeds = sent.get("embeds") or []
    if len(embeds) > 10:
        errors["embeds"] = _error("BASE_TYPE_MAX_LENGTH", "Must be 10 or fewer in length.")
    else:
        found = {str(n): wrong for n, embed in enumerate(embeds) if (wrong := _embed(embed))}
        if not found and sum(map(_size, embeds)) > EMBED_TOTAL:
            text = "Embed size exceeds maximum size of 6000"
            found = {"0": _error("MAX_EMBED_SIZE_EXCEEDED", text)}
        if found:
            errors["embeds"] = found
    return _form(errors) if errors else None


def _embed(embed: dict[str, Any]) -> Errors:
    found = {
        key: wrong for key, n in EMBED_LIMITS.items() if (wrong := _too_long(embed.get(key), n))
    }
    color = embed.get("color")
    if color is not None and (not isinstance(color, int) or not 0 <= color <= 0xFFFFFF):
        message = f'Value "{color}" is not int.' if not isinstance(color, int) else "Out of range."
        found["color"] = _error("NUMBER_TYPE_COERCE", message)
    if wrong := _too_long((embed.get("footer") or {}).get("text"), 2048):
        found["footer"] = {"text": wrong}
    if wrong := _too_long((embed.get("author") or {}).get("name"), 256):
        found["author"] = {"name": wrong}
    fields = embed.get("fields") or []
    if len(fields) > 25:
        found["fields"] = _error("BASE_TYPE_MAX_LENGTH", "Must be 25 or fewer in length.")
    elif wrongs := {str(n): wrong for n, each in enumerate(fields) if (wrong := _field(each))}:
        found["fields"] = wrongs
    return found


def _field(each: dict[str, Any]) -> Errors:
    found: Errors = {}
    for key, most in (("name", 256), ("value", 1024)):
        if not each.get(key):
            found[key] = _error("BASE_TYPE_REQUIRED", "This field is required")
        elif wrong := _too_long(each[key], most):
            found[key] = wrong
    return found


def _size(embed: dict[str, Any]) -> int:
    texts = [embed.get("title"), embed.get("description")]
    texts += [(embed.get("footer") or {}).get("text"), (embed.get("author") or {}).get("name")]
    for each in embed.get("fields") or []:
        texts += [each.get("name"), each.get("value")]
    return sum(len(text or "") for text in texts)


def _too_long(text: Any, most: int) -> Errors | None:
    if text is None or len(str(text)) <= most:
        return None
    return _error("BASE_TYPE_MAX_LENGTH", f"Must be {most} or fewer in length.")


def _error(code: str, message: str) -> Errors:
    return {"_errors": [{"code": code, "message": message}]}


def _form(errors: Errors) -> Response:
    return JSONResponse({"message": "Invalid Form Body", "code": 50035, "errors": errors}, 400)
