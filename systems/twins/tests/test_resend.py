"""Resend: one mail for each key, 409 twice over, batches, quotas, and webhooks that are repeated."""

from __future__ import annotations

import concurrent.futures
import json
from typing import Any

import httpx2
import pytest

from systems.twins import Twins
from systems.twins.tests.conftest import Standing

TWINS = ("resend", "hooks")


def mail(to: Any = "ana@demo.example", **more: Any) -> dict[str, Any]:
    return {"from": "Demo <n@demo.example>", "to": to, "subject": "Hi", "text": "Hi", **more}


def ask(
    t: Twins,
    http: httpx2.Client,
    method: str,
    path: str,
    sent: Any = None,
    key: str | None = None,
    token: str = "re_demo",
    **headers: str,
) -> httpx2.Response:
    own = {"authorization": f"Bearer {token}"} | ({"idempotency-key": key} if key else {})
    more = {} if sent is None else {"json": sent}
    return http.request(method, t.resend.url + path, headers={**own, **headers}, **more)


@pytest.fixture(autouse=True)
def generous(t: Twins) -> None:
    t.resend.set_limits(per_second=1000)


def test_a_mail_is_taken_and_its_fate_can_be_asked(
    t: Twins, http: httpx2.Client, clock: Standing
) -> None:
    id_ = ask(t, http, "POST", "/emails", mail(), "order-881").json()["id"]

    sent = ask(t, http, "GET", f"/emails/{id_}").json()
    clock.forward(2)
    delivered = ask(t, http, "GET", f"/emails/{id_}").json()

    assert sent["last_event"] == "sent"
    assert delivered["last_event"] == "delivered"
    assert (sent["object"], sent["to"], sent["html"]) == ("email", ["ana@demo.example"], None)
    assert sent["created_at"] == "2026-03-01 12:00:00.000000+00"
    assert t.resend.ledger.counts("key") == {"order-881": 1}


def test_the_same_key_sends_once_for_24_hours(
    t: Twins, http: httpx2.Client, clock: Standing
) -> None:
    t.resend.faults.set([{"route": "emails.send", "calls": "1", "do": "drop_after"}])
    with pytest.raises((httpx2.RemoteProtocolError, httpx2.ReadError)):
        ask(t, http, "POST", "/emails", mail(), "order-881")

    again = ask(t, http, "POST", "/emails", mail(), "order-881")
    clock.forward(86_399)
    late = ask(t, http, "POST", "/emails", mail(), "order-881")
    before = t.resend.ledger.counts("key")
    clock.forward(1)
    forgotten = ask(t, http, "POST", "/emails", mail(), "order-881")

    assert again.json() == late.json()
    assert before == {"order-881": 1}
    assert forgotten.json() != late.json()
    assert t.resend.ledger.counts("key") == {"order-881": 2}


def test_the_same_key_with_another_payload_is_409(t: Twins, http: httpx2.Client) -> None:
    ask(t, http, "POST", "/emails", mail(), "order-881")

    other = ask(t, http, "POST", "/emails", mail(subject="Other"), "order-881")
    batch = ask(t, http, "POST", "/emails/batch", [mail()], "order-881")

    assert (other.status_code, other.json()["name"]) == (409, "invalid_idempotent_request")
    assert other.json()["statusCode"] == 409
    assert batch.status_code == 409
    assert len(t.resend.ledger.of("mail")) == 1


def test_the_same_key_while_the_first_call_is_under_way_is_409(
    t: Twins, http: httpx2.Client
) -> None:
    t.resend.set_work(0.3)

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(ask, t, http, "POST", "/emails", mail(), "order-881") for _ in "ab"]
        replies = sorted((call.result() for call in calls), key=lambda reply: reply.status_code)

    assert [reply.status_code for reply in replies] == [200, 409]
    assert replies[1].json()["name"] == "concurrent_idempotent_requests"
    assert t.resend.ledger.counts("key") == {"order-881": 1}


