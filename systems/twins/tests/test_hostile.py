"""No client makes a twin fail: each field of each request is given what it should not be."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest

from systems.twins import Twins
from systems.twins.acs import KEY, content_hash, signature
from systems.twins.kit.clock import as_http_date
from systems.twins.tests.conftest import NOON

TWINS = ("github", "discord", "telegram", "acs", "resend", "strava", "apple", "hooks", "chat")
WRONG: list[Any] = [
    None,
    True,
    -1.5,
    10**30,
    "",
    "x",
    "\x00",
    "é" * 5000,
    [],
    [1],
    [[]],
    {},
    {"a": []},
]

MAIL = {
    "from": "n@demo.example",
    "to": ["a@demo.example"],
    "subject": "Hi",
    "text": "Hi",
    "cc": ["b@demo.example"],
    "tags": [{"name": "a", "value": "b"}],
    "attachments": [{"filename": "a", "content": "aGk="}],
    "scheduled_at": "2030-01-01T00:00:00Z",
}
EMBED = {
    "title": "t",
    "color": 1,
    "footer": {"text": "f"},
    "author": {"name": "a"},
    "fields": [{"name": "n", "value": "v"}],
}
ACS = {
    "senderAddress": "n@demo.example",
    "content": {"subject": "s", "plainText": "p"},
    "recipients": {"to": [{"address": "a@demo.example"}], "cc": []},
    "attachments": [{"name": "a", "contentInBase64": "aGk="}],
}
CLIENT = {"client_id": "12345", "client_secret": "strava-secret"}
SCHEMA = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}}
FORM = {"type": "json_schema", "json_schema": {"name": "v", "schema": SCHEMA}}
CHAT = {
    "model": "demo-mini",
    "messages": [{"role": "user", "content": "JSON"}],
    "response_format": FORM,
    "max_tokens": 5,
}
QUERY = "query($l: String!) { user(login: $l) { contributionsCollection(from: $l) { startedAt } } }"

# Twin, method, path and a request that is right.
REQUESTS: list[tuple[str, str, str, Any]] = [
    ("github", "POST", "/graphql", {"query": QUERY, "variables": {"l": "fern-okoye"}}),
    (
        "discord",
        "POST",
        "/api/webhooks/1100000000000000001/token-001",
        {"content": "hi", "username": "u", "embeds": [EMBED], "flags": 0},
    ),
    (
        "telegram",
        "POST",
        "/bot900001:AAdemo-streak-bot-token-0123456789ab/sendMessage",
        {"chat_id": 555001, "text": "hi", "parse_mode": "HTML"},
    ),
    (
        "telegram",
        "POST",
        "/bot900001:AAdemo-streak-bot-token-0123456789ab/getUpdates",
        {"offset": 1, "limit": 2},
    ),
    ("acs", "POST", "/emails:send?api-version=2023-03-31", ACS),
    ("resend", "POST", "/emails", MAIL),
    ("resend", "POST", "/emails/batch", [MAIL]),
    ("resend", "POST", "/webhooks", {"endpoint": "http://x.test", "events": ["email.sent"]}),
    (
        "strava",
        "POST",
        "/oauth/token",
        {**CLIENT, "grant_type": "refresh_token", "refresh_token": "r"},
    ),
    ("strava", "POST", "/oauth/revoke", {"token": "t"}),
    ("strava", "POST", "/oauth/deauthorize", {"access_token": "t"}),
    ("hooks", "POST", "/hook/a", {"a": 1}),
    ("chat", "POST", "/v1/chat/completions", CHAT),
]


def variants(sample: Any) -> Iterator[Any]:
    """The sample with one value replaced, everywhere and by everything."""
    yield from WRONG

    def walk(value: Any, put: Callable[[Any], Any]) -> Iterator[Any]:
        keys = list(value) if isinstance(value, dict) else range(len(value))
        for key in keys:
            for wrong in WRONG:
                changed = copy.deepcopy(value)
                changed[key] = wrong
                yield put(changed)
            if isinstance(value[key], (dict, list)):

                def deeper(below: Any, value: Any = value, key: Any = key) -> Any:
                    changed = copy.deepcopy(value)
                    changed[key] = below
                    return put(changed)

                yield from walk(value[key], deeper)

    yield from walk(sample, lambda changed: changed)


def headers_of(twin: str, url: str, path: str, body: bytes) -> dict[str, str]:
    keys = {"github": "ghp_fernokoye", "resend": "re_demo", "chat": "sk-demo"}
    found = {"content-type": "application/json"}
    if twin in keys:
        found["authorization"] = f"Bearer {keys[twin]}"
    if twin == "acs":
        host, date = url.partition("://")[2], as_http_date(NOON)
        value = signature(KEY, "POST", path, date, host, content_hash(body))
        found |= {"x-ms-date": date, "x-ms-content-sha256": content_hash(body)}
        names = "x-ms-date;host;x-ms-content-sha256"
        found["authorization"] = f"HMAC-SHA256 SignedHeaders={names}&Signature={value}"
    return found


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: f"{each[0]}{each[2][:24]}")
def test_no_body_makes_a_twin_fail(
    t: Twins, http: httpx2.Client, request_: tuple[str, str, str, Any]
) -> None:
    name, method, path, sample = request_
    twin = next(each for each in t.all if each.name == name)
    t.resend.set_limits(per_second=10**9)
    t.chat.set_limits(10**9, 10**9)
    t.acs.set_limits((10**9, 10**9), (10**9, 10**9))
    t.discord.set_limits(10**9, 10**9, 10**9, 10**9)
    t.telegram.set_limits(10**9, 10**9, 10**9)
    bodies = [
        b"",
        b"{",
        b"\xff",
        b"null",
        *(json.dumps(each).encode() for each in variants(sample)),
    ]

    for body in bodies:
        headers = headers_of(name, twin.url, path, body)
        reply = http.request(method, twin.url + path, content=body, headers=headers)
        assert reply.status_code < 500, body[:300]


@pytest.mark.parametrize("value", ["", "x", "-1", "9" * 40, "%00", "é", "1e9", "[]", "٣", "²"])
def test_no_query_makes_a_twin_fail(t: Twins, http: httpx2.Client, value: str) -> None:
    t.apple.count = 50
    t.apple.set_limits(10**9)
    token = t.strava.connect(5004)["access_token"]
    bearer = {"authorization": f"Bearer {token}"}
    strava, key = f"{t.strava.url}/api/v3", {"authorization": "Bearer re_demo"}
    paths: list[tuple[str, dict[str, str]]] = [
        (f"{strava}/athlete/activities?{name}={value}", bearer)
        for name in ("page", "per_page", "before", "after")
    ]
    paths += [
        (f"{t.apple.url}/{where}?{name}={value}", {})
        for where in ("search", "lookup")
        for name in ("term", "limit", "country", "id", "bundleId", "entity", "callback")
    ]
    paths += [(f"{t.apple.url}/us/rss/topfreeapplications/limit={value}/json", {})]
    paths += [(f"{t.apple.url}/us/rss/newapplications/limit=5/genre={value}/json", {})]
    paths += [(f"{t.resend.url}/emails?limit={value}", key)]
    asked = f"client_id=12345&redirect_uri=http://x.test&response_type=code&as={value}"
    paths += [(f"{t.strava.url}/oauth/authorize?{asked}", {})]

    for url, headers in paths:
        assert http.get(httpx2.URL(url), headers=headers).status_code < 500, url
