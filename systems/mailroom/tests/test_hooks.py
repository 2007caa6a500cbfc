"""Reports of providers, and what tenants are told: each once, and only by who may."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from duework import App, Secret, UsageError, webhooks
from duework.testing import Harness
from systems.mailroom import board
from systems.mailroom.hooks import outgoing
from systems.mailroom.mail import Mail
from systems.mailroom.posting import post
from systems.mailroom.providers.acs import operation_id
from systems.mailroom.tenant import Tenant
from systems.mailroom.tests.conftest import Room, settings_for
from systems.mailroom.tests.test_tenants import one
from systems.mailroom.tests.test_web import acme, client  # noqa: F401
from systems.twins import Twins, twins
from tests.web.conftest import Browser

SECRET = webhooks.new_secret()


def grid(status: str, ref: str, id_: str = "e1", to: str = "ada@demo.example") -> list[Any]:
    data = {"messageId": ref, "recipient": to, "status": status}
    data["deliveryStatusDetails"] = {"statusMessage": "550 no such user"}  # type: ignore[assignment]
    kind = "Microsoft.Communication.EmailDeliveryReportReceived"
    return [{"id": id_, "eventType": kind, "data": data}]


def suppressed(room: Room) -> list[str]:
    return [each["address"] for each in room.app.object(Tenant, "acme").suppressed().result()]


@pytest.mark.rows("002-X4")
def test_a_bounce_reported_by_acs_suppresses_the_address_once(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings_for(monkeypatch, endpoint=room.acs.url, acs_reports=Secret("s3cret"))
    message = post(room.app, "acme", "order-7", one())
    room.h.advance("1m")
    web, body = client(room), grid("Bounced", operation_id("acme:order-7").upper())

    assert web.post("/reports/acs?code=wrong", json=body).status_code == 401
    assert web.post("/reports/acs?code=s3cret", json=body).json() == {"taken": 1}
    assert web.post("/reports/acs?code=s3cret", json=body).json() == {"taken": 0}
    room.h.drain()

    assert suppressed(room) == ["ada@demo.example"]
    [_, report] = board.story(board.found(message.id))
    assert (report["what"], report["detail"]) == ("bounced", "550 no such user")
    blocked = post(room.app, "acme", "order-8", one())
    room.h.advance("1m")
    assert board.found(blocked.id).error == "suppressed: bounced"


def test_the_handshake_of_event_grid_is_answered_and_nonsense_is_taken_quietly(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings_for(monkeypatch, endpoint=room.acs.url, acs_reports=Secret("s3cret"))
    kind = "Microsoft.EventGrid.SubscriptionValidationEvent"
    shake = [{"id": "1", "eventType": kind, "data": {"validationCode": "abc"}}]
    web = client(room)

    assert web.post("/reports/acs?code=s3cret", json=shake).json() == {"validationResponse": "abc"}
    for content in (b"", b"x", b"{}", b"[1]", b'[{"eventType": 7}]', b'[{"data": []}]'):
        assert web.post("/reports/acs?code=s3cret", content=content).json() == {"taken": 0}
    unknown = grid("Bounced", "nobody-knows")
    assert web.post("/reports/acs?code=s3cret", json=unknown).json() == {"taken": 0}


def test_reports_of_nobody_are_refused_where_no_secret_is_set(room: Room) -> None:
    web = client(room)
    assert web.post("/reports/acs?code=", json=[]).status_code == 401
    assert web.post("/reports/resend", json={}).status_code == 401


def resend_report(kind: str, ref: str, **data: Any) -> bytes:
    import json

    facts = {"to": ["ada@demo.example"], "tags": {"ref": ref}, **data}
    return json.dumps({"type": kind, "data": facts}).encode()


@pytest.mark.parametrize(
    ("event", "data", "word", "stops"),
    [
        ("email.delivered", {}, "delivered", False),
        ("email.bounced", {"bounce": {"type": "Permanent", "message": "gone"}}, "bounced", True),
        ("email.bounced", {"bounce": {"type": "Transient"}}, "bounced", False),
        ("email.complained", {}, "complained", True),
        ("email.bounced", {"to": ["ada@demo.example", "bob@demo.example"]}, "bounced", False),
    ],
)
def test_what_resend_reports_is_taken_if_it_is_signed(
    room: Room, monkeypatch: pytest.MonkeyPatch, event: str, data: Any, word: str, stops: bool
) -> None:
    settings_for(monkeypatch, endpoint=room.acs.url, resend_reports=Secret(SECRET))
    message = post(room.app, "acme", "order-7", one())
    room.h.advance("1m")
    body = resend_report(event, operation_id("acme:order-7"), **data)
    headers = webhooks.sign([SECRET], "msg_1", body, now=room.app.now())
    web = client(room)

    assert web.post("/reports/resend", content=body + b" ", headers=headers).status_code == 401
    assert web.post("/reports/resend", content=body, headers=headers).json()["taken"] >= 1
    assert web.post("/reports/resend", content=body, headers=headers).json() == {"taken": 0}
    room.h.drain()

    assert board.story(board.found(message.id))[-1]["what"] == word
    assert bool(suppressed(room)) == stops


def test_the_tag_of_a_mail_comes_back_with_the_twins_own_reports() -> None:
    from systems.mailroom.outbox import MailOutbox
    from systems.mailroom.settings import Settings

    app, chosen = App("sqlite://"), Settings(provider="resend")
    outbox = MailOutbox(lambda: chosen, app.now)
    box = app.outbox("mail", outbox)
    with Harness(app) as h, twins(h.clock, "resend") as t:
        chosen = Settings(provider="resend", endpoint=t.resend.url)
        mail = Mail(
            tenant="acme", sender="me@demo.example", to=("a@demo.example",), subject="x", text="y"
        )
        box.using(key="acme:1").enqueue(mail)
        h.drain()
        [sent] = t.resend.mails.values()
        assert sent.body["tags"] == [{"name": "ref", "value": outbox.provider.ref("acme:1")}]


# --- what tenants are told


@pytest.fixture
def hooks(room: Room, monkeypatch: pytest.MonkeyPatch) -> Iterator[Twins]:
    with twins(room.h.clock, "hooks") as running:
        yield running


def test_a_tenant_is_told_what_became_of_each_message_once(room: Room, hooks: Twins) -> None:
    made = outgoing.set_hook("acme", f"{hooks.hooks.url}/hook/acme")
    assert made.secret is not None
    hooks.hooks.endpoint("acme", "standard", [made.secret])
    hooks.hooks.answer("acme", [503, 200])
    room.acs.set_outcome("bob@demo.example", "Failed")
    for number in range(3):
        post(room.app, "acme", f"ok-{number}", one())
    post(room.app, "acme", "bad", one("bob@demo.example"))
    post(room.app, "birch", "theirs", one())

    room.h.advance("10m")

    got = [each for each in hooks.hooks.ledger.entries if each["kind"] == "delivered"]
    assert len(got) == 4
    assert len({each["id"] for each in got}) == 4
    assert not [each for each in hooks.hooks.ledger.entries if each["kind"] == "forged"]
    room.h.advance("1h")
    assert len([e for e in hooks.hooks.ledger.entries if e["kind"] == "delivered"]) == 4


def test_a_message_that_is_sent_again_is_told_again(room: Room, hooks: Twins) -> None:
    from systems.mailroom.outbox import box

    outgoing.set_hook("acme", f"{hooks.hooks.url}/hook/acme")
    room.acs.set_outcome("ada@demo.example", "Failed")
    message = post(room.app, "acme", "k", one())
    room.h.advance("2m")
    room.acs.set_outcome("ada@demo.example", "Succeeded")
    box.retry(message.id)
    room.h.advance("2m")

    story = [each["what"] for each in board.story(board.found(message.id))]
    assert [each for each in story if each.startswith("told")] == ["told: failed", "told: sent"]


def test_nobody_is_looked_for_when_nobody_wants_to_be_told(room: Room, hooks: Twins) -> None:
    assert room.app.schedules(prefix="mailroom:") == []
    outgoing.set_hook("acme", f"{hooks.hooks.url}/hook/acme")
    assert len(room.app.schedules(prefix="mailroom:")) == 1
    outgoing.drop_hook("acme")
    room.h.drain()
    assert room.app.schedules(prefix="mailroom:") == []


def test_a_webhook_into_our_own_network_is_refused(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings_for(monkeypatch, endpoint="https://x.communication.azure.com", key=Secret("QQ=="))
    for url in ("http://127.0.0.1/x", "http://10.0.0.1/", "ftp://x.example", "http://[::1]/"):
        with pytest.raises(UsageError, match="not let through"):
            outgoing.set_hook("acme", url)


def test_webhooks_live_by_the_api(room: Room, acme: Browser, hooks: Twins) -> None:  # noqa: F811
    url = f"{hooks.hooks.url}/hook/acme"
    made = acme.put("/webhook", json={"url": url})
    assert made.json()["secret"].startswith("whsec_")
    assert acme.get("/webhook").json() == {"url": url}
    assert acme.put("/webhook", json={"url": "http://10.0.0.1/"}).status_code == 400
    assert acme.delete("/webhook").status_code == 204
    assert acme.delete("/webhook").status_code == 404
    assert acme.get("/suppressed").json() == []
