"""Telegram: who can be reached, what can be parsed, and how long to wait."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from systems.twins import Twins
from systems.twins.tests.conftest import NOON, Standing

TWINS = ("telegram", "hooks")
TOKEN = "900001:AAdemo-streak-bot-token-0123456789ab"


def call(
    t: Twins, http: httpx2.Client, method: str = "sendMessage", token: str = TOKEN, **sent: Any
) -> httpx2.Response:
    return http.post(f"{t.telegram.url}/bot{token}/{method}", json=sent)


def test_a_message_is_delivered_and_shown(t: Twins, http: httpx2.Client) -> None:
    reply = call(t, http, chat_id=555001, text="Streak at risk")

    assert reply.status_code == 200
    assert reply.json() == {
        "ok": True,
        "result": {
            "message_id": 1,
            "from": {
                "id": 900001,
                "is_bot": True,
                "first_name": "Streak",
                "username": "demo_streak_bot",
            },
            "chat": {"id": 555001, "type": "private", "first_name": "Fern"},
            "date": NOON // 1000,
            "text": "Streak at risk",
        },
    }
    assert t.telegram.ledger.counts("chat") == {555001: 1}


def test_forms_queries_and_any_case_of_the_method_are_understood(
    t: Twins, http: httpx2.Client
) -> None:
    base = f"{t.telegram.url}/bot{TOKEN}"

    form = http.post(f"{base}/sendmessage", data={"chat_id": "555001", "text": "a"})
    query = http.get(f"{base}/SENDMESSAGE", params={"chat_id": "555002", "text": "b"})

    assert (form.status_code, query.status_code) == (200, 200)


@pytest.mark.parametrize(
    ("sent", "description"),
    [
        ({"chat_id": 1, "text": "x"}, "Bad Request: chat not found"),
        ({"chat_id": "@nobody", "text": "x"}, "Bad Request: chat not found"),
        ({"text": "x"}, "Bad Request: chat_id is empty"),
        ({"chat_id": 555001}, "Bad Request: message text is empty"),
        ({"chat_id": 555001, "text": "  "}, "Bad Request: message text is empty"),
        ({"chat_id": 555001, "text": "x" * 4097}, "Bad Request: message is too long"),
    ],
)
def test_what_is_missing_is_said(
    t: Twins, http: httpx2.Client, sent: dict[str, Any], description: str
) -> None:
    reply = call(t, http, **sent)

    assert reply.status_code == 400
    assert reply.json() == {"ok": False, "error_code": 400, "description": description}
    assert t.telegram.ledger.entries == []


@pytest.mark.parametrize(
    ("mode", "text", "problem"),
    [
        ("Markdown", "user: a_b", "Can't find end of the entity starting at byte offset 7"),
        ("Markdown", "né*", "Can't find end of the entity starting at byte offset 3"),
        (
            "MarkdownV2",
            "Done.",
            "Character '.' is reserved and must be escaped with the preceding '\\'",
        ),
        ("MarkdownV2", "a *b", "Can't find end of Bold entity at byte offset 2"),
        ("MarkdownV2", "_a", "Can't find end of Italic entity at byte offset 0"),
        ("MarkdownV2", "`a", "Can't find end of Code entity at byte offset 0"),
        ("MarkdownV2", "[a](b", "Can't find end of a URL at byte offset 3"),
        ("HTML", "a <c>b</c>", 'Unsupported start tag "c" at byte offset 2'),
        ("HTML", "<b>a", 'Can\'t find end tag corresponding to start tag "b"'),
        ("HTML", "a</b>", "Unexpected end tag at byte offset 1"),
        ("HTML", "1 < 2", "Unclosed start tag at byte offset 2"),
    ],
)
def test_markup_that_cannot_be_parsed_is_refused(
    t: Twins, http: httpx2.Client, mode: str, text: str, problem: str
) -> None:
    reply = call(t, http, chat_id=555001, text=text, parse_mode=mode)

    assert reply.status_code == 400
    assert reply.json()["description"] == f"Bad Request: can't parse entities: {problem}"


@pytest.mark.parametrize(
    ("mode", "text", "shown"),
    [
        ("Markdown", r"user: a\_b *c*", "user: a_b c"),
        ("Markdown", "[here](http://x/a_b) `d_e`", "here d_e"),
        (
            "MarkdownV2",
            r"*Done*\. _a_ __b__ ||c|| ~d~ `e.f` [g](http://h/i_j)",
            "Done. a b c d e.f g",
        ),
        ("MarkdownV2", "```\nx = 1.0\n```", "\nx = 1.0\n"),
        ("HTML", "<b>a &lt; b</b> &amp; <a href='x'>c</a>", "a < b & c"),
        (None, "1 < 2 _*", "1 < 2 _*"),
    ],
)
def test_what_people_see_is_the_text_without_its_marks(
    t: Twins, http: httpx2.Client, mode: str | None, text: str, shown: str
) -> None:
    sent = {"chat_id": 555001, "text": text} | ({"parse_mode": mode} if mode else {})

    assert call(t, http, **sent).json()["result"]["text"] == shown


def test_length_counts_after_parsing(t: Twins, http: httpx2.Client) -> None:
    text = "<b>" + "&amp;" * 4096 + "</b>"

    assert call(t, http, chat_id=555001, text=text, parse_mode="HTML").status_code == 200


def test_a_wrong_token_and_a_malformed_one_are_told_apart(t: Twins, http: httpx2.Client) -> None:
    wrong = call(t, http, token="900001:" + "x" * 35, chat_id=555001, text="x")
    malformed = call(t, http, token="secret", chat_id=555001, text="x")

    assert (wrong.status_code, wrong.json()["description"]) == (401, "Unauthorized")
    assert malformed.json()["description"] == "Unauthorized: invalid token specified"


@pytest.mark.parametrize(
    ("state", "description"),
    [
        ("blocked", "Forbidden: bot was blocked by the user"),
        ("deactivated", "Forbidden: user is deactivated"),
        ("kicked", "Forbidden: bot was kicked from the group chat"),
        ("unstarted", "Forbidden: bot can't initiate conversation with a user"),
    ],
)
def test_who_cannot_be_reached_is_403(
    t: Twins, http: httpx2.Client, state: str, description: str
) -> None:
    t.telegram.set_state(555001, state)

    reply = call(t, http, chat_id=555001, text="x")

    assert (reply.status_code, reply.json()["error_code"]) == (403, 403)
    assert reply.json()["description"] == description


def test_a_group_that_moved_tells_where_to(t: Twins, http: httpx2.Client) -> None:
    t.telegram.add_chat(-7, "group", "Club")
    t.telegram.migrate(-7, -1007)

    moved = call(t, http, chat_id=-7, text="x").json()

    assert moved["description"] == "Bad Request: group chat was upgraded to a supergroup chat"
    assert moved["parameters"] == {"migrate_to_chat_id": -1007}
    assert call(t, http, chat_id=-1007, text="x").json()["result"]["chat"]["title"] == "Club"


def test_a_chat_takes_one_message_a_second(t: Twins, http: httpx2.Client, clock: Standing) -> None:
    replies = [call(t, http, chat_id=555001, text=str(n)) for n in range(3)]
    other = call(t, http, chat_id=555002, text="x")
    clock.forward(1)
    after = call(t, http, chat_id=555001, text="again")

    assert [reply.status_code for reply in replies] == [200, 429, 429]
    assert replies[1].json() == {
        "ok": False,
        "error_code": 429,
        "description": "Too Many Requests: retry after 1",
        "parameters": {"retry_after": 1},
    }
    assert replies[1].headers["retry-after"] == "1"
    assert (other.status_code, after.status_code) == (200, 200)
    assert len(t.telegram.log.over_limit()) == 1


def test_a_group_takes_twenty_messages_a_minute(
    t: Twins, http: httpx2.Client, clock: Standing
) -> None:
    t.telegram.add_chat(-7, "group", "Club")
    replies = []
    for _ in range(21):
        replies.append(call(t, http, chat_id=-7, text="x"))
        clock.forward(1)

    assert [reply.status_code for reply in replies] == [200] * 20 + [429]
    assert replies[-1].json()["parameters"] == {"retry_after": 40}
    clock.forward(39)
    assert call(t, http, chat_id=-7, text="x").status_code == 200


def test_a_bot_sends_thirty_messages_a_second(
    t: Twins, http: httpx2.Client, clock: Standing
) -> None:
    replies = [call(t, http, chat_id=555001 + n, text="x") for n in range(31)]

    assert [reply.status_code for reply in replies] == [200] * 30 + [429]
    assert replies[-1].headers["retry-after"] == "1"
    clock.forward(1)
    assert call(t, http, chat_id=555031, text="x").status_code == 200


def test_an_unknown_method_is_not_found(t: Twins, http: httpx2.Client) -> None:
    assert call(t, http, "sendFax").json() == {
        "ok": False,
        "error_code": 404,
        "description": "Not Found",
    }


def test_a_token_can_be_tried_and_a_chat_looked_up(t: Twins, http: httpx2.Client) -> None:
    assert call(t, http, "getMe").json()["result"]["username"] == "demo_streak_bot"
    assert call(t, http, "getChat", chat_id=555001).json()["result"]["first_name"] == "Fern"


def test_the_id_of_a_chat_is_learnt_from_its_first_message(t: Twins, http: httpx2.Client) -> None:
    t.telegram.say(42)

    first = call(t, http, "getUpdates").json()["result"]
    rest = call(t, http, "getUpdates", offset=first[-1]["update_id"] + 1).json()["result"]

    assert first[0]["message"]["chat"]["id"] == 42
    assert first[0]["message"]["text"] == "/start"
    assert rest == []
    assert call(t, http, chat_id=42, text="hello").status_code == 200


def test_updates_come_by_webhook_and_then_cannot_be_asked_for(
    t: Twins, http: httpx2.Client
) -> None:
    url = f"{t.hooks.url}/hook/bot"
    call(t, http, "setWebhook", url=url, secret_token="s3")

    t.telegram.say(42, "hi")
    t.settle()
    asked = call(t, http, "getUpdates")

    assert '"text": "hi"' in t.hooks.ledger.of("delivered")[0]["body"]
    assert asked.status_code == 409
    call(t, http, "deleteWebhook")
    assert call(t, http, "getUpdates").json()["result"] == []
