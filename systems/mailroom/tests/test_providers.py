"""The other providers: Resend under a key, SMTP without one."""

from __future__ import annotations

import pytest

from duework import App, OutboxHandle
from duework.testing import Harness
from systems.mailroom.mail import Mail
from systems.mailroom.outbox import MailOutbox
from systems.mailroom.providers.smtp import message_id
from systems.mailroom.settings import Settings
from systems.twins import Twins, twins


class Bench:
    """An outbox of its own on one provider."""

    def __init__(self, provider: str) -> None:
        self.app = App("sqlite://")
        self.settings = Settings(provider=provider)
        self.outbox = MailOutbox(lambda: self.settings, self.app.now)
        self.box: OutboxHandle[Mail] = self.app.outbox("mail", self.outbox)

    def lead_to(self, address: str) -> None:
        self.settings = Settings(provider=self.settings.provider, endpoint=address)

    def send(self, number: int, to: str = "ada@demo.example", **more: str) -> int:
        mail = Mail(
            tenant="acme", sender="me@demo.example", to=(to,), subject=f"Mail {number}", **more
        )
        return self.box.using(key=f"acme:{number}").enqueue(mail).id

    def state(self, identifier: int) -> tuple[str, str | None]:
        found = self.box.get_message(identifier)
        return found.state, found.error


@pytest.fixture
def resend() -> Bench:
    return Bench("resend")


@pytest.fixture
def smtp() -> Bench:
    return Bench("smtp")


def lost(t: Twins, name: str, route: str, calls: str = "1..2") -> None:
    twin = next(each for each in t.all if each.name == name)
    twin.faults.set([{"route": route, "calls": calls, "do": "drop_after"}])


def test_resend_has_each_mail_once_although_replies_are_lost(resend: Bench) -> None:
    with Harness(resend.app) as h, twins(h.clock, "resend") as t:
        resend.settings = Settings(provider="resend", endpoint=t.resend.url)
        lost(t, "resend", "*")
        sent = [resend.send(number, text="Hi", html="<p>Hi</p>") for number in range(10)]
        h.advance("5m")
        assert {resend.state(each) for each in sent} == {("sent", None)}
        keys = {f"acme:{number}": 1 for number in range(10)}
        assert t.resend.ledger.counts("key") == keys
        assert t.resend.log.over_limit() == []


def test_resend_refuses_in_its_own_words(resend: Bench) -> None:
    with Harness(resend.app) as h, twins(h.clock, "resend") as t:
        resend.lead_to(t.resend.url)
        bad = resend.send(1)  # neither a text nor an html
        h.drain()
        state, error = resend.state(bad)
        assert state == "failed"
        assert error is not None
        assert error.startswith("422: ")


def test_smtp_sends_once_and_calls_unsure_what_nobody_can_tell(smtp: Bench) -> None:
    with Harness(smtp.app) as h, twins(h.clock, "smtp") as t:
        host, port = t.smtp.address
        smtp.lead_to(f"smtp://{host}:{port}")
        good = smtp.send(1, text="Hi", html="<p>Hi</p>", reply_to="help@demo.example")
        h.drain()
        assert smtp.state(good) == ("sent", None)
        lost(t, "smtp", "data", "1")
        doubtful = smtp.send(2, text="Hi")
        h.advance("2h")
        assert smtp.state(doubtful)[0] == "unsure"
        counts = t.smtp.ledger.counts("key")
        assert counts == {message_id("acme:1"): 1, message_id("acme:2"): 1}


@pytest.mark.parametrize(("status", "state"), [(450, "sent"), (550, "failed")])
def test_smtp_comes_back_after_4xx_and_gives_up_after_5xx(
    smtp: Bench, status: int, state: str
) -> None:
    with Harness(smtp.app) as h, twins(h.clock, "smtp") as t:
        host, port = t.smtp.address
        smtp.lead_to(f"smtp://{host}:{port}")
        t.smtp.faults.set([{"route": "rcpt", "calls": "1", "do": "status", "status": status}])
        mail = smtp.send(1, text="Hi")
        h.advance("5m")
        assert smtp.state(mail)[0] == state


def test_a_provider_that_is_not_there_loses_nothing(smtp: Bench, resend: Bench) -> None:
    for bench, address in ((smtp, "smtp://127.0.0.1:9"), (resend, "http://127.0.0.1:9")):
        with Harness(bench.app) as h:
            bench.lead_to(address)
            mail = bench.send(1, text="Hi")
            h.drain()
            assert bench.state(mail)[0] == "queued"
