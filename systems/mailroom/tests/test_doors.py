"""Other ways in: SMTP with AUTH, and Django's own mail."""

from __future__ import annotations

import asyncio
import os
import smtplib
import subprocess
import sys
import threading
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from duework import UsageError
from systems.mailroom import board, keys
from systems.mailroom.doors import smtp as door
from systems.mailroom.doors.parsing import messages, read
from systems.mailroom.tenant import Tenant
from systems.mailroom.tests.conftest import Room, settings_for

ROOT = Path(__file__).parents[3]


class Post:
    """The door, in a thread of its own, and a client of it."""

    def __init__(self, room: Room, host: str, port: int) -> None:
        self.room, self.host, self.port = room, host, port
        self.key = keys.new_key(room.app, "acme")

    def send(self, mail: EmailMessage, to: list[str], user: str = "acme", key: str = "") -> None:
        with smtplib.SMTP(self.host, self.port, timeout=10) as client:
            client.login(user, key or self.key)
            client.send_message(mail, "me@mail.demo.example", to)


@pytest.fixture
def smtp(room: Room) -> Iterator[Post]:
    loop, ready = asyncio.new_event_loop(), threading.Event()
    found: list[Any] = []

    async def run() -> None:
        server = await door.serve("127.0.0.1", 0)
        found.extend([server, server.sockets[0].getsockname()])
        ready.set()

    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    asyncio.run_coroutine_threadsafe(run(), loop).result(10)
    ready.wait(10)
    yield Post(room, *found[1][:2])
    loop.call_soon_threadsafe(found[0].close)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()


def written(subject: str = "Hello", **headers: str) -> EmailMessage:
    mail = EmailMessage()
    mail["From"], mail["To"] = "Me <me@mail.demo.example>", "Ada <ada@demo.example>"
    mail["Subject"], mail["Message-ID"] = subject, "<1@program>"
    for name, value in headers.items():
        mail[name.replace("_", "-")] = value
    mail.set_content("Grüße")
    return mail


def test_a_mail_comes_in_by_smtp_and_goes_out_once_however_often_it_is_handed_over(
    room: Room, smtp: Post
) -> None:
    mail = written("Zähne")
    mail.add_alternative("<p>Grüße</p>", subtype="html")
    mail.add_attachment(b"%PDF", maintype="application", subtype="pdf", filename="a.pdf")
    for _ in range(3):
        smtp.send(mail, ["ada@demo.example"])
    room.h.advance("1m")

    [line] = board.listed(room.app)
    assert (line["tenant"], line["state"], line["subject"]) == ("acme", "sent", "Zähne")
    stored = board.found(line["id"]).message
    assert stored["text"].strip() == "Grüße"
    assert [each["name"] for each in stored["attachments"]] == ["a.pdf"]
    assert sum(room.delivered().values()) == 1


def test_nothing_is_taken_without_a_key_of_the_tenant(room: Room, smtp: Post) -> None:
    for user, key in (("acme", "wrong"), ("birch", smtp.key), ("acme", "mr_x"), ("", smtp.key)):
        with pytest.raises(smtplib.SMTPAuthenticationError):
            smtp.send(written(), ["ada@demo.example"], user, key)
    with smtplib.SMTP(smtp.host, smtp.port, timeout=10) as client:
        client.ehlo()
        assert client.mail("me@mail.demo.example")[0] == 530
    assert board.listed(room.app) == []


def test_who_stands_in_no_header_is_seen_by_nobody(room: Room, smtp: Post) -> None:
    smtp.send(written(), ["ada@demo.example", "eve@demo.example", "bob@demo.example"])

    assert sorted(each["to"] for each in board.listed(room.app)) == [
        ["ada@demo.example"],
        ["bob@demo.example"],
        ["eve@demo.example"],
    ]


