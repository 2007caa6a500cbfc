"""SMTP: who may send, what is taken, and what a sender is left in doubt about."""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import EmailMessage

import pytest

from systems.twins import Twins, twins
from systems.twins.tests.conftest import Standing

TWINS = ("smtp",)


def mail(text: str = "Hi", id_: str = "<order-881@demo.example>") -> EmailMessage:
    message = EmailMessage()
    message["From"], message["To"] = "n@demo.example", "ana@demo.example"
    message["Subject"], message["Message-ID"] = "Grüße", id_
    message.set_content(text)
    return message


@contextmanager
def client(t: Twins, user: str | None = "demo", password: str = "secret") -> Iterator[smtplib.SMTP]:
    found = smtplib.SMTP(*t.smtp.address, timeout=5)
    try:
        found.ehlo("tests")
        if user is not None:
            found.login(user, password)
        yield found
    finally:
        found.close()


def test_a_mail_is_taken_from_who_may_send(t: Twins) -> None:
    with client(t) as sender:
        sender.send_message(mail())

    entry = t.smtp.ledger.of("mail")[0]
    assert t.smtp.ledger.counts("key") == {"<order-881@demo.example>": 1}
    assert (entry["sender"], entry["to"]) == ("n@demo.example", "ana@demo.example")
    assert entry["subject"] == "Grüße"


def test_without_a_login_nothing_is_taken(t: Twins) -> None:
    with client(t, None) as sender, pytest.raises(smtplib.SMTPSenderRefused) as refused:
        sender.send_message(mail())

    assert refused.value.smtp_code == 530
    assert t.smtp.ledger.entries == []


def test_a_wrong_password_is_535(t: Twins) -> None:
    with pytest.raises(smtplib.SMTPAuthenticationError) as refused, client(t, password="wrong"):
        pass

    assert refused.value.smtp_code == 535


def test_a_login_need_not_be_required(t: Twins) -> None:
    t.smtp.set_auth(required=False)

    with client(t, None) as sender:
        sender.send_message(mail())

    assert len(t.smtp.ledger.entries) == 1


def test_a_mail_that_is_too_large_is_552_before_or_after_its_data(t: Twins) -> None:
    t.smtp.set_size(1000)

    with client(t) as sender:
        assert sender.esmtp_features["size"] == "1000"
        with pytest.raises(smtplib.SMTPSenderRefused) as before:
            sender.send_message(mail("x" * 2000))
    with client(t) as sender:
        sender.mail("n@demo.example")
        sender.rcpt("ana@demo.example")
        after = sender.data(b"x" * 500 + b"\r\n" + b"y" * 900)

    assert before.value.smtp_code == 552
    assert after[0] == 552
    assert t.smtp.ledger.entries == []


def test_a_new_sender_is_greylisted_and_taken_when_it_comes_again(
    t: Twins, clock: Standing
) -> None:
    t.smtp.set_greylist(300)

    codes = []
    for wait in (0, 299, 1):
        clock.forward(wait)
        with client(t) as sender:
            sender.mail("n@demo.example")
            codes.append(sender.rcpt("ana@demo.example"))

    assert [code for code, _ in codes] == [451, 451, 250]
    assert codes[0][1] == b"4.7.1 Greylisted, try again in 300 s"


def test_an_address_may_be_refused_for_now_or_for_good(t: Twins) -> None:
    t.smtp.set_answer("moved@demo.example", "551 5.1.6 User has moved")

    with client(t) as sender:
        sender.mail("n@demo.example")
        codes = [
            sender.rcpt(f"{name}@demo.example")[0] for name in ("nobody", "full", "moved", "ana")
        ]

    assert codes == [550, 452, 551, 250]


