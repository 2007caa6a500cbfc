"""Tenants: keys of requests, limits, suppressed addresses, keys of the API; one cannot see another."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from duework import Conflict, NotFound, UsageError
from systems.mailroom import board, keys
from systems.mailroom.mail import NewMessage, masked
from systems.mailroom.outbox import box
from systems.mailroom.part import part
from systems.mailroom.posting import post, post_many
from systems.mailroom.settings import Settings
from systems.mailroom.tenant import LimitReached, Tenant
from systems.mailroom.tests.conftest import Room


def one(to: str = "ada@demo.example", **more: Any) -> NewMessage:
    return NewMessage(**{"to": to, "subject": "Hello", "text": "It is on its way.", **more})


@pytest.mark.rows("002-X1")
def test_the_same_key_is_the_same_message_and_another_body_is_refused(room: Room) -> None:
    first = post(room.app, "acme", "order-7", one())
    again = post(room.app, "acme", "order-7", one())
    assert (again.id, again.existed) == (first.id, True)
    with pytest.raises(Conflict, match="order-7"):
        post(room.app, "acme", "order-7", one("bob@demo.example"))
    other = post(room.app, "birch", "order-7", one("bob@demo.example"))
    assert other.id != first.id
    room.h.advance("1m")
    assert post(room.app, "acme", "order-7", one()).state == "sent"
    assert sum(room.delivered().values()) == 2


@pytest.mark.rows("002-04")
def test_of_many_requests_at_once_with_one_key_one_is_a_message(room: Room) -> None:
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.append(post(room.app, "acme", "k", one()).id))
        for _ in range(8)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert board.figures(room.app, "acme")["posted"] == 1


@pytest.mark.rows("002-01", "002-03", "002-04")
def test_a_limit_of_three_lets_three_through_and_opens_at_midnight(room: Room) -> None:
    tenant = room.app.object(Tenant, "acme")
    tenant.set_limit(3).result()
    for number in range(3):
        post(room.app, "acme", f"order-{number}", one())
    with pytest.raises(LimitReached) as caught:
        post(room.app, "acme", "order-3", one())
    assert caught.value.until == room.h.now + 86_400_000
    assert board.counts(room.app)["queued"] == 3
    post(room.app, "acme", "order-2", one())  # known already: it takes nothing of the limit
    room.h.advance("24h")
    post(room.app, "acme", "order-3", one())
    assert [each["name"] for each in board.tenants(room.app)] == ["acme"]
    room.app.object(Tenant, "acme").delete()
    assert board.tenants(room.app) == []


def test_a_key_and_its_message_are_there_together_or_not_at_all(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Tenant, "_queue", _dies)
        with pytest.raises(SystemExit):
            post(room.app, "acme", "order-7", one())
    assert board.counts(room.app)["queued"] == 0
    assert board.figures(room.app, "acme")["posted"] == 0
    post(room.app, "acme", "order-7", one())
    room.h.advance("1m")
    assert board.counts(room.app)["sent"] == 1
    assert board.figures(room.app, "acme")["posted"] == 1


def _dies(*_: Any) -> None:
    raise SystemExit


def test_a_scheduled_mail_waits_for_its_time_and_can_be_cancelled_until_then(room: Room) -> None:
    later = datetime(2026, 1, 2, 18, tzinfo=UTC)
    mail = post(room.app, "acme", "later", one(at=later))
    gone = post(room.app, "acme", "gone", one(at=later))
    room.h.advance("40h")
    assert box.cancel(gone.id) == "cancelled"
    assert room.acs.log.calls == 0
    room.h.advance("3h")
    assert board.found(mail.id).state == "sent"
    assert sum(room.delivered().values()) == 1
    assert post(room.app, "acme", "later", one(at=later)).existed


def test_a_batch_is_posted_whole_or_not_at_all(room: Room) -> None:
    post(room.app, "acme", "order-1", one())
    wanted = [("order-0", one()), ("order-1", one("bob@demo.example"))]
    with pytest.raises(Conflict):
        post_many(room.app, "acme", wanted)
    assert board.counts(room.app)["queued"] == 1
    assert board.figures(room.app, "acme")["posted"] == 1


def test_a_suppressed_address_gets_nothing_and_the_reason_stands_there(room: Room) -> None:
    tenant = room.app.object(Tenant, "acme")
    tenant.suppress("Ada@Demo.example", "bounced", room.h.now).result()
    message = post(room.app, "acme", "order-7", one())
    post(room.app, "birch", "order-7", one())
    room.h.advance("1m")
    found = board.found(message.id)
    assert (found.state, found.error) == ("failed", "suppressed: bounced")
    assert [entry["to"] for entry in room.acs.ledger.of("mail")] == ["ada@demo.example"]
    assert tenant.allow("ada@demo.example").result()
    assert not tenant.allow("ada@demo.example").result()


@pytest.mark.rows("002-10", "002-X1")
def test_the_articles_table_is_there_to_read_and_to_filter(room: Room) -> None:
    message = post(room.app, "acme", "order-7", one())
    post(room.app, "birch", "order-8", one())
    room.h.drain()
    names = 'id, payload, status, retries, "operationUrl", error'
    [row] = room.app.read(f"select {names} from mailroom_queue where tenant = 'acme'")  # noqa: S608
    assert (row.id, row.status, row.retries, row.error) == (message.id, "sending", 0, None)
    assert row[4].startswith(room.acs.url)
    assert msgspec.json.decode(row.payload)["message"]["to"] == ["ada@demo.example"]
    assert [each["key"] for each in board.listed(room.app, tenant="birch")] == ["order-8"]
    assert board.listed(room.app, state="failed") == []
    assert len(board.listed(room.app, before=message.id)) == 0
    with pytest.raises(NotFound):
        board.found(message.id, tenant="birch")


def test_a_key_of_the_api_belongs_to_one_tenant_until_it_is_taken_away(room: Room) -> None:
    key = keys.new_key(room.app, "acme", "shop")
    assert keys.tenant_of(room.app, key) == "acme"
    assert keys.tenant_of(room.app, key + "x") is None
    assert keys.tenant_of(room.app, "") is None
    stored = [row.hash for row in room.app.read("select hash from mailroom_key")]
    assert key not in stored
    assert keys.revoke(room.app, "acme", "shop") == 1
    assert keys.tenant_of(room.app, key) is None
    with pytest.raises(UsageError, match="small letters"):
        keys.new_key(room.app, "Acme Inc", "shop")


def test_keys_of_requests_are_forgotten_after_their_time(room: Room) -> None:
    post(room.app, "acme", "order-7", one())
    room.h.advance("6d")
    assert post(room.app, "acme", "order-7", one()).existed
    with pytest.raises(Conflict):
        post(room.app, "acme", "order-7", one("bob@demo.example"))
    room.h.advance("3d")
    assert room.app.object("mailroom.Tenant", "acme").tables()["accepted"] == 0
    assert room.app.object("mailroom.Tenant", "acme").info().alarm is None


BAD: list[dict[str, Any]] = [
    {"to": "nobody"},
    {"to": []},
    {"to": "a@b.example\r\nBcc: c@d.example"},
    {"to": ["a@b.example"] * 51},
    {"to": 7},
    {"subject": ""},
    {"subject": "Hello\r\nBcc: c@d.example"},
    {"subject": "x" * 501},
    {"text": "", "html": ""},
    {"text": "x" * 1_000_001},
    {"from": "me\n@b.example"},
    {"reply_to": "nobody"},
    {"at": "tomorrow"},
    {"at": "2026-12-24T18:00:00"},
    {"bcc": "c@d.example"},
]


@pytest.mark.parametrize("change", BAD, ids=lambda change: f"{change}"[:40])
def test_a_mail_that_makes_no_sense_is_refused_before_anything_is_written(
    change: dict[str, Any],
) -> None:
    good = {"to": "a@b.example", "subject": "Hello", "text": "Hi"}
    assert msgspec.convert(good, NewMessage).recipients == ("a@b.example",)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(good | change, NewMessage)


def test_a_key_that_is_none_is_refused(room: Room) -> None:
    for key in ("", "two words", "ü", "x" * 201, "a\nb"):
        with pytest.raises(UsageError, match="Idempotency-Key"):
            post(room.app, "acme", key, one())
    assert board.tenants(room.app) == []


@pytest.mark.rows("002-18")
def test_settings_say_how_fast_and_refuse_what_makes_no_sense(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from duework import App

    monkeypatch.setattr(part, "_settings", None)
    monkeypatch.setenv("MAILROOM_SUBMITS", "0")
    with pytest.raises(UsageError, match="submits"):
        App("sqlite://").include(part)
    monkeypatch.setenv("MAILROOM_SUBMITS", "5")
    monkeypatch.setenv("MAILROOM_KEY", "not base64!")
    with pytest.raises(UsageError, match="base64"):
        App("sqlite://").include(part)
    monkeypatch.setenv("MAILROOM_KEY", "AAEC")
    assert part.settings.submits == 5
    assert "AAEC" not in repr(part.settings)
    assert Settings().url == "http://127.0.0.1:8475"


def test_an_address_is_masked_on_pages() -> None:
    assert masked("ada@demo.example") == "a…@demo.example"


def test_a_body_that_was_posted_before_an_upgrade_is_the_same_after_it() -> None:
    later = datetime(2026, 12, 24, 18, tzinfo=UTC)
    plain = NewMessage(to="ada@demo.example", subject="Hello", text="Hi")
    more = NewMessage(
        to=["ada@demo.example"], subject="Hello", html="<p>", at=later, reply_to="a@b.example"
    )

    assert [plain.digest, more.digest] == [
        "61e2a814457026a520aed0195a8d701be74d62677d40661e3bd16e82940cf171",
        "102252a4dabc33352664a721f8bd6f643e2be40f4cc2e1ea7fdcc302b2cfebda",
    ]