def test_too_large_too_many_and_over_the_limit_are_refused(
    room: Room, smtp: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings_for(monkeypatch, endpoint=room.acs.url, smtp_size=2000)
    large = written()
    large.set_content("x" * 5000)
    with pytest.raises(smtplib.SMTPSenderRefused) as caught:
        smtp.send(large, ["ada@demo.example"])
    assert caught.value.smtp_code == 552
    with pytest.raises(smtplib.SMTPDataError) as refused:
        smtp.send(written(Idempotency_Key="has a space"), ["ada@demo.example"])
    assert refused.value.smtp_code == 554
    room.app.object(Tenant, "acme").set_limit(0).result()
    with pytest.raises(smtplib.SMTPDataError) as limited:
        smtp.send(written(), ["ada@demo.example"])
    assert limited.value.smtp_code == 452
    assert board.listed(room.app) == []


def test_passwords_do_not_go_in_the_open_over_a_network() -> None:
    with pytest.raises(UsageError, match="--cert"):
        asyncio.run(door.serve("0.0.0.0", 0))  # noqa: S104 - it is refused


@pytest.mark.parametrize("content", [b"", b"\r\n", b"hello"])
def test_what_is_no_mail_is_refused(content: bytes) -> None:
    with pytest.raises(UsageError):
        messages(read(content), ["ada@demo.example"], content)


# --- Django


@pytest.fixture
def site(room: Room) -> Iterator[str]:
    config = uvicorn.Config(room.app.asgi(), port=0, log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        thread.join(0.02)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(10)


@pytest.fixture
def django(room: Room, site: str) -> Any:
    from django.conf import settings
    from django.test.utils import override_settings

    if not settings.configured:
        settings.configure(DEFAULT_FROM_EMAIL="me@mail.demo.example")
    backend = "systems.mailroom.doors.django.EmailBackend"
    key = keys.new_key(room.app, "acme")
    with override_settings(EMAIL_BACKEND=backend, MAILROOM_URL=site, MAILROOM_KEY=key):
        yield settings


def test_djangos_own_mail_goes_through_the_mailroom(room: Room, django: Any) -> None:
    from django.core.mail import EmailMultiAlternatives, send_mail

    assert send_mail("Hello", "Hi", "me@mail.demo.example", ["ada@demo.example"]) == 1
    mail = EmailMultiAlternatives(
        "News",
        "Text",
        "Me <me@mail.demo.example>",
        ["Ada <ada@demo.example>"],
        bcc=["eve@demo.example"],
        headers={"Idempotency-Key": "news-7"},
    )
    mail.attach_alternative("<p>Html</p>", "text/html")
    mail.attach("a.txt", "hello", "text/plain")
    assert [mail.send(), mail.send()] == [1, 1]

    room.h.advance("1m")

    lines = board.listed(room.app)
    assert {each["state"] for each in lines} == {"sent"}
    assert sorted(each["to"] for each in lines) == [
        ["ada@demo.example"],
        ["ada@demo.example"],
        ["eve@demo.example"],
    ]
    assert sum(room.delivered().values()) == 3


def test_django_hears_of_what_is_not_taken(room: Room, django: Any) -> None:
    from django.core.mail import get_connection, send_mail

    from systems.mailroom.doors.django import NotTaken

    room.app.object(Tenant, "acme").set_limit(0).result()
    facts = ("Hello", "Hi", "me@mail.demo.example", ["ada@demo.example"])
    with pytest.raises(NotTaken, match="429"):
        send_mail(*facts)
    assert send_mail(*facts, fail_silently=True) == 0
    nowhere = get_connection(url="http://127.0.0.1:9", timeout=0.5)
    with pytest.raises(NotTaken, match="does not answer"):
        send_mail(*facts, connection=nowhere)
    with pytest.raises(ValueError, match="MAILROOM_URL"):
        get_connection(url="ftp://x", key="y")
    assert board.listed(room.app) == []


@pytest.mark.slow
def test_the_command_listens_in_a_process_of_its_own_and_stops_when_it_is_told(
    tmp_path: Path,
) -> None:
    environment = {**os.environ, "DUEWORK_URL": f"sqlite:///{tmp_path / 'mail.db'}"}
    line = [sys.executable, "-m", "duework", "mailroom", "--app", "systems.mailroom:app"]
    made = subprocess.run(
        [*line, "key", "acme"],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    with subprocess.Popen(
        [*line, "smtp", "--listen", "127.0.0.1:0"],
        env=environment,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        port = int(said.partition("127.0.0.1:")[2].partition(";")[0])
        with smtplib.SMTP("127.0.0.1", port, timeout=30) as client:
            client.login("acme", made.stdout.strip())
            client.send_message(written(), "me@mail.demo.example", ["ada@demo.example"])
        process.terminate()
        assert process.wait(30) == 0
    listed = subprocess.run(
        [*line, "list"], env=environment, cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "queued" in listed.stdout
    assert "Hello" in listed.stdout
