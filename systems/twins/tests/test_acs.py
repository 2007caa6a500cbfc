"""ACS e-mail: signatures, operations with the quirks of both versions, limits, repetition."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from systems.twins import Twins
from systems.twins.acs import KEY, content_hash, signature
from systems.twins.kit.clock import as_http_date
from systems.twins.tests.conftest import Standing

TWINS = ("acs", "hooks")
OLD, NEW = "2023-03-31", "2025-09-01"
ID = "11111111-2222-4333-8444-555555555555"


def mail(to: str = "ana@demo.example", **more: Any) -> dict[str, Any]:
    return {
        "senderAddress": "DoNotReply@mail.demo.example",
        "content": {"subject": "Your receipt", "plainText": "Thanks"},
        "recipients": {"to": [{"address": to, "displayName": "Ana"}]},
        **more,
    }


def signed(
    http: httpx2.Client,
    clock: Standing,
    method: str,
    url: str,
    body: bytes = b"",
    key: str = KEY,
    skew: int = 0,
    **headers: str,
) -> httpx2.Response:
    place = urlsplit(url)
    path = url.removeprefix(f"{place.scheme}://{place.netloc}")
    date, digest = as_http_date(clock.at + skew * 1000), content_hash(body)
    value = signature(key, method, path, date, place.netloc, digest)
    own = {
        "x-ms-date": date,
        "x-ms-content-sha256": digest,
        "content-type": "application/json",
        "authorization": "HMAC-SHA256 SignedHeaders=x-ms-date;host;x-ms-content-sha256"
        f"&Signature={value}",
    }
    return http.request(method, url, content=body, headers={**own, **headers})


def send(
    t: Twins,
    http: httpx2.Client,
    clock: Standing,
    sent: Any = None,
    version: str = OLD,
    id_: str = ID,
    **more: Any,
) -> httpx2.Response:
    url = f"{t.acs.url}/emails:send?api-version={version}"
    body = json.dumps(mail() if sent is None else sent).encode()
    return signed(http, clock, "POST", url, body, **{"operation-id": id_}, **more)


def test_the_known_signatures_are_ours() -> None:
    date, host = "Tue, 14 Nov 2023 22:13:20 GMT", "demo.communication.azure.com"
    body = b'{"senderAddress":"DoNotReply@demo.example"}'

    assert content_hash(body) == "8jQsu7M7H4dDiiVr5oIM0vochYb6m76rIY6MEwSMc8c="
    assert content_hash(b"") == "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
    path = f"/emails:send?api-version={OLD}"
    assert signature(KEY, "POST", path, date, host, content_hash(body)) == (
        "PjfAUsxnx9ZdchfbpqbLYoyQyrIyCt4KZi16gJfVZxA="
    )
    path = f"/emails/operations/{ID}?api-version={OLD}"
    assert signature(KEY, "GET", path, date, host, content_hash(b"")) == (
        "MVhvankgK6gd/SmMTnhRaxnTvJhYjZbrwZtQC0klHVE="
    )


def test_a_send_is_accepted_and_its_operation_runs_and_succeeds(
    t: Twins, http: httpx2.Client, clock: Standing
) -> None:
    accepted = send(t, http, clock)
    location = accepted.headers["operation-location"]
    running = signed(http, clock, "GET", location)
    clock.forward(5)
    done = signed(http, clock, "GET", location)

    assert accepted.status_code == 202
    assert accepted.json() == {"id": ID, "status": "Running", "error": None}
    assert accepted.headers["retry-after"] == "3"
    assert location == f"{t.acs.url}/emails/operations/{ID}?api-version={OLD}"
    assert (running.json()["status"], running.headers["retry-after"]) == ("Running", "3")
    assert done.json() == {"id": ID, "status": "Succeeded", "error": None}
    assert "retry-after" not in done.headers
    assert t.acs.ledger.counts("key") == {ID: 1}


def test_the_newer_version_has_its_quirks(t: Twins, http: httpx2.Client, clock: Standing) -> None:
    t.acs.set_outcome("ana@demo.example", "Failed")

    accepted = send(t, http, clock, version=NEW)
    location = accepted.headers["operation-location"]
    clock.forward(5)
    failed = signed(http, clock, "GET", location)

    assert location == f"{t.acs.url}//emails/operations/{ID}?api-version={NEW}"
    assert accepted.headers["retry-after"] == "20"
    assert accepted.json() == {"id": ID, "status": "Running"}
    assert failed.json() == {
        "id": ID.upper(),
        "status": "Failed",
        "error": {
            "code": "EmailDropped",
            "message": "Email was dropped after several attempts to deliver.",
        },
    }


def test_the_version_in_the_location_may_be_another(
    t: Twins, http: httpx2.Client, clock: Standing
) -> None:
    t.acs.set_location_version(NEW)

    location = send(t, http, clock, version=OLD).headers["operation-location"]

    assert location.endswith(f"?api-version={NEW}")
    assert signed(http, clock, "GET", location).json()["status"] == "Running"


def test_an_operation_can_be_cancelled_or_fail(
    t: Twins, http: httpx2.Client, clock: Standing
) -> None:
    t.acs.set_outcome("gone@demo.example", "Canceled")
    t.acs.set_outcome("lost@demo.example", "Failed")
    found = []
    for n, to in enumerate(("gone@demo.example", "lost@demo.example")):
        location = send(t, http, clock, mail(to), id_=ID[:-1] + str(n)).headers[
            "operation-location"
        ]
        clock.forward(5)
        found.append(signed(http, clock, "GET", location).json())

    assert found[0]["status"] == "Canceled"
    assert found[1]["error"]["code"] == "EmailDropped"
    assert found[1]["error"]["details"] == []


def test_an_operation_may_be_unknown_right_after_its_202(
    t: Twins, http: httpx2.Client, clock: Standing
) -> None:
    t.acs.set_times(running=0, hidden=2)
    location = send(t, http, clock).headers["operation-location"]

    early = signed(http, clock, "GET", location)
    clock.forward(2)
    late = signed(http, clock, "GET", location)

    assert (early.status_code, late.status_code) == (404, 200)


def test_the_same_operation_id_sends_once(t: Twins, http: httpx2.Client, clock: Standing) -> None:
    t.acs.faults.set([{"route": "send", "calls": "1", "do": "drop_after"}])
    with pytest.raises((httpx2.RemoteProtocolError, httpx2.ReadError)):
        send(t, http, clock)

    again = send(t, http, clock, id_=ID.upper())
    other = send(t, http, clock, mail("bob@demo.example"))

    assert (again.status_code, again.json()["id"]) == (202, ID)
    assert other.status_code == 400
    assert other.headers["x-ms-error-code"] == "InvalidRequest"
    assert t.acs.ledger.counts("key") == {ID: 1}


def test_without_an_operation_id_every_send_is_a_mail(
    t: Twins, http: httpx2.Client, clock: Standing
) -> None:
    url, body = f"{t.acs.url}/emails:send?api-version={OLD}", json.dumps(mail()).encode()

    ids = {signed(http, clock, "POST", url, body).json()["id"] for _ in range(2)}

    assert len(ids) == len(t.acs.ledger.of("mail")) == 2


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"key": "AAAA"}, "does not match"),
        ({"skew": 301}, "s off"),
        ({"skew": -301}, "s off"),
        ({"authorization": "Bearer x"}, "missing"),
        ({"x-ms-content-sha256": content_hash(b"")}, "does not belong"),
        ({"x-ms-date": "yesterday"}, "no date"),
    ],
)
def test_a_signature_that_is_wrong_is_refused(
    t: Twins, http: httpx2.Client, clock: Standing, more: dict[str, Any], problem: str
) -> None:
    reply = send(t, http, clock, **more)

    assert reply.status_code == 401
    assert problem in reply.json()["error"]["message"]
    assert t.acs.ledger.entries == []


def test_a_poll_has_to_be_signed_too(t: Twins, http: httpx2.Client, clock: Standing) -> None:
    location = send(t, http, clock).headers["operation-location"]

    assert http.get(location).status_code == 401


def test_an_encoded_colon_does_not_match_what_was_signed(
    t: Twins, http: httpx2.Client, clock: Standing
) -> None:
    plain = f"{t.acs.url}/emails:send?api-version={OLD}"
    body = json.dumps(mail()).encode()
    headers = signed(http, clock, "POST", plain, body).request.headers

    reply = http.post(plain.replace(":send", "%3Asend"), content=body, headers=headers)

    assert reply.status_code == 401


@pytest.mark.parametrize(
    ("sent", "target"),
    [
        ([], "body"),
        (mail(senderAddress="nobody"), "senderAddress"),
        (mail(content={"plainText": "x"}), "content.subject"),
        (mail(content={"subject": "x"}), "content"),
        (mail(recipients={"cc": [{"address": "a@b.example"}]}), "recipients.to"),
        (mail(recipients={"to": [{"address": "a@b.example"}] * 51}), "recipients"),
        (mail("nobody"), "recipients"),
        (mail(attachments=[{"name": "a", "contentInBase64": "%"}]), "attachments"),
    ],
)
def test_a_mail_that_is_wrong_is_refused_by_name(
    t: Twins, http: httpx2.Client, clock: Standing, sent: Any, target: str
) -> None:
    reply = send(t, http, clock, sent)

    assert reply.status_code == 400
    assert reply.json()["error"]["target"] == target
    assert set(reply.json()["error"]) == {"code", "message", "target", "details", "innererror"}
    assert t.acs.ledger.entries == []


def test_more_than_ten_megabytes_are_too_much(
    t: Twins, http: httpx2.Client, clock: Standing
) -> None:
    content = {"subject": "x", "plainText": "x" * 10 * 1024 * 1024}

    assert send(t, http, clock, mail(content=content)).status_code == 413


def test_other_refusals_have_their_codes(t: Twins, http: httpx2.Client, clock: Standing) -> None:
    version = send(t, http, clock, version="2021-10-01")
    odd = send(t, http, clock, id_="order-881")
    t.acs.unlink("mail.demo.example")
    unlinked = send(t, http, clock)

    assert (unlinked.status_code, unlinked.headers["x-ms-error-code"]) == (404, "DomainNotLinked")
    assert version.json()["error"]["code"] == "InvalidApiVersion"
    assert odd.json()["error"]["target"] == "Operation-Id"


def test_sends_are_limited_by_the_minute_and_by_the_hour(
    t: Twins, http: httpx2.Client, clock: Standing
) -> None:
    statuses, waits = [], []
    for n in range(13):
        reply = send(t, http, clock, id_=f"{ID[:-2]}{n:02}")
        statuses.append(reply.status_code)
        waits.append(reply.headers["retry-after"])
        if n == 0:
            t.acs.set_plan("managed")
        if reply.status_code == 429:
            clock.forward(int(waits[-1]))

    # Five in a minute, ten in an hour.
    assert statuses == [202] * 6 + [429] + [202] * 5 + [429]
    assert waits[6] == "60"
    assert waits[12] == str(3600 - 60)


def test_polls_have_limits_of_their_own(t: Twins, http: httpx2.Client, clock: Standing) -> None:
    location = send(t, http, clock).headers["operation-location"]
    t.acs.set_plan("managed")

    replies = [signed(http, clock, "GET", location) for _ in range(12)]

    assert [reply.status_code for reply in replies] == [200] * 10 + [429] * 2
    assert replies[-1].json()["error"]["code"] == "TooManyRequests"
    assert replies[-1].headers["retry-after"] == "60"
    assert [asked.limit for asked in t.acs.log.entries][-2:] == ["reached", "ignored"]


def test_a_delivery_report_is_a_cloud_event(t: Twins, http: httpx2.Client, clock: Standing) -> None:
    t.acs.set_events(f"{t.hooks.url}/hook/acs")
    send(t, http, clock)
    t.settle()
    before = len(t.hooks.ledger.entries)
    clock.forward(5)
    t.settle()

    event = json.loads(t.hooks.ledger.of("delivered")[0]["body"])
    assert before == 0
    assert event["type"] == "Microsoft.Communication.EmailDeliveryReportReceived"
    assert event["data"]["messageId"] == ID
    assert event["specversion"] == "1.0"