def test_a_refused_mail_leaves_its_key_free(t: Twins, http: httpx2.Client) -> None:
    refused = ask(t, http, "POST", "/emails", mail(to=""), "order-881")
    taken = ask(t, http, "POST", "/emails", mail(), "order-881")

    assert (refused.status_code, taken.status_code) == (422, 200)


def test_a_key_has_at_most_256_characters(t: Twins, http: httpx2.Client) -> None:
    reply = ask(t, http, "POST", "/emails", mail(), "k" * 257)

    assert (reply.status_code, reply.json()["name"]) == (400, "invalid_idempotency_key")


@pytest.mark.parametrize(
    ("sent", "status", "name", "message"),
    [
        (mail(to=None), 422, "missing_required_field", "Missing `to` field."),
        (mail(subject=""), 422, "missing_required_field", "Missing `subject` field."),
        (mail(text=None), 422, "missing_required_field", "Missing `html` or `text` field."),
        (mail(to="nobody"), 422, "validation_error", "Invalid `to` field."),
        (mail(to=["a@b.example"] * 51), 422, "validation_error", "more than 50"),
        (mail(attachments=[{"filename": "a"}]), 422, "invalid_attachment", "Attachment"),
        (mail(scheduled_at="soon"), 422, "validation_error", "scheduled_at"),
        ([], 400, "validation_error", "no JSON object"),
    ],
)
def test_a_mail_that_is_wrong_is_refused_by_name(
    t: Twins, http: httpx2.Client, sent: Any, status: int, name: str, message: str
) -> None:
    reply = ask(t, http, "POST", "/emails", sent)

    assert reply.status_code == reply.json()["statusCode"] == status
    assert reply.json()["name"] == name
    assert message in reply.json()["message"]
    assert t.resend.ledger.entries == []


@pytest.mark.parametrize(
    ("headers", "status", "name"),
    [
        ({"authorization": ""}, 401, "missing_api_key"),
        ({"authorization": "Bearer re_wrong"}, 403, "invalid_api_key"),
        ({"authorization": "Bearer re_suspended"}, 403, "suspended_api_key"),
        ({"authorization": "Bearer re_send"}, 401, "restricted_api_key"),
    ],
)
def test_a_key_is_refused_by_name(
    t: Twins, http: httpx2.Client, headers: dict[str, str], status: int, name: str
) -> None:
    reply = ask(t, http, "GET", "/emails", **headers)

    assert (reply.status_code, reply.json()["name"]) == (status, name)


def test_a_key_that_may_send_sends(t: Twins, http: httpx2.Client) -> None:
    assert ask(t, http, "POST", "/emails", mail(), token="re_send").status_code == 200


def test_a_user_agent_is_required(t: Twins, http: httpx2.Client) -> None:
    assert ask(t, http, "POST", "/emails", mail(), **{"user-agent": ""}).status_code == 403


def test_a_domain_has_to_be_verified(t: Twins, http: httpx2.Client) -> None:
    t.resend.unverify("demo.example")

    own = ask(t, http, "POST", "/emails", mail())
    test = ask(t, http, "POST", "/emails", mail(**{"from": "a@resend.dev"}))

    assert (own.status_code, own.json()["name"]) == (403, "validation_error")
    assert (test.status_code, test.json()["name"]) == (403, "validation_error")


def test_unknown_mails_paths_and_methods_have_their_names(t: Twins, http: httpx2.Client) -> None:
    assert ask(t, http, "GET", "/emails/none").json()["name"] == "not_found"
    assert ask(t, http, "GET", "/nowhere").json()["name"] == "not_found"
    assert ask(t, http, "DELETE", "/emails").json()["name"] == "method_not_allowed"


