"""Programs and operators that change their minds, push at limits, or send what nobody expects."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duework import Fail, Pending, UsageError
from systems.mailroom import board, keys, templates
from systems.mailroom.doors import parsing
from systems.mailroom.mail import Mail
from systems.mailroom.outbox import MailOutbox
from systems.mailroom.settings import Settings
from systems.mailroom.tenant import Tenant
from systems.mailroom.tests.conftest import Room, settings_for
from systems.mailroom.tests.test_web import client, posted
from tests.web.conftest import Browser


@pytest.fixture
def acme(room: Room) -> Browser:
    """A program of the tenant acme."""
    return client(room, authorization=f"Bearer {keys.new_key(room.app, 'acme')}")


def in_two_hours(room: Room) -> str:
    return (datetime.fromtimestamp(room.app.now() / 1000, UTC) + timedelta(hours=2)).isoformat()


def ends(room: Room) -> dict[str, str]:
    return {each["key"]: each["state"] for each in board.listed(room.app)}


def test_a_change_leads_past_no_suppressed_address_and_away_from_one(
    room: Room, acme: Browser
) -> None:
    room.app.object(Tenant, "acme").suppress("eve@demo.example", "bounced", room.app.now()).result()
    good = posted(acme, "k", at=in_two_hours(room)).json()["id"]
    bad = posted(acme, "k2", at=in_two_hours(room), to="eve@demo.example").json()["id"]

    acme.patch(f"/messages/{good}", json={"to": "eve@demo.example"})
    acme.patch(f"/messages/{bad}", json={"to": "bob@demo.example"})
    room.h.advance("3h")

    assert ends(room) == {
        "k": "cancelled", "k #1": "failed", "k2": "cancelled", "k2 #1": "sent",
    }  # fmt: skip


def test_a_change_leads_past_no_daily_limit(
    room: Room, acme: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings_for(monkeypatch, endpoint=room.acs.url, over_limit="hold", daily_limit=1)
    posted(acme, "k1")
    held = posted(acme, "k2").json()["id"]

    acme.patch(f"/messages/{held}", json={"at": None})
    room.h.advance("1h")
    assert ends(room)["k2 #1"] == "queued"
    room.h.advance("1d")
    assert ends(room)["k2 #1"] == "sent"


def test_a_message_that_was_changed_is_not_sent_besides_what_it_was_changed_to(
    room: Room, acme: Browser
) -> None:
    old = posted(acme, "k", at=in_two_hours(room)).json()["id"]
    acme.patch(f"/messages/{old}", json={"subject": "Another"})

    answer = acme.post(f"/messages/{old}/retry")

    assert (answer.status_code, "k #1" in answer.json()["detail"]) == (409, True)
    room.h.advance("3h")
    assert ends(room) == {"k": "cancelled", "k #1": "sent"}


def test_what_was_taken_stays_taken_when_its_template_is_gone(room: Room, acme: Browser) -> None:
    acme.put("/templates/hello", json={"subject": "Hello", "text": "{{ name }}"})
    body = {"to": "ada@demo.example", "template": "hello", "values": {"name": "Ada"}}

    def ask(key: str) -> Any:
        return acme.post("/messages", json=body, headers={"idempotency-key": key})

    first = ask("k")
    acme.delete("/templates/hello")

    again = ask("k")
    assert (again.status_code, again.json()["id"]) == (200, first.json()["id"])
    assert ask("k2").status_code == 404


def test_what_one_provider_has_is_not_called_sent_by_another() -> None:
    chosen = Settings(provider="resend", key=None)
    box = MailOutbox(lambda: chosen, lambda: 0)
    mail = Mail(tenant="acme", sender="a@x.example", to=("b@x.example",), subject="s", text="t")

    found = asyncio.run(box.poll("https://acs.example/emails/operations/1", mail))

    assert isinstance(found, Pending)


@pytest.mark.parametrize(
    "change",
    [{"subject": "a\u2028b"}, {"attachments": "image"}],
    ids=["subject", "attachment"],
)
def test_what_cannot_be_written_by_smtp_is_known_not_to_be_sent(change: dict[str, Any]) -> None:
    chosen = Settings(provider="smtp", endpoint="smtp://127.0.0.1:9")
    box = MailOutbox(lambda: chosen, lambda: 0, None, lambda _: "not base64")
    facts: dict[str, Any] = {"to": "b@x.example", "subject": "s", **change}
    files = facts.pop("attachments", None)
    if files:
        from systems.mailroom.mail import Attachment

        facts["attachments"] = (Attachment(blob="b", name="n", type=files, size=1),)
    mail = Mail(tenant="acme", sender="a@x.example", text="t", **{**facts, "to": (facts["to"],)})

    with pytest.raises(Fail, match="cannot be written"):
        asyncio.run(box.submit(mail, "k"))


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/messages", {"at": "0001-01-01T00:00:00+12:00"}),
        ("/messages", {"at": "2020-01-01T00:00:00Z"}),
    ],
)
def test_a_time_that_is_over_is_now(
    room: Room, acme: Browser, path: str, body: dict[str, str]
) -> None:
    assert posted(acme, "k", **body).status_code == 202
    room.h.advance("1m")
    assert ends(room) == {"k": "sent"}


def test_numbers_and_lines_that_nobody_has_are_refused(room: Room, acme: Browser) -> None:
    assert acme.get(f"/messages?before={2**63}").status_code == 422
    assert acme.get("/messages?before=-1").json()["messages"] == []
    for mark in ("\u2028", "\u2029", "\x85"):
        assert posted(acme, "k", subject=f"a{mark}b").status_code == 422


@pytest.mark.parametrize(
    "text",
    [
        "{% if a %}" * 120 + "{% endif %}" * 120,
        "{{ a" + ".b" * 300 + " }}",
        "{{ a" + "|lower" * 300 + " }}",
        "{{ " + "9" * 5000 + " }}",
    ],
    ids=["ifs", "dots", "filters", "digits"],
)
def test_a_template_that_python_cannot_compile_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"^text"):
        templates.compiled(text, templates.PLAIN, "text")


def test_rounding_takes_no_power_of_ten_that_never_ends() -> None:
    def made(text: str) -> str:
        stored = templates.Stored(name="t", subject="s", text=text)
        return templates.render(stored, {"a": 1.25}).text

    assert made("{{ a|round }} {{ a|round(1, 'floor') }}") == "1.0 1.2"
    for digits in ("1000000000", "a", "-1"):
        with pytest.raises(UsageError, match="digits"):
            made(f"{{{{ a|round({digits}, 'ceil') }}}}")


@pytest.mark.parametrize(
    "head",
    ['text/plain; charset="nowhere"', "text/plain; charset=idna", "text/html; charset=undefined"],
)
def test_a_mail_in_a_charset_that_is_none_is_refused(head: str) -> None:
    content = f"To: b@x.example\r\nContent-Type: {head}\r\n\r\n".encode() + b"\xff\xfe\r\n"

    try:
        found = parsing.messages(parsing.read(content), ["b@x.example"], content)
    except UsageError:
        return
    assert found[0][1].recipients == ("b@x.example",)
