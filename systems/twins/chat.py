"""An OpenAI-compatible chat: deterministic answers, real shapes, real ways to disappoint.

What it says follows from the messages alone, so a run can be repeated. Asked for JSON by a schema, it
answers an object that fits; asked for a JSON object, one with a verdict. A switch makes it refuse, or
stop at the limit of tokens in the middle of a word. There is no key: each call costs again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from starlette.responses import JSONResponse, Response

from systems.twins.kit.app import Answer, Call, Door, Twin
from systems.twins.kit.limits import Window, whole_seconds
from systems.twins.kit.shapes import NUMBER, misfit

MANNERS = ("answer", "length", "refusal", "empty", "filter", "prose")
CONTEXT = 8192
SHAPE = {
    "model": str,
    "messages": [{"role": str, "content": (str, [{}])}],
    "response_format": {"type": str, "json_schema": {"name": str, "schema": {}, "strict": bool}},
    "max_tokens": int,
    "max_completion_tokens": int,
}
# What of JSON Schema is understood; the schemas below another are looked at in turn.
SCHEMA = {
    "type": str,
    "enum": list,
    "properties": {},
    "required": [str],
    "items": {},
    "minimum": NUMBER,
    "maximum": NUMBER,
}


class Chat(Twin):
    name = "chat"
    about: ClassVar = "OpenAI-compatible chat completions with JSON by schema"

    def make_doors(self) -> list[Door]:
        return [
            Door("completions", "POST", "/v1/chat/completions", self._complete),
            Door("completions", "POST", "/chat/completions", self._complete),
        ]

    def start_over(self) -> None:
        self.keys = {"sk-demo"}
        self.models = {"demo-mini", "demo-large"}
        self.manner = "answer"
        self.out_of_quota = False
        self.set_limits()

    def samples(self) -> dict[str, str]:
        return {"base_url": f"{self.url}/v1", "api_key": "sk-demo", "model": "demo-mini"}

    def switches(self) -> Mapping[str, Callable[..., object]]:
        return {
            "behave": self.behave,
            "set_limits": self.set_limits,
            "set_quota": self.set_quota,
        }

    # Switches.

    def behave(self, manner: str) -> None:
        """answer, length (cut), refusal, empty (null), filter, or prose instead of JSON."""
        if manner not in MANNERS:
            raise ValueError(f"{manner!r} is no manner; there are {', '.join(MANNERS)}")
        self.manner = manner

    def set_limits(self, requests: int = 60, tokens: int = 60_000) -> None:
        """Per minute."""
        self._windows = {"requests": Window(requests, 60_000), "tokens": Window(tokens, 60_000)}

    def set_quota(self, *, spent: bool) -> None:
        """Whether the account's money is spent."""
        self.out_of_quota = spent

    # The API.

    def refusal(self, status: int) -> Response:
        codes = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}
        kind = "server_error" if status >= 500 else "invalid_request_error"
        return _error(status, "The request was refused.", codes.get(status), kind)

    def _complete(self, call: Call) -> Response:
        sent = self._asked(call)
        prompt = _tokens(json.dumps(sent["messages"]))
        self._meter(call, prompt)
        if prompt > CONTEXT:
            message = f"This model's maximum context length is {CONTEXT} tokens."
            return self._reply(call, _error(400, message, "context_length_exceeded"))
        content, refused, reason = self._say(sent)
        most = sent.get("max_completion_tokens") or sent.get("max_tokens")
        if content is not None and isinstance(most, int) and _tokens(content) > most:
            content, reason = content[: most * 4], "length"
        used = _tokens(content or "")
        id_ = "chatcmpl-" + self.token(length=24)
        facts = {"id": id_, "model": sent["model"], "prompt_tokens": prompt}
        self.ledger.add("completion", call.now, **facts, completion_tokens=used)
        said = {"role": "assistant", "content": content, "refusal": refused}
        choice = {"index": 0, "message": said, "logprobs": None, "finish_reason": reason}
        body = {
            "id": id_,
            "object": "chat.completion",
            "created": call.now // 1000,
            "model": sent["model"],
            "choices": [choice],
            "usage": _usage(prompt, used),
            "service_tier": "default",
            "system_fingerprint": "fp_demo",
        }
        return self._reply(call, JSONResponse(body))

    def _asked(self, call: Call) -> dict[str, Any]:
        if call.bearer() not in self.keys:
            raise Answer(_error(401, "Incorrect API key provided.", "invalid_api_key"))
        sent: dict[str, Any] = call.json()
        if path := misfit(sent, SHAPE):
            raise Answer(_error(400, f"Invalid type for '{path}'.", "invalid_type"))
        if not sent or not sent.get("messages"):
            raise Answer(_error(400, "Missing required parameter: 'messages'.", None))
        if sent.get("model") not in self.models:
            message = f"The model `{sent.get('model')}` does not exist."
            raise Answer(_error(404, message, "model_not_found"))
        form = (sent.get("response_format") or {}).get("type", "text")
        text = json.dumps(sent["messages"])
        if form == "json_object" and "json" not in text.lower():
            message = "'messages' must contain the word 'json' in some form."
            raise Answer(_error(400, message, None))
        if form == "json_schema" and (problem := _loose(sent["response_format"])):
            raise Answer(_error(400, f"Invalid schema for response_format: {problem}", None))
        return sent

    def _meter(self, call: Call, tokens: int) -> None:
        if self.out_of_quota:
            message = "You exceeded your current quota, please check your plan and billing details."
            raise Answer(_error(429, message, "insufficient_quota", "insufficient_quota"))
        for name, cost in (("requests", 1), ("tokens", tokens)):
            window = self._windows[name]
            if window.full(call.now, cost):
                call.limited(window)
                message = f"Rate limit reached on {name} per min."
                reply = self._reply(call, _error(429, message, "rate_limit_exceeded", name))
                reply.headers["retry-after"] = str(whole_seconds(window.wait(call.now)))
                raise Answer(reply)
        self._windows["requests"].use(call.now)
        self._windows["tokens"].use(call.now, tokens)

    def _reply(self, call: Call, reply: Response) -> Response:
        for name, window in self._windows.items():
            reply.headers[f"x-ratelimit-limit-{name}"] = str(window.limit)
            reply.headers[f"x-ratelimit-remaining-{name}"] = str(window.remaining(call.now))
            reply.headers[f"x-ratelimit-reset-{name}"] = _duration(window.wait(call.now))
        reply.headers["x-request-id"] = self.uuid()
        return reply

    def _say(self, sent: dict[str, Any]) -> tuple[str | None, str | None, str]:
        """What is said, what is refused, and why it ends."""
        form = sent.get("response_format") or {}
        digest = hashlib.sha256(json.dumps(sent["messages"]).encode()).digest()
        kind = form.get("type", "text")
        if kind == "json_schema":
            text = json.dumps(_fit(form["json_schema"]["schema"], digest))
        elif kind == "json_object":
            stance = ("bull", "bear", "neutral")[digest[0] % 3]
            text = json.dumps(
                {"stance": stance, "score": digest[1] % 101, "why": "By the numbers."}
            )
        else:
            text = f"Considered {digest[2]} points; the balance is {digest[1] % 101} of 100."
        match self.manner:
            case "length":
                return text[: len(text) // 2], None, "length"
            case "refusal":
                return None, "I'm sorry, I can't help with that.", "stop"
            case "empty":
                return None, None, "stop"
            case "filter":
                return "", None, "content_filter"
            case "prose":
                return f"Sure! Here is the JSON:\n```json\n{text}\n```", None, "stop"
        return text, None, "stop"


def _fit(schema: dict[str, Any], digest: bytes) -> Any:
    """Something that the schema allows, chosen by the digest."""
    if schema.get("enum"):
        return schema["enum"][digest[0] % len(schema["enum"])]
    match schema.get("type"):
        case "object":
            names = schema.get("properties") or {}
            return {name: _fit(below, _next(digest, name)) for name, below in names.items()}
        case "array":
            return [_fit(schema["items"], _next(digest, str(n))) for n in range(1 + digest[0] % 3)]
        case "integer" | "number":
            low, high = schema.get("minimum") or 0, schema.get("maximum") or 100
            return low + digest[0] % (max(0, int(high - low)) + 1)
        case "boolean":
            return digest[0] % 2 == 0
        case "null":
            return None
    return f"By the numbers, {digest[0] % 10} of 10."


def _next(digest: bytes, name: str) -> bytes:
    return hashlib.sha256(digest + name.encode()).digest()


def _loose(form: dict[str, Any]) -> str | None:
    """What strict structured output does not allow in a schema."""
    wanted = form.get("json_schema") or {}
    name = str(wanted.get("name", ""))
    if not 1 <= len(name) <= 64 or not name.replace("-", "").replace("_", "").isalnum():
        return "the name has to be up to 64 letters, digits, dashes and underscores"
    schema = wanted.get("schema")
    if not isinstance(schema, dict):
        return "there is no schema"
    if path := _misfit(schema):
        return f"the type of {path} is wrong"
    if wanted.get("strict") and schema.get("type") == "object":
        if schema.get("additionalProperties") is not False:
            return "'additionalProperties' is required to be supplied and to be false."
        if set(schema.get("required") or []) != set(schema.get("properties") or {}):
            return "'required' is required to be supplied and to include every key in properties."
    return None


def _misfit(schema: Any, path: str = "schema") -> str | None:
    if not isinstance(schema, dict):
        return path
    below = dict(schema["properties"]) if isinstance(schema.get("properties"), dict) else {}
    if schema.get("type") == "array" or "items" in schema:
        below["items"] = schema.get("items")
    wrong = misfit(schema, SCHEMA, path) or (f"{path}.enum" if schema.get("enum") == [] else None)
    return wrong or next((w for k, v in below.items() if (w := _misfit(v, f"{path}.{k}"))), None)


def _tokens(text: str) -> int:
    return -(-len(text) // 4)


def _usage(prompt: int, completion: int) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def _duration(seconds: float) -> str:
    """As Go writes it: 120ms, 1s, 6m0s."""
    if seconds < 1:
        return f"{int(seconds * 1000)}ms"
    whole = int(seconds)
    return f"{whole // 60}m{whole % 60}s" if whole >= 60 else f"{whole}s"


def _error(
    status: int, message: str, code: str | None, kind: str = "invalid_request_error"
) -> Response:
    error = {"message": message, "type": kind, "param": None, "code": code}
    return JSONResponse({"error": error}, status)