def test_calls_are_limited_by_the_second(t: Twins, http: httpx2.Client, clock: Standing) -> None:
    t.resend.set_limits()

    replies = [ask(t, http, "POST", "/emails", mail()) for _ in range(4)]
    clock.forward(1)
    after = ask(t, http, "POST", "/emails", mail())

    assert [reply.status_code for reply in replies] == [200, 200, 429, 429]
    assert [reply.headers["ratelimit-remaining"] for reply in replies] == ["1", "0", "0", "0"]
    assert replies[0].headers["ratelimit-limit"] == "2"
    assert replies[0].headers["ratelimit-reset"] == "1"
    assert "retry-after" not in replies[0].headers
    assert replies[2].headers["retry-after"] == "1"
    assert replies[2].json() == {
        "statusCode": 429,
        "name": "rate_limit_exceeded",
        "message": "Too many requests. You can only make 2 requests per second.",
    }
    assert [asked.limit for asked in t.resend.log.entries] == [
        None,
        None,
        "reached",
        "ignored",
        None,
    ]
    assert after.status_code == 200


@pytest.mark.parametrize(("quota", "wait"), [("daily", 12 * 3600), ("monthly", 30 * 86_400)])
def test_quotas_are_of_mails_and_their_headers_count_what_is_used(
    t: Twins, http: httpx2.Client, clock: Standing, quota: str, wait: int
) -> None:
    t.resend.set_limits(per_second=10, **{quota: 3})

    used = ask(t, http, "POST", "/emails/batch", [mail()] * 3)
    over = ask(t, http, "POST", "/emails", mail())
    clock.forward(wait)
    after = ask(t, http, "POST", "/emails", mail())

    assert used.headers[f"x-resend-{quota}-quota"] == "3"
    assert (over.status_code, over.json()["name"]) == (429, f"{quota}_quota_exceeded")
    assert after.headers[f"x-resend-{quota}-quota"] == "1"


def test_a_strict_batch_is_all_or_nothing(t: Twins, http: httpx2.Client) -> None:
    refused = ask(t, http, "POST", "/emails/batch", [mail(), mail(to="nobody")], "b1")
    taken = ask(t, http, "POST", "/emails/batch", [mail(), mail("bob@demo.example")], "b1")
    again = ask(t, http, "POST", "/emails/batch", [mail(), mail("bob@demo.example")], "b1")

    assert refused.status_code == 422
    assert len(taken.json()["data"]) == 2
    assert again.json() == taken.json()
    assert t.resend.ledger.counts("key") == {"b1": 2}


def test_a_permissive_batch_takes_what_is_right(t: Twins, http: httpx2.Client) -> None:
    reply = ask(
        t,
        http,
        "POST",
        "/emails/batch",
        [mail(), mail(to=None)],
        **{"x-batch-validation": "permissive"},
    )

    assert len(reply.json()["data"]) == 1
    assert reply.json()["errors"] == [{"index": 1, "message": "Missing `to` field."}]


def test_a_batch_has_at_most_100_mails_and_drops_what_it_does_not_know(
    t: Twins, http: httpx2.Client
) -> None:
    over = ask(t, http, "POST", "/emails/batch", [mail()] * 101)
    later = ask(t, http, "POST", "/emails/batch", [mail(scheduled_at="2030-01-01T00:00:00Z")])

    assert over.status_code == 422
    assert later.status_code == 200
    assert len(t.resend.ledger.of("mail")) == 1


def test_a_scheduled_mail_goes_out_in_time_unless_it_is_cancelled(
    t: Twins, http: httpx2.Client, clock: Standing
) -> None:
    when = "2026-03-01T13:00:00Z"
    ids = [
        ask(t, http, "POST", "/emails", mail(scheduled_at=when), f"k{n}").json()["id"]
        for n in range(3)
    ]
    ask(t, http, "POST", f"/emails/{ids[1]}/cancel")
    ask(t, http, "PATCH", f"/emails/{ids[2]}", {"scheduled_at": "2026-03-01T15:00:00Z"})
    before = list(t.resend.ledger.entries)
    clock.forward(3600)
    t.settle()

    events = [ask(t, http, "GET", f"/emails/{id_}").json()["last_event"] for id_ in ids]
    assert before == []
    assert t.resend.ledger.counts("key") == {"k0": 1}
    assert events == ["sent", "canceled", "scheduled"]
    assert ask(t, http, "POST", f"/emails/{ids[0]}/cancel").status_code == 422


