"""Chat: answers that fit, and all the ways in which they do not."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from systems.twins import Twins
from systems.twins.tests.conftest import NOON, Standing

TWINS = ("chat",)
SCHEMA = {
    "type": "object",
    "properties": {
        "stance": {"type": "string", "enum": ["bull", "bear"]},
        "score": {"type": "integer", "minimum": 10, "maximum": 20},
        "points": {"type": "array", "items": {"type": "string"}},
        "sure": {"type": "boolean"},
    },
    "required": ["stance", "score", "points", "sure"],
    "additionalProperties": False,
}


def ask(t: Twins, http: httpx2.Client, text: str = "JSON, please", **more: Any) -> httpx2.Response:
    key = more.pop("key", "sk-demo")
    sent = {"model": "demo-mini", "messages": [{"role": "user", "content": text}], **more}
    headers = {"authorization": f"Bearer {key}"}
    return http.post(f"{t.chat.url}/v1/chat/completions", json=sent, headers=headers)


def strict(**changes: Any) -> dict[str, Any]:
    schema = {**SCHEMA, **changes}
    return {"type": "json_schema", "json_schema": {"name": "v", "strict": True, "schema": schema}}


def test_an_answer_has_the_shape_and_is_the_same_for_the_same_words(
    t: Twins, http: httpx2.Client
) -> None:
    one, two = (ask(t, http, response_format={"type": "json_object"}).json() for _ in range(2))

    choice = one["choices"][0]
    assert (one["object"], one["created"]) == ("chat.completion", NOON // 1000)
    assert choice["finish_reason"] == "stop"
    assert choice["message"]["refusal"] is None
    assert json.loads(choice["message"]["content"])["stance"] in {"bull", "bear", "neutral"}
    assert choice["message"] == two["choices"][0]["message"]
    assert one["usage"]["total_tokens"] == (
        one["usage"]["prompt_tokens"] + one["usage"]["completion_tokens"]
    )
    # There is no key: the second call cost again.
    assert len(t.chat.ledger.of("completion")) == 2


def test_an_answer_fits_the_schema(t: Twins, http: httpx2.Client) -> None:
    reply = ask(t, http, response_format=strict())

    found = json.loads(reply.json()["choices"][0]["message"]["content"])
    assert set(found) == set(SCHEMA["required"])
    assert found["stance"] in {"bull", "bear"}
    assert 10 <= found["score"] <= 20


@pytest.mark.parametrize(
    ("more", "status", "code"),
    [
        ({"key": "sk-wrong"}, 401, "invalid_api_key"),
        ({"model": "gone"}, 404, "model_not_found"),
        ({"messages": "hi"}, 400, "invalid_type"),
        ({"messages": []}, 400, None),
        ({"text": "hi", "response_format": {"type": "json_object"}}, 400, None),
        ({"response_format": strict(required=[])}, 400, None),
        ({"response_format": strict(additionalProperties=True)}, 400, None),
        ({"text": "x" * 40_000}, 400, "context_length_exceeded"),
    ],
)
def test_what_is_wrong_is_told_by_code(
    t: Twins, http: httpx2.Client, more: dict[str, Any], status: int, code: str | None
) -> None:
    reply = ask(t, http, **more)

    assert (reply.status_code, reply.json()["error"]["code"]) == (status, code)
    assert set(reply.json()["error"]) == {"message", "type", "param", "code"}
    assert t.chat.ledger.entries == []


@pytest.mark.parametrize(
    ("manner", "reason", "content"),
    [
        ("length", "length", '{"'),
        ("refusal", "stop", None),
        ("empty", "stop", None),
        ("filter", "content_filter", ""),
        ("prose", "stop", "Sure!"),
    ],
)
def test_it_disappoints_on_demand(
    t: Twins, http: httpx2.Client, manner: str, reason: str, content: str | None
) -> None:
    t.chat.behave(manner)

    choice = ask(t, http, response_format={"type": "json_object"}).json()["choices"][0]

    assert choice["finish_reason"] == reason
    said = choice["message"]["content"]
    assert said is None if content is None else said.startswith(content)
    assert (choice["message"]["refusal"] is not None) == (manner == "refusal")


def test_a_limit_of_tokens_cuts_the_answer(t: Twins, http: httpx2.Client) -> None:
    for name in ("max_tokens", "max_completion_tokens"):
        choice = ask(t, http, **{name: 2}).json()["choices"][0]
        assert (choice["finish_reason"], len(choice["message"]["content"])) == ("length", 8)


def test_limits_are_told_as_durations_and_reset_in_a_minute(
    t: Twins, http: httpx2.Client, clock: Standing
) -> None:
    t.chat.set_limits(requests=2)

    replies = [ask(t, http) for _ in range(3)]
    clock.forward(60)
    after = ask(t, http)

    assert [reply.status_code for reply in (*replies, after)] == [200, 200, 429, 200]
    assert replies[0].headers["x-ratelimit-limit-requests"] == "2"
    assert replies[0].headers["x-ratelimit-remaining-requests"] == "1"
    assert replies[0].headers["x-ratelimit-reset-requests"] == "1m0s"
    assert replies[2].json()["error"]["code"] == "rate_limit_exceeded"
    assert replies[2].headers["retry-after"] == "60"


def test_tokens_are_limited_too(t: Twins, http: httpx2.Client) -> None:
    t.chat.set_limits(tokens=10)

    assert ask(t, http).json()["error"]["type"] == "tokens"


def test_spent_money_is_another_429(t: Twins, http: httpx2.Client) -> None:
    t.chat.set_quota(spent=True)

    assert ask(t, http).json()["error"]["code"] == "insufficient_quota"


BRIEF = {
    "you": "bear",
    "parts": {"demand": 80.0, "design": 20.0, "score": 71.0},
    "facts": [
        {"number": 1, "part": "demand", "text": "1,200 ratings over 9 apps"},
        {"number": 2, "part": "design", "text": "7 of 9 leaders are “fine”"},
    ],
    "said": [{"number": 1, "who": "bull", "text": "people want it", "facts": [1]}],
}
NUMBERS = {"type": "array", "items": {"type": "integer"}}
CLAIM = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "facts": NUMBERS, "answers": NUMBERS},
    "required": ["text", "facts", "answers"],
    "additionalProperties": False,
}
SPEECH = {
    "claims": {"type": "array", "items": CLAIM},
    "verdict": {"type": "string", "enum": ["build", "watch", "leave"]},
}


def about(t: Twins, http: httpx2.Client, **changes: Any) -> dict[str, Any]:
    form = strict(properties=SPEECH, required=["claims", "verdict"])
    reply = ask(t, http, json.dumps({**BRIEF, **changes}), response_format=form)
    found: dict[str, Any] = json.loads(reply.json()["choices"][0]["message"]["content"])
    return found


def test_what_it_says_is_made_of_the_facts_that_it_is_given(t: Twins, http: httpx2.Client) -> None:
    against, by_bull = about(t, http), about(t, http, you="bull", said=[])

    assert {claim["text"] for claim in against["claims"]} == {"7 of 9 leaders are fine"}
    assert {tuple(claim["facts"]) for claim in against["claims"]} == {(2,)}
    assert against["claims"][0]["answers"] == [1]
    assert {claim["text"] for claim in by_bull["claims"]} == {"1,200 ratings over 9 apps"}
    assert by_bull["claims"][0]["answers"] == []
    assert against["verdict"] == "build"
    assert about(t, http, parts={"score": 20})["verdict"] == "leave"
    changed = [{"number": 4, "part": "design", "text": "other"}]
    assert about(t, http, facts=changed)["claims"][0] == {
        "text": "other",
        "facts": [4],
        "answers": [1],
    }


def test_it_invents_for_as_many_calls_as_it_is_told_to(t: Twins, http: httpx2.Client) -> None:
    t.chat.behave("invent", 2)

    found = [about(t, http)["claims"][0]["facts"] for _ in range(3)]

    assert found == [[999], [999], [2]]


def test_a_server_without_schemas_still_speaks_json(t: Twins, http: httpx2.Client) -> None:
    t.chat.set_schemas(known=False)
    text = json.dumps(BRIEF)

    refused = ask(t, http, text, response_format=strict())
    freely = ask(t, http, f"{text}", response_format={"type": "json_object"})

    assert "response_format" in refused.json()["error"]["message"]
    assert freely.status_code == 400  # the word JSON is not in it
    sent = json.dumps({**BRIEF, "note": "JSON"})
    freely = ask(t, http, sent, response_format={"type": "json_object"})
    said = json.loads(freely.json()["choices"][0]["message"]["content"])
    assert said["claims"][0]["facts"] == [2]


def pieces(text: str) -> list[dict[str, Any]]:
    data = [line.removeprefix("data: ") for line in text.splitlines() if line]
    return [json.loads(each) for each in data if each != "[DONE]"]


def test_a_stream_has_the_same_words_in_pieces_and_the_usage_last(
    t: Twins, http: httpx2.Client
) -> None:
    whole = ask(t, http, response_format=strict()).json()
    options = {"include_usage": True}
    reply = ask(t, http, response_format=strict(), stream=True, stream_options=options)

    assert reply.headers["content-type"].startswith("text/event-stream")
    events = pieces(reply.text)
    assert reply.text.endswith("data: [DONE]\n\n")
    assert {each["object"] for each in events} == {"chat.completion.chunk"}
    deltas = [choice["delta"] for each in events for choice in each["choices"]]
    text = "".join(delta.get("content", "") for delta in deltas)
    assert text == whole["choices"][0]["message"]["content"]
    assert events[-2]["choices"][0]["finish_reason"] == "stop"
    assert events[-1]["usage"] == whole["usage"]
    assert "usage" not in pieces(ask(t, http, stream=True).text)[-1]


def test_a_stream_that_is_cut_was_paid_for(t: Twins, http: httpx2.Client) -> None:
    t.chat.faults.set([{"route": "completions", "calls": "1", "do": "cut"}])

    with pytest.raises(httpx2.HTTPError):
        ask(t, http, stream=True)

    assert len(t.chat.ledger.of("completion")) == 1
