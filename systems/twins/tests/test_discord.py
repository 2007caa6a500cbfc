"""Discord: messages, their limits, buckets in both forms of 429, and hooks that are gone."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from systems.twins import Twins
from systems.twins.tests.conftest import NOON, Standing

TWINS = ("discord",)
HOOK = "1100000000000000001"


@pytest.fixture
def url(t: Twins) -> str:
    return f"{t.discord.url}/api/webhooks/{HOOK}/token-001"


def test_a_message_is_saved_and_shown_to_whoever_waits(
    t: Twins, http: httpx2.Client, url: str
) -> None:
    sent = {
        "username": "Streak Bot",
        "embeds": [
            {
                "title": "Streak alert",
                "color": 16739947,
                "fields": [{"name": "User", "value": "fern-okoye", "inline": True}],
            }
        ],
    }

    reply = http.post(url, params={"wait": "true"}, json=sent)

    body = reply.json()
    assert reply.status_code == 200
    assert (body["webhook_id"], body["channel_id"]) == (HOOK, "1200000000000000001")
    assert body["embeds"][0]["type"] == "rich"
    assert body["author"]["discriminator"] == "0000"
    assert body["timestamp"] == "2026-03-01T12:00:00.000000+00:00"
    assert t.discord.ledger.counts("hook") == {HOOK: 1}


def test_without_waiting_the_answer_is_204_and_empty(
    t: Twins, http: httpx2.Client, url: str
) -> None:
    reply = http.post(url.replace("/api/", "/api/v10/"), json={"content": "hi"})

    assert (reply.status_code, reply.content) == (204, b"")
    assert len(t.discord.ledger.entries) == 1


@pytest.mark.parametrize(
    ("sent", "code", "place"),
    [
        ({}, 50006, None),
        ({"content": ""}, 50006, None),
        ({"content": "x" * 2001}, 50035, "content"),
        ({"embeds": [{"title": "x" * 257}]}, 50035, "embeds"),
        ({"embeds": [{"description": "x" * 4097}]}, 50035, "embeds"),
        ({"embeds": [{"title": "x"}] * 11}, 50035, "embeds"),
        ({"embeds": [{"fields": [{"name": "a", "value": "b"}] * 26}]}, 50035, "embeds"),
        ({"embeds": [{"fields": [{"name": "a" * 257, "value": "b"}]}]}, 50035, "embeds"),
        ({"embeds": [{"fields": [{"name": "a", "value": "b" * 1025}]}]}, 50035, "embeds"),
        ({"embeds": [{"fields": [{"name": "a"}]}]}, 50035, "embeds"),
        ({"embeds": [{"footer": {"text": "x" * 2049}}]}, 50035, "embeds"),
        ({"embeds": [{"author": {"name": "x" * 257}}]}, 50035, "embeds"),
        ({"embeds": [{"description": "x" * 3001}] * 2}, 50035, "embeds"),
        ({"embeds": [{"title": "x", "color": "#ff0000"}]}, 50035, "embeds"),
        ({"content": "x", "username": "x" * 81}, 50035, "username"),
        ([1], 50109, None),
    ],
)
def test_what_is_too_long_or_empty_is_refused_by_name(
    t: Twins, http: httpx2.Client, url: str, sent: Any, code: int, place: str | None
) -> None:
    reply = http.post(url, json=sent)

    assert reply.status_code == 400
    assert reply.json()["code"] == code
    assert place is None or place in reply.json()["errors"]
    assert t.discord.ledger.entries == []


def test_an_error_of_a_form_names_its_place(t: Twins, http: httpx2.Client, url: str) -> None:
    body = http.post(url, json={"embeds": [{"title": "x" * 257}]}).json()

    assert body == {
        "message": "Invalid Form Body",
        "code": 50035,
        "errors": {
            "embeds": {
                "0": {
                    "title": {
                        "_errors": [
                            {
                                "code": "BASE_TYPE_MAX_LENGTH",
                                "message": "Must be 256 or fewer in length.",
                            }
                        ]
                    }
                }
            }
        },
    }


def test_a_deleted_hook_is_unknown_for_good(t: Twins, http: httpx2.Client, url: str) -> None:
    t.discord.delete_hook(HOOK)

    reply = http.post(url, json={"content": "hi"})

    assert reply.status_code == 404
    assert reply.json() == {"message": "Unknown Webhook", "code": 10015}
    assert "x-ratelimit-bucket" in reply.headers


def test_a_wrong_token_and_a_wrong_id_are_told_apart(
    t: Twins, http: httpx2.Client, url: str
) -> None:
    wrong = http.post(url + "x", json={"content": "hi"})
    odd = http.post(f"{t.discord.url}/api/webhooks/abc/def", json={"content": "hi"})

    assert (wrong.status_code, wrong.json()["code"]) == (401, 50027)
    assert (odd.status_code, odd.json()["code"]) == (400, 50035)


def test_a_user_agent_is_required(t: Twins, http: httpx2.Client, url: str) -> None:
    reply = http.post(url, json={"content": "hi"}, headers={"user-agent": ""})

    assert (reply.status_code, reply.json()["code"]) == (403, 40333)


def test_the_bucket_of_a_hook_is_told_on_each_reply_and_fills_again(
    t: Twins, http: httpx2.Client, clock: Standing, url: str
) -> None:
    replies = [http.post(url, json={"content": str(n)}) for n in range(5)]
    clock.forward(0.5)
    over = [http.post(url, json={"content": "more"}) for _ in range(2)]
    other = http.post(url.replace("001/token-001", "002/token-002"), json={"content": "hi"})
    clock.forward(1.5)
    after = http.post(url, json={"content": "again"})

    assert [reply.headers["x-ratelimit-remaining"] for reply in replies] == list("43210")
    assert replies[0].headers["x-ratelimit-limit"] == "5"
    assert replies[0].headers["x-ratelimit-reset"] == f"{NOON // 1000 + 2}.000"
    assert replies[0].headers["x-ratelimit-reset-after"] == "2.000"
    assert over[0].status_code == 429
    assert over[0].json() == {
        "message": "You are being rate limited.",
        "retry_after": 1.5,
        "global": False,
    }
    assert over[0].headers["retry-after"] == "2"
    assert over[0].headers["x-ratelimit-scope"] == "user"
    assert over[0].headers["x-ratelimit-bucket"] == replies[0].headers["x-ratelimit-bucket"]
    assert (other.status_code, after.status_code) == (204, 204)
    assert [a.limit for a in t.discord.log.entries][5:7] == ["reached", "ignored"]
    assert len(t.discord.log.over_limit()) == 1


def test_a_channel_has_a_hidden_limit_that_its_hooks_share(
    t: Twins, http: httpx2.Client, clock: Standing, url: str
) -> None:
    t.discord.set_limits(bucket=100)
    t.discord.add_hook("7", "seven", channel="1200000000000000001")

    replies = [http.post(url, json={"content": "x"}) for _ in range(29)]
    replies += [
        http.post(f"{t.discord.url}/api/webhooks/7/seven", json={"content": "x"}) for _ in range(2)
    ]

    assert [reply.status_code for reply in replies] == [204] * 30 + [429]
    assert replies[-1].headers["x-ratelimit-scope"] == "shared"
    assert replies[-1].json()["retry_after"] == 60
    clock.forward(60)
    assert http.post(url, json={"content": "x"}).status_code == 204


def test_the_global_limit_says_that_it_is(
    t: Twins, http: httpx2.Client, clock: Standing, url: str
) -> None:
    t.discord.set_limits(everything=1)

    replies = [http.post(url, json={"content": "x"}) for _ in range(2)]

    assert replies[1].status_code == 429
    assert replies[1].json()["global"] is True
    assert replies[1].headers["x-ratelimit-global"] == "true"
    assert replies[1].headers["x-ratelimit-scope"] == "global"
    assert replies[1].headers["retry-after"] == "1"
    clock.forward(1)
    assert http.post(url, json={"content": "x"}).status_code == 204


def test_who_collects_refusals_is_banned_by_a_page_of_html(
    t: Twins, http: httpx2.Client, clock: Standing, url: str
) -> None:
    t.discord.set_limits(invalid=2)

    replies = [http.post(url + "x", json={"content": "x"}) for _ in range(3)]
    clock.forward(600)
    after = http.post(url, json={"content": "x"})

    assert [reply.status_code for reply in replies] == [401, 401, 429]
    assert replies[2].text.startswith("<html>")
    assert replies[2].headers["retry-after"] == "600"
    assert not [name for name in replies[2].headers if name.startswith("x-ratelimit")]
    assert after.status_code == 204


def test_a_hook_can_be_looked_at_and_deleted_by_its_token(
    t: Twins, http: httpx2.Client, url: str
) -> None:
    shown = http.get(url).json()
    gone = http.delete(url)

    assert (shown["id"], shown["type"], shown["url"]) == (HOOK, 1, url)
    assert "user" not in shown
    assert gone.status_code == 204
    assert http.get(url).status_code == 404


def test_a_message_can_be_read_edited_and_deleted(t: Twins, http: httpx2.Client, url: str) -> None:
    id_ = http.post(url, params={"wait": "true"}, json={"content": "one"}).json()["id"]

    edited = http.patch(f"{url}/messages/{id_}", json={"content": "two"})
    read = http.get(f"{url}/messages/{id_}")
    gone = http.delete(f"{url}/messages/{id_}")
    missing = http.get(f"{url}/messages/{id_}")

    assert edited.json()["edited_timestamp"]
    assert read.json()["content"] == "two"
    assert gone.status_code == 204
    assert (missing.status_code, missing.json()["code"]) == (404, 10008)


def test_a_message_whose_reply_is_lost_was_posted(t: Twins, http: httpx2.Client, url: str) -> None:
    t.discord.faults.set([{"route": "execute", "calls": "1", "do": "drop_after"}])

    with pytest.raises((httpx2.RemoteProtocolError, httpx2.ReadError)):
        http.post(url, json={"content": "hi"})

    assert [entry["content"] for entry in t.discord.ledger.of("message")] == ["hi"]
