"""Failover never sends twice: another provider only gets what no other can have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from duework import App, OutboxHandle
from systems.mailroom import blobs
from systems.mailroom.mail import Mail
from systems.mailroom.outbox import MailOutbox
from systems.mailroom.part import part
from systems.mailroom.settings import Settings
from systems.mailroom.tests.conftest import settings_for
from systems.mailroom.tries import Tries, of_message
from systems.twins import Twins, twins
from tests.support.harness import HarnessOn


class Chain:
    """A second outbox beside the mailroom's, with a chain of providers."""

    def __init__(self, app: App, settings: Settings) -> None:
        self.settings, self.app = settings, app
        self.outbox = MailOutbox(lambda: self.settings, app.now, Tries(lambda: app), blobs.load)
        self.box: OutboxHandle[Mail] = app.outbox("chain", self.outbox)

    def send(self, number: int) -> int:
        mail = Mail(
            tenant="acme",
            sender="me@mail.demo.example",
            to=("ada@demo.example",),
            subject=f"Mail {number}",
            text="Hi",
        )
        return self.box.using(key=f"acme:{number}", lane="acme").enqueue(mail).id

    def state(self, identifier: int) -> str:
        return self.box.get_message(identifier).state

    def tried(self, number: int) -> dict[str, str]:
        return {row.provider: row.state for row in of_message(self.app, [f"acme:{number}"])}


class Bench:
    def __init__(self, chain: Chain, h: Any, t: Twins) -> None:
        self.chain, self.h, self.t = chain, h, t

    def arrived(self) -> int:
        """Over all receivers, counting every copy."""
        return sum(sum(each.ledger.counts("key").values()) for each in self.t.all)


@pytest.fixture
def bench(emptied: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    app = App(emptied)
    app.include(part)
    chain = Chain(app, Settings(fallback=("resend", "smtp")))
    with HarnessOn(app, emptied) as h, twins(h.clock, "acs", "resend", "smtp") as t:
        t.acs.set_plan("raised")
        settings_for(monkeypatch, endpoint=t.acs.url)
        host, port = t.smtp.address
        places = {"resend_endpoint": t.resend.url, "smtp_endpoint": f"smtp://{host}:{port}"}
        chain.settings = msgspec.structs.replace(chain.settings, endpoint=t.acs.url, **places)
        yield Bench(chain, h, t)


def test_the_first_provider_has_it_and_no_other_is_asked(bench: Bench) -> None:
    mail = bench.chain.send(1)

    bench.h.advance("1m")

    assert bench.chain.state(mail) == "sent"
    assert bench.chain.tried(1) == {"acs": "trying"}
    assert bench.arrived() == 1


@pytest.mark.parametrize("status", [401, 429])
def test_what_the_first_is_known_not_to_have_goes_to_the_second(bench: Bench, status: int) -> None:
    bench.t.acs.faults.set([{"route": "send", "calls": "1..99", "do": "status", "status": status}])
    mail = bench.chain.send(1)

    bench.h.advance("1m")

    assert bench.chain.state(mail) == "sent"
    assert bench.chain.tried(1) == {"acs": "refused", "resend": "trying"}
    assert bench.arrived() == 1


def test_one_that_is_not_there_is_left_out_and_the_last_one_takes_it(bench: Bench) -> None:
    nowhere = "http://127.0.0.1:9"
    bench.chain.settings = msgspec.structs.replace(
        bench.chain.settings, endpoint=nowhere, resend_endpoint=nowhere
    )
    mail = bench.chain.send(1)

    bench.h.advance("1m")

    assert bench.chain.state(mail) == "sent"
    assert bench.chain.tried(1) == {"acs": "refused", "resend": "refused", "smtp": "trying"}


@pytest.mark.parametrize(
    "fault",
    [
        {"route": "send", "calls": "1", "do": "drop_after"},
        {"route": "send", "calls": "1", "do": "drop_before"},
        {"route": "send", "calls": "1", "do": "status", "status": 500},
    ],
)
def test_what_the_first_may_have_is_asked_there_again_and_nowhere_else(
    bench: Bench, fault: dict[str, Any]
) -> None:
    bench.t.acs.faults.set([fault])
    mail = bench.chain.send(1)

    bench.h.advance("5m")

    assert bench.chain.state(mail) == "sent"
    assert bench.chain.tried(1) == {"acs": "trying"}
    assert bench.arrived() == 1


def test_what_a_provider_without_keys_may_have_is_unsure(bench: Bench) -> None:
    nowhere = "http://127.0.0.1:9"
    bench.chain.settings = msgspec.structs.replace(
        bench.chain.settings, endpoint=nowhere, resend_endpoint=nowhere
    )
    bench.t.smtp.faults.set([{"route": "data", "calls": "1", "do": "drop_after"}])
    mail = bench.chain.send(1)

    bench.h.advance("1h")

    assert bench.chain.state(mail) == "unsure"
    assert bench.arrived() == 1


def test_a_worker_that_dies_at_any_statement_sends_nothing_twice(bench: Bench) -> None:
    """Every second one is refused by the first provider, so that the way to the second is walked, too."""
    crashes = 0
    for number in range(20):
        bench.t.acs.faults.set(
            [{"route": "send", "calls": "1", "do": "status", "status": 401}] if number % 2 else []
        )
        bench.chain.send(number)
        crashes += bench.h.crash_worker(at=1 + number)
        bench.h.advance("2m")
    bench.h.advance("1h")

    assert crashes > 10
    counts = [each for twin in bench.t.all for each in twin.ledger.counts("key").values()]
    assert max(counts) == 1
    states = [bench.chain.box.get_message(each.id).state for each in bench.chain.box.messages()]
    assert set(states) <= {"sent", "unsure"}
    assert sum(counts) >= states.count("sent")
    assert sum(counts) <= 20


def test_a_mail_that_is_refused_for_good_is_not_offered_elsewhere(bench: Bench) -> None:
    bench.t.acs.faults.set([{"route": "send", "calls": "1", "do": "status", "status": 400}])
    mail = bench.chain.send(1)

    bench.h.advance("1m")

    assert bench.chain.state(mail) == "failed"
    assert bench.arrived() == 0


def test_a_chain_names_each_provider_once() -> None:
    for wrong in (("acs",), ("smtp", "smtp")):
        with pytest.raises(ValueError, match="each once"):
            Settings(fallback=wrong)