def test_one_mail_may_have_several_recipients_and_a_message_is_one_entry(t: Twins) -> None:
    with client(t) as sender:
        refused = sender.send_message(
            mail(), to_addrs=["ana@demo.example", "bob@demo.example", "nobody@demo.example"]
        )

    assert list(refused) == ["nobody@demo.example"]
    assert [entry["to"] for entry in t.smtp.ledger.entries] == ["ana@demo.example,bob@demo.example"]


def test_a_connection_dropped_after_data_leaves_the_mail_delivered(t: Twins) -> None:
    t.smtp.faults.set([{"route": "data", "calls": "1", "do": "drop_after"}])

    with client(t) as sender, pytest.raises(smtplib.SMTPServerDisconnected):
        sender.send_message(mail())
    with client(t) as sender:
        sender.send_message(mail())

    # There is no key in SMTP: the same mail came twice, and only its Message-ID tells.
    assert t.smtp.ledger.counts("key") == {"<order-881@demo.example>": 2}


def test_a_connection_dropped_before_data_leaves_nothing(t: Twins) -> None:
    t.smtp.faults.set([{"route": "data", "do": "drop_before"}])

    with client(t) as sender, pytest.raises(smtplib.SMTPServerDisconnected):
        sender.send_message(mail())

    assert t.smtp.ledger.entries == []
    assert t.smtp.log.of("data")[0].status is None


@pytest.mark.parametrize(
    ("route", "status", "error"),
    [
        ("mail", 421, smtplib.SMTPSenderRefused),
        ("rcpt", 450, smtplib.SMTPRecipientsRefused),
        ("data", 451, smtplib.SMTPDataError),
        ("data", 554, smtplib.SMTPDataError),
        ("auth", 535, smtplib.SMTPAuthenticationError),
    ],
)
def test_each_command_can_be_refused(
    t: Twins, route: str, status: int, error: type[Exception]
) -> None:
    t.smtp.faults.set([{"route": route, "do": "status", "status": status}])

    with pytest.raises(error), client(t) as sender:
        sender.send_message(mail())

    assert t.smtp.ledger.entries == []
    assert t.smtp.log.of(route)[0].status == status


def test_a_greeting_can_be_refused(t: Twins) -> None:
    t.smtp.faults.set([{"route": "ehlo", "do": "status", "status": 421}])

    with smtplib.SMTP(*t.smtp.address, timeout=5) as sender:
        assert sender.ehlo("tests")[0] == 421


def test_a_mail_may_be_taken_and_called_refused(t: Twins) -> None:
    t.smtp.faults.set([{"route": "data", "do": "status", "status": 451, "effect": True}])

    with client(t) as sender, pytest.raises(smtplib.SMTPDataError):
        sender.send_message(mail())

    assert len(t.smtp.ledger.entries) == 1


def test_an_answer_may_be_late_broken_or_missing(t: Twins) -> None:
    t.smtp.faults.set(
        [
            {"route": "mail", "calls": "1", "do": "delay", "seconds": 0.05},
            {"route": "mail", "calls": "2", "do": "malformed"},
            {"route": "mail", "calls": "3", "do": "never"},
        ]
    )
    with client(t) as sender:
        late = sender.mail("n@demo.example")
    with client(t) as sender:
        broken = sender.mail("n@demo.example")
    with client(t) as sender:
        assert sender.sock is not None
        sender.sock.settimeout(0.2)
        with pytest.raises(smtplib.SMTPServerDisconnected):
            sender.mail("n@demo.example")

    assert late[0] == 250
    assert broken[0] == -1


def test_starttls_is_offered_under_the_test_authority() -> None:
    with twins(None, "smtp", https=["smtp"]) as t:
        context = ssl.create_default_context(cafile=t.ca)
        with smtplib.SMTP("localhost", t.smtp.address[1], timeout=5) as sender:
            sender.ehlo("tests")
            before = sender.has_extn("auth")
            sender.starttls(context=context)
            sender.login("demo", "secret")
            sender.send_message(mail())

        assert not before
        assert t.smtp.ledger.entries[0]["tls"] is True