def test_mails_are_listed_newest_first_in_pages(t: Twins, http: httpx2.Client) -> None:
    ids = [ask(t, http, "POST", "/emails", mail()).json()["id"] for _ in range(5)]

    first = ask(t, http, "GET", "/emails?limit=2").json()
    rest = ask(t, http, "GET", f"/emails?limit=3&after={first['data'][-1]['id']}").json()

    assert [each["id"] for each in first["data"] + rest["data"]] == ids[::-1]
    assert (first["has_more"], rest["has_more"]) == (True, False)
    assert ask(t, http, "GET", "/emails?limit=101").status_code == 422


def subscribe(t: Twins, http: httpx2.Client, *events: str) -> None:
    url = f"{t.hooks.url}/hook/mail"
    made = ask(t, http, "POST", "/webhooks", {"endpoint": url, "events": list(events)})
    assert made.status_code == 201
    t.hooks.endpoint("mail", "standard", [made.json()["signing_secret"]])


def told(t: Twins) -> list[str]:
    return [json.loads(entry["body"])["type"] for entry in t.hooks.ledger.of("delivered")]


def test_deliveries_and_bounces_are_told_by_signed_webhooks(
    t: Twins, http: httpx2.Client, clock: Standing
) -> None:
    subscribe(t, http, "email.sent", "email.delivered", "email.bounced", "email.complained")
    for address in ("ana@demo.example", "bounced@resend.dev", "complained@resend.dev"):
        ask(t, http, "POST", "/emails", mail(address))
    t.settle()
    first = told(t)
    clock.forward(2)
    t.settle()
    clock.forward(2)
    t.settle()

    assert first == ["email.sent"] * 3
    assert sorted(told(t)[3:]) == [
        "email.bounced",
        "email.complained",
        "email.delivered",
        "email.delivered",
    ]
    assert t.hooks.ledger.of("forged") == []
    bounce = next(e for e in t.hooks.ledger.entries if "email.bounced" in e["body"])
    assert json.loads(bounce["body"])["data"]["bounce"]["type"] == "Permanent"


def test_a_webhook_is_repeated_with_the_same_id_until_it_is_taken(
    t: Twins, http: httpx2.Client, clock: Standing
) -> None:
    subscribe(t, http, "email.sent")
    t.hooks.answer("mail", [500, 500, 200])
    ask(t, http, "POST", "/emails", mail())
    seen = []
    for wait in (0, 5, 300, 1800):
        clock.forward(wait)
        t.settle()
        seen.append(len(t.hooks.ledger.entries))

    assert seen == [1, 2, 3, 3]
    assert len(t.hooks.ledger.counts("id")) == 1
    assert t.resend.courier.parcels[0].answers == [500, 500, 200]


def test_webhooks_can_be_listed_and_removed(t: Twins, http: httpx2.Client) -> None:
    subscribe(t, http, "email.sent")
    found = ask(t, http, "GET", "/webhooks").json()["data"]

    one = ask(t, http, "GET", f"/webhooks/{found[0]['id']}").json()
    gone = ask(t, http, "DELETE", f"/webhooks/{found[0]['id']}").json()
    bad = ask(t, http, "POST", "/webhooks", {"endpoint": "http://x", "events": ["email.eaten"]})
    ask(t, http, "POST", "/emails", mail())
    t.settle()

    assert one["events"] == ["email.sent"]
    assert gone["deleted"] is True
    assert bad.json()["name"] == "invalid_parameter"
    assert t.hooks.ledger.entries == []


def test_a_fault_speaks_the_upstreams_language(t: Twins, http: httpx2.Client) -> None:
    t.resend.faults.set([{"route": "emails.*", "calls": "1", "do": "status", "status": 500}])

    reply = ask(t, http, "POST", "/emails", mail())

    assert reply.json()["name"] == "application_error"
