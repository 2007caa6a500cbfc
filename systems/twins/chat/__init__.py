"""An OpenAI-compatible chat: deterministic answers, real shapes, real ways to disappoint.

What it says follows from the messages alone, so a run can be repeated, and is made of the facts in them
(`saying`). Asked for JSON by a schema, it answers an object that fits; asked for a JSON object, one with a
verdict. A switch makes it refuse, invent, or stop at the limit of tokens in the middle of a word. Answers may
come as a stream. There is no key: each call costs again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from starlette.responses import JSONResponse, Response

from systems.twins.chat.saying import invented, loose, say
from systems.twins.kit.app import Answer, Call, Door, Twin
from systems.twins.kit.limits import Window, whole_seconds
from systems.twins.kit.shapes import misfit

MANNERS = ("answer", "length", "refusal", "empty", "filter", "prose", "invent")
PIECE = 40
CONTEXT = 8192
SHAPE = {
    "model": str,
    "messages": [{"role": str, "content": (str, [{}])}],
    "response_format": {"type": str, "json_schema": {"name": str, "schema": {}, "strict": bool}},
    "max_tokens": int,
    "max_completion_tokens": int,
    "stream": bool,
    "stream_options": {"include_usage": bool},
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
        self.manner, self._for = "answer", 0
        self.schemas = True
        self.out_of_quota = False
        self.set_limits()

    def samples(self) -> dict[str, str]:
        return {"base_url": f"{self.url}/v1", "api_key": "sk-demo", "model": "demo-mini"}

    def switches(self) -> Mapping[str, Callable[..., object]]:
        return {
            "behave": self.behave,
            "set_limits": self.set_limits,
            "set_quota": self.set_quota,
            "set_schemas": self.set_schemas,
        }

    # Switches.

    def behave(self, manner: str, calls: int = 0) -> None:
        """answer, length (cut), refusal, empty (null), filter, prose, or invent; for some calls or all."""
        if manner not in MANNERS:
            raise ValueError(f"{manner!r} is no manner; there are {', '.join(MANNERS)}")
        self.manner, self._for = manner, calls

    def set_limits(self, requests: int = 60, tokens: int = 60_000) -> None:
        """Per minute."""
        self._windows = {"requests": Window(requests, 60_000), "tokens": Window(tokens, 60_000)}

    def set_quota(self, *, spent: bool) -> None:
        """Whether the account's money is spent."""
        self.out_of_quota = spent

    def set_schemas(self, *, known: bool) -> None:
        """Whether it knows structured output; many compatible servers do not."""
        self.schemas = known

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
        if sent.get("stream"):
            told = bool((sent.get("stream_options") or {}).get("include_usage"))
            pieces = Response(_stream(body, choice, told=told), media_type="text/event-stream")
            return self._reply(call, pieces)
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
        if form == "json_schema" and not self.schemas:
            message = "This server does not support response_format of type json_schema."
            raise Answer(_error(400, message, None))
        if form == "json_schema" and (problem := loose(sent["response_format"])):
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
        text, manner = say(sent), self.manner
        if self._for:
            self._for -= 1
            self.manner = self.manner if self._for else "answer"
        match manner:
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
            case "invent":
                return invented(text), None, "stop"
        return text, None, "stop"


def _stream(body: dict[str, Any], choice: dict[str, Any], *, told: bool) -> str:
    """The same answer in pieces, as server-sent events; the usage comes last, if it is asked for."""
    shared = {name: body[name] for name in ("id", "created", "model", "system_fingerprint")}
    said = choice["message"]
    name = "refusal" if said["refusal"] else "content"
    text = said[name] or ""
    deltas = [{"role": "assistant", "content": ""}]
    deltas += [{name: text[at : at + PIECE]} for at in range(0, len(text), PIECE)]
    ends = [None] * len(deltas) + [choice["finish_reason"]]
    events: list[dict[str, Any]] = [
        {**shared, "choices": [{"index": 0, "delta": delta, "finish_reason": end}]}
        for delta, end in zip([*deltas, {}], ends, strict=True)
    ]
    if told:
        events.append({**shared, "choices": [], "usage": body["usage"]})
    for event in events:
        event["object"] = "chat.completion.chunk"
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"


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
