"""One question to an OpenAI-compatible chat endpoint, and everything that may come back.

Three things are told apart, since they cost differently: an answer with its usage, also one that is cut or
refused; an error that has surely cost nothing; and a reply that never came or cannot be read, of which nobody
knows what it cost.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from typing import Any

from duework import http
from systems.scout.economy import ledger
from systems.scout.economy.tokens import Answer, NothingSpent
from systems.scout.part import settings

# A request that was refused for one of these is refused again.
LASTING = {400, 401, 403, 404, 413, 422}
CUT = {"length": "the answer was cut at its limit", "content_filter": "the answer was filtered"}


class Unreadable(Exception):
    """Something was answered, and it is no completion: what it cost is not known."""


@functools.lru_cache(maxsize=8)
def client(base: str) -> http.Client:
    """One for each address and process."""
    return http.Client(base, timeout="50s", headers={"user-agent": "scout"})


async def complete(messages: list[dict[str, str]], schema: dict[str, Any]) -> Answer:
    """Ask once, for JSON by a schema; an endpoint that knows no schemas is asked for JSON alone."""
    form = {"name": "speech", "strict": True, "schema": schema}
    try:
        return await _ask(messages, {"type": "json_schema", "json_schema": form})
    except NothingSpent as error:
        if "response_format" not in str(error):
            raise
    return await _ask(messages, {"type": "json_object"})


async def _ask(messages: list[dict[str, str]], form: dict[str, Any]) -> Answer:
    given = settings()
    body: dict[str, Any] = {
        "model": given.llm_model,
        "messages": messages,
        "response_format": form,
        "max_tokens": given.llm_tokens,
    }
    if given.llm_stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    key = given.llm_key.reveal() if given.llm_key else ""
    await ledger.called("llm")
    try:
        reply = await client(given.llm_url).post(
            "/chat/completions", json=body, headers={"authorization": f"Bearer {key}"}
        )
    except http.UNSENT as error:
        raise NothingSpent(str(error)) from error
    except http.TooMany as error:
        # No money left at the provider is told as 429, too; waiting does not help.
        if _code(error.response) == "insufficient_quota":
            raise NothingSpent("the provider's quota is spent", lasting=True) from error
        raise
    if not reply.ok:
        what = f"{reply.status} {_code(reply) or ''}: {_message(reply)}"
        raise NothingSpent(what, lasting=reply.status in LASTING)
    return _streamed(reply.text) if given.llm_stream else _whole(reply)


def _whole(reply: http.Response) -> Answer:
    try:
        found = json.loads(reply.content)
        choice, usage = found["choices"][0], found["usage"]
        return _answer(choice["message"], choice.get("finish_reason"), usage)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise Unreadable(f"an answer that is no completion: {error}") from error


def _streamed(text: str) -> Answer:
    """The pieces together; without the last one, which has the usage, the cost is not known."""
    said: dict[str, str] = {"content": "", "refusal": ""}
    reason, usage = None, None
    try:
        for event in _events(text):
            usage = event.get("usage") or usage
            for choice in event.get("choices") or []:
                reason = choice.get("finish_reason") or reason
                for name in said:
                    said[name] += (choice.get("delta") or {}).get(name) or ""
        if usage is None:
            raise Unreadable("the stream ended before its last piece")
        return _answer(said, reason, usage)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise Unreadable(f"a stream that is no completion: {error}") from error


def _events(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        if line.startswith("data:") and (data := line[5:].strip()) != "[DONE]":
            yield json.loads(data)


def _answer(message: dict[str, Any], reason: str | None, usage: dict[str, Any]) -> Answer:
    details = usage.get("prompt_tokens_details") or {}
    content = message.get("content") or None
    why = CUT.get(reason or "")
    if message.get("refusal"):
        why = f"the model refused: {message['refusal']:.200}"
    return Answer(
        content=content,
        why=why or (None if content else "the answer is empty"),
        prompt=int(usage["prompt_tokens"]),
        cached=int(details.get("cached_tokens") or 0),
        completion=int(usage["completion_tokens"]),
    )


def _error(reply: http.Response) -> dict[str, Any]:
    try:
        found = json.loads(reply.content).get("error")
    except (ValueError, AttributeError):
        return {}
    return found if isinstance(found, dict) else {}


def _code(reply: http.Response) -> str | None:
    code = _error(reply).get("code")
    return str(code) if code else None


def _message(reply: http.Response) -> str:
    return str(_error(reply).get("message") or "")[:200]
